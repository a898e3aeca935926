"""Who can teach whom: sources, targets, the links between them, and the models sent (ST-LF)."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .adapt import Adapt
    from .costs import LinkCosts, NoEligibleSource
    from .divergences import DIVERGENCES, divergences
    from .exact import links, solve_exact
    from .federated.clustering import Clustering
    from .federated.coreset import Coreset
    from .federated.federated_result import FederatedModels
    from .gp import GeometricProgram, Relaxation
    from .network import Device, Network
    from .plan import LinkPlan, LinkTerms, evaluate
    from .published import PublishedRun, PublishedSolver
    from .result import Adaptation, Divergences

__all__ = [
    "DIVERGENCES",
    "Adapt",
    "Adaptation",
    "Clustering",
    "Coreset",
    "Device",
    "Divergences",
    "FederatedModels",
    "GeometricProgram",
    "LinkCosts",
    "LinkPlan",
    "LinkTerms",
    "Network",
    "NoEligibleSource",
    "PublishedRun",
    "PublishedSolver",
    "Relaxation",
    "divergences",
    "evaluate",
    "links",
    "solve_exact",
]

lazily(__name__)
