"""A barycenter before it is a result, and what holders told of their distances to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import WireError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import failure_error
from ..result import Distance, chance_text
from ..sides import Description
from .centre import Centre


@dataclass(frozen=True)
class FoundBarycenter:
    """A barycenter before the holders' distances to it are known."""

    centre: Centre
    classes: tuple[str, ...]
    described: Description
    settled: bool
    missing: Mapping[str, Failure]

    @property
    def names(self) -> tuple[str, ...]:
        """Holders that took part, in the order they were given."""
        return tuple(self.centre.shares)


def missing_text(missing: Mapping[str, Failure]) -> str:
    """How a status names holders that were dropped."""
    if not missing:
        return ""
    listed = ", ".join(f"{name} ({missing[name].code})" for name in sorted(missing))
    return f"; without {listed}"


def class_masses(answer: Answer, classes: int) -> Array:
    """Masses of classes as a holder told them: parts of its mass, all zero when it has none."""
    masses = answer.array("masses", ndim=1)
    room = 1e-6 + classes * answer.rounding("masses")
    if masses.shape != (classes,) or masses.min() < 0 or masses.sum() > 1 + room:
        raise WireError(
            "the answer has masses that are not those of the classes asked about. The holder runs "
            "other code, or a broken one.",
            code="answer-malformed",
        )
    return masses


def told_distance(answer: Answer, name: str, target: str, seed: int) -> Distance:
    """A distance as a holder told it: between its bounds, or rounded."""
    chance = answer.optional_number("chance")
    upper, lower = answer.number("distance"), answer.optional_number("distance_lower")
    optimal, estimate = answer.flag("optimal"), answer.optional_number("estimate")
    value = upper if estimate is None else estimate
    status = "converged: exact, told by the holder"
    if lower is None:
        # The bounds of a plan that was proven optimal are closer than any rounding.
        half = answer.rounding("distance")
        lower, upper = max(value - half, 0.0) if optimal else 0.0, value + half
        status += ", rounded"
    if not lower <= value <= upper:
        raise failure_error(name, Failure("answer-malformed"))
    return Distance(
        value=value,
        lower=lower,
        upper=upper,
        method="told",
        status=(
            status if optimal else "stopped: the plan was not proven optimal, rescale the features"
        )
        + chance_text(value, chance),
        converged=optimal,
        holders=(name, target),
        p=2,
        seed=seed,
        chance=chance,
    )
