"""Link plans: what they hold and cost, whether they are valid, and best links of given sources."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..data.reported import Reported
from ..distances.result import fields_by_name
from ..errors import InputError, MismatchError
from ..federation.result import plain
from ..options import Check, none_or, number
from .costs import Array, LinkCosts, NoEligibleSource, canonical_order


@dataclass(frozen=True)
class LinkTerms:
    """The parts of a plan's objective, each already multiplied by its scale; they sum to it."""

    source: float
    r""":math:`\phi_S \sum_i (1 - \psi_i) S_i`."""
    transfer: float
    r""":math:`\phi_T \sum_{ij} \alpha_{ij} T_{ij}`."""
    energy: float
    r""":math:`\phi_E \sum_{ij} K_{ij} [\alpha_{ij} > 0]`."""
    averaging: float = 0.0
    """What averaging models saves, 0 or less; of transfer alone."""
    unserved: float = 0.0
    """Cost of the targets that nobody serves."""

    @property
    def total(self) -> float:
        """The objective."""
        return self.source + self.transfer + self.energy + self.averaging + self.unserved


@dataclass(frozen=True, kw_only=True, eq=False)
class LinkPlan(Reported):
    """Hold which devices train, which receive models, and over which links and weights.

    Attributes
    ----------
    names
        Devices, in the order of all arrays.
    psi
        Shape (N,): 0 for a device that uses its own model alone, 1 for a target.
    alpha
        Shape (N, N): ``alpha[i, j]`` is the weight of source i's model at target j. Columns of
        served targets sum to 1, all others are 0. By the paper's objective only devices with
        ``psi`` 0 send; by transfer targets may, and use their own model beside others.
    objective, terms
        The exact objective, and its parts.
    lower_bound
        No plan can have a smaller objective. ``-inf`` when the method proves nothing.
    gap
        ``(objective - lower_bound) / max(1, abs(objective))``.
    status
        In words: proven optimal, or what stopped it and what to change.
    optimal
        Whether the gap is within the tolerance that was requested.
    seconds
        Time of the solver.
    method
        What was solved: the paper's objective, or ``"transfer"``.
    energy
        Energy of all links together, in the units of ``LinkCosts.energy`` (joule from
        ``Network.costs``), not multiplied by any scale.
    unserved
        Targets that nobody serves (only with ``allow_unserved``).
    history
        Of an iterative method: one entry an iteration, by name.
    details
        Of a method: numbers about how it got there.
    """

    view: ClassVar = "view:links"

    names: tuple[str, ...]
    psi: npt.NDArray[np.int64]
    alpha: Array
    objective: float
    terms: LinkTerms
    lower_bound: float
    gap: float
    status: str
    optimal: bool
    seconds: float
    method: str
    energy: float = 0.0
    unserved: tuple[str, ...] = ()
    history: tuple[Mapping[str, float], ...] = ()
    details: Mapping[str, float] = field(default_factory=dict[str, float])

    @property
    def sources(self) -> tuple[str, ...]:
        """Names of the devices that train: those with their own model alone, and all that send."""
        sends = (self.sent > 0).any(axis=1) | (self.psi == 0)
        return tuple(name for name, is_source in zip(self.names, sends, strict=True) if is_source)

    @property
    def targets(self) -> tuple[str, ...]:
        """Names of the devices that receive."""
        return tuple(name for name, kind in zip(self.names, self.psi, strict=True) if kind == 1)

    @property
    def sent(self) -> Array:
        """Shape (N, N): ``alpha`` without the weights of devices' own models."""
        return self.alpha * (1.0 - np.eye(len(self.names)))

    @property
    def links(self) -> tuple[tuple[str, str, float], ...]:
        """Every link as (source, target, weight)."""
        rows, columns = np.nonzero(self.sent)
        return tuple(
            (self.names[i], self.names[j], float(self.alpha[i, j]))
            for i, j in zip(rows.tolist(), columns.tolist(), strict=True)
        )

    @property
    def value(self) -> float:
        """The objective."""
        return self.objective

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        keys = ("source", "target", "weight")
        return {
            **fields_by_name(self, *(item.name for item in fields(self)), "sources", "targets"),
            "links": [dict(zip(keys, link, strict=True)) for link in self.links],
            "terms": plain(vars(self.terms)),
        }


Kinds = npt.NDArray[np.int64]
# What weights may be off by, and the gap of a plan that is called optimal.
TOLERANCE = 1e-9
UNSERVED = Check(none_or(number(least=0)).of, float, "float, 0 or more, or None", 0)
"""What the cost of a target without a model must be."""


