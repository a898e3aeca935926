"""What is added is added in one file: everything else finds it by itself.

The page on the architecture counts the files; here each is written and used.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import silot
from silot import Measure, Policy
from silot.cli.app import build
from silot.distances import FedWaD, methods
from silot.federation import Answer, Failure, Holder, LocalFederation, question
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.federation.run import RUNTIMES, Reply
from silot.federation.run import run as run_protocol
from silot.privacy import Ledger

SOURCES = Path(silot.__file__).parent

SOURCE = '''
"""Distance of Gaussians."""

from silot.distances import Distance, Pairwise
from silot.errors import InputError
from silot.federation import Disclosure
from silot.options import number, option


class Gaussian(Pairwise):
    """Distance of the Gaussians that have the holders' moments (Gelbrich), a lower bound of W2."""

    name = "gaussian"
    disclosure = Disclosure.STATISTICS
    sends = "mean and covariance"
    needs = "nothing"
    guarantees = "certified lower bound; none above"
    privacy = "none"

    slack: float = option("Lower the bound by this share.", number(least=0), default=0.0)

    def steps(self, sides):
        if self.p != 2:
            raise InputError("p is 1; Gaussians are compared by W2.", code="option-p")
        lower = (1.0 - self.slack) * (yield from sides.bound_by_moments())
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
    before = dict(silot.api.METHODS)
    __import__("gaussian_method")
    yield
    methods.METHODS.clear()
    methods.METHODS.update(before)
    del sys.modules["gaussian_method"]


