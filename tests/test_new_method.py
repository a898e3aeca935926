"""A distance method is one class in one file: everything else finds it by itself."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import silot
from silot.cli.app import build
from silot.distances import pairwise as _pairwise

SOURCE = '''
"""Distance of Gaussians."""

from silot.errors import InputError
from silot.federation import Disclosure
from silot.options import number, option
from silot.sketch.methods import Pairwise
from silot.distances import Distance


class Gaussian(Pairwise):
    """Distance of the Gaussians that have the holders' moments (Gelbrich), a lower bound of W2."""

    name = "gaussian"
    disclosure = Disclosure.AGGREGATE
    sends = "mean and covariance"
    needs = "nothing"
    guarantees = "certified lower bound; none above"
    privacy = "none"

    slack: float = option("Lower the bound by this share.", number(least=0), default=0.0)

    def steps(self, sides):
        if self.p != 2:
            raise InputError("p is 1; Gaussians are compared by W2.", code="option-p")
        lower = (1.0 - self.slack) * (yield from sides.moments_bound())
        return Distance(
            value=lower, lower=lower, upper=float("inf"), method=self.name, p=2, seed=self.seed,
            status="lower bound: moments tell no more", converged=False, holders=sides.names,
        )
'''
RNG = np.random.default_rng(0)
HOLDERS = {name: RNG.normal(size=(20, 2)) + k for k, name in enumerate("abc")}


@pytest.fixture(autouse=True)
def gaussian(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the method into a module of its own, import it, and forget it afterwards."""
    (tmp_path / "gaussian_method.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, x in HOLDERS.items():
        np.savez(f"{name}.npz", X=x)
    before = dict(silot.METHODS)
    __import__("gaussian_method")
    yield
    _pairwise.METHODS.clear()
    _pairwise.METHODS.update(before)
    del sys.modules["gaussian_method"]


def run(command: str) -> str:
    words = command.split()
    done = CliRunner().invoke(build(words[0]), words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_python_has_it() -> None:
    x, y = HOLDERS["a"], HOLDERS["c"]
    exact = silot.distance(x, y).value
    found = silot.distance(x, y, method="gaussian")
    assert 0 < found.lower <= exact and found.disclosure == "aggregate"
    assert silot.distance(x, y, method="gaussian", slack=0.5).value == found.value / 2
    with pytest.raises(silot.SilotError, match="option-slack"):
        silot.distance(x, y, method="gaussian", slack=-1)
    with pytest.raises(silot.SilotError, match="option-unknown"):
        silot.distance(x, y, method="gaussian", support=3)


def test_matrix_and_worth_have_it() -> None:
    pairs = silot.distance_matrix(HOLDERS, method="gaussian")
    single = silot.distance(HOLDERS["a"], HOLDERS["b"], method="gaussian")
    assert pairs["a", "b"].value == single.value
    worth = silot.value_holders(HOLDERS, RNG.normal(size=(30, 2)), method="gaussian")
    assert worth.ranking[0].holder == "a" and worth.method == "gaussian"
    assert worth.disclosure == "aggregate"


def test_the_command_line_has_it(tmp_path: Path) -> None:
    shown = run("distance a.npz b.npz -m gaussian --slack 0.25 --json")
    both = HOLDERS["a"], HOLDERS["b"]
    assert json.loads(shown)["value"] == silot.distance(*both, method="gaussian", slack=0.25).value
    assert "--slack" in run("distance --help") and "--slack" in run("matrix --help")
    assert "gaussian" in run("matrix a.npz b.npz c.npz -m gaussian")
    assert "mean and covariance" in run("methods")
    names = [method["name"] for method in json.loads(run("methods --json"))]
    assert names.index("trianglewad") < names.index("gaussian") < names.index("secure")
    run("value a.npz b.npz --validation c.npz -m gaussian --report r.html")
    assert "Method: gaussian" in (tmp_path / "r.html").read_text()
