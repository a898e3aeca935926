"""Pairs of distributions on public records, with their distances: no private data here.

An estimate of a distance can only be judged where the truth is known. Public records are tilted
(reweighted), moved and scaled at random; how far two such distributions are apart is measured
between
records that they do not share.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from silot_transport import exact_plan
from silot_transport._check import Array
from silot_transport._threads import on_cores
from silot_transport.moments import Embedding

from .cells import Codes, nearest
from .compare import class_vectors

FEWEST_RECORDS = 100
"""Public records below which halves of them tell too little of a distance."""
MOST_RECORDS = 400
"""Public records that are used: more tell more, and take longer."""
# A fit uses the nearest fifth of them (``regression._NEAR``): 64 pairs for 11 coefficients.
PAIRS = 320
# Parts of the pairs that are of one law, moved, moved without a tilt, scaled when moved.
_SAME, _MOVED, _PURE, _SCALED = 0.25, 0.4, 0.5, 0.3
# A law keeps the weight of so many records, or of a fifth of a small sample.
_LEAST_EFFECTIVE = 36.0
# How far the power was off on tables of 400 public records: .02 where it is near 0, .1 near .7.
_UNSURE, _UNSURE_STEEP, _UNSURE_EXPONENT = 0.02, 0.2, 0.2
# A step of .1 is enough: exponents are blurred by twice that afterwards.
_EXPONENTS = np.linspace(0.0, 1.5, 16)


@dataclass(frozen=True, eq=False)
class Pair:
    """Two distributions on the same public records.

    Attributes
    ----------
    weights
        Of the records under either distribution (2, m).
    shift, scale
        Where the second distribution's records are: ``middle + scale * (x - middle) + shift``.
    """

    weights: Array = field(repr=False)
    shift: Array = field(repr=False)
    scale: float

    def move(self, points: Array) -> Array:
        """Move records to where the second distribution has them."""
        middle = points.mean(axis=0)
        return middle + self.scale * (points - middle) + self.shift


@dataclass(frozen=True, eq=False)
class Truth:
    r"""Squared distances of pairs, by the number of records.

    .. math:: W^2 = |\Delta|^2 + \max\left(c - g \min(g / c, 1)^\beta (1 - r), 0.7\, g\, r\right),
              \quad r = \tfrac12 (s / n)^\alpha + \tfrac12 (s / m)^\alpha

    Means are known; only centred clouds are compared. c is their squared distance between halves
    of the public records, of effective size s, and g that of two halves of one distribution. What
    is chance
    in c shrinks the more, the further the distributions are apart; beta says how much.

    Attributes
    ----------
    gap
        Squared distance of the means of the distributions (K,).
    across, within, effective
        c, g and s (K,).
    power, exponent
        alpha and beta (K,). Neither is known better than some hundred records tell it, so each
        pair has its own: what is not known of them is then seen in the errors of estimates.
    """

    gap: Array = field(repr=False)
    across: Array = field(repr=False)
    within: Array = field(repr=False)
    effective: Array = field(repr=False)
    power: Array = field(repr=False)
    exponent: Array = field(repr=False)

    def at(self, x_records: float, y_records: float) -> Array:
        """Compute squared distances (K,) of ``x_records`` and ``y_records`` of both distributions.

        Those of samples whose means are apart as those of the distributions are.
        """
        rate = 0.5 * sum((self.effective / n) ** self.power for n in (x_records, y_records))
        chance = self.within * _share(self.within, self.across, self.exponent) * (1.0 - rate)
        # Halves can be closer by chance than the distributions are; samples of this size are still
        # apart by most of what chance alone makes.
        return self.gap + np.maximum(self.across - chance, 0.7 * self.within * rate)


def pairs_of(points: Array, codes: Codes | None, rng: np.random.Generator) -> list[Pair]:
    """Draw random pairs of distributions on public records (m, d), with classes (m,) if any."""
    return [_pair(points, codes, rng) for _ in range(PAIRS)]


def truth_of(
    points: Array, codes: Codes | None, embedding: Embedding, pairs: list[Pair],
    rng: np.random.Generator,
) -> Truth:  # fmt: skip
    """Measure the distances of pairs, with the label coordinates of an embedding."""
    power = _power(points, rng)

    def measure(pair: Pair, order: Codes, finer: bool) -> tuple[list[float], list[float]]:
        laws = [
            (_embed(x, weights, codes, embedding), weights)
            for x, weights in zip((points, pair.move(points)), pair.weights, strict=True)
        ]
        means = [weights @ x for x, weights in laws]
        gap = float(np.sum((means[0] - means[1]) ** 2))
        quarters = _split(laws, np.array_split(order, 4), (0, 2, 3, 1)) if finer else []
        return [gap, *_split(laws, np.array_split(order, 2), (0, 1, 1, 0))], quarters

    orders = [rng.permutation(len(points)) for _ in pairs]
    # Smaller parts tell how chance grows; every third pair is enough.
    thirds = [place % 3 == 0 for place in range(len(pairs))]
    rows = on_cores(lambda row: measure(*row), list(zip(pairs, orders, thirds, strict=True)))
    lengths = np.array([halves for halves, _ in rows])
    gap, across, within, effective = lengths.T
    exponent = _exponent(lengths[::3, 1:], np.array([quarters for _, quarters in rows if quarters]))
    unsure = (_UNSURE + _UNSURE_STEEP * power**2, _UNSURE_EXPONENT)
    powers, exponents = (
        np.clip(centre + deviation * rng.standard_normal(len(pairs)), 0.0, 1.5)
        for centre, deviation in zip((power, exponent), unsure, strict=True)
    )
    return Truth(gap, across, within, effective, powers, exponents)


def _split(
    laws: list[tuple[Array, Array]], parts: list[Codes], order: tuple[int, int, int, int]
) -> list[float]:
    """Measure squared distances across and within distributions, and their effective size."""
    (x, a), (y, b) = laws
    i, j, k, l = (parts[place] for place in order)
    # Parts are disjoint: a record in both clouds would move nowhere and lower the distance.
    across = 0.5 * (_distance(x[i], a[i], y[j], b[j]) + _distance(x[k], a[k], y[l], b[l]))
    within = 0.5 * (_distance(x[i], a[i], x[j], a[j]) + _distance(y[k], b[k], y[l], b[l]))
    sizes = [np.mean([_effective(law[part]) for part in parts]) for law in (a, b)]
    return [across, within, float(np.sqrt(sizes[0] * sizes[1]))]


def _distance(x: Array, a: Array, y: Array, b: Array) -> float:
    """Compute the squared distance of two weighted clouds without their means."""
    a, b = a / a.sum(), b / b.sum()
    # The gap of the means is known without any sample, so only the shapes are measured.
    return exact_plan(x - a @ x, y - b @ y, a, b).cost


def _share(within: Array, across: Array, exponent: Array | float) -> Array:
    ratio = np.divide(within, across, out=np.ones_like(across), where=across > 0)
    return np.minimum(ratio, 1.0) ** exponent


def _exponent(halves: Array, quarters: Array) -> float:
    """Fit how chance depends on a distance, from what halving the records added to it."""
    across, within = halves[:, 0], halves[:, 1]
    used = across > 0
    if not used.any():
        return 0.5
    more_across = (quarters[used, 0] - across[used]) / across[used]
    more_within = (quarters[used, 1] - within[used]) / across[used]
    misses = [
        float(
            np.mean((more_across - more_within * _share(within[used], across[used], exponent)) ** 2)
        )
        for exponent in _EXPONENTS
    ]
    return float(_EXPONENTS[int(np.argmin(misses))])


def _power(points: Array, rng: np.random.Generator) -> float:
    """Fit how fast samples of the public distribution grow nearer with their size."""
    sizes = [len(points) // share for share in (2, 4, 8)]
    distances: list[float] = []
    for size in sizes:
        # Smaller samples scatter more and are drawn more often: every size sees as many records.
        rounds = [rng.permutation(len(points)) for _ in range(6 * len(points) // size)]
        equal = np.full(size, 1.0 / size)
        distances.append(float(np.mean(
            [_distance(points[o[:size]], equal, points[o[size : 2 * size]], equal) for o in rounds]
        )))  # fmt: skip
    # Samples that coincide at any size, as of few distinct records, have no rate to be fitted.
    if min(distances) <= 0:
        return 1.0
    return float(np.clip(-np.polyfit(np.log(sizes), np.log(distances), 1)[0], 0.0, 1.0))


def _embed(points: Array, weights: Array, codes: Codes | None, embedding: Embedding) -> Array:
    """Add the label coordinates of a distribution to records, as in OTDD vectors."""
    if codes is None or embedding == "none":
        return points
    classes = np.zeros((int(codes.max()) + 1, len(points)))
    classes[codes, np.arange(len(points))] = weights
    return np.hstack([points, class_vectors(points, classes, 0.0, embedding)[codes]])


def _pair(points: Array, codes: Codes | None, rng: np.random.Generator) -> Pair:
    count = len(points)
    # What both laws have in common: holders need not be near the public law.
    shared = (
        _score(points, codes, rng) * np.exp(rng.uniform(-2.0, 0.2))
        if rng.random() < 0.5
        else np.zeros(count)
    )
    logs = [shared, shared]
    is_moved = rng.random() < _MOVED
    if rng.random() >= (_PURE if is_moved else _SAME):
        for _ in range(int(rng.integers(1, 3))):
            # Sizes are even in the logarithm, from a tilt that is hardly noticed to one that moves
            # most of the weight.
            size = float(np.exp(rng.uniform(-2.3, 1.3)))
            first = size * _score(points, codes, rng)
            # Opposite tilts part the distributions as far as the size allows; others overlap.
            opposite = rng.random() < 0.5
            second = -first if opposite else size * _score(points, codes, rng)
            logs = [logs[0] + first, logs[1] + second]
    shift, scale = np.zeros(points.shape[1]), 1.0
    if is_moved:
        shift = _direction(points, rng) * rng.random() * points.var(axis=0).sum() ** 0.5
        if rng.random() < _SCALED:
            scale = float(np.exp(rng.uniform(-0.4, 0.4)))
    return Pair(np.stack([_law(one) for one in logs]), shift, scale)


def _direction(points: Array, rng: np.random.Generator) -> Array:
    """Draw a direction of length 1 in all features or a few, even or as they vary."""
    direction = rng.normal(size=points.shape[1])
    if rng.random() < 0.3:
        used = rng.random(len(direction)) < rng.random()
        used[rng.integers(len(direction))] = True
        direction = direction * used
    if rng.random() < 0.5:
        direction = direction * points.std(axis=0)
    length = float(np.linalg.norm(direction))
    return direction / length if length > 0 else direction


def _law(logs: Array) -> Array:
    """Turn logarithms into weights, flattened until enough records count."""
    logs = logs - logs.max()
    least = min(_LEAST_EFFECTIVE, len(logs) / 5.0)
    weights = np.exp(logs)
    while _effective(weights) < least:
        # Scaling the logarithms flattens a tilt and keeps its direction.
        logs = 0.85 * logs
        weights = np.exp(logs)
    return weights / weights.sum()


def _effective(weights: Array) -> float:
    # Kish's effective sample size (1965).
    return float(weights.sum() ** 2 / (weights @ weights))


def _score(points: Array, codes: Codes | None, rng: np.random.Generator) -> Array:
    """Draw the logarithms of a random tilt, of about one unit."""
    # Constant columns stay at 0 instead of dividing by it.
    standard = (points - points.mean(axis=0)) / np.maximum(points.std(axis=0), 1e-12)
    # Groups are listed twice, so that a third of the tilts change shares of subpopulations.
    kinds: list[Callable[[Array, np.random.Generator], Array]] = [
        _groups, _groups, _line, _bend, _ring, _step,
    ]  # fmt: skip
    if codes is not None and rng.random() < 0.3:
        return _shares(codes, rng)
    return kinds[int(rng.integers(len(kinds)))](standard, rng)


def _shares(codes: Codes, rng: np.random.Generator) -> Array:
    """Draw new shares of groups."""
    count = int(codes.max()) + 1
    # A share may underflow to 0, whose logarithm no later step could flatten.
    logs = np.log(rng.dirichlet(np.full(count, np.exp(rng.uniform(-1.5, 1.5)))) + 1e-4)
    return logs[codes]


def _groups(standard: Array, rng: np.random.Generator) -> Array:
    """Draw new shares of groups of near records, in a part of the features."""
    # Even in the logarithm: two halves are as likely as dozens of small groups.
    count = round(np.exp(rng.uniform(np.log(2.0), np.log(40.0))))
    used = rng.random(standard.shape[1]) < 0.7
    used[rng.integers(len(used))] = True
    columns = standard[:, used]
    codes, _ = nearest(columns, columns[rng.choice(len(columns), count, replace=False)])
    return _shares(codes, rng)


def _line(standard: Array, rng: np.random.Generator) -> Array:
    direction = rng.normal(size=standard.shape[1])
    if rng.random() < 0.5:
        few = rng.permutation(len(direction))[int(rng.integers(1, 4)) :]
        direction[few] = 0.0
    return _unit(standard @ direction)


def _bend(standard: Array, rng: np.random.Generator) -> Array:
    return rng.choice([0.35, -0.7]) * _line(standard, rng) ** 2


def _ring(standard: Array, rng: np.random.Generator) -> Array:
    """Tilt records near the middle against those far from it."""
    return rng.choice([-1.0, 1.0]) * _unit(np.log((standard**2).mean(axis=1) + 0.05))


def _step(standard: Array, rng: np.random.Generator) -> Array:
    place, width = 0.5 * rng.normal(), 0.2 + rng.random()
    return 2.0 * np.tanh(2.0 * (_line(standard, rng) - place) / width)


def _unit(values: Array) -> Array:
    return (values - values.mean()) / max(float(values.std()), 1e-12)
