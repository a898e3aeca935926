"""How well scores agree with what is known of records."""

from __future__ import annotations

from dataclasses import dataclass

from ._arrays import Flags
from .result import RecordScores


@dataclass(frozen=True)
class Quality:
    """How well flags and scores agree with what is known; NaN where nothing can be said."""

    auc: float
    precision: float
    recall: float
    faulty: int
    """Records that are known to be faulty."""


def quality(scores: RecordScores, truth: Flags) -> Quality:
    """Area under the ROC curve of the scores, precision and recall of the flags."""
    broken, sound = int(truth.sum()), int((~truth).sum())
    hits, flagged = int((scores.flagged & truth).sum()), int(scores.flagged.sum())
    from scipy.stats import rankdata  # half a second, that not every command needs

    ranks = rankdata(scores.scores)
    below = float(ranks[truth].sum()) - broken * (broken + 1) / 2
    return Quality(
        auc=below / (broken * sound) if broken and sound else float("nan"),
        precision=hits / flagged if flagged else float("nan"),
        recall=hits / broken if broken else float("nan"),
        faulty=broken,
    )
