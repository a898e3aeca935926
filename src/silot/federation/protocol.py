"""Protocols: generators that yield questions and receive answers."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ..errors import (
    HolderError,
    MismatchError,
    RefusedError,
    UnfitError,
    WaitingError,
    WireError,
    said_of_holder,
)
from .answer import WAITING, Answer, Failure
from .disclosure import Disclosure
from .message import Scalar
from .question import Answerer, Question

R = TypeVar("R")

Questions = Mapping[str, Question]
Answers = Mapping[str, Answer | Failure]
Steps = Generator[Questions, Answers, R]

COORDINATOR = "coordinator"
"""Name of the coordinator's own side in a protocol; no holder may be called so."""


@dataclass(frozen=True)
class Protocol(Generic[R]):
    """Base of protocols: which questions go to which party; it runs on every runtime.

    Attributes
    ----------
    name
        Name of the method.
    holders
        Names of the holders it talks to.
    disclosure
        Most detailed thing that any of its answers discloses.
    parameters
        Options it was built with, for the record.
    start
        Makes a fresh generator: it yields questions by holder, is sent answers by holder, and
        returns the result.
    expected_rounds
        Most exchanges it will make.
    engine
        Who computes in place of questions, if holders answer none: it takes the parties, and what
        to tell a forecast to, and returns the result and its cost.
    """

    name: str
    holders: tuple[str, ...]
    disclosure: Disclosure
    start: Callable[[], Steps[R]] = field(repr=False)
    parameters: Mapping[str, Scalar] = field(default_factory=dict[str, Scalar])
    expected_rounds: int = 1
    engine: Callable[[Any, Callable[[Any], None] | None], tuple[R, Any]] | None = field(
        default=None, repr=False
    )

    def __post_init__(self) -> None:
        doubled = len(set(self.holders)) < len(self.holders)
        if doubled or not self.holders or COORDINATOR in self.holders:
            raise MismatchError(
                f"holders are {list(self.holders)}: distinct names are needed, none of them "
                f"{COORDINATOR!r}.",
                code="holder-names",
            )


def ask(questions: Questions, own: Answerer | None = None) -> Steps[Answers]:
    """Ask the holders, and answer the question of ``COORDINATOR`` with its own measure."""
    remote = {name: question for name, question in questions.items() if name != COORDINATOR}
    answers: dict[str, Answer | Failure] = dict((yield remote))
    if COORDINATOR in questions:
        if own is None:
            raise MismatchError("the coordinator has no measure of its own.", code="holder-names")
        answers[COORDINATOR] = own.answer(questions[COORDINATOR])
    return answers


def parallel(runs: Mapping[str, Steps[R]]) -> Steps[dict[str, R | HolderError | WireError]]:
    """Run protocols side by side: their questions of one round travel in one exchange.

    A run that ends in a ``HolderError``, or in an answer that is none, gives that error and
    leaves the others alone. No two runs may ask the same holder.
    """
    outcomes: dict[str, R | HolderError | WireError] = {}
    waiting: dict[str, tuple[Generator[Questions, Answers, R], Questions]] = {}

    def step(name: str, run: Generator[Questions, Answers, R], answers: Answers | None) -> None:
        try:
            waiting[name] = (run, next(run) if answers is None else run.send(answers))
        except StopIteration as stop:
            outcomes[name] = stop.value
        except (HolderError, WireError) as error:
            outcomes[name] = error

    for name, run in runs.items():
        step(name, run, None)
    while waiting:
        now = dict(waiting)
        waiting.clear()
        questions: dict[str, Question] = {}
        for _, own in now.values():
            questions.update(own)
        answers = yield questions
        for name, (run, own) in now.items():
            step(name, run, {holder: answers[holder] for holder in own if holder in answers})
    return {name: outcomes[name] for name in runs}


def required(answers: Answers, name: str) -> Answer:
    """Return the answer of ``name``, or raise what its failure means."""
    answer = answers.get(name, Failure("holder-silent"))
    if isinstance(answer, Answer):
        return answer
    raise failure_error(name, answer)


_KINDS = {"refused": RefusedError, WAITING: WaitingError}


def failure_error(name: str, failure: Failure) -> HolderError:
    """Build the exception of a failure, in words of this side of the wire."""
    error = f" ({failure.error})" if failure.error else ""
    figures = ", ".join(f"{what} {number:.4g}" for what, number in failure.numbers.items())
    message = f"holder {name!r} {failure.kind}{error}: {said_of_holder(failure.code)}."
    if figures:
        message += f" In figures: {figures}."
    kind = _KINDS.get(failure.kind, HolderError)
    if failure.error == MismatchError.__name__:
        # One code has one exit status, whoever finds out.
        kind = UnfitError
    exception = kind(message, code=failure.code)
    exception.holder = name
    return exception
