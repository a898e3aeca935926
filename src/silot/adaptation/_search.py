"""Bounds from both sides for facility location: local search above, Lagrange multipliers below."""

from __future__ import annotations

import numpy as np

from ..results.links import Flags
from .costs import Array


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


def multipliers(
    opening: Array,
    service: Array,
    outside: Array,
    known: float,
    *,
    steps: int,
    start: Array | None = None,
    pace: float = 1.0,
    patience: int = 20,
    shrink: float = 0.5,
) -> tuple[float, Array]:
    r"""Best bound found by subgradients, and its multipliers.

    For any prices :math:`v_j \le u_j` that devices pay for being served,
    :math:`\sum_j v_j + \sum_i \min(0, f_i - \sum_j \max(0, v_j - c_ij))` is at most the cost of
    every set of places. After ``patience`` steps without a better bound they become shorter.
    """
    v = np.minimum(_third_cheapest(service) if start is None else start, outside)
    v = np.where(np.isfinite(v), v, 0.0)
    best, prices, stale = -np.inf, v, 0
    direction = np.zeros_like(v)
    saving = np.empty_like(service)
    for _ in range(steps):
        value, slope = _dual(opening, service, v, saving)
        if value > best:
            best, prices, stale = value, v, 0
        else:
            stale += 1
        if stale >= patience:
            pace, stale, v = pace * shrink, 0, prices
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
