"""What holders are asked of their records and of their distances to other points."""

from .distances import (
    Describe,
    DistanceTo,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    Moments,
    Records,
)
from .labelled import ClassSizes, InterpolateByClass, LabelledDistanceTo, LabelledRecords
from .parts import CostParts
from .uncertainty import DistanceWithError, LabelledDistanceWithError, OwnChance

__all__ = [
    "ClassSizes",
    "CostParts",
    "Describe",
    "DistanceTo",
    "DistanceWithError",
    "InterpolantCosts",
    "InterpolantDistance",
    "Interpolate",
    "InterpolateByClass",
    "LabelledDistanceTo",
    "LabelledDistanceWithError",
    "LabelledRecords",
    "Moments",
    "OwnChance",
    "Records",
]
