"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a bill, and a plain
statement of what every run disclosed.
"""

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from . import estimators, transport
    from .api._methods import METHODS
    from .api.adapt import adapt
    from .api.advice.result import Advice, Plan
    from .api.cluster import cluster
    from .api.combine import combine
    from .api.connect import connect, resume
    from .api.coreset import coreset
    from .api.distances import distance, distance_matrix, pooled_distance
    from .api.distill import Distill, distill
    from .api.plan import plan
    from .api.records import value_records
    from .api.release import release
    from .api.schema import check_schema, draft_schema
    from .api.sketch import sketches
    from .api.suspects import count_broken
    from .api.train import train
    from .api.value import barycenter, value_holders
    from .api.watch import watch
    from .audits.policy import audit_policy
    from .audits.result import Audit, PolicyAudit
    from .audits.run import audit
    from .data.drafts.result import Draft, SchemaCheck
    from .data.loading import load_measure, save_measure
    from .data.measure import Measure
    from .data.reading import Schema
    from .data.site import Site
    from .distances.result import Distance, DistanceMatrix
    from .distances.sketches.drift import Drift
    from .distances.sketches.released import ReleaseFile
    from .distances.sketches.result import Sketches
    from .distances.worth.result import Barycenter, Contributions
    from .distillation import LabelSpace
    from .distillation.result import Distillation
    from .distillation.teacher import Teacher
    from .errors import SilotError
    from .federation import Holder, LocalFederation, Own, Policy, Transcript
    from .records.counts import BrokenCounts
    from .records.result import RecordScores
    from .teaching.costs import LinkCosts
    from .teaching.federated import ModelSpec
    from .teaching.federated.clustering import Clustering
    from .teaching.federated.coreset import Coreset
    from .teaching.federated.federated_result import FederatedModels
    from .teaching.network import Network
    from .teaching.plan import LinkPlan, evaluate
    from .teaching.result import Adaptation, Divergences
    from .teaching.solve import links

try:
    __version__ = version("silot")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0"

__all__ = [
    "METHODS",
    "Adaptation",
    "Advice",
    "Audit",
    "Barycenter",
    "BrokenCounts",
    "Clustering",
    "Contributions",
    "Coreset",
    "Distance",
    "DistanceMatrix",
    "Distill",
    "Distillation",
    "Divergences",
    "Draft",
    "Drift",
    "FederatedModels",
    "Holder",
    "LabelSpace",
    "LinkCosts",
    "LinkPlan",
    "LocalFederation",
    "Measure",
    "ModelSpec",
    "Network",
    "Own",
    "Plan",
    "Policy",
    "PolicyAudit",
    "RecordScores",
    "ReleaseFile",
    "Schema",
    "SchemaCheck",
    "SilotError",
    "Site",
    "Sketches",
    "Teacher",
    "Transcript",
    "adapt",
    "audit",
    "audit_policy",
    "barycenter",
    "check_schema",
    "cluster",
    "combine",
    "connect",
    "coreset",
    "count_broken",
    "distance",
    "distance_matrix",
    "distill",
    "draft_schema",
    "estimators",
    "evaluate",
    "links",
    "load_measure",
    "plan",
    "pooled_distance",
    "release",
    "resume",
    "save_measure",
    "sketches",
    "train",
    "transport",
    "value_holders",
    "value_records",
    "watch",
]

lazily(__name__)
