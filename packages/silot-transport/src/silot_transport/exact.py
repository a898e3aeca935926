"""Exact optimal transport: plan, potentials and a certified interval for the distance."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
from scipy import sparse

from . import _native, _sharpen
from ._assignment import common_units, solve_units
from ._check import Array, as_order, as_points, as_potentials, as_weights, same_dimension
from ._compiled import solve_compiled, suits
from ._line import solve_line
from ._network import solve_network
from ._solution import Index, Solution
from .cost import build_cost, paired_cost
from .errors import SolverError

# Largest assignment problem solved as such; beyond, its augmenting paths are long.
_LARGEST_ASSIGNMENT = 300
# Relative room for the rounding of sums in the bounds of an exact solve.
_SUM_ROUNDING = 1e-12
_GAP_ALLOWED = 1e-9
# Part of the cost that a lower bound may miss before costs are looked at one by one.
_LOOSE = 1e-6
# Times the largest cost that a plan uses: no better plan uses one far above.
_WELL_ABOVE = 8.0
_NEGLIGIBLE = 8.0 * float(np.finfo(np.float64).eps)


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
    """

    rows: Index = field(repr=False)
    cols: Index = field(repr=False)
    mass: Array = field(repr=False)
    potentials: tuple[Array, Array] = field(repr=False)
    cost: float
    lower_cost: float
    upper_cost: float
    p: int
    status: str
    solver: str

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
        return self.cost ** (1.0 / self.p)

    @property
    def lower(self) -> float:
        """Certified lower bound of the distance."""
        return self.lower_cost ** (1.0 / self.p)

    @property
    def upper(self) -> float:
        """Certified upper bound of the distance: the cost of a coupling, rounding included."""
        return self.upper_cost ** (1.0 / self.p)


def exact_plan(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    *,
    p: int = 2,
    start: npt.ArrayLike | None = None,
) -> ExactPlan:
    r"""Solve ``min_P <P, C>`` over the couplings P of two weighted point clouds.

    .. math:: W_p^p(\mu, \nu) = \min_{P \ge 0,\ P 1 = a,\ P^T 1 = b} \sum_{ij} P_{ij}
              |x_i - y_j|^p = \max_{f_i + g_j \le |x_i - y_j|^p} \sum_i a_i f_i + \sum_j b_j g_j

    The solver is chosen by regime: sorting on the line; assignment where all masses are equal;
    shortest augmenting paths for small problems of any masses; network simplex with column
    generation for large ones. Without compiled kernels (``silot doctor``) scipy's assignment and
    POT's network simplex take the place of theirs. Whatever ran, the dual pair is made feasible
    and the gap to the cost is checked.

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights, shapes (n,) and (m,); normalised to sum 1. ``None`` means uniform. Points of
        weight zero carry no mass and get a feasible potential.
    p
        1 or 2.
    start
        Potentials of ``y``, shape (m,), of a problem near this one, as ``potentials[1]`` of its
        plan. The optimum is the same without them, and found in more time; of several plans of
        the same cost another may be found.

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
    x, y, order = as_points(x, "x"), as_points(y, "y"), as_order(p)
    same_dimension(x, y)
    a, b = as_weights(a, len(x), "a"), as_weights(b, len(y), "b")
    g = None if start is None else as_potentials(start, len(y), "start")
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    if len(rows) == len(x) and len(cols) == len(y):
        return _solve_points(x, y, a, b, order, g)
    g = None if g is None else g[cols]
    result = _solve_points(x[rows], y[cols], a[rows], b[cols], order, g)
    return replace(
        result,
        rows=rows[result.rows],
        cols=cols[result.cols],
        potentials=_extend_potentials(result, x, y, rows, cols),
    )


def plan_from_cost(
    cost: npt.ArrayLike, a: npt.ArrayLike | None = None, b: npt.ArrayLike | None = None
) -> ExactPlan:
    """Solve transport for a given cost matrix, as when only pairwise costs were shared.

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
    matrix = as_points(cost, "cost")
    a, b = as_weights(a, matrix.shape[0], "a"), as_weights(b, matrix.shape[1], "b")
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    part = matrix
    if len(rows) < len(a) or len(cols) < len(b):
        part = np.ascontiguousarray(matrix[np.ix_(rows, cols)])
    lowest = min(float(part.min()), 0.0)
    solution = _solve(part - lowest if lowest else part, a[rows], b[cols])
    mass_cost = part[solution.rows, solution.cols]
    result = _certify(
        replace(solution, f=solution.f + lowest), mass_cost, a[rows], b[cols], p=1, rounding=0.0
    )
    f = np.full(len(a), np.inf)
    g = np.full(len(b), np.inf)
    f[rows], g[cols] = result.potentials
    if len(cols) < len(b):
        g = np.where(np.isinf(g), (matrix[rows] - f[rows, None]).min(axis=0), g)
    if len(rows) < len(a):
        f = np.where(np.isinf(f), (matrix - g).min(axis=1), f)
    return replace(result, rows=rows[result.rows], cols=cols[result.cols], potentials=(f, g))


