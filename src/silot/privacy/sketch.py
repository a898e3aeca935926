"""Sketches of measures: the vector that a holder adds noise to, and how it is decoded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array

from .cells import Cells, nearest

Codes = npt.NDArray[np.int64]

RESOLUTION = 1024
"""Units of the integer grid in the largest contribution of a record."""

# Parts of a record's contribution that go to its cell, its offset and its squared offset; the
# best of a search over data sets and noise levels.
_PARTS = np.array([0.88, 0.40, 0.25]) / np.linalg.norm([0.88, 0.40, 0.25])


def parts(resolution: int) -> tuple[float, float, float]:
    """Return the largest contribution of a record to counts, offset and scatter, in units."""
    a, b, q = (float(resolution * part) for part in _PARTS)
    # Counts and scatter are rounded down record by record, so their largest contributions are
    # whole; offsets are rounded to the nearest, which ``sensitivity`` adds.
    return float(np.floor(a)), b, float(np.floor(q))


def sensitivity(dimension: int, resolution: int = RESOLUTION) -> float:
    r"""Bound how far one record moves ``encode``, in the Euclidean norm.

    .. math:: \Delta^2 = (Ka)^2 + (Kb + \sqrt d / 2)^2 + (Kq)^2

    A record adds to one count at most Ka. Its clipped offset, of length at most Kb, is rounded
    coordinate by coordinate, which moves it by at most half a unit in each of d coordinates. Its
    squared offset adds at most Kq. A record of mass m < 1 adds m times as much before rounding
    (counts and scatter are rounded down), so the same bounds hold.
    """
    a, b, q = (float(resolution * part) for part in _PARTS)
    # The last factor is room for the rounding of float64 in the clipped length.
    return float(np.sqrt(a**2 + (b + dimension**0.5 / 2.0) ** 2 + q**2) * (1.0 + 1e-9))


@dataclass(frozen=True, eq=False)
class Geometry:
    """What a holder needs of the cells: centres (S, d) and the two lengths offsets end at."""

    centres: Array = field(repr=False)
    radius: float
    radius2: float


def encode(
    points: Array,
    masses: Array,
    cells: Geometry | Cells,
    *,
    groups: Codes | None = None,
    count: int = 1,
    resolution: int = RESOLUTION,
) -> Codes:
    r"""Sketch records as whole numbers, before noise.

    With c the nearest centre of a record, u its offset from it and m its mass,

    .. math:: N_{gc} \mathrel{+}= \lfloor K a\, m \rfloor, \quad
              g \mathrel{+}= \mathrm{round}(K b\, m\, \mathrm{clip}(u, r) / r), \quad
              Q \mathrel{+}= \lfloor K q\, m \min(|u|^2, r_2^2) / r_2^2 \rfloor

    Parameters
    ----------
    points
        Records (n, d); one with a number that is not finite counts as its cell's centre.
    masses
        What each record counts for (n,), clipped to 0..1.
    cells
        Public geometry.
    groups, count
        Class of every record (n,), and how many classes there are.
    resolution
        K.

    Returns
    -------
    numpy.ndarray
        Shape (count S + d + 1,), int64: counts, class by class; offset; scatter.

    Examples
    --------
    >>> import numpy as np
    >>> cells = Cells.of_sample(np.random.default_rng(0).normal(size=(100, 2)), 8)
    >>> vector = encode(np.zeros((5, 2)), np.ones(5), cells)
    >>> vector.shape, int(vector[:8].sum()) // 5
    ((11,), 902)
    """
    a, b, q = parts(resolution)
    size, dimension = cells.centres.shape
    sound = np.asarray(np.isfinite(points).all(axis=1))
    clean = np.where(sound[:, None], points, cells.centres[0])
    # Masses below 0 or above 1 would exceed the sensitivity.
    share = np.clip(np.nan_to_num(masses, nan=0.0), 0.0, 1.0)
    codes, squares = nearest(clean, cells.centres)
    places = codes if groups is None else groups * size + codes
    counts = np.zeros(count * size, dtype=np.int64)
    # Rounded down: no record adds more than the sensitivity allows, whatever its mass.
    np.add.at(counts, places, np.floor(a * share).astype(np.int64))
    with np.errstate(over="ignore", invalid="ignore"):
        # A record so far away that its square overflows has no direction left: it adds none.
        length = np.sqrt(squares)
        scale = np.where(np.isfinite(length), b * share / np.maximum(length, cells.radius), 0.0)
        shift = np.zeros(dimension, dtype=np.int64)
        for column in range(dimension):
            apart = clean[:, column] - cells.centres[codes, column]
            moved = np.where(scale > 0, apart * scale, 0.0)
            shift[column] = np.rint(moved).astype(np.int64).sum()
        # Squared last: the square of a small radius may be 0, and 0 / 0 no number.
        far = np.minimum(length / cells.radius2, 1.0) ** 2
        scatter = np.floor(q * share * far).astype(np.int64).sum()
    return np.concatenate([counts, shift, [scatter]]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class Reading:
    """A sketch with its noise, in units of records.

    Attributes
    ----------
    counts
        Records by class and cell (C, S).
    shift
        Sum of clipped offsets (d,).
    scatter
        Sum of clipped squared offsets.
    count_noise, shift_noise, scatter_noise
        Standard deviations of the noise of one number.
    """

    counts: Array = field(repr=False)
    shift: Array = field(repr=False)
    scatter: float
    count_noise: float
    shift_noise: float
    scatter_noise: float

    @classmethod
    def of(
        cls,
        vector: npt.ArrayLike,
        cells: Cells,
        mu: float,
        *,
        count: int = 1,
        resolution: int = RESOLUTION,
    ) -> Reading:
        """Read a noisy ``encode``; ``mu`` infinite for one without noise."""
        a, b, q = parts(resolution)
        numbers = np.asarray(vector, dtype=np.float64)
        size, dimension = cells.centres.shape
        noise = sensitivity(dimension, resolution) / mu
        counts = numbers[: count * size].reshape(count, size) / a
        # Rounding down takes half a unit from each record on average.
        scatter = numbers[-1] + 0.5 * max(float(counts.sum()), 0.0)
        return cls(
            counts,
            numbers[count * size : -1] * cells.radius / b,
            float(scatter * cells.radius2**2 / q),
            noise / a,
            noise * cells.radius / b,
            noise * cells.radius2**2 / q,
        )


@dataclass(frozen=True, eq=False)
class Decoded:
    """Measure that is estimated from a sketch.

    Attributes
    ----------
    atoms
        One point a cell (S, d).
    weights
        Mass by class and cell (C, S), summing to 1.
    covariance
        Covariance within cells (d, d).
    records
        Estimated number of records, at least 1.
    """

    atoms: Array = field(repr=False)
    weights: Array = field(repr=False)
    covariance: Array = field(repr=False)
    records: float

    @property
    def scatter(self) -> float:
        """Squared distance of a record to its cell's atom, on average."""
        return float(np.trace(self.covariance))


