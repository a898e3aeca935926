"""The union of several sellers, as a buyer sees it in their answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from silot_transport import plan_from_cost

from ..federation.answer import Answer, Array
from .sides import Received, received_weights


@dataclass(frozen=True)
class Union:
    """Distance of the buyer's interpolant to the sellers' union, and how far that was moved.

    ``lower`` and ``upper`` bound the distance, and ``displacement`` is a bound too: where a seller
    tells rounded numbers, they allow for that. ``costs`` and ``weights`` are those of all sellers'
    atoms; ``None`` where a single seller told the distance itself.
    """

    distance: float
    lower: float
    upper: float
    displacement: float | None
    optimal: bool
    costs: Array | None = None
    weights: Array | None = None

    @classmethod
    def of(
        cls, answers: Mapping[str, Answer], masses: Mapping[str, float], buyer: Received, p: int
    ) -> Union:
        """Read the answers of sellers that have these masses in the union."""
        told = {name: _most(answer, "displacement") for name, answer in answers.items()}
        known = [masses[name] * value**p for name, value in told.items() if value is not None]
        moved = sum(known) ** (1.0 / p) if len(known) == len(told) else None
        optimal = all(answer.flag("optimal") for answer in answers.values())
        first = next(iter(answers.values()))
        if "target_distance" in first.scalars:
            distance, lower = first.number("target_distance"), first.optional_number("target_lower")
            half = first.rounding("target_distance")
            if lower is None:
                # The bounds of a plan that was proven optimal are closer than any rounding.
                lower = max(distance - half, 0.0) if optimal else 0.0
            return cls(distance, lower, distance + half, moved, optimal)
        parts = {
            name: answer.array("costs", ndim=2, columns=len(buyer.atoms))
            for name, answer in answers.items()
        }
        costs = np.concatenate(list(parts.values()))
        weights = np.concatenate(
            [
                masses[name] * received_weights(answer, len(parts[name]))
                for name, answer in answers.items()
            ]
        )
        plan = plan_from_cost(costs, weights, buyer.weights)
        distance, lower = (max(c, 0.0) ** (1.0 / p) for c in (plan.cost, plan.lower_cost))
        return cls(distance, lower, distance, moved, optimal and plan.optimal, costs, weights)


def _most(answer: Answer, name: str) -> float | None:
    """A number of the answer, or the largest that was rounded to it."""
    value = answer.optional_number(name)
    return None if value is None else value + answer.rounding(name)
