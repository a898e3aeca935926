"""Who can teach whom: sources, targets, and the links between them (ST-LF)."""

from ._errors import NoEligibleSource
from .baselines import (
    average_degree_links,
    fedavg_links,
    random_links,
    random_psi,
    random_sources,
    single_matching,
    uniform_links,
)
from .costs import MIXINGS, LinkCosts, Mixing
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
    "average_degree_links",
    "best_alpha",
    "check_plan",
    "evaluate",
    "fedavg_links",
    "links",
    "make_plan",
    "match",
    "random_links",
    "random_psi",
    "random_sources",
    "relax_gp",
    "single_matching",
    "solve_coverage",
    "solve_exact",
    "solve_gp",
    "terms_of",
    "uniform_links",
]
