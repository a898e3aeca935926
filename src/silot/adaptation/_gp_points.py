"""Where successive geometric programming starts, and how its last point becomes a plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ._gp import FLOOR, Array, Point, Relaxed
from .costs import LinkCosts
from .evaluate import best_alpha, terms_of, unreachable

Kinds = npt.NDArray[np.int64]
Start = Literal["paper", "symmetric", "random"]


def starting_point(
    problem: Relaxed,
    names: tuple[str, ...],
    start: Start,
    *,
    seed: int = 0,
    start_psi: float = 0.02,
) -> Point:
    """Give a feasible point.

    A target's weights must sum to its ``psi``, and none may exceed ``1 - psi`` of its source.
    Each device gets the ``psi`` of its kind of start, or the largest that leaves enough to every
    device it may serve.
    """
    n, rows, columns = problem.size, problem.rows, problem.columns
    rng = np.random.default_rng(seed) if start == "random" else None
    counts = np.bincount(columns, minlength=n)
    alone = ~problem.eligible & (counts == 0)
    if alone.any():
        raise unreachable(names[int(np.argmax(alone))])
    most = start_psi if start == "paper" else 0.5
    psi = np.where(problem.eligible, np.where(counts > 0, most, FLOOR), 1.0)
    if problem.barred:
        served = ~problem.eligible[columns]
        np.minimum.at(psi, rows[served], 1.0 - 1.0 / counts[columns[served]])
    order = np.argsort(np.array(names))
    if rng is not None:
        # Drawn by name: the order of the devices must not matter.
        draws = np.empty(n)
        draws[order] = rng.uniform(size=n)
        psi = np.where(problem.eligible, psi * draws, 1.0)
    psi = np.maximum(psi, FLOOR)
    room = 1.0 - psi[rows] if problem.barred else np.ones(len(rows))
    parts = room
    if rng is not None:
        pairs = np.empty((n, n))
        pairs[np.ix_(order, order)] = rng.uniform(size=(n, n))
        parts = room * pairs[rows, columns]
    sums, rooms = problem.sums(parts)[columns], problem.sums(room)[columns]
    # Psi at its floor instead of at 0 leaves a sum short by less than epsilon_sum.
    wanted = np.minimum(psi[columns], rooms)
    with np.errstate(divide="ignore", invalid="ignore"):
        scaled = parts * (wanted / sums)
        filled = parts + (room - parts) * ((wanted - sums) / (rooms - sums))
    alpha = np.where(sums >= wanted, scaled, filled)
    return Point(psi, np.clip(alpha, FLOOR, 1.0), np.full(n, FLOOR))


@dataclass(frozen=True, eq=False)
class Rounded:
    """A relaxed point made whole.

    Attributes
    ----------
    psi
        0 or 1: relaxed ``psi`` below one half is a source.
    responded
        Best weights for ``psi``.
    kept
        The relaxed weights among sources and targets, small ones dropped, made to sum to 1;
        where nothing was left, the best.
    swept_psi, swept
        Of all thresholds for ``psi``, not one half alone, the one of the cheapest plan; and the
        best weights for it.
    opened
        Devices made sources because targets could not be served otherwise.
    phantom_links, phantom_weight
        Links of more weight than ``1 - psi`` of their source, the missing constraint, by more
        than ``smallest``; and the part of all weight that is beyond it.
    """

    psi: Kinds
    responded: Array
    kept: Array
    swept_psi: Kinds
    swept: Array
    opened: int
    phantom_links: int
    phantom_weight: float


def rounded(psi: Array, alpha: Array, costs: LinkCosts, *, smallest: float) -> Rounded:
    """Round ``psi`` at one half and give both kinds of weights."""
    kinds = np.where(costs.eligible & (psi < 0.5), 0, 1).astype(np.int64)
    beyond = alpha - (1.0 - psi)[:, None]
    phantom = np.where(beyond > smallest, beyond, 0.0)
    total = float(alpha.sum())
    opened = _open(kinds, psi, costs)
    responded = best_alpha(kinds, costs)
    kept = np.where(np.isfinite(costs.links), alpha * (alpha > smallest), 0.0)
    kept *= (kinds == 0)[:, None] & (kinds == 1)
    sums = kept.sum(axis=0)
    kept = np.where(sums > 0, kept / np.where(sums > 0, sums, 1.0), responded)
    swept = _swept(psi, costs)
    return Rounded(
        psi=kinds,
        responded=responded,
        kept=kept,
        swept_psi=swept,
        swept=best_alpha(swept, costs),
        opened=opened,
        phantom_links=int((phantom > 0).sum()),
        phantom_weight=float(phantom.sum()) / total if total > 0 else 0.0,
    )


def _open(kinds: Kinds, psi: Array, costs: LinkCosts) -> int:
    """Make sources of the devices nearest to it until every target can be served."""
    usable = np.isfinite(costs.links)
    before = int((kinds == 0).sum())
    if not before:
        kinds[int(np.argmin(np.where(costs.eligible, psi, np.inf)))] = 0
    while True:
        alone = (kinds == 1) & ~usable[kinds == 0].any(axis=0)
        if not alone.any():
            return int((kinds == 0).sum()) - before
        target = int(np.argmax(alone))
        could = usable[:, target] | (costs.eligible & (np.arange(costs.size) == target))
        could &= kinds == 1
        if not could.any():
            raise unreachable(costs.names[target])
        kinds[int(np.argmin(np.where(could, psi, np.inf)))] = 0


def _swept(psi: Array, costs: LinkCosts) -> Kinds:
    best, chosen = np.inf, np.empty(0, dtype=np.int64)
    for threshold in np.unique(psi[costs.eligible]):
        kinds = np.where(costs.eligible & (psi <= threshold), 0, 1).astype(np.int64)
        _open(kinds, psi, costs)
        total = terms_of(kinds, best_alpha(kinds, costs), costs).total
        if total < best:
            best, chosen = total, kinds
    return chosen
