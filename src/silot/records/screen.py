"""What is normal, read off validation records, and what is broken of other records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from silot_transport._check import Array

from ..errors import InputError, WireError
from ._arrays import Codes, Flags, even
from .copies import Nearness, accidental, originals
from .features import Broken
from .flags import Share, flag, flag_rare, share_above, share_broken
from .flips import LARGEST, labels_of, law
from .frames import Frames, Odd
from .labels import Experts

FEWEST = 10
"""Validation records without which nothing can be said."""

KINDS = ("", "label", "features")
"""What a record may be flagged for; the first is nothing."""

# Validation records that others are compared with one by one: more hardly say more.
_MOST = 2000
# Columns that are named for each record.
NAMED = 3
# Part of the level at which records are flagged for being far out alone.
_BESIDE = 0.2
# A chance of being as far out that says something.
_RARELY = 0.01
# The least share of records that features, and labels, are taken to be wrong of.
RARE, SOME = 1e-3, 1e-2


@dataclass(frozen=True)
class Screened:
    """What is found of each of n records."""

    scores: Array
    """Log odds that a record is broken."""
    labels: Array
    """Log likelihood ratios of a wrong label; without labels, zeros."""
    features: Array
    """Log likelihood ratios of broken features."""
    suggested: Codes
    """The likeliest class, of those that are not its own if its label is flagged."""
    judged: Codes
    """Whether the label is of a class that the validation records have."""
    kinds: Codes
    """Places in ``KINDS``: what a flagged record is flagged for, 0 for the others."""
    origin: Codes
    """The record that it is a copy of, exact or nearly, -1 if none."""
    nearest: Codes
    """Place of the nearest validation record."""
    apart: Array
    """Its squared distance in standard units."""
    columns: Codes
    """The columns (n, c) that fit the others of the record least, by name where there are names."""
    residuals: Array
    """How many times what is usual their values are off (n, c)."""
    shares: Array
    """About what share is broken, and its 95 % interval (3, 3): by label, by features, in all."""


class Compared(NamedTuple):
    """What sets n records apart from validation records: each by itself.

    As in ``Screened`` and ``Frames``; ``same`` are the places of copies of validation records.
    """

    nearest: Codes
    apart: Array
    same: npt.NDArray[np.intp]
    odd: Odd
    chances: Array
    times: Array


@dataclass(frozen=True)
class Screen:
    """Models of sound records: of their labels, their features, and how near they lie.

    It contains the validation records.
    """

    points: Array = field(repr=False)
    """Validation records (m, d)."""
    weights: Array = field(repr=False)
    """Their masses."""
    experts: Experts | None = field(repr=False)
    """Of the classes, ``None`` without labels."""
    shares: Array = field(repr=False)
    """Log shares (m, C) of the classes for the validation records, by those who did not see them.
    """
    broken: Broken = field(repr=False)
    """Of the features."""
    sound: Array = field(repr=False)
    """Log ratios of the features of validation records, each compared with the others."""
    nearness: Nearness = field(repr=False)
    """How near they lie to one another."""

    @classmethod
    def fit(
        cls, points: Array, weights: Array, codes: Codes | None, classes: int, seed: int
    ) -> tuple[Self, Codes]:
        """Read off validation records what is normal; and which of them are kept, in what order.

        Parameters
        ----------
        points, weights
            Records (m, d) and their masses (m,).
        codes
            Classes (m,), ``None`` without labels.
        classes
            How many there are.
        seed
            Of trees, folds and noise.

        Raises
        ------
        InputError
            Fewer than ten records (``validation-few``).
        """
        kinds = np.zeros(len(points), dtype=np.int64) if codes is None else codes
        # In an order of their own: whatever is drawn does not depend on how they were given.
        kept = np.lexsort((weights, kinds, *points.T[::-1]))
        kept = kept[weights[kept] > 0]
        masses = weights[kept] / weights[kept].sum()
        if not accidental(points[kept]):
            # Copied records would vouch for one another.
            kept, masses = _merged(points, kinds, kept, masses)
        points, weights = points[kept], masses
        codes = None if codes is None else codes[kept]
        if len(points) < FEWEST:
            raise InputError(
                f"there are {len(points)} validation records of their own; {FEWEST} or more are "
                "needed to say what is normal.",
                code="validation-few",
            )
        chosen = np.arange(len(points))
        if len(points) > _MOST:
            rng = np.random.default_rng([seed, 13])
            chosen = np.sort(rng.choice(len(points), _MOST, replace=False, p=weights))
        frames = Frames(points[chosen], weights[chosen] / weights[chosen].sum())
        experts, shares = None, np.zeros((len(chosen), 0))
        if codes is not None and classes > 1:
            experts, shares = Experts.fit(points, codes, weights, classes, frames, chosen, seed)
        broken, sound = Broken.fit(frames, seed)
        screen = cls(
            frames.points, frames.weights, experts, shares, broken, sound, Nearness.of(frames)
        )
        return screen, kept[chosen]

    def check(self) -> None:
        """Raise where fields do not fit together: they may come from anybody."""
        size = len(self.weights)
        fits = (
            self.points.ndim == 2
            and self.points.shape[0] == size >= FEWEST
            and self.weights.shape == (size,)
            and self.shares.shape == (size, self.classes)
            and self.sound.shape == (size,)
            and all(np.isfinite(part).all() for part in (self.points, self.shares, self.sound))
            and float(self.weights.min()) > 0
            and abs(float(self.weights.sum()) - 1.0) < 1e-6
        )
        if not fits:
            raise WireError("the models do not fit together.", code="question-fields")
        if self.experts is not None:
            self.experts.check(self.points.shape[1], size)
        self.broken.check()
        self.nearness.check()

    @property
    def classes(self) -> int:
        """How many classes are known; 0 without labels."""
        return 0 if self.experts is None else self.experts.classes

    @property
    def codes(self) -> Codes:
        """Classes of the validation records."""
        return np.zeros(0, dtype=np.int64) if self.experts is None else self.experts.codes

    @property
    def size(self) -> float:
        """How many records of equal weight the validation records count for (Kish)."""
        return 1.0 / float(np.sum(self.weights**2))

    @property
    def dimension(self) -> int:
        """Features of a record."""
        return int(self.points.shape[1])

    @property
    def frames(self) -> Frames:
        """Validation records as others are compared with them."""
        return Frames(self.points, self.weights)

    def first(self) -> tuple[Array, Codes]:
        """One validation record (1, d), and its class (1,) where there are classes."""
        return self.points[:1], self.codes[:1]

    @property
    def sound_features(self) -> Array:
        """Log ratios (m,) of the features of validation records, as those of others are told."""
        return np.clip(self.sound, -LARGEST, LARGEST)

    def __call__(
        self, points: Array, weights: Array, codes: Codes | None, *, fdr: float
    ) -> Screened:
        """Screen records.

        Parameters
        ----------
        points, weights
            Records (n, d), n at least 1; those of no mass are scored and never flagged.
        codes
            Classes (n,); from ``classes`` on, classes that the validation records do not have.
            Without experts they are not looked at.
        fdr
            Share of the flagged records that may be sound.
        """
        frames = self.frames
        used = weights > 0
        nearest, apart, same, odd, chances, times = self.compared(frames, points)
        features = features_by(self, odd, chances)
        labels, suggested = np.zeros(len(points)), np.full(len(points), -1, dtype=np.int64)
        judged, null = np.zeros(len(points), dtype=np.bool_), np.zeros(0)
        if self.experts is not None and codes is not None:
            judged = codes < self.classes
            shares = self.experts(points, frames)
            shares[same] = self.shares[nearest[same]]
            labels, null, suggested = self._labels(shares, codes, judged & used)
        sound = even(self.sound_features, self.weights)
        by_label, by_features = np.zeros(len(points), np.bool_), np.zeros(len(points), np.bool_)
        nothing = Share(0.0, 0.0, 0.0)
        likely = [
            share_broken(labels[judged & used], null) if len(null) else nothing,
            share_above(features[used], sound),
        ]
        if len(null):
            by_label[judged & used] = flag(labels[judged & used], null, fdr, likely[0].value)
        by_features[used] = flag(features[used], sound, fdr, likely[1].value)
        # However few, values far outside are no chance.
        by_features[used] |= flag_rare(chances[used], _BESIDE * fdr)
        origin = np.full(len(points), -1, dtype=np.int64)
        places = np.flatnonzero(used)
        first = originals(points[used], frames, self.nearness, fdr)
        origin[used] = np.where(first >= 0, places[first], -1)
        off = np.maximum(np.sqrt(odd.columns), times)
        named = np.argsort(-off, axis=1, kind="stable")[:, :NAMED]
        log_odds = np.stack(
            [
                odds_of(labels, null, max(likely[0].value, SOME)),
                # A share by ranks alone may be nothing: what says little of these records must
                # not blur what their labels say.
                odds_of(features, sound, likely[1].value if likely[1].low > 0 else RARE),
            ]
        )
        scores = logsumexp(log_odds, axis=0)
        kinds = np.where(by_label, KINDS.index("label"), 0)
        kinds[by_features & (~by_label | (log_odds[1] > log_odds[0]))] = KINDS.index("features")
        return Screened(
            scores, labels, features, suggested, judged.astype(np.int64), kinds.astype(np.int64),
            origin, nearest,
            apart, named.astype(np.int64),
            np.take_along_axis(off, named, axis=1),
            _table(likely, (1.0 - fdr) * float((kinds[used] > 0).mean())),
        )  # fmt: skip

    def compared(self, frames: Frames, points: Array) -> Compared:
        """What sets records apart from validation records."""
        nearest, apart = frames.nearest(points)
        # A copy of a validation record is judged by the others: it cannot vouch for itself.
        # Where these are equal among themselves, others may equal them by chance.
        same = np.zeros(0, dtype=np.intp)
        if len(frames.places) == len(self.points):
            same = np.flatnonzero((points == self.points[nearest]).all(axis=1))
        odd = frames.odd(points)
        if len(same):
            without = frames.odd(points[same], nearest[same])
            odd.parts[same], odd.columns[same] = without.parts, without.columns
        chances, times = frames.far(points)
        return Compared(nearest, apart, same, odd, chances, times)

    def _labels(self, shares: Array, codes: Codes, counted: Flags) -> tuple[Array, Array, Codes]:
        """Log ratios of wrong labels, those of validation records, and suggested classes."""
        # Records of another class are not judged, but a class can be suggested for them.
        listed = np.minimum(codes, self.classes - 1)
        masses = np.bincount(self.codes, self.weights, minlength=self.classes)
        tilt, swaps = law(shares[counted], codes[counted], np.maximum(masses, 1e-6))
        shares = shares + tilt
        ratios = np.where(codes < self.classes, labels_of(shares, listed, swaps), 0.0)
        null = even(labels_of(self.shares, self.codes, swaps), self.weights)
        others = shares.copy()
        rows = np.flatnonzero(codes < self.classes)
        others[rows, codes[rows]] = -np.inf
        return ratios, null, others.argmax(axis=1).astype(np.int64)


def _merged(points: Array, kinds: Codes, kept: Codes, masses: Array) -> tuple[Codes, Array]:
    """The first of equal records, and their mass together; of two classes, both."""
    rows = np.column_stack([points[kept], kinds[kept].astype(np.float64)])
    _, first, whose = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return kept[first], np.bincount(whose.ravel(), masses).astype(np.float64)


def features_of(screen: Screen, frames: Frames, points: Array) -> Array:
    """Log ratios of broken features against sound ones (n,)."""
    return features_by(screen, frames.odd(points), frames.far(points)[0])


def features_by(screen: Screen, odd: Odd, chances: Array) -> Array:
    """Log ratios, by the parts, or by how far out a record is where that is rare.

    No ratio is larger than what a chance ``p`` is worth, as evidence: ``1 / (2 sqrt(p))``.
    """
    ratios = screen.broken(odd.parts)
    rare = chances < _RARELY
    with np.errstate(divide="ignore"):
        worth = np.log(0.5) - 0.5 * np.log(chances)
    return np.clip(np.where(rare, np.maximum(ratios, worth), ratios), -LARGEST, LARGEST)


def odds_of(ratios: Array, null: Array, share: float) -> Array:
    """Log odds (n,) of a fault, by its ratios and the share that has it.

    Ratios count no more than sound records allow: of these a share of at most ``1 / r`` has a
    ratio of ``r`` or more.
    """
    if not len(null):
        return np.full(len(ratios), -np.inf)
    ordered = np.sort(null)
    above = len(ordered) - np.searchsorted(ordered, ratios, side="left")
    most = np.log((1.0 + len(ordered)) / (1.0 + above))
    limited = np.minimum(ratios, most + np.maximum(ratios - ordered[-1], 0.0))
    share = min(max(share, RARE), 0.5)
    return limited + np.log(share / (1.0 - share))


def _table(likely: list[Share], flagged: float) -> Array:
    """Shares of each fault, and of all: no less than the larger, or than flagged ones promise."""
    label, features = likely
    value = max(label.value, features.value, flagged)
    total = Share(
        value,
        max(label.low, features.low),
        max(value, min(label.high + features.high, 1.0)),
    )
    return np.array([label, features, total])
