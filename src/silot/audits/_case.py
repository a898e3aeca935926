"""Everything attacks on one target may use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ..distances.questions.distances import InterpolantCosts, Interpolate
from ..federation.protocol import COORDINATOR
from ..records.questions.scores import ScoreRecords
from ._evidence import Array, Evidence
from ._likelihood import Candidates
from ._parameter import by_mean, common_mean, plain
from ._trilateration import located
from .observer import Seen, View, form_of, read_interpolants


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
        if self.outside:
            mean = None if self.moments is None else self.moments[0]
            found = [
                one
                for item in self.view.about(self.target)
                for one in read_interpolants(item, mean)
            ]
        elif self.target == COORDINATOR:
            # Public options say whether the coordinator's own parameter is the one it asks for.
            shared = self.view.parameters.get("hidden") is False
            found = _shown_by_coordinator(self.view.seen, shared=shared)
        else:
            found = []
        return [_hidden(one) for one in found] if self.hide_t else found

    @cached_property
    def located(self) -> list[Evidence]:
        """Interpolants found from costs."""
        found = located_interpolants(self.view.about(self.target)) if self.outside else []
        return [_hidden(one) for one in found] if self.hide_t else found

    @cached_property
    def interpolants(self) -> list[Evidence]:
        """All of one atom a record or pair, the easiest to invert first."""
        found = [one for one in (*self.messages, *self.located) if one.form != "cells"]
        return sorted(found, key=_difficulty)

    @cached_property
    def cells(self) -> list[Evidence]:
        """All of one atom for an atom of the reference, in the order of rounds."""
        found = [one for one in self.messages if one.form == "cells"]
        if all(one.t is not None for one in found):
            return found
        mean = common_mean(found)
        solved: list[Evidence] = []
        for one in found:
            guess = None if mean is None else by_mean(replace(one, mean=mean))
            solved.append(one if guess is None else replace(one, t=plain(guess.t)))
        # A round whose parameter stays unknown says nothing.
        return [one for one in solved if one.t is not None] or found


def _difficulty(one: Evidence) -> tuple[bool, float, int]:
    # Errors grow by 1 / (1 - t).
    return one.t is None, one.t or 0.0, len(one.atoms)


def _hidden(one: Evidence) -> Evidence:
    return replace(one, t=None)


def located_interpolants(seen: Sequence[Seen]) -> list[Evidence]:
    """Interpolants behind matrices of costs to known points."""
    found: list[Evidence] = []
    for item in seen:
        question, answer = item.question, item.answer
        if not isinstance(question, InterpolantCosts) or answer is None:
            continue
        costs = answer.array("costs", ndim=2)
        atoms = located(costs if question.p == 2 else costs**2, question.target)
        if atoms is None:
            continue
        weights = answer.array("weights", ndim=1)
        used = question.reference_weights > 0
        reference_weights = question.reference_weights[used]
        found.append(
            Evidence(
                atoms,
                weights / weights.sum(),
                question.reference[used],
                reference_weights / reference_weights.sum(),
                question.t,
                form_of(question),
                p=question.p,
                round=item.round,
                source="trilateration",
                whole=answer.scalars.get("geodesic") is True,
            )
        )
    return found


def _shown_by_coordinator(seen: Sequence[Seen], *, shared: bool) -> list[Evidence]:
    """Interpolants of the coordinator's own records that its questions bring along."""
    found: list[Evidence] = []
    target: Array | None = None
    weights: Array | None = None
    for item in seen:
        question = item.question
        if isinstance(question, ScoreRecords):
            target, weights = question.target, question.target_weights
        elif isinstance(question, Interpolate) and target is not None and weights is not None:
            # The one before brought an interpolant towards the reference of this one.
            used = question.reference_weights > 0
            found.append(
                Evidence(
                    target,
                    weights / weights.sum(),
                    question.reference[used],
                    question.reference_weights[used] / question.reference_weights.sum(),
                    question.t,
                    "rows",
                    round=item.round,
                )
            )
            target = weights = None
        elif isinstance(question, Interpolate) and hasattr(question, "target"):
            shown: Array = getattr(question, "target")  # noqa: B009
            masses: Array = getattr(question, "target_weights")  # noqa: B009
            used = question.reference_weights > 0
            reference_weights = question.reference_weights[used]
            found.append(
                Evidence(
                    shown,
                    masses / masses.sum(),
                    question.reference[used],
                    reference_weights / reference_weights.sum(),
                    question.t if shared else None,
                    form_of(question),
                    p=question.p,
                    round=item.round,
                )
            )
    # The same interpolant may come with every question.
    distinct: dict[bytes, Evidence] = {}
    for one in found:
        distinct.setdefault(one.atoms.tobytes() + one.reference.tobytes(), one)
    return list(distinct.values())
