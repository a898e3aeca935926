"""A party knows no question by name: new kinds of questions need no other file."""

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances.questions import Describe
from silot.distillation import Teacher
from silot.distillation.questions import DescribeTeacher, Predict
from silot.errors import InputError
from silot.federation import Answer, Failure, Holder, Own, Question
from silot.federation import party as parties
from silot.federation.answer import decode_reply
from silot.federation.question import _KINDS, encode_question, question_kinds
from silot.privacy import Ledger

pytestmark = pytest.mark.all_cases

X = np.random.default_rng(0).normal(size=(400, 2))

PLANTED = '''
"""Questions nobody knew before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from silot.federation import Answer
from silot.federation import Disclosure
from silot.federation import Question
from silot.federation.question import register
from silot.federation.release import Release


@dataclass(frozen=True, kw_only=True)
class Extremes(Question):
    """The records that are largest."""

    kind: ClassVar[str] = "planted-extremes"

    def compute(self, points, weights, labels=None):
        return Answer({"largest": points.max(axis=0)})


@dataclass(frozen=True, kw_only=True)
class Mass(Question):
    """The mass beyond a threshold of the asker's choice."""

    kind: ClassVar[str] = "planted-mass"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    threshold: float

    def compute(self, points, weights, labels=None):
        return Answer(scalars={"mass": float(weights[points[:, 0] > self.threshold].sum())})


@dataclass(frozen=True, kw_only=True)
class Above(Release):
    """How many records lie beyond a threshold, with noise."""

    kind: ClassVar[str] = "planted-above"

    threshold: float

    @property
    def sensitivity(self):
        return 1.0

    def exact(self, points, masses, labels=None):
        return np.array([(points[:, 0] > self.threshold).sum()], dtype=np.int64)

    def answer_of(self, noisy):
        return Answer({"above": noisy})


@dataclass(frozen=True, kw_only=True)
class Tested(Mass):
    """The same of evaluation records."""

    kind: ClassVar[str] = "planted-tested"
    on: ClassVar[str] = "evaluation"


register(Extremes, Mass, Above, Tested)
'''


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    shipped = dict(_KINDS)
    (tmp_path / "planted_questions.py").write_text(PLANTED)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("planted_questions")
    del sys.modules["planted_questions"]
    _KINDS.clear()
    _KINDS.update(shipped)


def asked(holder: Holder | Teacher, question: Question) -> Answer | Failure:
    return decode_reply(holder.reply(encode_question(question), "somebody"))


def rows(ledger: Ledger, event: str) -> int:
    return sum(entry.event == event for entry in ledger.entries())


def test_a_planted_question_is_answered_where_everything_may_be_told(planted: ModuleType) -> None:
    ledger = Ledger()
    answer = asked(Holder(Measure(X), Policy.open(), ledger), planted.Extremes())
    assert isinstance(answer, Answer)
    np.testing.assert_array_equal(answer.arrays["largest"], X.max(axis=0))
    assert [entry.asker for entry in ledger.entries()][-1] == "somebody"


def test_the_policy_guards_a_planted_question(planted: ModuleType) -> None:
    ledger = Ledger()
    holder = Holder(Measure(X), Policy(), ledger)
    assert asked(holder, planted.Extremes()) == Failure("policy-level", "refused")
    assert rows(ledger, "refuse") == 1
    only = Policy(level="record", questions=frozenset({"describe"}))
    refused = Failure("policy-question", "refused")
    assert asked(Holder(Measure(X), only), planted.Extremes()) == refused
    # A policy can name it, too.
    named = Policy(level="record", questions=frozenset({"planted-extremes"}))
    assert isinstance(asked(Holder(Measure(X), named), planted.Extremes()), Answer)


def test_a_planted_statistic_is_answered_exactly_where_it_is_named(planted: ModuleType) -> None:
    ledger = Ledger()
    policy = Policy(level="statistics", questions=["planted-mass"])
    answer = asked(Holder(Measure(X), policy, ledger), planted.Mass(threshold=0.5))
    assert isinstance(answer, Answer) and set(answer.scalars) == {"mass"}
    assert answer.number("mass") == pytest.approx((X[:, 0] > 0.5).mean(), rel=1e-12)
    assert rows(ledger, "count") == 1
    # Exact answers are trust: a ledger notes them, and none is needed.
    assert isinstance(asked(Holder(Measure(X), policy), planted.Mass(threshold=0.5)), Answer)
    refused = Failure("policy-level", "refused")
    assert asked(Holder(Measure(X), Policy()), planted.Mass(threshold=0.5)) == refused


