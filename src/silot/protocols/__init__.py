"""Protocols: what is asked of whom, and what the answers prove. One file each."""

from .adapt import adapt
from .contributions import contributions
from .direct import direct
from .distill import distill
from .divergences import DIVERGENCES, divergences
from .fedbary import fedbary
from .fedwad import fedwad
from .gradients import gradients
from .pooled import pooled
from .records import records
from .registry import METHODS, Direct, FedWaD, Pairwise, Sketch, TriangleWad
from .sketch import sketch, sketches
from .suspects import suspects
from .trianglewad import trianglewad

__all__ = [
    "DIVERGENCES",
    "METHODS",
    "Direct",
    "FedWaD",
    "Pairwise",
    "Sketch",
    "TriangleWad",
    "adapt",
    "contributions",
    "direct",
    "distill",
    "divergences",
    "fedbary",
    "fedwad",
    "gradients",
    "pooled",
    "records",
    "sketch",
    "sketches",
    "suspects",
    "trianglewad",
]
