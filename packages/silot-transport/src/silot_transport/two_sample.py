"""Whether two samples come from one distribution, which columns say so, and what would be seen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, cast

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ._check import Array, Index, as_points, as_weights, integer, interval, same_dimension
from ._features import (
    TINY,
    Codes,
    Family,
    build_families,
    column_features,
    p_value,
    score_largest,
    score_sums,
    sidak_count,
    two_sided,
)
from .errors import InputError, MismatchError

Verdict = Literal["different", "not distinguishable", "cannot be tested"]

# Blocks of the smaller sample, and how many times its size the larger one is thinned to: more adds
# hardly any power.
_BLOCKS, _RATIO = 500, 20
FEWEST = 5
"""Records without which a sample cannot be tested."""
# Columns whose detectable shift is computed, values up to which a column counts as discrete, and
# records of the pool that are shifted to measure what a shift does.
_SHIFTED, _DISCRETE, _RECORDS = 3, 10, 1_000
_TIED = 0.5
# Divisions of these records: about as many values in all, so that few records are divided oftener.
_VALUES, _DIVISIONS = 400, (2, 10)
# Columns whose histograms are kept, and their bins.
_DRAWN, _BINS = 6, 20
# Shifts that are tried, in standard errors of a difference of means; and the power that is named.
_SHIFTS = np.array([0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 12.0])
_POWER = 0.8

Change = tuple[float, tuple[float, float], float]


@dataclass(frozen=True)
class ColumnChange:
    """How one column differs between two samples.

    Attributes
    ----------
    name
        The column.
    p_value
        How often any column of two samples of one distribution would differ as clearly.
    shift
        Median of the second sample less that of the first, in units of the column; of columns with
        few values, means.
    shift_interval
        Where that difference lies in 95 % of cases.
    spread_ratio
        Interquartile range of the second sample over that of the first; of columns with few
        values, standard deviations. NaN where the first has none.
    """

    name: str
    p_value: float
    shift: float
    shift_interval: tuple[float, float]
    spread_ratio: float

    def called(self, name: str, unit: float) -> Self:
        """Return the same change of a column of another name, and another unit."""
        low, high = self.shift_interval
        return replace(
            self, name=name, shift=self.shift * unit, shift_interval=(low * unit, high * unit)
        )


@dataclass(frozen=True)
class Histogram:
    """Shares of two samples in the same bins of a column; the ends hold all that is farther."""

    name: str
    edges: tuple[float, ...]
    first: tuple[float, ...]
    second: tuple[float, ...]

    def called(self, name: str, unit: float, zero: float) -> Self:
        """Return the same histogram of a column of another name, another unit and another zero."""
        return replace(self, name=name, edges=tuple(zero + unit * edge for edge in self.edges))


@dataclass(frozen=True)
class TwoSampleResult:
    """Verdict on two samples.

    Attributes
    ----------
    verdict
        ``"different"``, ``"not distinguishable"`` or ``"cannot be tested"``.
    why
        Why they cannot be tested; empty otherwise.
    p_value
        How often two samples of one distribution differ as clearly.
    level
        The p-value up to which samples are called different.
    drivers
        Columns that differ by themselves, the clearest first.
    pairs
        Pairs of columns whose dependence differs, neither of them a driver.
    classes
        Classes whose share, or whose records, differ.
    detectable
        Shift of one column, in its standard deviations, that would have been detected in 80 % of
        cases at these sizes: the median over columns. Infinite where no column varies; of columns
        with few values, a change of the mean by records that move to the next value.
    columns
        A ``ColumnChange`` for every column.
    sizes
        Numbers of records.
    histograms
        Of the clearest drivers, where their records were at hand.
    """

    verdict: Verdict
    why: str
    p_value: float
    level: float
    drivers: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    detectable: float
    columns: tuple[ColumnChange, ...]
    sizes: tuple[int, int]
    histograms: tuple[Histogram, ...] = ()

    @classmethod
    def of_untestable(cls, why: str, level: float, sizes: tuple[int, int]) -> Self:
        """Build the result of samples that cannot be tested."""
        return cls("cannot be tested", why, 1.0, level, (), (), (), np.inf, (), sizes)

    def __getitem__(self, name: str) -> ColumnChange:
        """Return the change of a column."""
        return next(item for item in self.columns if item.name == name)

    def named(self, columns: Sequence[str], units: Sequence[tuple[float, float]] = ()) -> Self:
        """Return the result with other names of the columns, in their order, and other units.

        A unit says how many of the new ones each of the old is, and where the old zero is.
        """
        before = [item.name for item in self.columns]
        names = {name: name for name in before}
        for old, new in zip(before, columns, strict=False):
            names |= {old: new, _missing_name(old): _missing_name(new)}
        scales = dict.fromkeys(before, (1.0, 0.0)) | dict(zip(before, units, strict=False))
        return replace(
            self,
            drivers=tuple(names[name] for name in self.drivers),
            pairs=tuple((names[a], names[b]) for a, b in self.pairs),
            columns=tuple(
                item.called(names[item.name], scales[item.name][0]) for item in self.columns
            ),
            histograms=tuple(
                item.called(names[item.name], *scales[item.name]) for item in self.histograms
            ),
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON: numbers that are not finite are ``None``."""
        return finite_only(asdict(self))


