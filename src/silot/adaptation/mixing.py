"""Objectives under which several sources serve a target better than one."""

from __future__ import annotations

import time

import numpy as np

from ..results.links import LinkPlan
from ._order import Indices, canonical_order, reordered, restored
from ._outer import outer_approximation
from ._shape import Shape
from .costs import Array, LinkCosts, Mixing
from .evaluate import Kinds, best_alpha, checked_unserved, make_plan, unreachable
from .exact import check_options

# Sources above which no table of all their sets is made, entries of all such tables, and faces
# to solve: some 10 seconds.
SOURCES, ENTRIES, FACES = 20, 2**25, 2**20
DEFAULT_GAP = 1e-4
_ONE_GAP, _ONE_SECONDS = 1e-7, 20.0


def solve_mixing(
    costs: LinkCosts,
    *,
    mixing: Mixing = "variance",
    allow_unserved: float | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
) -> LinkPlan:
    r"""Best sources, links and weights when mixing sources pays.

    The objective of ``LinkCosts`` with, for weights a at target j,

    ========= ====================================================================
    variance  :math:`m_j(a) = c \sqrt{\sum_i a_i^2 / n_i}`, n labelled records: few records make
              an uncertain model, and independent errors average out
    ambiguity :math:`m_j(a) = -\frac{s}{2} \sum_{ik} a_i a_k D_{j,ik}`, D mean squared
              differences of predictions at j: the mean squared error of averaged outputs is the
              average error minus this (Krogh and Vedelsby, 1995)
    mmd       :math:`m_j(a) = s \, \|\sum_i a_i \mu_i - \mu_j\|`, from inner products of the
              mean embeddings of the devices' records
    ========= ====================================================================

    All are convex in a, and each link in use costs its energy. With up to 14 possible
    sources, and 20 where energy leaves few supports worth a look, every set of sources and
    every support of every target is compared, in closed form. With more, tangents bound the
    convex part from below in a mixed-integer program, which is solved again with more of them
    until the gap is small or time is up; it may be, with a gap of some per cent.

    Parameters
    ----------
    costs
        The network, with ``labelled``, ``disagreement`` or ``kernel`` and ``mixing_scale``.
    mixing
        Which of the above.
    allow_unserved
        Cost of leaving a target without a model; ``None`` does not allow it.
    time_limit
        Seconds.
    gap
        Relative gap that is good enough. With tangents 0 means 1e-4.

    Returns
    -------
    LinkPlan

    Raises
    ------
    NoEligibleSource
        No device may be a source.
    InputError
        Options out of range, a target that nobody can reach, data of the mixing that were not
        given, ``disagreement`` that no predictions have (``disagreement-definite``).
    SolverError
        The mixed-integer solver failed.

    Examples
    --------
    >>> costs = LinkCosts(
    ...     [0.1, 0.1, 9], [[0.2] * 3] * 3, [[0.01] * 3] * 3, labelled=[100, 100, 1]
    ... )
    >>> plan = solve_mixing(costs, mixing="variance")
    >>> plan.alpha[:, 2].tolist(), plan.gap
    ([0.5, 0.5, 0.0], 0.0)
    """
    check_options(costs, mixing, allow_unserved, time_limit, gap)
    began = time.perf_counter()
    price = checked_unserved(allow_unserved)
    order = canonical_order(costs)
    listed = reordered(costs, order)
    if _listable(listed, mixing):
        psi = _best_set(listed, mixing, price)
        alpha = best_alpha(psi, listed, mixing=mixing, allow_unserved=price)
        bound, tolerance = np.inf, 1e-9
        status = "proven optimal: no plan has a lower objective at these costs"
        numbers = {"sets": float(2 ** int(listed.eligible.sum()))}
    else:
        tolerance = gap or DEFAULT_GAP
        found = outer_approximation(
            listed, mixing, price, gap=tolerance, time_limit=time_limit, began=began
        )
        psi, alpha, bound, status = found.psi, found.alpha, found.bound, found.status
        numbers = {"rounds": float(found.rounds), "tangents": float(found.tangents)}
    psi, alpha = restored(psi, alpha, order)
    return make_plan(
        psi,
        alpha,
        costs,
        method="exact",
        mixing=mixing,
        status=status,
        allow_unserved=price,
        lower_bound=bound,
        tolerance=tolerance,
        seconds=time.perf_counter() - began,
        details=numbers,
    )


