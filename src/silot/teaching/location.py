r"""Facility location: which places to open when every device is served or is open itself.

Minimise :math:`\sum_i f_i y_i + \sum_{j : y_j = 0} \min(u, \min_{i : y_i = 1} c_{ij})`. Numbers
are shifted first so that every :math:`c_{ij} \ge 0` and serving an open place is free: this is the
uncapacitated facility location problem, where opening one more place never harms service.

Local search bounds the optimum from above and Lagrange multipliers bound it from below. What no
better set of places can use is left out, and branch and bound with multipliers decides the others.
Where costs of links are random and opening is dear, the linear relaxation is large, degenerate and
far from the optimum; multipliers bound it nearly as well at a small part of its cost.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from .costs import Array, Flags, Indices

# Relative differences of costs below this one are rounding.
_ROUNDING = 1e-12
# Nodes of a branch and bound between two local searches, which cost more than a node.
_SEARCH = 20


@dataclass(frozen=True)
class Problem:
    """Costs of opening places, the rows of ``service``, and of serving clients, its columns."""

    opening: Array  # inf where a place cannot be opened
    service: Array  # inf where a client cannot be served
    outside: Array  # cost of a client that no place serves, inf where it must be served
    constant: float = 0.0  # added to the cost of every set of places

    @classmethod
    def of(cls, source: Array, links: Array, eligible: Flags, unserved: float | None) -> Problem:
        """Shift costs of training and links (``inf`` where barred) so that none is negative."""
        outside = np.full(len(source), np.inf if unserved is None else unserved)
        least = np.minimum(links.min(axis=0), outside)
        shift = np.where(np.isfinite(least), least, 0.0)
        service = links - shift
        np.fill_diagonal(service, 0.0)
        return cls(
            opening=np.where(eligible, source - shift, np.inf),
            service=np.where(eligible[:, None], service, np.inf),
            outside=outside - shift,
            constant=float(shift.sum()),
        )

    def reach(self, places: Flags) -> Array:
        """Compute the least cost of serving each client from some open places, or not at all."""
        return np.minimum(self.service[places].min(axis=0, initial=np.inf), self.outside)

    def value(self, places: Flags) -> float:
        """Compute the objective of a set of open places, inf where it serves nobody."""
        return float(self.opening[places].sum() + self.reach(places).sum()) + self.constant

    def reduced_opening(self, prices: Array) -> Array:
        r"""Return :math:`f_i - \sum_j \max(0, v_j - c_{ij})`: what opening costs beyond prices."""
        return self.opening - np.maximum(prices - self.service, 0.0).sum(axis=1)


def improve(problem: Problem, start: Flags) -> Flags:
    """Open, close or exchange one place as long as the best such move pays."""
    opening, service, outside = problem.opening, problem.service, problem.outside
    n = len(opening)
    possible = np.isfinite(opening)
    finite = [part[np.isfinite(part)] for part in (opening, service, outside)]
    scale = 1.0 + sum(float(np.abs(part).max(initial=0.0)) for part in finite)
    # Serving somebody who is not served yet pays more than anything else.
    huge = 10.0 * n * scale
    f, c = np.where(possible, opening, huge), np.minimum(service, huge)
    places, last = start.copy(), np.inf
    for _ in range(20 * n):
        first, second, nearest = _two_nearest(c, np.minimum(outside, huge), places)
        value = float(f[places].sum() + first.sum())
        if not value < last:  # rounding alone must not keep this going
            break
        last = value
        opened = np.where(possible & ~places, f + np.minimum(0.0, c - first).sum(axis=1), np.inf)
        members = (nearest[:, None] == np.arange(n)).astype(np.float64)
        closed = np.where(places, (second - first) @ members - f, np.inf)
        # What j pays more when i opens and its own place closes, than when i opens alone.
        extra = np.minimum(c, second) - np.minimum(c, first)
        exchanged = opened[:, None] - np.where(places, f, -np.inf) + extra @ members
        best = min(opened.min(), closed.min(), exchanged.min())
        if best >= -_ROUNDING * scale:
            break
        if closed.min() == best:
            places[np.argmin(closed)] = False
        elif opened.min() == best:
            places[np.argmin(opened)] = True
        else:
            into, out = np.unravel_index(np.argmin(exchanged), exchanged.shape)
            places[into], places[out] = True, False
    return places


def _two_nearest(c: Array, outside: Array, places: Flags) -> tuple[Array, Array, Array]:
    """Return the cheapest and second cheapest way to serve everybody, and the cheapest's place."""
    rows = np.flatnonzero(places)
    stacked = np.vstack([outside, c[rows]])
    columns = np.arange(len(outside))
    best = np.argmin(stacked, axis=0)
    first = stacked[best, columns]
    stacked[best, columns] = np.inf
    second = stacked.min(axis=0) if len(rows) else outside
    return first, second, np.append(-1, rows)[best]