def terms_of(
    psi: npt.ArrayLike, alpha: npt.ArrayLike, costs: LinkCosts, unserved_cost: float | None = None
) -> LinkTerms:
    r"""Compute the parts of the exact objective of a plan.

    .. math::

        \phi_S \sum_i (1 - \psi_i) S_i
        + \phi_T \sum_{ij} \alpha_{ij} T_{ij}
        + \phi_E \sum_{ij} K_{ij} [\alpha_{ij} > 0] + u \cdot \#\text{unserved}

    A link costs its energy as soon as its weight is positive, however small. ``unserved_cost`` is
    u, ``None`` when every target must have a model.
    """
    check_plan(psi, alpha, costs, unserved=unserved_cost is not None)
    kinds, weights = np.asarray(psi), np.asarray(alpha, dtype=np.float64)
    active = weights > 0
    source, transfer, energy = costs.phi
    unserved = int(np.sum(kinds == 1) - np.sum(weights.sum(axis=0) > 0.5))
    return LinkTerms(
        source=source * float(costs.source[kinds == 0].sum()),
        transfer=transfer * float(weights[active] @ costs.transfer[active]),
        energy=energy * float(costs.energy[active].sum()),
        unserved=unserved * unserved_cost if unserved_cost is not None else 0.0,
    )


def evaluate(plan: LinkPlan, costs: LinkCosts) -> float:
    """The exact objective of a plan, computed again from its ``psi`` and ``alpha``.

    Targets without a model cost ``plan.details["unserved_cost"]`` each.

    Parameters
    ----------
    plan
        Of any method.
    costs
        The network it is a plan for, with the data of its objective.

    Raises
    ------
    InputError, MismatchError
        A plan that breaks a constraint by more than 1e-9, or lists other devices; costs without
        the data of the plan's objective.

    Examples
    --------
    >>> from silot.teaching import solve_exact
    >>> costs = LinkCosts([1, 9], [[0, 2], [2, 0]], [[0, 3], [3, 0]])
    >>> plan = solve_exact(costs)
    >>> plan.sources, evaluate(plan, costs) == plan.objective
    (('0', '1'), True)
    """
    if not isinstance(plan, LinkPlan) or not isinstance(costs, LinkCosts):
        raise InputError(
            f"a {type(plan).__name__} and a {type(costs).__name__} were given; a LinkPlan and "
            "its LinkCosts are needed.",
            code="plan-type",
        )
    if plan.names != costs.names:
        raise MismatchError(
            "the plan and the costs do not list the same devices in the same order.",
            code="plan-devices",
        )
    if plan.method == "transfer":
        own = float(np.where(plan.psi == 0, 1.0, np.diag(plan.alpha)) @ costs.source)
        links = plan.alpha * (1.0 - np.eye(costs.size))
        # What averaging saves was measured at the devices, and is no cost of a link.
        return own + float(links[links > 0] @ costs.transfer[links > 0]) + plan.terms.averaging
    return terms_of(plan.psi, plan.alpha, costs, plan.details.get("unserved_cost")).total


def check_plan(
    psi: npt.ArrayLike, alpha: npt.ArrayLike, costs: LinkCosts, *, unserved: bool = False
) -> None:
    """Refuse what is not a plan: constraints must hold to 1e-9.

    Each target's weights sum to 1 over sources only, sources receive nothing, no device that may
    not be a source is one, and no barred link has weight. With ``unserved`` a target's weights may
    all be 0.
    """
    n = costs.size
    kinds, weights = np.asarray(psi), np.asarray(alpha, dtype=np.float64)
    if kinds.shape != (n,) or weights.shape != (n, n):
        raise MismatchError(
            f"psi has shape {kinds.shape} and alpha {weights.shape}; {(n,)} and {(n, n)} are "
            "needed.",
            code="plan-shape",
        )
    if not np.isin(kinds, (0, 1)).all():
        raise InputError("psi has an entry that is neither 0 nor 1.", code="plan-psi")
    if not np.isfinite(weights).all() or (weights < -TOLERANCE).any():
        raise InputError("a weight is negative or not finite.", code="plan-weights")
    target = kinds == 1
    for name, broken in (
        ("is a source and may not be one", ~target & ~costs.eligible),
        ("is a target and sends a model", target & (weights > TOLERANCE).any(axis=1)),
        ("is a source and receives a model", ~target & (weights > TOLERANCE).any(axis=0)),
        (
            "receives a model over a forbidden link",
            (np.isinf(costs.links) & (weights > 0)).any(axis=0),
        ),
    ):
        if broken.any():
            device = costs.names[int(np.argmax(broken))]
            raise InputError(f"device {device!r} {name}.", code="plan-constraint")
    sums = weights.sum(axis=0)
    wrong = target & (np.abs(sums - 1.0) > TOLERANCE)
    if unserved:
        wrong &= (weights != 0).any(axis=0)
    if wrong.any():
        j = int(np.argmax(wrong))
        raise InputError(
            f"the weights at target {costs.names[j]!r} sum to {sums[j]:.12g}, not 1.",
            code="plan-weights",
        )


