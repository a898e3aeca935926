"""Shapley values of holders, where a coalition is worth the best mixture of its members."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from itertools import combinations

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from silot_transport import cost_matrix, plan_from_cost
from silot_transport._check import Array, as_points, as_weights

from ...errors import InputError, SolverError
from .result import Contributions
from .shapley import ShapleyValues, exact_shapley, sampled_shapley

Cloud = tuple[Array, Array]
Members = npt.NDArray[np.bool_]

TOLERANCE = 5e-3
"""Part of the target's variance within which a coalition's worth is exact."""
# All coalitions of so many holders are evaluated (2^8 mixtures), orders of more are sampled.
_MOST_EXACT = 8
_MOST_ORDERS = 60
_SAMPLING_ERROR = 0.01
# Plans of one coalition: a handful serve, and beyond these the search has failed.
_MOST_PLANS = 200


def compute_mixture_shapley(
    clouds: Mapping[str, Cloud], target: Cloud, spread: float, *, seed: int = 0
) -> ShapleyValues:
    r"""Compute Shapley values of the part of a target that mixtures of holders explain.

    .. math:: v(S) = \max\Bigl(0,\ 1 - \frac{1}{V^2} \min_{\lambda \in \Delta_S}
              W_2^2\bigl(\textstyle\sum_{i \in S} \lambda_i P_i,\ Q\bigr)\Bigr), \quad
              v(\emptyset) = 0

    A coalition is worth what the best mixture of its members explains. A holder that joins can be
    left out of the mixture, so no value is negative; nor does a holder gain by more records of
    the same distribution, or by the same records twice.

    Parameters
    ----------
    clouds
        By holder, points (n, d) and weights (n,).
    target
        Points (m, d) and weights (m,) of Q.
    spread
        V, above 0.
    seed
        Of the orders that are sampled where there are more than 8 holders.

    Returns
    -------
    ShapleyValues
        In units of the target's spread: they sum to what the best mixture of all explains. Each
        coalition's worth is found to ``TOLERANCE``.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; a spread that is not above 0 (``valuation-spread``).
    SolverError
        A coalition's worth was not found to the tolerance.

    Notes
    -----
    :math:`W_2^2` is convex in the mixture. By the dual, every potential g on the target, with
    :math:`g^c(x) = \min_y |x - y|^2 - g(y)`, bounds the cost of *all* mixtures from below by
    :math:`\sum_i \lambda_i \langle g^c, P_i \rangle + \langle g, Q \rangle`. Plans of one
    coalition therefore bound those of the others, and a few serve for all (Kelley's cutting
    planes).

    References
    ----------
    J. E. Kelley, "The cutting-plane method for solving convex programs" (1960).

    Examples
    --------
    Each of two holders has half of the target, a third has nothing of it.

    >>> import numpy as np
    >>> one, places = np.ones(1), {"a": -1.0, "b": 1.0, "c": 9.0}
    >>> clouds = {name: (np.array([[place]]), one) for name, place in places.items()}
    >>> target = np.array([[-1.0], [1.0]]), np.array([0.5, 0.5])
    >>> compute_mixture_shapley(clouds, target, 1.0).values
    {'a': 0.5, 'b': 0.5, 'c': 0.0}
    """
    # In an order of their own, so that nothing depends on how holders are listed.
    names = sorted(clouds)
    game = _Mixtures({name: clouds[name] for name in names}, target, spread)
    if len(clouds) <= _MOST_EXACT:
        # The largest first: their plans serve for those within them.
        for size in range(len(clouds), 0, -1):
            for coalition in combinations(names, size):
                game.evaluate(coalition)
        # Read after all are evaluated: a group is then never worth less than a part of it.
        return exact_shapley(names, game.read)
    game.evaluate(names)
    return sampled_shapley(
        names, game.evaluate, tolerance=_SAMPLING_ERROR, most_orders=_MOST_ORDERS, seed=seed
    )


def add_shapley_values(
    contributions: Contributions, clouds: Mapping[str, Cloud], target: Cloud
) -> Contributions:
    """Add the Shapley values of the holders, and to the status how exact they are."""
    shapley = compute_mixture_shapley(clouds, target, contributions.spread, seed=contributions.seed)
    values, shares = shapley.values, shapley.shares
    items = tuple(
        replace(item, shapley=values[item.holder], shapley_share=shares[item.holder])
        for item in contributions.holders
    )
    return replace(contributions, holders=items).with_note(
        f"Shapley values {shapley.status}, each to {TOLERANCE:g} of the target"
    )


def find_best_mixture(clouds: Mapping[str, Cloud], target: Cloud) -> dict[str, float]:
    r"""Find the shares of holders whose mixture is nearest to a target.

    .. math:: \arg\min_{\lambda \in \Delta} W_2^2\bigl(\textstyle\sum_i \lambda_i P_i, Q\bigr)

    Parameters
    ----------
    clouds, target
        As ``compute_mixture_shapley``.

    Returns
    -------
    dict
        By holder, 0 to 1; they sum to 1. The mixture's cost is within ``TOLERANCE`` of the least,
        as a part of the target's variance.

    Raises
    ------
    InputError, MismatchError
        As ``exact_plan``; a target of one place (``valuation-spread``).
    SolverError
        The mixture was not found to the tolerance.

    Examples
    --------
    >>> one = np.ones(1)
    >>> clouds = {"a": (np.array([[-1.0]]), one), "b": (np.array([[1.0]]), one)}
    >>> target = np.array([[-1.0], [1.0]]), np.array([0.3, 0.7])
    >>> {name: round(share, 2) for name, share in find_best_mixture(clouds, target).items()}
    {'a': 0.3, 'b': 0.7}
    """
    points, masses = as_points(target[0], "target"), as_weights(target[1], len(target[0]), "target")
    apart = points - masses @ points
    spread = float(masses @ np.einsum("ij,ij->i", apart, apart)) ** 0.5
    game = _Mixtures(clouds, (points, masses), spread)
    game.evaluate(list(clouds))
    shares, _ = game.find_best(list(clouds))
    return dict(zip(clouds, shares.tolist(), strict=True))


class _Mixtures:
    """Least costs of mixtures, between those that were evaluated and the planes below all."""

    def __init__(self, clouds: Mapping[str, Cloud], target: Cloud, spread: float) -> None:
        self.place = {name: k for k, name in enumerate(clouds)}
        self.masses = [as_weights(w, len(x), name) for name, (x, w) in clouds.items()]
        self.ends = np.cumsum([0, *(len(masses) for masses in self.masses)])
        points = [as_points(x, name) for name, (x, _) in clouds.items()]
        self.target = as_weights(target[1], len(target[0]), "target")
        self.cost = np.concatenate([cost_matrix(x, target[0]) for x in points])
        if not spread > 0.0:
            raise InputError(
                f"the spread of the target is {spread:g}: a single point has no parts to explain. "
                "Leave Shapley values out.",
                code="valuation-spread",
            )
        # Costs are compared as parts of it: the tolerance is then free of units.
        self.variance = spread**2
        # Below every mixture's cost: one line a plan, of a number for each holder.
        self.planes: list[Array] = []
        self.evaluated: list[tuple[Array, float]] = []

    def evaluate(self, coalition: Collection[str]) -> float:
        """Compute what the best mixture of a coalition explains."""
        if not coalition:
            return 0.0
        return self._explain(self._minimize(self._mark(coalition)))

    def read(self, coalition: Collection[str]) -> float:
        """Return what the best of the mixtures evaluated so far explains."""
        if not coalition:
            return 0.0
        return self._explain(self._find_best(self._mark(coalition))[1])

    def find_best(self, coalition: Collection[str]) -> tuple[Array, float]:
        """Return the best of the mixtures evaluated so far, and its cost."""
        return self._find_best(self._mark(coalition))

    def _explain(self, cost: float) -> float:
        return max(1.0 - cost / self.variance, 0.0)

    def _mark(self, coalition: Collection[str]) -> Members:
        members = np.zeros(len(self.place), dtype=np.bool_)
        members[[self.place[name] for name in coalition]] = True
        return members

    def _find_best(self, members: Members) -> tuple[Array, float]:
        # A mixture of fewer holders is one of more, with zero shares: whatever was evaluated within
        # a coalition bounds its optimum from above.
        within = [item for item in self.evaluated if not item[0][~members].any()]
        return min(within, key=lambda item: item[1], default=(members / members.sum(), np.inf))

    def _minimize(self, members: Members) -> float:
        best, upper = self._find_best(members)
        for step in range(_MOST_PLANS):
            shares = best
            if self.planes:
                lowest, lower = self._find_lowest(members)
                # Beyond the variance a mixture explains nothing, and how much less than nothing
                # does not matter.
                if upper - lower <= TOLERANCE * self.variance or lower >= self.variance:
                    return max(upper, lower)
                # Every other time half way to the best so far: the lowest point of few planes
                # lies far out.
                halfway = step % 2 and np.isfinite(upper)
                shares = 0.5 * (best + lowest) if halfway else lowest
            cost = self._compute_cost(shares)
            # The last plan need not be the best: cutting planes do not descend.
            if cost < upper:
                best, upper = shares, cost
        raise SolverError(
            f"the best mixture of {members.sum()} holders was not found in {_MOST_PLANS} plans. "
            "Leave Shapley values out.",
            code="solver-mixture",
        )

    def _find_lowest(self, members: Members) -> tuple[Array, float]:
        """Find the mixture at which the planes are lowest, and their height at it."""
        chosen = np.flatnonzero(members)
        planes = np.array(self.planes)[:, chosen]
        scale = float(np.abs(planes).max()) or 1.0
        program = linprog(
            np.append(np.zeros(len(chosen)), 1.0),
            A_ub=np.hstack([planes / scale, -np.ones((len(planes), 1))]),
            b_ub=np.zeros(len(planes)),
            A_eq=np.append(np.ones(len(chosen)), 0.0)[None],
            b_eq=[1.0],
            bounds=[(0.0, None)] * len(chosen) + [(None, None)],
        )
        if not program.success:
            raise SolverError(
                f"the linear program of a mixture failed: {program.message}. Leave Shapley values "
                "out.",
                code="solver-mixture",
            )
        shares = np.zeros(len(members))
        solved: Array = np.asarray(program.x, dtype=np.float64)
        shares[chosen] = np.maximum(solved[:-1], 0.0)
        shares /= shares.sum()
        return shares, float((planes @ shares[chosen]).max())

    def _compute_cost(self, shares: Array) -> float:
        """Compute the cost of a mixture; the potentials of its plan become a plane."""
        weights = np.concatenate(
            [share * masses for share, masses in zip(shares, self.masses, strict=True)]
        )
        plan = plan_from_cost(self.cost, weights, self.target)
        potential = plan.potentials[1]
        below = (self.cost - potential).min(axis=1)
        ends = zip(self.ends[:-1], self.ends[1:], self.masses, strict=True)
        own = np.array([below[low:high] @ masses for low, high, masses in ends])
        # The constant goes into every share, as they sum to one.
        self.planes.append(own + float(self.target @ potential))
        self.evaluated.append((shares, plan.cost))
        return plan.cost