class Schedule(NamedTuple):
    """Steps of subgradients; after ``patience`` of them without a better bound they shrink."""

    steps: int
    pace: float = 1.0
    patience: int = 20
    shrink: float = 0.5


_FIRST = Schedule(400)
# For nodes of a search, which start from prices of the node above. Measured on random networks of
# 80 to 200 devices: half as many steps double the nodes, twice as many save none of the time.
_BELOW = Schedule(80, pace=2.0, patience=4, shrink=0.6)


def multipliers(
    problem: Problem, upper: float, schedule: Schedule, start: Array | None = None
) -> tuple[float, Array]:
    r"""Compute the best lower bound that subgradients reach, and its multipliers.

    For any prices :math:`v_j \le u_j` that devices pay for being served,
    :math:`\sum_j v_j + \sum_i \min(0, f_i - \sum_j \max(0, v_j - c_ij))` is at most the cost of
    every set of places. ``upper`` is the cost of the best set so far.
    """
    pace, outside = schedule.pace, problem.outside
    v = np.minimum(_third_cheapest(problem.service) if start is None else start, outside)
    v = np.where(np.isfinite(v), v, 0.0)
    best, prices, stale = -np.inf, v, 0
    direction = np.zeros_like(v)
    saving = np.empty_like(problem.service)
    for _ in range(schedule.steps):
        value, slope = _dual(problem, v, saving)
        if value > best:
            best, prices, stale = value, v, 0
        else:
            stale += 1
        if stale >= schedule.patience:
            pace, stale, v = pace * schedule.shrink, 0, prices
            direction = np.zeros_like(v)
            if pace < 1e-3:  # steps so short gain nothing
                break
            continue
        direction = slope + 0.5 * direction
        norm = float(direction @ direction)
        if norm == 0.0 or value >= upper:
            break
        step = pace * (1.01 * max(upper - value, 1e-9 * abs(upper))) / norm
        v = np.minimum(np.maximum(v + step * direction, 0.0), outside)
    return best, prices


def _third_cheapest(service: Array) -> Array:
    return np.sort(service, axis=0)[: min(3, len(service))].max(axis=0)


def _dual(problem: Problem, v: Array, saving: Array) -> tuple[float, Array]:
    np.subtract(v, problem.service, out=saving)  # in place: this is nearly all of the time
    np.maximum(saving, 0.0, out=saving)
    reduced = problem.opening - saving.sum(axis=1)
    pays = reduced < 0
    served = np.count_nonzero(saving[pays], axis=0)
    return float(v.sum() + reduced[pays].sum()), 1.0 - served


@dataclass(frozen=True)
class Branching:
    """The best set of places of a search, and what is proven about it."""

    open: Flags | None  # None: no set is better than the one the search began with
    bound: float
    finished: bool
    nodes: int


class _Node(NamedTuple):
    """Places decided so far; the search expands nodes by bound, then by age."""

    bound: float
    age: int
    open: Flags
    free: Flags
    prices: Array


def branch(
    problem: Problem, prices: Array, *, upper: float, room: float, time_limit: float
) -> Branching:
    """Search for a set of places that costs less than ``upper``.

    The search starts from ``prices`` of the clients. It ends when no set is better than the best
    one by more than ``room``. The problem has no ``constant``: bounds do not count it.
    """
    began = time.perf_counter()
    ages, nodes, best = count(), 0, None
    everywhere = np.ones(len(problem.opening), dtype=bool)
    heap = [_Node(-np.inf, next(ages), ~everywhere, everywhere, prices)]
    # A bound within rounding of the best cost is that cost.
    while heap and heap[0].bound < upper - max(room, _ROUNDING * abs(upper)):
        if time.perf_counter() - began > time_limit:
            return Branching(best, heap[0].bound, False, nodes)
        node = heapq.heappop(heap)
        nodes += 1
        children, places = _expand(problem, node, upper)
        value = problem.value(places)
        if nodes % _SEARCH == 1 or value < upper:
            places = improve(problem, places)
            value = problem.value(places)
        if value < upper - _ROUNDING * abs(upper):
            best, upper = places, value
        for bound, opened, free, start in children:
            heapq.heappush(heap, _Node(bound, next(ages), opened, free, start))
    return Branching(best, min(heap[0].bound, upper) if heap else upper, True, nodes)


