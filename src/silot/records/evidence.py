"""Gather what a decision about one site rests on: tests, faulty records, gain in accuracy."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from silot_transport import ColumnChange, TwoSampleResult

from ..data.measure import Measure
from ..data.schema import Contract
from ..distances.naming import Columns, name_verdict
from ..distances.verdict import Sides, compare_several
from ..distances.verdict import compare as compare_samples
from .result import RecordScores

Rows = npt.NDArray[np.bool_]
Fold = tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]
Array = npt.NDArray[np.float64]

LEVEL = 0.05
"""How often any of several sites with the same distribution is called different."""

# Divisions of the reference that accuracy is measured on, and how often they are drawn.
_FOLDS, _REPEATS = 5, 2
# Records beyond which models see a sample: accuracy hardly depends on more.
_MOST = 5_000
# Standard deviation of a column, as a share of its largest value, that is rounding.
_ROUNDING = 1e-9
# Least permutations, and how many times the smallest adjusted p-value must lie below the level.
_PERMUTATIONS, _BELOW = 199, 2.5


@dataclass(frozen=True)
class Interval:
    """A number, and where it lies in 95 % of cases."""

    value: float
    low: float
    high: float

    @property
    def sizes(self) -> tuple[float, float]:
        """Within which the size of the number lies, whatever its sign."""
        low, high = sorted((abs(self.low), abs(self.high)))
        return (0.0 if self.low <= 0 <= self.high else low), high


@dataclass(frozen=True, kw_only=True, eq=False)
class Evidence:
    """What is known of one site beside a reference.

    ``delivered`` are its records as they were read; ``kept`` those that are neither flagged, of
    which there are ``cleaned``, nor ``copies`` of records of the reference.
    """

    site: str
    delivered: Measure
    kept: Measure
    test: TwoSampleResult
    p_value: float = 1.0
    cleaned: int = 0
    copies: int = 0
    gain: Interval | None = None
    scores: RecordScores | None = None
    # Classes of which the site has too few, where nothing else differs: name, and how many lack.
    lacking: tuple[tuple[str, int], ...] = ()

    @property
    def is_different(self) -> bool:
        """Whether the site's distribution differs, all sites together at the level."""
        return self.test.verdict != "cannot be tested" and self.p_value <= LEVEL


def sides(measure: Measure, labels: bool, columns: Columns = None) -> Sides:
    """Return a measure as the test takes it."""
    used = measure.weights > 0
    names = measure.names if labels else None
    points = measure.points[used]
    if isinstance(columns, Contract):
        points = _without_fill(points, columns)
    return points, measure.weights[used], None if names is None else names[used]


def _without_fill(points: Array, schema: Contract) -> Array:
    """Return coordinates with NaN where a public value stands for a missing number.

    Where more values are missing at a site, that value would be a shift of those that are there.
    """
    points = points.copy()
    for k, column in _indicators(schema):
        own = [j for j, other in enumerate(schema.origins) if other == column and j != k]
        if len(own) == 1:
            points[points[:, k] > 0, own[0]] = np.nan
            # The test counts missing values itself.
            points[:, k] = 0.0
    return points


def _indicators(schema: Contract) -> list[tuple[int, str]]:
    """Return the coordinates that say whether a value of a column is missing."""
    pairs = enumerate(zip(schema.features, schema.origins, strict=True))
    return [(k, column) for k, (name, column) in pairs if name == f"{column} missing"]


def missing_words(item: Evidence, reference: Measure, called: str) -> list[str]:
    """Say in which columns more values are missing than in the reference, the largest excess first.

    Models of the reference take such records for faulty: a person is told which of them are.
    """
    schema, rows = item.delivered.schema, item.delivered.masses > 0
    if not isinstance(schema, Contract):
        return []
    is_flagged = np.zeros(len(rows), dtype=bool) if item.scores is None else item.scores.flagged
    size, others = int(rows.sum()), reference.points[reference.masses > 0]
    excesses: list[tuple[float, str]] = []
    for k, column in _indicators(schema):
        is_missing = rows & (item.delivered.points[:, k] > 0)
        count, elsewhere = int(is_missing.sum()), int((others[:, k] > 0).sum())
        excess = count / size - elsewhere / len(others)
        # More than sampling leaves open, of all columns together (Fisher's exact test).
        if excess > 0 and _tail(count, size, elsewhere, len(others)) < LEVEL / len(schema.features):
            words = f"{column}: no value in {count:,} of {size:,} records"
            if item.cleaned and (is_missing & is_flagged).any():
                words += f" ({int((is_missing & is_flagged).sum()):,} of them are flagged)"
            excesses.append(
                (excess, f"{words}, and in {elsewhere:,} of {len(others):,} of {called}")
            )
    return [words for _, words in sorted(excesses, reverse=True)]


