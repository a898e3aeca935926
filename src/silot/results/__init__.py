"""Results: values with bounds, a status, a bill and a statement of what was disclosed."""

from ..render.words import format_bytes
from ._run import Bill, Billed, Run
from .adaptation import Adaptation
from .audit import Attack, Audit
from .contents import Contents, OddColumn, Suspect, records_csv
from .distances import Distance, DistanceMatrix
from .distillation import Distillation, Predictions
from .divergences import Divergences
from .links import LinkPlan, LinkTerms
from .parts import ClassPart, Parts
from .policies import PolicyAudit, Strategy
from .records import Estimate, RecordScores, Screening
from .sketches import Sketches
from .suspects import BrokenCounts, Suspects
from .valuation import Barycenter, Contribution, Contributions

__all__ = [
    "Adaptation",
    "Attack",
    "Audit",
    "Barycenter",
    "Bill",
    "Billed",
    "BrokenCounts",
    "ClassPart",
    "Contents",
    "Contribution",
    "Contributions",
    "Distance",
    "DistanceMatrix",
    "Distillation",
    "Divergences",
    "Estimate",
    "LinkPlan",
    "LinkTerms",
    "OddColumn",
    "Parts",
    "PolicyAudit",
    "Predictions",
    "RecordScores",
    "Run",
    "Screening",
    "Sketches",
    "Strategy",
    "Suspect",
    "Suspects",
    "format_bytes",
    "records_csv",
]
