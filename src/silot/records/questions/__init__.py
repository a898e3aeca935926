"""What holders are asked of single records, and of how many of them are broken."""

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .scores import ScoreRecords, ScreenRecords
    from .suspects import CountSuspects

__all__ = [
    "CountSuspects",
    "ScoreRecords",
    "ScreenRecords",
]

lazily(__name__)
