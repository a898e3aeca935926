"""Holders, the questions they answer, and the runtimes that carry questions to them."""

from .answer import Answer, Failure
from .disclosure import Disclosure
from .holder import Holder, Own
from .labelled import (
    ClassSizes,
    InterpolateByClass,
    InterpolateRecords,
    LabelledDistanceTo,
    LabelledRecords,
    ScoreRecords,
)
from .local import LocalFederation, Progress
from .policy import Policy
from .protocol import Protocol
from .question import (
    Describe,
    DistanceTo,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    Moments,
    Question,
    Records,
)
from .sketching import CountRecords, SketchRecords, SketchTree
from .transcript import Entry, Transcript

__all__ = [
    "Answer",
    "ClassSizes",
    "CountRecords",
    "Describe",
    "Disclosure",
    "DistanceTo",
    "Entry",
    "Failure",
    "Holder",
    "InterpolantCosts",
    "InterpolantDistance",
    "Interpolate",
    "InterpolateByClass",
    "InterpolateRecords",
    "LabelledDistanceTo",
    "LabelledRecords",
    "LocalFederation",
    "Moments",
    "Own",
    "Policy",
    "Progress",
    "Protocol",
    "Question",
    "Records",
    "ScoreRecords",
    "SketchRecords",
    "SketchTree",
    "Transcript",
]
