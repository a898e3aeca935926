"""The distance methods whose questions holders answer, by name."""

from __future__ import annotations

from ._pairwise import METHODS, Pairwise, method_named
from .direct import Direct
from .fedwad import FedWaD
from .sketch import Sketch
from .trianglewad import TriangleWad

__all__ = ["METHODS", "Direct", "FedWaD", "Pairwise", "Sketch", "TriangleWad", "method_named"]
