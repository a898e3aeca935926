"""What decoded sketches tell: distances, a barycenter, values, groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import whole
from silot_transport._threads import on_cores

from ...data.measure import Embedding, Measure
from ...errors import InputError
from ...federation.protocol import COORDINATOR
from ...privacy.calibrate import Calibration, Side, Source, alike
from ...privacy.cells import MOST_CELLS, Cells
from ...privacy.compare import Drawn, Rate, Sampler, distances_of
from ...privacy.sketch import Decoded, Reading
from ...privacy.tilts import FEWEST_RECORDS
from ..cost_parts import Parts
from ..parts import cell_cloud, column_beyond, sketch_parts
from ..result import Distance
from ..worth.mixtures import mixture_shapley
from ..worth.result import Barycenter, Contributions
from ..worth.shares import shares_of
from ..worth.together import with_shapley, without_shapley
from ..worth.worth import Sampled, worth
from .centre import SketchCentre, centre_of
from .result import Target

Interval = tuple[float, tuple[float, float] | None]

LEAST_NU = 50.0
"""Records times what a sketch spends: below it noise outweighs what is to be told."""
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
    _told: dict[tuple[str, str], Interval] = field(
        default_factory=dict["tuple[str, str]", "Interval"], repr=False
    )

    @property
    def owned(self) -> bool:
        """Whether the coordinator has a measure of its own."""
        return COORDINATOR in self.pages

    def measure(self, name: str) -> Measure:
        """What a sketch tells, as a measure of one atom a cell and class."""
        found = self.pages[name].decoded
        rows, columns = np.nonzero(found.weights)
        labels = None
        if self.classes:
            labels = self._names[rows]
        return Measure(found.atoms[columns], found.weights[rows, columns], labels)

    @property
    def _names(self) -> npt.NDArray[np.str_]:
        """Names of the classes that were sketched: the public ones, and all others."""
        other = "other"
        while other in self.classes:
            other += " classes"
        return np.array([*self.classes, other])

    def distance(self, a: str, b: str, *, why: bool = False) -> Distance:
        """Estimated distance with its interval."""
        for name in (a, b):
            if name not in self.pages:
                raise InputError(
                    f"there is no sketch of {name!r}; there are {', '.join(sorted(self.pages))}.",
                    code="holder-unknown",
                )
        if a == b:
            raise InputError(
                f"both sides are {a!r}. Give two holders: one sketch cannot tell how far apart "
                "two samples of its law would be.",
                code="holder-names",
            )
        # One order of the two, or rounding would make the other differ.
        first, second = sorted((a, b))
        if why:
            parts = self._parts(a, self.pages[b].decoded, b)
            return replace(self.distance(a, b), parts=parts)
        self.compute([(first, second)])
        return self._result((a, b), *self._told[first, second])

    def compute(self, pairs: Iterable[tuple[str, str]]) -> None:
        """Estimate pairs that are to be asked for, on several cores."""
        # Matrix, groups and worth ask for the same ones.
        ordered = {(min(pair), max(pair)) for pair in pairs}
        new = sorted(pair for pair in ordered if pair not in self._told)
        if new:
            self._told.update(zip(new, self._estimates(new), strict=True))

    def _estimates(self, pairs: list[tuple[str, str]]) -> list[Interval]:
        """Distances, and their intervals where there are any."""
        calibration = self.calibration
        if calibration is None:
            drawn = [(self._draw(x), self._draw(y)) for x, y in pairs]
            squares = on_cores(lambda both: distances_of([both], self.rate), drawn)
            return [(float(square[0]) ** 0.5, None) for square in squares]
        sides = [(self._side(x, calibration), self._side(y, calibration)) for x, y in pairs]
        sources = [(self._sources[x], self._sources[y]) for x, y in pairs]
        found = calibration.estimates(sides, sources)
        return [(each.value, (each.low, each.high)) for each in found]

    def between(self, x: Page, y: Page, like: tuple[str, str]) -> float:
        """Estimated distance of two other pages, taken for those of two names."""
        if self.calibration is None:
            first, second = (self._sampler.draw(page.decoded) for page in (x, y))
            return float(distances_of([(first, second)], self.rate)[0]) ** 0.5
        assert x.reading is not None and y.reading is not None
        sides = [self.calibration.side(page.reading, page.decoded) for page in (x, y)]  # type: ignore[arg-type]
        sources = (self._sources[like[0]], self._sources[like[1]])
        return self.calibration.estimates([(sides[0], sides[1])], [sources])[0].value

    def _result(
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

    def _parts(self, name: str, other: Decoded, known: str = "") -> Parts:
        """What the distance from a sketch to another measure of cells is made of."""
        names = self._names.tolist() if self.classes else ()
        found = sketch_parts(self.pages[name].decoded, other, self.embedding, names)
        atoms = [self.pages[each].decoded.atoms for each in (name, known) if each]
        return replace(found, beyond=column_beyond(atoms, self.cells))

    @property
    def status(self) -> str:
        """What kind of number a distance is."""
        if self.nu < LEAST_NU:
            return (
                f"noise outweighs what is to be told: nu = {self.nu:.0f}, below {LEAST_NU:.0f}. "
                "Give more records or a larger privacy_epsilon; no bound holds"
            )
        if self.calibration is None:
            law = "of an assumed normal law" if self.cells.drawn else "without what could judge it"
            return (
                f"estimate: nu = {self.nu:.0f}, {law}, and no interval: that takes {_JUDGED}; no "
                "bound holds"
            )
        return (
            f"estimate: nu = {self.nu:.0f}; the interval has the error of estimates on pairs made "
            "of the public records, bias included, is to cover 95 %, and is not certified: it "
            "speaks of records like the public ones, within their reach" + self.tails + "; no "
            "bound holds, for what share of the records lies beyond is not known"
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
        records = alike({name: self.pages[name].decoded.records for name in self.names})
        found = {name: Source(number, noisy=True) for name, number in records.items()}
        if self.owned:
            found[COORDINATOR] = Source(self.pages[COORDINATOR].decoded.records, noisy=False)
        return found

    def barycenter(
        self, weights: Mapping[str, float] | None, support: int | None, rounds: int
    ) -> Barycenter:
        """Barycenter of the holders' atoms, and of their scatters."""
        shares = shares_of(weights, self.names)
        return self._around(self._centre(shares, support, rounds), shares)

    def _centre(
        self, shares: Mapping[str, float], support: int | None, rounds: int
    ) -> SketchCentre:
        count = (
            min(self.cells.size, MOST_CELLS)
            if support is None
            else whole(support, "support", "option-support")
        )
        return centre_of(
            {name: self.pages[name].decoded for name in self.names},
            shares,
            count,
            whole(rounds, "rounds", "option-rounds"),
        )

    def _around(
        self, centre: SketchCentre, shares: Mapping[str, float], *, why: bool = False
    ) -> Barycenter:
        law = self._sampler.draw(centre.law, law=True)
        squares = on_cores(
            lambda name: float(distances_of([(self._draw(name), law)], self.rate)[0]), self.names
        )
        distances = {
            name: self._result((name, TARGET), square**0.5, None)
            for name, square in zip(self.names, squares, strict=True)
        }
        if why:
            distances = {
                name: replace(each, parts=self._parts(name, centre.law))
                for name, each in distances.items()
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
            + f": atoms of mean scatter {centre.law.scatter:.3g} around them; objective and "
            "distances are estimates, not certified",
            converged=centre.settled,
            seed=self.seed,
            history=centre.history,
        )

    def values(self, target: Target, *, why: bool = False, shapley: bool = False) -> Contributions:
        """Distances to a target, and the shares that follow."""
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
            shares = shares_of(None, self.names)
            centre = self._centre(shares, None, 20)
            law, barycenter = centre.law, self._around(centre, shares, why=why)
            distances = dict(barycenter.distances)
            # Told once, with the holders.
            plain = {name: replace(each, parts=None) for name, each in distances.items()}
            barycenter = replace(barycenter, distances=plain)
            middle = float(np.mean([self._draw(name).variance for name in self.names]))
            spread = middle**0.5
        found = self._contributions(distances, spread, target, barycenter)
        return self._with_shapley(found, law) if shapley else found

    def _with_shapley(self, found: Contributions, target: Decoded) -> Contributions:
        if len(self.names) < 2:
            return without_shapley(found, "it takes two")
        cells = {name: cell_cloud(self.pages[name].decoded, self.embedding) for name in self.names}
        clouds = {name: (cloud.atoms, cloud.weights) for name, cloud in cells.items()}
        own = cell_cloud(target, self.embedding)
        values = mixture_shapley(clouds, (own.atoms, own.weights), found.spread, seed=self.seed)
        return with_shapley(found, values)

    def _contributions(
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
        items = worth(distances, sampled, spread, records)
        return Contributions(
            holders=items,
            target=target,
            method="sketch",
            labels="vectors" if self.classes else "none",
            spread=spread,
            status=self.status + "; numbers of records are estimates",
            converged=self.nu >= LEAST_NU,
            seed=self.seed,
            barycenter=barycenter,
        )

    def clusters(self, k: int) -> dict[str, int]:
        """Average linkage of the distances."""
        from scipy.cluster.hierarchy import fcluster, linkage

        count = whole(k, "k", "option-clusters", most=len(self.names))
        if len(self.names) == 1:
            return dict.fromkeys(self.names, 0)
        ordered = sorted(self.names)
        self.compute(combinations(ordered, 2))
        apart = [self.distance(a, b).value for a, b in combinations(ordered, 2)]
        raw = fcluster(linkage(np.array(apart), "average"), count, "maxclust")
        order: list[int] = list(dict.fromkeys(int(code) for code in raw))
        place = {name: order.index(int(code)) for name, code in zip(ordered, raw, strict=True)}
        return {name: place[name] for name in self.names}
