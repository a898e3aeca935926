"""Whether two samples come from one distribution, which columns say so, and what would be seen."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast
from zlib import crc32

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ._check import Array, Index, as_points, as_weights, integer, interval, same_dimension
from ._features import (
    TINY,
    Blocks,
    Codes,
    Family,
    build_families,
    build_families_of_columns,
    column_features,
    p_value,
    score_largest,
    score_sums,
    sidak_count,
    two_sided,
)
from .errors import InputError, MismatchError
from .resampling import FEWEST_DISTINCT, record_keys

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
# Share of records that repeat a value, from which a sample may be rounded.
_ROUNDED = 0.5
# Share of pairs of equal records up to which they are equal by nature, and are no copies.
_BY_NATURE = 0.1
# How many times as frequent as the next ones a value is that is no rounding.
_HEAP = 5
# Columns whose histograms are kept, and their bins.
_DRAWN, _BINS = 6, 20
# Shifts that are tried, in standard errors of a difference of means; and the power that is named.
_SHIFTS = np.array([0.2, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 12.0])
_POWER = 0.8

Change = tuple[float, tuple[float, float], float]
# A family, its differences of means in every division (B + 1, F), and their standard errors (F,).
Gap = tuple[Family, Array, Array]
T = TypeVar("T")


class Deferred(Generic[T]):
    """A field whose value may be a function, which is called when the field is first read."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type | None = None) -> T:
        if instance is None or self._name not in vars(instance):
            # A dataclass then takes it as a field without a default, and an instance without its
            # fields computes them.
            raise AttributeError(self._name)
        value = vars(instance)[self._name]
        if callable(value):
            value = vars(instance)[self._name] = value()
        return cast("T", value)

    def __set__(self, instance: object, value: T | Callable[[], T]) -> None:
        vars(instance)[self._name] = value


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
        with few values, a change of the mean by records that move to the next value. It is
        computed, with its own random numbers, when it is first read.
    columns
        A ``ColumnChange`` for every column.
    sizes
        Numbers of records.
    histograms
        Of the clearest drivers, where their records were at hand. They are counted when they are
        first read.

    Notes
    -----
    Until both are read the result refers to the records. A pickled result does not.
    """

    verdict: Verdict
    why: str
    p_value: float
    level: float
    drivers: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]
    classes: tuple[str, ...]
    columns: tuple[ColumnChange, ...]
    sizes: tuple[int, int]
    detectable: Deferred[float] = Deferred[float]()  # noqa: RUF009 - a descriptor
    histograms: Deferred[tuple[Histogram, ...]] = Deferred[tuple[Histogram, ...]]()  # noqa: RUF009

    @classmethod
    def of_untestable(cls, why: str, level: float, sizes: tuple[int, int]) -> Self:
        """Build the result of samples that cannot be tested."""
        return cls("cannot be tested", why, 1.0, level, (), (), (), (), sizes, np.inf, ())

    @classmethod
    def later(cls, compute: Callable[[], TwoSampleResult]) -> Self:
        """Return the result of a function that is called when a field is first read."""
        result = object.__new__(cls)
        vars(result)["_compute"] = compute
        return result

    def _read(self) -> Self:
        """Return itself, its fields computed."""
        _ = self.verdict
        return self

    def __getattr__(self, name: str) -> Any:
        """Compute the fields of a result that is computed later."""
        own = vars(self)
        compute = cast("Callable[[], TwoSampleResult] | None", own.get("_compute"))
        if compute is not None and not name.startswith("__"):
            # In this order: another thread finds the function or the fields.
            own.update(vars(compute()._read()))
            own.pop("_compute", None)
        if name not in own:
            raise AttributeError(name)
        return getattr(self, name)

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields for a copy in another process: records stay here."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    def __getitem__(self, name: str) -> ColumnChange:
        """Return the change of a column."""
        return next(item for item in self.columns if item.name == name)

    def named(self, columns: Sequence[str], units: Sequence[tuple[float, float]] = ()) -> Self:
        """Return the result with other names of the columns, in their order, and other units.

        A unit says how many of the new ones each of the old is, and where the old zero is.
        """
        if "_compute" in vars(self):
            return type(self).later(lambda: self._read().named(columns, units))
        before = [item.name for item in self.columns]
        names = {name: name for name in before}
        for old, new in zip(before, columns, strict=False):
            names |= {old: new, _missing_name(old): _missing_name(new)}
        scales = dict.fromkeys(before, (1.0, 0.0)) | dict(zip(before, units, strict=False))
        renamed: dict[str, Any] = {
            "drivers": tuple(names[name] for name in self.drivers),
            "pairs": tuple((names[a], names[b]) for a, b in self.pairs),
            "columns": tuple(
                item.called(names[item.name], scales[item.name][0]) for item in self.columns
            ),
            "detectable": lambda: self.detectable,
            "histograms": lambda: tuple(
                item.called(names[item.name], *scales[item.name]) for item in self.histograms
            ),
        }
        return type(self)(**(vars(self) | renamed))

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
                f"{name}_labels has {len(kinds)} entries, not {len(table)}. Give one per record.",
                code="measure-shape",
            )
        sample = cls(table, masses, kinds)
        return sample if (masses > 0).all() else sample.take(np.flatnonzero(masses > 0))

    @cached_property
    def keys(self) -> Array:
        """A number for each record that depends only on its values (n,)."""
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
        cut = _spread_over_cells(cut, rng)
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

    @property
    def blocks(self) -> Blocks:
        """How records are averaged."""
        return Blocks(self.weights, self.size)

    def families(self, seed: int) -> dict[str, Family]:
        """Compute the features of all records."""
        return build_families(self.table, self.weights, self.codes, self.size, seed, self.gaps)


def draw_by_data(values: Sequence[Array], *seeds: int) -> Generator:
    """Return random numbers that depend on values, in whatever order and on whatever side they are.

    Records are sorted before they are divided, so that their order does not matter. The same
    divisions for all data would then be the same sets of ranks, and B of them do not make a test of
    level 5 %: one that depends on the seed. Divisions of other data are others.
    """
    joined = np.sort(np.concatenate([part.ravel() for part in values]))
    # Digits that do not depend on rounding, or on the unit of all values.
    digits = np.rint(joined * (1e6 / max(float(np.abs(joined).max()), TINY)))
    return np.random.default_rng([*seeds, crc32((digits + 0.0).tobytes())])


def join_copies(samples: Sequence[Sample]) -> list[Sample]:
    """Join copies of records to one of their weight, in samples where records are copied."""
    codes, starts = _join_labels(samples)[0], np.cumsum([len(side.points) for side in samples])
    codes = np.zeros(starts[-1], dtype=np.int64) if codes is None else codes
    keys = [
        record_keys(side.points, side.weights, own, apart=False)
        for side, own in zip(samples, np.split(codes, starts[:-1]), strict=True)
    ]
    joined: list[Sample] = []
    for k, (side, own) in enumerate(zip(samples, keys, strict=True)):
        _, first, whose, counts = np.unique(
            own, return_index=True, return_inverse=True, return_counts=True
        )
        others = np.concatenate([key for j, key in enumerate(keys) if j != k] or [own[:0]])
        repeated = float((counts[whose] > 1).mean())
        is_copied = (
            repeated > 0
            and len(counts) >= FEWEST_DISTINCT
            and np.isin(others, own).mean() < _BY_NATURE * repeated
            and _has_column_of_copies(side.points, counts)
        )
        joined.append(
            replace(side.take(first), weights=np.bincount(whose.ravel(), side.weights))
            if is_copied else side
        )  # fmt: skip
    return joined


def _has_column_of_copies(points: Array, counts: Index) -> bool:
    """Whether records (n, d) share the numbers of a column with their copies (U,) alone, nearly."""
    pairs = float((counts * (counts - 1)).sum())
    if points.shape[1] < 2:
        # Of one column nobody can say: whole numbers repeat as copies do.
        return False
    for column in points.T:
        repeats = np.unique(column, return_counts=True)[1]
        if pairs >= (1.0 - _BY_NATURE) * float((repeats * (repeats - 1)).sum()):
            return True
    return False


def _spread_over_cells(samples: Sequence[Sample], rng: Generator) -> list[Sample]:
    """Spread values evenly over the cells of their own sample where samples are rounded unlike.

    Whole pounds in one and kilograms with a decimal in the other have no value in common, and the
    same distribution. Samples of one distribution are left as they are: of a sample in which a
    share of the records repeat a value, other records have its values as often (Good, 1953).
    """
    points = [sample.points for sample in samples]
    for k in np.flatnonzero(np.max([_repeats(part) for part in points], axis=0) >= _ROUNDED):
        columns = [part[:, k] for part in points]
        if _are_rounded_unlike([column[~np.isnan(column)] for column in columns]):
            heaps = _heaps(columns)
            spread = [
                column + rng.uniform(-1.0, 1.0, len(column)) * _half_cells(column, heaps)
                for column in columns
            ]
            points = [
                np.column_stack([part[:, :k], column, part[:, k + 1 :]])
                for part, column in zip(points, spread, strict=True)
            ]
    return [
        Sample(part, sample.weights, sample.labels)
        for part, sample in zip(points, samples, strict=True)
    ]


def _repeats(values: Array) -> Array:
    """Return the share of records that have the value of another one, column by column (d,)."""
    ordered = np.sort(values, axis=0)
    equal = np.diff(ordered, axis=0, prepend=np.nan, append=np.nan) == 0
    return np.mean(equal[1:] | equal[:-1], axis=0)


def _are_rounded_unlike(columns: Sequence[Array]) -> bool:
    """Whether a sample repeats its values, and another one has far fewer of them than it would."""
    for column in columns:
        repeats = float(_repeats(column))
        if repeats < _ROUNDED:
            continue
        for other in columns:
            noise = 2.0 * math.hypot(len(column) ** -0.5, max(len(other), 1) ** -0.5)
            if np.isin(other, column).mean() < repeats - noise:
                return True
    return False


def _heaps(columns: Sequence[Array]) -> Array:
    """Return values of all samples that are no rounding: zeros of who never smoked, say.

    In a sample they are far more frequent than the next values on both sides.
    """
    heaps: list[Array] = []
    for column in columns:
        values, counts = np.unique(column, return_counts=True)
        beside = np.maximum(np.append(counts[1:], 0), np.append(0, counts[:-1]))
        heaps.append(values[counts >= np.maximum(_HEAP * beside, _HEAP)])
    shared = np.unique(np.concatenate(heaps))
    return shared[np.all([np.isin(shared, column) for column in columns], axis=0)]


def _half_cells(column: Array, heaps: Array) -> Array:
    """Return half of the smaller distance to the next other values on both sides (n,)."""
    values, places = np.unique(column, return_inverse=True)
    steps = np.diff(values, prepend=np.nan, append=np.nan)
    halves = np.nan_to_num(np.fmin(steps[1:], steps[:-1]) / 2.0, nan=0.0)
    halves[np.isin(values, heaps)] = 0.0
    return halves[places.ravel()]


def pooled_columns(samples: Sequence[Sample], incomplete: Sequence[int]) -> Iterator[Array]:
    """Yield the values of each column (n,), then of each incomplete one where they are missing.

    Quantiles of the values that are there, spread evenly, stand for missing ones: one value for all
    of them would be a difference of shape where one sample has more gaps.
    """
    for k in range(_width(samples)):
        column = np.concatenate([sample.points[:, k] for sample in samples])
        gaps = np.isnan(column)
        if gaps.any():
            values = np.sort(column[~gaps]) if not gaps.all() else np.zeros(1)
            # The golden ratio: any few in a row are spread evenly.
            places = cast("Array", (np.arange(gaps.sum()) + 0.5) * 0.6180339887498949 % 1.0)
            column[gaps] = values[(places * len(values)).astype(np.intp)]
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
            f"columns has {len(columns)} names for {count} columns. Give one per column.",
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

    Records of both are pooled and divided again B times. Every statistic is made of differences of
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
        Whether the detectable shift is computed when it is read, which takes about as long as the
        test; it is infinite otherwise.
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

    Copies of a record count as one record of their joint weight. Equal records are copies where, in
    some column, hardly any others have the same number, and the other sample has none of them;
    records of codes and whole numbers are equal by nature.

    That samples are rounded unlike (whole pounds in one, kilograms with a decimal in the other) is
    no difference: values are spread evenly over the cells of their rounding first.

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
    first = Sample.of(_unchanging(x), x_weights, x_labels, "x")
    second = Sample.of(_unchanging(y), y_weights, y_labels, "y")
    same_dimension(first.points, second.points)
    sizes = (len(first.points), len(second.points))
    first, second = join_copies([first, second])
    distinct = (len(first.points), len(second.points))
    names = column_names(columns, first.points.shape[1])
    reason = untestable([first, second])
    if reason:
        return TwoSampleResult.of_untestable(reason, level, sizes)
    divided = _Divided.of([first, second], permutations, seed)
    gaps = divided.gaps(divided.pooled.families(seed))
    decision = Decision.of(gaps, divided.pooled.table.shape[1], level)
    bar = decision.bar
    incomplete = incomplete_columns([first, second])
    names += [_missing_name(names[k]) for k in incomplete]
    changes = [
        _describe(*_of_present(column, k, first), *_of_present(column, k, second, distinct[0]))
        for k, column in enumerate(pooled_columns([first, second], incomplete))
    ]

    def find_shift() -> float:
        # Divided anew: until somebody reads the shift, only the records are kept.
        again = _Divided.of([first, second], permutations, seed)
        columns = choose_columns(again.pooled.table[:, : len(first.points[0])])
        if not len(columns):
            return np.inf
        values = again.pooled.table[:, columns]
        of_few = again.gaps(build_families_of_columns(values, again.pooled.blocks)[0])
        # Of samples of unlike sizes, whichever it is that shifts.
        both = sorted({(min(distinct), max(distinct)), (max(distinct), min(distinct))})
        shifted = [_Shifted.of(values.T, pair, again.rng) for pair in both]
        return bar.find_detectable(of_few, np.arange(len(columns)), shifted)

    def count_histograms(drivers: Sequence[str]) -> tuple[Histogram, ...]:
        columns = pooled_columns([first, second], incomplete)
        sides = {
            name: (_of_present(column, k, first), _of_present(column, k, second, distinct[0]))
            for k, (name, column) in enumerate(zip(names, columns, strict=True))
            if name in drivers[:_DRAWN]
        }
        return tuple(_count_in_bins(name, *sides[name]) for name in drivers[:_DRAWN])

    shift = find_shift if detectable else np.inf
    return decision.result(names, divided.pooled.kinds, shift, changes, sizes, count_histograms)


def _unchanging(points: npt.ArrayLike) -> npt.ArrayLike:
    """Return records that stay as they are until everything is computed of them."""
    if not isinstance(points, np.ndarray):
        return points
    array = cast("npt.NDArray[Any]", points)
    return np.array(array, subok=True) if array.flags.writeable else array


@dataclass(frozen=True, eq=False)
class _Divided:
    """Pooled records of two samples, and their divisions, of which the first is the observed."""

    pooled: Pooled
    signs: Array
    """What a block counts for in a difference of means (B + 1, K)."""
    rng: Generator

    @classmethod
    def of(cls, samples: Sequence[Sample], permutations: int, seed: int) -> Self:
        """Pool samples and divide them, in one order whatever order they came in."""
        rng = draw_by_data([side.keys for side in samples], seed, 4)
        ordered = sorted(samples, key=lambda side: (len(side.points), float(side.keys.sum())))
        pooled = Pooled.of(ordered, rng)
        counts, masses = pooled.counts, pooled.masses
        divisions = np.zeros((permutations + 1, sum(counts)))
        divisions[:, : counts[0]] = 1.0
        divisions[1:] = rng.permuted(divisions[1:], axis=1)
        # A weight goes where its record goes, and both sides are normalised in every division.
        loads = (divisions @ masses)[:, None]
        others = masses.sum() - loads
        signs = divisions * (1.0 / loads + 1.0 / others) - 1.0 / others
        return cls(pooled, signs, rng)

    def gaps(self, families: Mapping[str, Family]) -> dict[str, Gap]:
        """Compute the differences of mean features, and their standard errors."""
        unit = np.sqrt((1.0 / self.pooled.counts).sum())
        return {
            name: (family, self.signs @ family.values, family.deviations * unit)
            for name, family in families.items()
        }


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

    gaps: Mapping[str, Gap]
    width: int
    """Columns d."""
    level: float
    scores: Mapping[str, Array]
    """By family."""
    largest: Array
    """Largest of all families."""
    columns: Array
    """Score of each column (B + 1, d)."""
    likeness: Mapping[str, Array]
    """Of the largest difference of each family that has columns, see ``sidak_count``."""

    @classmethod
    def of(cls, gaps: Mapping[str, Gap], width: int, level: float) -> Self:
        """Score differences of mean features (B + 1, F), whose standard errors are given (F,)."""
        scores: dict[str, Array] = {}
        largest: dict[str, Array] = {}
        columns: list[Array] = []
        for name, (family, gap, error) in gaps.items():
            if family.kind == "sum":
                scores[name] = score_sums((gap**2).sum(axis=1)[:, None])[:, 0]
            elif family.kind == "by column":
                parts = score_sums(_sums(family, gap))
                columns.append(parts[:, :width])
                largest[name] = two_sided(parts.max(axis=1))[:, None]
            else:
                t = _standardise(gap, error)
                largest[name] = t.max(axis=1, keepdims=True)
                if family.owners is not None:
                    parts = np.maximum.reduceat(t, _starts(family.owners), axis=1)
                    largest[name] = np.hstack([largest[name], parts])
        # Of each family, then of each of its columns: all at once, since calls take their time.
        joined = np.hstack(list(largest.values()))
        counts = sidak_count(joined)
        scored = score_largest(joined, counts)
        likeness, start = dict[str, Array](), 0
        for name, values in largest.items():
            scores[name], likeness[name] = scored[:, start], counts[start]
            owners = gaps[name][0].owners
            if owners is not None and values.shape[1] > 1:
                by_column = np.full((len(scored), owners.max() + 1), -np.inf)
                by_column[:, np.unique(owners)] = scored[:, start + 1 : start + values.shape[1]]
                columns.append(by_column[:, :width])
            start += values.shape[1]
        every = np.max(list(scores.values()), axis=0)
        return cls(gaps, width, level, scores, every, np.max(columns, axis=0), likeness)

    @property
    def bar(self) -> Bar:
        """What a difference must reach."""
        critical = float(np.quantile(self.largest, 1.0 - self.level, method="higher"))
        return Bar(critical, self.level, self.likeness)

    def result(
        self,
        names: list[str],
        kinds: list[str],
        detectable: float | Callable[[], float],
        changes: Sequence[Change],
        sizes: tuple[int, int],
        histograms: Callable[[Sequence[str]], tuple[Histogram, ...]] = lambda _: (),
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
        by_name = tuple(names[k] for k in drivers)
        return TwoSampleResult(
            verdict="different" if different else "not distinguishable",
            why="",
            p_value=p,
            level=self.level,
            drivers=by_name,
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
            histograms=lambda: histograms(by_name),
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


class Shifting(ABC):
    """Some columns, which can be shifted in one of two samples."""

    @property
    @abstractmethod
    def varies(self) -> npt.NDArray[np.bool_]:
        """Whether a column has two values."""

    @abstractmethod
    def by(self, columns: Index, errors: Array) -> tuple[Array, Array, Array]:
        """Shift columns (k,), any of which may be there several times, by standard errors (k,).

        The shifts in standard deviations (k,), what they add to differences of mean features
        (k, F), and the standard errors of these (k, F).
        """


@dataclass(frozen=True, eq=False)
class Bar:
    """What a difference must reach to be called different."""

    critical: float
    """The score beyond which samples are called different."""
    level: float
    likeness: Mapping[str, Array]
    """As of a ``Decision``."""

    def find_detectable(
        self,
        gaps: Mapping[str, Gap],
        columns: Index,
        shifted: Sequence[Shifting],
    ) -> float:
        """Find the shift of a column that is detected in 80 % of divisions.

        In standard deviations of the column; the median over columns (k,), each of which is
        ``shifted`` in one sample or the other.
        """
        count = len(columns)
        if not count:
            return np.inf
        null = _ColumnNull.of(gaps, columns, self.likeness)
        # Shifts and their power: of none at all, and of the two between which the power is reached.
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


def choose_columns(table: Array) -> Index:
    """Choose columns that vary, from first to last, whose detectable shift is computed."""
    varying = np.flatnonzero(np.ptp(table, axis=0) > 0)
    places = np.linspace(0, len(varying) - 1, min(len(varying), _SHIFTED)).round()
    return varying[places.astype(int)]


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
    def of(cls, gaps: Mapping[str, Gap], columns: Index, likeness: Mapping[str, Array]) -> Self:
        """Pick the features of columns (k,)."""
        families: list[_OfFamily] = []
        for name in ("mean", "shape", "tails"):
            family, gap, error = gaps[name]
            assert family.owners is not None
            own = np.array([np.flatnonzero(family.owners == column) for column in columns])
            null, base = np.moveaxis(gap[:, own], 0, 1), None
            if family.kind == "by column":
                # Sums of a column by its own divisions; then as one of as many as there are.
                base = (null**2).sum(axis=2).T
            families.append(_OfFamily(null[:, 1:], error[own], base, likeness[name]))
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
class _Shifted(Shifting):
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

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        # Of a rare event no record may have been drawn.
        return self.values.std(axis=1) > 0

    def by(self, columns: Index, errors: Array) -> tuple[Array, Array, Array]:
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


def _standardise(gap: Array, error: Array) -> Array:
    return np.abs(gap) / np.where(error > TINY, error, np.inf)


def _sums(family: Family, gap: Array) -> Array:
    """Sum squares of the features of each column (B, k)."""
    assert family.owners is not None
    return np.add.reduceat(gap**2, _starts(family.owners), axis=1)


def _starts(owners: Index) -> Index:
    """Return where the features of each column begin."""
    return np.flatnonzero(np.diff(owners, prepend=-1))


def _of_present(column: Array, k: int, side: Sample, start: int = 0) -> tuple[Array, Array]:
    """Return the values of a side's column that are there, and their weights; all if none is."""
    values = column[start : start + len(side.points)]
    # Columns beyond those of the sample say where values are missing.
    gaps = np.isnan(side.points[:, k]) if k < len(side.points[0]) else np.zeros(len(values), bool)
    return (values, side.weights) if gaps.all() else (values[~gaps], side.weights[~gaps])


