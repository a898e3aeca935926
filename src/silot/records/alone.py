"""How suspect a record is, whatever other records there are: what may be counted with noise."""

from __future__ import annotations

import numpy as np

from silot_transport._check import Array

from ._arrays import Codes, Flags
from .flips import even_swaps, labels_of
from .screen import Screen, features_of


class Alone:
    r"""Ratios of records, each computed from that record and the models alone.

    ``Screen`` looks at all records of a holder together: how common their classes are, how many
    seem faulty. Here nothing is learned from them, and each is computed by itself, for the rounding
    of a matrix product may depend on the rows beside it. Adding or removing a record then changes
    what is said of no other, to the last bit.

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
        """Log likelihood ratios of a wrong label and of faulty features (n,), as far as counted.

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
