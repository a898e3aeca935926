"""What devices are asked of their labels, of models, and of how much they differ."""

from .combinations import Disagreement, EvaluateCombination
from .divergences import (
    DomainErrors,
    DomainScores,
    MeanFeatures,
    ProjectedQuantiles,
    Spread,
    TrainDomain,
)
from .models import ClassFeatures, CountLabelled, FitDensity, TrainModel

__all__ = [
    "ClassFeatures",
    "CountLabelled",
    "Disagreement",
    "DomainErrors",
    "DomainScores",
    "EvaluateCombination",
    "FitDensity",
    "MeanFeatures",
    "ProjectedQuantiles",
    "Spread",
    "TrainDomain",
    "TrainModel",
]
