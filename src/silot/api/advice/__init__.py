"""What would help most: advice about holders, from what other wings tell of them."""

from .case import Case
from .gathering import Gathered, Gathering
from .pool import Pool, Span
from .result import Advice, Evidence, Plan
from .rules import advise

__all__ = ["Advice", "Case", "Evidence", "Gathered", "Gathering", "Plan", "Pool", "Span", "advise"]