def _solve_points(
    x: Array, y: Array, a: Array, b: Array, p: int, start: Array | None = None
) -> ExactPlan:
    found = _solve_rounded(x, y, a, b, p, start)
    if not _is_loose(found) or len(a) * len(b) > _sharpen.LARGEST:
        return found
    found = _sharpened(found, x, y, a, b)
    if _is_loose(found):
        # Costs that no plan would use are cut off: the solver then sees those that it would.
        cost = _sharpen.by_differences(x, y, p)
        most = _WELL_ABOVE * float(cost[found.rows, found.cols].max())
        solution = _solve(np.minimum(cost, most), a, b, x.shape[1])
        moved = cost[solution.rows, solution.cols]
        other = _certify(solution, moved, a, b, p=p, rounding=float(cost.max()))
        other = _sharpened(replace(other, lower_cost=found.lower_cost), x, y, a, b)
        best = other if other.upper_cost < found.upper_cost else found
        found = replace(best, lower_cost=min(other.lower_cost, best.cost))
    return found


def _is_loose(found: ExactPlan) -> bool:
    return not found.optimal or found.cost - found.lower_cost > _LOOSE * found.cost


def _sharpened(found: ExactPlan, x: Array, y: Array, a: Array, b: Array) -> ExactPlan:
    """The plan with a better lower bound, if there is one."""
    f, g, dual = _sharpen.sharpened(x, y, a, b, found.p, found.rows, found.cols)
    if dual <= found.lower_cost:
        return found
    proven = found.cost - dual <= _GAP_ALLOWED * found.cost
    shift = 0.5 * (float(b @ g) - float(a @ f))
    return replace(
        found,
        potentials=(f + shift, g - shift),
        lower_cost=min(dual, found.cost),
        status="optimal" if proven else found.status,
    )


def _solve_rounded(
    x: Array, y: Array, a: Array, b: Array, p: int, start: Array | None
) -> ExactPlan:
    same = coincide(x, y, a, b)
    if same is not None:
        solution = Solution(*same, a[same[0]], np.zeros(len(a)), np.zeros(len(b)), "identity")
        return _certify(solution, np.zeros(len(a)), a, b, p=p, rounding=0.0)
    if p == 1:
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
    # Means are rounded; what is left of the centred means belongs to it too.
    rest = a @ near_x - b @ near_y
    dual = float(a @ solution.f + b @ solution.g) + squared + 2.0 * float(rest @ shift)
    rounding += _SUM_ROUNDING * squared
    return _certify(replace(solution, f=f, g=g), moved, a, b, p=p, rounding=rounding, dual=dual)


def coincide(x: Array, y: Array, a: Array, b: Array) -> tuple[Index, Index] | None:
    """Which point of ``y`` each point of ``x`` is, when both measures are the same."""
    # One column is enough to see that most measures do not.
    if x.shape != y.shape or not np.array_equal(np.sort(x[:, 0]), np.sort(y[:, 0])):
        return None
    rows, cols = (np.lexsort((w, *k.T)) for k, w in ((x, a), (y, b)))
    if np.array_equal(x[rows], y[cols]) and np.array_equal(a[rows], b[cols]):
        return rows, cols
    return None