def finite_only(value: Any) -> Any:
    """Return nested values with ``None`` for numbers that are not finite."""
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        return {name: finite_only(item) for name, item in pairs.items()}
    if isinstance(value, list | tuple):
        return [finite_only(item) for item in cast("list[Any]", value)]
    return value


@dataclass(frozen=True, eq=False)
class Sample:
    """Records of one side, checked."""

    points: Array
    weights: Array
    labels: npt.NDArray[Any] | None

    @classmethod
    def of(cls, points: npt.ArrayLike, weights: Any, labels: Any, name: str) -> Self:
        """Check records (n, d), weights (n,) and labels (n,); NaN is a missing value."""
        raw = np.asarray(points)
        # Missing values take part in a test by being missing.
        gaps = np.isnan(raw) if raw.dtype.kind == "f" and raw.ndim == 2 else None
        if gaps is None or not gaps.any():
            table = as_points(raw, name)
        else:
            table = np.where(gaps, np.nan, as_points(np.where(gaps, 0.0, raw), name))
        masses = as_weights(weights, len(table), f"{name}_weights")
        kinds = None if labels is None else np.asarray(labels).ravel()
        if kinds is not None and len(kinds) != len(table):
            raise InputError(
                f"{name}_labels has {len(kinds)} entries for {len(table)} records. Give one each.",
                code="measure-shape",
            )
        sample = cls(table, masses, kinds)
        return sample if (masses > 0).all() else sample.take(np.flatnonzero(masses > 0))

    @property
    def keys(self) -> Array:
        """A number for each record that depends on its values alone (n,)."""
        rng = np.random.default_rng(len(self.points[0]))
        sums = np.zeros(len(self.points))
        for column, factor in zip(
            self.points.T, rng.standard_normal(len(self.points[0])), strict=True
        ):
            sums += factor * np.where(np.isnan(column), 0.0, column)
        return sums

    def take(self, rows: Index) -> Self:
        """Return some records."""
        labels = None if self.labels is None else self.labels[rows]
        return type(self)(self.points[rows], self.weights[rows], labels)


