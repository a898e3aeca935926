"""Choose sources and weights by tangents in a mixed-integer program, where sets are too many."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any, NamedTuple, cast

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, milp

from ..errors import SolverError
from .costs import Array, Indices, LinkCosts, reordered
from .location import Problem, locate
from .mixing import Mixture, Shape

# Sources above which no table of all their sets is made, entries of all such tables, and faces
# to solve: some 10 seconds.
SOURCES, ENTRIES, FACES = 20, 2**25, 2**20
# Of the weights at one target, for which there is one choice of sources only.
_ONE_GAP, _ONE_SECONDS = 1e-7, 20.0
# Linear programs that are solved, each with more tangents, before the first mixed-integer one.
_RELAXED_ROUNDS = 40
# Weights below this are the solver's rounding.
_DUST = 1e-7


def listable(costs: LinkCosts, mixture: Mixture) -> bool:
    """Whether all sets of sources and all supports worth a look can be listed in seconds."""
    may = np.flatnonzero(costs.eligible)
    if len(may) > SOURCES or costs.size * 2 ** len(may) > ENTRIES:
        return False
    faces = 0
    for j in range(costs.size):
        reach = may[np.isfinite(costs.links[may, j])]
        faces += int(mixture.shape(costs, j, reach).useful()[0].sum())
        if faces > FACES:
            return False
    return True


def best_weights(costs: LinkCosts, j: int, able: Indices, mixture: Mixture) -> tuple[Array, float]:
    """Weights of least cost over some sources at one target, and that cost."""
    shape = mixture.shape(costs, j, able)
    if len(able) <= SOURCES and int(shape.useful()[0].sum()) <= FACES // 8:
        return shape.best()
    # A network of its own, whose sources are open for nothing and in which nobody else is served.
    alone = reordered(costs, np.append(able, j))
    transfer = np.full_like(alone.transfer, np.inf)
    transfer[:, -1] = alone.transfer[:, -1]
    last = np.arange(alone.size) == len(able)
    one = replace(alone, source=np.zeros(alone.size), transfer=transfer, eligible=~last)
    alpha = outer_approximation(one, mixture, None, gap=_ONE_GAP, time_limit=_ONE_SECONDS).alpha
    assert alpha is not None
    weights = alpha[:-1, -1]
    return weights, float(shape.convex(weights[None])[0] + shape.energy[weights > 0].sum())


class Solution(NamedTuple):
    """Sources, what is proven about them, and their weights where these are not the best ones."""

    psi: Indices
    status: str
    bound: float
    tolerance: float
    details: dict[str, float]
    alpha: Array | None = None


def outer_approximation(
    costs: LinkCosts,
    mixture: Mixture,
    price: float | None,
    *,
    gap: float,
    time_limit: float,
) -> Solution:
    """Alternate between the program and tangents at its solutions until the gap is small."""
    began = time.perf_counter()
    program = _Program(costs, mixture, price)
    best = program.complete(_first_sources(costs, program, price))
    bound, rounds = -np.inf, 0

    def seconds_left() -> float:
        return time_limit - (time.perf_counter() - began)

    # Tangents of the relaxation cost a linear program each, and hold in the integer program too.
    for _ in range(_RELAXED_ROUNDS):
        relaxed = program.relaxed(max(seconds_left(), 0.01))
        if relaxed is None or seconds_left() < 0:
            break
        before, bound = bound, max(bound, relaxed[0])
        if not program.refine(relaxed[1]) or bound - before < 1e-5 * max(1.0, abs(bound)):
            break
    while seconds_left() > 0:
        rounds += 1
        room = gap / 4.0 * max(1.0, abs(best.value))
        solution = program.solve(seconds_left(), room / max(abs(best.value), 1e-9))
        if solution.mip_dual_bound is not None:
            bound = max(bound, solution.mip_dual_bound)
        if solution.x is None:
            break
        opened = np.flatnonzero(solution.x[: len(program.may)] > 0.5)
        plan = program.complete(opened, solution.x)
        best = min(best, plan, key=lambda assignment: assignment.value)
        if best.value - bound <= gap * max(1.0, abs(best.value)):
            break
        # Tangents where the program erred, and where the completed plan lies.
        new = program.refine(solution.x)
        if not new | program.refine_at(plan.weights):
            break  # tangents are exact here: the gap is the solver's own
    proven = best.value - bound <= gap * max(1.0, abs(best.value))
    return Solution(
        psi=best.psi,
        bound=bound,
        status=f"proven within a gap of {gap:g}: no plan at these costs is better by more"
        if proven
        else "stopped at the time limit: the plan holds every constraint, and lower_bound tells "
        "how far from the best it can be. Raise time_limit, accept a gap, or make fewer devices "
        "eligible: some 15 are solved in closed form",
        tolerance=gap,
        details={"rounds": float(rounds), "tangents": float(len(program.tangents))},
        alpha=best.alpha,
    )


def greedy_weights(shape: Shape, start: Indices | None = None) -> tuple[Array, float]:
    """Good weights for many sources: from a support, add or drop one while that pays."""
    k = len(shape.linear)
    support = np.array([], dtype=np.intp) if start is None else start
    weights, value = np.zeros(k), np.inf
    if len(support):
        first, cost = shape.faces(support[None, :])
        weights, value = first[0], float(cost[0])
    while True:
        others = np.setdiff1d(np.arange(k), support)
        tries: list[tuple[Array, Array]] = []
        if len(others):
            wider = np.hstack([np.tile(support, (len(others), 1)), others[:, None]])
            tries.append(shape.faces(wider.astype(np.intp)))
        if len(support) > 1:
            keep = ~np.eye(len(support), dtype=bool)
            tries.append(shape.faces(np.tile(support, (len(support), 1))[keep].reshape(
                len(support), -1)))  # fmt: skip
        moves = [(float(cost.min()), part[int(np.argmin(cost))]) for part, cost in tries]
        if not moves or min(moves, key=itemgetter(0))[0] >= value - 1e-12 * abs(value):
            return weights, value
        value, weights = min(moves, key=itemgetter(0))
        support = np.flatnonzero(weights)


@dataclass(frozen=True)
class _Assignment:
    psi: Indices
    alpha: Array
    weights: tuple[Array, ...]  # of every device over its possible sources
    value: float


@dataclass
class _Program:
    """The mixed-integer program; its tangents grow."""

    costs: LinkCosts
    mixture: Mixture
    price: float | None
    tangents: list[tuple[int, Array]] = field(default_factory=list[tuple[int, Array]])

    def __post_init__(self) -> None:
        costs = self.costs
        n = costs.size
        self.may = np.flatnonzero(costs.eligible)
        self.sources = [self.may[np.isfinite(costs.links[self.may, j])] for j in range(n)]
        self.shapes = [self.mixture.shape(costs, j, self.sources[j]) for j in range(n)]
        counts = [len(part) for part in self.sources]
        e, m = len(self.may), sum(counts)
        # Columns: open places, weights, links in use, convex parts, targets without a model.
        self.weight_at = e + np.concatenate([[0], np.cumsum(counts)[:-1]]).astype(np.intp)
        self.links_at = self.weight_at + m
        self.convex_at = e + 2 * m
        self.size = e + 2 * m + 2 * n
        # Convex parts are counted in units of their size, which keeps rows alike.
        self.unit = np.array(
            [max([1e-300, *shape.part(np.eye(len(shape.linear)))]) for shape in self.shapes]
        )
        self._base()
        for j, shape in enumerate(self.shapes):
            k = counts[j]
            if k and shape.scale > 0:
                # Without any tangent the program would take the convex part for nothing.
                for point in (*np.eye(k), np.full(k, 1.0 / k)):
                    self._tangent(j, point, force=True)

    def _base(self) -> None:
        costs, n = self.costs, self.costs.size
        e = len(self.may)
        self.cost = np.zeros(self.size)
        self.cost[:e] = costs.phi[0] * costs.source[self.may]
        self.cost[self.convex_at : self.convex_at + n] = self.unit
        self.cost[self.convex_at + n :] = 0.0 if self.price is None else self.price
        upper = np.ones(self.size)
        upper[self.convex_at : self.convex_at + n] = np.inf
        upper[self.convex_at + n :] = 0.0 if self.price is None else 1.0
        self.bounds = Bounds(np.zeros(self.size), upper)
        self.integral = np.zeros(self.size, dtype=int)
        self.integral[:e] = 1
        place = {int(i): p for p, i in enumerate(self.may)}
        cover = sparse.lil_array((n, self.size))
        pairs: list[tuple[int, int]] = []  # lesser, greater
        for j, shape in enumerate(self.shapes):
            k = len(shape.linear)
            a, z = int(self.weight_at[j]), int(self.links_at[j])
            self.cost[a : a + k] = shape.linear
            self.cost[z : z + k] = shape.energy
            for p in range(k):
                cover[j, a + p] = 1.0
                pairs += [(a + p, z + p), (z + p, place[int(self.sources[j][p])])]
                self.integral[z + p] = shape.energy[p] > 0
            if j in place:
                cover[j, place[j]] = 1.0
            cover[j, self.convex_at + n + j] = 1.0
        self.cover = LinearConstraint(sparse.csr_array(cover), 1.0, 1.0)
        rows = np.repeat(np.arange(len(pairs)), 2)
        entries = np.tile([1.0, -1.0], len(pairs))
        self.below = sparse.csr_array(
            (entries, (rows, np.array(pairs, dtype=np.intp).reshape(-1))),
            shape=(len(pairs), self.size),
        )

    def _tangent(self, j: int, point: Array, *, force: bool = False, value_at: float = 0.0) -> bool:
        """Add a tangent at a point unless the program's value there is right already."""
        shape = self.shapes[j]
        slope = shape.matrix @ point
        square = float(point @ slope)
        slope, value = shape.scale * slope / np.sqrt(square), shape.scale * np.sqrt(square)
        if not force and value_at >= value - 1e-9 * max(1.0, abs(value)):
            return False
        self.tangents.append((j, slope))
        return True

    def refine(self, x: Array) -> bool:
        """Add tangents at the weights of a solution; False when all values were right."""
        new = False
        for j, shape in enumerate(self.shapes):
            a = int(self.weight_at[j])
            weights = np.maximum(x[a : a + len(shape.linear)], 0.0)
            total = float(weights.sum())
            if total > _DUST and shape.scale > 0:
                # The epigraph is homogeneous, so a part of a target is as good as the whole.
                value = float(x[self.convex_at + j]) * self.unit[j] / total
                new |= self._tangent(j, weights / total, value_at=value)
        return new

    def refine_at(self, weights: tuple[Array, ...]) -> bool:
        """Add tangents at the weights of a plan."""
        new = False
        for j, part in enumerate(weights):
            if part.any() and self.shapes[j].scale > 0:
                slopes = [slope for target, slope in self.tangents if target == j]
                value = max(float(slope @ part) for slope in slopes)
                new |= self._tangent(j, part, value_at=value)
        return new

    def _constraints(self) -> sparse.csr_array:
        rows = sparse.lil_array((len(self.tangents), self.size))
        for row, (j, slope) in enumerate(self.tangents):
            a = int(self.weight_at[j])
            rows[row, a : a + len(slope)] = slope / self.unit[j]
            rows[row, self.convex_at + j] = -1.0
        return sparse.csr_array(sparse.vstack([self.below, rows]))

    def _milp(self, integrality: Indices | None, **options: Any) -> OptimizeResult:
        constraints = [self.cover, LinearConstraint(self._constraints(), -np.inf, 0.0)]
        return milp(
            self.cost,
            constraints=constraints,
            bounds=self.bounds,
            integrality=integrality,
            options=cast("Any", options),
        )

    def relaxed(self, seconds: float) -> tuple[float, Array] | None:
        """Solve the linear relaxation."""
        solution = self._milp(None, time_limit=seconds)
        return (float(solution.fun), solution.x) if solution.status == 0 else None

    def solve(self, seconds: float, gap: float) -> OptimizeResult:
        """Solve the program as it is now."""
        # With presolve HiGHS repairs its own solutions here, and says so on standard output.
        solution = self._milp(
            self.integral, time_limit=max(seconds, 0.01), mip_rel_gap=gap, presolve=False
        )
        if solution.status not in (0, 1):
            raise SolverError(
                f"HiGHS ended with status {solution.status}. Rescale the costs.",
                code="solver-failed",
            )
        return solution

    def complete(self, opened: Indices, x: Array | None = None) -> _Assignment:
        """The plan of a set of places (positions in ``may``), with good weights."""
        n = self.costs.size
        is_open = np.zeros(n, dtype=bool)
        is_open[self.may[opened]] = True
        alpha, parts = np.zeros((n, n)), []
        value = float(self.costs.phi[0] * self.costs.source[is_open].sum())
        for j, shape in enumerate(self.shapes):
            part = np.zeros(len(shape.linear))
            if not is_open[j]:
                able = np.flatnonzero(is_open[self.sources[j]])
                start = None
                if x is not None:
                    a = int(self.weight_at[j])
                    start = np.flatnonzero(x[a + able] > _DUST)
                cost = np.inf
                if len(able):
                    small = shape.restricted(able)
                    tries = [greedy_weights(small)]
                    if start is not None and len(start):
                        tries.append(greedy_weights(small, start))
                    weights, cost = min(tries, key=itemgetter(1))
                    part[able] = weights
                if self.price is not None and cost > self.price:
                    part[:], cost = 0.0, self.price
                value += cost
                alpha[self.sources[j], j] = part
            parts.append(part)
        psi = np.where(is_open, 0, 1)
        return _Assignment(psi, alpha, tuple(parts), value)


def _first_sources(costs: LinkCosts, program: _Program, price: float | None) -> Indices:
    """Sources of the best plan in which every target has one."""
    single = np.full((costs.size, costs.size), np.inf)
    for j, (sources, shape) in enumerate(zip(program.sources, program.shapes, strict=True)):
        if len(sources):
            single[sources, j] = shape.convex(np.eye(len(sources))) + shape.energy
    problem = Problem.of(costs.phi[0] * costs.source, single, costs.eligible, price)
    return np.flatnonzero(locate(problem, time_limit=1.0, gap=0.01).open[program.may])