def _solve_clouds(
    x: Array, y: Array, a: Array, b: Array, p: int, start: Array | None
) -> tuple[Solution, float]:
    if x.shape[1] == 1:
        span = max(float(np.ptp(x)), float(np.ptp(y)), float(np.abs(x.mean() - y.mean())))
        # Potentials are running sums of n + m differences of costs.
        rounding = (len(x) + len(y)) * float(np.finfo(np.float64).eps) * 4.0 * span**p
        return solve_line(x[:, 0], y[:, 0], a, b, p), rounding
    cost = build_cost(x, y, p)
    return _solve(cost.matrix, a, b, x.shape[1], start), cost.rounding


def _solve(cost: Array, a: Array, b: Array, d: int = 0, start: Array | None = None) -> Solution:
    n, m = cost.shape
    if n == 1 or m == 1:
        rows, cols = (k.ravel() for k in np.indices((n, m)))
        f, g = (cost[:, 0], np.zeros(1)) if m == 1 else (np.zeros(1), cost[0])
        return Solution(rows, cols, (a[:, None] * b).ravel(), f, g, "single point")
    if _native.kernels is not None and suits(cost, a, b):
        return solve_compiled(_native.kernels, cost, a, b, d, start)
    # Splitting points pays only while it does not make the problem larger.
    units = common_units(a, b, min(_LARGEST_ASSIGNMENT, max(n, m)))
    if units is not None and int(units[0].sum()) ** 2 <= 8 * cost.size:
        return solve_units(cost, *units)
    return solve_network(cost, a, b, start)


def _certify(
    solution: Solution,
    moved: Array,
    a: Array,
    b: Array,
    *,
    p: int,
    rounding: float,
    dual: float | None = None,
) -> ExactPlan:
    """Check marginals and gap; centre the potentials."""
    rows, cols, mass = solution.rows, solution.cols, solution.mass
    # Sums of masses leave cells of some 1e-17 behind. They are left out where their row and
    # their column do not miss them, and stay in the upper bound.
    whole = float(mass @ moved)
    real = (mass > _NEGLIGIBLE) | (mass > 1e-6 * a[rows]) | (mass > 1e-6 * b[cols])
    rows, cols, mass, moved = rows[real], cols[real], mass[real], moved[real]
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
    cost = float(mass @ moved)
    if dual is None:
        dual = float(a @ solution.f + b @ solution.g)
    # No cost is negative, so zero bounds every optimum from below.
    gap = cost - (dual if moved.min(initial=0.0) < 0 else max(dual, 0.0))
    scale = max(abs(cost), float(moved.max(initial=0.0)) * float(mass.max(initial=0.0)))
    if solution.finished and gap <= _GAP_ALLOWED * scale:
        status = "optimal"
    elif solution.finished and gap <= _GAP_ALLOWED * scale + 2.0 * rounding:
        status = (
            f"optimal up to rounding: costs this far apart are known to {rounding:.1e} only, and "
            f"so is the optimum {cost:.6g}. Remove far outliers for more digits."
        )
    else:
        status = (
            f"not proven optimal: the cost {cost:.6g} exceeds the dual bound by {gap:.1e}. "
            "Remove outliers, rescale the features or merge points of tiny weight."
        )
    shift = 0.5 * (float(b @ solution.g) - float(a @ solution.f))
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
        lower_cost=min(lower if moved.min(initial=0.0) < 0 else max(lower, 0.0), cost),
        upper_cost=max(whole, cost) + _SUM_ROUNDING * float(mass @ np.abs(moved)),
        p=p,
        status=status,
        solver=solution.solver,
    )


def _extend_potentials(
    result: ExactPlan, x: Array, y: Array, rows: Index, cols: Index
) -> tuple[Array, Array]:
    """Largest feasible potentials at the points that carry no mass."""
    f = np.full(len(x), np.nan)
    g = np.full(len(y), np.nan)
    f[rows], g[cols] = result.potentials
    idle = np.flatnonzero(np.isnan(g))
    if len(idle):
        g[idle] = (build_cost(x[rows], y[idle], result.p).matrix - f[rows, None]).min(axis=0)
    idle = np.flatnonzero(np.isnan(f))
    if len(idle):
        f[idle] = (build_cost(x[idle], y, result.p).matrix - g).min(axis=1)
    return f, g
