"""Compare the last release of a site with those before it, against releases of one law."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from silot_transport.chance import Chance

from ...errors import InputError
from ...privacy.cells import Cells, nearest
from ...privacy.sketch import RESOLUTION, Array, Reading, decode, parts, sensitivity
from ...render.shown import Shown
from ..result import Distance, fields_by_name
from .decoded import DecodedSketches, Page
from .result import Sketches

LEVEL = 0.05
"""Chance of an alarm where nothing changed, over all releases that are compared."""

# Simulated pairs: the smallest p-value is 1 / 241, below the level of ten comparisons.
_PAIRS = 240


@dataclass(frozen=True, kw_only=True)
class Change:
    """The mean of one column: how far it moved, and how far chance alone moves it.

    ``chance`` is what two releases of one law stay below in 95 % of cases; ``drifted`` whether it
    moved by more than chance moves any column.
    """

    column: str
    change: float
    chance: float
    drifted: bool


@dataclass(frozen=True, kw_only=True)
class Since:
    """The last release compared with one before."""

    period: str
    """Of the one before."""
    distance: Distance
    """Estimated W2 of the two."""
    chance: float
    """Distance that two releases of one law, of these sizes and this noise, stay below in 95 % of
    cases."""
    p_value: float
    """Chance of a difference as clear as this, of distance, cells or any column, where nothing
    changed."""
    drifted: bool
    """Whether that is below the level, shared among all releases that are compared."""
    columns: tuple[Change, ...] = field(repr=False)
    """How the columns moved, the clearest first."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift(Shown):
    """The last release of a site against those before.

    Attributes
    ----------
    name
        The site.
    period
        Of the last release.
    since
        Comparisons with those before, in their order.
    status
        What follows, in words.
    sketches
        Of all periods.
    """

    view: ClassVar = "drift_view:drift"

    name: str
    period: str
    since: tuple[Since, ...]
    status: str
    seed: int
    sketches: Sketches = field(repr=False)

    @property
    def drifted(self) -> bool:
        """Whether any comparison shows more than chance."""
        return any(item.drifted for item in self.since)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return {
            **fields_by_name(self, "name", "period", "drifted", "status"),
            "since": [
                {
                    **vars(item),
                    "distance": item.distance.to_dict(),
                    "columns": [vars(change) for change in item.columns],
                }
                for item in self.since
            ],
            "releases": [release.to_dict() for release in self.sketches.releases],
            "seed": self.seed,
        }

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)


