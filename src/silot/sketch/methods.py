"""The distance methods whose questions holders answer, by name."""

from __future__ import annotations

from ..distances.direct import Direct
from ..distances.fedwad import FedWaD
from ..distances.pairwise import METHODS, Pairwise, method_named
from ..distances.trianglewad import TriangleWad
from .sketch import Sketch

__all__ = ["METHODS", "Direct", "FedWaD", "Pairwise", "Sketch", "TriangleWad", "method_named"]
