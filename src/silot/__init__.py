"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a bill, and a plain
statement of what every run disclosed.
"""

from importlib.metadata import PackageNotFoundError, version

from . import transport
from .api import (
    barycenter,
    distance,
    distance_matrix,
    pooled_distance,
    value_holders,
    value_records,
)
from .api_sketch import sketches
from .audit import audit
from .errors import SilotError
from .federation import Holder, LocalFederation, Own, Policy, Transcript
from .loading import load_measure
from .measure import Measure
from .protocols import METHODS
from .results import (
    Audit,
    Barycenter,
    Contributions,
    Distance,
    DistanceMatrix,
    RecordScores,
    Sketches,
)

try:
    __version__ = version("silot")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0"

__all__ = [
    "METHODS",
    "Audit",
    "Barycenter",
    "Contributions",
    "Distance",
    "DistanceMatrix",
    "Holder",
    "LocalFederation",
    "Measure",
    "Own",
    "Policy",
    "RecordScores",
    "SilotError",
    "Sketches",
    "Transcript",
    "audit",
    "barycenter",
    "distance",
    "distance_matrix",
    "load_measure",
    "pooled_distance",
    "sketches",
    "transport",
    "value_holders",
    "value_records",
]
