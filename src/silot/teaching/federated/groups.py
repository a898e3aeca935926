"""Groups of a matrix of distances, how many there are, and how sure that is."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.optimize import linear_sum_assignment

from ...distances.shared_options import seed_option
from ...errors import InputError
from ...options import Options, count, option, word, word_or

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

Affinity = Literal["rescaled", "neighbours"]

LEAST_SILHOUETTE = 0.5
"""Mean silhouette from which groups are told from none (Kaufman and Rousseeuw, 1990)."""
LEAST_OF_GROUP = 0.25
"""The same of each group by itself: below it members are as near to others as to one another."""
MOST_GROUPS = 12
"""Groups that are tried where nobody says how many."""

_SAME = 1e-9


class Grouping(Options):
    """How holders are grouped."""

    name = "cluster"

    k: int | Literal["auto"] = option(
        "Number of groups, or ``auto``.",
        word_or("auto", count()),
        default="auto",
        code="option-clusters",
    )
    affinity: Affinity = option(
        "What spectral clustering is given. ``rescaled``: distances turned into similarities from "
        "0 to 1; ``neighbours``: a graph of the nearest holders.",
        word("rescaled", "neighbours"),
        default="rescaled",
    )
    neighbours: int = option(
        "Nearest holders in the graph, each holder itself among them.", count(2), default=3
    )
    resamples: int = option(
        "Matrices that are drawn to say how sure the groups are.", count(0, 10_000), default=100
    )
    seed: int = seed_option("Seed of everything random.")

    def check_size(self, holders: int) -> None:
        """Raise where more groups are asked for than there are holders."""
        if self.k != "auto" and self.k > holders:
            raise InputError(
                f"k is {self.k} for {holders} holders. Give a number from 1 to {holders}, or "
                "'auto'.",
                code="option-clusters",
            )


@dataclass(frozen=True)
class Candidate:
    """Groups that were tried."""

    k: int
    """How many."""
    silhouette: float
    """Mean silhouette width of the distances in excess of chance, from -1 to 1."""
    least: float
    """That of the group of two holders or more that has the least."""
    apart: bool
    """Whether every two of the groups are further apart than chance makes."""

    @property
    def accepted(self) -> bool:
        """Whether they may be called groups."""
        wide = self.silhouette >= LEAST_SILHOUETTE - _SAME
        return self.apart and wide and self.least >= LEAST_OF_GROUP - _SAME


@dataclass(frozen=True, eq=False)
class Apart:
    """Distances between holders (N, N), and what chance has to do with them.

    Bounds are certified where ``ratio`` is 0. Elsewhere they are an interval of 95 %, and ``ratio``
    is the standard deviation of the logarithm of the value. Holders ``aside`` are those whose level
    is not known while that of others is: they part nobody, and join the group that is nearest on
    average.
    """

    values: Array = field(repr=False)
    lower: Array = field(repr=False)
    upper: Array = field(repr=False)
    level: Array = field(repr=False)  # what distances stay below by chance, 0 where not known
    spread: Array = field(repr=False)  # standard deviation of distances by sampling
    p: int
    ratio: Array = field(repr=False)
    aside: Flags = field(repr=False)

    def among(self, kept: Codes) -> Apart:
        """Those of some holders, none of whom is aside."""
        pairs = np.ix_(kept, kept)
        names = ("values", "lower", "upper", "level", "spread", "ratio")
        parts = {name: getattr(self, name)[pairs] for name in names}
        return replace(self, **parts, aside=np.zeros(len(kept), dtype=bool))

    @property
    def size(self) -> int:
        """How many holders."""
        return len(self.values)

    @property
    def floor(self) -> Array:
        r"""What of distances may be nothing: the level, or what the method shows at chance.

        Where a method's values are above the distances, the smallest value that is not certified
        to be more than chance is what it shows of holders of one law.
        """
        open_ = (self.lower <= self.level) & ~np.eye(self.size, dtype=bool)
        if not open_.any():
            return self.level
        return np.where(self.level > 0, np.maximum(self.level, self.values[open_].min()), 0.0)

    def excess(self, values: Array) -> Array:
        r""":math:`(\max(D^p - f^p, 0))^{1/p}`, for the floor f."""
        excess = np.maximum(values**self.p - self.floor**self.p, 0.0) ** (1.0 / self.p)
        np.fill_diagonal(excess, 0.0)
        return excess

    def draw(self, rng: np.random.Generator) -> Array:
        """Distances as they might be as well: within their bounds, and of other samples."""
        size, upper = self.size, np.triu_indices(self.size, 1)
        own = rng.standard_normal(size)
        drawn = np.zeros((size, size))
        within = rng.uniform(self.lower[upper], self.upper[upper])
        likely = self.values * np.exp(
            self.ratio * _symmetric(rng.standard_normal(len(within)), size)
        )
        drawn[upper] = np.where(self.ratio[upper] > 0, likely[upper], within)
        # Two distances of one holder move together: half of the variance is each holder's.
        moved = self.spread * (own[:, None] + own[None, :]) / 2.0**0.5
        drawn[upper] += np.where(self.ratio[upper] > 0, 0.0, moved[upper])
        return np.maximum(drawn + drawn.T, 0.0)


def _symmetric(values: Array, size: int) -> Array:
    upper = np.zeros((size, size))
    upper[np.triu_indices(size, 1)] = values
    return upper + upper.T


def spectral(distances: Array, excess: Array, k: int, options: Grouping) -> Codes:
    """Spectral clustering into at most ``k`` groups, numbered by their first members.

    ``rescaled`` takes ``1 - excess / max(excess)`` for the affinity, ``neighbours`` the binary
    graph of nearest holders by the distances.
    """
    size = len(distances)
    if k == 1:
        return np.zeros(size, dtype=np.int64)
    if k == size:
        return np.arange(size)
    # Slow to import.
    from sklearn.cluster import SpectralClustering

    if not excess.any():
        excess = distances
    if options.affinity == "rescaled":
        most = float(excess.max())
        kind, matrix = "precomputed", 1.0 - excess / (most if most > 0 else 1.0)
    else:
        kind, matrix = "precomputed_nearest_neighbors", distances
    with warnings.catch_warnings():
        # Groups that nothing joins are what is looked for.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        codes = SpectralClustering(
            k, affinity=kind, n_neighbors=min(options.neighbours, size), assign_labels="cluster_qr",
            random_state=0,
        ).fit_predict(matrix)  # fmt: skip
    return numbered(np.asarray(codes, dtype=np.int64))


def numbered(codes: Codes) -> Codes:
    """Groups by other numbers: 0 is that of the first holder, and so on."""
    order = {int(code): k for k, code in enumerate(dict.fromkeys(codes.tolist()))}
    return np.array([order[int(code)] for code in codes], dtype=np.int64)


def silhouettes(excess: Array, codes: Codes) -> Array:
    """Silhouette widths (N,); 0 for a holder alone in its group, and for one or N groups."""
    if not 1 < len(set(codes.tolist())) < len(codes):
        return np.zeros(len(codes))
    # Slow to import.
    from sklearn.metrics import silhouette_samples

    return np.asarray(silhouette_samples(excess, codes, metric="precomputed"), dtype=np.float64)


def candidate(excess: Array, clear: Array, codes: Codes) -> Candidate:
    """What speaks for these groups."""
    widths = silhouettes(excess, codes)
    sizes = np.bincount(codes)
    means = np.bincount(codes, widths) / sizes
    several = means[sizes > 1]
    least = float(several.min()) if len(several) else 0.0
    return Candidate(len(sizes), float(widths.mean()), least, groups_apart(clear, codes))


def groups_apart(clear: Array, codes: Codes) -> bool:
    """Whether of every two groups more than half of the pairs exceed their chance levels."""
    kinds = range(int(codes.max()) + 1)
    return all(
        float(np.median(clear[np.ix_(codes == one, codes == other)])) > 0
        for one in kinds
        for other in kinds
        if one < other
    )


@dataclass(frozen=True, eq=False)
class Grouped:
    """Groups, and the candidates they were chosen from."""

    codes: Codes = field(repr=False)
    candidates: tuple[Candidate, ...]

    @property
    def k(self) -> int:
        """How many groups."""
        return int(self.codes.max()) + 1


def find_groups(apart: Apart, values: Array, lower: Array, options: Grouping) -> Grouped:
    """Group holders by these distances: as many groups as asked for, or by the criterion."""
    kept = np.flatnonzero(~apart.aside)
    if len(kept) < apart.size and (options.k == "auto" or options.k <= len(kept)):
        pairs = np.ix_(kept, kept)
        grouped = find_groups(apart.among(kept), values[pairs], lower[pairs], options)
        return replace(grouped, codes=_joined(values, kept, grouped))
    excess, clear = apart.excess(values), lower - apart.level
    most = min(apart.size - 1, MOST_GROUPS)
    tried = range(2, most + 1) if options.k == "auto" else [options.k]
    best, chosen = np.zeros(apart.size, dtype=np.int64), 0.0
    candidates: list[Candidate] = []
    if options.k == "auto" and not (clear > 0).any():
        return Grouped(best, ())
    # Who asks for a number of groups wants the nearest together, also below what chance makes.
    alike = excess if options.k == "auto" else values
    for k in tried:
        codes = spectral(values, alike, k, options)
        item = candidate(excess, clear, codes)
        candidates.append(item)
        if options.k != "auto" or (item.accepted and item.silhouette > chosen + _SAME):
            best, chosen = codes, item.silhouette
    return Grouped(best, tuple(candidates))


def _joined(values: Array, kept: Codes, grouped: Grouped) -> Codes:
    """Put who is not ``kept`` into the group whose members are nearest on average."""
    means = np.stack(
        [values[:, kept[grouped.codes == group]].mean(axis=1) for group in range(grouped.k)]
    )
    codes = means.argmin(axis=0)
    codes[kept] = grouped.codes
    return numbered(codes)


@dataclass(frozen=True, eq=False)
class Certainty:
    """How often matrices as they might be as well give the same groups."""

    groups: float  # share that gives as many groups
    holders: Array = field(repr=False)  # by holder, share in which it is in the same group (N,)


def certainty(apart: Apart, grouped: Grouped, options: Grouping) -> Certainty | None:
    """Find groups again in matrices that are drawn; ``None`` without resamples."""
    if options.resamples == 0:
        return None
    rng = np.random.default_rng([options.seed, 53])
    same, stays = 0, np.zeros(apart.size)
    for _ in range(options.resamples):
        values = apart.draw(rng)
        other = find_groups(apart, values, values, options)
        same += other.k == grouped.k
        stays += same_group(grouped.codes, other.codes)
    return Certainty(same / options.resamples, stays / options.resamples)


def same_group(codes: Codes, others: Codes) -> Array:
    """1 for members of a group that are in the group that has most of it, matched one to one."""
    shared = np.zeros((int(codes.max()) + 1, int(others.max()) + 1))
    np.add.at(shared, (codes, others), 1.0)
    rows, columns = linear_sum_assignment(-shared)
    partner = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return np.array(
        [float(partner.get(int(a), -1) == b) for a, b in zip(codes, others, strict=True)]
    )