def run(command: str) -> str:
    words = command.split()
    done = CliRunner().invoke(build(*words), words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_python_has_it() -> None:
    x, y = HOLDERS["a"], HOLDERS["c"]
    exact = silot.distance(x, y).value
    found = silot.distance(x, y, method="gaussian")
    assert 0 < found.lower <= exact and found.disclosure == "statistics"
    assert silot.distance(x, y, method="gaussian", slack=0.5).value == found.value / 2
    with pytest.raises(silot.errors.SilotError, match="option-slack"):
        silot.distance(x, y, method="gaussian", slack=-1)
    with pytest.raises(silot.errors.SilotError, match="option-unknown"):
        silot.distance(x, y, method="gaussian", support=3)


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(silot.errors.SilotError, match="two distance methods are called 'direct'"):
        type("Other", (methods.Pairwise,), {"name": "direct"})
    assert silot.api.METHODS["direct"].__name__ == "Direct"


def test_matrix_and_worth_have_it() -> None:
    pairs = silot.distance_matrix(HOLDERS, method="gaussian")
    single = silot.distance(HOLDERS["a"], HOLDERS["b"], method="gaussian")
    assert pairs["a", "b"].value == single.value
    worth = silot.value_holders(HOLDERS, RNG.normal(size=(30, 2)), method="gaussian")
    assert worth.ranking[0].holder == "a" and worth.method == "gaussian"
    assert worth.disclosure == "statistics"


def test_the_command_line_has_it(tmp_path: Path) -> None:
    shown = run("distance a.npz b.npz -m gaussian --slack 0.25 --json")
    both = HOLDERS["a"], HOLDERS["b"]
    assert json.loads(shown)["value"] == silot.distance(*both, method="gaussian", slack=0.25).value
    assert "--slack" in run("distance pair --help-all") and "--slack" in run(
        "distance matrix --help-all"
    )
    assert "gaussian" in run("distance matrix a.npz b.npz c.npz -m gaussian")
    assert "mean and covariance" in run("privacy methods")
    names = [method["name"] for method in json.loads(run("privacy methods --json"))]
    assert names.index("trianglewad") < names.index("gaussian") < names.index("secure")
    run("value a.npz b.npz --validation c.npz -m gaussian --report r.html")
    assert "Method: gaussian" in (tmp_path / "r.html").read_text()


QUESTION = '''
"""How many records are above a public number."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from silot.federation.answer import Answer
from silot.federation.disclosure import Disclosure
from silot.federation.question import Question, register
from silot.federation.release import Release


@dataclass(frozen=True, kw_only=True)
class Above(Question):
    kind: ClassVar[str] = "ward-above"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    cut: float

    def compute(self, points, weights, labels=None):
        return Answer(scalars={"share": float(weights @ (points[:, 0] > self.cut))})


@dataclass(frozen=True, kw_only=True)
class NoisyAbove(Release):
    kind: ClassVar[str] = "ward-above-noisy"
    mechanism: ClassVar[str] = "discrete Gaussian"

    cut: float
    sensitivity: ClassVar[float] = 1.0

    def exact(self, points, masses, labels=None):
        return np.array([np.sum((points[:, 0] > self.cut) & (masses >= 1))], dtype=np.int64)

    def answer_of(self, noisy):
        return Answer({"above": noisy})


register(Above, NoisyAbove)
'''


@pytest.fixture
def ward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module with a question and a release, imported and forgotten afterwards."""
    monkeypatch.setattr(question, "_KINDS", dict(question._KINDS))
    (tmp_path / "ward_questions.py").write_text(QUESTION)
    yield import_module("ward_questions")
    del sys.modules["ward_questions"]


def test_a_question_is_one_class_that_travels_and_that_policies_and_budgets_know(ward: Any) -> None:
    asked = encode_question(ward.Above(cut=0.0))
    told = decode_reply(Holder(Measure(HOLDERS["b"]), Policy.open()).reply(asked))
    assert isinstance(told, Answer)
    assert told.scalars["share"] == pytest.approx(np.mean(HOLDERS["b"][:, 0] > 0))
    refused = decode_reply(Holder(Measure(HOLDERS["b"]), Policy(), Ledger()).reply(asked))
    assert isinstance(refused, Failure)
    trusting = Policy(level="statistics", questions=["ward-above"])
    named = decode_reply(Holder(Measure(HOLDERS["b"]), trusting, Ledger()).reply(asked))
    assert isinstance(named, Answer) and named.scalars == told.scalars


def test_a_release_is_one_class_that_is_charged_noised_and_told_once(ward: Any) -> None:
    pytest.importorskip("opendp")
    ledger = Ledger()
    holder = Holder(Measure(HOLDERS["b"]), Policy(), ledger)
    asked = encode_question(ward.NoisyAbove(cut=0.0, privacy_mu=0.1))
    first, second = decode_reply(holder.reply(asked)), decode_reply(holder.reply(asked))
    assert isinstance(first, Answer) and isinstance(second, Answer)
    assert first.arrays["above"] == second.arrays["above"]
    assert ledger.spent == pytest.approx(0.1)


class Posted:
    """A runtime: every party answers by itself, a message at a time."""

    def __init__(self, parties: Mapping[str, Any]) -> None:
        self._parties = {name: Holder(Measure(x), Policy.open()) for name, x in parties.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._parties)

    def exchange(
        self, messages: Mapping[str, bytes], clock: Callable[[], float]
    ) -> Mapping[str, Reply]:
        return {
            name: Reply(self._parties[name].reply(message), clock())
            for name, message in messages.items()
        }


def test_a_runtime_is_one_class_that_carries_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, "posted", Posted)
    protocol = FedWaD(rounds=2, support=8).between("a", "b")
    there = run_protocol(protocol, HOLDERS, runtime="posted")
    here = LocalFederation(HOLDERS).run(protocol)
    assert (there.value, there.cost.rounds) == (here.value, here.cost.rounds)
    assert there.bytes_sent == here.bytes_sent


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("file", "function", "shown_in"),
    [
        ("distances/view.py", "distance_content", "distance"),
        ("federation/view.py", "cost_content", "distance matrix worth barycenter coreset"),
    ],
)
def test_a_section_is_one_function_in_one_file(
    tmp_path: Path, file: str, function: str, shown_in: str
) -> None:
    house = tmp_path / "house"
    shutil.copytree(SOURCES, house / "silot", ignore=shutil.ignore_patterns("__pycache__"))
    view = house / "silot" / file
    source = view.read_text()
    view.write_text(
        source.replace(f"def {function}(", f"def old_{function}(")
        + f"\n\ndef {function}(*result, **options):\n"
        + "    more = render.section('Added by one function', render.Bullets(['more']))\n"
        + f"    return [old_{function}(*result, **options), more]\n"
    )
    script = """
import numpy as np, silot
from silot.api.report import render
x = np.random.default_rng(0).normal(size=(12, 2))
holders = {"a": x, "b": x + 1}
made = {
    "distance": silot.distance(x, x + 1), "matrix": silot.distance_matrix(holders),
    "worth": silot.value_holders(holders, x), "barycenter": silot.barycenter(holders, rounds=2),
    "coreset": silot.coreset(holders, 4, rounds=2),
}
print(*[name for name, each in made.items() if "Added by one function" in render(each)])
"""
    # Without site (-S), for the finder of an editable install knows the house alone that is here.
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(house), *sys.path])},
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == shown_in.split(), done.stderr[-2000:]


def test_what_the_architecture_page_names_is_there() -> None:
    page = (SOURCES.parents[1] / "docs" / "architecture.md").read_text()
    named = set(re.findall(r"`((?:[a-z_-]+/)+[a-z_]*(?:\.py)?)`", page))
    assert len(named) > 20
    root = SOURCES.parents[1]
    places = [SOURCES, root, root / "packages/silot-transport/src"]
    # A wing's own questions and views are spoken of in general.
    missing = [name for name in named if not any((place / name).exists() for place in places)]
    assert missing == ["questions/"]
