"""How a target differs from a labelled source: the least change that explains it and helps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.stats import wasserstein_distance

from silot_transport import ExactPlan, cost_matrix, exact_plan, two_sample

from ..data.reported import Reported
from ..distances.result import fields_by_name
from ..distances.worth.mixtures import find_best_mixture
from ..federation.result import plain
from ..records._arrays import quantiles

Array = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
Change = Literal["none", "classes", "units", "unproven", "unexplained"]

_CHANGES: tuple[Change, ...] = ("classes", "units")
VERDICTS: dict[Change, str] = {
    "none": "No change: the differences can be sampling noise",
    "classes": "Other shares of the classes explain the target",
    "units": "Other units of the columns, and shares of the classes, explain the target",
    "unproven": "A change explains the target, but held-out records are not clearly nearer "
    "after it: nothing was changed",
    "unexplained": "Neither shares nor units explain the target: nothing was changed",
}

# Records of each side that changes are tried on, at most.
_MOST = 600
# Classes up to which each is tried as most of the target; rounds of columns and classes in turn,
# and the change of a share at which they end.
_FEW, _ROUNDS, _SETTLED = 5, 8, 5e-3
_TILTED = 0.8
# Random splits of a test, and the least part of the source that it is made with.
_SPLITS, _THIRD, _SEEDS = 199, 1.0 / 3.0, 2**31 - 1
# Standard errors by which records must be nearer: beyond chance in 19 of 20 cases.
_CLEARLY, _TINY = 1.645, 1e-300
# What no class falls below, as a part of its records' share: classifiers divide by it.
_FLOOR = 1e-6
# Deviations of the noise under which values count as equal.
_BLUR = 0.1
# Records of the target that must lie beyond all of the source, or the scale of a column, for units
# to be what differs.
_BEYOND, _NARROW = 0.05, 0.4
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
        p-value of their difference, as by ``ShiftDetector``.
    explains
        Whether that is above the level.
    nearer, error
        By which part the energy distance is smaller than without the change, between records that
        the change was not fitted on, and its standard error; ``None`` where nothing was changed,
        or the change does not explain the target.
    """

    change: Change
    distance: float
    p_value: float
    explains: bool
    nearer: float | None = None
    error: float | None = None

    @property
    def helps(self) -> bool:
        """Whether records kept out are clearly nearer: by more than 1.645 standard errors."""
        return self.nearer is not None and self.nearer > _CLEARLY * (self.error or 0.0)


@dataclass(frozen=True, kw_only=True)
class DomainChange(Reported):
    """How a target differs from a source, and which change was applied.

    Attributes
    ----------
    change
        The least change that explains the target and brings records nearer that it was not fitted
        on: ``"classes"``, other shares of the classes; ``"units"``, another scale and offset of
        each column, and shares. Or nothing was changed: ``"none"``, as nothing differs clearly;
        ``"unproven"``, as what explains the target does not clearly help; ``"unexplained"``.
    steps
        What was tried, in that order.
    shares
        By class, its share of the source, and of the target where a change was made.
    scale, offset
        By column: target = scale * source + offset. Ones and zeros unless ``change`` is units.
    """

    view: ClassVar = "view:adaptation"

    change: Change
    steps: tuple[Step, ...]
    shares: Mapping[str, tuple[float, float]]
    scale: Mapping[str, float]
    offset: Mapping[str, float]

    @property
    def value(self) -> dict[str, float]:
        """The distance to the target after each change that was tried."""
        return {step.change: step.distance for step in self.steps}

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        steps = [plain(vars(step)) for step in self.steps]
        return {**fields_by_name(self, "change", "shares", "scale", "offset"), "steps": steps}


@dataclass(frozen=True)
class Changed:
    """A change of the source: shares of classes, and columns."""

    shares: Mapping[Any, float]
    scale: Array
    offset: Array


def _deviations(x: Array, y: Array) -> Array:
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
    mass = np.full(len(labels), _FLOOR / len(labels))
    for label, share in shares.items():
        own = labels == label
        mass[own] = np.maximum(mass[own], share / max(own.sum(), 1))
    return mass / mass.sum()


