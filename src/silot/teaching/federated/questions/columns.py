"""Questions of which every number has a fewest number of records behind it: means of columns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from ....errors import InputError
from ....federation.answer import Answer
from ....federation.disclosure import Account, Disclosure
from ....federation.question import Array, Names, Question, register


@dataclass(frozen=True, kw_only=True)
class AboutMany(Question):
    """A question with a fewest number of records that must stand behind what is told."""

    least: int = 1

    def coarser(self, least: int) -> Self:
        return replace(self, least=max(self.least, least))


@dataclass(frozen=True, kw_only=True)
class Spread(AboutMany):
    """Mean and variance of every feature, and how many records of the heaviest weight fit."""

    kind: ClassVar[str] = "spread"
    level: ClassVar[Disclosure] = Disclosure.AGGREGATE
    account: ClassVar[Account] = Account.NAMED
    by_pairs: ClassVar[bool] = True  # or a column's step would tell of a record alone in it

    def numbers(self, records: int, dimension: int) -> int:
        return 2 * dimension + 1

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        check_enough(0, self.least, 1.0, weights)
        mean = weights @ points
        variance = weights @ (points - mean) ** 2
        return Answer({"mean": mean, "variance": variance}, {"records": effective_records(weights)})

    def moves(
        self, points: Array, weights: Array, labels: Names | None, answer: Answer
    ) -> Mapping[str, float | Array]:
        # Column by column: units differ.
        far = np.abs(points - answer.arrays["mean"])
        masses = weights[:, None]
        return {"mean": (masses * far).max(axis=0), "variance": (masses * far**2).max(axis=0)}


def effective_records(weights: Array) -> int:
    """How many records of the heaviest weight make up the mass."""
    return int(1.0 / float(weights.max()) + 1e-9)


def check_enough(numbers: int, least: int, columns: float, weights: Array) -> None:
    """Raise where fewer than ``least`` records stand behind each of the numbers."""
    if effective_records(weights) < least:
        raise InputError(
            f"{least} records are needed behind a number; a record weighs more than that share.",
            code="records-few",
        )
    held = int(effective_records(weights) * columns)
    if least > 1 and numbers * least > held:
        raise InputError(
            f"{numbers} numbers are asked for; the records hold {held}, and {least} of them at "
            "least must stand behind each.",
            code="answer-fine",
        )


register(Spread)

__all__ = ["AboutMany", "Spread", "check_enough", "effective_records"]
