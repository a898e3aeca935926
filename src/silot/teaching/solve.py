"""The one entry to every solver of the network problem."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Unpack, get_args

from ..distances.shared_options import seed_option
from ..errors import InputError
from ..options import Options, none_or, option, taking, word
from .costs import LinkCosts
from .exact import GAP, SECONDS, solve_exact
from .gp import GeometricProgram
from .network import Network
from .plan import UNSERVED, LinkPlan
from .published import PublishedSolver

if TYPE_CHECKING:
    from ..keywords import LinkKeywords

Method = Literal["exact", "gp", "st-lf"]

# Options of the exact method alone.
_EXACT = {
    "allow_unserved": "serves every target",
    "gap": "proves no bound, so no gap can end it",
}


class Links(Options):
    """How a plan is chosen: by which solver, and what it may do."""

    name = "links"

    method: Method = option(
        '``"exact"``, or ``"gp"``: the paper\'s successive geometric programming (extra '
        '``silot[gp]``) on the problem that it prints, which proves nothing. ``"st-lf"``: as the '
        "published runs were computed (``PublishedSolver``).",
        word(*get_args(Method)),
        default="exact",
        brief="The proven optimum (exact), the paper's solver (gp), or everything as "
        "published (st-lf).",
    )
    allow_unserved: float | None = option(
        "Cost of leaving a target without a model; ``None`` does not allow it.",
        UNSERVED,
        default=None,
        code="option-unserved",
        brief="Allow targets without a model, at this cost each.",
    )
    time_limit: float = option(
        "Seconds.", none_or(SECONDS), default=60.0, brief="Most seconds of the solver."
    )
    gap: float = option(
        "Relative gap that is good enough.",
        GAP,
        default=0.0,
        brief="Relative gap to the bound that is good enough.",
    )
    seed: int = seed_option(
        'Seed of a random start with ``"gp"`` and ``"st-lf"``; the exact methods use no randomness.'
    )

    def solve(self, costs: LinkCosts, **options: Any) -> LinkPlan:
        """The plan of a network; ``options`` are those of ``GeometricProgram``."""
        if self.method == "exact":
            if options:
                raise InputError(
                    f"method='exact' has no option {sorted(options)[0]!r}.", code="option-unknown"
                )
            return solve_exact(costs, **self.values("allow_unserved", "time_limit", "gap"))
        for name, why in _EXACT.items():
            if getattr(self, name):
                raise InputError(
                    f"method={self.method!r} {why}. Use method='exact', or leave {name} out.",
                    code="gp-objective",
                )
        if self.method == "st-lf":
            return PublishedSolver.of(None, options).solve(costs)
        return GeometricProgram(**{**self.values("seed", "time_limit"), **options}).solve(costs)


@taking(Links, also=(GeometricProgram, PublishedSolver))
def links(costs: LinkCosts | Network, **options: Unpack[LinkKeywords]) -> LinkPlan:
    """Choose which devices train, which receive models, and over which links and weights.

    With ``method="gp"`` options of ``GeometricProgram`` may be given too, with ``"st-lf"`` those of
    ``PublishedSolver``.

    Parameters
    ----------
    costs : LinkCosts or Network
        Costs of a network, or a network whose costs are computed with its own options.

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
    network = costs.costs() if isinstance(costs, Network) else costs
    if not isinstance(network, LinkCosts):
        raise InputError(
            f"costs are a {type(costs).__name__}; give LinkCosts(...) or a Network.",
            code="costs-type",
        )
    own, of_solver = Links.split(options)
    return own.solve(network, **of_solver)
