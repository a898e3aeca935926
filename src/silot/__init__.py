"""Optimal transport across data silos.

Distances between datasets that may not be pooled, with certified bounds, a bill, and a plain
statement of what every run disclosed.
"""

from importlib.metadata import PackageNotFoundError, version

from . import transport
from .api import distance, distance_matrix, pooled_distance
from .errors import SilotError
from .federation import Holder, LocalFederation, Own, Policy, Transcript
from .loading import load_measure
from .measure import Measure
from .protocols import METHODS
from .results import Distance, DistanceMatrix

try:
    __version__ = version("silot")
except PackageNotFoundError:  # a source tree that was not installed
    __version__ = "0"

__all__ = [
    "METHODS",
    "Distance",
    "DistanceMatrix",
    "Holder",
    "LocalFederation",
    "Measure",
    "Own",
    "Policy",
    "SilotError",
    "Transcript",
    "distance",
    "distance_matrix",
    "load_measure",
    "pooled_distance",
    "transport",
]
