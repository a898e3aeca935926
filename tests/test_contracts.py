"""Contracts of the rooms hold, and fail when they should: for a planted import or a stray file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest

pytestmark = pytest.mark.all_cases

HOME = Path(__file__).parents[1]
CONTRACTS = tomllib.loads((HOME / "pyproject.toml").read_text())["tool"]["importlinter"][
    "contracts"
]
LAYERS = [
    [room.strip() for room in layer.replace("|", ":").split(":")]
    for contract in CONTRACTS
    if contract["type"] == "layers"
    for layer in contract["layers"]
]
FORBIDDEN = {
    contract["name"]: (contract["source_modules"], contract["forbidden_modules"])
    for contract in CONTRACTS
    if contract["type"] == "forbidden"
}


@pytest.fixture
def house(tmp_path: Path) -> Path:
    """A copy of the house to spoil."""
    shutil.copy(HOME / "pyproject.toml", tmp_path)
    ignored = shutil.ignore_patterns("__pycache__")
    for source in (HOME / "src/silot", HOME / "packages/silot-transport/src/silot_transport"):
        shutil.copytree(source, tmp_path / "src" / source.name, ignore=ignored)
    return tmp_path


def plant(house: Path, module: str, other: str) -> None:
    """Let a module import another."""
    place = house / "src" / module.replace(".", "/")
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    file.write_text(f"{file.read_text()}\nimport {other}\n")


def linted(house: Path) -> tuple[int, str]:
    # Without site (-S), for the finder of an editable install knows the house alone that is here.
    linter = Path(sys.executable).with_name("lint-imports")
    command = [sys.executable, "-S", str(linter), "--no-cache"]
    paths = os.pathsep.join([str(house / "src"), *sys.path])
    done = subprocess.run(
        command,
        cwd=house,
        env=os.environ | {"PYTHONPATH": paths, "COLUMNS": "200"},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout


def test_the_contracts_hold(house: Path) -> None:
    status, text = linted(house)
    assert status == 0, text


def test_an_import_upwards_is_seen_in_every_room(house: Path) -> None:
    planted = [
        (f"silot.{room}", f"silot.{above[0]}")
        for above, rooms in pairwise(LAYERS)
        for room in rooms
    ]
    for module, other in planted:
        plant(house, module, other)
    status, text = linted(house)
    assert status == 1
    assert [pair for pair in planted if f"{pair[0]} -> {pair[1]}" not in text] == []


@pytest.mark.heavy
@pytest.mark.parametrize("contract", FORBIDDEN)
def test_what_a_room_may_never_import_is_seen(house: Path, contract: str) -> None:
    rooms, others = FORBIDDEN[contract]
    planted = [(room, other) for room in rooms for other in others]
    for room, other in planted:
        plant(house, room, other)
    status, text = linted(house)
    assert status == 1
    assert [pair for pair in planted if f"{pair[0]} -> {pair[1]}" not in text] == []


def test_a_file_of_no_room_is_seen(house: Path) -> None:
    (house / "src/silot/stray.py").write_text('"""Nowhere."""\n')
    status, text = linted(house)
    assert status == 1 and "stray" in text
