"""Who can teach whom: sources, targets, and the links between them (ST-LF)."""

from .costs import MIXINGS, LinkCosts, Mixing, NoEligibleSource
from .coverage import solve_coverage
from .evaluate import best_alpha, check_plan, evaluate, make_plan, terms_of
from .exact import solve_exact
from .gp import Relaxation, relax_gp, solve_gp
from .matching import Matching, match
from .network import Constants, Device, Network
from .solve import Method, links

__all__ = [
    "MIXINGS",
    "Constants",
    "Device",
    "LinkCosts",
    "Matching",
    "Method",
    "Mixing",
    "Network",
    "NoEligibleSource",
    "Relaxation",
    "best_alpha",
    "check_plan",
    "evaluate",
    "links",
    "make_plan",
    "match",
    "relax_gp",
    "solve_coverage",
    "solve_exact",
    "solve_gp",
    "terms_of",
]
