"""The question how useful a holder's records are, and which share of them is faulty."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ...distances.questions import encode_labels
from ...errors import WireError
from ...federation.answer import Answer
from ...federation.disclosure import Disclosure
from ...federation.question import Array, Codes, Names, register
from ..screen import Screen
from .scores import ScreenRecords

# Trees, records in a leaf, and the strength of a logistic regression: small models, for holders of
# a hundred records.
_TREES, _LEAF, _STRENGTH = 50, 2, 0.3
# The least share of all classes together: one mistake of a model that is sure must not decide.
_FLOOR = 0.01
# Standard deviations beyond which a value says no more.
_CLIPPED = 5.0


@dataclass(frozen=True, kw_only=True)
class JudgeRecords(ScreenRecords):
    """How useful the records are to predict validation labels, and which share is faulty.

    ``shares`` (3, 3) are the shares of faulty records by label, by features and in all, with their
    95 % intervals. ``gain`` (2,) is the mean log share of the right class that models of the
    holder's records alone give validation records, over that of the class frequencies, and its
    standard error beside models of other validation records. No number is about one record.
    """

    kind: ClassVar[str] = "judge-records"
    level: ClassVar[Disclosure] = Disclosure.STATISTICS

    def compute(self, points: Array, weights: Array, labels: Names | None = None) -> Answer:
        screened = self.screened(points, weights, labels)
        screen = self.screen()
        if screen.experts is None:
            raise WireError("the models have no classes.", code="question-fields")
        codes, listed, _ = encode_labels(labels, self.classes, len(points))
        used = (weights > 0) & (codes < listed)
        shares = log_shares(screen, points[used], codes[used], weights[used], self.seed)
        own, masses = shares[np.arange(len(shares)), screen.codes], screen.weights
        frequencies = np.bincount(screen.codes, masses, minlength=listed)
        # Others judged these records too: what all of them find hard tells no holders apart.
        beside = own - screen.shares[np.arange(len(shares)), screen.codes]
        deviation = beside - masses @ beside
        return Answer(
            {
                "shares": screened.shares,
                "gain": np.array(
                    [
                        masses @ (own - np.log(frequencies)[screen.codes]),
                        np.sqrt(masses**2 @ deviation**2),
                    ]
                ),
            }
        )


def log_shares(screen: Screen, points: Array, codes: Codes, weights: Array, seed: int) -> Array:
    """Fit small models on records; return log shares of the classes for validation records."""
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression

    # In an order of their own: trees are drawn by place.
    order = np.lexsort((weights, codes, *points.T[::-1]))
    frames = screen.frames
    x, y = np.clip(frames.standard(points[order]), -_CLIPPED, _CLIPPED), codes[order]
    masses = weights[order] / weights.mean() if len(weights) else weights
    validation = np.clip(frames.standard(screen.points), -_CLIPPED, _CLIPPED)
    shares = np.zeros((len(validation), screen.classes))
    kinds = np.unique(y)
    if len(kinds) < 2:
        shares[:, kinds] = 1.0
    else:
        models = (
            ExtraTreesClassifier(_TREES, min_samples_leaf=_LEAF, random_state=seed % 2**32),
            LogisticRegression(C=_STRENGTH, max_iter=200),
        )
        for model in models:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                model.fit(x, y, sample_weight=masses)
            shares[:, kinds] += np.asarray(model.predict_proba(validation)) / len(models)
    return np.log((1.0 - _FLOOR) * shares + _FLOOR / screen.classes)


register(JudgeRecords)
