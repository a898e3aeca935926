"""The verdict of ``two_sample`` on two releases: noisy counts of the same public cells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ._check import Array, Index, as_points, integer, interval
from ._features import Family, build_families
from .errors import InputError
from .two_sample import (
    FEWEST,
    Change,
    Decision,
    Gap,
    Shifting,
    TwoSampleResult,
    choose_columns,
    column_names,
    draw_by_data,
)

# Records that stand for the pooled distribution where features of it are computed.
_RECORDS = 4000


@dataclass(frozen=True, eq=False)
class Releases:
    """Noisy counts (k, S) of the same cells (S, d), and the standard deviation of their noise.

    ``spread`` (d,) are standard deviations of the records' columns, where they are known.
    """

    cells: Array
    counts: Array
    noise: Array
    spread: Array | None = None

    @classmethod
    def of(
        cls, cells: npt.ArrayLike, counts: Sequence[npt.ArrayLike], noise: Sequence[float],
        spread: npt.ArrayLike | None = None,
    ) -> Self:  # fmt: skip
        """Check cells, counts and noise."""
        points = as_points(cells, "cells")
        table = as_points([np.asarray(row, dtype=np.float64).ravel() for row in counts], "counts")
        if table.shape[1] != len(points):
            raise InputError(
                f"there are {table.shape[1]} counts for {len(points)} cells. Give one per cell.",
                code="measure-shape",
            )
        deviations = np.asarray(noise, dtype=np.float64)
        if deviations.shape != (len(table),) or not (deviations >= 0).all():
            raise InputError(
                f"noise is {noise!r}; one standard deviation of zero or more is needed for each of "
                f"{len(table)} histograms.",
                code="option-noise",
            )
        if spread is None:
            return cls(points, table, deviations)
        scales = np.asarray(spread, dtype=np.float64)
        if scales.shape != (points.shape[1],) or not (scales >= 0).all():
            raise InputError(
                f"spread has the shape {scales.shape}; one standard deviation of zero or more is "
                f"needed for each of {points.shape[1]} columns.",
                code="measure-shape",
            )
        return cls(points, table, deviations, scales)

    def take(self, members: Sequence[int]) -> Releases:
        """Return some of them."""
        chosen = list(members)
        return Releases(self.cells, self.counts[chosen], self.noise[chosen], self.spread)

    def add(self, members: Sequence[int]) -> tuple[Array, float]:
        """Add the counts of some of them, and their noise."""
        chosen = list(members)
        return self.counts[chosen].sum(axis=0), float(np.linalg.norm(self.noise[chosen]))

    @property
    def untestable(self) -> str:
        """Why they cannot be tested; empty where they can."""
        few = min(self.sizes)
        return f"a release counts {few} records; {FEWEST} are needed" if few < FEWEST else ""

    @property
    def sizes(self) -> tuple[int, ...]:
        """Numbers of records, as the counts say."""
        return tuple(max(round(float(total)), 1) for total in self.counts.sum(axis=1))

    def pooled(self) -> Array:
        """Estimate the shares of the cells in all together: the projection on the simplex.

        It takes away again what noise adds to counts of cells without records.
        """
        total = self.counts.sum(axis=0)
        mass = max(float(total.sum()), 1.0)
        falling = np.sort(total)[::-1]
        excess = (np.cumsum(falling) - mass) / np.arange(1, len(falling) + 1)
        cut = excess[np.flatnonzero(falling > excess)[-1]]
        shares = np.maximum(total - cut, 0.0)
        return shares / shares.sum()

    def draw(self, shares: Array, draws: int, rng: Generator) -> Array:
        """Draw shares (1 + B, k, S) of releases of one distribution, the observed ones first."""
        drawn = np.empty((1 + draws, *self.counts.shape))
        drawn[0] = self.counts
        for k, (size, deviation) in enumerate(zip(self.sizes, self.noise, strict=True)):
            drawn[1:, k] = rng.multinomial(size, shares, draws)
            drawn[1:, k] += rng.normal(scale=deviation, size=drawn[1:, k].shape)
        return drawn / np.maximum(drawn.sum(axis=2, keepdims=True), 1.0)

    def families(self, shares: Array, seed: int) -> tuple[Mapping[str, Family], Array]:
        """Compute the features of each cell (S, F), and records that stand for all (n, d)."""
        times = np.round(shares * _RECORDS).astype(int) + 1
        records = np.repeat(self.cells, times, axis=0)
        first = np.cumsum(times) - times
        families = build_families(records, np.ones(len(records)), None, 1, seed, of_cells=True)
        return {
            name: Family(family.kind, family.values[first], family.owners, family.names)
            for name, family in families.items()
        }, records


def two_histograms(
    cells: npt.ArrayLike,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_noise: float = 0.0,
    y_noise: float = 0.0,
    columns: Sequence[str] | None = None,
    level: float = 0.05,
    permutations: int = 199,
    spread: npt.ArrayLike | None = None,
    detectable: bool = True,
    seed: int = 0,
) -> TwoSampleResult:
    """Test whether noisy counts of the same cells are of samples of one distribution.

    No record can be divided again. Counts are drawn from the pooled shares of the cells instead,
    noise is added, and differences of mean features are compared as in ``two_sample``: a
    parametric bootstrap.

    Parameters
    ----------
    cells
        Places of the cells (S, d), public.
    x, y
        Counts (S,) of two samples, with noise.
    x_noise, y_noise
        Standard deviation of the noise of a count.
    spread
        Standard deviations (d,) of the columns of the records that were counted, if cells are
        means of several: records scatter around them, and shifts move fewer into other cells.
    columns, level, permutations, detectable, seed
        As of ``two_sample``; ``permutations`` are draws.

    Raises
    ------
    InputError, MismatchError
        Cells, counts or noise that do not fit; options out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from silot_transport import two_histograms
    >>> cells = np.arange(5.0)[:, None]
    >>> two_histograms(cells, [90, 80, 60, 40, 30], [30, 40, 60, 80, 90], x_noise=5.0,
    ...                y_noise=5.0, columns=["age"]).drivers
    ('age',)
    """
    level = interval(level, "level", "option-level")
    permutations = integer(permutations, "permutations", "option-permutations", least=19)
    releases = Releases.of(cells, [x, y], [x_noise, y_noise], spread)
    names = column_names(columns, releases.cells.shape[1])
    sizes = (releases.sizes[0], releases.sizes[1])
    if releases.untestable:
        return TwoSampleResult.of_untestable(releases.untestable, level, sizes)
    seed = integer(seed, "seed", "option-seed", least=0, most=2**63)
    rng = draw_by_data([releases.counts], seed, 3)
    shares = releases.pooled()
    drawn = releases.draw(shares, permutations, rng)
    families, records = releases.families(shares, seed)
    difference = drawn[:, 0] - drawn[:, 1]
    gaps: dict[str, Gap] = {}
    for name, family in families.items():
        gap = difference @ family.values
        gaps[name] = (family, gap, gap[1:].std(axis=0, ddof=1))
    decision = Decision.of(gaps, len(names), level)
    shift = np.inf
    if detectable:
        varying = choose_columns(records)
        shifted = _Tilted.of(releases, shares, difference, gaps, varying)
        shift = decision.bar.find_detectable(gaps, varying, [shifted])
    changes = _describe(releases.cells, drawn)
    return decision.result(names, [], shift, changes, sizes)


@dataclass(frozen=True, eq=False)
class _Tilted(Shifting):
    """Shares of cells, as they would be if records had moved along a column.

    By exponential tilting: for normal records it is the shift of their mean.
    """

    shares: Array
    """Of the cells (S,)."""
    values: Array
    """Of some columns, at the cells (S, k)."""
    spread: Array
    """Standard deviations of the records in these columns (k,)."""
    unit: Array
    """Standard errors of a difference of means over the cells (k,)."""
    features: Array
    """Of each column, at the cells (k, S, F)."""
    errors: Array
    """Standard errors of a difference of their means (k, F)."""

    @classmethod
    def of(
        cls, releases: Releases, shares: Array, difference: Array, gaps: Mapping[str, Gap],
        columns: Index,
    ) -> Self:  # fmt: skip
        """Pick the features of columns (k,), and measure what draws of one distribution give."""
        values = releases.cells[:, columns]
        # Scaled, since squares of the smallest numbers are zero.
        size = np.maximum(np.abs(values).max(axis=0), np.finfo(float).tiny)
        values = values / size
        within = (shares @ (values - shares @ values) ** 2) ** 0.5
        # Cells are means of records: their spread is the smaller one.
        scales = within if releases.spread is None else releases.spread[columns] / size
        features, errors = list[Array](), list[Array]()
        for name in ("mean", "shape", "tails"):
            family, _, error = gaps[name]
            own = np.array([np.flatnonzero(family.owners == column) for column in columns])
            features.append(np.moveaxis(family.values[:, own], 0, 1))
            errors.append(error[own])
        return cls(
            shares, values, np.maximum(scales, within), (difference[1:] @ values).std(axis=0),
            np.concatenate(features, axis=2), np.concatenate(errors, axis=1),
        )  # fmt: skip

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        return (self.spread > 0) & (self.unit > 0)

    def by(self, columns: Index, errors: Array) -> tuple[Array, Array, Array]:
        spread = np.where(self.varies, self.spread, 1.0)[columns]
        values = self.values[:, columns]
        middle = self.shares @ values
        variance = self.shares @ (values - middle) ** 2
        # A shift of records moves the mean over cells by the part that is between cells.
        shifts = errors * self.unit[columns] * spread / np.where(variance > 0, variance, 1.0)
        powers = (values - middle) * (shifts / spread)
        tilted = self.shares[:, None] * np.exp(powers - powers.max(axis=0))
        tilted /= tilted.sum(axis=0)
        effect = np.einsum("sk,ksf->kf", tilted - self.shares[:, None], self.features[columns])
        return shifts, effect, self.errors[columns]


def _describe(cells: Array, drawn: Array) -> list[Change]:
    """Describe the shift of each column by means over the cells."""
    means = drawn @ cells
    shifts = means[:, 1] - means[:, 0]
    margins = 1.96 * shifts[1:].std(axis=0)
    squares = np.maximum(drawn[0] @ cells**2 - means[0] ** 2, 0.0) ** 0.5
    ratios = np.where(squares[0] > 0, squares[1] / np.where(squares[0] > 0, squares[0], 1), np.nan)
    return [
        (float(shift), (float(shift - margin), float(shift + margin)), float(ratio))
        for shift, margin, ratio in zip(shifts[0], margins, ratios, strict=True)
    ]
