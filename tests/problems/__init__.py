"""Transport problems with known answers, oracles that share no code with silot, and checks.

A ``Pair`` is two weighted clouds. A ``Problem`` is a pair whose optimal cost is known from a
theorem, so that no solver is trusted at all. Hypothesis drives both.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment, linprog
from scipy.spatial.distance import cdist

from silot_transport import ExactPlan
from silot_transport.errors import SilotError
from tests.lazily import package

ot = package("ot")

Array = npt.NDArray[np.float64]

ORDERS = (1, 2)
# A number that stands in the data of failing inputs and may not stand in any message.
SECRET = 8675309.25
SECRET_TEXT = "8675309"

# Weights are known to some 1e-16 each, so a cost is known to about this share of the largest.
MASS_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Pair:
    """Two weighted clouds; ``None`` weights are uniform."""

    name: str
    x: Array = field(repr=False)
    y: Array = field(repr=False)
    a: Array | None = field(default=None, repr=False)
    b: Array | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        weighted = f"{'a' if self.a is not None else ''}{'b' if self.b is not None else ''}"
        return f"{self.name}({self.x.shape}, {self.y.shape}, weights={weighted or None})"

    @property
    def arrays(self) -> tuple[Array, Array, Array | None, Array | None]:
        return self.x, self.y, self.a, self.b

    @property
    def masses(self) -> tuple[Array, Array]:
        return normalised(self.a, len(self.x)), normalised(self.b, len(self.y))

    def costs(self, p: int) -> Array:
        return direct_costs(self.x, self.y, p)

    def largest_cost(self, p: int) -> float:
        """Largest cost between two points that carry mass."""
        a, b = self.masses
        return float(self.costs(p)[np.ix_(a > 0, b > 0)].max())

    def swapped(self) -> Pair:
        return Pair(f"swapped {self.name}", self.y, self.x, self.b, self.a)


@dataclass(frozen=True, eq=False, repr=False)
class Problem(Pair):
    """A pair whose ``W_p^p`` is known."""

    p: int = 2
    cost: float = 0.0

    @property
    def distance(self) -> float:
        return self.cost ** (1.0 / self.p)


def normalised(weights: Array | None, size: int) -> Array:
    return np.full(size, 1.0 / size) if weights is None else weights / weights.sum()


# Oracles.


def direct_costs(x: Array, y: Array, p: int) -> Array:
    """Costs from coordinate differences, entry by entry."""
    return cdist(x, y, "sqeuclidean" if p == 2 else "euclidean")


def exact_cost(pair: Pair, p: int) -> float:
    """``W_p^p`` by POT, on costs scaled to 1 because its tolerances are absolute."""
    return cost_of_matrix(pair.costs(p), *pair.masses)


def cost_of_matrix(matrix: Array, a: Array, b: Array) -> float:
    """The optimal cost of non-negative costs by POT; points of weight zero are left out."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    part = matrix[np.ix_(rows, cols)]
    scale = float(part.max()) or 1.0
    return float(ot.emd2(a[rows], b[cols], part / scale, numItermax=100_000_000)) * scale