def _listable(costs: LinkCosts, mixing: Mixing) -> bool:
    """Whether all sets of sources and all supports worth a look can be listed in seconds."""
    may = np.flatnonzero(costs.eligible)
    if len(may) > SOURCES or costs.size * 2 ** len(may) > ENTRIES:
        return False
    faces = 0
    for j in range(costs.size):
        reach = may[np.isfinite(costs.links[may, j])]
        faces += int(Shape.of(costs, j, reach, mixing).useful()[0].sum())
        if faces > FACES:
            return False
    return True


def _best_set(costs: LinkCosts, mixing: Mixing, price: float | None) -> Kinds:
    """Sources of least total cost, by the cost of every set of them."""
    may = np.flatnonzero(costs.eligible)
    e = len(may)
    total = np.zeros(2**e)
    sets = np.arange(2**e)
    for bit, i in enumerate(may):
        total[(sets >> bit) & 1 == 1] += costs.phi[0] * costs.source[i]
    for j in range(costs.size):
        served = _served(costs, j, may, mixing, price)
        own = np.flatnonzero(may == j)
        if len(own):  # a source needs no model
            served = np.where((sets >> own[0]) & 1 == 1, 0.0, served)
        total += served
    best = int(np.argmin(total))
    psi = np.ones(costs.size, dtype=np.int64)
    psi[may[(best >> np.arange(e)) & 1 == 1]] = 0
    return psi


def _served(costs: LinkCosts, j: int, may: Indices, mixing: Mixing, price: float | None) -> Array:
    """Least cost of serving j, for every set of sources by mask."""
    bits = np.flatnonzero(np.isfinite(costs.links[may, j]))
    table = Shape.of(costs, j, may[bits], mixing).table()
    cost = np.full(2 ** len(may), np.inf)
    masks = np.zeros(len(table), dtype=np.intp)
    for place, bit in enumerate(bits):
        masks[1 << place : 2 << place] = masks[: 1 << place] | (1 << bit)
    cost[masks] = table
    if price is not None:
        cost[0] = price
    for bit in range(len(may)):  # what a set can do, every larger one can
        halves = cost.reshape(-1, 2, 1 << bit)
        np.minimum(halves[:, 1], halves[:, 0], out=halves[:, 1])
    return cost


def mixed_alpha(psi: Kinds, costs: LinkCosts, mixing: Mixing, price: float | None) -> Array:
    """Optimal weights of every target for given sources; see ``best_alpha``."""
    order = canonical_order(costs)
    ranked = order[psi[order] == 0]
    alpha = np.zeros((costs.size, costs.size))
    for j in np.flatnonzero(psi == 1).tolist():
        able = ranked[np.isfinite(costs.links[ranked, j])]
        if len(able) == 0 and price is None:
            raise unreachable(costs.names[j])
        if len(able) == 0:
            continue
        weights, value = best_weights(costs, j, able, mixing)
        if price is None or value <= price:
            alpha[able, j] = weights
    return alpha


def best_weights(costs: LinkCosts, j: int, able: Indices, mixing: Mixing) -> tuple[Array, float]:
    """Weights of least cost over some sources at one target, and that cost."""
    shape = Shape.of(costs, j, able, mixing)
    if len(able) <= SOURCES and int(shape.useful()[0].sum()) <= FACES // 8:
        return shape.best()
    # A network of its own, whose sources are open for nothing and in which nobody else is served.
    chosen = np.append(able, j)
    alone = reordered(costs, chosen)
    transfer = np.full_like(alone.transfer, np.inf)
    transfer[:, -1] = alone.transfer[:, -1]
    one = LinkCosts(
        np.zeros(len(chosen)),
        transfer,
        alone.energy,
        phi=alone.phi,
        eligible=np.arange(len(chosen)) < len(able),
        labelled=alone.labelled,
        disagreement=alone.disagreement,
        kernel=alone.kernel,
        mixing_scale=alone.mixing_scale,
    )
    found = outer_approximation(
        one, mixing, None, gap=_ONE_GAP, time_limit=_ONE_SECONDS, began=time.perf_counter()
    )
    weights = found.alpha[:-1, -1]
    return weights, float(shape.convex(weights[None])[0] + shape.energy[weights > 0].sum())