def decode(reading: Reading, cells: Cells, prior: Array | None = None) -> Decoded:
    """Estimate a measure from a sketch with noise.

    Parameters
    ----------
    reading
        The sketch.
    cells
        Public geometry.
    prior
        Public masses by class and cell (C, S); ``None`` for those of the cells, in all classes
        alike.

    Returns
    -------
    Decoded
        Finite, and weights a probability, whatever the noise.
    """
    records = max(float(reading.counts.sum()), 1.0)
    weights = _shrunk_weights(reading, cells, prior, records)
    shift = _shrunk_shift(reading, cells, records)
    # Noise can take the mean square above the largest possible one, and below that of the mean.
    total = min(reading.scatter / records, cells.radius2**2)
    scatter = max(total - float(shift @ shift), 0.0)
    return Decoded(cells.centres + shift, weights, _covariance(scatter, cells), records)


def _shrunk_weights(reading: Reading, cells: Cells, prior: Array | None, records: float) -> Array:
    """Move noisy proportions towards public ones, as far as noise explains the difference."""
    shares = reading.counts / records
    if prior is None:
        prior = simplex(shares.sum(axis=1))[:, None] * cells.weights
    apart = shares - prior
    noise = apart.size * (reading.count_noise / records) ** 2
    return simplex(prior + _kept(float(np.sum(apart**2)), noise) * apart)


def _shrunk_shift(reading: Reading, cells: Cells, records: float) -> Array:
    mean = reading.shift / records
    noise = len(mean) * (reading.shift_noise / records) ** 2
    square = float(mean @ mean)
    kept = mean * _kept(square, noise)
    length = float(np.linalg.norm(kept))
    # Offsets are clipped to the radius, and so is their mean.
    return kept * min(1.0, cells.radius / length) if length > 0 else kept


def _kept(square: float, noise: float) -> float:
    """Estimate the part 0..1 of a vector that is not noise (James and Stein)."""
    return max(0.0, 1.0 - noise / square) if square > 0 else 0.0


def _covariance(scatter: float, cells: Cells) -> Array:
    """Scale the public covariance down to a scatter, or raise it in all directions alike."""
    dimension = len(cells.covariance)
    public = float(np.trace(cells.covariance))
    # The sketch has one number for the scatter: its directions are the public ones as far as they
    # reach, and what is more than they hold is spread evenly.
    if scatter <= public:
        return cells.covariance * (scatter / public)
    return cells.covariance + np.eye(dimension) * ((scatter - public) / dimension)


def simplex(values: Array) -> Array:
    """Project values onto the nearest probabilities, of the same shape."""
    # The Euclidean projection by sorting (Duchi et al., 2008, figure 1).
    flat = values.ravel()
    falling = np.sort(flat)[::-1]
    excess = np.cumsum(falling) - 1.0
    place = int(np.flatnonzero(falling - excess / np.arange(1, len(flat) + 1) > 0)[-1])
    projected = np.maximum(flat - excess[place] / (place + 1), 0.0)
    # Dividing removes what rounding of the threshold leaves of a sum other than 1.
    return (projected / projected.sum()).reshape(values.shape)
