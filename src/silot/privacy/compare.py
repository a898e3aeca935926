"""Distances between sketches, measured between samples of the distributions they describe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from silot_transport import covariance_root, squared_distances
from silot_transport._check import Array
from silot_transport.moments import Embedding

from .cells import Cells, Codes, nearest
from .sketch import Decoded

# Records drawn from each law. Fewer tell less of shapes, more take longer.
_DRAWN = 400
# Largest public samples that are compared.
_LARGEST = 512
# Folds and repeats trade time for the noise of ``rate_of``, which runs once for public records.
_FOLDS = 5
_REPEATS = 12
_STREAMS = 4
# A larger ratio would come from a sample too small to tell.
_MOST = 4.0


@dataclass(frozen=True)
class Rate:
    r"""How far apart two samples of one distribution are, by their size.

    .. math:: W_2^2(X_n, X'_n) = \rho\, (n / M)^{-\alpha}\, W_2^2(Y_M, Y'_M)

    with X records of the public distribution and Y draws from what a sketch tells of it, M of them.

    Attributes
    ----------
    ratio, power
        :math:`\rho` and :math:`\alpha`.
    """

    ratio: float
    power: float

    def at(self, records: float, drawn: int = _DRAWN) -> float:
        """Compute the factor between ``records`` real records and as many ``drawn`` ones."""
        return self.ratio * (max(records, 1.0) / drawn) ** -self.power


@dataclass(frozen=True, eq=False)
class Drawn:
    """Two samples of the distribution a sketch tells of.

    Attributes
    ----------
    first, second
        Shape (M, D): with labels, D includes their coordinates.
    apart
        Squared distance between the two.
    records
        Records behind the sketch; infinite for a distribution itself.
    """

    first: Array = field(repr=False)
    second: Array = field(repr=False)
    apart: float
    records: float

    @property
    def variance(self) -> float:
        """Squared distance to the best single point."""
        return float(np.mean([part.var(axis=0).sum() for part in (self.first, self.second)]))


@dataclass(frozen=True, eq=False)
class Sampler:
    """Draws samples from sketches: the same random numbers for every sketch.

    Common numbers make what is drawn differ as the distributions do; two streams of them tell
    what part
    of a distance is only that of two samples.

    Attributes
    ----------
    noise
        Standard normal numbers (2, M, d), each half centred.
    embedding
        Label coordinates to add.
    """

    noise: Array = field(repr=False)
    embedding: Embedding = "none"

    @classmethod
    def of(
        cls, dimension: int, seed: int, *, size: int = _DRAWN, embedding: Embedding = "none"
    ) -> Sampler:
        """Build a sampler for records of ``dimension`` features."""
        noise = np.random.default_rng([seed, 13]).standard_normal((2, size, dimension))
        return cls(noise - noise.mean(axis=1, keepdims=True), embedding)

    def draw(self, decoded: Decoded, *, law: bool = False) -> Drawn:
        """Draw two samples; ``law`` says that the measure is not a sample itself."""
        places = _spread_evenly(decoded.weights.ravel(), self.noise.shape[1])
        classes, cells = np.divmod(places, decoded.weights.shape[1])
        root = covariance_root(decoded.covariance)
        # Both streams have the same places: only the scatter within cells is random.
        halves = [decoded.atoms[cells] + half @ root for half in self.noise]
        if self.embedding != "none":
            extra = class_coordinates(decoded, self.embedding)[classes]
            halves = [np.hstack([half, extra]) for half in halves]
        apart = float(squared_distances(*([half] for half in halves))[0])
        return Drawn(halves[0], halves[1], apart, np.inf if law else decoded.records)


def distances_of(pairs: Sequence[tuple[Drawn, Drawn]], rate: Rate) -> Array:
    r"""Compute squared distances (N,) between the records behind pairs of sketches.

    .. math:: W^2 = \tfrac12 \left(W_2^2(X, Y') + W_2^2(X', Y)\right)
              + \sqrt{W_2^2(X, X')\, W_2^2(Y, Y')} \left(\rho_n - 1\right)

    X, X' are samples of one distribution and Y, Y' of the other. The second term takes away how
    far apart
    samples of this size are by chance, and adds how far apart as many records as there are would
    be.
    """
    # Streams are crossed, because samples of one stream share their random numbers and would
    # coincide where the distributions do.
    across = 0.5 * (
        squared_distances([x.first for x, _ in pairs], [y.second for _, y in pairs])
        + squared_distances([x.second for x, _ in pairs], [y.first for _, y in pairs])
    )
    factors = np.array([
        0.5 * (rate.at(x.records, len(x.first)) + rate.at(y.records, len(y.first)))
        for x, y in pairs
    ])  # fmt: skip
    by_chance = np.sqrt([x.apart * y.apart for x, y in pairs])
    return np.maximum(across + by_chance * (factors - 1.0), 0.0)


def rate_of(public: Array, cells: Cells, seed: int) -> Rate:
    """Compare public records with each other and with draws from their own sketch.

    Their distance is measured at three sizes, and grows beyond them as it did between.
    """
    rng = np.random.default_rng([seed, 17])
    # Parts of a larger sample serve as well.
    rows = rng.permutation(len(public))[: 2 * _LARGEST]
    sizes = [len(rows) // share for share in (2, 4, 8)]
    distances: list[float] = []
    for size in sizes:
        # Smaller halves are drawn more often: every size sees about as many records.
        repeats = [rng.permutation(rows) for _ in range(_REPEATS * len(rows) // (2 * size))]
        halves = [[public[o[k : k + size]] for o in repeats] for k in (0, size)]
        distances.append(float(np.mean(squared_distances(*halves))))
    largest = float(np.abs(public - public.mean(axis=0)).max())
    if min(distances) <= 1e-12 * largest**2:
        # Samples that are all alike: chance adds nothing.
        return Rate(0.0, 0.0)
    slope = float(np.polyfit(np.log(sizes), np.log(distances), 1)[0])
    # Squared distances of samples fall no faster than 1 / n, and do not grow; noise may say so.
    power = float(np.clip(-slope, 0.0, 1.0))
    law = Decoded(
        cells.centres,
        cells.weights[None],
        cells.covariance * (_unseen(public[rows], cells, seed) if cells.fitted else 1.0),
        float(sizes[0]),
    )
    drawn = float(
        np.mean(
            [Sampler.of(cells.dimension, seed + step).draw(law).apart for step in range(_STREAMS)]
        )
    )
    expected = distances[0] * (_DRAWN / sizes[0]) ** -power
    return Rate(min(expected / drawn, _MOST) if drawn > 0 else 0.0, power)


def _unseen(public: Array, cells: Cells, seed: int) -> float:
    """Measure how much more records scatter that the centres were not fitted to."""
    folds = np.arange(len(public)) % _FOLDS
    total = 0.0
    for fold in range(_FOLDS):
        others = Cells.of_sample(public[folds != fold], cells.size, seed)
        total += float(nearest(public[folds == fold], others.centres)[1].sum())
    own = float(np.trace(cells.covariance))
    return total / len(public) / own if own > 0 else 1.0


def class_coordinates(decoded: Decoded, embedding: Embedding) -> Array:
    """Compute label coordinates of a decoded measure, class by class."""
    return class_vectors(decoded.atoms, decoded.weights, decoded.covariance, embedding)


def class_vectors(
    atoms: Array, masses: Array, within: Array | float, embedding: Embedding
) -> Array:
    """Compute mean and covariance block of every class, as in OTDD vectors: (C, D).

    Of atoms (S, d) with masses by class (C, S), around which records have the covariance
    ``within``.
    """
    rows: list[Array] = []
    for weights in masses:
        mass = float(weights.sum())
        # A class without mass moves nothing; its vector only has to exist.
        share = weights / mass if mass > 0 else np.full(len(weights), 1.0 / len(weights))
        mean = share @ atoms
        apart = atoms - mean
        covariance = (apart * share[:, None]).T @ apart + within
        if embedding == "diagonal":
            block = np.sqrt(np.diagonal(covariance))
        else:
            # Rounding leaves the covariance unsymmetric, and the root needs a symmetric matrix.
            root = covariance_root(0.5 * (covariance + covariance.T))
            block = root.ravel() if embedding == "full" else np.diagonal(root)
        rows.append(np.concatenate([mean, block]))
    return np.stack(rows)


def _spread_evenly(weights: Array, size: int) -> Codes:
    """Draw ``size`` places in proportion to weights, as evenly as can be."""
    steps = (np.arange(size) + 0.5) / size
    places = np.searchsorted(np.cumsum(weights) / weights.sum(), steps)
    return np.minimum(places, len(weights) - 1).astype(np.int64)
