"""What FedWaD knows between rounds: the walking measure and the bounds so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from silot_transport import Interpolant, exact_plan

from ..errors import HolderError
from ..federation.answer import Array
from .sides import Bounds, Received, distance_difference, mean_difference

# Rounds without progress after which the method has settled.
PATIENCE = 5


@dataclass
class Geodesic:
    """The walking measure and what is known of the distance."""

    atoms: Array
    weights: Array
    bounds: Bounds = field(default_factory=Bounds)
    estimate: float = np.inf
    history: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])
    optimal: bool = True
    most: int = 0
    refused: HolderError | None = None
    last: tuple[Received, Received, float, Array, Array] | None = None

    def learn(
        self, first: Received, second: Received, t: float, between: Interpolant, k: int
    ) -> None:
        self.optimal &= first.optimal and second.optimal and between.optimal
        self.last = (first, second, t, self.atoms, self.weights)
        reference_mean = self.weights @ self.atoms
        self.bounds.raise_lower(mean_difference(first, second, t, reference_mean))
        if first.displacement is not None and second.displacement is not None:
            moved = first.displacement + second.displacement + first.rounding + second.rounding
            self.bounds.raise_lower(between.lower - moved)
            # From the records to their interpolants and across, as the triangle inequality has it.
            self.learn_sum(between.distance + moved)
        if first.distance is not None and second.distance is not None:
            self.bounds.raise_lower(distance_difference(first, second))
            self.learn_sum(first.distance + second.distance)
        self.note(k)

    def move(self, between: Interpolant, p: int) -> None:
        """Go on from an interpolant, on no more atoms than the first one had.

        Where records are equal, plans split them in ways that add atoms every round.
        """
        atoms, weights = between.atoms, between.weights
        self.most = self.most or max(len(weights), len(self.weights))
        if len(weights) > self.most:
            plan = exact_plan(self.atoms, atoms, self.weights, weights, p=p).plan
            mass = np.asarray(plan.sum(axis=1)).reshape(-1, 1)
            atoms, weights = np.asarray(plan @ atoms) / mass, self.weights
        self.atoms, self.weights = atoms, weights

    def learn_sum(self, total: float) -> None:
        self.bounds.cut_upper(total)
        self.estimate = min(self.estimate, total)

    def estimate_untold(self, p: int) -> float:
        """The triangle sum as interpolants suggest it, when no holder told a distance."""
        if self.last is None:
            return np.inf
        first, second, t, atoms, weights = self.last
        # On a geodesic the interpolant at t is (1 - t) W(records, reference) from the reference.
        parts = [
            exact_plan(side.atoms, atoms, side.weights, weights, p=p).distance / (1.0 - t)
            for side in (first, second)
        ]
        return sum(parts)

    def note(self, k: int) -> None:
        self.history.append(
            {"round": float(k), "lower": self.bounds.lower, "upper": self.bounds.upper}
        )

    def has_settled(self, tol: float) -> bool:
        """Whether more rounds would change little: for the good or not, as the bounds say."""
        upper = self.bounds.upper
        if tol == 0 or np.isinf(upper):
            return False
        if upper - self.bounds.lower <= tol * upper:
            return True
        if len(self.history) <= PATIENCE:
            return False
        return self.history[-1 - PATIENCE]["upper"] - upper <= tol * upper
