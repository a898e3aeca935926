"""What holders are asked of single records, and of how many of them are faulty."""

from .judge import JudgeRecords
from .scores import ScoreRecords, ScreenRecords
from .suspects import CountSuspects

__all__ = [
    "CountSuspects",
    "JudgeRecords",
    "ScoreRecords",
    "ScreenRecords",
]
