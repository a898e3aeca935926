"""Who can teach whom: sources, targets, the links between them, and the models sent (ST-LF)."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .adapt import Adapt
    from .costs import MIXINGS, LinkCosts, Mixing, NoEligibleSource
    from .coverage import solve_coverage
    from .divergences import DIVERGENCES, divergences
    from .exact import solve_exact
    from .gp import GeometricProgram, Relaxation
    from .matching import Matching, match
    from .network import Constants, Device, Network
    from .plan import LinkPlan, LinkTerms, best_alpha, check_plan, evaluate, make_plan, terms_of
    from .result import Adaptation, Divergences
    from .solve import Links, Method, links

__all__ = [
    "DIVERGENCES",
    "MIXINGS",
    "Adapt",
    "Adaptation",
    "Constants",
    "Device",
    "Divergences",
    "GeometricProgram",
    "LinkCosts",
    "LinkPlan",
    "LinkTerms",
    "Links",
    "Matching",
    "Method",
    "Mixing",
    "Network",
    "NoEligibleSource",
    "Relaxation",
    "best_alpha",
    "check_plan",
    "divergences",
    "evaluate",
    "links",
    "make_plan",
    "match",
    "solve_coverage",
    "solve_exact",
    "terms_of",
]

lazily(__name__)
