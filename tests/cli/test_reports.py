"""What a run asks, tells, costs and finds does not depend on who shows it, or how."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
import yaml
from rich.console import Console
from sklearn.datasets import load_digits
from typer.testing import CliRunner

import silot
from silot.cli import console
from silot.cli.app import app
from silot.cli.tree import name_call
from silot.federation import Transcript
from tests.cli.test_brief import walk

EXAMPLE = Path(__file__).parents[2] / "examples" / "network.yml"
torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)
HOLDERS = ("north.npz", "south.npz", "west.npz")
# Times differ from run to run, and so does noise.
TIMES = ("seconds", "holder_seconds", "wall_seconds")

CASES: list[Any] = [
    pytest.param(("distance", "north.npz", "south.npz"), True, id="distance"),
    pytest.param(
        ("distance", "north.npz", "south.npz", "-m", "fedwad", "--rounds", "2"), True, id="fedwad"
    ),
    pytest.param(("distance", "matrix", *HOLDERS), False, id="matrix"),
    pytest.param(("distance", "groups", *HOLDERS, "--level", "0.1"), False, id="cluster"),
    pytest.param(("distance", "pooled", *HOLDERS, "--buyer", "mine.npz"), True, id="pooled"),
    pytest.param(
        ("distance", "barycenter", *HOLDERS, "--support", "20", "--rounds", "2"), True, id="centre"
    ),
    pytest.param(
        ("train", "coreset", *HOLDERS, "--size", "9", "--rounds", "2"), True, id="coreset"
    ),
    pytest.param(("value", *HOLDERS, "--validation", "mine.npz"), True, id="value"),
    pytest.param(
        ("value", *HOLDERS, "--validation", "mine.npz", "--labels"), True, id="value-labels"
    ),
    pytest.param(
        ("value", *HOLDERS, "--validation", "mine.npz", "--map", "direct"), True, id="value-map"
    ),
    pytest.param(
        ("value", *HOLDERS, "--validation", "mine.npz", "--records"), False, id="value-records"
    ),
    pytest.param(("value", *HOLDERS, "--support", "20", "--rounds", "2"), True, id="value-centre"),
    pytest.param(
        ("value", *HOLDERS, "--validation", "mine.npz", "-m", "direct"), True, id="value-direct"
    ),
    pytest.param(("records", "north.npz", "--validation", "mine.npz"), True, id="records"),
    pytest.param(("privacy", "audit", "run.silot", "--truth", "north.npz"), False, id="audit"),
    pytest.param(("train", "links", str(EXAMPLE)), False, id="links"),
    pytest.param(
        ("train", "links", "d0.npz", "d1.npz", "d2.npz", "--unlabelled=-1", "--divergence", "none"),
        False, id="links-of-data",
    ),
    pytest.param(
        ("train", "adapt", "d0.npz", "d1.npz", "d2.npz", "--unlabelled=-1", "--divergence", "none"),
        True, id="adapt",
    ),
    pytest.param(("train", *HOLDERS, "--rounds", "2"), True, id="train", marks=torch),
    pytest.param(("train", "distill", "distill.yml"), True, id="distill", marks=torch),
    pytest.param(
        ("release", "combine", "oct.release", "other.release", "--public", "p.npz"),
        False, id="combine",
    ),
    pytest.param(
        ("release", "watch", "oct.release", "nov.release", "--public", "p.npz"),
        False, id="watch",
    ),
]  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Holders and devices of digits, a saved run, and teachers of numbers."""
    place = tmp_path_factory.mktemp("reports")
    images, digits = load_digits(return_X_y=True)
    images, digits = images[:, 20:44], digits % 3
    for k, name in enumerate((*HOLDERS, "mine.npz")):
        rows = slice(60 * k, 60 * k + 60)
        np.savez(place / name, X=images[rows], y=digits[rows])
    for k in range(3):
        rows, test = slice(300 + 100 * k, 380 + 100 * k), slice(380 + 100 * k, 400 + 100 * k)
        known = digits[rows] if k < 2 else np.full(80, -1)
        np.savez(place / f"d{k}.npz", X=images[rows], y=known)
        np.savez(place / f"d{k}.test.npz", X=images[test], y=digits[test])
    rng = np.random.default_rng(0)
    for name, count in (("a.npz", 80), ("b.npz", 80), ("transfer.npz", 60)):
        codes = rng.integers(0, 3, count)
        np.savez(place / name, X=rng.normal(size=(count, 2)) + codes[:, None], y=codes)
    model = {"kind": "vectors", "hidden": [4], "dropout": 0}
    body = {
        "labels": {"names": ["low", "middle", "high"], "coordinates": [-1, 0, 1]},
        "global": {"model": model, "train": "a.npz", "fit": {"epochs": 2}},
        "teachers": {"north": "a.npz", "south": {"train": "b.npz"}},
        "transfer": "transfer.npz",
        "epochs": 2,
    }
    (place / "distill.yml").write_text(yaml.safe_dump(body))
    releases(place, rng)
    invoke(place, "distance", "north.npz", "south.npz", "--method", "fedwad", "--rounds", "2",
           "--transcript", "run.silot")  # fmt: skip
    return place