@dataclass(frozen=True)
class _Clear:
    """Tests whether a changed source still differs clearly from the target."""

    x: Array
    labels: Any
    y: Array
    level: float
    rng: np.random.Generator

    def step(self, name: Change, change: Changed) -> Step:
        seed = int(self.rng.integers(_SEEDS))
        # As many as there are without any twice, or a third of all: records that are there twice
        # make a difference clearer.
        held = {label: float(np.sum(self.labels == label)) for label in change.shares}
        room = min(held[label] / share for label, share in change.shares.items() if share > 0.0)
        size = max(room, _THIRD * len(self.x))
        rows = draw_rows(self.labels, change.shares, size, self.rng)
        chosen, y = self.x[rows] * change.scale + change.offset, self.y
        if name == "units":
            # Whole numbers in a scale that is off by a little would differ in every value.
            chosen, y = (k + _BLUR * self.rng.normal(size=k.shape) for k in (chosen, y))
        test = two_sample(
            chosen, y, level=self.level, permutations=_SPLITS, detectable=False, seed=seed
        )
        return Step(
            change=name,
            distance=_plan(self.x, self.labels, self.y, change).distance,
            p_value=test.p_value,
            explains=test.p_value > self.level,
        )

    def check(self, step: Step) -> Step:
        """Fit the change on half of the records and compare the others with and without, twice."""
        # Every class is in both halves.
        order = self.rng.permutation(len(self.x))
        half_x, half_y = np.zeros(len(self.x), np.bool_), np.zeros(len(self.y), np.bool_)
        half_x[order[np.argsort(self.labels[order], kind="stable")][::2]] = True
        half_y[self.rng.permutation(len(self.y))[::2]] = True
        before, gain, variance = _TINY, 0.0, 0.0
        for fit_x, fit_y in ((half_x, half_y), (~half_x, ~half_y)):
            fitted = self.x[fit_x], self.labels[fit_x], self.y[fit_y]
            others = self.x[~fit_x], self.labels[~fit_x], self.y[~fit_y]
            own, f, g = _energy(*others, _fit("none", *others))
            changed, changed_f, changed_g = _energy(*others, _fit(step.change, *fitted))
            before += max(own, 0.0)
            gain += own - changed
            variance += (f - changed_f).var() / len(f) + (g - changed_g).var() / len(g)
        return replace(step, nearer=float(gain / before), error=float(variance**0.5 / before))


def _energy(x: Array, labels: Any, y: Array, change: Changed) -> tuple[float, Array, Array]:
    """Compute the energy distance of the source so changed, and what each record adds to it.

    In many columns it needs far fewer records than W2 (Székely and Rizzo, 2013).
    """
    x, mass = x * change.scale + change.offset, masses(labels, change.shares)
    across, own, other = (cost_matrix(*pair, p=1) for pair in ((x, y), (x, x), (y, y)))
    to_x, within, to_y = own @ mass, float(mass @ own @ mass), other.mean(axis=1)
    # A record's distance from itself is left out.
    within /= 1.0 - float(mass @ mass)
    value = 2.0 * float(mass @ across.mean(axis=1)) - within - to_y.sum() / (len(y) - 1)
    f = 2.0 * (across.mean(axis=1) - to_x) * mass * len(x)
    return value, f, 2.0 * (mass @ across - to_y)


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
) -> tuple[Change, tuple[Step, ...], Changed]:
    """Try no change, other shares and other units in this order; stop at the first that helps."""
    unit = _deviations(x, y)
    of_x, of_y = (np.sort(rng.permutation(len(side))[:_MOST]) for side in (x, y))
    clear = _Clear(x[of_x] / unit, labels[of_x], y[of_y] / unit, level, rng)
    here = _fit("none", clear.x, clear.labels, clear.y)
    steps = [clear.step("none", here)]
    if steps[0].explains:
        return "none", tuple(steps), here
    for name in _CHANGES:
        change = _fit(name, clear.x, clear.labels, clear.y)
        step = clear.step(name, change)
        if name == "units" and not _leaves_range(clear.x, clear.y, change):
            # A choice among the source's own records explains it as well.
            step = replace(step, explains=False)
        steps.append(clear.check(step) if step.explains else step)
        if steps[-1].helps:
            return name, tuple(steps), replace(change, offset=change.offset * unit)
    is_explained = any(step.explains for step in steps)
    return "unproven" if is_explained else "unexplained", tuple(steps), here


def _leaves_range(x: Array, y: Array, change: Changed) -> bool:
    """Whether a column of the target has values that the source has none of, or is far narrower."""
    beyond = (y < x.min(axis=0)) | (y > x.max(axis=0))
    return bool((beyond.mean(axis=0) > _BEYOND).any() or (change.scale < _NARROW).any())


def _plan(x: Array, labels: Any, y: Array, change: Changed) -> ExactPlan:
    """Solve transport from the source so changed to the target."""
    return exact_plan(x * change.scale + change.offset, y, masses(labels, change.shares))


def _fit(name: Change, x: Array, labels: Any, y: Array) -> Changed:
    """Fit a change of this kind."""
    classes, counts = np.unique(labels, return_counts=True)
    same, none = np.ones(x.shape[1]), np.zeros(x.shape[1])
    own = Changed(dict(zip(classes, counts / len(labels), strict=True)), same, none)
    if name == "none":
        return own
    shares = replace(own, shares=_shares(x, labels, y))
    if name == "classes":
        return shares
    starts = _starting_shares(own.shares, shares.shares)
    tried = [_fit_alternately(x, labels, y, start) for start in starts]
    return min(tried, key=lambda change: _plan(x, labels, y, change).cost)


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
