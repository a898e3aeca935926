"""Holders, the questions they answer, and the runtimes that carry questions to them."""

from .answer import Answer, Failure
from .disclosure import Disclosure
from .holder import Holder, Own
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
from .transcript import Entry, Transcript

__all__ = [
    "Answer",
    "Describe",
    "Disclosure",
    "DistanceTo",
    "Entry",
    "Failure",
    "Holder",
    "InterpolantCosts",
    "InterpolantDistance",
    "Interpolate",
    "LocalFederation",
    "Moments",
    "Own",
    "Policy",
    "Progress",
    "Protocol",
    "Question",
    "Records",
    "Transcript",
]
