"""Facility location by branch and bound, with Lagrange multipliers at every node.

Where costs of links are random and opening is dear, the linear relaxation is large, degenerate
and far from the optimum. Multipliers bound it at a small part of its cost.
"""

from __future__ import annotations

import heapq
import time
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np

from ..results.links import Flags
from ._search import improved, multipliers, reduced_opening
from .costs import Array

_STEPS, _PACE, _PATIENCE, _SHRINK = 40, 2.0, 4, 0.6
_ROUNDING = 1e-12
_SEARCH = 20


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
            value = float(opening[places].sum() + _reach(service, outside, places).sum())
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
    reach = _reach(service, outside, node.open)
    # Whom open places serve for nothing matters no more.
    clients, places = np.flatnonzero(reach > 0), np.flatnonzero(node.free)
    if len(places) == 0 or len(clients) == 0:
        return [], node.open, fixed + float(reach.sum())
    costs, left = opening[places], service[np.ix_(places, clients)]
    bound, prices = multipliers(
        costs,
        left,
        reach[clients],
        known - fixed,
        steps=_STEPS,
        start=node.start[clients],
        pace=_PACE,
        patience=_PATIENCE,
        shrink=_SHRINK,
    )
    reduced = reduced_opening(costs, left, prices)
    met = node.open.copy()
    met[places[reduced < 0]] = True
    value = float(opening[met].sum() + _reach(service, outside, met).sum())
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


def _reach(service: Array, outside: Array, places: Flags) -> Array:
    return np.minimum(service[places].min(axis=0, initial=np.inf), outside)
