"""Shares and ranks of holders, by distance or utility, with what sampling errors leave open."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from silot_transport._check import Array

from ...errors import InputError
from ...federation.answer import Answer, build_malformed_error
from ..result import Distance
from .result import Contribution, Contributions, Utility

Ranks = npt.NDArray[np.int64]

# Distances and squares whose ratio is this close to 1 are equal: rounding must not rank holders.
_TIE = 1e-9
# Draws behind the ends of intervals: enough for two digits of a 2.5 % quantile.
_DRAWS = 2000
# A margin is that of a 95 % interval.
_MARGIN = 1.959964
# Its square does not overflow.
_LARGEST = 1e150
# Holders whose sizes differ by much more than this factor have biases of their own.
_ALIKE = 1.1


def compute_inverse_shares(distances: npt.ArrayLike) -> Array:
    r"""Compute shares (N,) in proportion to the inverse of N distances.

    .. math:: s_i = \frac{1 / W_i}{\sum_j 1 / W_j}

    They sum to 1. Holders at distance zero, if any, share everything equally. Negative or infinite
    distances are an ``InputError``.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, sec. 5.1. Two samples
    of one distribution are never at distance zero, so shares are pulled towards 1 / N the more the
    fewer records there are.

    Examples
    --------
    >>> compute_inverse_shares([1.0, 3.0])
    array([0.75, 0.25])
    """
    values = _check_distances(distances)
    # Divided by the smallest: the inverse of a tiny distance overflows.
    nearest = float(values.min())
    # The limit of the formula: a copy of the target outweighs any other data infinitely.
    if nearest == 0:
        zero = values == 0
        return zero / zero.sum()
    inverse = nearest / values
    return inverse / inverse.sum()


def compute_explained(distances: npt.ArrayLike, spread: float) -> Array:
    r"""Compute how much of the target's spread the data of each of N holders explain.

    .. math:: e_i = \max(0,\ 1 - W_i^2 / V^2)

    with ``V``, the ``spread``, the distance of the target to its own mean: 0 for data no better
    than that mean, 1 for a copy of the target. It has no unit and does not depend on the number of
    holders or on the scale of the features. Negative or infinite numbers are an ``InputError``.

    Examples
    --------
    >>> compute_explained([0.0, 1.0, 5.0], 2.0)
    array([1.  , 0.75, 0.  ])
    """
    values = _check_distances(distances)
    if not np.isfinite(spread) or spread < 0:
        raise InputError(f"spread is {spread!r}; zero or more is needed.", code="valuation-spread")
    # A target of a single place has nothing to explain, but for data that are that place.
    if spread == 0:
        return (values == 0).astype(np.float64)
    return np.maximum(1.0 - (values / spread) ** 2, 0.0)


def normalize_parts(parts: Array) -> Array:
    """Divide what is positive of numbers (N,) by its sum; equal parts when nothing is.

    Examples
    --------
    >>> normalize_parts(np.array([0.5, 0.0, -1.0]))
    array([1., 0., 0.])
    """
    values = np.maximum(parts, 0.0)
    total = float(values.sum())
    return values / total if total > 0 else np.full(len(values), 1.0 / len(values))


def rank(distances: npt.ArrayLike) -> Ranks:
    """Rank distances (N,) from 1 for the smallest; equal ones share a rank.

    Examples
    --------
    >>> rank([2.0, 1.0, 2.0])
    array([2, 1, 2])
    """
    values = _check_distances(distances)
    order = np.argsort(values, kind="stable")
    ranks = np.empty(len(values), dtype=np.int64)
    current, last = 0, -np.inf
    for place, index in enumerate(order.tolist(), start=1):
        # Compared with the first of the holders that share a rank: a chain of near ties must not
        # make equal what is apart.
        if values[index] > last + _TIE * max(float(values[index]), 0.0):
            current = place
            last = float(values[index])
        ranks[index] = current
    return ranks


def _check_distances(distances: npt.ArrayLike) -> Array:
    values = np.asarray(distances, dtype=np.float64)
    if values.ndim != 1 or len(values) == 0 or not np.isfinite(values).all() or values.min() < 0:
        raise InputError(
            "distances must be one finite number of zero or more for each holder.",
            code="valuation-distances",
        )
    return values


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


def bound_ranks(margins: Margins) -> Ranks:
    r"""Compute the smallest and largest rank (N, 2) that sampling leaves open to each holder.

    Holder i is before j when

    .. math:: W_j^2 - W_i^2 > \sqrt{u_i^2 + l_j^2}

    with the margins ``u`` above and ``l`` below; else the two are tied. Pair by pair at 95 %.

    Notes
    -----
    Donner and Zou, 2002: the interval of a difference from the intervals of both sides.

    Examples
    --------
    >>> import numpy as np
    >>> wide = np.array([1.0, 1.0, 1.0])
    >>> bound_ranks(Margins(np.array([4.0, 4.5, 9.0]), wide, wide)).tolist()
    [[1, 2], [1, 2], [3, 3]]
    """
    squares = margins.squares
    # Errors of two holders are independent, for their records are: squares of margins add.
    room = np.sqrt(margins.above[:, None] ** 2 + margins.below[None] ** 2)
    room = np.maximum(room, _TIE * np.maximum(squares[:, None], squares[None]))
    before = squares[None] - squares[:, None] > room
    # The best rank is after all that are surely before, the worst is before all that are surely
    # after.
    return np.stack([1 + before.sum(axis=0), len(squares) - before.sum(axis=1)], axis=1)


def steady_distances(margins: Margins) -> Array:
    r"""Compute distances (N,) whose inverse is meaningful near zero too.

    .. math:: \bar W_i = \sqrt{E\,|W_i^2 + s_i Z|}, \qquad Z \sim N(0, 1)

    with ``s`` the standard error of the square: the distance itself where it is well above its
    error, and the error where it is not.

    Examples
    --------
    >>> import numpy as np
    >>> steady_distances(Margins(np.array([0.0, 4.0]), np.ones(2), np.ones(2))).round(2)
    array([0.64, 2.  ])
    """
    # One standard error for both sides: the mean of the two, as quantiles of a normal one.
    error = (margins.below + margins.above) / (2.0 * _MARGIN)
    ratio = np.divide(margins.squares, error, out=np.full(len(error), np.inf), where=error > 0)
    # The mean of a folded normal variable.
    folded = error * (2.0 / np.pi) ** 0.5 * np.exp(-0.5 * ratio**2)
    return np.sqrt(folded + margins.squares * erf(ratio / 2.0**0.5))


def draw_shares(
    names: Sequence[str], margins: Margins, shares: Callable[[Array], Array]
) -> tuple[tuple[float, float], ...]:
    """Draw numbers of N holders within their margins; return 95 % intervals of shares.

    The draws of each holder depend on its name alone, so that the order of holders changes
    nothing.

    Examples
    --------
    >>> import numpy as np
    >>> alike = Margins(np.array([1.0, 1.0]), np.zeros(2), np.zeros(2))
    >>> draw_shares(["a", "b"], alike, normalize_parts)
    ((0.5, 0.5), (0.5, 0.5))
    """
    drawn = np.empty((_DRAWS, len(names)))
    for k, name in enumerate(names):
        # Seeded by the name; its length keeps names apart that differ in zero bytes at their end.
        rng = np.random.default_rng([len(name), *name.encode()])
        normal = rng.standard_normal(_DRAWS) / _MARGIN
        # Margins above and below differ: each half of the normal distribution has its own.
        scale = np.where(normal > 0, margins.above[k], margins.below[k])
        drawn[:, k] = margins.squares[k] + scale * normal
    low, high = np.quantile([shares(row) for row in drawn], [0.025, 0.975], axis=0).tolist()
    return tuple(zip(low, high, strict=True))


@dataclass(frozen=True)
class Sampled:
    """A distance without the bias of few records, and the ends of its interval."""

    corrected: float
    low: float
    high: float
    is_approximate: bool = False
    size: float = 1.0
    """How many records it is of, as far as they count alike and are not copies."""

    @classmethod
    def of(cls, answer: Answer) -> Sampled | None:
        """Read what a holder sent; ``None`` where it sent no error."""
        corrected = answer.optional_number("corrected")
        margin = answer.optional_number("margin")
        if corrected is None or margin is None:
            return None
        # It is squared below.
        if max(corrected, margin) > _LARGEST:
            raise build_malformed_error("an error that is too large")
        low = max(corrected**2 - margin, 0.0) ** 0.5
        high = (corrected**2 + margin) ** 0.5
        return cls(corrected, low, high, answer.flag("approximate"), answer.number("size"))


def build_contributions(
    distances: Mapping[str, Distance],
    sampled: Mapping[str, Sampled],
    spread: float,
    records: Mapping[str, int],
) -> tuple[Contribution, ...]:
    """Compute shares and ranks from corrected distances, or from distances as they are.

    A holder that sent no error is ranked by its distance, and its rank is left open as far as
    that distance may be sampling noise.
    """
    names = tuple(distances)
    plain = np.array([distances[name].value for name in names])
    values = np.sqrt(_share_biases(names, plain, sampled))
    # Each holder's own: it does not change with who takes part.
    own = [sampled[name].corrected if name in sampled else distances[name].value for name in names]
    explained = compute_explained(own, spread)
    shares, published = compute_inverse_shares(values), compute_inverse_shares(plain)
    ranks = rank(values)
    items = tuple(
        Contribution(
            holder=name,
            distance=distances[name],
            share=float(shares[k]),
            fedbary_share=float(published[k]),
            explained=float(explained[k]),
            rank=int(ranks[k]),
            records=records[name],
        )
        for k, name in enumerate(names)
    )
    if sampled:
        return _add_intervals(items, values**2, sampled)
    if any(np.isfinite(distance.upper) for distance in distances.values()):
        return items
    # Estimates without bounds and intervals prove no order.
    return tuple(replace(item, ranks=(1, len(items))) for item in items)


def _share_biases(names: Sequence[str], plain: Array, sampled: Mapping[str, Sampled]) -> Array:
    """Compute squared distances (N,) without bias, one for holders of about the same size.

    Estimates of the bias vary more between such holders than the biases themselves. No square
    leaves the interval of its holder.
    """
    squares = plain**2
    own = np.array([k for k, name in enumerate(names) if name in sampled], dtype=np.int64)
    if not len(own):
        return squares
    ends = [sampled[name] for name in names if name in sampled]
    corrected, low, high = (
        np.array([getattr(end, what) for end in ends]) ** 2 for what in ("corrected", "low", "high")
    )
    sizes = np.array([end.size for end in ends])
    logs = np.log(np.maximum(sizes, 1.0)) / np.log(_ALIKE)
    alike = np.exp(-0.5 * (logs[:, None] - logs) ** 2)
    biases = alike @ (squares[own] - corrected) / alike.sum(axis=1)
    squares[own] = np.clip(squares[own] - biases, low, high)
    return squares


def _add_intervals(
    items: Sequence[Contribution], squares: Array, sampled: Mapping[str, Sampled]
) -> tuple[Contribution, ...]:
    """Add what errors of distances leave open; squares are those of the distances."""
    # Without an error of its own the full square of a distance may be sampling noise.
    ends = [
        sampled.get(item.holder, Sampled(0.0, 0.0, 2**0.5 * item.distance.value)) for item in items
    ]
    low, high = np.array([end.low for end in ends]), np.array([end.high for end in ends])
    margins = Margins(squares, np.maximum(squares - low**2, 0), np.maximum(high**2 - squares, 0))
    names = [item.holder for item in items]
    # A square below zero is sampling noise, as likely as one above zero.
    intervals = draw_shares(
        names, margins, lambda drawn: compute_inverse_shares(np.sqrt(np.abs(drawn)))
    )
    ranks = bound_ranks(margins).tolist()
    # The inverse of a distance near zero is mostly noise: shares are taken of what the distance is
    # on average within its error.
    steady = compute_inverse_shares(steady_distances(margins))
    open_items: list[Contribution] = []
    for k, item in enumerate(items):
        own = sampled.get(item.holder)
        open_items.append(
            replace(
                item,
                share=float(steady[k]),
                corrected=None if own is None else own.corrected,
                interval=None if own is None else (own.low, own.high),
                is_approximate=own is not None and own.is_approximate,
                ranks=(ranks[k][0], ranks[k][1]),
                share_interval=intervals[k],
            )
        )
    return tuple(open_items)


def rank_by_utility(worth: Contributions, utilities: Mapping[str, Utility]) -> Contributions:
    """Add utilities; ranks and shares are by them where every holder has one, and any is sure."""
    items = [replace(item, utility=utilities.get(item.holder)) for item in worth.holders]
    if not items or set(worth.names) - set(utilities):
        return replace(worth, holders=tuple(items))
    values = np.array([utilities[name].value for name in worth.names])
    errors = _MARGIN * np.array([utilities[name].error for name in worth.names])
    if (values <= errors).all():
        note = "no utility is clearly above 0: ranks and shares are by distance"
        return replace(worth, holders=tuple(items)).with_note(note)
    # As if they were squared distances: the most useful holder is at zero.
    behind = Margins(values.max() - values, errors, errors)
    ranks, bounds = rank(behind.squares), bound_ranks(behind).tolist()
    shares = normalize_parts(values)
    intervals = draw_shares(
        worth.names, behind, lambda drawn: normalize_parts(values.max() - drawn)
    )
    holders = tuple(
        replace(
            item,
            rank=int(ranks[k]),
            ranks=(bounds[k][0], bounds[k][1]),
            share=float(shares[k]),
            share_interval=intervals[k],
        )
        for k, item in enumerate(items)
    )
    return replace(worth, holders=holders).with_note("ranks and shares are by utility")
