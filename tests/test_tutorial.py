"""The walk-through of releases: its commands run on two machines that share files alone."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from examples import hospitals
from tests.test_pages import ROOT, at_desk, fences

PAGE = ROOT / "docs" / "releases.md"
MACHINES = ("hospitals", "coordinator")


def steps() -> list[tuple[str, str, str]]:
    """Machine, command and what it prints."""
    found: list[tuple[str, str, str]] = []
    kinds = {f"text {machine}" for machine in MACHINES}
    for fence in (each for each in fences(PAGE) if each.kind in kinds):
        command, _, printed = fence.text.partition("\n")
        found.append((fence.kind.removeprefix("text "), command.removeprefix("$ "), printed))
    return found


def words(text: str) -> list[list[str]]:
    """Words of each line without numbers, keys and digests: noise is drawn anew every time."""
    kept = re.sub(r"\S*\d\S*|[0-9a-f]{4}(-[0-9a-f]{4})+\S*|[-\u2212]", "", text)
    return [line.split() for line in kept.strip().splitlines() if line.split()]


@pytest.mark.slow
def test_the_page_goes_from_raw_tables_to_a_ranking_by_files_alone(tmp_path: Path) -> None:
    hospitals.main(tmp_path)
    site, registry = (tmp_path / machine for machine in MACHINES)
    done: list[str] = []
    for machine, command, stated in steps():
        assert machine in MACHINES
        if command.startswith("cat "):
            assert (tmp_path / machine / command[4:]).read_text().strip() == stated.strip()
            continue
        if machine == "coordinator" and not list(registry.glob("*.release")):
            _others(site, next(each for each in done if each.startswith("silot release east")))
            for path in site.glob("*.release"):
                shutil.move(path, registry)
        ended = at_desk(tmp_path / machine, command)
        assert ended.returncode == 0, ended.stderr
        done.append(command)
        if "combine" in command:
            # Ranks by estimates: the order of near ones is chance.
            assert _ranking(registry, command)[2:] == ["east", "west", "coast"]
        else:
            assert words(ended.stdout) == words(stated), ended.stdout
    names = {path.name for path in registry.iterdir()}
    assert not names & {f"{name}.csv" for name in hospitals.HOSPITALS}
    assert len([each for each in done if each.startswith("silot ")]) <= 6


def _others(site: Path, command: str) -> None:
    """What the other hospitals type."""
    for name in hospitals.HOSPITALS:
        if name != "east":
            theirs = command.replace("east", name)
            if name not in hospitals.SITES:
                theirs = theirs.replace(f"--site {name}.site.yml ", "")
            ended = at_desk(site, theirs)
            assert ended.returncode == 0, ended.stderr


def _ranking(registry: Path, command: str) -> list[str]:
    body = json.loads(at_desk(registry, f"{command} --json").stdout)
    ranked = sorted(body["values"]["holders"], key=lambda item: item["distance"]["value"])
    return [item["holder"] for item in ranked]
