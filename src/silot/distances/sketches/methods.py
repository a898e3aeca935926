"""The distance methods whose questions holders answer, by name."""

from __future__ import annotations

from ..direct import Direct
from ..fedwad import FedWaD
from ..pairwise import METHODS, Pairwise, method_named
from ..trianglewad import TriangleWad
from .sketch import Sketch

__all__ = ["METHODS", "Direct", "FedWaD", "Pairwise", "Sketch", "TriangleWad", "method_named"]
