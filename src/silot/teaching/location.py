r"""Facility location: which places to open when every device is served or is open itself.

Minimise :math:`\sum_i f_i y_i + \sum_{j : y_j = 0} \min(u, \min_{i : y_i = 1} c_{ij})`. Numbers
are shifted first so that every :math:`c_{ij} \ge 0` and serving an open place is free: this is the
uncapacitated facility location problem, where opening one more place never harms service.

Local search bounds the optimum from above and Lagrange multipliers bound it from below. HiGHS or
branch and bound decides what these leave open. Where costs of links are random and opening is dear,
the linear relaxation of HiGHS is large, degenerate and far from the optimum; multipliers bound it
at a small part of its cost.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from .costs import Array, Flags, Indices

_ROUNDING = 1e-12
_SEARCH = 20


def improved(opening: Array, service: Array, outside: Array, start: Flags) -> Flags:
    """Open, close or exchange one place as long as the best such move pays.

    ``opening`` is inf where a place cannot be opened, ``service`` and ``outside`` are inf where
    nobody can be served.
    """
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
        if best >= -1e-12 * scale:
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
    """Cheapest and second cheapest way to serve everybody, and the place of the cheapest."""
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


# For nodes of a search, which start from prices of the node above.
_BELOW = Schedule(40, pace=2.0, patience=4, shrink=0.6)


def multipliers(
    opening: Array,
    service: Array,
    outside: Array,
    known: float,
    schedule: Schedule,
    start: Array | None = None,
) -> tuple[float, Array]:
    r"""Best bound found by subgradients, and its multipliers.

    For any prices :math:`v_j \le u_j` that devices pay for being served,
    :math:`\sum_j v_j + \sum_i \min(0, f_i - \sum_j \max(0, v_j - c_ij))` is at most the cost of
    every set of places.
    """
    pace = schedule.pace
    v = np.minimum(_third_cheapest(service) if start is None else start, outside)
    v = np.where(np.isfinite(v), v, 0.0)
    best, prices, stale = -np.inf, v, 0
    direction = np.zeros_like(v)
    saving = np.empty_like(service)
    for _ in range(schedule.steps):
        value, slope = _dual(opening, service, v, saving)
        if value > best:
            best, prices, stale = value, v, 0
        else:
            stale += 1
        if stale >= schedule.patience:
            pace, stale, v = pace * schedule.shrink, 0, prices
            direction = np.zeros_like(v)
            if pace < 1e-3:
                break
            continue
        direction = slope + 0.5 * direction
        norm = float(direction @ direction)
        if norm == 0.0 or value >= known:
            break
        step = pace * (1.01 * max(known - value, 1e-9 * abs(known))) / norm
        v = np.minimum(np.maximum(v + step * direction, 0.0), outside)
    return best, prices


def _third_cheapest(service: Array) -> Array:
    return np.sort(service, axis=0)[: min(3, len(service))].max(axis=0)


def _dual(opening: Array, service: Array, v: Array, saving: Array) -> tuple[float, Array]:
    np.subtract(v, service, out=saving)  # in place: this is nearly all of the time
    np.maximum(saving, 0.0, out=saving)
    reduced = opening - saving.sum(axis=1)
    pays = reduced < 0
    served = np.count_nonzero(saving[pays], axis=0)
    return float(v.sum() + reduced[pays].sum()), 1.0 - served


def reduced_opening(opening: Array, service: Array, v: Array) -> Array:
    r""":math:`f_i - \sum_j \max(0, v_j - c_{ij})`: what opening a place costs beyond prices."""
    return opening - np.maximum(v - service, 0.0).sum(axis=1)


@dataclass(frozen=True)
class Branching:
    """What a search found."""

    open: Flags | None  # None: no set is better than the known one
    bound: float
    finished: bool
    nodes: int


class _Node(NamedTuple):
    """Places decided so far; nodes are taken by bound, then by age."""

    bound: float
    age: int
    open: Flags
    free: Flags
    start: Array


def branch(
    opening: Array,
    service: Array,
    outside: Array,
    start: Array,
    *,
    known: float,
    room: float,
    time_limit: float,
) -> Branching:
    """Look for places, rows of ``service``, that cost less than ``known``.

    ``outside`` is what a client costs without them, and ``start`` are prices to begin with. The
    search ends when no set is better than the best one by more than ``room``.
    """
    began = time.perf_counter()
    ages, nodes, best = count(), 0, None
    everywhere = np.ones(len(opening), dtype=bool)
    heap = [_Node(-np.inf, next(ages), ~everywhere, everywhere, start)]
    # A bound within rounding of the known cost is that cost.
    while heap and heap[0].bound < known - max(room, _ROUNDING * abs(known)):
        if time.perf_counter() - began > time_limit:
            return Branching(best, heap[0].bound, False, nodes)
        node = heapq.heappop(heap)
        nodes += 1
        children, places, value = _expand(opening, service, outside, node, known)
        if nodes % _SEARCH == 1 or value < known:
            places = improved(opening, service, outside, places)
            value = float(opening[places].sum() + reach(service, outside, places).sum())
        if value < known - _ROUNDING * abs(known):
            best, known = places, value
        for bound, opened, free, prices in children:
            heapq.heappush(heap, _Node(bound, next(ages), opened, free, prices))
    return Branching(best, min(heap[0].bound, known) if heap else known, True, nodes)


def _expand(
    opening: Array, service: Array, outside: Array, node: _Node, known: float
) -> tuple[list[tuple[float, Flags, Flags, Array]], Flags, float]:
    """Nodes below one, and the best set met there with its cost."""
    fixed = float(opening[node.open].sum())
    least_cost = reach(service, outside, node.open)
    # Whom open places serve for nothing matters no more.
    clients, places = np.flatnonzero(least_cost > 0), np.flatnonzero(node.free)
    if len(places) == 0 or len(clients) == 0:
        return [], node.open, fixed + float(least_cost.sum())
    costs, left = opening[places], service[np.ix_(places, clients)]
    bound, prices = multipliers(
        costs,
        left,
        least_cost[clients],
        known - fixed,
        _BELOW,
        node.start[clients],
    )
    reduced = reduced_opening(costs, left, prices)
    met = node.open.copy()
    met[places[reduced < 0]] = True
    value = float(opening[met].sum() + reach(service, outside, met).sum())
    slack = known - fixed - bound
    if slack <= _ROUNDING * abs(known):
        return [], met, value
    # Opening, or leaving closed, costs more than the best set: decided.
    opened, free = node.open.copy(), np.zeros_like(node.free)
    opened[places[-reduced >= slack]] = True
    free[places[np.abs(reduced) < slack]] = True
    start = np.zeros(len(outside))
    start[clients] = prices
    least = max(node.bound, fixed + bound)
    if not free.any():
        return [(least, opened, free, start)], met, value
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
    return children, met, value


def reach(service: Array, outside: Array, places: Flags) -> Array:
    """Least cost of serving each client from some places, or not at all."""
    return np.minimum(service[places].min(axis=0, initial=np.inf), outside)


# HiGHS stops at an absolute gap of 1e-6 whatever is asked for; costs are scaled so that this is
# nothing.
_SCALE = 1e4
_STEPS = 400
# The linear relaxation is worth its time where few links of different costs are left to each
# place; elsewhere multipliers bound almost as well, many times faster.
_LINKS = 10


@dataclass(frozen=True)
class Location:
    """A set of open places, and what is proven about it."""

    open: Flags
    bound: float
    finished: bool
    nodes: int


@dataclass(frozen=True)
class Problem:
    """Shifted costs: ``service`` has a zero diagonal, ``opening`` is inf where not possible."""

    opening: Array
    service: Array
    outside: Array
    constant: float

    @classmethod
    def of(cls, source: Array, links: Array, eligible: Flags, unserved: float | None) -> Problem:
        """From costs of training and links (``inf`` where barred)."""
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
        """Least cost of serving each device from some open places, or not at all."""
        return reach(self.service, self.outside, places)

    def value(self, places: Flags) -> float:
        """Objective of a set of open places, inf where it serves nobody."""
        return float(self.opening[places].sum() + self.reach(places).sum()) + self.constant


def locate(problem: Problem, *, time_limit: float, gap: float) -> Location:
    """Open places at least total cost, with a lower bound on the cost of any set."""
    began = time.perf_counter()
    # Opening these costs nothing and harms nobody.
    always = problem.opening <= 0
    best = improved(problem.opening, problem.service, problem.outside, always)
    upper = problem.value(best)
    room = gap * max(1.0, abs(upper))
    model = _reduced(problem, always, upper - problem.constant, room)
    while len(model.places) and not model.closed:
        # Places that pay at these prices are another start for local search.
        other = improved(problem.opening, problem.service, problem.outside, model.paying)
        if not problem.value(other) < upper:
            break
        best, upper = other, problem.value(other)
        model = _reduced(problem, always, upper - problem.constant, room)
    if len(model.places) == 0:  # only the places fixed open can be better
        best = min(best, model.base, key=problem.value)
        return Location(best, problem.value(best), True, 0)
    if model.closed:
        return Location(best, min(model.least + problem.constant, upper), True, 0)
    left = max(time_limit - (time.perf_counter() - began), 0.01)
    found = (model.branch if model.hard else model.solve)(left, room)
    if found.open is not None:
        other = improved(problem.opening, problem.service, problem.outside, found.open)
        if problem.value(other) < upper:
            best, upper = other, problem.value(other)
    bound = min(found.bound + problem.constant, upper)
    return Location(best, bound, found.finished, found.nodes)


@dataclass(frozen=True)
class _Model:
    """What is left to decide once every set that is no better than a known one is left out."""

    known: float
    least: float  # lower bound from multipliers
    closed: bool  # whether that is all there is to prove
    base: Flags  # open in any case
    fixed: float  # their cost
    places: Indices  # open or not
    opening: Array
    clients: Indices  # not served for nothing by the base
    outside: Array  # cost of the best way that needs none of the places, inf if too dear
    links: tuple[Indices, Indices, Array]  # rows of places, rows of clients, cost
    prices: Array  # multipliers of the clients
    paying: Flags  # places that multipliers open

    @property
    def hard(self) -> bool:
        """Whether a linear relaxation is not the way."""
        _, client, price = self.links
        order = np.lexsort((price, client))
        levels = int(_levels(client[order], price[order]).sum())
        return levels > _LINKS * len(self.places)

    def branch(self, time_limit: float, room: float) -> Branching:
        """Best set found, by multipliers alone."""
        row, column, price = self.links
        service = np.full((len(self.places), len(self.clients)), np.inf)
        service[row, column] = price
        service[self.places[:, None] == self.clients] = 0.0
        found = branch(
            self.opening,
            service,
            self.outside,
            self.prices,
            known=self.known - self.fixed,
            room=room,
            time_limit=time_limit,
        )
        places = self.base.copy()
        if found.open is not None:
            places[self.places] = found.open
        return Branching(
            None if found.open is None else places,
            max(self.least, found.bound + self.fixed),
            found.finished,
            found.nodes,
        )

    def solve(self, time_limit: float, room: float) -> Branching:
        """Best set found, by HiGHS."""
        cover, bound, cost = self._matrices()
        scale = _SCALE / max(float(cost.max()), 1e-300)
        found = milp(
            cost * scale,
            constraints=[
                LinearConstraint(cover, 1.0, np.inf),
                LinearConstraint(bound, -np.inf, 0.0),
            ],
            bounds=Bounds(0.0, 1.0),
            integrality=(np.arange(len(cost)) < len(self.places)).astype(int),
            options={
                "time_limit": time_limit,
                "mip_rel_gap": room / max(self.known - self.fixed, 1e-300),
            },
        )
        if found.status == 2:  # every set left out is no better, and no other is possible
            return Branching(None, self.known, True, 0)
        proven = -np.inf if found.mip_dual_bound is None else found.mip_dual_bound / scale
        places = None
        if found.x is not None:
            places = self.base.copy()
            places[self.places] = found.x[: len(self.places)] > 0.5
        return Branching(
            places,
            max(self.least, proven + self.fixed),
            found.status == 0,
            int(found.mip_node_count or 0),
        )

    def _matrices(self) -> tuple[sparse.csr_array, sparse.csr_array, Array]:
        place, client, price = self.links
        order = np.lexsort((price, client))
        place, client, price = place[order], client[order], price[order]
        # Links of one client at one cost are one variable: with many ties there are few.
        new = _levels(client, price)
        level = np.cumsum(new) - 1
        p, g = len(self.places), int(new.sum())
        spare = np.flatnonzero(np.isfinite(self.outside))
        own = np.flatnonzero(np.isin(self.clients, self.places))
        size = p + g + len(spare)
        rows = np.concatenate([own, client[new], spare])
        columns = np.concatenate(
            [np.searchsorted(self.places, self.clients[own]), np.arange(p, size)]
        )
        shape = (len(self.clients), size)
        cover = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)
        entries = np.concatenate([np.ones(g), -np.ones(len(place))])
        where = (
            np.concatenate([np.arange(g), level]),
            np.concatenate([p + np.arange(g), place]),
        )
        bound = sparse.csr_array((entries, where), shape=(g, size))
        cost = np.concatenate([self.opening, price[new], self.outside[spare]])
        return cover, bound, cost


def _levels(client: Indices, price: Array) -> Flags:
    """Which links, in this order, are not of the same client and cost as the one before."""
    new = np.ones(len(price), dtype=bool)
    new[1:] = (np.diff(client) != 0) | (np.diff(price) != 0)
    return new


def _reduced(problem: Problem, always: Flags, known: float, room: float) -> _Model:
    """Fix places and leave out links that only sets dearer than ``known`` use."""
    opening = np.where(always, np.inf, problem.opening)
    outside = problem.reach(always)
    fixed = float(problem.opening[always].sum())
    value, v = multipliers(opening, problem.service, outside, known - fixed, Schedule(_STEPS))
    least, slack = value + fixed, known - fixed - value
    reduced = reduced_opening(opening, problem.service, v)
    base = always | (-reduced >= slack)
    outside = problem.reach(base)
    places = np.flatnonzero(~base & (reduced < slack))
    clients = np.flatnonzero(outside > 0)
    cost = problem.service[np.ix_(places, clients)]
    beyond = np.maximum(cost - v[clients], 0.0) + np.maximum(reduced[places], 0.0)[:, None]
    # A device that is open itself is served for nothing; dearer than opening it is no use.
    useful = (cost < outside[clients]) & (cost < opening[clients]) & (beyond < slack)
    useful &= places[:, None] != clients
    rows, columns = np.nonzero(useful)
    spare = outside[clients]
    return _Model(
        known=known,
        least=least,
        closed=slack <= max(room, 1e-12 * abs(known)),
        base=base,
        fixed=float(problem.opening[base].sum()),
        places=places,
        opening=opening[places],
        clients=clients,
        outside=np.where(spare - v[clients] < slack, spare, np.inf),
        links=(rows, columns, cost[rows, columns]),
        prices=v[clients],
        paying=always | (reduced < 0),
    )
