"""How suspect a record is, whatever other records there are: what may be counted with noise."""

from __future__ import annotations

import numpy as np

from silot_transport._check import Array

from ._arrays import Codes, Flags, even
from .flips import even_swaps, labels_of
from .screen import RARE, SOME, Screen, features_by, features_of, odds_of


class Alone:
    r"""Ratios of records, each computed from that record and the models alone.

    ``Screen`` looks at all records of a holder together: which classes they confuse, how many
    seem broken. Here nothing is learned from them, and each is computed by itself, for the
    rounding of a matrix product may depend on the rows beside it. Adding or removing a record
    then changes what is said of no other, to the last bit.

    Parameters
    ----------
    screen
        Models, of public records.
    """

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._frames = screen.frames
        self._swaps = even_swaps(screen.classes)

    def __call__(self, points: Array, codes: Codes | None, counted: Flags) -> tuple[Array, Array]:
        """Log likelihood ratios of a wrong label and of broken features (n,), as far as counted.

        A record that the models fail on, or find no number for, has NaN: whether they do must
        not show otherwise than by where it is counted. The ratio of a label of an unknown class
        is NaN too, as are all ratios of labels without codes.

        Parameters
        ----------
        points
            Records (n, d).
        codes
            Their classes (n,), unknown ones from ``classes`` on; ``None`` without labels.
        counted
            Records that are looked at (n,).
        """
        labels, features = np.full(len(points), np.nan), np.full(len(points), np.nan)
        # In one place, so that alignment is the same too.
        row = np.empty((1, points.shape[1]))
        with np.errstate(all="ignore"):
            for k in np.flatnonzero(counted).tolist():
                row[0] = points[k]
                code = -1 if codes is None else int(codes[k])
                try:
                    labels[k], features[k] = self._one(row, code)
                except Exception:  # noqa: BLE001 - one record must not fail the others
                    continue
        return labels, features

    def _one(self, row: Array, code: int) -> tuple[float, float]:
        features = float(features_of(self._screen, self._frames, row)[0])
        experts = self._screen.experts
        if experts is None or not 0 <= code < experts.classes:
            return np.nan, features
        shares = experts(row, self._frames)
        return float(labels_of(shares, np.array([code]), self._swaps)[0]), features


def odds(screen: Screen, points: Array, codes: Codes | None) -> tuple[Array, Array]:
    """Log odds (n,) that a record is broken, and how far off each of its columns is (n, d).

    ``Screen`` learns from all records together how many are broken. Here one label of a hundred
    and the features of one record of a thousand are taken to be, and wrong classes to be equally
    likely: other records change what is said of one by no more than rounding.

    Parameters
    ----------
    screen
        Models of sound records.
    points, codes
        As for ``Screen``; without codes labels are not judged.

    Returns
    -------
    tuple
        A column is off by so many times what is usual, given the others.
    """
    frames = screen.frames
    compared = screen.compared(frames, points)
    features = features_by(screen, compared.odd, compared.chances)
    off = np.maximum(np.sqrt(compared.odd.columns), compared.times)
    if screen.experts is None or codes is None:
        return _together(screen, features, None), off
    shares = screen.experts(points, frames)
    shares[compared.same] = screen.shares[compared.nearest[compared.same]]
    listed = np.minimum(codes, screen.classes - 1)
    labels = labels_of(shares, listed, even_swaps(screen.classes))
    return _together(screen, features, np.where(codes < screen.classes, labels, -np.inf)), off


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
