"""What a malicious coordinator got out of a holder under its own policy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ..render.shown import Shown


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """One way to ask, and what it got.

    Attributes
    ----------
    name
        What was tried.
    asked, answered
        Questions, and how many were answered.
    refusals
        How often each code of refusal or failure came back.
    guesses
        Rows guessed from the answers.
    recovered
        Records that a guess hits, to a thousandth of the median distance of two neighbours.
    informed
        Whether it was played by somebody who knows all records but one.
    """

    name: str
    asked: int
    answered: int
    refusals: Mapping[str, int]
    guesses: int
    recovered: int
    informed: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {**vars(self), "refusals": dict(self.refusals)}


@dataclass(frozen=True, kw_only=True)
class PolicyAudit(Shown):
    """What a malicious coordinator got from one holder, strategy by strategy.

    Attributes
    ----------
    strategies
        One entry a strategy, each played against a fresh ledger.
    records, dimension
        Of the data.
    recovered
        Records that any strategy found.
    numbers
        Most chosen numbers that were told to one of them.
    named
        Most numbers of named statistics that were told to one of them.
    bound
        What the policy says it can tell at most.
    untried
        What was not tried.
    """

    view: ClassVar = "view:policy"

    strategies: tuple[Strategy, ...]
    records: int
    dimension: int
    recovered: int
    numbers: int
    named: int
    bound: str
    untried: str

    @property
    def status(self) -> str:
        """The finding, with what it does not say."""
        asked = sum(each.asked for each in self.strategies)
        got = f"{self.recovered} of {self.records} records were found"
        if not self.recovered:
            got = f"these {len(self.strategies)} strategies found no record, others may"
        return (
            f"{got}; {asked} questions, at most {self.numbers} chosen and {self.named} named "
            "numbers told to one of them. "
            f"Not tried: {self.untried}"
        )

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            **vars(self),
            "strategies": [each.to_dict() for each in self.strategies],
            "status": self.status,
        }

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.to_dict())
