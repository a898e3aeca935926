"""A holder's rules: what may be asked, and how fine the answers may be."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from .disclosure import Disclosure
from .question import QUESTIONS, DistanceTo, Question

Level = Literal["scalar", "sketch", "aggregate", "record"]


class Policy(BaseModel):
    """Rules a holder answers under. The default keeps records in: no ``record`` answers.

    Attributes
    ----------
    level
        Finest disclosure allowed. Every distance protocol of the literature (FedWaD,
        TriangleWad, FedBary) needs ``"record"``: its messages give every record back.
    questions
        Kinds of questions allowed; ``None`` allows every kind the level allows.
    minimum_support
        Fewest atoms of a reference. A single atom turns a distance into a coordinate.
    minimum_records
        Fewest records the holder answers about.
    distances
        Whether distances to a reference may be told, alone or with an interpolant. Without them
        a result has weaker bounds, or none.

    Examples
    --------
    >>> Policy(level="record", minimum_support=50).level
    'record'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level = "aggregate"
    questions: frozenset[str] | None = None
    minimum_support: int = Field(default=2, ge=1)
    minimum_records: int = Field(default=1, ge=1)
    distances: bool = True

    @field_validator("questions")
    @classmethod
    def _known(cls, kinds: frozenset[str] | None) -> frozenset[str] | None:
        unknown = sorted((kinds or frozenset()) - set(QUESTIONS))
        if unknown:
            raise ValueError(
                f"no question is called {unknown[0]!r}; questions are {', '.join(QUESTIONS)}"
            )
        return kinds

    @classmethod
    def open(cls) -> Policy:
        """Rules for data the caller owns anyway: everything is allowed."""
        return cls(level="record", minimum_support=1)

    def refusal(self, question: Question, records: int) -> str | None:
        """Return the code of the rule that forbids the question, ``None`` if none does."""
        if question.level > Disclosure[self.level.upper()]:
            return "policy-level"
        if self.questions is not None and question.kind not in self.questions:
            return "policy-question"
        if isinstance(question, DistanceTo) and not self.distances:
            return "policy-distances"
        if question.support is not None and question.support < self.minimum_support:
            return "policy-support"
        if records < self.minimum_records:
            return "policy-records"
        return None
