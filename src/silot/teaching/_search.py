"""Bounds from both sides for facility location, and branch and bound between them.

Local search bounds from above and Lagrange multipliers from below. Where costs of links are
random and opening is dear, the linear relaxation is large, degenerate and far from the optimum;
multipliers bound it at a small part of its cost.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from .costs import Array
from .plan import Flags

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
