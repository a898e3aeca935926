"""Protocols: what is asked of whom, and what the answers prove. One file each."""

from .direct import direct
from .fedwad import fedwad
from .pooled import pooled
from .registry import METHODS, Method
from .trianglewad import trianglewad

__all__ = ["METHODS", "Method", "direct", "fedwad", "pooled", "trianglewad"]
