"""Find faulty records with models of clean records.

``Screen.fit`` reads validation records; a ``Screen`` called with a holder's records says of each
how likely its label or its features are wrong, what its label should be, which columns do not fit,
and of which record it is a copy.
"""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .counts import BrokenCounts, Suspects
    from .flags import Share, needed, rank_by_odds, share_above, share_wrong
    from .gradients import RecordGradients, gradients
    from .result import Contents, Estimate, OddColumn, RecordScores, Screening, Suspect
    from .screen import FEWEST, KINDS, NAMED, Screen, Screened
    from .suspects import CountBroken, suspects
    from .validation import RecordScreening, records

__all__ = [
    "FEWEST",
    "KINDS",
    "NAMED",
    "BrokenCounts",
    "Contents",
    "CountBroken",
    "Estimate",
    "OddColumn",
    "RecordGradients",
    "RecordScores",
    "RecordScreening",
    "Screen",
    "Screened",
    "Screening",
    "Share",
    "Suspect",
    "Suspects",
    "gradients",
    "needed",
    "rank_by_odds",
    "records",
    "share_above",
    "share_wrong",
    "suspects",
]

lazily(__name__)