def measure_drift(
    name: str,
    sketches: Sketches,
    sample: Array,
    *,
    progress: Callable[[int, int], None] | None = None,
) -> Drift:
    """Compare the last of some sketches with each before.

    Pairs of releases of one law are simulated, that of both sketches together, with their numbers
    of records and their noise, and estimated as the two themselves. Distance, cells and columns
    are each measured by what chance makes of them; the clearest of all decides, against the
    clearest of each simulated pair, so that many columns make no alarm more likely.

    Parameters
    ----------
    name
        The site.
    sketches
        Of the periods, in their order.
    sample
        Public records, or those that stand for them: how records lie within cells.
    progress
        Called with comparisons done and of all.
    """
    if len(sketches.names) < 2:
        raise InputError(
            "one release is given; drift is a difference of two or more. Give those of before too.",
            code="release-few",
        )
    *before, last = sketches.names
    book = sketches.book
    law = Within.of(sample, book)
    since: list[Since] = []
    for k, period in enumerate(before):
        # Bonferroni: the level is shared among the comparisons, so that more periods make no false
        # alarm likelier.
        since.append(_compare(sketches, period, last, law, LEVEL / len(before)))
        if progress is not None:
            progress(k + 1, len(before))
    return Drift(
        name=name, period=last, since=tuple(since), status=_describe_drift(since),
        seed=sketches.seed, sketches=sketches,
    )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Within:
    """How records lie within cells, of public records: how they vary around what a site tells."""

    root: Array = field(repr=False)
    """Square root of the covariance of clipped offsets (d, d)."""
    square: float
    """Mean of clipped squares."""
    spread: float
    """Standard deviation of clipped squares."""
    mu: float
    """What a release spends."""

    @classmethod
    def of(cls, sample: Array, book: DecodedSketches) -> Within:
        """Measure public records, for releases with the noise of a book's."""
        cells = book.cells
        places, squares = nearest(sample, cells.centres)
        lengths = np.sqrt(squares)
        # As a holder clips offsets before it adds them up, so that one record counts for little.
        clipped = (sample - cells.centres[places]) * (
            cells.radius / np.maximum(lengths, cells.radius)
        )[:, None]
        # By eigenvalues, for a covariance of few public records need not have full rank.
        values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(clipped.T, bias=True)))
        # Squares have a radius of their own, as in ``privacy.sketch``.
        far = np.minimum(lengths, cells.radius2) ** 2
        reading = next(iter(book.pages.values())).reading
        assert reading is not None
        noise = reading.count_noise * parts(RESOLUTION)[0]
        return cls(
            # Rounding may leave an eigenvalue just below zero.
            (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T,
            # Never zero: the scatter of a law is divided by it.
            max(float(far.mean()), 1e-300),
            float(far.std()),
            sensitivity(cells.dimension) / noise,
        )


@dataclass(frozen=True, eq=False)
class Law:
    """One law behind two releases, from which others like them are drawn."""

    weights: Array = field(repr=False)
    """Mass by class and cell (C, S)."""
    shift: Array = field(repr=False)
    """Mean of the clipped offsets (d,), as both releases tell them."""
    square: float
    """Mean of their clipped squares, as both releases tell it."""
    within: Within
    """How records vary around that."""

    @classmethod
    def of(cls, pages: Sequence[Page], within: Within, cells: Cells) -> Law:
        """Pool the releases."""
        readings = [page.reading for page in pages if page.reading is not None]
        records = [page.decoded.records for page in pages]
        total = sum(records)
        # Under the hypothesis of one law both releases are samples of it: they count by their
        # numbers of records.
        weights = np.average([page.decoded.weights for page in pages], axis=0, weights=records)
        # Noise can push a mean square out of the range that clipping allows: it is cut below.
        square = sum(reading.scatter for reading in readings) / total
        return cls(
            weights / weights.sum(),
            np.sum([reading.shift for reading in readings], axis=0) / total,
            float(np.clip(square, 0.0, cells.radius2**2)),
            within,
        )

    def draw_page(self, records: float, book: DecodedSketches, rng: np.random.Generator) -> Page:
        """Draw a release of so many records of the law."""
        cells, within, n = book.cells, self.within, max(round(records), 1)
        a, b, q = parts(RESOLUTION)
        # The mechanism adds this much noise to numbers on the integer grid: each kind of number
        # has a unit of its own there.
        noise = sensitivity(cells.dimension) / within.mu
        units = (noise / a, noise * cells.radius / b, noise * cells.radius2**2 / q)
        # Sampling noise of the records first, then the noise of the mechanism: a release has both.
        counts = rng.multinomial(n, self.weights.ravel()).reshape(self.weights.shape)
        # Public records are stretched or shrunk to the scatter that the releases show; by the
        # central limit theorem sums of many records are normal.
        wide = self.square / within.square
        moved = (n * wide) ** 0.5 * (within.root @ rng.standard_normal(cells.dimension))
        far = n**0.5 * wide * within.spread * float(rng.standard_normal())
        reading = Reading(
            counts + units[0] * rng.standard_normal(counts.shape),
            n * self.shift + moved + units[1] * rng.standard_normal(cells.dimension),
            n * self.square + far + units[2] * float(rng.standard_normal()),
            *units,
        )
        # Decoded as the releases were, for the difference of two estimates depends on the prior of
        # both.
        prior = None if book.calibration is None else book.calibration.prior
        return Page(decode(reading, cells, prior), reading)


def _compare(sketches: Sketches, before: str, last: str, within: Within, level: float) -> Since:
    book = sketches.book
    distance = sketches.distance(before, last)
    pages = (book.pages[before], book.pages[last])
    records = [page.decoded.records for page in pages]
    law = Law.of(pages, within, book.cells)
    # A stream of its own: the draws that distances are estimated by use the seed too.
    rng = np.random.default_rng([sketches.seed, 41])
    simulated = np.stack([
        _measure_differences(
            book, *(law.draw_page(n, book, rng) for n in records), like=(before, last)
        )
        for _ in range(_PAIRS)
    ])  # fmt: skip
    observed = _measure_differences(book, *pages, like=(before, last), distance=distance.value)
    # One test for all differences: its p-value holds whichever of them is the clearest, however
    # many columns there are.
    p_value, clear, clearest = standardize(simulated, observed)
    # A column is named where it would have been the clearest of a simulated pair no more often than
    # the level says.
    most = float(np.quantile(clearest, 1.0 - level))
    names = sketches.columns or tuple(f"column {k}" for k in range(book.cells.dimension))
    means = [_compute_mean(page, book) for page in pages]
    moved = means[1] - means[0]
    # The first two differences are those of distance and cells, the others of columns.
    order = sorted(range(len(names)), key=lambda k: -float(clear[k + 2]))
    return Since(
        period=before,
        distance=distance,
        chance=float(np.quantile(simulated[:, 0], 1.0 - LEVEL)),
        p_value=p_value,
        drifted=p_value <= level,
        columns=tuple(
            Change(
                column=names[k],
                change=float(moved[k]),
                chance=float(np.quantile(simulated[:, k + 2], 1.0 - LEVEL)),
                # A column drifts only where the whole comparison does: the test was made for the
                # clearest difference, not for each.
                drifted=bool(p_value <= level and clear[k + 2] >= most),
            )
            for k in order
        ),
    )


def standardize(simulated: Array, observed: Array) -> tuple[float, Array, Array]:
    """Standardize the observed differences (k,) among those of simulated pairs (m, k).

    Returns the p-value of the clearest, how clear each is (k,), and the clearest of each pair
    (m,). All are measured by the mean and spread of all, the observed ones among them: by those of
    the others alone they would look clearer, and the more so the more columns there are. Where
    nothing changed the p-value is then below a level as often as the level says.
    """
    every = np.vstack([simulated, observed])
    # Differences without any spread, such as those of constant columns, are zero and stay so.
    clear = (every - every.mean(axis=0)) / (every.std(axis=0) + 1e-300)
    clearest = clear.max(axis=1)
    return float((clearest >= clearest[-1]).mean()), clear[-1], clearest[:-1]


def _measure_differences(
    book: DecodedSketches, x: Page, y: Page, *, like: tuple[str, str], distance: float | None = None
) -> Array:
    """Measure how two releases differ: in distance, in cells, and in the mean of each column."""
    if distance is None:
        distance = book.between(x, y, like)
    # Shares, not counts: numbers of records may change without any drift of what they are.
    shares = [_compute_shares(page) for page in (x, y)]
    columns = np.abs(_compute_mean(x, book) - _compute_mean(y, book))
    return np.concatenate([[distance, float(np.sum((shares[0] - shares[1]) ** 2))], columns])


def _compute_shares(page: Page) -> Array:
    assert page.reading is not None
    # Noise may leave all counts together below one record.
    return page.reading.counts / max(float(page.reading.counts.sum()), 1.0)


def _compute_mean(page: Page, book: DecodedSketches) -> Array:
    """Compute the mean of the records from the noisy numbers alone."""
    assert page.reading is not None
    total = max(float(page.reading.counts.sum()), 1.0)
    return _compute_shares(page).sum(axis=0) @ book.cells.centres + page.reading.shift / total


def _describe_drift(since: Sequence[Since]) -> str:
    drifted = [item for item in since if item.drifted]
    if not drifted:
        words = "no drift: no difference is more than chance explains"
        return f"{words}; smaller ones than the chance levels cannot be seen"
    columns = dict.fromkeys(
        change.column for item in drifted for change in item.columns if change.drifted
    )
    periods = ", ".join(item.period for item in drifted)
    words = f"drift since {periods}, more than chance explains"
    named = f", clearest in {', '.join(list(columns)[:5])}" if columns else ", in no single column"
    return f"{words}{named}; why, no release can say: other people, other habits or other units"


# Simulated pairs behind the mean and the spread of a chance distance.
_CHANCE_PAIRS = 40


def sketch_chances(sketches: Sketches, names: Sequence[str]) -> dict[str, Chance]:
    """Estimated distances of two releases of one law, by the sketch whose law it is.

    Pairs of releases are drawn of what each sketch tells, with its number of records and its
    noise, and estimated as the sketches are. Nothing more is asked or spent. Empty where
    records were not counted in cells of public records.
    """
    book = sketches.book
    if book.sample is None or any(book.pages[name].reading is None for name in names):
        return {}
    within = Within.of(book.sample, book)
    return {name: _simulate_chance(book, name, within, sketches.seed) for name in names}


def _simulate_chance(book: DecodedSketches, name: str, within: Within, seed: int) -> Chance:
    page = book.pages[name]
    law = Law.of([page], within, book.cells)
    # Another stream than that of drift, so that the two are independent.
    rng = np.random.default_rng([seed, 43])
    distances = np.array([
        book.between(
            *(law.draw_page(page.decoded.records, book, rng) for _ in range(2)), like=(name, name)
        )
        for _ in range(_CHANCE_PAIRS)
    ])  # fmt: skip
    # Wider by the error of the mean of so few pairs: the spread is that of one new distance.
    spread = float(distances.std(ddof=1)) * (1.0 + 1.0 / _CHANCE_PAIRS) ** 0.5
    return Chance(float(distances.mean()), spread, 0.0, _CHANCE_PAIRS - 1)
