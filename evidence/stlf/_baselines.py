"""Plans the paper compares with: weights and roles chosen without solving anything.

All are valid plans with their exact objective; none proves anything, so ``lower_bound`` is
``-inf``. Draws are made in the order of the devices' names, so listing devices otherwise does not
change them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from silot.errors import InputError
from silot.teaching.costs import Array, Flags, Indices, LinkCosts, NoEligibleSource
from silot.teaching.plan import Kinds, LinkPlan, checked_roles, make_plan, unreachable

_STATUS = "a baseline: it proves nothing about how good it is"


def random_links(psi: npt.ArrayLike, costs: LinkCosts, rng: np.random.Generator) -> LinkPlan:
    """Random weights over all sources: "Random-alpha"."""
    return _weighted(psi, costs, lambda reach: rng.dirichlet(np.ones(len(reach))), "random-alpha")


def fedavg_links(
    psi: npt.ArrayLike, costs: LinkCosts, labelled: Sequence[float] | Array
) -> LinkPlan:
    """Every source to every target, in proportion to labelled records: "FedAvg"."""
    records = np.asarray(labelled, dtype=np.float64)
    return _weighted(psi, costs, lambda reach: records[reach], "fedavg")


def uniform_links(psi: npt.ArrayLike, costs: LinkCosts) -> LinkPlan:
    """Every source to every target with equal weights.

    This is what "FADA" of the paper's tables amounts to: its published code averages uniformly.
    FADA itself (Peng et al., 2020) learns weights from features; nothing of that is here.
    """
    return _weighted(psi, costs, lambda reach: np.ones(len(reach)), "uniform")


def average_degree_links(
    psi: npt.ArrayLike, costs: LinkCosts, plan: LinkPlan, rng: np.random.Generator
) -> LinkPlan:
    """As many links a source as a plan has on average, drawn at random: "Average degree"."""
    if not plan.sources:
        raise InputError("the plan has no source to take an average over.", code="plan-psi")
    kinds, reach = _reach(psi, costs)
    degree = max(1, round(len(plan.links) / len(plan.sources)))
    linked = np.zeros_like(reach)
    targets = _by_name(costs, kinds == 1)
    for j in rng.permutation(targets):
        able = _by_name(costs, reach[:, j])
        free = able[linked[able].sum(axis=1) < degree]
        linked[rng.choice(free if len(free) else able), j] = True
    for i in rng.permutation(_by_name(costs, kinds == 0)):
        left = _by_name(costs, reach[i] & ~linked[i])
        count = min(max(degree - int(linked[i].sum()), 0), len(left))
        linked[i, rng.choice(left, size=count, replace=False)] = True
    alpha = np.zeros((costs.size, costs.size))
    for j in targets:
        chosen = _by_name(costs, linked[:, j])
        alpha[chosen, j] = rng.dirichlet(np.ones(len(chosen)))
    return make_plan(kinds, alpha, costs, method="average-degree", status=_STATUS)


def random_sources(costs: LinkCosts, rng: np.random.Generator) -> Kinds:
    """Roles at random: each device that may be a source is one with probability 1/2."""
    may = _by_name(costs, costs.eligible)
    if len(may) == 0:
        raise NoEligibleSource("no device may be a source.", code="no-eligible-source")
    open_links = np.isfinite(costs.links)
    kinds = np.ones(costs.size, dtype=np.int64)
    for _ in range(1000):
        kinds[may] = rng.integers(0, 2, size=len(may))
        if (kinds == 0).any() and open_links[kinds == 0][:, kinds == 1].any(axis=0).all():
            return kinds
    kinds[may] = 0
    _reach(kinds, costs)
    return kinds


def random_psi(costs: LinkCosts, rng: np.random.Generator) -> LinkPlan:
    """Random roles with random weights: "Random-psi"."""
    psi = random_sources(costs, rng)
    return _weighted(psi, costs, lambda reach: rng.dirichlet(np.ones(len(reach))), "random-psi")


def single_matching(costs: LinkCosts, rng: np.random.Generator) -> LinkPlan:
    """Each target gets one source, drawn at random and spread evenly: "Single matching"."""
    kinds = np.where(costs.eligible, 0, 1).astype(np.int64)
    if (kinds == 0).all() or not costs.eligible.any():
        kinds = random_sources(costs, rng)
    kinds, reach = _reach(kinds, costs)
    sources, targets = _by_name(costs, kinds == 0), _by_name(costs, kinds == 1)
    barred = ~reach[np.ix_(sources, targets)]
    uses = max(1, -(-len(targets) // len(sources)))
    alpha = np.zeros((costs.size, costs.size))
    drawn = np.where(barred, np.inf, rng.random(barred.shape))
    while len(targets):
        # A further use of a source is dearer than all first uses together.
        draws = np.vstack([drawn + use * (len(targets) + 1) for use in range(uses)])
        try:
            rows, columns = linear_sum_assignment(draws)
        except ValueError:  # bars leave a target out: let sources be used once more
            uses += 1
            continue
        alpha[sources[rows % len(sources)], targets[columns]] = 1.0
        break
    return make_plan(kinds, alpha, costs, method="single-matching", status=_STATUS)


def _weighted(
    psi: npt.ArrayLike, costs: LinkCosts, weights: Callable[[Indices], Array], method: str
) -> LinkPlan:
    kinds, reach = _reach(psi, costs)
    alpha = np.zeros((costs.size, costs.size))
    for j in _by_name(costs, kinds == 1):
        able = _by_name(costs, reach[:, j])
        drawn = weights(able)
        alpha[able, j] = drawn / drawn.sum()
    return make_plan(kinds, alpha, costs, method=method, status=_STATUS)


def _reach(psi: npt.ArrayLike, costs: LinkCosts) -> tuple[Kinds, Flags]:
    """Roles, and which sources have a link to which targets that is not barred."""
    kinds = checked_roles(psi, costs)
    reach = np.isfinite(costs.links) & (kinds == 0)[:, None] & (kinds == 1)
    if not (kinds == 0).any():
        raise NoEligibleSource("psi has no source.", code="no-eligible-source")
    alone = (kinds == 1) & ~reach.any(axis=0)
    if alone.any():
        raise unreachable(costs.names[int(np.argmax(alone))])
    return kinds, reach


def _by_name(costs: LinkCosts, which: Flags) -> Indices:
    """Indices of some devices, in the order of their names."""
    return np.array(sorted(np.flatnonzero(which), key=lambda i: costs.names[i]), dtype=np.intp)
