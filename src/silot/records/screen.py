"""What is normal, read off validation records, and what is faulty of other records."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from silot_transport._check import Array

from ..errors import InputError, WireError
from ._arrays import Codes, Flags, even
from .columns import RARE, aligned, odd_values
from .copies import Nearness, accidental, originals
from .features import Broken, judge_jointly
from .flags import (
    Share,
    rank_by_odds,
    share_above,
    share_contradicted,
    share_of_discoveries,
    share_wrong,
    surely_above,
)
from .flips import LARGEST, even_swaps, labels_of
from .frames import Frames, Odd
from .labels import Experts
from .learning import Both, learn

FEWEST = 10
"""Validation records without which nothing can be said."""

KINDS = ("", "label", "features")
"""What a record may be flagged for; the first is nothing."""

# Validation records that others are compared with one by one: more hardly say more.
_MOST = 2000
# The quantile of distances between validation records beyond which a holder's are of another kind.
_FAR = 0.95
# Columns that are named for each record.
NAMED = 3
# A chance of being as far out that says something.
_RARELY = 0.01
# The least share of records whose label is taken to be wrong.
SOME = 3e-3


@dataclass(frozen=True)
class Screened:
    """Results for each of n records."""

    scores: Array
    """Log odds that a record is faulty."""
    labels: Array
    """Log likelihood ratios of a wrong label; without labels, zeros."""
    features: Array
    """Log likelihood ratios of faulty features."""
    suggested: Codes
    """The likeliest class, of those that are not its own if its label is flagged."""
    judged: Codes
    """Whether the label is of a class that the validation records have."""
    kinds: Codes
    """Places in ``KINDS``: what a flagged record is flagged for, 0 for the others."""
    precision: Array
    """Share expected to be faulty among the first one, two and so on by their scores (n,)."""
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
    """About what share is faulty, and its 95 % interval (3, 3): by label, by features, in all."""


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
    """Models of clean records: of their labels, their features, and how near they lie.

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
                "needed to model clean records.",
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
        """Validation records in the form in which others are compared with them."""
        return Frames(self.points, self.weights)

    def first(self) -> tuple[Array, Codes]:
        """One validation record (1, d), and its class (1,) where there are classes."""
        return self.points[:1], self.codes[:1]

    @property
    def sound_features(self) -> Array:
        """Log ratios (m,) of the features of validation records, judged as others are."""
        return np.clip(self.sound, -LARGEST, LARGEST)

    def __call__(
        self, points: Array, weights: Array, codes: Codes | None, *, fdr: float, seed: int
    ) -> Screened:
        """Screen records, with models that learn from them too.

        Parameters
        ----------
        points, weights
            Records (n, d), n at least 1; those of no mass are scored and never flagged.
        codes
            Classes (n,); from ``classes`` on, classes that the validation records do not have.
            Without experts they are not looked at.
        fdr
            Share of the flagged records that may be clean.
        seed
            Of trees, folds and draws.
        """
        frames, used = self.frames, weights > 0
        compared = self.compared(frames, points)
        # Records of no mass are judged by validation records alone.
        scores, labels = odds_by(self, frames, compared, points, codes)
        features = features_by(self, compared.odd, compared.chances)
        suggested = np.full(len(points), -1, dtype=np.int64)
        judged = np.zeros(len(points), dtype=np.bool_)
        kinds, likely, ranking = np.zeros(len(points), dtype=np.int64), [NOTHING, NOTHING], None
        if self.experts is not None and codes is not None:
            judged = codes < self.classes
            if not used.all():
                suggested[~used] = _others(self.experts(points[~used], frames), codes[~used])
        first = np.full(len(points), -1, dtype=np.int64)
        if used.any():
            rows, masses = points[used], weights[used]
            own = None if codes is None or self.experts is None else codes[used]
            # Copies once: together they would crowd a tail, and vouch for one another.
            first_of, whose = _distinct(rows)
            values = odd_values(frames.tails, self.points, rows[first_of], fdr).of(whose)
            once, sound = judge_jointly(frames, rows[first_of], masses[first_of], seed)
            jointly = once[whose]
            parts = [
                _Part.of_features(jointly, sound, self.weights),
                _Part(values.odds, values.sound, share_of_discoveries(values.flagged, fdr)),
            ]
            if own is not None:
                shares, null = self._learn(compared, used, frames, rows, masses, own, seed)
                # A value far out says nothing of a label.
                part = _Part.of_labels(shares, null, own, ~values.flagged, self, seed)
                used_rows = ~values.flagged & (own < self.classes)
                assert self.experts is not None
                by_validation = self.experts(rows[used_rows], frames)
                most = share_contradicted(
                    by_validation, own[used_rows], self.shares, self.codes, seed
                )
                high = max(part.share.high, most)
                parts.append(part._replace(share=part.share._replace(high=high)))
                labels[used] = np.where(
                    judged[used], labels_of(shares, np.minimum(own, self.classes - 1),
                                            even_swaps(self.classes)), 0.0,
                )  # fmt: skip
                suggested[used] = _others(shares, own)
            features[used] = jointly
            scores[used] = logsumexp([part.odds for part in parts], axis=0)
            even_sound = even(logsumexp([part.sound for part in parts], axis=0), self.weights)
            by_features = Share(
                *(max(pair) for pair in zip(*(p.share for p in parts[:2]), strict=True))
            )
            likely = [parts[2].share if len(parts) > 2 else NOTHING, by_features]
            share = max(item.value for item in likely)
            ranking = rank_by_odds(scores[used], even_sound, fdr, share)
            # However few, values far outside are no chance.
            flagged = ranking.flagged | values.flagged
            first[used] = np.where(values.flagged, values.column, -1)
            kinds[used] = np.where(flagged, KINDS.index("features"), 0)
            if len(parts) > 2:
                by_label = parts[2].odds > np.logaddexp(parts[0].odds, parts[1].odds)
                by_label &= flagged & ~values.flagged
                kinds[np.flatnonzero(used)[by_label]] = KINDS.index("label")
        precision = np.full(len(points), ranking.precision[-1] if ranking else 0.0)
        if ranking is not None:
            precision[: len(ranking.precision)] = ranking.precision
        table = _table(likely, (1.0 - fdr) * float((kinds[used] > 0).mean()) if used.any() else 0.0)
        if self.differs(compared.apart):
            # Models of other data judge these: any share may be faulty.
            table[:, 1], table[:, 2] = 0.0, 1.0
        # No more of the first are faulty than of all.
        broken = table[2, 0] * max(int(used.sum()), 1)
        precision = np.minimum(precision, broken / np.arange(1, len(points) + 1))
        off = np.maximum(np.sqrt(compared.odd.columns), compared.times)
        # The column that a record is flagged for by itself is named first.
        leading = np.where(np.arange(off.shape[1]) == first[:, None], np.inf, off)
        named = np.argsort(-leading, axis=1, kind="stable")[:, :NAMED]
        scores, labels, features = np.clip([scores, labels, features], -FARTHEST, FARTHEST)
        return Screened(
            scores, labels, features, suggested, judged.astype(np.int64), kinds,
            precision, self._originals(frames, points, used, fdr), compared.nearest,
            compared.apart, named.astype(np.int64), np.take_along_axis(off, named, axis=1),
            table,
        )  # fmt: skip

    def differs(self, apart: Array) -> bool:
        """Whether records as a whole lie elsewhere, by squared distances (n,) to the nearest."""
        frames = self.frames
        if len(frames.places) < 3:
            return False
        usual = float(np.quantile(frames.spacing()[0], _FAR))
        return float(np.median(np.sqrt(apart))) > usual > 0

    def _originals(self, frames: Frames, points: Array, used: Flags, fdr: float) -> Codes:
        """Of which earlier record each is a copy (n,), -1 if of none."""
        origin = np.full(len(points), -1, dtype=np.int64)
        places = np.flatnonzero(used)
        first = originals(points[used], frames, self.nearness, fdr)
        origin[used] = np.where(first >= 0, places[first], -1)
        return origin

    def _learn(
        self,
        compared: Compared,
        used: Flags,
        frames: Frames,
        points: Array,
        weights: Array,
        codes: Codes,
        seed: int,
    ) -> tuple[Array, Array]:
        """Log shares of the classes for records (n, C), and for validation records (m, C)."""
        assert self.experts is not None
        size = len(self.points)
        # In an order of their own, and copies once: they would vouch for one another.
        rows = np.column_stack([points, codes.astype(np.float64)])
        first, whose = _distinct(rows, points)
        shares = self.experts(points[first], frames)
        places = np.flatnonzero(used)[first]
        same = np.isin(places, compared.same)
        shares[same] = self.shares[compared.nearest[places[same]]]
        masses = [self.weights / self.weights.mean(), weights[first] / weights.mean()]
        both = Both(
            z=np.concatenate([frames.standard(self.points), frames.standard(points[first])]),
            codes=np.concatenate([self.codes, codes[first]]),
            masses=np.concatenate(masses),
            trusted=np.arange(size + len(first)) < size,
            classes=self.classes,
            seed=seed,
        )
        learned = learn(both, np.concatenate([self.shares, shares])).shares
        return learned[size:][whose], learned[:size]

    def compared(self, frames: Frames, points: Array) -> Compared:
        """Return what sets records apart from validation records."""
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


