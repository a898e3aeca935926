"""Results: values with bounds, a status, a bill and a statement of what was disclosed."""

from ._run import Bill, Billed, Run, format_bytes
from .audit import Attack, Audit
from .distances import Distance, DistanceMatrix
from .sketches import Sketches
from .valuation import Barycenter, Contribution, Contributions, RecordScores, Viewpoint

__all__ = [
    "Attack",
    "Audit",
    "Barycenter",
    "Bill",
    "Billed",
    "Contribution",
    "Contributions",
    "Distance",
    "DistanceMatrix",
    "RecordScores",
    "Run",
    "Sketches",
    "Viewpoint",
    "format_bytes",
]