def releases(place: Path, rng: np.random.Generator) -> None:
    """Two months of one site, and one of another."""
    public = rng.normal(size=(300, 2))
    np.savez(place / "p.npz", X=public)
    for file, name in (("oct", "one"), ("nov", "one"), ("other", "two")):
        silot.release(
            rng.normal(size=(900, 2)), place / f"{file}.release", name=name, public=public,
            ledger=place / f"{name}.ledger", budget_epsilon=3.0, period=file,
        )  # fmt: skip


def invoke(folder: Path, *arguments: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", "80")
        done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, done.output
    return done.stdout


def without_times(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: without_times(v) for k, v in found.items() if k not in TIMES}
    return [without_times(value) for value in found] if isinstance(found, list) else found


def questions(path: Path) -> list[tuple[str, str, str]]:
    return [(k.holder, k.direction, repr(k.open())[:2000]) for k in Transcript.load(path).entries]


@pytest.mark.heavy
@pytest.mark.parametrize(("arguments", "transcript"), CASES)
def test_a_report_and_a_progress_bar_change_nothing_that_is_told(
    folder: Path, arguments: tuple[str, ...], transcript: bool, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    def saved(name: str) -> tuple[str, ...]:
        return ("--transcript", str(tmp_path / name)) if transcript else ()

    plain = invoke(folder, *arguments, "--json", *saved("plain"))
    monkeypatch.setattr(console, "ERRORS", Console(stderr=True, force_terminal=True))
    shown = invoke(
        folder, *arguments, "--json", "--report", str(tmp_path / "r.html"), *saved("shown")
    )
    assert without_times(json.loads(shown)) == without_times(json.loads(plain))
    assert (tmp_path / "r.html").stat().st_size > 1000
    if transcript:
        assert questions(tmp_path / "shown") == questions(tmp_path / "plain")
        # Nor does it matter whether the result is JSON.
        invoke(folder, *arguments, *saved("text"))
        assert questions(tmp_path / "text") == questions(tmp_path / "plain")


def test_every_command_with_a_report_is_among_the_cases() -> None:
    reporting = {
        name_call(words)
        for words, command in walk(typer.main.get_command(app))
        if any("--report" in option.opts for option in command.params)
    }
    # Parties of a secure distance are processes (tests/secure/test_parties.py), and a run that is
    # resumed needs sites (tests/cli/test_sites.py). Releases and schemas ask nobody.
    others = {"secure", "resume", "release", "show", "draft", "check"}
    assert reporting - others == {name_call(case.values[0]) for case in CASES}


def disclosed(folder: Path, *options: str) -> str:
    told = invoke(folder, "value", *HOLDERS, "--validation", "mine.npz", "--json", *options)
    return json.loads(told)["disclosure"]


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["target", "direct"])
def test_only_an_explicit_option_raises_what_is_disclosed(folder: Path, method: str) -> None:
    ways: dict[str, Callable[[], str]] = {
        "plain": lambda: disclosed(folder, "--method", method),
        "report": lambda: disclosed(folder, "--method", method, "--report", "r.html"),
        "map": lambda: disclosed(folder, "--method", method, "--map", "direct"),
        # The cost of the worth of holders: scores have one of their own.
        "records": lambda: disclosed(folder, "--method", method, "--records"),
    }
    found = {name: way() for name, way in ways.items()}
    assert (
        found["report"]
        == found["records"]
        == found["plain"]
        == ("statistics" if method == "target" else "record")
    )
    assert found["map"] == "record"
