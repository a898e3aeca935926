"""What devices are asked of their labels, of models, and of how much they differ."""

from .combinations import Disagreement, EvaluateCombination
from .divergences import (
    DomainErrors,
    DomainScores,
    MeanFeatures,
    ProjectedQuantiles,
    TrainDomain,
)
from .models import ClassFeatures, FitDensity

__all__ = [
    "ClassFeatures",
    "Disagreement",
    "DomainErrors",
    "DomainScores",
    "EvaluateCombination",
    "FitDensity",
    "MeanFeatures",
    "ProjectedQuantiles",
    "TrainDomain",
]
