"""What holders are asked of single records, and of how many of them are broken."""

from .scores import ScoreRecords, ScreenRecords
from .suspects import CountSuspects

__all__ = [
    "CountSuspects",
    "ScoreRecords",
    "ScreenRecords",
]
