"""What decoded sketches give: distances, a barycenter, values, groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import numpy.typing as npt

from silot_transport import ExactPlan, covariance_root, exact_plan
from silot_transport._check import integer
from silot_transport._threads import on_cores

from ...data.measure import Embedding, Measure
from ...errors import InputError
from ...federation.protocol import COORDINATOR
from ...privacy.calibrate import Calibration, Side, Source, merge_counts
from ...privacy.cells import MOST_CELLS, Cells, cluster_points
from ...privacy.compare import Drawn, Rate, Sampler, class_coordinates, distances_of
from ...privacy.sketch import Array, Codes, Decoded, Reading
from ...privacy.tilts import FEWEST_RECORDS
from ..cost_parts import Parts, name_other_classes
from ..direct import OrderedRecords
from ..methods import normalize_shares
from ..result import Distance
from ..worth.mixtures import add_shapley_values
from ..worth.result import Barycenter, Contributions
from ..worth.shares import Sampled, build_contributions

Interval = tuple[float, tuple[float, float] | None]
Target = Literal["validation", "barycenter"]

LEAST_NU = 50.0
"""Records times what a sketch spends: below it the noise is larger than what is measured."""
TARGET = "barycenter"
_JUDGED = f"public= with {FEWEST_RECORDS} records or more (and their labels, with labels)"


@dataclass(frozen=True, eq=False)
class Page:
    """One sketch: what it tells, and the numbers it was read from, where cells were counted."""

    decoded: Decoded
    reading: Reading | None = None


@dataclass(frozen=True, eq=False)
class DecodedSketches:
    """Decoded sketches by name.

    ``pages`` holds the coordinator's own under its name, without noise. Without a ``calibration``
    distances are estimates from samples of the sketches, and have no interval. ``sample`` has the
    public records, or those that stand for them.
    """

    names: tuple[str, ...]
    pages: Mapping[str, Page]
    cells: Cells
    rate: Rate
    classes: tuple[str, ...]
    embedding: Embedding
    nu: float
    seed: int
    calibration: Calibration | None = None
    tails: str = ""
    sample: npt.NDArray[np.float64] | None = field(default=None, repr=False)
    _drawn: dict[str, Drawn] = field(default_factory=dict[str, Drawn], repr=False)
    _sides: dict[str, Side] = field(default_factory=dict[str, Side], repr=False)
    _distances: dict[tuple[str, str], Interval] = field(
        default_factory=dict["tuple[str, str]", "Interval"], repr=False
    )

    @property
    def owned(self) -> bool:
        """Whether the coordinator has a measure of its own."""
        return COORDINATOR in self.pages

    def measure(self, name: str) -> Measure:
        """Build a measure of one atom a cell and class from a sketch."""
        decoded = self.pages[name].decoded
        # Cells without mass are left out: noise may leave a cell empty that has records, and the
        # other way round.
        rows, columns = np.nonzero(decoded.weights)
        labels = self._names[rows] if self.classes else None
        return Measure(decoded.atoms[columns], decoded.weights[rows, columns], labels)

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the classes that were counted, all others as one; empty without classes."""
        return tuple(str(name) for name in self._names) if self.classes else ()

    @property
    def _names(self) -> npt.NDArray[np.str_]:
        """Names of the classes that were sketched: the public ones, and all others."""
        return np.array([*self.classes, name_other_classes(self.classes)])

    def distance(self, a: str, b: str, *, why: bool = False) -> Distance:
        """Estimate the distance of two sketches, with its interval."""
        for name in (a, b):
            if name not in self.pages:
                raise InputError(
                    f"there is no sketch of {name!r}; there are {', '.join(sorted(self.pages))}.",
                    code="holder-unknown",
                )
        if a == b:
            raise InputError(
                f"both sides are {a!r}. Give two holders: one sketch does not show how far apart "
                "two samples from its distribution would be.",
                code="holder-names",
            )
        # In one order of the two, for rounding differs in the other.
        first, second = sorted((a, b))
        if why:
            parts = self._break_down(a, self.pages[b].decoded, b)
            return replace(self.distance(a, b), parts=parts)
        self.compute([(first, second)])
        return self._build_distance((a, b), *self._distances[first, second])

    def compute(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Estimate the distances of pairs on several cores, and keep them."""
        # Matrix, groups and worth need the same ones.
        ordered = {(min(pair), max(pair)) for pair in pairs}
        new = sorted(pair for pair in ordered if pair not in self._distances)
        if new:
            self._distances.update(zip(new, self._estimate(new), strict=True))

    def _estimate(self, pairs: list[tuple[str, str]]) -> list[Interval]:
        """Estimate distances, with intervals where a calibration gives them."""
        calibration = self.calibration
        if calibration is None:
            drawn = [(self._draw(x), self._draw(y)) for x, y in pairs]
            # Without public records nothing tells how far such an estimate is off: hence a value
            # alone.
            squares = on_cores(lambda both: distances_of([both], self.rate), drawn)
            return [(float(square[0]) ** 0.5, None) for square in squares]
        sides = [(self._side(x, calibration), self._side(y, calibration)) for x, y in pairs]
        sources = [(self._sources[x], self._sources[y]) for x, y in pairs]
        estimates = calibration.estimates(sides, sources)
        return [(item.value, (item.low, item.high)) for item in estimates]

    def _build_distance(
        self, sides: tuple[str, str], value: float, interval: tuple[float, float] | None
    ) -> Distance:
        return Distance(
            value=value,
            lower=0.0,
            upper=math.inf,
            method="sketch",
            status=self.status,
            converged=self.nu >= LEAST_NU,
            holders=sides,
            p=2,
            seed=self.seed,
            interval=interval,
        )

    def _break_down(self, name: str, other: Decoded, second: str = "") -> Parts:
        """Break down the distance from a sketch to another measure of cells."""
        names = self._names.tolist() if self.classes else ()
        parts = break_down_sketches(self.pages[name].decoded, other, self.embedding, names)
        atoms = [self.pages[side].decoded.atoms for side in (name, second) if side]
        return replace(parts, beyond=find_column_beyond(atoms, self.cells))

    @property
    def status(self) -> str:
        """What kind of number a distance is."""
        if self.nu < LEAST_NU:
            return (
                f"the noise is too large for this estimate: nu = {self.nu:.0f}, below "
                f"{LEAST_NU:.0f}. Give more records or a larger privacy_epsilon; there are no "
                "bounds"
            )
        if self.calibration is None:
            law = (
                "for an assumed normal distribution"
                if self.cells.drawn
                else "without records to judge it by"
            )
            return (
                f"estimate: nu = {self.nu:.0f}, {law}, and no interval, which needs {_JUDGED}; "
                "there are no bounds"
            )
        return (
            f"estimate: nu = {self.nu:.0f}; the interval aims to cover the distance in 95 % "
            "of cases, by the errors of estimates on pairs of public records; it is not "
            "certified, and is valid for records like the public ones and within their range"
            + self.tails
            + ". There are no bounds, because the share of records beyond that range is "
            "not known"
        )

    def _draw(self, name: str) -> Drawn:
        if name not in self._drawn:
            self._drawn[name] = self._sampler.draw(self.pages[name].decoded)
        return self._drawn[name]

    @cached_property
    def _sampler(self) -> Sampler:
        return Sampler.of(self.cells.dimension, self.seed, embedding=self.embedding)

    def _side(self, name: str, calibration: Calibration) -> Side:
        if name not in self._sides:
            page = self.pages[name]
            assert page.reading is not None
            self._sides[name] = calibration.side(page.reading, page.decoded)
        return self._sides[name]

    @cached_property
    def _sources(self) -> dict[str, Source]:
        # Numbers of records that differ little count as one: one simulation serves all pairs of
        # such sizes.
        records = merge_counts({name: self.pages[name].decoded.records for name in self.names})
        sources = {name: Source(number, noisy=True) for name, number in records.items()}
        if self.owned:
            sources[COORDINATOR] = Source(self.pages[COORDINATOR].decoded.records, noisy=False)
        return sources

    def barycenter(
        self, weights: Mapping[str, float] | None, support: int | None, rounds: int
    ) -> Barycenter:
        """Compute the barycenter of the holders' atoms, and of their scatters."""
        shares = normalize_shares(weights, self.names)
        return self._measure_barycenter(self._find_barycenter(shares, support, rounds), shares)

    def _find_barycenter(
        self, shares: Mapping[str, float], support: int | None, rounds: int
    ) -> SketchCentre:
        count = (
            # As many atoms as cells can hold what the sketches say, and more would split their
            # cells.
            min(self.cells.size, MOST_CELLS)
            if support is None
            else integer(support, "support", "option-support")
        )
        return find_sketch_barycenter(
            {name: self.pages[name].decoded for name in self.names},
            shares,
            count,
            integer(rounds, "rounds", "option-rounds"),
        )

    def _measure_barycenter(
        self, centre: SketchCentre, shares: Mapping[str, float], *, why: bool = False
    ) -> Barycenter:
        law = self._sampler.draw(centre.law, law=True)
        squares = on_cores(
            lambda name: float(distances_of([(self._draw(name), law)], self.rate)[0]), self.names
        )
        distances = {
            name: self._build_distance((name, TARGET), square**0.5, None)
            for name, square in zip(self.names, squares, strict=True)
        }
        if why:
            distances = {
                name: replace(distance, parts=self._break_down(name, centre.law))
                for name, distance in distances.items()
            }
        labels = self._names[centre.codes] if self.classes else None
        return Barycenter(
            points=centre.atoms,
            weights=centre.weights,
            labels=labels,
            objective=sum(shares[name] * distances[name].value ** 2 for name in self.names),
            lower=0.0,
            distances=distances,
            shares=shares,
            status=(
                "converged" if centre.settled else f"stopped after {len(centre.history)} rounds"
            )
            + f": atoms with a mean scatter of {centre.law.scatter:.3g} around them; objective and "
            "distances are estimates, not certified",
            converged=centre.settled,
            seed=self.seed,
            history=centre.history,
        )

    def values(self, target: Target, *, why: bool = False, shapley: bool = False) -> Contributions:
        """Compute distances to a target, and the shares that follow."""
        if target not in get_args(Target):
            raise InputError(
                f"target is {target!r}; give 'validation' or 'barycenter'.", code="option-target"
            )
        barycenter = None
        if target == "validation":
            if not self.owned:
                raise InputError(
                    "there are no validation data. Give own=, or target='barycenter'.",
                    code="validation-absent",
                )
            law = self.pages[COORDINATOR].decoded
            spread = self._draw(COORDINATOR).variance ** 0.5
            distances = {
                name: replace(
                    self.distance(name, COORDINATOR, why=why), holders=(name, "validation")
                )
                for name in self.names
            }
        else:
            shares = normalize_shares(None, self.names)
            # As many rounds as a barycenter has by default.
            centre = self._find_barycenter(shares, None, 20)
            law, barycenter = centre.law, self._measure_barycenter(centre, shares, why=why)
            distances = dict(barycenter.distances)
            # The parts stand once, with the holders.
            plain = {name: replace(item, parts=None) for name, item in distances.items()}
            barycenter = replace(barycenter, distances=plain)
            # No holder's own spread, for the barycenter has none of its own records: that of the
            # holders on average stands for what a single point would leave unexplained.
            middle = float(np.mean([self._draw(name).variance for name in self.names]))
            spread = middle**0.5
        contributions = self._build_contributions(distances, spread, target, barycenter)
        return self._add_shapley_values(contributions, law) if shapley else contributions

    def _add_shapley_values(self, contributions: Contributions, target: Decoded) -> Contributions:
        if len(self.names) < 2:
            return contributions.with_note("no Shapley values: they need two holders")
        cells = {name: order_cells(self.pages[name].decoded, self.embedding) for name in self.names}
        clouds = {name: (cloud.atoms, cloud.weights) for name, cloud in cells.items()}
        own = order_cells(target, self.embedding)
        return add_shapley_values(contributions, clouds, (own.atoms, own.weights))

    def _build_contributions(
        self,
        distances: Mapping[str, Distance],
        spread: float,
        target: Target,
        barycenter: Barycenter | None,
    ) -> Contributions:
        sampled = {
            name: Sampled(item.value, *item.interval)
            for name, item in distances.items()
            if item.interval is not None
        }
        records = {name: round(self.pages[name].decoded.records) for name in distances}
        items = build_contributions(distances, sampled, spread, records)
        return Contributions(
            holders=items,
            target=target,
            method="sketch",
            labels="vectors" if self.classes else "none",
            spread=spread,
            status=self.status + "; the numbers of records are estimated",
            converged=self.nu >= LEAST_NU,
            seed=self.seed,
            barycenter=barycenter,
        )


# Mean offset, in lengths that offsets are clipped to, beyond which many records must be clipped.
_BEYOND = 0.5


def break_down_sketches(
    first: Decoded, second: Decoded, embedding: Embedding, classes: Sequence[str]
) -> Parts:
    """Break down the cost between the cells of two sketches: it discloses nothing more."""
    x, y = (order_cells(decoded, embedding, classes) for decoded in (first, second))
    return x.break_down(y, x.compute_plan(y), embedding, of="cells")


def order_cells(
    decoded: Decoded, embedding: Embedding, classes: Sequence[str] = ()
) -> OrderedRecords:
    """Put the points of the cells of a sketch, with their masses, in the order of their values."""
    kinds, cells = np.nonzero(decoded.weights)
    points = decoded.atoms[cells]
    if embedding != "none":
        points = np.hstack([points, class_coordinates(decoded, embedding)[kinds]])
    return OrderedRecords.of(points, decoded.weights[kinds, cells], kinds, classes)


def find_column_beyond(measures: Sequence[Array], cells: Cells) -> str | None:
    """Find the column towards which many records of a sketch lie beyond its cells, if any do.

    Offsets from centres keep their direction where they are clipped: their mean is long only
    where most records have one.
    """
    shifts = [atoms[0] - cells.centres[0] for atoms in measures]
    # One shift is common to all cells of a sketch: any atom shows it.
    longest = max(shifts, key=lambda shift: float(shift @ shift))
    # The radius is the length that offsets are clipped to: the mean of clipped offsets is that long
    # only where all of them point one way.
    if float(longest @ longest) <= (_BEYOND * cells.radius) ** 2:
        return None
    return str(int(np.abs(longest).argmax()))


# Relative gain of a round below which a barycenter counts as settled.
_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class SketchCentre:
    """A barycenter: atoms with classes, and the same as a distribution with its scatter."""

    atoms: Array = field(repr=False)
    weights: Array = field(repr=False)
    codes: Codes = field(repr=False)
    law: Decoded = field(repr=False)
    history: tuple[Mapping[str, float], ...]
    settled: bool


def find_sketch_barycenter(
    sketches: Mapping[str, Decoded], shares: Mapping[str, float], support: int, rounds: int
) -> SketchCentre:
    r"""Compute the barycenter of mixtures, its distribution, its history, and whether it settled.

    .. math:: \sum_i \lambda_i (W_2^2(\text{atoms}) + \mathrm{Bures}^2)

    Atoms and covariance part: a mixture of one covariance is moved by moving its atoms, and its
    covariance. Atoms are found by the fixed point of Cuturi and Doucet, class by class, from
    those of the average of the sketches; the covariance is the square of the
    average root, for the covariances of sketches commute.
    """
    names = sorted(sketches)
    parts = np.array([shares[name] for name in names])
    masses = np.stack([sketches[name].weights.sum(axis=1) for name in names])
    classes = parts @ masses
    atoms: list[Array] = []
    weights: list[Array] = []
    codes: list[int] = []
    objective = np.zeros(rounds)
    settled = True
    for code in np.flatnonzero(classes > 0).tolist():
        sides = [
            (*_select_class(sketches[name], code), part * mass)
            for name, part, mass in zip(names, parts, masses[:, code], strict=True)
            if mass > 0
        ]
        # Atoms in proportion to the mass of a class, and one at least. Rounded class by class, so
        # that there may be a few more or fewer than asked for.
        size = max(1, round(support * float(classes[code])))
        points, share, objectives, done = _find_atoms(sides, size, rounds)
        settled = settled and done
        atoms.append(points)
        weights.append(classes[code] * share)
        codes += [code] * len(points)
        # A class that settled earlier stays as it is.
        objective += np.pad(objectives, (0, rounds - len(objectives)), mode="edge")
    points, mass = np.vstack(atoms), np.concatenate(weights)
    # All atoms of a sketch scatter alike, so that one covariance stands for all classes.
    covariance, scatter = _average_covariances([sketches[name].covariance for name in names], parts)
    by_class = np.zeros((int(max(codes)) + 1, len(points)))
    by_class[codes, np.arange(len(points))] = mass
    noted = (objective + scatter).tolist()
    # After every class has settled the objective repeats itself: the history ends there.
    kept = next((k for k in range(1, rounds) if noted[k] == noted[k - 1]), rounds)
    return SketchCentre(
        points,
        mass,
        np.array(codes, dtype=np.int64),
        Decoded(points, by_class, covariance, np.inf),
        tuple({"round": float(k), "objective": noted[k]} for k in range(kept)),
        settled,
    )


def _select_class(sketch: Decoded, code: int) -> tuple[Array, Array]:
    """Select the atoms of a class, and their weights within it."""
    row = sketch.weights[code]
    return sketch.atoms[row > 0], row[row > 0] / row[row > 0].sum()


def _find_atoms(
    sides: list[tuple[Array, Array, float]], size: int, rounds: int
) -> tuple[Array, Array, list[float], bool]:
    """Find a free-support barycenter; return atoms, weights, objectives, and whether it settled."""
    points = np.vstack([points for points, _, _ in sides])
    masses = np.concatenate([part * weights for _, weights, part in sides])
    # Started from all sketches together rather than from one: with a fixed point that only descends
    # the start decides which optimum is found.
    atoms, weights = _merge(points, masses / masses.sum(), size)
    total = sum(part for _, _, part in sides)
    objectives: list[float] = []
    # Atoms move little from round to round: what proved a plan is near what proves the next.
    starts: list[Array | None] = [None for _ in sides]

    def plan(place: int) -> ExactPlan:
        goal, mass, _ = sides[place]
        return exact_plan(atoms, goal, weights, mass, start=starts[place])

    while len(objectives) < rounds:
        plans = on_cores(plan, range(len(sides)))
        starts = [item.potentials[1] for item in plans]
        objectives.append(
            sum(part * item.cost for (_, _, part), item in zip(sides, plans, strict=True))
        )
        # The objective never rises: each plan is the best for these atoms, and each move the best
        # for these plans.
        if len(objectives) > 1 and objectives[-2] - objectives[-1] <= _TOL * objectives[-2]:
            return atoms, weights, objectives, True
        moved = np.zeros_like(atoms)
        for (goal, _, part), item in zip(sides, plans, strict=True):
            # The fixed point: an atom goes to the weighted mean of what is transported to it.
            moved += part / total * np.asarray(item.plan @ goal) / weights[:, None]
        atoms = moved
    return atoms, weights, objectives, False


def _merge(points: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """Merge groups of near points into first atoms at their means."""
    count = min(size, len(np.unique(points, axis=0)))
    centres, codes = cluster_points(points, count, 0, weights)
    mass = np.bincount(codes, weights, minlength=count)
    # Groups may lose all their points while centres move.
    used = mass > 0
    return centres[used], mass[used] / mass.sum()


def _average_covariances(covariances: list[Array], shares: Array) -> tuple[Array, float]:
    """Compute the Bures barycenter of covariances that commute, and its objective."""
    roots = [covariance_root(one) for one in covariances]
    # For covariances that commute the Bures distance is that of their roots, of which the mean is
    # the barycenter.
    middle = np.einsum("k,kij->ij", shares, np.stack(roots))
    objective = sum(
        float(share * np.sum((root - middle) ** 2))
        for share, root in zip(shares, roots, strict=True)
    )
    return middle @ middle, objective
