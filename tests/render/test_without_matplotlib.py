"""What silot does where matplotlib, which draws figures, is not installed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.api.report import render
from silot.distances import DistanceMatrix
from silot.errors import ExtraError
from silot.records.figures import thumbnails
from tests.render.test_report import Page, svgs

# A process in which matplotlib, and what it brings, cannot be imported.
WITHOUT = (
    "import sys; sys.modules.update(dict.fromkeys(('matplotlib', 'PIL', 'fontTools')))\n"
    "from silot.cli import main\n"
    "sys.argv = ['silot', *sys.argv[1:]]\n"
    "main()\n"
)
RNG = np.random.default_rng(0)
DATA = {name: RNG.normal(size=(12, 2)) + k for k, name in enumerate(("north", "south", "west"))}
SAID = "pip install 'silot[plot]'"


@pytest.fixture
def absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT, *words],
        capture_output=True,
        text=True,
        cwd=folder,
        check=False,
    )


@pytest.mark.usefixtures("absent")
@pytest.mark.parametrize(
    "compute",
    [
        lambda: silot.distance(DATA["north"], DATA["south"], method="fedwad", rounds=2),
        lambda: silot.distance_matrix(DATA),
        lambda: silot.value_holders(DATA, DATA["west"]),
        lambda: silot.barycenter(DATA, rounds=2, support=4),
    ],
    ids=["distance", "matrix", "worth", "barycenter"],
)
def test_a_plot_names_the_extra_and_a_report_says_what_is_missing(
    compute: Callable[[], Any],
) -> None:
    result = compute()
    with pytest.raises(ExtraError) as caught:
        result.plot()
    assert caught.value.code == "extra-plot" and caught.value.message.endswith(SAID)
    page = Page(render(result))
    assert svgs(page) == []
    # Intervals are drawn without it.
    is_drawn = not isinstance(result, DistanceMatrix)
    assert (SAID in page.text and "not drawn" in page.text) is not is_drawn


@pytest.mark.usefixtures("absent")
def test_small_images_of_records_need_no_matplotlib() -> None:
    assert len(thumbnails(np.zeros((3, 4, 4)), np.arange(3))) == 3


@pytest.mark.heavy
def test_a_distance_and_its_report_need_no_matplotlib(tmp_path: Path) -> None:
    for name in ("a", "b"):
        np.savetxt(
            tmp_path / f"{name}.csv", DATA["north"], delimiter=",", header="u,v", comments=""
        )
    done = run(tmp_path, "distance", "a.csv", "b.csv", "-m", "fedwad", "--report", "page.html")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("W2 ")
    assert SAID not in (tmp_path / "page.html").read_text(encoding="utf-8")


@pytest.mark.heavy
@pytest.mark.parametrize(
    "command",
    ["distance matrix", "distance groups", "distance barycenter", "train coreset"],
)
def test_a_flag_to_plot_is_refused_before_anything_is_read(command: str, tmp_path: Path) -> None:
    size = ["--size", "4"] if command == "train coreset" else []
    done = run(tmp_path, *command.split(), "none.csv", "nowhere.csv", *size, "--plot", "out.png")
    assert done.returncode == ExtraError.exit_status
    assert "[extra-plot]" in done.stderr and "none.csv" not in done.stderr


@pytest.mark.slow
def test_the_demo_says_that_its_heat_maps_are_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "demo")
    assert (done.returncode, done.stderr) == (0, "")
    assert f"heat maps: not drawn without matplotlib: {SAID}" in done.stdout
    assert (tmp_path / "silot-demo" / "audit.html").exists()
    assert not (tmp_path / "silot-demo" / "distances.png").exists()
