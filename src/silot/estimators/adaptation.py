"""How a target differs from a labelled source: the least change that explains it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import wasserstein_distance

from silot_transport import exact_plan, two_sample

from ..distances.worth.mixtures import find_best_mixture
from ..records._arrays import quantiles
from ..render.shown import Shown

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Change = Literal["none", "classes", "units", "transport", "unexplained"]

# Records of each side that changes are tried on, at most.
_MOST = 600
# Classes up to which each is tried as most of the target; rounds of columns and classes in turn,
# and the change of a share at which they end.
_FEW, _ROUNDS, _SETTLED = 5, 8, 5e-3
_TILTED = 0.8
# Random splits of a test, and the least part of the source that it is made with.
_SPLITS, _THIRD, _SEEDS = 199, 1.0 / 3.0, 2**31 - 1
# What no class falls below, as a part of its records' share: classifiers divide by it.
_FLOOR = 1e-6
# Less spread than this part of the values is rounding.
_FLAT = 1e-12


@dataclass(frozen=True, kw_only=True)
class Step:
    """One explanation that was tried.

    Attributes
    ----------
    change
        Which one.
    distance
        W2 between the source so changed and the target, in deviations of columns.
    p_value
        Chance of a difference as clear as theirs between samples of one law (``ShiftDetector``).
    explains
        Whether that is above the level.
    """

    change: Change
    distance: float
    p_value: float
    explains: bool


@dataclass(frozen=True, kw_only=True)
class DomainChange(Shown):
    """How a target differs from a source, and what was done about it.

    Attributes
    ----------
    change
        The least change that explains the target: ``"none"``; ``"classes"``, other shares of the
        classes; ``"units"``, another scale and offset of each column, and shares. Or
        ``"unexplained"``, and nothing was changed; or ``"transport"``, where records were moved
        because nothing less explains it.
    steps
        What was tried, in that order.
    shares
        By class, its share of the source, and of the target as far as it is known.
    scale, offset
        By column: target = scale * source + offset. Ones and zeros unless ``change`` is units.
    """

    view: ClassVar = "view:adaptation"

    change: Change
    steps: tuple[Step, ...]
    shares: Mapping[str, tuple[float, float]]
    scale: Mapping[str, float]
    offset: Mapping[str, float]


@dataclass(frozen=True)
class Changed:
    """A change of the source: shares of classes, and columns."""

    shares: Mapping[Any, float]
    scale: Array
    offset: Array


def _sample_rows(rng: np.random.Generator, size: int) -> Places:
    return np.sort(rng.permutation(size)[:_MOST])


def deviations(x: Array, y: Array) -> Array:
    """Compute standard deviations of columns within both sides, or of both where those are 0."""
    within = np.sqrt(0.5 * (_spread(x) ** 2 + _spread(y) ** 2))
    unit = np.where(within > 0.0, within, _spread(np.concatenate([x, y])))
    return np.where(unit > 0.0, unit, 1.0)


def _spread(x: Array, mass: Array | None = None) -> Array:
    """Compute standard deviations of columns, zero where they are rounding errors."""
    mass = np.full(len(x), 1.0 / len(x)) if mass is None else mass
    deviation = np.sqrt(mass @ (x - mass @ x) ** 2)
    return np.where(deviation > _FLAT * np.abs(x).max(axis=0), deviation, 0.0)


def masses(labels: Any, shares: Mapping[Any, float]) -> Array:
    """Weight records (n,) such that their classes have these shares."""
    mass = np.empty(len(labels))
    for label, share in shares.items():
        own = labels == label
        mass[own] = max(share / own.sum(), _FLOOR / len(labels))
    return mass / mass.sum()


@dataclass(frozen=True)
class _Clear:
    """Tests whether a changed source still differs clearly from the target."""

    x: Array
    labels: Any
    y: Array
    level: float
    rng: np.random.Generator

    def move(self, change: Changed) -> Array:
        return self.x * change.scale + change.offset

    def distance(self, change: Changed) -> float:
        mass = masses(self.labels, change.shares)
        return exact_plan(self.move(change), self.y, mass).distance

    def step(self, name: Change, change: Changed) -> Step:
        seed = int(self.rng.integers(_SEEDS))
        # As many as there are without any twice, or a third of all: records that are there twice
        # make a difference clearer.
        held = {label: float(np.sum(self.labels == label)) for label in change.shares}
        room = min(held[label] / share for label, share in change.shares.items() if share > 0.0)
        size = max(room, _THIRD * len(self.x))
        chosen = self.move(change)[draw_rows(self.labels, change.shares, size, self.rng)]
        test = two_sample(
            chosen, self.y, level=self.level, permutations=_SPLITS, detectable=False, seed=seed
        )
        return Step(
            change=name,
            distance=self.distance(change),
            p_value=test.p_value,
            explains=test.p_value > self.level,
        )


def draw_rows(
    labels: Any, shares: Mapping[Any, float], size: float, rng: np.random.Generator
) -> Places:
    """Draw about ``size`` records with these shares of classes; small classes repeat records."""
    chosen: list[Places] = []
    for label, share in shares.items():
        places = np.flatnonzero(labels == label)
        count = max(round(share * size), int(share > 0.0))
        chosen.append(rng.choice(places, count, replace=count > len(places)))
    return np.concatenate(chosen)


def explain_target(
    x: Array, labels: Any, y: Array, level: float, rng: np.random.Generator
) -> tuple[tuple[Step, ...], Changed]:
    """Find the least change that explains a target; where none does, change the shares alone."""
    unit = deviations(x, y)
    of_x, of_y = _sample_rows(rng, len(x)), _sample_rows(rng, len(y))
    clear = _Clear(x[of_x] / unit, labels[of_x], y[of_y] / unit, level, rng)
    steps, change = _find_change(clear)
    return steps, replace(change, offset=change.offset * unit)


def _find_change(clear: _Clear) -> tuple[tuple[Step, ...], Changed]:
    """Try no change, other shares and other units in this order; stop at the first that fits."""
    x, labels, y = clear.x, clear.labels, clear.y
    classes, counts = np.unique(labels, return_counts=True)
    same, none = np.ones(x.shape[1]), np.zeros(x.shape[1])
    here = Changed(dict(zip(classes, counts / len(labels), strict=True)), same, none)
    steps = [clear.step("none", here)]
    if steps[-1].explains:
        return tuple(steps), here
    shares = Changed(_shares(x, labels, y), same, none)
    steps.append(clear.step("classes", shares))
    if steps[-1].explains:
        return tuple(steps), shares
    tried = [
        _fit_alternately(x, labels, y, start)
        for start in _starting_shares(here.shares, shares.shares)
    ]
    units = min(tried, key=clear.distance)
    steps.append(clear.step("units", units))
    return tuple(steps), units if steps[-1].explains else shares


def _starting_shares(
    own: Mapping[Any, float], estimate: Mapping[Any, float]
) -> Iterable[Mapping[Any, float]]:
    """Propose shares to start from, as an estimate may be far off where columns differ too."""
    yield own
    yield estimate
    yield dict.fromkeys(own, 1.0 / len(own))
    if len(own) <= _FEW:
        for most in own:
            yield {c: (1.0 - _TILTED) * own[c] + _TILTED * (c == most) for c in own}


def _fit_alternately(x: Array, labels: Any, y: Array, shares: Mapping[Any, float]) -> Changed:
    """Fit the units of columns and the shares of classes in turn until the shares settle."""
    change = _columns(x, labels, y, shares)
    for _ in range(_ROUNDS):
        better = _shares(x * change.scale + change.offset, labels, y)
        difference = max(abs(better[label] - change.shares[label]) for label in better)
        change = _columns(x, labels, y, better)
        if difference < _SETTLED:
            break
    return change


def _columns(x: Array, labels: Any, y: Array, shares: Mapping[Any, float]) -> Changed:
    """Fit the scale and offset of each column that bring a mixture nearest to the target.

    By mean and deviation, by quartiles, or by the ends, which alone fit a column of few values.
    """
    mass = masses(labels, shares)
    even = np.full(len(y), 1.0 / len(y))
    candidates: list[tuple[Array, Array]] = []
    for own, other in zip(_summaries(x, mass), _summaries(y, even), strict=True):
        ratio = other[1] / np.where(own[1] > 0.0, own[1], 1.0)
        scale = np.where((own[1] > 0.0) & (other[1] > 0.0), ratio, 1.0)
        candidates.append((scale, other[0] - scale * own[0]))
    off = [
        [wasserstein_distance(s * c + o, t, mass) for c, t, s, o in zip(x.T, y.T, *k, strict=True)]
        for k in candidates
    ]
    best = np.argmin(off, axis=0), np.arange(x.shape[1])
    scale, offset = (np.stack(k)[best] for k in zip(*candidates, strict=True))
    return Changed(shares, scale, offset)


def _summaries(x: Array, mass: Array) -> list[tuple[Array, Array]]:
    """Compute mean and deviation, median and quartiles, and middle and ends of columns."""
    quarters = quantiles(x, mass, np.array([0.25, 0.5, 0.75]))
    low, high = x.min(axis=0), x.max(axis=0)
    return [
        (mass @ x, _spread(x, mass)),
        (quarters[1], quarters[2] - quarters[0]),
        (0.5 * (low + high), high - low),
    ]


def _shares(x: Array, labels: Any, y: Array) -> dict[Any, float]:
    classes = np.unique(labels)
    if not _spread(y).any():
        return {label: float(np.mean(labels == label)) for label in classes}
    clouds = {str(k): _cloud(x[labels == label]) for k, label in enumerate(classes)}
    return dict(zip(classes, find_best_mixture(clouds, _cloud(y)).values(), strict=True))


def _cloud(points: Array) -> tuple[Array, Array]:
    return points, np.full(len(points), 1.0 / len(points))
