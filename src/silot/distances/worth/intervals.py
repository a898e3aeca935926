"""What shares and ranks owe to the sampling error of the distances behind them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from silot_transport._check import Array

from ...errors import InputError
from .holders import explained, explained_shares

Ranks = npt.NDArray[np.int64]

_DRAWS = 2000
# A margin is that of a 95 % interval.
_MARGIN = 1.959964
# Squares this close are equal: rounding must not rank holders.
_TIE = 1e-9


@dataclass(frozen=True)
class Margins:
    """Squared distances of N holders, and how far they may be off below and above (95 %)."""

    squares: Array
    below: Array
    above: Array

    def __post_init__(self) -> None:
        for part in (self.squares, self.below, self.above):
            if part.shape != self.squares.shape or part.ndim != 1 or not len(part):
                raise InputError(
                    "margins must be one number for each holder.", code="valuation-distances"
                )
            if not np.isfinite(part).all() or part.min() < 0:
                raise InputError(
                    "margins must be finite numbers of zero or more.", code="valuation-distances"
                )


def rank_ranges(margins: Margins) -> Ranks:
    r"""Smallest and largest rank of every holder that chance leaves open.

    Holder i is before j when

    .. math:: W_j^2 - W_i^2 > \sqrt{u_i^2 + l_j^2}

    with the margins ``u`` above and ``l`` below; else the two are tied. Pair by pair at 95 %.

    Parameters
    ----------
    margins
        Of N holders.

    Returns
    -------
    numpy.ndarray
        Shape (N, 2) of integers, 1 for the best.

    Notes
    -----
    Donner and Zou, 2002: the interval of a difference from the intervals of both sides.

    Examples
    --------
    >>> import numpy as np
    >>> wide = np.array([1.0, 1.0, 1.0])
    >>> rank_ranges(Margins(np.array([4.0, 4.5, 9.0]), wide, wide)).tolist()
    [[1, 2], [1, 2], [3, 3]]
    """
    squares = margins.squares
    room = np.sqrt(margins.above[:, None] ** 2 + margins.below[None] ** 2)
    room = np.maximum(room, _TIE * np.maximum(squares[:, None], squares[None]))
    before = squares[None] - squares[:, None] > room
    return np.stack([1 + before.sum(axis=0), len(squares) - before.sum(axis=1)], axis=1)


def steadied(margins: Margins) -> Array:
    r"""Distances (N,) whose inverse says something, those near zero too.

    .. math:: \bar W_i = \sqrt{E\,|W_i^2 + s_i Z|}, \qquad Z \sim N(0, 1)

    with ``s`` the standard error of the square: the distance itself where it is well above its
    error, and the error where it is not.

    Parameters
    ----------
    margins
        Of N holders.

    Returns
    -------
    numpy.ndarray
        Shape (N,).

    Examples
    --------
    >>> import numpy as np
    >>> steadied(Margins(np.array([0.0, 4.0]), np.ones(2), np.ones(2))).round(2)
    array([0.64, 2.  ])
    """
    error = (margins.below + margins.above) / (2.0 * _MARGIN)
    ratio = np.divide(margins.squares, error, out=np.full(len(error), np.inf), where=error > 0)
    folded = error * (2.0 / np.pi) ** 0.5 * np.exp(-0.5 * ratio**2)
    return np.sqrt(folded + margins.squares * erf(ratio / 2.0**0.5))


@dataclass(frozen=True)
class DrawnShares:
    """Shares under the sampling error of the distances.

    Ends of 95 % intervals (N, 2).
    """

    inverse_intervals: Array
    explained_intervals: Array
    explained_share_intervals: Array


def drawn_shares(names: Sequence[str], margins: Margins, spread: float) -> DrawnShares:
    """Shares of holders whose squared distances are drawn around what is known of them.

    Each holder's draws depend on its name alone, so that the order of holders changes nothing.

    Parameters
    ----------
    names
        Of N holders.
    margins
        Their squared distances.
    spread
        Unit of the explained part.

    Returns
    -------
    DrawnShares

    Examples
    --------
    >>> import numpy as np
    >>> alike = Margins(np.array([1.0, 1.0]), np.zeros(2), np.zeros(2))
    >>> drawn_shares(["a", "b"], alike, 2.0).inverse_intervals
    array([[0.5, 0.5],
           [0.5, 0.5]])
    """
    drawn = np.empty((_DRAWS, len(names)))
    for k, name in enumerate(names):
        rng = np.random.default_rng([len(name), *name.encode()])
        normal = rng.standard_normal(_DRAWS) / _MARGIN
        scale = np.where(normal > 0, margins.above[k], margins.below[k])
        # A square below zero is as likely as one above: chance alone.
        drawn[:, k] = np.sqrt(np.abs(margins.squares[k] + scale * normal))
    nearest = drawn.min(axis=1, keepdims=True)
    zero = nearest == 0
    safe = np.where(drawn > 0, drawn, 1.0)
    inverse = np.where(zero, drawn == 0, np.where(zero, 1.0, nearest) / safe)
    inverse = inverse / inverse.sum(axis=1, keepdims=True)
    parts = np.stack([explained(row, spread) for row in drawn])
    shares = np.stack([explained_shares(row) for row in parts])
    return DrawnShares(_between(inverse), _between(parts), _between(shares))


def _between(drawn: Array) -> Array:
    return np.quantile(drawn, [0.025, 0.975], axis=0).T
