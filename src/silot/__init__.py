"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a bill, and a plain
statement of what every run disclosed.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from ._lazy import lazily

if TYPE_CHECKING:
    from . import transport
    from ._methods import METHODS
    from .adaptation import LinkCosts, Network, evaluate, links
    from .api import distance, distance_matrix, pooled_distance
    from .api_adapt import adapt
    from .api_distill import distill
    from .api_records import value_records
    from .api_sketch import sketches
    from .api_suspects import count_broken
    from .api_value import barycenter, value_holders
    from .audit import audit, audit_policy
    from .distillation import LabelSpace
    from .errors import SilotError
    from .federation import Holder, LocalFederation, Own, Policy, Teacher, Transcript
    from .learning import ModelSpec
    from .loading import load_measure
    from .measure import Measure
    from .results import (
        Adaptation,
        Audit,
        Barycenter,
        BrokenCounts,
        Contributions,
        Distance,
        DistanceMatrix,
        Distillation,
        Divergences,
        LinkPlan,
        PolicyAudit,
        RecordScores,
        Sketches,
    )

try:
    __version__ = version("silot")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0"

__all__ = [
    "METHODS",
    "Adaptation",
    "Audit",
    "Barycenter",
    "BrokenCounts",
    "Contributions",
    "Distance",
    "DistanceMatrix",
    "Distillation",
    "Divergences",
    "Holder",
    "LabelSpace",
    "LinkCosts",
    "LinkPlan",
    "LocalFederation",
    "Measure",
    "ModelSpec",
    "Network",
    "Own",
    "Policy",
    "PolicyAudit",
    "RecordScores",
    "SilotError",
    "Sketches",
    "Teacher",
    "Transcript",
    "adapt",
    "audit",
    "audit_policy",
    "barycenter",
    "count_broken",
    "distance",
    "distance_matrix",
    "distill",
    "evaluate",
    "links",
    "load_measure",
    "pooled_distance",
    "sketches",
    "transport",
    "value_holders",
    "value_records",
]

lazily(
    __name__,
    {
        "Adaptation": ".results",
        "Audit": ".results",
        "Barycenter": ".results",
        "BrokenCounts": ".results",
        "Contributions": ".results",
        "Distance": ".results",
        "DistanceMatrix": ".results",
        "Distillation": ".results",
        "Divergences": ".results",
        "Holder": ".federation",
        "LabelSpace": ".distillation",
        "LinkCosts": ".adaptation",
        "LinkPlan": ".results",
        "LocalFederation": ".federation",
        "METHODS": "._methods",
        "Measure": ".measure",
        "ModelSpec": ".learning",
        "Network": ".adaptation",
        "Own": ".federation",
        "Policy": ".federation",
        "PolicyAudit": ".results",
        "RecordScores": ".results",
        "SilotError": ".errors",
        "Sketches": ".results",
        "Teacher": ".federation",
        "Transcript": ".federation",
        "adapt": ".api_adapt",
        "audit": ".audit",
        "audit_policy": ".audit",
        "barycenter": ".api_value",
        "count_broken": ".api_suspects",
        "distance": ".api",
        "distance_matrix": ".api",
        "distill": ".api_distill",
        "evaluate": ".adaptation",
        "links": ".adaptation",
        "load_measure": ".loading",
        "pooled_distance": ".api",
        "sketches": ".api_sketch",
        "value_holders": ".api_value",
        "value_records": ".api_records",
    },
)
