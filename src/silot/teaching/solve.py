"""The one entry to every solver of the network problem."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal, get_args

from ..errors import InputError
from .costs import LinkCosts, Mixing
from .exact import solve_exact
from .network import Network
from .plan import LinkPlan

Method = Literal["exact", "gp", "st-lf"]

# The paper's published code: its energy term, and the weights of the relaxed point as they are.
_PUBLISHED: dict[str, Any] = {"energy": "linear", "rounding": "paper"}


def links(
    costs: LinkCosts | Network,
    *,
    method: Method = "exact",
    mixing: Mixing = "none",
    allow_unserved: float | None = None,
    time_limit: float = 60.0,
    gap: float = 0.0,
    seed: int = 0,
    **options: Any,
) -> LinkPlan:
    """Which devices train, which receive, and over which links with which weights.

    Parameters
    ----------
    costs
        Costs of a network, or a network whose costs are computed with its own options.
    method
        ``"exact"``, or ``"gp"``: the paper's successive geometric programming (extra
        ``silot[gp]``), which proves nothing. ``"st-lf"``: the same as the published code runs
        it, with ``energy="linear"`` and ``rounding="paper"``.
    mixing
        What mixing sources adds to a target's cost: ``"none"`` (as published; one source is
        best for each target), ``"variance"``, ``"ambiguity"`` or ``"mmd"``.
    allow_unserved
        Cost of leaving a target without a model; ``None`` does not allow it.
    time_limit
        Seconds.
    gap
        Relative gap that is good enough.
    seed
        Of ``"gp"`` and ``"st-lf"`` with a random start; the exact methods draw nothing.
    **options
        Further options of ``solve_gp``.

    Returns
    -------
    LinkPlan

    Raises
    ------
    NoEligibleSource
        No device may be a source.
    InputError
        Options out of range, a target that nobody can reach.
    ExtraError
        ``method="gp"`` or ``"st-lf"`` without the extra.

    Examples
    --------
    >>> plan = links(LinkCosts([1, 9], [[0, 2], [2, 0]], [[0, 3], [3, 0]], phi=(1, 2, 1)))
    >>> plan.sources, plan.objective
    (('0',), 8.0)
    """
    known = costs.costs() if isinstance(costs, Network) else costs
    if not isinstance(known, LinkCosts):
        raise InputError(
            f"costs are a {type(costs).__name__}; give LinkCosts(...) or a Network.",
            code="costs-type",
        )
    if method == "exact":
        if options:
            raise InputError(
                f"method='exact' has no option {sorted(options)[0]!r}.", code="option-unknown"
            )
        return solve_exact(
            known, mixing=mixing, allow_unserved=allow_unserved, time_limit=time_limit, gap=gap
        )
    if method not in get_args(Method):
        raise InputError(
            f"method is {method!r}; give one of {', '.join(get_args(Method))}.",
            code="option-method",
        )
    if mixing != "none" or allow_unserved is not None:
        raise InputError(
            f"method={method!r} solves the published objective only: mixing='none', and every "
            "target is served. Use method='exact'.",
            code="gp-objective",
        )
    if gap:
        raise InputError(
            f"method={method!r} proves no bound, so no gap can end it. Leave gap out, or use "
            "method='exact'.",
            code="gp-objective",
        )
    from .gp import solve_gp

    fixed = _PUBLISHED if method == "st-lf" else {}
    plan = solve_gp(known, seed=seed, time_limit=time_limit, **{**fixed, **options})
    return replace(plan, method=method)
