"""How likely a record's features are faulty: a logistic regression on parts of its oddness."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Self

import numpy as np

from silot_transport._check import Array

from ..errors import WireError
from ._arrays import Codes
from .frames import Frames

# Noise of so many usual spreads in all columns or in so many of them, and values of other records.
_SIZES, _SHARES = (0.7, 1.0, 2.0), (1.0, 0.3)
# Folds, and records of both sides that the others are compared with at most.
_FOLDS, _COMPARED = 5, 2000
# Above any part.
_ENDLESS = 1e9


@dataclass(frozen=True)
class Broken:
    """Log likelihood ratio of features that are faulty against features that are not.

    Validation records are compared with the same records with noise added, or with values of
    other records put in, in all columns or in some; each against the validation records without
    itself. What faults a holder really has may look otherwise: ratios order records and are
    calibrated against validation records, not against those faults.
    """

    slopes: Array = field(repr=False)
    """Of the four parts (4,): logs of potential, residuals, nearest records, largest residual."""
    ceilings: Array = field(repr=False)
    """Parts above these count as these (4,): the largest of validation records where a slope is
    negative, for nobody is sounder the further out."""
    height: float
    """What is added."""

    @classmethod
    def fit(cls, frames: Frames, seed: int) -> tuple[Self, Array]:
        """Fit it; and the ratios of the validation records themselves (m,)."""
        every = np.arange(len(frames.points))
        return cls._fit(frames, lambda points: frames.odd(points, every).parts, seed)

    @classmethod
    def _fit(cls, frames: Frames, judge: Callable[[Array], Array], seed: int) -> tuple[Self, Array]:
        """Fit it to the parts (m, 4) that validation records, and what is made of them, have."""
        from sklearn.linear_model import LogisticRegression

        rng = np.random.default_rng([seed, 12])
        points, size = frames.points, len(frames.points)
        own = judge(points)
        rows, masses = [own], [frames.weights]
        for share in _SHARES:
            mask = rng.random(points.shape) < share
            spread = rng.choice(_SIZES, size=(size, 1)) * frames.noise
            noisy = points + mask * spread * rng.standard_normal(points.shape)
            other = np.column_stack([rng.choice(column, size) for column in points.T])
            for worse in (noisy, np.where(mask, other, points)):
                rows.append(judge(worse))
                masses.append(frames.weights / (2.0 * len(_SHARES)))
        parts = np.vstack(rows)
        centre, unit = parts.mean(axis=0), parts.std(axis=0) + 1e-9
        model = LogisticRegression()
        broken = np.arange(len(parts)) >= size
        model.fit((parts - centre) / unit, broken, sample_weight=size * np.concatenate(masses))
        slopes = np.asarray(model.coef_)[0] / unit
        ceilings = np.where(slopes < 0, own.max(axis=0), _ENDLESS)
        height = float(np.asarray(model.intercept_)[0]) - float(slopes @ centre)
        broken_features = cls(slopes, ceilings, height)
        return broken_features, broken_features(own)

    def check(self) -> None:
        """Raise where fields are not numbers."""
        shapes = self.slopes.shape == self.ceilings.shape == (4,)
        if not shapes or not np.isfinite([*self.slopes, *self.ceilings, self.height]).all():
            raise WireError("the weights of the parts are not valid.", code="question-fields")

    def __call__(self, parts: Array) -> Array:
        """Log ratios (n,)."""
        return np.minimum(parts, self.ceilings) @ self.slopes + self.height


def judge_jointly(frames: Frames, points: Array, weights: Array, seed: int) -> tuple[Array, Array]:
    """Log ratios of a holder's records (n,) and of validation records (m,), all compared alike.

    Each is compared with the records of both sides in the other folds, so that clean records of
    either are exchangeable; ``Broken`` is fitted to validation records and what is made of them.

    Parameters
    ----------
    frames
        Of the validation records.
    points, weights
        The holder's records (n, d), and their masses (n,), some of them positive.
    seed
        Of the folds and of what is made.
    """
    rng, size = np.random.default_rng([seed, 5]), len(frames.points)
    both = np.concatenate([frames.points, points])
    masses = np.concatenate([frames.weights * size, weights / weights[weights > 0].mean()])
    fold = np.concatenate([rng.permutation(size) % _FOLDS, rng.permutation(len(points)) % _FOLDS])
    judges: list[Frames] = []
    for k in range(_FOLDS):
        others = np.flatnonzero((fold != k) & (masses > 0))
        # In an order of their own: which ones are drawn depends on no order.
        others = others[rng.permutation(len(others))[:_COMPARED]]
        judges.append(Frames(both[others], masses[others] / masses[others].sum()))

    def judge(points: Array, fold: Codes) -> Array:
        parts = np.empty((len(points), 4))
        for k, frame in enumerate(judges):
            if (fold == k).any():
                parts[fold == k] = frame.odd(points[fold == k]).parts
        return parts

    broken, sound = Broken._fit(frames, lambda rows: judge(rows, fold[:size]), seed)
    return broken(judge(points, fold[size:])), sound