def test_a_planted_release_is_charged_before_it_is_answered(planted: ModuleType) -> None:
    ledger = Ledger()
    holder = Holder(Measure(X), Policy(privacy_epsilon=1.0), ledger)
    question = planted.Above(threshold=0.0, privacy_mu=0.2)
    answer = asked(holder, question)
    assert isinstance(answer, Answer)
    assert answer.scalars["charged_mu"] == ledger.spent == 0.2
    again = asked(holder, question)
    assert isinstance(again, Answer) and again.scalars["charged_mu"] == 0.0
    np.testing.assert_array_equal(again.arrays["above"], answer.arrays["above"])
    over = asked(holder, planted.Above(threshold=1.0, privacy_mu=0.2))
    assert isinstance(over, Failure) and over.code == "ledger-budget"
    assert asked(Holder(Measure(X), Policy(privacy_epsilon=None), Ledger()), question) == (
        Failure("policy-budget", "refused")
    )


def test_evaluation_records_are_shown_to_questions_about_them_only(planted: ModuleType) -> None:
    holder = Holder(Measure(X), Policy.open(), Ledger(), evaluation=Measure(X[:3] + 9.0))
    answer = asked(holder, planted.Tested(threshold=5.0))
    assert isinstance(answer, Answer) and answer.number("mass") == 1.0
    answer = asked(holder, planted.Mass(threshold=5.0))
    assert isinstance(answer, Answer) and answer.number("mass") == 0.0
    holder.policy = Policy()
    assert asked(holder, planted.Tested(threshold=5.0)) == Failure("policy-level", "refused")


def test_a_party_answers_about_what_it_has() -> None:
    for policy in (Policy(), Policy(level="record")):
        answer = asked(Holder(Measure(X), policy, Ledger()), DescribeTeacher())
        assert isinstance(answer, Failure) and answer.code == "teacher-absent"
    answer = asked(Teacher(lambda x: x, policy=Policy.open()), Describe())
    assert answer == Failure("teacher-question", "refused")
    with pytest.raises(InputError) as caught:
        Own(Measure(X)).answer(Predict(labels=2, vectors=X))
    assert caught.value.code == "teacher-absent"


def test_a_size_is_not_told_any_more_once_the_policy_is_stricter() -> None:
    trusting = Policy(level="statistics", questions=["describe-teacher"])
    teacher = Teacher(lambda x: x, size=100, policy=trusting)
    answer = asked(teacher, DescribeTeacher())
    assert isinstance(answer, Answer) and answer.scalars["size"] == 100
    teacher.policy = Policy(privacy_epsilon=1.0)
    answer = asked(teacher, DescribeTeacher())
    assert isinstance(answer, Answer) and "size" not in answer.scalars


# What the file that reaches records may know


def named_in(source: str, package: str) -> set[str]:
    """Modules of silot that a source imports, inside functions too."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            base = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            module = ".".join(filter(None, (base, node.module)))
            found |= {module} | {f"{module}.{each.name}" for each in node.names}
        elif isinstance(node, ast.Import):
            found |= {each.name for each in node.names}
    return {name for name in found if name.startswith("silot.")}


def reached_from(source: str, package: str) -> set[str]:
    """Modules of silot that a source imports, and those that these import."""
    reached: set[str] = set()
    waiting = list(named_in(source, package))
    while waiting:
        name = waiting.pop()
        path = Path(parties.__file__).parents[2] / (name.replace(".", "/") + ".py")
        if name in reached or not path.is_file():
            continue
        reached.add(name)
        waiting += named_in(path.read_text(), name.rpartition(".")[0])
    return reached


CONCRETE = {
    kind.__module__ for kind in question_kinds().values() if kind.__module__.startswith("silot.")
}
SOURCE = Path(parties.__file__).read_text()


def test_the_file_that_reaches_records_reaches_no_concrete_question() -> None:
    reached = reached_from(SOURCE, "silot.federation")
    assert {"silot.federation.policy", "silot.federation.question"} <= reached
    assert reached & CONCRETE == set()
    kinds = {kind.__name__ for kind in question_kinds().values()}
    nodes = ast.walk(ast.parse(SOURCE))
    assert kinds & {node.id for node in nodes if isinstance(node, ast.Name)} == set()


@pytest.mark.parametrize(
    "planted_import",
    [
        "from ..distances.questions import Describe",
        "def f():\n    from ..distances.sketches.questions import CountRecords",
        "from ..distillation import questions",
        "from silot.distances.questions import decode_classes",
        # By way of another module.
        "from ..distances.methods import Pairwise",
        "from ..distances.direct import direct",
    ],
)
def test_an_import_of_a_concrete_question_is_found(planted_import: str) -> None:
    reached = reached_from(f"{SOURCE}\n{planted_import}\n", "silot.federation")
    assert reached & CONCRETE
