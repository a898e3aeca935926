"""Who can teach whom: sources, targets, the links between them, and the models sent (ST-LF)."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .adapt import Adapt
    from .costs import LinkCosts, NoEligibleSource
    from .divergences import DIVERGENCES, divergences
    from .exact import solve_exact
    from .gp import GeometricProgram, Relaxation
    from .matching import Explained, explain_records
    from .network import Constants, Device, Network
    from .plan import LinkPlan, LinkTerms, best_alpha, check_plan, evaluate, make_plan, terms_of
    from .published import PublishedRun, PublishedSolver
    from .result import Adaptation, Divergences
    from .solve import Links, Method, links
    from .transfer import Choice, ModelScores, Target, choose_mixture, find_contrary

__all__ = [
    "DIVERGENCES",
    "Adapt",
    "Adaptation",
    "Choice",
    "Constants",
    "Device",
    "Divergences",
    "Explained",
    "GeometricProgram",
    "LinkCosts",
    "LinkPlan",
    "LinkTerms",
    "Links",
    "Method",
    "ModelScores",
    "Network",
    "NoEligibleSource",
    "PublishedRun",
    "PublishedSolver",
    "Relaxation",
    "Target",
    "best_alpha",
    "check_plan",
    "choose_mixture",
    "divergences",
    "evaluate",
    "explain_records",
    "find_contrary",
    "links",
    "make_plan",
    "solve_exact",
    "terms_of",
]

lazily(__name__)
