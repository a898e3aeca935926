"""Exact optimal transport: plan, potentials and a certified interval for the distance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from . import _native
from ._check import (
    Array,
    Index,
    Weights,
    as_costs,
    as_exact_clouds,
    as_potentials,
    as_power,
    as_weights,
    real,
)
from ._solvers import Solution, solve_costs, solve_line, staircase
from .cost import build_cost, cost_by_differences, paired_cost, relative_rounding, to_power
from .errors import InputError, SolverError

_EPSILON = float(np.finfo(np.float64).eps)
# Relative room for the rounding of sums in the bounds of an exact solve: far above n epsilon for
# every n whose costs fit into memory.
_SUM_ROUNDING = 1e-12
# Relative gap up to which a plan counts as proven optimal.
_GAP_ALLOWED = 1e-9
# Part of the cost that a lower bound may miss before it is sharpened, at most so many entries of
# costs that are sharpened, and at most so many sweeps.
_LOOSE, _LARGEST_SHARPENED, _SWEEPS = 1e-6, 1 << 25, 400
# Times the largest cost that a plan uses: no better plan uses one far above.
_WELL_ABOVE = 8.0
# Masses below are rounding.
_NEGLIGIBLE = 8.0 * _EPSILON
# Points that coincide are solved as one where there are more costs than these, and this makes them
# fewer by so many times; columns that are looked at first, and entries at a time, in the cache.
_SMALL, _FEW, _LOOK, _LOOKED_AT = 4096, 2, 16, 1 << 16
# Exponent of 2 below which points are scaled: their squares would be near the end of the range.
_TINY_EXPONENT = -400
_LARGEST_TINY = 2.0**_TINY_EXPONENT
# Exponent of 2 of costs beyond which they are scaled: sums and differences must stay finite.
_LARGE_EXPONENT = 500
# Points of a cloud up to which the costs of a pair of clouds stay in the cache.
_LARGEST_BATCHED = 512


@dataclass(frozen=True)
class ExactPlan:
    """A coupling of two measures and the proof that it is optimal, or of how far it may be.

    Attributes
    ----------
    rows, cols, mass
        The coupling: ``mass[k] > 0`` goes from ``x[rows[k]]`` to ``y[cols[k]]``. At most
        n + m - 1 entries where the matrix of costs was there.
    potentials
        ``(f, g)`` with ``f[i] + g[j] <= |x_i - y_j|^p`` for every pair, equality where mass
        moves if it is optimal, and ``sum(a f) = sum(b g)``.
    cost
        ``sum_k mass[k] |x_rows[k] - y_cols[k]|^p``, the optimal cost if it is optimal.
    lower_cost, upper_cost
        Bounds of the optimal cost, rounding included: the dual value less the rounding of the
        cost matrix, and the cost with the cells that were left out as rounding of masses.
    status
        ``"optimal"``, or words that say how far the solver got and what to do.
    solver
        Which of the exact solvers ran.
    distances
        The distance and its bounds, where powers of them lose digits in float64.
    """

    rows: Index = field(repr=False)
    cols: Index = field(repr=False)
    mass: Array = field(repr=False)
    potentials: tuple[Array, Array] = field(repr=False)
    cost: float
    lower_cost: float
    upper_cost: float
    p: float
    status: str
    solver: str
    distances: tuple[float, float, float] | None = field(default=None, repr=False)

    @property
    def plan(self) -> sparse.csr_array:
        """The coupling as a sparse matrix, shape (n, m)."""
        shape = (len(self.potentials[0]), len(self.potentials[1]))
        return sparse.coo_array((self.mass, (self.rows, self.cols)), shape=shape).tocsr()

    @property
    def optimal(self) -> bool:
        """Whether the gap between cost and dual value proves the plan optimal."""
        return self.status == "optimal"

    @property
    def distance(self) -> float:
        """``cost ** (1 / p)``, the Wasserstein distance."""
        return self.distances[0] if self.distances else self.cost ** (1.0 / self.p)

    @property
    def lower(self) -> float:
        """Certified lower bound of the distance."""
        return self.distances[1] if self.distances else self.lower_cost ** (1.0 / self.p)

    @property
    def upper(self) -> float:
        """Certified upper bound of the distance: the cost of a coupling, rounding included."""
        return self.distances[2] if self.distances else self.upper_cost ** (1.0 / self.p)


def exact_plan(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, p: float = 2, start: npt.ArrayLike | None = None,
) -> ExactPlan:  # fmt: skip
    r"""Solve ``min_P <P, C>`` over the couplings P of two weighted point clouds.

    .. math:: W_p^p(\mu, \nu) = \min_{P \ge 0,\ P 1 = a,\ P^T 1 = b} \sum_{ij} P_{ij}
              |x_i - y_j|^p = \max_{f_i + g_j \le |x_i - y_j|^p} \sum_i a_i f_i + \sum_j b_j g_j

    The solver is chosen by regime: sorting on the line, assignment where all masses are equal, and
    a network simplex for any others; points that coincide are one. Without compiled kernels,
    scipy's assignment and HiGHS take their place. Whatever ran, the dual pair is made feasible and
    the gap to the cost is checked.

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights, shapes (n,) and (m,); normalised to sum 1. ``None`` means uniform. Points of
        weight zero carry no mass and get a feasible potential.
    p
        1 or more.
    start
        Potentials of ``y``, shape (m,), of a problem near this one, as ``potentials[1]`` of its
        plan. They save time and do not change the optimum; of several optimal plans they may lead
        to another one.

    Returns
    -------
    ExactPlan

    Raises
    ------
    InputError, MismatchError
        NaN, empty, non-numeric or mismatched input; weights that are negative or sum to zero.
    SolverError
        No solver returned a coupling of these measures.

    Notes
    -----
    Kantorovich duality: Peyré and Cuturi, *Computational Optimal Transport*, 2019, sec. 2.5.

    Examples
    --------
    >>> result = exact_plan([[0.0], [1.0]], [[2.0], [3.0]])
    >>> result.cost, result.distance, result.status
    (4.0, 2.0, 'optimal')
    """
    order = as_power(p)
    x, y, a, b, error = as_exact_clouds(x, y, a, b)
    g = None if start is None else as_potentials(start, len(y), "start")
    # Of other orders powers are checked where they are computed.
    exponent = tiny_exponent(x, y) if order in (1, 2) else 0
    if exponent:
        x, y, error = np.ldexp(x, -exponent), np.ldexp(y, -exponent), math.ldexp(error, -exponent)
        with np.errstate(over="ignore"):
            g = None if g is None else np.ldexp(g, int(-exponent * order))
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    if len(rows) == len(x) and len(cols) == len(y):
        plan = _solve_points(x, y, a, b, order, g)
    else:
        g = None if g is None else g[cols]
        plan = _solve_points(x[rows], y[cols], a[rows], b[cols], order, g)
        plan = _extend_to_idle(
            plan, rows, cols, (len(x), len(y)), lambda i, j: build_cost(x[i], y[j], order).matrix
        )
    plan = widened_plan(plan, x, y, error) if error else plan
    return scaled_plan(plan, exponent) if exponent else plan


def tiny_exponent(x: Array, y: Array) -> int:
    """Return the power of two by which to divide points whose squares would lose digits, or 0."""
    # One value is enough to see that most points are no such ones.
    if abs(float(x[0, 0])) > _LARGEST_TINY:
        return 0
    largest = max(float(np.abs(x).max()), float(np.abs(y).max()))
    exponent = math.frexp(largest)[1]
    return exponent if largest > 0.0 and exponent < _TINY_EXPONENT else 0


def scaled_plan(plan: ExactPlan, exponent: int) -> ExactPlan:
    """Return the plan with distances times a power of two; bounds are rounded outwards.

    Squares of these distances may underflow, so that they are kept beside the costs.
    """
    power = exponent * int(plan.p)
    cost, lower, upper = _scale_bounds((plan.cost, plan.lower_cost, plan.upper_cost), power)
    distances = _scale_bounds((plan.distance, plan.lower, plan.upper), exponent)
    f, g = (np.ldexp(k, power) for k in plan.potentials)
    return replace(
        plan, potentials=(f, g), cost=cost, lower_cost=lower, upper_cost=upper, distances=distances
    )


def _scale_bounds(values: tuple[float, float, float], exponent: int) -> tuple[float, float, float]:
    """Multiply a value and its bounds by a power of two."""
    value, lower, upper = (math.ldexp(k, exponent) for k in values)
    if math.ldexp(lower, -exponent) > values[1]:
        lower = math.nextafter(lower, -math.inf)
    if math.ldexp(upper, -exponent) < values[2]:
        upper = math.nextafter(upper, math.inf)
    return min(max(value, lower), upper), lower, upper


def widened_plan(plan: ExactPlan, x: Array, y: Array, error: float) -> ExactPlan:
    """Return the plan with bounds that allow for distances of points that are off by an error."""
    low = np.minimum(x.min(axis=0), y.min(axis=0))
    extent = float(np.linalg.norm(np.maximum(x.max(axis=0), y.max(axis=0)) - low))
    error *= plan.p * (extent + error) ** (plan.p - 1)
    error *= 1.0 + _SUM_ROUNDING
    lower = min(max(plan.lower_cost - error, 0.0), plan.cost)
    return replace(plan, lower_cost=lower, upper_cost=plan.upper_cost + error)


def plan_from_cost(
    cost: npt.ArrayLike, a: npt.ArrayLike | None = None, b: npt.ArrayLike | None = None
) -> ExactPlan:
    """Solve transport for a matrix of costs, as when only pairwise costs were shared.

    Parameters
    ----------
    cost
        Shape (n, m), finite. ``distance`` and the bounds of the result are those of ``p = 1``,
        that is the optimal cost itself.
    a, b
        Weights; ``None`` means uniform.

    Returns
    -------
    ExactPlan

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``exact_plan``.

    Examples
    --------
    >>> plan_from_cost([[0.0, 2.0], [2.0, 1.0]]).cost
    0.5
    """
    matrix, lowest, largest = as_costs(cost)
    a, b = as_weights(a, matrix.shape[0], "a"), as_weights(b, matrix.shape[1], "b")
    part, rows, cols = matrix, np.flatnonzero(a), np.flatnonzero(b)
    if len(rows) < len(a) or len(cols) < len(b):
        part = np.ascontiguousarray(matrix[np.ix_(rows, cols)])
        a, b, lowest, largest = a[rows], b[cols], float(part.min()), float(part.max())
    lowest = min(lowest, 0.0)
    limits = lowest, largest - lowest
    groups = _group_costs(part)
    if groups is None:
        result = _solve_matrix(part, a, b, limits)
    else:
        small = np.ascontiguousarray(part[np.ix_(groups[0].first, groups[1].first)])
        few = _solve_matrix(small, groups[0].masses(a), groups[1].masses(b), limits)
        result = plan_of_points(few, *groups, a, b)
    if part is matrix:
        return result
    return _extend_to_idle(result, rows, cols, matrix.shape, lambda i, j: matrix[np.ix_(i, j)])


def _solve_matrix(cost: Array, a: Array, b: Array, limits: tuple[float, float]) -> ExactPlan:
    """Solve for costs, none below the first limit, which is not above 0, by more than the other."""
    lowest, largest = limits
    exponent = math.frexp(max(lowest + largest, -lowest))[1] - _LARGE_EXPONENT
    if exponent > 0:
        near = math.ldexp(lowest, -exponent), math.ldexp(largest, -exponent)
        plan = scaled_plan(_solve_matrix(np.ldexp(cost, -exponent), a, b, near), exponent)
        return _allow_for_scaling(plan, cost, exponent, is_signed=lowest < 0.0)
    solution = solve_costs(cost - lowest if lowest else cost, a, b, largest=largest)
    if lowest:
        solution = replace(solution, f=solution.f + lowest)
    return _certify(solution, cost[solution.rows, solution.cols], a, b, p=1, rounding=0.0)


def _allow_for_scaling(
    plan: ExactPlan, cost: Array, exponent: int, *, is_signed: bool
) -> ExactPlan:
    """Return a plan of costs that were divided by a power of two, with bounds of the costs."""
    # The smallest number, where the solver divides by as much again as large costs have.
    lost = math.ldexp(2.0, exponent + _LARGE_EXPONENT + 1 - 1074)
    value = float(plan.mass @ cost[plan.rows, plan.cols])
    lower = min(plan.lower_cost - lost, value)
    lower = lower if is_signed else max(lower, 0.0)
    upper = max(plan.upper_cost + lost, value)
    status = plan.status
    if value > lower and lost > _GAP_ALLOWED * abs(value):
        status = (
            f"within {upper - lower:.1e} of the optimal cost, by rounding beside the largest cost. "
            "Leave out rows and columns with costs that large, or make them smaller."
        )
    return replace(
        plan, cost=value, lower_cost=lower, upper_cost=upper, status=status, distances=None
    )


def partial_plan(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, mass: float, p: float = 2,
) -> ExactPlan:  # fmt: skip
    r"""Move part of the mass at least cost; the rest of both clouds stays where it is.

    .. math:: \min_{P \ge 0,\ P 1 \le a,\ P^T 1 \le b,\ \sum P = s} \sum_{ij} P_{ij} |x_i - y_j|^p

    Solved as transport with one more point on either side, which takes what stays at no cost.

    Parameters
    ----------
    x, y, a, b, p
        As ``exact_plan``.
    mass
        s, above 0 and up to 1: the share that moves.

    Returns
    -------
    ExactPlan
        Of mass s. Its potentials are feasible and prove the bounds together with what the points
        that take what stays add.

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``exact_plan``; a mass out of range.

    Notes
    -----
    Caffarelli and McCann, *Free boundaries in optimal transport and Monge-Ampere obstacle
    problems*, 2010, for the points that are added.

    Examples
    --------
    >>> plan = partial_plan([[0.0], [1.0]], [[1.5], [9.0]], mass=0.5)
    >>> plan.cost, plan.rows.tolist(), plan.cols.tolist()
    (0.125, [1], [0])
    """
    share = real(mass, "mass", "option-mass")
    if not 0.0 < share <= 1.0:
        raise InputError(
            f"mass is {mass!r}; a share above 0 and up to 1 is needed.", code="option-mass"
        )
    if share == 1.0:
        return exact_plan(x, y, a, b, p=p)
    order = as_power(p)
    x, y, a, b, error = as_exact_clouds(x, y, a, b)
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    inner = build_cost(x[rows], y[cols], order)
    n, m = inner.matrix.shape
    cost = np.zeros((n + 1, m + 1))
    cost[:n, :m] = inner.matrix
    # What stays on one side must not be taken by what stays on the other.
    cost[n, m] = 2.0 * float(inner.matrix.max()) + 1.0
    weights = np.append(a[rows], 1.0 - share), np.append(b[cols], 1.0 - share)
    total = 2.0 - share
    extended = plan_from_cost(cost, *weights)
    used = (extended.rows < n) & (extended.cols < m)
    i, j, moved = extended.rows[used], extended.cols[used], extended.mass[used] * total
    exact = paired_cost(x[rows[i]], y[cols[j]], order)
    slack = total * inner.rounding
    value = float(moved @ exact)
    f, g = np.zeros(len(a)), np.zeros(len(b))
    f[rows], g[cols] = (k[:-1] for k in extended.potentials)
    plan = ExactPlan(
        rows=rows[i],
        cols=cols[j],
        mass=moved,
        potentials=(f, g),
        cost=value,
        lower_cost=min(max(extended.lower_cost * total - slack, 0.0), value),
        upper_cost=max(extended.upper_cost * total + slack, value),
        p=order,
        status=extended.status,
        solver=extended.solver,
    )
    return widened_plan(plan, x, y, error) if error else plan


def _solve_points(
    x: Array, y: Array, a: Array, b: Array, p: float, start: Array | None = None
) -> ExactPlan:
    if x.shape[1] > 1 and len(x) * len(y) > _SMALL:
        groups = group_points(x), group_points(y)
        if _FEW * groups[0].count * groups[1].count <= len(x) * len(y):
            return _solve_groups(x, y, a, b, p, *groups)
    plan = _solve_rounded(x, y, a, b, p, start)
    if not _is_loose(plan) or len(a) * len(b) > _LARGEST_SHARPENED:
        return plan
    plan = _sharpen(plan, x, y, a, b)
    if _is_loose(plan):
        # Costs that no plan would use are cut off: the solver then keeps digits for the others.
        cost = cost_by_differences(x, y, p)
        most = _WELL_ABOVE * float(cost[plan.rows, plan.cols].max())
        solution = solve_costs(np.minimum(cost, most), a, b)
        moved = cost[solution.rows, solution.cols]
        other = _certify(solution, moved, a, b, p=p, rounding=float(cost.max()))
        other = _sharpen(replace(other, lower_cost=plan.lower_cost), x, y, a, b)
        best = other if other.upper_cost < plan.upper_cost else plan
        plan = replace(best, lower_cost=min(other.lower_cost, best.cost))
    return plan


@dataclass(frozen=True)
class Groups:
    """Points that coincide: ``of`` has the group of each point, ``first`` a point of each group."""

    of: Index
    first: Index

    @property
    def count(self) -> int:
        """Number of groups."""
        return len(self.first)

    def masses(self, weights: Array) -> Array:
        """Add the weights of the points of each group."""
        return np.bincount(self.of, weights).astype(np.float64)


def group_points(x: Array) -> Groups:
    """Group points that coincide."""
    # One column is enough to see that most clouds have no such points.
    if not _repeats(x[:, 0]):
        every = np.arange(len(x))
        return Groups(every, every)
    order = np.lexsort(x.T)
    is_new = np.append(True, (x[order[1:]] != x[order[:-1]]).any(axis=1))
    of = np.empty(len(x), dtype=np.intp)
    of[order] = np.cumsum(is_new) - 1
    return Groups(of, order[is_new])


def _repeats(values: Array) -> bool:
    """Return whether a value occurs twice."""
    return _count_distinct(values) < len(values)


def _group_costs(cost: Array) -> tuple[Groups, Groups] | None:
    """Group rows and columns that are equal, where that makes far fewer costs."""
    if cost.size <= _SMALL or not (_repeats(cost[:, 0]) or _repeats(cost[0])):
        return None
    # Rows that differ in a few columns are different: most matrices need no look at all of it.
    for columns in (_LOOK, None):
        parts = cost[:, :columns], cost[:columns].T
        if _FEW * math.prod(_count_distinct(_random_sums(part)) for part in parts) > cost.size:
            return None
    rows, cols = (_group_values(_random_sums(part)) for part in (cost, cost.T))
    # Rows of one sum may differ, and rounding may part equal ones: what is merged is looked at.
    few = cost[rows.first]
    block = max(1, _LOOKED_AT // cost.shape[1])
    parts = (slice(k, k + block) for k in range(0, len(cost), block))
    is_equal = bool((few == few[:, cols.first[cols.of]]).all()) and all(
        bool((cost[part] == few[rows.of[part]]).all()) for part in parts
    )
    return (rows, cols) if is_equal else None


def _random_sums(cost: Array) -> Array:
    """Add the entries of each row with random factors."""
    factors = np.random.default_rng(0).standard_normal((cost.shape[1], 1))
    return np.asarray(np.matmul(cost, factors)).ravel()


def _count_distinct(values: Array) -> int:
    return 1 + int((np.diff(np.sort(values)) != 0.0).sum())


def _group_values(values: Array) -> Groups:
    _, first, of = np.unique(values, return_index=True, return_inverse=True)
    return Groups(of.ravel(), first)


def _solve_groups(
    x: Array, y: Array, a: Array, b: Array, p: float, rows: Groups, cols: Groups
) -> ExactPlan:
    """Solve for groups of points that coincide, and share what each sends among its points."""
    plan = _solve_points(x[rows.first], y[cols.first], rows.masses(a), cols.masses(b), p)
    return plan_of_points(plan, rows, cols, a, b)


def plan_of_points(plan: ExactPlan, rows: Groups, cols: Groups, a: Array, b: Array) -> ExactPlan:
    """Return the plan of groups of points as one of the points."""
    i, cell, mass = _share(plan.rows, plan.mass, rows, a)
    j, k, mass = _share(plan.cols[cell], mass, cols, b)
    f, g = plan.potentials
    return replace(plan, rows=i[k], cols=j, mass=mass, potentials=(f[rows.of], g[cols.of]))


def _share(
    groups: Index, mass: Array, members: Groups, weights: Array
) -> tuple[Index, Index, Array]:
    """Divide what groups send or get: the point, the entry, and the mass of each part."""
    by_group, by_entry = np.argsort(members.of, kind="stable"), np.argsort(groups, kind="stable")
    points, entries, part = staircase(weights[by_group], mass[by_entry])
    points, entries = by_group[points], by_entry[entries]
    # Sums of masses are rounded: a step of one group may end within another by one unit of that.
    is_own = (members.of[points] == groups[entries]) & (part > 0.0)
    return points[is_own], entries[is_own], part[is_own]


def _is_loose(plan: ExactPlan) -> bool:
    return not plan.optimal or plan.cost - plan.lower_cost > _LOOSE * plan.cost


def _sharpen(plan: ExactPlan, x: Array, y: Array, a: Array, b: Array) -> ExactPlan:
    """Return the plan with a better lower bound, if there is one.

    Clusters that are tight and far from one another have costs from 1e-6 to 1e8: what is rounded
    in the largest is more than the optimum. But an entry only matters for the bound where a
    constraint is tight, and there costs are small: they are computed from differences, potentials
    are kept small, and every entry is taken down by its own rounding.
    """
    f, g, dual = _find_small_potentials(x, y, a, b, plan)
    if dual <= plan.lower_cost:
        return plan
    is_proven = plan.cost - dual <= _GAP_ALLOWED * plan.cost
    shift = 0.5 * (float(b @ g) - float(a @ f))
    return replace(
        plan,
        potentials=(f + shift, g - shift),
        lower_cost=min(dual, plan.cost),
        status="optimal" if is_proven else plan.status,
    )


def _find_small_potentials(
    x: Array, y: Array, a: Array, b: Array, plan: ExactPlan
) -> tuple[Array, Array, float]:
    r"""Find feasible potentials near 0 from the support of an optimal plan, and their dual value.

    With :math:`f_i = C_{ij} - g_j` on the support, feasibility is
    :math:`g_{j'} \le g_j + C_{ij'} - C_{ij}`: shortest paths from anywhere, by sweeps
    (Bellman-Ford). Whatever g comes out, :math:`f_i = \min_j C_{ij} - g_j` is feasible.
    """
    cost = cost_by_differences(x, y, plan.p)
    rows, cols = plan.rows, plan.cols
    own = cost[rows, cols]
    g = np.zeros(len(b))
    for _ in range(_SWEEPS):
        before = g.copy()
        shift = np.full(len(a), np.inf)
        np.minimum.at(shift, rows, g[cols] - own)
        g = np.minimum(g, (cost + shift[:, None]).min(axis=0))
        if (before - g <= 4.0 * _EPSILON * np.abs(g)).all():
            break
    least = cost * (1.0 - relative_rounding(x.shape[1], plan.p)) - g
    least -= 2.0 * _EPSILON * np.abs(least)
    f = least.min(axis=1)
    terms = [*(a * f).tolist(), *(b * g).tolist()]
    rounding = 2.0 * _EPSILON * math.fsum(map(abs, terms))
    return f, g, math.fsum(terms) - rounding


def _solve_rounded(
    x: Array, y: Array, a: Array, b: Array, p: float, start: Array | None
) -> ExactPlan:
    low_x, low_y, high_x, high_y = x.min(axis=0), y.min(axis=0), x.max(axis=0), y.max(axis=0)
    # Least values are enough to see that most measures are not the same.
    same = coincide(x, y, a, b) if np.array_equal(low_x, low_y) else None
    if same is not None:
        solution = Solution(*same, a[same[0]], np.zeros(len(a)), np.zeros(len(b)), "identity")
        return _certify(solution, np.zeros(len(a)), a, b, p=p, rounding=0.0)
    # Clouds that are where one another is have costs without a common offset.
    if p != 2 or bool((np.maximum(low_x, low_y) <= np.minimum(high_x, high_y)).all()):
        solution, rounding = _solve_clouds(x, y, a, b, p, start)
        moved = paired_cost(x[solution.rows], y[solution.cols], p)
        return _certify(solution, moved, a, b, p=p, rounding=rounding)
    # Moving a cloud changes the squared cost of every plan alike: solve around both means,
    # where no common offset costs digits, and add what the means contribute.
    x_mean, y_mean = a @ x, b @ y
    near_x, near_y, shift = x - x_mean, y - y_mean, x_mean - y_mean
    near = None if start is None else start + 2.0 * (near_y @ shift)
    solution, rounding = _solve_clouds(near_x, near_y, a, b, p, near)
    squared = float(shift @ shift)
    f = solution.f + 2.0 * (near_x @ shift) + squared
    g = solution.g - 2.0 * (near_y @ shift)
    moved = paired_cost(x[solution.rows], y[solution.cols], p)
    # The dual value from the centred potentials: in f and g themselves large terms cancel.
    # Means are rounded: those of the centred clouds are not exactly zero, and count too.
    remainder = a @ near_x - b @ near_y
    dual = float(a @ solution.f + b @ solution.g) + squared + 2.0 * float(remainder @ shift)
    rounding += _SUM_ROUNDING * squared
    return _certify(replace(solution, f=f, g=g), moved, a, b, p=p, rounding=rounding, dual=dual)


def coincide(x: Array, y: Array, a: Array, b: Array) -> tuple[Index, Index] | None:
    """Match the points of two measures where both are the same measure, else return None."""
    # One column is enough to see that most measures do not.
    if x.shape != y.shape or not np.array_equal(np.sort(x[:, 0]), np.sort(y[:, 0])):
        return None
    rows, cols = (np.lexsort((w, *k.T)) for k, w in ((x, a), (y, b)))
    if np.array_equal(x[rows], y[cols]) and np.array_equal(a[rows], b[cols]):
        return rows, cols
    return None


def _solve_clouds(
    x: Array, y: Array, a: Array, b: Array, p: float, start: Array | None
) -> tuple[Solution, float]:
    if x.shape[1] == 1:
        span = max(float(np.ptp(x)), float(np.ptp(y)), float(np.abs(x.mean() - y.mean())))
        if p not in (1, 2):
            to_power(np.array([span]), p)
        # Potentials are running sums of n + m differences of costs.
        rounding = (len(x) + len(y)) * max(p, 2) * _EPSILON * 2.0 * span**p
        return solve_line(x[:, 0], y[:, 0], a, b, p), rounding
    cost = build_cost(x, y, p)
    solution = solve_costs(cost.matrix, a, b, start, cost.largest)
    return solution, cost.rounding


def _certify(
    solution: Solution,
    moved: Array,
    a: Array,
    b: Array,
    *,
    p: float,
    rounding: float,
    dual: float | None = None,
) -> ExactPlan:
    """Check marginals and gap, word the status, and centre the potentials."""
    rows, cols, mass = solution.rows, solution.cols, solution.mass
    # Sums of masses leave cells of some 1e-17 behind. They are dropped where neither their row
    # nor their column misses them, and stay in the upper bound.
    total = cost = float(mass @ moved)
    if not float(mass.min()) > _NEGLIGIBLE:
        is_real = (mass > _NEGLIGIBLE) | (mass > 1e-6 * a[rows]) | (mass > 1e-6 * b[cols])
        rows, cols, mass, moved = rows[is_real], cols[is_real], mass[is_real], moved[is_real]
        cost = float(mass @ moved)
    residual = float(
        np.abs(np.bincount(rows, mass, len(a)) - a).sum()
        + np.abs(np.bincount(cols, mass, len(b)) - b).sum()
    )
    if not residual <= 1e-11 * len(mass):
        raise SolverError(
            f"the {solution.solver} returned a coupling whose marginals are off by "
            f"{residual:.1e}. Rescale the features or merge points of tiny weight.",
            code="solver-marginals",
        )
    least, of_rows, of_cols = float(moved.min()), float(a @ solution.f), float(b @ solution.g)
    if dual is None:
        dual = of_rows + of_cols
    # No cost is negative, so zero bounds every optimum from below.
    gap = cost - (dual if least < 0.0 else max(dual, 0.0))
    scale = abs(cost)
    if gap > _GAP_ALLOWED * scale:
        scale = max(scale, float(moved.max()) * float(mass.max()))
    if solution.finished and gap <= _GAP_ALLOWED * scale:
        status = "optimal"
    elif solution.finished and gap <= _GAP_ALLOWED * scale + 2.0 * rounding:
        status = (
            f"optimal up to rounding: costs of such different sizes have a rounding error "
            f"of {rounding:.1e}, and so has the optimum {cost:.6g}. Remove far outliers for more "
            "digits."
        )
    else:
        status = (
            f"not proven optimal: the cost {cost:.6g} exceeds the dual bound by {gap:.1e}. "
            "Remove outliers, rescale the features or merge points of tiny weight."
        )
    shift = 0.5 * (of_cols - of_rows)
    lower = (
        dual
        - rounding
        - _SUM_ROUNDING * (float(a @ np.abs(solution.f)) + float(b @ np.abs(solution.g)))
    )
    return ExactPlan(
        rows=rows,
        cols=cols,
        mass=mass,
        potentials=(solution.f + shift, solution.g - shift),
        cost=cost,
        lower_cost=min(lower if least < 0.0 else max(lower, 0.0), cost),
        upper_cost=max(total, cost)
        + _SUM_ROUNDING * (cost if least >= 0.0 else float(mass @ np.abs(moved))),
        p=p,
        status=status,
        solver=solution.solver,
    )


def _extend_to_idle(
    plan: ExactPlan,
    rows: Index,
    cols: Index,
    shape: tuple[int, int],
    cost_between: Callable[[Index, Index], Array],
) -> ExactPlan:
    """Extend a plan of some rows and columns to all, with the largest feasible potentials."""
    f, g = (np.full(size, np.nan) for size in shape)
    f[rows], g[cols] = plan.potentials
    idle = np.flatnonzero(np.isnan(g))
    if len(idle):
        g[idle] = (cost_between(rows, idle) - f[rows, None]).min(axis=0)
    idle = np.flatnonzero(np.isnan(f))
    if len(idle):
        f[idle] = (cost_between(idle, np.arange(len(g))) - g).min(axis=1)
    return replace(plan, rows=rows[plan.rows], cols=cols[plan.cols], potentials=(f, g))


def squared_distances(x: Sequence[Array], y: Sequence[Array]) -> Array:
    r"""Compute the squared distances of many pairs of small uniform clouds, all of one size.

    .. math:: W_2^2(X_k, Y_k) = \min_\sigma \frac1n \sum_i |x_{ki} - y_{k \sigma(i)}|^2

    Parameters
    ----------
    x, y
        N clouds each, of shape (n, d) each: finite numbers.

    Returns
    -------
    numpy.ndarray
        Shape (N,). The result of a pair does not depend on the other pairs, to the last bit.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[0.0], [1.0]])
    >>> squared_distances([x, x], [x + 2, x[::-1]])
    array([4., 0.])
    """
    kernels = _native.kernels
    if kernels is None or len(x[0]) > _LARGEST_BATCHED:
        return np.array([exact_plan(one, other).cost for one, other in zip(x, y, strict=True)])
    one, other = np.stack(x), np.stack(y)
    # Lengths are brought near one by powers of two, because squares of others may overflow.
    exponents = np.frexp(np.maximum(*(np.abs(k).max(axis=(1, 2)) for k in (one, other))))[1]
    down = -exponents[:, None, None]
    means = np.empty(len(one))
    kernels.clouds(np.ldexp(one, down), np.ldexp(other, down), means)
    return np.ldexp(means, 2 * exponents)
