"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a cost, and a plain
statement of what every run disclosed. What most programs need is here; the packages below have the
rest, results among it: ``silot.distances.Distance``, ``silot.federation.Holder``.
"""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    # Packages that are imported when they are used.
    from . import (
        api,
        audits,
        data,
        distances,
        distillation,
        errors,
        estimators,
        federation,
        privacy,
        records,
        teaching,
        transport,
    )
    from ._version import __version__
    from .api.adapt import adapt
    from .api.cluster import cluster
    from .api.combine import combine, watch
    from .api.compare import compare
    from .api.connect import connect, resume
    from .api.coreset import coreset
    from .api.distances import distance, distance_matrix, pooled_distance
    from .api.distill import distill
    from .api.records import count_broken, value_records
    from .api.release import release
    from .api.schema import check_schema, draft_schema
    from .api.train import train
    from .api.value import barycenter, value_holders
    from .audits.run import audit
    from .data.loading import load_measure
    from .data.measure import Measure
    from .data.reading import Schema
    from .federation.policy import Policy

__all__ = [
    "Measure",
    "Policy",
    "Schema",
    "adapt",
    "audit",
    "barycenter",
    "check_schema",
    "cluster",
    "combine",
    "compare",
    "connect",
    "coreset",
    "count_broken",
    "distance",
    "distance_matrix",
    "distill",
    "draft_schema",
    "load_measure",
    "pooled_distance",
    "release",
    "resume",
    "train",
    "value_holders",
    "value_records",
    "watch",
]

lazily(__name__)