def _describe(x: Array, v: Array, y: Array, w: Array) -> Change:
    if len(np.unique(np.concatenate([x, y]))) <= _DISCRETE:
        sides = [_moments(values, masses) for values, masses in ((x, v), (y, w))]
    else:
        sides = [_quartiles(values, masses) for values, masses in ((x, v), (y, w))]
    (a, e, r), (b, f, s) = sides
    if e == 0.0 or f == 0.0:
        # A few records may be equal by chance: the spread of both sides bounds the error then.
        both = np.concatenate([x, y]).std()
        e, f = (max(error, both * _spread_of_mean(m)) for error, m in ((e, v), (f, w)))
    margin = 1.96 * float(np.hypot(e, f))
    return b - a, (b - a - margin, b - a + margin), s / r if r > TINY * max(abs(a), 1.0) else np.nan


def _count_in_bins(name: str, first: tuple[Array, Array], second: tuple[Array, Array]) -> Histogram:
    """Count the values of both sides, each with its weight, in the same bins."""
    column = np.concatenate([first[0], second[0]])
    levels = np.unique(column)
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
    shares = [
        np.histogram(np.clip(values, edges[0], edges[-1]), edges, weights=masses / masses.sum())[0]
        for values, masses in (first, second)
    ]
    of_first, of_second = (tuple(map(float, counts)) for counts in shares)
    return Histogram(name, tuple(map(float, edges)), of_first, of_second)


def _moments(values: Array, masses: Array) -> tuple[float, float, float]:
    """Compute mean, its standard error, and the standard deviation."""
    shares = masses / masses.sum()
    mean = float(shares @ values)
    spread = float(shares @ (values - mean) ** 2) ** 0.5
    return mean, spread * _spread_of_mean(masses), spread


def _spread_of_mean(masses: Array) -> float:
    """Compute the standard error of the mean of values whose standard deviation is 1."""
    shares = masses / masses.sum()
    # Kish's effective size: weights make a sample count for less.
    return float(shares @ shares) ** 0.5


def _quartiles(values: Array, masses: Array) -> tuple[float, float, float]:
    """Compute the median, its standard error from order statistics, and the quartile range."""
    order = np.argsort(values)
    shares = masses[order] / masses.sum()
    ranks = np.cumsum(shares) - shares / 2.0
    margin = 0.98 * _spread_of_mean(masses)
    low, q1, middle, q3, high = np.interp(
        [0.5 - margin, 0.25, 0.5, 0.75, 0.5 + margin], ranks, values[order]
    )
    return float(middle), float(high - low) / 3.92, float(q3 - q1)
