"""A malicious coordinator's access to one holder: changing names, and restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..data.measure import Measure
from ..federation.answer import Answer, Failure
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Question
from ..privacy.ledger import Ledger

Array = npt.NDArray[np.float64]

ASKERS = ("coordinator", "clinic", "bank", "a", "b", "coordinator ")
"""Names it asks under."""

RESTART = 12
"""Questions before the holder is started again from its ledger."""


@dataclass
class Session:
    """A coordinator's access to one holder, under changing names and over restarts.

    Attributes
    ----------
    data, policy, path
        The holder's records, its rules, its ledger.
    limit
        Most questions.
    rng
        Of the coordinator.
    """

    data: Measure
    policy: Policy
    path: Path
    limit: int
    rng: np.random.Generator
    asked: int = 0
    answered: int = 0
    refusals: Counter[str] = field(default_factory=Counter[str])
    _holder: Holder | None = None
    _ledger: Ledger | None = None

    def ask(self, question: Question) -> Answer | None:
        """Ask once, in some name; ``None`` when there is no answer, or no question is left."""
        if self.asked >= self.limit:
            return None
        if self.asked % RESTART == 0:
            self.close()
        if self._holder is None:
            self._ledger = Ledger(self.path, state=self.path.parent)
            self._holder = Holder(self.data, self.policy, self._ledger)
        asker = ASKERS[int(self.rng.integers(len(ASKERS)))]
        self.asked += 1
        answer = self._holder.answer(question, asker)
        if isinstance(answer, Failure):
            self.refusals[answer.code] += 1
            return None
        self.answered += 1
        return answer

    def answers(self, *questions: Question) -> Iterator[Answer]:
        """Answers to those of the questions that are answered, asked one after another."""
        for question in questions:
            answer = self.ask(question)
            if answer is not None:
                yield answer

    def numbers(self, questions: list[Question], name: str) -> tuple[list[Question], Array]:
        """The numbers told under a name, and the questions that got them."""
        told = [(each, one.number(name)) for each in questions for one in self.answers(each)]
        return [each for each, _ in told], np.array([value for _, value in told])

    def turn_to(self, data: Measure) -> None:
        """Have the holder answer about other records from now on, on the same ledger."""
        self.close()
        self.data = data

    def close(self) -> None:
        """End the holder's process, as it were."""
        if self._ledger is not None:
            self._ledger.close()
        self._holder = self._ledger = None
