"""Who was in the data: a likelihood ratio of what was told about single records."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ._evidence import Array

_FOLDS = 5
# Fewer of a kind than this for every column say less than the first column alone.
_FEWEST = 10
_FALSE_POSITIVES = 0.01


@dataclass(frozen=True)
class Candidates:
    """Records that were in the data and records that were not, with labels where they are known.

    ``public`` are records of neither kind, to train shadow models on.
    """

    inside: Array = field(repr=False)
    outside: Array = field(repr=False)
    inside_labels: npt.NDArray[np.str_] | None = field(default=None, repr=False)
    outside_labels: npt.NDArray[np.str_] | None = field(default=None, repr=False)
    public: Array | None = field(default=None, repr=False)
    public_labels: npt.NDArray[np.str_] | None = field(default=None, repr=False)

    @property
    def rows(self) -> Array:
        """All candidates, those inside first."""
        return np.vstack([self.inside, self.outside])

    @property
    def labels(self) -> npt.NDArray[np.str_] | None:
        """Labels of all, ``None`` where any lacks one."""
        if self.inside_labels is None or self.outside_labels is None:
            return None
        return np.concatenate([self.inside_labels, self.outside_labels])


@dataclass(frozen=True)
class Scores:
    """What was told about every candidate: columns of which the first grows with membership.

    Attributes
    ----------
    inside, outside
        Shapes (m, q) and (k, q).
    note
        What to add.
    """

    inside: Array = field(repr=False)
    outside: Array = field(repr=False)
    note: str = ""


@dataclass(frozen=True)
class Membership:
    """How well scores tell members from outsiders."""

    auc: float
    interval: tuple[float, float]
    tpr: float


def measured(scores: Scores, seed: int = 0) -> Membership:
    """Area, its interval, and the rate of members found at 1 % of outsiders.

    The score of a candidate is the log of the likelihood ratio of its columns, by a logistic
    fit to the *other* folds: no candidate is scored by a fit that saw it. Where there are too
    few candidates for a fit, the first column is the score.
    """
    inside, outside = scores.inside, scores.outside
    if min(len(inside), len(outside)) < _FEWEST * inside.shape[1] or inside.shape[1] == 1:
        one, two = inside[:, 0], outside[:, 0]
    else:
        ratio = _log_ratios(np.vstack([inside, outside]), len(inside), seed)
        one, two = ratio[: len(inside)], ratio[len(inside) :]
    area, interval = area_with_interval(one, two)
    bar = np.quantile(two, 1.0 - _FALSE_POSITIVES, method="higher")
    return Membership(area, interval, float(np.mean(one > bar)))


def area_with_interval(inside: Array, outside: Array) -> tuple[float, tuple[float, float]]:
    r"""The area under the ROC curve and its 95 % interval.

    With :math:`V_i` the share of outsiders that member i beats and :math:`U_j` the share of
    members that beat outsider j, the variance is :math:`s_V^2 / m + s_U^2 / k`; the interval is
    taken of the log odds of the area, so that it stays within (0, 1).

    Notes
    -----
    DeLong, DeLong and Clarke-Pearson, 1988.

    Examples
    --------
    >>> area, (low, high) = area_with_interval(np.arange(50.0) + 10.0, np.arange(50.0))
    >>> round(area, 3), low < area < high
    (0.68, True)
    """
    beats = above(inside, outside)
    beaten = 1.0 - above(outside, inside)
    area = float(beats.mean())
    variance = float(beats.var() / len(beats) + beaten.var() / len(beaten))
    # A separation without a mistake has no variance to estimate: one half of a mistake.
    edge = 0.5 / (len(inside) * len(outside))
    inner = min(max(area, edge), 1.0 - edge)
    spread = max(variance**0.5, (inner * (1.0 - inner)) ** 0.5 / max(len(beats), len(beaten)))
    reach = NormalDist().inv_cdf(0.975) * spread / (inner * (1.0 - inner))
    middle = np.log(inner / (1.0 - inner))
    low, high = (1.0 / (1.0 + np.exp(-(middle + side * reach))) for side in (-1.0, 1.0))
    return area, (float(low), float(high))


def above(first: Array, second: Array) -> Array:
    """Share of the second that each of the first is above, ties counted half."""
    ordered = np.sort(second)
    low = np.searchsorted(ordered, first, "left")
    high = np.searchsorted(ordered, first, "right")
    return 0.5 * (low + high) / len(second)


def _log_ratios(columns: Array, members: int, seed: int) -> Array:
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold

    is_member = np.arange(len(columns)) < members
    found = np.empty(len(columns))
    for others, fold in StratifiedKFold(_FOLDS, shuffle=True, random_state=seed).split(
        columns, is_member
    ):
        centre, scale = columns[others].mean(axis=0), columns[others].std(axis=0)
        scaled = (columns - centre) / np.where(scale > 0, scale, 1.0)
        fit = LogisticRegression(max_iter=1000).fit(scaled[others], is_member[others])
        found[fold] = fit.decision_function(scaled[fold])
    return found