def _expand(
    problem: Problem, node: _Node, upper: float
) -> tuple[list[tuple[float, Flags, Flags, Array]], Flags]:
    """Return the nodes below one, and the set of places that its prices pay for."""
    fixed = float(problem.opening[node.open].sum())
    least_cost = problem.reach(node.open)
    # Whom open places serve for nothing matters no more.
    clients, places = np.flatnonzero(least_cost > 0), np.flatnonzero(node.free)
    if len(places) == 0 or len(clients) == 0:
        return [], node.open
    part = Problem(
        problem.opening[places], problem.service[np.ix_(places, clients)], least_cost[clients]
    )
    bound, prices = multipliers(part, upper - fixed, _BELOW, node.prices[clients])
    reduced = part.reduced_opening(prices)
    paid = node.open.copy()
    paid[places[reduced < 0]] = True
    slack = upper - fixed - bound
    if slack <= _ROUNDING * abs(upper):
        return [], paid
    # Opening, or not opening, costs more than the best set: decided.
    opened, free = node.open.copy(), np.zeros_like(node.free)
    opened[places[-reduced >= slack]] = True
    free[places[np.abs(reduced) < slack]] = True
    start = np.zeros(len(problem.outside))
    start[clients] = prices
    least = max(node.bound, fixed + bound)
    if not free.any():
        return [(least, opened, free, start)], paid
    order = np.flatnonzero(free[places])
    choice = order[np.argmin(reduced[order])]
    pays = float(reduced[choice])
    free[places[choice]] = False
    other = opened.copy()
    other[places[choice]] = True
    children = [
        (max(least, fixed + bound + max(0.0, pays)), other, free, start),
        (max(least, fixed + bound + max(0.0, -pays)), opened, free, start),
    ]
    return children, paid


@dataclass(frozen=True)
class Location:
    """A set of open places, and what is proven about it."""

    open: Flags
    bound: float
    finished: bool
    nodes: int


def locate(problem: Problem, *, time_limit: float, gap: float) -> Location:
    """Open places at least total cost, with a lower bound on the cost of any set."""
    began = time.perf_counter()
    # Opening these costs nothing and harms nobody.
    always = problem.opening <= 0
    best = improve(problem, always)
    upper = problem.value(best)
    room = gap * max(1.0, abs(upper))
    core = _reduce(problem, always, upper - problem.constant, room)
    while len(core.places) and not core.closed:
        # Places that pay at these prices are another start for local search.
        other = improve(problem, core.paying)
        if not problem.value(other) < upper:
            break
        best, upper = other, problem.value(other)
        core = _reduce(problem, always, upper - problem.constant, room)
    if len(core.places) == 0:  # only the places fixed open can be better
        best = min(best, core.base, key=problem.value)
        return Location(best, problem.value(best), True, 0)
    if core.closed:
        return Location(best, min(core.least + problem.constant, upper), True, 0)
    search = branch(
        core.problem,
        core.prices,
        upper=upper - problem.constant - core.fixed,
        room=room,
        time_limit=max(time_limit - (time.perf_counter() - began), 0.01),
    )
    if search.open is not None:
        places = core.base.copy()
        places[core.places] = search.open
        other = improve(problem, places)
        if problem.value(other) < upper:
            best, upper = other, problem.value(other)
    bound = max(core.least, search.bound + core.fixed) + problem.constant
    return Location(best, min(bound, upper), search.finished, search.nodes)


@dataclass(frozen=True)
class _Core:
    """What there is to decide once every set that is no better than the best one is left out."""

    least: float  # lower bound from multipliers
    closed: bool  # whether that is all there is to prove
    base: Flags  # open in any case
    fixed: float  # their cost
    places: Indices  # open or not: the rows of ``problem``
    problem: Problem
    prices: Array  # multipliers of the clients
    paying: Flags  # places that multipliers open


def _reduce(problem: Problem, always: Flags, upper: float, room: float) -> _Core:
    """Fix places and leave out links that only sets dearer than ``upper`` use."""
    opening = np.where(always, np.inf, problem.opening)
    undecided = Problem(opening, problem.service, problem.reach(always))
    fixed = float(problem.opening[always].sum())
    value, v = multipliers(undecided, upper - fixed, _FIRST)
    least, slack = value + fixed, upper - fixed - value
    reduced = undecided.reduced_opening(v)
    base = always | (-reduced >= slack)
    outside = problem.reach(base)
    places = np.flatnonzero(~base & (reduced < slack))
    clients = np.flatnonzero(outside > 0)
    cost = problem.service[np.ix_(places, clients)]
    beyond = np.maximum(cost - v[clients], 0.0) + np.maximum(reduced[places], 0.0)[:, None]
    # A device that is open itself is served for nothing; dearer than opening it is no use.
    useful = (cost < outside[clients]) & (cost < opening[clients]) & (beyond < slack)
    itself = places[:, None] == clients
    spare = outside[clients]
    return _Core(
        least=least,
        closed=slack <= max(room, _ROUNDING * abs(upper)),
        base=base,
        fixed=float(problem.opening[base].sum()),
        places=places,
        problem=Problem(
            opening=opening[places],
            service=np.where(itself, 0.0, np.where(useful, cost, np.inf)),
            outside=np.where(spare - v[clients] < slack, spare, np.inf),
        ),
        prices=v[clients],
        paying=always | (reduced < 0),
    )
