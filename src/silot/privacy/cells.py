"""Cells of a public distribution, in which a sketch counts records, without private data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array, as_points, integer, real

from ..errors import InputError, MismatchError

Codes = npt.NDArray[np.int64]

FEWEST_CELLS, MOST_CELLS = 8, 128
"""Cells of a sketch: below, it tells little; above, noise tells more than records."""
FEWEST_PUBLIC = 3 * FEWEST_CELLS
# Records drawn where there is no public sample: three for each of the most cells, and then some.
_DRAWN = 1024
# Rows of a block of squared distances: its 128 columns stay in the cache.
_BLOCK = 1024
# Bits of public numbers that holders are asked about.
_BITS = 26


@dataclass(frozen=True, eq=False)
class Cells:
    """Public geometry of a sketch.

    Attributes
    ----------
    centres
        Shape (S, d). A record belongs to the nearest.
    radius
        Length offsets from a centre are clipped to.
    radius2
        Length above which a squared offset counts no more.
    weights
        Part of the public distribution in each cell (S,).
    covariance
        Covariance of the public distribution within cells (d, d).
    drawn
        Whether the public distribution was assumed (no sample was given).
    fitted
        Whether the centres are those of a sample, and nearer to it than to other records.
    """

    centres: Array = field(repr=False)
    radius: float
    radius2: float
    weights: Array = field(repr=False)
    covariance: Array = field(repr=False)
    drawn: bool = False
    fitted: bool = True

    @classmethod
    def of_sample(
        cls, public: npt.ArrayLike, size: int, seed: int = 0, *, drawn: bool = False
    ) -> Cells:
        """Build cells of a public sample, with the centres of k-means.

        Parameters
        ----------
        public
            Public records, shape (m, d): of the distribution holders' records come from, and of no
            holder.
        size
            Cells S, at most m / 3 and at most the distinct records.
        seed
            Of k-means. The same sample, size and seed give the same cells.
        drawn
            Whether the sample was drawn from an assumed distribution.

        Raises
        ------
        InputError
            Fewer than 24 public records, or all of them the same.

        Examples
        --------
        >>> import numpy as np
        >>> sample = np.random.default_rng(0).normal(size=(400, 3))
        >>> Cells.of_sample(sample, 16).centres.shape
        (16, 3)
        """
        points = public_points(public)
        # Far from the origin squared distances lose their digits.
        middle = points.mean(axis=0)
        near = points - middle
        distinct = np.unique(near, axis=0)
        if len(distinct) < 2:
            raise InputError(
                "all public records are equal, so they show no scale. Give public records "
                "that are distributed as the holders' records.",
                code="public-constant",
            )
        # Fewer than three public records a cell would tell nothing of the scatter within cells.
        count = min(integer(size, "size", "option-size"), len(points) // 3, len(distinct))
        centres, codes = cluster_points(near, count, seed)
        offsets = near - centres[codes]
        # Centres are fitted to these records, so those of holders lie a little further away.
        radius = _portable(1.2 * _reach(offsets, centres))
        # Holders are asked about them, and other machines must ask the very same.
        step = 2.0 ** (np.frexp(np.abs(near).max())[1] - _BITS)
        return cls(
            centres=np.rint((centres + middle) / step) * step,
            radius=radius,
            # Squares are clipped later than offsets: the scatter tells of records further out.
            radius2=2.0 * radius,
            weights=np.bincount(codes, minlength=count) / len(points),
            covariance=offsets.T @ offsets / len(points),
            drawn=drawn,
        )

    @property
    def size(self) -> int:
        """Number of cells."""
        return len(self.centres)

    @property
    def dimension(self) -> int:
        """Number of features."""
        return int(self.centres.shape[1])


def _portable(value: float) -> float:
    """Drop the last bits of a number: those of sums differ between machines."""
    mantissa, exponent = np.frexp(value)
    return float(np.ldexp(np.rint(mantissa * 2.0**_BITS), exponent - _BITS))


def public_points(public: npt.ArrayLike) -> Array:
    """Check public records and return them as an array (m, d); too few are an ``InputError``."""
    points = as_points(public, "public")
    if len(points) < FEWEST_PUBLIC:
        raise InputError(
            f"{len(points)} public records are given; {FEWEST_PUBLIC} at least are needed, 400 "
            "for a good sketch.",
            code="public-few",
        )
    return points


def draw_sample(mean: npt.ArrayLike | None, scale: npt.ArrayLike | None, seed: int) -> Array:
    """Draw records of a normal distribution that stand for a public sample."""
    if mean is None or scale is None:
        raise InputError(
            "a sketch needs public knowledge about the records. Give public= (--public), "
            "records that belong to no holder; in Python also public_mean= and "
            "public_scale=, one number for each feature.",
            code="public-absent",
        )
    middle, spread = public_law(mean, scale)
    # A stream of its own, as users draw their data from default_rng(seed) too.
    rng = np.random.default_rng([seed, 11])
    return middle + spread * rng.standard_normal((_DRAWN, len(middle)))


def public_law(mean: npt.ArrayLike, scale: npt.ArrayLike) -> tuple[Array, Array]:
    """Check the public mean and standard deviation of every feature (d,)."""
    middle, spread = _vector(mean, "public_mean"), _vector(scale, "public_scale")
    if len(middle) > 1 and len(spread) > 1 and len(middle) != len(spread):
        raise MismatchError(
            f"public_mean has {len(middle)} features and public_scale {len(spread)}.",
            code="dimension-mismatch",
        )
    if not (spread > 0).all():
        raise InputError("public_scale must be positive in every feature.", code="public-scale")
    width = max(len(middle), len(spread))
    return np.broadcast_to(middle, width).copy(), np.broadcast_to(spread, width).copy()


def _vector(value: npt.ArrayLike, name: str) -> Array:
    array = np.atleast_1d(np.asarray(value))
    if array.ndim != 1:
        raise InputError(f"{name} has shape {array.shape}; give one number for each feature.",
                         code="public-shape")  # fmt: skip
    return np.array([real(item, name, "public-shape") for item in array.tolist()])


def cluster_points(
    points: Array, size: int, seed: int, weights: Array | None = None
) -> tuple[Array, Codes]:
    """Find centres (S, d) by k-means, and the nearest centre of each point (n,)."""
    # Slow to import.
    from sklearn.cluster import KMeans
    from threadpoolctl import threadpool_limits

    fit: Any = KMeans(n_clusters=size, random_state=seed, n_init=cast("Any", 1))
    # Threads add in an order of their own, which moves the last bits of the centres.
    with threadpool_limits(1):
        fit.fit(points, sample_weight=weights)
    centres = np.asarray(fit.cluster_centers_, dtype=np.float64)
    # By the rule holders go by, not by that of k-means: ties may differ.
    codes, _ = nearest(points, centres)
    return centres, codes


def _reach(offsets: Array, centres: Array) -> float:
    """Return a length above 0 that nearly all public offsets stay below."""
    lengths = np.linalg.norm(offsets, axis=1)
    # Lengths below this part of the centres are rounding errors, and no radius.
    for reach in (float(np.quantile(lengths, 0.95)), float(lengths.max())):
        if reach > 1e-12 * float(np.abs(centres).max()):
            return reach
    # Few distinct values, each a cell of its own: half the way to the next.
    _, gaps = nearest(centres[1:], centres[:1])
    return 0.5 * float(np.sqrt(np.median(gaps)))


def nearest(points: Array, centres: Array) -> tuple[Codes, Array]:
    """Find the nearest centre of every record (n,), and the squared distance to it (n,).

    Only sums, differences and products of single numbers, in a fixed order: the cell of a record
    depends on no other record, not even by the rounding that a matrix product of another shape
    would bring. The sensitivity of a sketch rests on it.
    """
    codes = np.empty(len(points), dtype=np.int64)
    squares = np.empty(len(points))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(points), _BLOCK):
            block = points[start : start + _BLOCK]
            total = np.zeros((len(block), len(centres)))
            apart = np.empty_like(total)
            for column in range(points.shape[1]):
                np.subtract(block[:, column, None], centres[None, :, column], out=apart)
                np.multiply(apart, apart, out=apart)
                np.add(total, apart, out=total)
            places = total.argmin(axis=1)
            codes[start : start + _BLOCK] = places
            squares[start : start + _BLOCK] = total[np.arange(len(block)), places]
    return codes, squares
