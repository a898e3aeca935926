"""How many groups several samples are, by tests between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from ._check import Array, Index, integer, interval, same_dimension
from ._features import TINY, Family, p_value, score_largest, score_sums, sidak_count, two_sided
from .errors import InputError
from .two_histograms import Releases, two_histograms
from .two_sample import (
    Pooled,
    Sample,
    TwoSampleResult,
    Verdict,
    column_names,
    draw_by_data,
    finite_only,
    join_copies,
    two_sample,
    untestable,
)

# Blocks of a sample, on average, and permutations that the tree of merges is scaled by.
_BLOCKS, _SCALED = 60, 20


@dataclass(frozen=True)
class Split:
    """Two groups that a test distinguishes, and what differs between them."""

    first: tuple[int, ...]
    second: tuple[int, ...]
    p_value: float
    """Of the test that all members of both are of one distribution."""
    level: float
    """Of that test: its part of the whole level."""
    change: TwoSampleResult
    """The two groups, pooled."""


@dataclass(frozen=True)
class GroupsResult:
    """Groups of samples.

    Attributes
    ----------
    verdict
        ``"different"``, ``"not distinguishable"`` or ``"cannot be tested"``.
    why
        Why they cannot be tested; empty otherwise.
    groups
        Group of each sample, numbered in the order of the samples.
    p_value
        How often samples of one distribution differ as clearly.
    level
        How often samples of one distribution are more than one group.
    splits
        The groups that a test distinguishes, the coarsest first.
    detectable
        Shift of one column of one sample, in standard deviations, that would have been detected
        in 80 % of cases.
    sizes
        Numbers of records.
    """

    verdict: Verdict
    why: str
    groups: tuple[int, ...]
    p_value: float
    level: float
    splits: tuple[Split, ...]
    detectable: float
    sizes: tuple[int, ...]

    @property
    def k(self) -> int:
        """How many groups."""
        return max(self.groups) + 1

    def named(self, columns: Sequence[str], units: Sequence[tuple[float, float]] = ()) -> Self:
        """Return the result with other names of the columns, in their order, and other units."""
        splits = (replace(one, change=one.change.named(columns, units)) for one in self.splits)
        return replace(self, splits=tuple(splits))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return finite_only(asdict(self))


class _Source(Protocol):
    """Samples or releases: what the tests between them need."""

    def __len__(self) -> int: ...

    @property
    def untestable(self) -> str:
        """Why they cannot be tested; empty where they can."""
        ...

    @property
    def values(self) -> Sequence[Array]:
        """Numbers that other data do not have."""
        ...

    def means(self, members: Sequence[int], draws: int, rng: Generator) -> _Means:
        """Return mean features of some of them, as observed and under the null hypothesis."""
        ...

    def compare(
        self, first: Sequence[int], second: Sequence[int], level: float, draws: int, full: bool
    ) -> TwoSampleResult:
        """Compare two groups."""
        ...


@dataclass(frozen=True, eq=False)
class _Means:
    """Families of features, their standard errors at size 1, and what computes their means."""

    families: Mapping[str, tuple[Family, Array]]
    counts: Array
    """Size of each member (k,), in blocks."""
    draw: Callable[[str], Array]
    """Mean features (B + 1, k, F) of a family, less those of all; the observed first."""


@dataclass(frozen=True, eq=False)
class _Records:
    samples: Sequence[Sample]
    columns: list[str]
    seed: int

    def __len__(self) -> int:
        return len(self.samples)

    @property
    def untestable(self) -> str:
        return untestable(self.samples)

    @property
    def values(self) -> Sequence[Array]:
        return [sample.keys for sample in self.samples]

    def means(self, members: Sequence[int], draws: int, rng: Generator) -> _Means:
        pooled = Pooled.of([self.samples[k] for k in members], rng, _BLOCKS)
        families, counts, masses = pooled.families(self.seed), pooled.counts, pooled.masses
        total = int(counts.sum())
        orders = np.tile(np.arange(total), (draws + 1, 1))
        orders[1:] = rng.permuted(orders[1:], axis=1)
        return _Means(
            {
                name: (family, family.values.std(axis=0, ddof=1))
                for name, family in families.items()
            },
            counts.astype(np.float64),
            lambda name: _permuted_means(families[name].values, masses, counts, orders),
        )

    def compare(
        self, first: Sequence[int], second: Sequence[int], level: float, draws: int, full: bool
    ) -> TwoSampleResult:
        (x, v, a), (y, w, b) = self._join(first), self._join(second)
        return two_sample(
            x, y, x_weights=v, y_weights=w, x_labels=a, y_labels=b, columns=self.columns,
            level=level, permutations=draws, detectable=full, seed=self.seed,
        )  # fmt: skip

    def _join(self, members: Sequence[int]) -> tuple[Array, Array, Any]:
        chosen = [self.samples[k] for k in members]
        points = np.concatenate([sample.points for sample in chosen])
        weights = np.concatenate([sample.weights / sample.weights.mean() for sample in chosen])
        if any(sample.labels is None for sample in chosen):
            return points, weights, None
        return points, weights, np.concatenate([np.asarray(s.labels).astype(str) for s in chosen])


def _permuted_means(values: Array, masses: Array, counts: Index, orders: Index) -> Array:
    """Compute weighted means (B, k, F) of blocks that are dealt to samples of these counts."""
    starts = np.r_[0, np.cumsum(counts)[:-1]]
    means = np.empty((len(orders), len(counts), values.shape[1]))
    for k, order in enumerate(orders):
        loads = np.add.reduceat(masses[order], starts)
        means[k] = np.add.reduceat(values[order], starts, axis=0) / loads[:, None]
    return means


@dataclass(frozen=True, eq=False)
class _Histograms:
    releases: Releases
    columns: list[str]
    seed: int

    def __len__(self) -> int:
        return len(self.releases.counts)

    @property
    def untestable(self) -> str:
        return self.releases.untestable

    @property
    def values(self) -> Sequence[Array]:
        return [self.releases.counts]

    def means(self, members: Sequence[int], draws: int, rng: Generator) -> _Means:
        chosen = self.releases.take(members)
        shares = chosen.pooled()
        drawn = chosen.draw(shares, draws, rng)
        families, _ = chosen.families(shares, self.seed)
        counts = np.array(chosen.sizes, dtype=np.float64)

        def draw(name: str) -> Array:
            means = drawn @ families[name].values
            return means - np.average(means, axis=1, weights=counts)[:, None]

        errors: dict[str, tuple[Family, Array]] = {}
        for name, family in families.items():
            # Noise included: of one draw of all, at size 1.
            spread = (draw(name)[1:] * np.sqrt(counts)[:, None]).std(axis=(0, 1))
            errors[name] = (family, spread)
        return _Means(errors, counts, draw)

    def compare(
        self, first: Sequence[int], second: Sequence[int], level: float, draws: int, full: bool
    ) -> TwoSampleResult:
        (x, e), (y, f) = self.releases.add(first), self.releases.add(second)
        return two_histograms(
            self.releases.cells, x, y, x_noise=e, y_noise=f, columns=self.columns, level=level,
            permutations=draws, spread=self.releases.spread, detectable=full, seed=self.seed,
        )  # fmt: skip


def group_samples(
    samples: Sequence[npt.ArrayLike],
    *,
    weights: Sequence[npt.ArrayLike | None] | None = None,
    labels: Sequence[npt.ArrayLike | None] | None = None,
    columns: Sequence[str] | None = None,
    level: float = 0.05,
    permutations: int = 199,
    seed: int = 0,
) -> GroupsResult:
    """Group samples that tests do not distinguish.

    A tree of merges, the least different first, proposes groups. From its root downwards a
    permutation test of "all samples below are of one distribution" decides, at the level times
    the share of samples below: groups that are disjoint share the level, so that a group of one
    distribution is cut with probability ``level`` at most.

    Parameters
    ----------
    samples
        Two or more arrays of records (n_i, d); NaN is a missing value.
    weights, labels
        Of each sample, or ``None``.
    columns, level, permutations, seed
        As of ``two_sample``.

    Raises
    ------
    InputError, MismatchError
        Fewer than two samples; arrays that do not fit; options out of range.

    Notes
    -----
    Meinshausen, *Hierarchical testing of variable importance* (2008), for the levels; features and
    scores are those of ``two_sample``, computed again below every node.

    Examples
    --------
    >>> import numpy as np
    >>> from silot_transport import group_samples
    >>> draw = np.random.default_rng(0).normal
    >>> samples = [draw(size=(80, 2)), draw(size=(80, 2)) + 1.0, draw(size=(80, 2))]
    >>> group_samples(samples).groups
    (0, 1, 0)
    """
    count = _check_count(len(samples))
    every = [
        Sample.of(
            samples[k], None if weights is None else weights[k],
            None if labels is None else labels[k], f"sample {k}",
        )
        for k in range(count)
    ]  # fmt: skip
    for a, b in pairwise(every):
        same_dimension(a.points, b.points)
    names = column_names(columns, every[0].points.shape[1])
    sizes = tuple(len(sample.points) for sample in every)
    source = _Records(
        join_copies(every), names, integer(seed, "seed", "option-seed", least=0, most=2**63)
    )
    return _group(source, sizes, level, permutations, seed)


def group_histograms(
    cells: npt.ArrayLike,
    counts: Sequence[npt.ArrayLike],
    *,
    noise: Sequence[float],
    spread: npt.ArrayLike | None = None,
    columns: Sequence[str] | None = None,
    level: float = 0.05,
    permutations: int = 199,
    seed: int = 0,
) -> GroupsResult:
    """Group releases, noisy counts of the same public cells, that tests do not distinguish.

    As ``group_samples``, with draws as in ``two_histograms``.

    Parameters
    ----------
    cells
        Places of the cells (S, d), public.
    counts
        Of each release (S,).
    noise
        Standard deviation of the noise of a count, of each release.
    spread, columns, level, permutations, seed
        As of ``two_histograms``.

    Raises
    ------
    InputError, MismatchError
        Fewer than two releases; arrays that do not fit; options out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from silot_transport import group_histograms
    >>> cells = np.arange(5.0)[:, None]
    >>> low, high = [90, 80, 60, 40, 30], [30, 40, 60, 80, 90]
    >>> group_histograms(cells, [low, high, low], noise=[5.0, 5.0, 5.0]).groups
    (0, 1, 0)
    """
    _check_count(len(counts))
    releases = Releases.of(cells, counts, noise, spread)
    names = column_names(columns, releases.cells.shape[1])
    source = _Histograms(releases, names, integer(seed, "seed", "option-seed", least=0, most=2**63))
    return _group(source, releases.sizes, level, permutations, seed)


def _check_count(count: int) -> int:
    if count < 2:
        raise InputError(
            f"{count} sample(s) are given; groups need two or more.", code="holder-names"
        )
    return count


def _group(
    source: _Source, sizes: tuple[int, ...], level: float, permutations: int, seed: int
) -> GroupsResult:
    level = interval(level, "level", "option-level")
    permutations = integer(permutations, "permutations", "option-permutations", least=19)
    count, why = len(source), source.untestable
    if why:
        return GroupsResult("cannot be tested", why, (0,) * count, 1.0, level, (), np.inf, sizes)
    rng = draw_by_data(source.values, seed, 2)
    groups, splits, first_p = np.zeros(count, dtype=np.int64), list[Split](), None
    waiting = [list(range(count))]
    while waiting:
        members = waiting.pop(0)
        if len(members) > 1:
            own = level * len(members) / count
            # The smallest p-value must lie below a level that several nodes share.
            draws = max(permutations, round(4 / own))
            p, (a, b) = _divide(source, members, own, draws, rng)
            first_p = p if first_p is None else first_p
            if p <= own:
                change = source.compare(a, b, own, draws, False)
                splits.append(Split(tuple(a), tuple(b), p, own, change))
                waiting += [a, b]
                continue
        groups[members] = groups.max() + 1
    # Numbered by first members, and without gaps.
    numbers = {code: k for k, code in enumerate(dict.fromkeys(groups.tolist()))}
    middle = int(np.argsort(sizes)[count // 2])
    others = [k for k in range(count) if k != middle]
    reach = source.compare([middle], others, level, permutations, True).detectable
    return GroupsResult(
        "different" if splits else "not distinguishable", "",
        tuple(numbers[code] for code in groups.tolist()), first_p or 1.0, level, tuple(splits),
        reach, sizes,
    )  # fmt: skip


def _divide(
    source: _Source, members: list[int], level: float, draws: int, rng: Generator
) -> tuple[float, tuple[list[int], list[int]]]:
    """Test whether members are of one distribution; also the two groups that differ most."""
    if len(members) == 2:
        a, b = members
        return source.compare([a], [b], level, draws, False).p_value, ([a], [b])
    means = source.means(members, draws, rng)
    scores: list[Array] = []
    scales: dict[str, tuple[float, float]] = {}
    first: dict[str, Array] = {}
    for name, (family, error) in means.families.items():
        drawn = means.draw(name)
        scores += _score(family, error, drawn, means.counts)
        first[name] = drawn[0]
        scales[name] = _scale(family, error, drawn[1 : 1 + _SCALED], means.counts)
    one, other = _split(means, first, scales)
    halves = [members[k] for k in one], [members[k] for k in other]
    return p_value(np.max(scores, axis=0)), halves


def _score(family: Family, error: Array, means: Array, counts: Array) -> list[Array]:
    """Score a family (B + 1,): what sets one sample apart, and what separates several."""
    squares = counts[:, None] * means**2
    if family.kind == "sum":
        return [score_sums(squares.sum(axis=(1, 2))[:, None])[:, 0]]
    if family.kind == "by column":
        assert family.owners is not None
        starts = np.flatnonzero(np.diff(family.owners, prepend=-1))
        t = two_sided(score_sums(np.add.reduceat(squares.sum(axis=1), starts, axis=1)).max(axis=1))
        return [score_largest(t, sidak_count(t))]
    variance = np.where(error > TINY, error, np.inf) ** 2
    # A sample is part of the whole that it is compared with.
    own = (squares / variance / (1.0 - counts / counts.sum())[:, None]).max(axis=(1, 2)) ** 0.5
    free = len(counts) - 1
    root = np.cbrt(squares.sum(axis=1) / variance / free)
    # Wilson and Hilferty's normal score of a chi-squared value.
    score = ((root - 1.0 + 2.0 / (9 * free)) / (2.0 / (9 * free)) ** 0.5).max(axis=1)
    several = two_sided(score)
    return [score_largest(t, sidak_count(t)) for t in (own, several)]


def _difference(family: Family, error: Array, gap: Array, size: Array) -> Array:
    """Measure differences of groups (k, F), whose sizes have this harmonic sum (k,)."""
    squares = gap**2 * size[:, None]
    if family.kind != "largest":
        return squares.sum(axis=1)
    return (squares / np.where(error > TINY, error, np.inf) ** 2).max(axis=1)


def _scale(family: Family, error: Array, means: Array, counts: Array) -> tuple[float, float]:
    """Compute mean and spread of differences between two samples of one distribution."""
    size = 1.0 / (1.0 / counts[0] + 1.0 / counts[1:])
    scales = np.concatenate(
        [_difference(family, error, drawn[0] - drawn[1:], size) for drawn in means]
    )
    return float(scales.mean()), max(float(scales.std()), TINY)


def _split(
    means: _Means, first: Mapping[str, Array], scales: Mapping[str, tuple[float, float]]
) -> list[list[int]]:
    """Merge the two groups that differ least, again and again, and return the last two."""
    values = {name: features.copy() for name, features in first.items()}
    counts = means.counts.copy()
    nodes: list[list[int]] = [[k] for k in range(len(counts))]
    apart = np.full((len(counts), len(counts)), np.inf)

    def compare(k: int, others: Index) -> None:
        size = 1.0 / (1.0 / counts[k] + 1.0 / counts[others])
        scores = [
            (_difference(family, error, values[name][k] - values[name][others], size)
             - scales[name][0]) / scales[name][1]
            for name, (family, error) in means.families.items()
        ]  # fmt: skip
        apart[k, others] = apart[others, k] = np.max(scores, axis=0)

    for k in range(1, len(counts)):
        compare(k, np.arange(k))
    alive = list(range(len(counts)))
    while len(alive) > 2:
        i, j = (int(k) for k in np.unravel_index(np.argmin(apart), apart.shape))
        # A group has the mean of its records: what sets groups apart gets clearer as they grow.
        for features in values.values():
            merged = counts[i] * features[i] + counts[j] * features[j]
            features[i] = merged / (counts[i] + counts[j])
        counts[i] += counts[j]
        nodes[i] = nodes[i] + nodes[j]
        alive.remove(j)
        apart[j] = apart[:, j] = np.inf
        compare(i, np.array([k for k in alive if k != i]))
    return [sorted(nodes[k]) for k in alive]