def best_alpha(
    psi: npt.ArrayLike, costs: LinkCosts, *, allow_unserved: float | None = None
) -> Array:
    """Compute optimal weights (N, N) for given sources: every target decides alone.

    A target takes its cheapest source, weight 1: its cost is linear in its weights and a link's
    energy does not shrink with its weight, so a vertex is optimal. Among equally cheap sources it
    takes the one that comes first by cost of training, then by costs of links, then by name. It
    stays without a model where ``allow_unserved`` is less.
    """
    price, kinds = allow_unserved, checked_roles(psi, costs)
    sources, targets = np.flatnonzero(kinds == 0), np.flatnonzero(kinds == 1)
    if not costs.eligible[sources].all():
        device = costs.names[sources[np.argmin(costs.eligible[sources])]]
        raise InputError(f"device {device!r} may not be a source.", code="plan-constraint")
    if len(sources) == 0 and price is None:
        raise NoEligibleSource("psi has no source.", code="no-eligible-source")
    order = canonical_order(costs)
    ranked = order[np.isin(order, sources)]
    links = costs.links[np.ix_(ranked, targets)]
    cheapest = links.min(axis=0, initial=np.inf)
    if price is None and np.isinf(cheapest).any():
        raise unreachable(costs.names[targets[np.argmax(np.isinf(cheapest))]])
    limit = np.inf if price is None else price
    alpha = np.zeros((costs.size, costs.size))
    served = cheapest <= limit
    chosen = ranked[np.argmin(links[:, served], axis=0)] if served.any() else ranked[:0]
    alpha[chosen, targets[served]] = 1.0
    return alpha


def checked_roles(psi: npt.ArrayLike, costs: LinkCosts) -> Kinds:
    """Return the roles of the devices, or raise unless there is 0 or 1 for each."""
    kinds = np.asarray(psi)
    if kinds.shape != (costs.size,) or not np.isin(kinds, (0, 1)).all():
        raise MismatchError(
            f"psi has shape {kinds.shape}; {costs.size} entries of 0 or 1 are needed.",
            code="plan-shape",
        )
    return kinds.astype(np.int64)


def unreachable(name: str) -> InputError:
    """Return the error of a target that nobody can serve."""
    return InputError(
        f"device {name!r} has to be a target, but no source has an allowed link to it. "
        "Allow a link, give it labels, or pass allow_unserved.",
        code="target-unreachable",
    )


def make_plan(
    psi: npt.ArrayLike,
    alpha: npt.ArrayLike,
    costs: LinkCosts,
    *,
    method: str,
    status: str,
    lower_bound: float = -np.inf,
    tolerance: float = TOLERANCE,
    seconds: float = 0.0,
    history: tuple[Mapping[str, float], ...] = (),
    details: Mapping[str, float] | None = None,
    allow_unserved: float | None = None,
) -> LinkPlan:
    """Check a plan and compute its exact terms; weights below 1e-9 are dropped.

    ``lower_bound`` is what the method proved; it is moved down to the objective where rounding put
    it above. ``tolerance`` is the largest gap of an optimal plan.
    """
    kinds = np.array(psi, dtype=np.int64)
    weights = np.array(alpha, dtype=np.float64)
    weights[np.abs(weights) < TOLERANCE] = 0.0
    sums = weights.sum(axis=0)
    # Restore only what dropping small weights took away: a wrong sum must stay wrong.
    near = np.abs(sums - 1.0) < costs.size * 10 * TOLERANCE
    weights[:, near] /= sums[near]
    terms = terms_of(kinds, weights, costs, allow_unserved)
    bound = min(lower_bound, terms.total)
    gap = (terms.total - bound) / max(1.0, abs(terms.total))
    unserved = (kinds == 1) & (weights.sum(axis=0) < 0.5)
    numbers = dict(details or {})
    if allow_unserved is not None:
        numbers["unserved_cost"] = float(allow_unserved)
    return LinkPlan(
        names=costs.names,
        psi=kinds,
        alpha=weights,
        objective=terms.total,
        terms=terms,
        lower_bound=bound,
        gap=gap,
        status=status,
        optimal=bool(gap <= tolerance),
        seconds=seconds,
        method=method,
        energy=float(costs.energy[weights > 0].sum()),
        unserved=tuple(costs.names[j] for j in np.flatnonzero(unserved)),
        history=history,
        details=numbers,
    )