def linear_program_cost(matrix: Array, a: Array, b: Array) -> float:
    """The optimal cost by HiGHS, for small problems."""
    n, m = matrix.shape
    scale = float(np.abs(matrix).max()) or 1.0
    rows = np.kron(np.eye(n), np.ones(m))
    cols = np.kron(np.ones(n), np.eye(m))
    answer = linprog(
        matrix.ravel() / scale,
        A_eq=np.vstack([rows, cols])[:-1],
        b_eq=np.concatenate([a, b])[:-1],
        method="highs-ds",
        # The default, 1e-7, is as large as the smallest masses that are tried.
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    assert answer.success, answer.message
    return float(answer.fun) * scale


def brute_force_cost(matrix: Array) -> float:
    """The optimal cost of uniform weights on equal sizes, over all permutations."""
    n = len(matrix)
    rows = np.arange(n)
    return min(float(matrix[rows, list(s)].sum()) for s in itertools.permutations(range(n))) / n


def integer_cost(matrix: Array, k: npt.NDArray[np.int64], l: npt.NDArray[np.int64]) -> float:
    """The optimal cost of integer costs and masses of one sum, without any rounding.

    Sums of integers are exact in float64, so only the division by the total mass rounds; it is
    exact too when the total is a power of two.
    """
    copies = matrix[np.ix_(np.repeat(np.arange(len(k)), k), np.repeat(np.arange(len(l)), l))]
    return float(copies[linear_sum_assignment(copies)].sum()) / int(k.sum())


# Weights and clouds.


def draw_weights(rng: np.random.Generator, kind: str, n: int) -> Array | None:
    """Weights of a kind; every kind leaves at least one positive."""
    if kind == "uniform":
        return None
    if kind == "integer":
        return rng.integers(1, 5, n).astype(float)
    weights = rng.random(n) + 1e-3
    if kind == "zeros":
        weights[rng.random(n) < 0.4] = 0.0
        weights[rng.integers(n)] = 1.0
    elif kind == "dominant":
        weights[rng.integers(n)] = 1e6
    elif kind == "tiny":
        weights[rng.random(n) < 0.3] *= 1e-12
    return weights


WEIGHTS = ("uniform", "integer", "random", "zeros", "dominant", "tiny")
LAYOUTS = ("normal", "grid", "clusters", "outlier", "near", "offset", "constant", "uneven")


def draw_clouds(
    rng: np.random.Generator, layout: str, n: int, m: int, d: int
) -> tuple[Array, Array]:
    """Two clouds of a layout that has broken solvers before."""
    if layout == "grid":
        # Many duplicated points and many equal costs.
        return rng.integers(0, 3, (n, d)).astype(float), rng.integers(0, 3, (m, d)).astype(float)
    x, y = rng.standard_normal((n, d)), rng.standard_normal((m, d)) + 0.5
    if layout == "clusters":
        x += 50.0 * rng.integers(0, 3, (n, 1))
        y += 50.0 * rng.integers(0, 3, (m, 1))
    elif layout == "outlier":
        x[rng.integers(n)] *= 1e4
        y[rng.integers(m)] *= 1e4
    elif layout == "near":
        y = x[rng.integers(0, n, m)] + 1e-6 * y
    elif layout == "offset":
        x, y = x + 1e6, y + 1e6
    elif layout == "constant":
        x[:, 0] = y[:, 0] = 7.0
    elif layout == "uneven":
        scales = 10.0 ** rng.uniform(-3, 3, d)
        x, y = x * scales, y * scales
    return x, y


seeds = st.integers(0, 2**32 - 1)


@st.composite
def pairs(
    draw: st.DrawFn,
    *,
    largest: int = 24,
    dimensions: tuple[int, ...] = (1, 2, 3, 7, 20, 200),
    layouts: tuple[str, ...] = LAYOUTS,
    weights: tuple[str, ...] = WEIGHTS,
) -> Pair:
    """Two clouds of any layout, size, dimension and weights."""
    n, m = draw(st.integers(1, largest)), draw(st.integers(1, largest))
    d = draw(st.sampled_from(dimensions))
    layout = draw(st.sampled_from(layouts))
    kind_a, kind_b = draw(st.sampled_from(weights)), draw(st.sampled_from(weights))
    seed = draw(seeds)
    rng = np.random.default_rng(seed)
    x, y = draw_clouds(rng, layout, n, m, d)
    a, b = draw_weights(rng, kind_a, n), draw_weights(rng, kind_b, m)
    return Pair(f"{layout}, {kind_a} and {kind_b} weights, seed {seed}", x, y, a, b)


@st.composite
def clouds(draw: st.DrawFn, *, largest: int = 16) -> tuple[Array, Array | None]:
    """One weighted cloud, with duplicated points and zero weights among the possibilities."""
    n, d = draw(st.integers(1, largest)), draw(st.sampled_from((1, 2, 5, 30)))
    rng = np.random.default_rng(draw(seeds))
    layout = draw(st.sampled_from(("normal", "grid", "clusters", "uneven", "constant")))
    x, _ = draw_clouds(rng, layout, n, 1, d)
    return x, draw_weights(rng, draw(st.sampled_from(WEIGHTS)), n)


# Problems with known answers.


@st.composite
def dirac_problems(draw: st.DrawFn) -> Problem:
    """One point against a cloud: the only coupling is the product."""
    p = draw(st.sampled_from(ORDERS))
    y, b = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    x = rng.standard_normal((1, y.shape[1]))
    cost = float(direct_costs(x, y, p)[0] @ normalised(b, len(y)))
    problem = Problem("dirac", x, y, None, b, p, cost)
    return _swapped(problem) if draw(st.booleans()) else problem


@st.composite
def translation_problems(draw: st.DrawFn) -> Problem:
    """A cloud against its translate: moving every point along is optimal for p = 1 and 2."""
    p = draw(st.sampled_from(ORDERS))
    x, a = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    shift = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal(x.shape[1])
    return _shuffled(rng, Problem("translation", x, x + shift, a, a, p, _norm(shift) ** p))


@st.composite
def same_problems(draw: st.DrawFn) -> Problem:
    """A cloud against itself, its records in another order."""
    p = draw(st.sampled_from(ORDERS))
    x, a = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    return _shuffled(rng, Problem("permutation", x, x, a, a, p, 0.0))


@st.composite
def affine_problems(draw: st.DrawFn) -> Problem:
    """Images under x -> A x + c with A symmetric positive semi-definite, possibly singular.

    The gradient of a convex quadratic: optimal for p = 2, and the Gaussians of the moments are
    at the same distance.
    """
    x, a = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    d = x.shape[1]
    factor = rng.standard_normal((d, draw(st.integers(1, d)))) / d**0.5
    y = x @ (factor @ factor.T) + rng.standard_normal(d)
    return _shuffled(rng, _pushed("affine image", x, y, a))


@st.composite
def convex_gradient_problems(draw: st.DrawFn) -> Problem:
    """Images under the gradient of a convex function, smooth or piecewise linear."""
    x, a = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    d = x.shape[1]
    directions = rng.standard_normal((4, d))
    scores = x @ directions.T + rng.standard_normal(4)
    kind = draw(st.sampled_from(("softplus", "log-sum-exp", "largest of affine")))
    if kind == "softplus":
        y = 0.3 * x + (1.0 / (1.0 + np.exp(-np.clip(scores, -50, 50)))) @ directions
    elif kind == "log-sum-exp":
        share = np.exp(scores - scores.max(axis=1, keepdims=True))
        y = (share / share.sum(axis=1, keepdims=True)) @ directions
    else:
        y = directions[scores.argmax(axis=1)]
    return _shuffled(rng, _pushed(f"convex gradient, {kind}", x, y, a))


@st.composite
def dilation_problems(draw: st.DrawFn) -> Problem:
    """Images under x -> c x, c > 1, for p = 1: the distance to the origin is the potential."""
    x, a = draw(clouds())
    rng = np.random.default_rng(draw(seeds))
    factor = 1.0 + float(rng.random()) * 3.0
    radii = np.array([_norm(point) for point in x])
    cost = (factor - 1.0) * float(radii @ normalised(a, len(x)))
    return _shuffled(rng, Problem("dilation", x, factor * x, a, a, 1, cost))


@st.composite
def line_problems(draw: st.DrawFn) -> Problem:
    """Integer masses on the line: sort unit copies and pair them."""
    p = draw(st.sampled_from(ORDERS))
    rng = np.random.default_rng(draw(seeds))
    k, l = _integer_masses(rng, 24, draw(st.integers(1, 12)), draw(st.integers(1, 12)))
    if draw(st.booleans()):
        x, y = rng.integers(0, 6, len(k)).astype(float), rng.integers(0, 6, len(l)).astype(float)
    else:
        x, y = rng.standard_normal(len(k)), 3.0 * rng.standard_normal(len(l))
    moved = np.abs(np.sort(np.repeat(x, k)) - np.sort(np.repeat(y, l))) ** p
    return Problem(
        "line", x[:, None], y[:, None], k.astype(float), l.astype(float), p, float(moved.mean())
    )


@st.composite
def grid_problems(draw: st.DrawFn) -> Problem:
    """Integer points, integer masses summing to a power of two: known without rounding.

    For p = 2 costs are integers and the whole oracle is exact. Ties and duplicates abound.
    """
    rng = np.random.default_rng(draw(seeds))
    d = draw(st.sampled_from((1, 2, 3, 9)))
    total = 2 ** draw(st.integers(0, 5))
    n, m = draw(st.integers(1, total)), draw(st.integers(1, total))
    k, l = _integer_masses(rng, total, n, m)
    x = rng.integers(0, 4, (n, d)).astype(float)
    y = rng.integers(0, 4, (m, d)).astype(float)
    cost = integer_cost(direct_costs(x, y, 2), k, l)
    return Problem("integer grid", x, y, k.astype(float), l.astype(float), 2, cost)


@st.composite
def idle_problems(draw: st.DrawFn) -> Problem:
    """A known problem with points of weight zero strewn far and near: nothing changes."""
    problem = draw(
        st.one_of(dirac_problems(), translation_problems(), line_problems(), affine_problems())
    )
    rng = np.random.default_rng(draw(seeds))
    x, a = _with_idle(rng, problem.x, problem.a)
    y, b = _with_idle(rng, problem.y, problem.b)
    return replace(problem, name=f"{problem.name} and idle points", x=x, y=y, a=a, b=b)


def known_problems() -> st.SearchStrategy[Problem]:
    """Every kind of problem with a known answer."""
    return st.one_of(
        dirac_problems(),
        translation_problems(),
        same_problems(),
        affine_problems(),
        convex_gradient_problems(),
        dilation_problems(),
        line_problems(),
        grid_problems(),
        idle_problems(),
    )


def _norm(vector: Array) -> float:
    return float(np.sqrt(np.sum(vector**2)))


def _pushed(name: str, x: Array, y: Array, a: Array | None) -> Problem:
    moved = np.sum((x - y) ** 2, axis=1)
    return Problem(name, x, y, a, a, 2, float(moved @ normalised(a, len(x))))


def _shuffled(rng: np.random.Generator, problem: Problem) -> Problem:
    order = rng.permutation(len(problem.y))
    b = None if problem.b is None else problem.b[order]
    return replace(problem, y=problem.y[order], b=b)


def _swapped(problem: Problem) -> Problem:
    return replace(problem, x=problem.y, y=problem.x, a=problem.b, b=problem.a)


def _integer_masses(
    rng: np.random.Generator, total: int, n: int, m: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    def parts(size: int) -> npt.NDArray[np.int64]:
        return 1 + rng.multinomial(total - size, np.full(size, 1.0 / size))

    return parts(n), parts(m)


def _with_idle(rng: np.random.Generator, x: Array, a: Array | None) -> tuple[Array, Array]:
    idle = rng.standard_normal((3, x.shape[1])) * np.array([[0.1], [1.0], [1e3]])
    weights = np.concatenate([np.ones(len(x)) if a is None else a, np.zeros(3)])
    order = rng.permutation(len(weights))
    return np.concatenate([x, idle])[order], weights[order]


# Checks.


def assert_cost(found: float, known: float, largest: float, *, relative: float = 1e-9) -> None:
    """Equal costs, up to the rounding of the masses that carry them."""
    assert found == pytest.approx(known, rel=relative, abs=MASS_ROUNDING * largest)


def assert_certified(
    result: ExactPlan, pair: Pair, p: int, *, matrix: Array | None = None, tight_from: float = 0.0
) -> None:
    """Everything an exact plan promises: coupling, potentials, gap and status.

    Potentials are tight where a cell's mass is ``tight_from`` at least; below, the gap alone says
    how far off they may be.
    """
    a, b = pair.masses
    matrix = pair.costs(p) if matrix is None else matrix
    largest = float(np.abs(matrix[np.ix_(a > 0, b > 0)]).max())
    tolerance = 1e-11 * largest
    n, m = matrix.shape

    assert result.p == p
    assert result.status == "optimal"
    assert result.optimal

    assert len(result.rows) == len(result.cols) == len(result.mass) <= n + m - 1
    assert (result.mass > 0).all()
    assert len(np.unique(result.rows * m + result.cols)) == len(result.rows)
    np.testing.assert_allclose(np.bincount(result.rows, result.mass, n), a, rtol=0, atol=1e-13)
    np.testing.assert_allclose(np.bincount(result.cols, result.mass, m), b, rtol=0, atol=1e-13)
    plan = result.plan.toarray()
    assert plan.shape == (n, m)
    assert np.array_equal(plan[result.rows, result.cols], result.mass)
    assert np.count_nonzero(plan) == len(result.mass)

    f, g = result.potentials
    assert f.shape == (n,) and g.shape == (m,)
    assert np.isfinite(f).all() and np.isfinite(g).all()
    slack = matrix - f[:, None] - g
    # Points without mass may lie far away; their own size is what their slack is known to.
    own_size = np.abs(f)[:, None] + np.abs(g) + np.abs(matrix)
    assert (slack >= -tolerance - 1e-13 * own_size).all(), "a pair of potentials is not feasible"
    off = np.abs(slack[result.rows, result.cols])
    assert (off[result.mass >= tight_from] <= tolerance).all(), "mass moves off the dual"
    assert float(result.mass @ off) <= tolerance
    left, right = float(a @ f), float(b @ g)
    assert left == pytest.approx(right, rel=1e-12, abs=tolerance)

    moved = float(result.mass @ matrix[result.rows, result.cols])
    assert_cost(result.cost, moved, largest)
    assert left + right == pytest.approx(result.cost, rel=1e-9, abs=tolerance)
    assert result.lower <= result.distance <= result.upper
    assert result.upper_cost - result.cost <= 1e-11 * largest
    assert result.cost - result.lower_cost <= 1e-8 * abs(result.cost) + tolerance


def assert_refused(
    call: Callable[[], object], kind: type[SilotError], code: str, *, quoting: str = ""
) -> None:
    """The call raises exactly this error, whose message helps and quotes no datum."""
    with pytest.raises(SilotError) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert error.code == code
    assert len(error.message) > 20
    assert quoting in error.message
    assert SECRET_TEXT not in str(error)
    assert str(error) == f"[{code}] {error.message}"