def _tail(count: int, size: int, elsewhere: int, others: int) -> float:
    """Return how often so many of all that are missing fall to the site, were it by chance."""
    from scipy.stats import hypergeom

    return float(hypergeom.sf(count - 1, size + others, count + elsewhere, size))


def test(
    site: Measure, reference: Measure, *, labels: bool, columns: Columns, sites: int, seed: int
) -> TwoSampleResult:
    """Test whether a site and a reference have the same distribution."""
    # The smallest p-value must lie below the level after it is adjusted for all sites.
    permutations = max(_PERMUTATIONS, math.ceil(_BELOW * sites / LEVEL))
    result = compare_samples(
        sides(reference, labels, columns),
        sides(site, labels, columns),
        "none",
        permutations=permutations,
        seed=seed,
    )
    return name_verdict(result, columns)


def adjust(tests: Sequence[TwoSampleResult]) -> list[float]:
    """Return p-values adjusted for their number (Holm), in the order of the tests.

    Source: S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979).
    """
    values = np.array([item.p_value for item in tests])
    order = np.argsort(values, kind="stable")
    adjusted = np.empty(len(values))
    steps = values[order] * np.arange(len(values), 0, -1)
    adjusted[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return adjusted.tolist()


def keep(measure: Measure, rows: Rows) -> Measure:
    """Return some records of a measure."""
    return Measure(
        measure.points[rows], measure.masses[rows],
        None if measure.labels is None else measure.labels[rows],
        measure.columns, schema=measure.schema,
    )  # fmt: skip


def unite(measures: Sequence[Measure]) -> Measure:
    """Return the records of several measures as one."""
    first = measures[0]
    names = [measure.names for measure in measures if measure.names is not None]
    labels = np.concatenate(names) if len(names) == len(measures) else None
    points = np.vstack([measure.points for measure in measures])
    masses = np.concatenate([measure.masses for measure in measures])
    return Measure(points, masses, labels, first.columns, schema=first.schema)


def group_sites(
    here: Mapping[str, Measure], labels: bool, seed: int
) -> tuple[tuple[str, ...], ...]:
    """Return groups of sites with the same distribution, the one of most records first."""
    names = list(here)
    if len(names) < 2:
        return (tuple(names),)
    result = compare_several(
        [(here[name].points, here[name].weights) for name in names],
        [here[name].names if labels else None for name in names],
        "none", level=LEVEL, seed=seed,
    )  # fmt: skip
    groups = [
        tuple(name for name, own in zip(names, result.groups, strict=True) if own == group)
        for group in range(max(result.k, 1))
    ]
    return tuple(sorted(groups, key=lambda names: -sum(here[name].size for name in names)))


def without_copies(item: Evidence, reference: Measure, seed: int) -> tuple[Evidence, Measure]:
    """Return evidence and reference without the records that the site copied from the reference.

    Copies would vouch for the site, and be trained and tested on at once. Where there are any, all
    records leave that are equal to another one of either: were it those of the site alone, what is
    left of it would lack common records, and differ for that.
    """
    kept, size = item.kept, reference.size
    _, whose = np.unique(np.vstack([reference.points, kept.points]), axis=0, return_inverse=True)
    whose = whose.ravel()
    if not _is_copied(whose, size, seed):
        return item, reference
    is_copy = np.isin(whose[size:], whose[:size])
    if is_copy.all():
        return replace(item, copies=kept.size), reference
    is_single = np.bincount(whose)[whose] == 1
    # Too few to compare are compared as they are: the test says so.
    others = keep(reference, is_single[:size]) if is_single[:size].any() else reference
    remaining = keep(kept, is_single[size:] if is_single[size:].any() else ~is_copy)
    return replace(item, copies=int(is_copy.sum()), kept=remaining), others


def _is_copied(whose: npt.NDArray[np.intp], size: int, seed: int) -> bool:
    """Whether more pairs of equal records have one record in each sample than divisions make.

    Records that are equal by nature are as often in one sample as in both.
    """
    counts = np.bincount(whose)

    def between(rows: npt.NDArray[np.intp]) -> int:
        first = np.bincount(whose[rows], minlength=len(counts))
        return int(first @ (counts - first))

    observed = between(np.arange(size))
    rng = np.random.default_rng([seed, 6])
    divisions = (rng.permutation(len(whose))[:size] for _ in range(_PERMUTATIONS))
    return observed > 0 and all(between(rows) < observed for rows in divisions)


def shift_of(result: TwoSampleResult, reference: Measure) -> tuple[Interval, ColumnChange] | None:
    """Return the largest shift in standard deviations of the reference, and its column.

    It is of a column that drives a difference, else of any. Its interval holds for all columns
    together (Bonferroni): the largest of many is picked.
    """
    from scipy.special import ndtri

    wider = float(ndtri(1 - LEVEL / 2 / max(len(result.columns), 1)) / ndtri(1 - LEVEL / 2))
    schema = reference.schema
    deviations = reference.points.std(axis=0)
    # What is left of rounding, of a column with one value, is no unit.
    deviations[deviations <= _ROUNDING * np.abs(reference.points).max(axis=0)] = 0.0
    if schema is not None:
        # Effects are in the units of the table, and a reference's coordinates are not.
        deviations = deviations * np.abs([unit for unit, _ in schema.units])
    units = {
        change.name: float(deviation)
        for change, deviation in zip(result.columns, deviations, strict=False)
    }
    drivers = [result[name] for name in result.drivers if units.get(name, 0.0) > 0]
    shifts: list[tuple[Interval, ColumnChange]] = []
    for item in drivers or result.columns:
        if (unit := units.get(item.name, 0.0)) > 0:
            low, high = (item.shift + wider * (end - item.shift) for end in item.shift_interval)
            shifts.append((Interval(item.shift / unit, low / unit, high / unit), item))
    return max(shifts, key=lambda pair: abs(pair[0].value), default=None)


def lacking_classes(
    site: Measure, reference: Measure, *, columns: Columns, sites: int, seed: int
) -> tuple[tuple[str, int], ...]:
    """Return the classes a site has too few of, where it differs by the shares of classes alone.

    The site's records are weighted to the reference's shares; what differs then is more than
    shares, and nothing is returned. Of a class that the site has no record of nothing is compared.
    """
    assert site.names is not None
    assert reference.names is not None
    classes = np.unique(reference.names[reference.masses > 0])
    if not set(site.names[site.masses > 0].tolist()) <= set(classes.tolist()):
        return ()
    wanted, shares = (
        np.array([side.masses[side.names == name].sum() for name in classes]) / side.masses.sum()
        for side in (reference, site)
    )
    factors = dict(zip(classes.tolist(), wanted / np.where(shares > 0, shares, 1.0), strict=True))
    weights = site.masses * np.array([factors.get(name, 0.0) for name in site.names.tolist()])
    even = Measure(site.points, weights, site.names, columns=site.columns, schema=site.schema)
    like = keep(reference, np.isin(reference.names, classes[shares > 0]))
    result = test(even, like, labels=True, columns=columns, sites=sites, seed=seed)
    if result.verdict != "not distinguishable":
        return ()
    needed = _needed(wanted, shares, int((site.masses > 0).sum()), int((like.masses > 0).sum()))
    lacking = [(str(name), round(more)) for name, more in zip(classes, needed, strict=True)]
    return tuple(sorted((pair for pair in lacking if pair[1] > 0), key=lambda pair: -pair[1]))


def _needed(wanted: Array, shares: Array, size: int, reference_size: int) -> Array:
    """Return how many records of each class bring the shares of those that lack to the wanted ones.

    A class lacks whose share is lower by more than sampling noise, or else the one that lacks most.
    """
    from scipy.special import ndtri

    pooled = (shares * size + wanted * reference_size) / (size + reference_size)
    errors = np.sqrt(pooled * (1 - pooled) * (1 / size + 1 / reference_size))
    scores = (wanted - shares) / np.maximum(errors, 1e-12)
    lacks = scores > min(float(ndtri(1 - LEVEL / len(wanted))), scores.max() * (1 - 1e-9))
    # So many records are there once only those that lack were added.
    total = size * (1 - shares[lacks].sum()) / max(1 - wanted[lacks].sum(), 1e-12)
    return np.where(lacks, wanted * total - shares * size, 0.0)


@dataclass(frozen=True, eq=False)
class Accuracy:
    """Accuracy of models on a reference's records, with and without those of a site.

    Models are logistic regression or extremely randomised trees, whichever is better on the
    reference alone, fitted on four fifths of the reference and tested on the fifth.
    """

    reference: Measure
    seed: int = 0

    @cached_property
    def _folds(self) -> list[Fold]:
        from sklearn.model_selection import RepeatedStratifiedKFold

        folds = RepeatedStratifiedKFold(n_splits=_FOLDS, n_repeats=_REPEATS, random_state=self.seed)
        return list(folds.split(self.reference.points, self.reference.names))

    @cached_property
    def is_measurable(self) -> bool:
        """Whether the reference has two classes with a record in each fold."""
        if self.reference.names is None:
            return False
        counts = np.unique(self.reference.names, return_counts=True)[1]
        return len(counts) > 1 and counts.min() >= _FOLDS

    @cached_property
    def _alone(self) -> tuple[Any, list[float]]:
        """Return the better kind of model and its accuracy in each fold."""
        from sklearn.ensemble import ExtraTreesClassifier
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        kinds = (
            make_pipeline(StandardScaler(), LogisticRegression(max_iter=1_000)),
            ExtraTreesClassifier(100, min_samples_leaf=2, random_state=self.seed),
        )
        first, others = self._folds[:_FOLDS], self._folds[_FOLDS:]
        rights = [self._right(model, None, first) for model in kinds]
        best = int(np.argmax([np.mean(right) for right in rights]))
        return kinds[best], rights[best] + self._right(kinds[best], None, others)

    def gain(self, site: Measure, sites: int) -> Interval:
        """Return by how many points accuracy rises with a site's records, at 95 % over all sites.

        The interval allows for folds that share records: C. Nadeau and Y. Bengio, Inference for the
        generalization error, Machine Learning 52 (2003).
        """
        from scipy.special import stdtrit

        model, alone = self._alone
        gains = 100 * (np.array(self._right(model, _thinned(site, self.seed), self._folds)) - alone)
        # A fifth is tested for four fifths that are fitted on: 1 / 4.
        error = math.sqrt((1 / len(gains) + 1 / (_FOLDS - 1)) * gains.var(ddof=1))
        width = float(stdtrit(len(gains) - 1, 1 - LEVEL / 2 / sites)) * error
        # Where no record is judged otherwise, so many of others may be ("rule of three").
        width = max(width, -100 * math.log(LEVEL / 2 / sites) / self.reference.size)
        value = float(gains.mean())
        return Interval(value, value - width, value + width)

    def _right(self, model: Any, more: Measure | None, folds: Sequence[Fold]) -> list[float]:
        from sklearn.base import clone

        points, names, weights = self.reference.points, self.reference.names, self.reference.masses
        assert names is not None
        rights: list[float] = []
        for fitted, tested in folds:
            x, y = points[fitted], names[fitted]
            if more is not None:
                assert more.names is not None
                x, y = np.vstack([x, more.points]), np.concatenate([y, more.names])
            copy: Any = clone(model)
            predicted = copy.fit(x, y).predict(points[tested])
            rights.append(float(np.average(predicted == names[tested], weights=weights[tested])))
        return rights


def _thinned(measure: Measure, seed: int) -> Measure:
    used = np.flatnonzero(measure.weights > 0)
    if len(used) > _MOST:
        used = np.random.default_rng(seed).choice(used, _MOST, replace=False)
    rows = np.zeros(len(measure.weights), dtype=bool)
    rows[used] = True
    return keep(measure, rows)


def with_p_values(items: Sequence[Evidence]) -> list[Evidence]:
    """Return evidence with p-values adjusted for the number of sites."""
    values = adjust([item.test for item in items])
    return [replace(item, p_value=value) for item, value in zip(items, values, strict=True)]
