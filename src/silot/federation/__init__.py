"""Holders, the questions they answer, and the runtimes that carry questions to them."""

from .answer import Answer, Failure
from .combinations import Disagreement, EvaluateCombination
from .disclosure import Disclosure
from .distances import (
    Describe,
    DistanceTo,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    Moments,
    Records,
)
from .divergences import (
    DomainErrors,
    DomainScores,
    MeanFeatures,
    ProjectedQuantiles,
    Spread,
    TrainDomain,
)
from .hypotheses import ClassFeatures, CountLabelled, FitDensity, TrainModel
from .labelled import (
    ClassSizes,
    InterpolateByClass,
    LabelledDistanceTo,
    LabelledRecords,
)
from .local import LocalFederation, Progress
from .parting import CostParts
from .party import Holder, Own
from .policy import Policy
from .predictions import DescribeTeacher, Predict, PredictNoise, ReleasePredictions
from .protocol import Protocol
from .question import Question
from .screening import ScoreRecords, ScreenRecords
from .sketching import CountRecords, SketchRecords, SketchTree
from .suspects import CountSuspects
from .teacher import Teacher
from .transcript import Entry, Transcript
from .uncertainty import DistanceWithError, LabelledDistanceWithError

__all__ = [
    "Answer",
    "ClassFeatures",
    "ClassSizes",
    "CostParts",
    "CountLabelled",
    "CountRecords",
    "CountSuspects",
    "Describe",
    "DescribeTeacher",
    "Disagreement",
    "Disclosure",
    "DistanceTo",
    "DistanceWithError",
    "DomainErrors",
    "DomainScores",
    "Entry",
    "EvaluateCombination",
    "Failure",
    "FitDensity",
    "Holder",
    "InterpolantCosts",
    "InterpolantDistance",
    "Interpolate",
    "InterpolateByClass",
    "LabelledDistanceTo",
    "LabelledDistanceWithError",
    "LabelledRecords",
    "LocalFederation",
    "MeanFeatures",
    "Moments",
    "Own",
    "Policy",
    "Predict",
    "PredictNoise",
    "Progress",
    "ProjectedQuantiles",
    "Protocol",
    "Question",
    "Records",
    "ReleasePredictions",
    "ScoreRecords",
    "ScreenRecords",
    "SketchRecords",
    "SketchTree",
    "Spread",
    "Teacher",
    "TrainDomain",
    "TrainModel",
    "Transcript",
]