@dataclass(frozen=True, eq=False)
class Pooled:
    """Records of several samples in random order, cut to blocks of ``size``."""

    table: Array
    weights: Array
    codes: Codes | None
    """Of labels."""
    kinds: list[str]
    """Names of the codes."""
    size: int
    counts: Index
    """Blocks of each sample (k,)."""
    gaps: int
    """How many of the columns, the last ones, say where values are missing."""

    @classmethod
    def of(cls, samples: Sequence[Sample], rng: np.random.Generator, blocks: int = _BLOCKS) -> Self:
        """Pool samples: some records of much larger ones, and of large ones whole blocks."""
        least = min(len(sample.points) for sample in samples)
        size = max(1, least // blocks)
        # Of all records, of which some are left out.
        incomplete = incomplete_columns(samples)
        cut: list[Sample] = []
        for sample in samples:
            order = np.argsort(sample.keys)[rng.permutation(len(sample.points))[: _RATIO * least]]
            cut.append(sample.take(order[: len(order) // size * size]))
        columns = pooled_columns(cut, incomplete)
        table = np.empty((sum(len(side.points) for side in cut), _width(cut) + len(incomplete)))
        for k, column in enumerate(columns):
            table[:, k] = column
        weights = np.concatenate([side.weights / side.weights.mean() for side in cut])
        codes, kinds = _join_labels(cut)
        counts = np.array([len(side.points) // size for side in cut])
        return cls(table, weights, codes, kinds, size, counts, len(incomplete))

    @property
    def masses(self) -> Array:
        """Mean weight of each block."""
        return self.weights.reshape(-1, self.size).mean(axis=1)

    def families(self, seed: int) -> dict[str, Family]:
        """Compute the features of all records."""
        return build_families(self.table, self.weights, self.codes, self.size, seed, self.gaps)


def pooled_columns(samples: Sequence[Sample], incomplete: Sequence[int]) -> Iterator[Array]:
    """Yield the values of each column (n,), then of each incomplete one where they are missing.

    The median stands for missing values.
    """
    for k in range(_width(samples)):
        column = np.concatenate([sample.points[:, k] for sample in samples])
        gaps = np.isnan(column)
        if gaps.any():
            column[gaps] = 0.0 if gaps.all() else np.median(column[~gaps])
        yield column
    for k in incomplete:
        yield 1.0 * np.isnan(np.concatenate([sample.points[:, k] for sample in samples]))


def _width(samples: Sequence[Sample]) -> int:
    return samples[0].points.shape[1]


def _join_labels(samples: Sequence[Sample]) -> tuple[Codes | None, list[str]]:
    if any(sample.labels is None for sample in samples):
        return None, []
    labels = np.concatenate([np.asarray(sample.labels).astype(str) for sample in samples])
    kinds, codes = np.unique(labels, return_inverse=True)
    return codes.ravel().astype(np.int64), kinds.tolist()


def incomplete_columns(samples: Sequence[Sample]) -> list[int]:
    """Return the columns that lack values."""
    gaps = np.any([np.isnan(sample.points).any(axis=0) for sample in samples], axis=0)
    return np.flatnonzero(gaps).tolist()


def _missing_name(column: str) -> str:
    """Return what the column is called that says where values of a column are missing."""
    return f"missing values of {column!r}"


def column_names(columns: Sequence[str] | None, count: int) -> list[str]:
    """Return the names of columns, ``"0"``, ``"1"``, … where there are none."""
    if columns is None:
        return [str(k) for k in range(count)]
    if len(columns) != count:
        raise MismatchError(
            f"columns has {len(columns)} names for {count} columns. Give one each.",
            code="dimension-mismatch",
        )
    return [str(name) for name in columns]


def two_sample(
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    x_weights: npt.ArrayLike | None = None,
    y_weights: npt.ArrayLike | None = None,
    x_labels: npt.ArrayLike | None = None,
    y_labels: npt.ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    level: float = 0.05,
    permutations: int = 199,
    detectable: bool = True,
    seed: int = 0,
) -> TwoSampleResult:
    r"""Test whether two samples come from one distribution.

    Records of both are pooled and divided anew B times. Every statistic is made of differences of
    mean features :math:`\phi` that depend on the pooled records alone,

    .. math:: \Delta = \frac{\sum_i v_i \phi(x_i)}{\sum_i v_i}
        - \frac{\sum_j w_j \phi(y_j)}{\sum_j w_j}

    of locations, shapes and tails of columns, values that repeat or are missing, products of two
    columns, random waves, and with labels of shares and means of classes. Each family of features
    gives one normal score, the largest is T, and

    .. math:: p = \frac{1 + \#\{b: T_b \ge T\}}{1 + B}.

    Parameters
    ----------
    x, y
        Records (n, d) and (m, d); NaN is a missing value.
    x_weights, y_weights
        Masses (n,) and (m,); equal by default. With unequal ones the level is approximate.
    x_labels, y_labels
        Classes (n,) and (m,); they count where both are given.
    columns
        Names of the columns.
    level
        p-value up to which samples are called different, between 0 and 1.
    permutations
        B, 19 or more.
    detectable
        Whether to compute the detectable shift, which takes about as long as the test.
    seed
        Of the permutations and the random waves.

    Raises
    ------
    InputError, MismatchError
        Records, weights or labels that do not fit; options out of range.

    Notes
    -----
    The test is exact for independent records of equal weight, whatever their distribution: all
    divisions are equally likely. Records of one person on several days are not independent. Many
    records are permuted in blocks, which keeps it exact. p-values of columns hold for all columns
    together (Westfall and Young, *Resampling-Based Multiple Testing*, 1993).

    Examples
    --------
    >>> import numpy as np
    >>> from silot_transport import two_sample
    >>> draw = np.random.default_rng(0).normal
    >>> x, y = draw(size=(200, 3)), draw(size=(200, 3)) + [0.0, 1.0, 0.0]
    >>> result = two_sample(x, y, columns=["age", "weight", "height"])
    >>> result.verdict, result.p_value, result.drivers
    ('different', 0.005, ('weight',))
    >>> two_sample(x, draw(size=(200, 3))).verdict
    'not distinguishable'
    """
    level = interval(level, "level", "option-level")
    permutations = integer(permutations, "permutations", "option-permutations", least=19)
    seed = integer(seed, "seed", "option-seed", least=0, most=2**63)
    first = Sample.of(x, x_weights, x_labels, "x")
    second = Sample.of(y, y_weights, y_labels, "y")
    same_dimension(first.points, second.points)
    sizes = (len(first.points), len(second.points))
    names = column_names(columns, first.points.shape[1])
    reason = untestable([first, second])
    if reason:
        return TwoSampleResult.of_untestable(reason, level, sizes)
    rng = np.random.default_rng([seed, 4])
    # In one order of the two and of their records, whatever order they came in.
    ordered = sorted([first, second], key=lambda side: (len(side.points), float(side.keys.sum())))
    pooled = Pooled.of(ordered, rng)
    families, counts, masses = pooled.families(seed), pooled.counts, pooled.masses
    divisions = np.zeros((permutations + 1, sum(counts)))
    divisions[:, : counts[0]] = 1.0
    divisions[1:] = rng.permuted(divisions[1:], axis=1)
    # A weight goes where its record goes, and both sides are normalised in every division.
    signs = divisions / (divisions @ masses)[:, None]
    signs -= (1.0 - divisions) / ((1.0 - divisions) @ masses)[:, None]
    unit = np.sqrt(1.0 / counts[0] + 1.0 / counts[1])
    gaps = {
        name: (family, signs @ family.values, family.values.std(axis=0, ddof=1) * unit)
        for name, family in families.items()
    }
    decision = Decision.of(gaps, pooled.table.shape[1], level)
    shift = np.inf
    if detectable:
        numbers = pooled.table[:, : len(names)]
        shift = decision.find_detectable(numbers, (min(sizes), max(sizes)), rng)
    incomplete = incomplete_columns([first, second])
    names += [_missing_name(names[k]) for k in incomplete]
    changes = [
        _describe(column[: sizes[0]], column[sizes[0] :], first.weights, second.weights)
        for column in pooled_columns([first, second], incomplete)
    ]
    result = decision.result(names, pooled.kinds, shift, changes, sizes)
    drawn = result.drivers[:_DRAWN]
    by_name = zip(names, pooled_columns([first, second], incomplete), strict=True)
    histograms = {
        name: _count_in_bins(name, column, first, second)
        for name, column in by_name if name in drawn
    }  # fmt: skip
    return replace(result, histograms=tuple(histograms[name] for name in drawn))


def untestable(samples: Sequence[Sample]) -> str:
    """Say why no test of these samples can be; nothing where it can."""
    few = min(len(sample.points) for sample in samples)
    if few < FEWEST:
        return f"a sample has {few} records of positive weight; {FEWEST} are needed"
    if all(sample.labels is not None for sample in samples):
        return ""
    for k in range(_width(samples)):
        column = np.concatenate([sample.points[:, k] for sample in samples])
        gaps = int(np.isnan(column).sum())
        if 0 < gaps < len(column) or (not gaps and np.ptp(column) > 0):
            return ""
    return "no column varies"


@dataclass(frozen=True, eq=False)
class Decision:
    """Scores of the observed division, the first, and of all others (B + 1,)."""

    gaps: Mapping[str, tuple[Family, Array, Array]]
    width: int
    """Columns d."""
    level: float
    scores: Mapping[str, Array]
    """By family."""
    largest: Array
    """Largest of all families."""
    columns: Array
    """Score of each column (B + 1, d)."""

    @classmethod
    def of(cls, gaps: Mapping[str, tuple[Family, Array, Array]], width: int, level: float) -> Self:
        """Score differences of mean features (B + 1, F), whose standard errors are given (F,)."""
        scores: dict[str, Array] = {}
        columns: list[Array] = []
        for name, (family, gap, error) in gaps.items():
            scores[name], parts = _score(family, gap, error)
            if parts is not None:
                columns.append(parts[:, :width])
        largest = np.max(list(scores.values()), axis=0)
        return cls(gaps, width, level, scores, largest, np.max(columns, axis=0))

    @cached_property
    def critical(self) -> float:
        """The score beyond which samples are called different."""
        return float(np.quantile(self.largest, 1.0 - self.level, method="higher"))

    def result(
        self,
        names: list[str],
        kinds: list[str],
        detectable: float,
        changes: Sequence[Change],
        sizes: tuple[int, int],
    ) -> TwoSampleResult:
        """Build the verdict, and name what drives it where samples differ."""
        p = p_value(self.largest)
        clearest = self.columns.max(axis=1)
        shares = np.mean(clearest[:, None] >= self.columns[0] - 1e-9, axis=0)
        by_column: list[float] = shares.tolist()
        for k in self._decisive():
            # The verdict rests on it, and has counted all columns and families.
            by_column[k] = min(by_column[k], p)
        different = p <= self.level
        clear: dict[str, list[Any]] = {
            name: self._clear(name) for name in ("pair", "class", "label", "within")
        }
        order = sorted(range(len(names)), key=lambda k: (by_column[k], -self.columns[0, k]))
        drivers = [k for k in order if different and by_column[k] <= self.level]
        return TwoSampleResult(
            verdict="different" if different else "not distinguishable",
            why="",
            p_value=p,
            level=self.level,
            drivers=tuple(names[k] for k in drivers),
            pairs=tuple(
                (names[int(j)], names[int(k)]) for j, k in clear["pair"]
                if different and not {j, k} & set(drivers) and j != k
            ),
            classes=tuple(
                dict.fromkeys(
                    kinds[int(k)]
                    for family in ("class", "label", "within")
                    for k in clear[family]
                    if different
                )
            ),
            detectable=detectable,
            columns=tuple(
                ColumnChange(name, chance, *change)
                for name, chance, change in zip(names, by_column, changes, strict=True)
            ),
            sizes=sizes,
        )  # fmt: skip

    def _decisive(self) -> list[int]:
        """Return the column whose feature is the largest of all, if it is of one column."""
        name = max(self.scores, key=lambda name: float(self.scores[name][0]))
        family, gap, error = self.gaps[name]
        if family.owners is None:
            return []
        if family.kind == "by column":
            column = int(score_sums(_sums(family, gap))[0].argmax())
        else:
            column = int(family.owners[_standardise(gap[0], error).argmax()])
        return [column] if column < self.width else []

    def _clear(self, name: str) -> list[Any]:
        """Return the names of the features of a family that differ, the clearest first."""
        if name not in self.gaps or p_value(self.scores[name]) > self.level:
            return []
        family, gap, error = self.gaps[name]
        t = np.abs(gap) / np.where(error > TINY, error, np.inf)
        limit = np.quantile(t.max(axis=1), 1.0 - self.level, method="higher")
        clear = np.flatnonzero(t[0] >= limit)
        assert family.names is not None
        return family.names[clear[np.argsort(-t[0, clear])]].tolist()

    def find_detectable(self, table: Array, sizes: tuple[int, int], rng: Generator) -> float:
        """Find the shift of a column that is detected in 80 % of divisions.

        In standard deviations of the column; the median over some columns.
        """
        varying = np.flatnonzero(np.ptp(table, axis=0) > 0)
        if not len(varying):
            return np.inf
        places = np.linspace(0, len(varying) - 1, min(len(varying), _SHIFTED)).round()
        columns = varying[places.astype(int)]
        # Of samples of unlike sizes, whichever it is that shifts.
        shifted = [_Shifted.of(table[:, columns].T, sizes, rng)]
        if sizes[0] != sizes[1]:
            shifted.append(_Shifted.of(table[:, columns].T, (sizes[1], sizes[0]), rng))
        null = _ColumnNull.of(self.gaps, columns)
        # Shifts and their power: of none at all, and of the two between which the power is reached.
        count = len(columns)
        low, high = np.zeros((2, count)), np.full((2, count), np.inf)
        low[1] = self.level
        at = np.full(count, -1)
        # Three at once, then the three between those two: fifteen in two steps.
        every = np.arange(count).repeat(3)
        for step in (4, 1):
            tried = (at[:, None] + step * np.arange(1, 4)).ravel()
            moved = [side.by(every, _SHIFTS[tried]) for side in shifted]
            scores = [
                null.score(every, sign * effect, error)
                for sign, (_, effect, error) in zip((1, -1), moved, strict=False)
            ]
            own = np.min([(score >= self.critical).mean(axis=1) for score in scores], axis=0)
            # Or all other columns, by chance.
            power = 1.0 - (1.0 - own) * (1.0 - self.level)
            is_below = np.full(count, True)
            for one, shift, reached in zip(every, moved[0][0], power, strict=True):
                if is_below[one] and reached < _POWER:
                    low[:, one] = shift, reached
                    at[one] += step
                elif is_below[one]:
                    high[:, one] = shift, reached
                    is_below[one] = False
        shifts = [
            np.interp(_POWER, [low[1, k], high[1, k]], [low[0, k], high[0, k]])
            if np.isfinite(high[0, k]) and shifted[0].varies[k] else np.inf for k in range(count)
        ]  # fmt: skip
        return float(np.median(shifts))


class _OfFamily(NamedTuple):
    null: Array
    """Differences of the features of each column (k, B, f)."""
    error: Array
    """Their standard errors (k, f)."""
    base: Array | None
    """Cube roots of sums of squares (B, k), where the family adds them up."""
    likeness: Array
    """Of the largest difference of any column, see ``sidak_count``."""


@dataclass(frozen=True, eq=False)
class _ColumnNull:
    """Differences of the features of some columns in all divisions but the observed one."""

    families: Sequence[_OfFamily]

    @classmethod
    def of(cls, gaps: Mapping[str, tuple[Family, Array, Array]], columns: Index) -> Self:
        """Pick the features of columns (k,)."""
        families: list[_OfFamily] = []
        for name in ("mean", "shape", "tails"):
            family, gap, error = gaps[name]
            assert family.owners is not None
            own = np.array([np.flatnonzero(family.owners == column) for column in columns])
            null, base = np.moveaxis(gap[:, own], 0, 1), None
            if family.kind == "largest":
                every = _standardise(gap, error).max(axis=1)
            else:
                # Sums of a column by its own divisions; then as one of as many as there are.
                base = (null**2).sum(axis=2).T
                every = two_sided(score_sums(_sums(family, gap)).max(axis=1))
            families.append(_OfFamily(null[:, 1:], error[own], base, sidak_count(every)))
        return cls(families)

    def score(self, columns: Index, effect: Array, error: Array) -> Array:
        """Score every division (k, B) where mean features differ by an effect (k, F) more.

        Of columns (k,), any of which may be there several times.
        """
        scores, start = list[Array](), 0
        for null, null_error, base, likeness in self.families:
            place = slice(start, start + null.shape[2])
            start = place.stop
            t = _standardise(null[columns] + effect[:, None, place], error[:, None, place])
            if base is None:
                t = t.max(axis=2)
            else:
                sums = ((t * null_error[columns, None]) ** 2).sum(axis=2)
                t = two_sided(score_sums(sums.T, base[:, columns]).T)
            scores.append(score_largest(t, likeness))
        return np.max(scores, axis=0)


@dataclass(frozen=True, eq=False)
class _Shifted:
    """Divisions of the values of some columns, one side of which is shifted."""

    values: Array
    """Of each column (k, n)."""
    orders: Index
    """Of each division (R, n), the second side first."""
    second: int
    rates: Array
    """Random numbers of the values (n,)."""
    unit: float
    """Standard error of a difference of means, in standard deviations."""
    before: Array
    """Differences of mean features without a shift (k, R, F)."""

    @classmethod
    def of(cls, columns: Array, sizes: tuple[int, int], rng: Generator) -> Self:
        """Draw records and divisions of columns (k, n)."""
        values = columns[:, rng.permutation(columns.shape[1])[:_RECORDS]]
        count = int(values.shape[1])
        second = min(max(round(count * sizes[1] / sum(sizes)), 1), count - 1)
        divisions = int(np.clip(_VALUES // count, *_DIVISIONS))
        orders = rng.permuted(np.tile(np.arange(count), (divisions, 1)), axis=1)
        unit = float(np.hypot(1.0 / sizes[0] ** 0.5, 1.0 / sizes[1] ** 0.5))
        before = _differences(column_features(values[:, orders]), second)
        return cls(values, orders, second, rng.random(count), unit, before)

    @cached_property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Whether a column has two values: of a rare event no record may have been drawn."""
        return self.values.std(axis=1) > 0

    def by(self, columns: Index, errors: Array) -> tuple[Array, Array, Array]:
        """Shift columns (k,), any of which may be there several times, by standard errors (k,).

        The shifts in standard deviations (k,), what they add to differences of mean features
        (k, F), and the standard errors of these (k, F).
        """
        m = self.second
        spread = np.where(self.varies, self.values.std(axis=1), 1.0)[columns]
        # The second side of each division first.
        moved = self.values[columns[:, None, None], self.orders]
        start = moved[..., :m].mean(axis=(1, 2))
        for k in np.flatnonzero(self.varies[columns]):
            rows = self.orders[:, :m]
            by = errors[k] * self.unit * spread[k]
            moved[k, :, :m] = self._shift(self.values[columns[k]], rows, by)
        features = column_features(moved)
        effect = (_differences(features, m) - self.before[columns]).mean(axis=1)
        error = features.std(axis=2).mean(axis=1) * self.unit
        return (moved[..., :m].mean(axis=(1, 2)) - start) / spread, effect, error

    def _shift(self, values: Array, rows: Index, by: float) -> Array:
        """Shift values; those of few levels to one of the two levels that are nearest."""
        goal, levels = values[rows] + by, np.unique(values)
        if len(levels) > _TIED * len(values):
            return goal
        # A value between the levels would give the shift away, however small it is.
        place = np.searchsorted(levels, goal, "right") - 1
        place = np.clip(place, 0, len(levels) - 2)
        low, high = levels[place], levels[place + 1]
        return np.where(self.rates[rows] * (high - low) < goal - low, high, low)


def _differences(features: Array, second: int) -> Array:
    """Compute differences of mean features (..., n, F) of divisions, the second side first."""
    return features[..., second:, :].mean(axis=-2) - features[..., :second, :].mean(axis=-2)


def _score(family: Family, gap: Array, error: Array) -> tuple[Array, Array | None]:
    """Score a family (B,), and where its features are of columns each of these (B, k)."""
    if family.kind == "sum":
        return score_sums((gap**2).sum(axis=1)[:, None])[:, 0], None
    if family.kind == "by column":
        parts = score_sums(_sums(family, gap))
        t = two_sided(parts.max(axis=1))
        return score_largest(t, sidak_count(t)), parts
    t = _standardise(gap, error)
    by_column = None
    if family.owners is not None:
        parts = np.maximum.reduceat(t, _starts(family.owners), axis=1)
        by_column = np.full((len(t), family.owners.max() + 1), -np.inf)
        by_column[:, np.unique(family.owners)] = score_largest(parts, sidak_count(parts))
    largest = t.max(axis=1)
    return score_largest(largest, sidak_count(largest)), by_column


def _standardise(gap: Array, error: Array) -> Array:
    return np.abs(gap) / np.where(error > TINY, error, np.inf)


def _sums(family: Family, gap: Array) -> Array:
    """Sum squares of the features of each column (B, k)."""
    assert family.owners is not None
    return np.add.reduceat(gap**2, _starts(family.owners), axis=1)


def _starts(owners: Index) -> Index:
    """Return where the features of each column begin."""
    return np.flatnonzero(np.diff(owners, prepend=-1))


def _describe(x: Array, y: Array, v: Array, w: Array) -> Change:
    if len(np.unique(np.concatenate([x, y]))) <= _DISCRETE:
        sides = [_moments(values, masses) for values, masses in ((x, v), (y, w))]
    else:
        sides = [_quartiles(values, masses) for values, masses in ((x, v), (y, w))]
    (a, e, r), (b, f, s) = sides
    margin = 1.96 * float(np.hypot(e, f))
    return b - a, (b - a - margin, b - a + margin), s / r if r > TINY * max(abs(a), 1.0) else np.nan


def _count_in_bins(name: str, column: Array, first: Sample, second: Sample) -> Histogram:
    """Count the records of both sides in the same bins of a column (n + m,)."""
    levels, cut = np.unique(column), len(first.points)
    if len(levels) <= _DISCRETE:
        # A bin for each value, the ends as wide as their neighbours.
        middles = (levels[1:] + levels[:-1]) / 2.0
        ends = 2.0 * levels[[0, -1]] - middles[[0, -1]]
        edges: Array = np.concatenate([ends[:1], middles, ends[1:]])
    else:
        # Few values far out would leave all others in one bin.
        low, high = np.quantile(column, [0.005, 0.995])
        low, high = (low, high) if high > low else (levels[0], levels[-1])
        edges = cast("Array", np.linspace(low, high, _BINS + 1))
    inside = np.clip(column, edges[0], edges[-1])
    shares = [
        tuple(map(float, np.histogram(values, edges, weights=side.weights / side.weights.sum())[0]))
        for values, side in ((inside[:cut], first), (inside[cut:], second))
    ]
    return Histogram(name, tuple(map(float, edges)), shares[0], shares[1])


def _moments(values: Array, masses: Array) -> tuple[float, float, float]:
    """Compute mean, its standard error, and the standard deviation."""
    shares = masses / masses.sum()
    mean = float(shares @ values)
    spread = float(shares @ (values - mean) ** 2) ** 0.5
    return mean, spread * float(shares @ shares) ** 0.5, spread


def _quartiles(values: Array, masses: Array) -> tuple[float, float, float]:
    """Compute the median, its standard error from order statistics, and the quartile range."""
    order = np.argsort(values)
    shares = masses[order] / masses.sum()
    ranks = np.cumsum(shares) - shares / 2.0
    # Kish's effective size: weights make a sample count for less.
    margin = 0.98 * float(shares @ shares) ** 0.5
    low, q1, middle, q3, high = np.interp(
        [0.5 - margin, 0.25, 0.5, 0.75, 0.5 + margin], ranks, values[order]
    )
    return float(middle), float(high - low) / 3.92, float(q3 - q1)