def _others(shares: Array, codes: Codes) -> Codes:
    """The likeliest class (n,) of those that a record is not listed as."""
    others, judged = shares.copy(), np.flatnonzero(codes < shares.shape[1])
    others[judged, codes[judged]] = -np.inf
    return others.argmax(axis=1).astype(np.int64)


FARTHEST = 1e3
"""The largest log odds that are sent."""

NOTHING = Share(0.0, 0.0, 0.0)
"""The share of a fault that nothing speaks for."""


class _Part(NamedTuple):
    """What one kind of fault says of records, and of validation records; and its share."""

    odds: Array
    sound: Array
    share: Share

    @classmethod
    def of_features(cls, ratios: Array, null: Array, weights: Array) -> _Part:
        ratios, null = (np.clip(part, -LARGEST, LARGEST) for part in (ratios, null))
        ordered = even(null, weights)
        # A holder whose records differ as a whole has no faulty ones for it; all may be.
        most = share_above(ratios, ordered).high
        moved = aligned(ratios[:, None], ratios[:, None], ordered[:, None])[:, 0]
        ratios = np.minimum(ratios, moved)
        likely = surely_above(ratios, ordered)
        odds, sound = (odds_of(part, ordered, likely) for part in (ratios, null))
        return cls(odds, sound, share_above(ratios, ordered)._replace(high=most))

    @classmethod
    def of_labels(
        cls, shares: Array, null: Array, codes: Codes, counted: Flags, screen: Screen, seed: int
    ) -> _Part:
        swaps, judged = even_swaps(screen.classes), codes < screen.classes
        counted = counted & judged
        share = share_wrong(shares[counted], codes[counted], null, screen.codes, seed)
        ratios = labels_of(shares, np.minimum(codes, screen.classes - 1), swaps)
        sound = labels_of(null, screen.codes, swaps)
        ordered = even(sound, screen.weights)
        odds, sound = (odds_of(part, ordered, max(share.low, SOME)) for part in (ratios, sound))
        return cls(np.where(judged, odds, -np.inf), sound, share)


