"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a bill, and a plain
statement of what every run disclosed.
"""

from importlib.metadata import PackageNotFoundError, version

from . import transport
from .adaptation import LinkCosts, Network, evaluate, links
from .api import (
    barycenter,
    distance,
    distance_matrix,
    pooled_distance,
    value_holders,
    value_records,
)
from .api_adapt import adapt
from .api_distill import distill
from .api_sketch import sketches
from .audit import audit, audit_policy
from .distillation import LabelSpace
from .errors import SilotError
from .federation import Holder, LocalFederation, Own, Policy, Teacher, Transcript
from .learning import ModelSpec
from .loading import load_measure
from .measure import Measure
from .protocols import METHODS
from .results import (
    Adaptation,
    Audit,
    Barycenter,
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
