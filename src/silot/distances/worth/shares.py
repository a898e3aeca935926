"""Shares and ranks of holders from their distances, with what sampling errors leave open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from silot_transport._check import Array
from silot_transport.resampling import MOST_TAILS

from ...errors import InputError, WireError
from ...federation.answer import Answer
from ..result import Distance
from .result import Contribution

Ranks = npt.NDArray[np.int64]

# Distances this close are one rank: rounding must not rank holders.
_TIE = 1e-9


def inverse_shares(distances: npt.ArrayLike) -> Array:
    r"""Shares in proportion to the inverse distance.

    .. math:: s_i = \frac{1 / W_i}{\sum_j 1 / W_j}

    Parameters
    ----------
    distances
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,), summing to 1. Holders at distance zero, if any, share everything equally.

    Raises
    ------
    InputError
        Negative or infinite distances.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, sec. 5.1. Two samples
    of one law are never at distance zero, so shares are pulled towards 1 / N the more the fewer
    records there are: use ``explained_shares`` to compare markets.

    Examples
    --------
    >>> inverse_shares([1.0, 3.0])
    array([0.75, 0.25])
    """
    values = _as_distances(distances)
    nearest = float(values.min())
    if nearest == 0:
        zero = values == 0
        return zero / zero.sum()
    inverse = nearest / values
    return inverse / inverse.sum()


def explained(distances: npt.ArrayLike, spread: float) -> Array:
    r"""How much of the target's spread the holder's data explain.

    .. math:: e_i = \max(0,\ 1 - W_i^2 / V^2)

    with ``V`` the distance of the target to its own mean. It has no unit and does not depend on
    how many holders there are or on the scale of the features.

    Parameters
    ----------
    distances
        Shape (N,), zero or more.
    spread
        ``V``, zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,), between 0 (no better than the mean of the target) and 1 (a copy of it).

    Raises
    ------
    InputError
        Negative or infinite numbers.

    Examples
    --------
    >>> explained([0.0, 1.0, 5.0], 2.0)
    array([1.  , 0.75, 0.  ])
    """
    values = _as_distances(distances)
    if not np.isfinite(spread) or spread < 0:
        raise InputError(f"spread is {spread!r}; zero or more is needed.", code="valuation-spread")
    if spread == 0:
        return (values == 0).astype(np.float64)
    return np.maximum(1.0 - (values / spread) ** 2, 0.0)


def explained_shares(parts: npt.ArrayLike) -> Array:
    """Parts that sum to 1; equal parts when all are zero.

    Parameters
    ----------
    parts
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,).

    Raises
    ------
    InputError
        Negative or infinite parts.

    Examples
    --------
    >>> explained_shares([0.5, 0.0])
    array([1., 0.])
    """
    values = _as_distances(parts)
    total = float(values.sum())
    return values / total if total > 0 else np.full(len(values), 1.0 / len(values))


def ranks(distances: npt.ArrayLike) -> Ranks:
    """Rank of every distance, 1 for the smallest; equal ones share a rank.

    Parameters
    ----------
    distances
        Shape (N,), zero or more.

    Returns
    -------
    numpy.ndarray
        Shape (N,) of integers.

    Raises
    ------
    InputError
        Negative or infinite distances.

    Examples
    --------
    >>> ranks([2.0, 1.0, 2.0])
    array([2, 1, 2])
    """
    values = _as_distances(distances)
    order = np.argsort(values, kind="stable")
    found = np.empty(len(values), dtype=np.int64)
    rank, last = 0, -np.inf
    for place, index in enumerate(order.tolist(), start=1):
        if values[index] > last + _TIE * max(float(values[index]), 0.0):
            rank = place
            last = float(values[index])
        found[index] = rank
    return found


def _as_distances(distances: npt.ArrayLike) -> Array:
    values = np.asarray(distances, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values.min() < 0:
        raise InputError(
            "distances must be one finite number of zero or more for each holder.",
            code="valuation-distances",
        )
    return values


# Its square does not overflow.
_LARGEST = 1e150


@dataclass(frozen=True)
class Sampled:
    """A distance without the bias of few records, and the ends of its interval."""

    corrected: float
    low: float
    high: float

    @classmethod
    def told(cls, answer: Answer) -> Sampled | None:
        """As a holder told it, with the room of rounded numbers; ``None`` if it did not."""
        corrected = answer.optional_number("corrected")
        margin = answer.optional_number("margin")
        if corrected is None or margin is None:
            return None
        rounded = "step_corrected" in answer.scalars
        half = answer.rounding("corrected") if rounded else 0.0
        if rounded:
            margin += answer.rounding("margin")
        tails = answer.optional_number("tails") or 0.0
        if tails not in range(MOST_TAILS + 1):
            raise WireError(
                f"the answer doubles a margin {tails:g} times. The holder runs other code, or a "
                "broken one.",
                code="answer-malformed",
            )
        margin *= 2.0**tails
        if max(corrected, margin) > _LARGEST:
            raise WireError(
                "the answer has an error that is too large. The holder runs other code, or a "
                "broken one.",
                code="answer-malformed",
            )
        low = max(max(corrected - half, 0.0) ** 2 - margin, 0.0) ** 0.5
        high = ((corrected + half) ** 2 + margin) ** 0.5
        return cls(corrected, low, high)


def worth(
    distances: Mapping[str, Distance],
    sampled: Mapping[str, Sampled],
    spread: float,
    records: Mapping[str, int],
) -> tuple[Contribution, ...]:
    """Shares and ranks: of corrected distances where they are known, else of those told.

    A holder that told no error is ranked by its distance, and its rank is left open as far as
    that distance may be chance.
    """
    names = tuple(distances)
    values = np.array(
        [sampled[name].corrected if name in sampled else distances[name].value for name in names]
    )
    parts = explained(values, spread)
    shares, part_shares, order = inverse_shares(values), explained_shares(parts), ranks(values)
    items = tuple(
        Contribution(
            holder=name,
            distance=distances[name],
            share=float(shares[k]),
            explained=float(parts[k]),
            explained_share=float(part_shares[k]),
            rank=int(order[k]),
            records=records[name],
        )
        for k, name in enumerate(names)
    )
    return _with_intervals(items, values**2, sampled, spread) if sampled else items


def _with_intervals(
    items: Sequence[Contribution], squares: Array, sampled: Mapping[str, Sampled], spread: float
) -> tuple[Contribution, ...]:
    """The same with what errors of distances leave open; squares are those of the distances."""
    # Without a told error the whole square may be chance.
    ends = [
        sampled.get(each.holder, Sampled(0.0, 0.0, 2**0.5 * each.distance.value)) for each in items
    ]
    low, high = np.array([each.low for each in ends]), np.array([each.high for each in ends])
    margins = Margins(squares, np.maximum(squares - low**2, 0), np.maximum(high**2 - squares, 0))
    drawn = drawn_shares(tuple(item.holder for item in items), margins, spread)
    ranges = rank_ranges(margins)
    steady = inverse_shares(steadied(margins))
    open_items: list[Contribution] = []
    for k, item in enumerate(items):
        told = sampled.get(item.holder)
        open_items.append(
            replace(
                item,
                share=float(steady[k]),
                corrected=None if told is None else told.corrected,
                interval=None if told is None else (told.low, told.high),
                ranks=(int(ranges[k, 0]), int(ranges[k, 1])),
                share_interval=_pair(drawn.inverse_intervals[k]),
                explained_interval=_pair(drawn.explained_intervals[k]),
                explained_share_interval=_pair(drawn.explained_share_intervals[k]),
            )
        )
    return tuple(open_items)


def _pair(ends: np.ndarray) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


_DRAWS = 2000
# A margin is that of a 95 % interval.
_MARGIN = 1.959964


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