def _distinct(
    rows: Array, points: Array | None = None
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Places of distinct rows in order, and which of them each row is; all where chance repeats.

    ``points`` are what must not be repeated by chance, by default the rows.
    """
    if accidental(rows if points is None else points):
        first = np.lexsort(rows.T[::-1])
        whose = np.empty(len(rows), dtype=np.intp)
        whose[first] = np.arange(len(rows))
        return first, whose
    _, first, whose = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    return first, whose.ravel()


def _merged(points: Array, kinds: Codes, kept: Codes, masses: Array) -> tuple[Codes, Array]:
    """The first of equal records, with the mean of their masses; of two classes, both."""
    rows = np.column_stack([points[kept], kinds[kept].astype(np.float64)])
    _, first, whose, counts = np.unique(
        rows, axis=0, return_index=True, return_inverse=True, return_counts=True
    )
    # One row may be most of a table of few values: its mass together would outweigh the others.
    merged = np.bincount(whose.ravel(), masses) / counts
    return kept[first], merged / merged.sum()


def features_of(screen: Screen, frames: Frames, points: Array) -> Array:
    """Log ratios of faulty features against clean ones (n,)."""
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

    Ratios count no more than clean records allow: of these a share of at most ``1 / r`` has a
    ratio of ``r`` or more.
    """
    if not len(null):
        return np.full(len(ratios), -np.inf)
    ordered = np.sort(null)
    above = len(ordered) - np.searchsorted(ordered, ratios, side="left")
    most = np.log((1.0 + len(ordered)) / (1.0 + above))
    limited = np.minimum(ratios, most + np.maximum(ratios - ordered[-1], 0.0))
    return limited + log_odds(max(share, RARE))


def log_odds(share: float) -> float:
    """Log odds of a share, of which a half counts at most."""
    share = min(share, 0.5)
    return float(np.log(share / (1.0 - share)))


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


def odds(screen: Screen, points: Array, codes: Codes | None) -> tuple[Array, Array]:
    """Log odds (n,) that a record is faulty, and how far off each of its columns is (n, d).

    ``Screen`` learns from all records together how many are faulty. Here it is assumed (``SOME``
    and ``RARE``), and nothing is learned from them: other records change what is said of one by no
    more than rounding.

    Parameters
    ----------
    screen
        Models of clean records.
    points, codes
        As for ``Screen``; without codes labels are not judged.

    Returns
    -------
    tuple
        A column is off by this many times what is usual, given the others.
    """
    frames = screen.frames
    compared = screen.compared(frames, points)
    off = np.maximum(np.sqrt(compared.odd.columns), compared.times)
    return odds_by(screen, frames, compared, points, codes)[0], off


def odds_by(
    screen: Screen, frames: Frames, compared: Compared, points: Array, codes: Codes | None
) -> tuple[Array, Array]:
    """Log odds (n,) that records are faulty, and log ratios of their labels, each by itself."""
    features = features_by(screen, compared.odd, compared.chances)
    if screen.experts is None or codes is None:
        return _together(screen, features, None), np.zeros(len(points))
    shares = screen.experts(points, frames)
    shares[compared.same] = screen.shares[compared.nearest[compared.same]]
    judged = codes < screen.classes
    listed = np.minimum(codes, screen.classes - 1)
    labels = labels_of(shares, listed, even_swaps(screen.classes))
    log_odds = _together(screen, features, np.where(judged, labels, -np.inf))
    return log_odds, np.where(judged, labels, 0.0)


def sound_odds(screen: Screen, *, labels: bool) -> Array:
    """``odds`` of the validation records, each compared with the others; of equal mass, sorted."""
    null = _sound_labels(screen) if labels and screen.experts is not None else None
    return even(_together(screen, screen.sound_features, null), screen.weights)


def _sound_labels(screen: Screen) -> Array:
    return labels_of(screen.shares, screen.codes, even_swaps(screen.classes))


def _together(screen: Screen, features: Array, labels: Array | None) -> Array:
    by_features = odds_of(features, even(screen.sound_features, screen.weights), RARE)
    if labels is None:
        return by_features
    return np.logaddexp(
        by_features, odds_of(labels, even(_sound_labels(screen), screen.weights), SOME)
    )
