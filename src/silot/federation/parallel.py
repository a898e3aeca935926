"""Several protocols in step, each with holders of its own."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TypeVar

from ..errors import HolderError, WireError
from .protocol import Answers, Questions, Steps
from .question import Question

R = TypeVar("R")


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
