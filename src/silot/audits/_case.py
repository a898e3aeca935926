"""Everything attacks on one target may use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from ..federation.answer import Answer
from ..federation.protocol import COORDINATOR
from ._evidence import NO_PARAMETER, Array, Evidence, InapplicableError
from ._interpolants import behind_costs, sent, shown_by_coordinator
from ._likelihood import Candidates
from ._parameter import solved_by_mean
from .observer import Q, View
from .result import NEEDS


@dataclass(frozen=True, eq=False)
class Case:
    """What one party saw that says something about the records of another.

    Attributes
    ----------
    view
        What it saw.
    target
        Whose records it is after.
    hide_t
        Leave the interpolation parameter out of what it saw.
    seed
        Of everything random.
    candidates
        Records that were in the data and records that were not, where both were given.
    """

    view: View
    target: str
    hide_t: bool = False
    seed: int = 0
    candidates: Candidates | None = None

    @property
    def outside(self) -> bool:
        """Whether the messages are the target's own answers."""
        return self.view.central

    @cached_property
    def embedding(self) -> str:
        """Label coordinates of the run's records."""
        found = {item.question.embedding for item in self.view.seen}
        return next((kind for kind in found if kind != "none"), "none")

    @cached_property
    def records(self) -> int | None:
        """Number of the target's records, where it was told."""
        return self.view.records(self.target)

    @cached_property
    def moments(self) -> tuple[Array, Array] | None:
        """The target's mean and covariance, where they were told."""
        return self.view.moments(self.target)

    @cached_property
    def messages(self) -> list[Evidence]:
        """Interpolants as they were sent."""
        found: list[Evidence] = []
        if self.outside:
            mean = None if self.moments is None else self.moments[0]
            for item in self.view.about(self.target):
                found += sent(item, mean)
        elif self.target == COORDINATOR:
            # Public options say whether the coordinator's own parameter is the one it asks for.
            shared = self.view.parameters.get("hidden") is False
            found = shown_by_coordinator(self.view.seen, shared=shared)
        return self._hidden(found)

    @cached_property
    def located(self) -> list[Evidence]:
        """Interpolants found from costs."""
        seen = self.view.about(self.target) if self.outside else ()
        return self._hidden(list(behind_costs(seen)))

    def _hidden(self, found: list[Evidence]) -> list[Evidence]:
        return [replace(one, t=None) for one in found] if self.hide_t else found

    @cached_property
    def interpolants(self) -> list[Evidence]:
        """All of one atom a record or pair, the easiest to invert first."""
        found = [one for one in (*self.messages, *self.located) if one.form != "cells"]
        return sorted(found, key=difficulty)

    @cached_property
    def cells(self) -> list[Evidence]:
        """All of one atom for an atom of the reference, in the order of rounds.

        Their parameters are known, or else none of them is.
        """
        found = [one for one in self.messages if one.form == "cells"]
        if all(one.t is not None for one in found):
            return found
        solved = solved_by_mean(found)
        # A round whose parameter stays unknown says nothing.
        return [one for one in solved if one.t is not None] or found

    def known_cells(self) -> list[Evidence]:
        """``cells``, where there are any and their parameters are known."""
        if not self.cells:
            raise InapplicableError("no means over cells were seen")
        if self.cells[0].t is None:
            raise InapplicableError(NO_PARAMETER)
        return self.cells

    def answered(self, *kinds: type[Q]) -> list[tuple[Q, Answer]]:
        """Own answers of the target to questions of these kinds; none where it only asked."""
        return self.view.answered(self.target, *kinds) if self.outside else []

    def compared(self, also: str = "") -> Candidates:
        """Records that were in the data and records that were not, which membership needs."""
        if self.candidates is None:
            raise InapplicableError(
                f"{NEEDS}truth (records that were in the data) and outsiders (records that were "
                f"not){also}"
            )
        return self.candidates


def difficulty(one: Evidence) -> tuple[bool, float, int]:
    """What to sort interpolants by: errors of inversion grow by 1 / (1 - t)."""
    return one.t is None, one.t or 0.0, len(one.atoms)
