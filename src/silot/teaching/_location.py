r"""Facility location: which places to open when every device is served or is open itself.

Minimise :math:`\sum_i f_i y_i + \sum_{j : y_j = 0} \min(u, \min_{i : y_i = 1} c_{ij})`. Numbers
are shifted first so that every :math:`c_{ij} \ge 0` and serving an open place is free: this is the
uncapacitated facility location problem, where opening one more place never harms service.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sparse
from scipy.optimize import Bounds, LinearConstraint, milp

from ._search import Branching, Schedule, branch, improved, multipliers, reach, reduced_opening
from .costs import Array, Indices
from .plan import Flags

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
