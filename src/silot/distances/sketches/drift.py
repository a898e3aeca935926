"""Compare releases: the last of a site with those before it, and those of several sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from silot_transport import GroupsResult, TwoSampleResult, group_histograms, two_histograms

from ...data.reported import Reported
from ...data.schema import Contract
from ...errors import InputError
from ...federation.result import Cost
from ..naming import name_verdict
from ..result import Distance, fields_by_name
from ..verdict import verdict_words
from .decoded import Array, DecodedSketches
from .result import Sketches

LEVEL = 0.05
"""How often there is an alarm where nothing changed, over all releases that are compared."""


@dataclass(frozen=True, kw_only=True)
class Since:
    """The last release compared with one before."""

    period: str
    """Of the one before."""
    distance: Distance
    """Estimated W2 of the two."""
    test: TwoSampleResult
    """Whether they differ by more than sampling and noise make, at the level shared among all
    releases that are compared; by which columns; and what would have been detected."""

    @property
    def drifted(self) -> bool:
        """Whether they differ."""
        return self.test.verdict == "different"


@dataclass(frozen=True, kw_only=True, eq=False)
class Drift(Reported):
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

    view: ClassVar = "view:drift"

    name: str
    period: str
    since: tuple[Since, ...]
    status: str
    seed: int
    sketches: Sketches = field(repr=False)

    @property
    def drifted(self) -> bool:
        """Whether any comparison shows a difference."""
        return any(item.drifted for item in self.since)

    @property
    def value(self) -> dict[str, float]:
        """The distance of the last release to each before."""
        return {item.period: item.distance.value for item in self.since}

    @property
    def interval(self) -> dict[str, tuple[float, float] | None]:
        """Where each distance lies in 95 % of cases."""
        return {item.period: item.distance.interval for item in self.since}

    @property
    def cost(self) -> Cost:
        """What reading the releases cost."""
        return self.sketches.cost

    @property
    def disclosure(self) -> str:
        """The most detailed thing that the site disclosed."""
        return self.sketches.disclosure

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return {
            **fields_by_name(self, "name", "period", "drifted", "status"),
            "since": [
                {
                    "period": item.period,
                    "drifted": item.drifted,
                    "distance": item.distance.to_dict(),
                    "test": item.test.to_dict(),
                }
                for item in self.since
            ],
            "releases": [release.to_dict() for release in self.sketches.releases],
            "seed": self.seed,
        }


def measure_drift(
    name: str, sketches: Sketches, *, progress: Callable[[int, int], None] | None = None
) -> Drift:
    """Compare the last of some sketches with each before (``silot.transport.two_histograms``).

    Parameters
    ----------
    name
        The site.
    sketches
        Of the periods, in their order.
    progress
        Called with comparisons done and of all.
    """
    if len(sketches.names) < 2:
        raise InputError(
            "only one release is given; drift needs two or more. Give earlier releases too.",
            code="release-few",
        )
    *before, last = sketches.names
    since: list[Since] = []
    for k, period in enumerate(before):
        # Bonferroni: the level is shared among the comparisons, so that more periods make no false
        # alarm likelier.
        verdict = compare_two(sketches, period, last, LEVEL / len(before))
        since.append(Since(period=period, distance=sketches.distance(period, last), test=verdict))
        if progress is not None:
            progress(k + 1, len(before))
    return Drift(
        name=name, period=last, since=tuple(since), status=_describe_drift(since),
        seed=sketches.seed, sketches=sketches,
    )  # fmt: skip


def compare_two(sketches: Sketches, before: str, last: str, level: float) -> TwoSampleResult:
    """Test whether two releases differ, or a release and the coordinator's own records."""
    if any(sketches.book.pages[name].reading is None for name in (before, last)):
        why = "its records were counted in a quadtree: give public records in place of a mean"
        sizes = [round(sketches.book.pages[name].decoded.records) for name in (before, last)]
        return TwoSampleResult.of_untestable(why, level, (sizes[0], sizes[1]))
    # Cells are public: both releases counted in the same ones.
    cells, columns, spread = _cells(sketches)
    counts, noise = zip(*(_counts(sketches.book, name) for name in (before, last)), strict=True)
    verdict = two_histograms(
        cells, *counts, x_noise=noise[0], y_noise=noise[1], columns=columns, level=level,
        # The smallest p-value must lie below a level that several comparisons share.
        permutations=max(199, round(10 / level)), spread=spread, seed=sketches.seed,
    )  # fmt: skip
    return name_verdict(verdict, sketches.columns)


def compare_sketches(sketches: Sketches, level: float) -> GroupsResult | None:
    """Test which of several releases differ, in the order of their names.

    Nothing more is asked or spent. ``None`` where records were not counted in cells.
    """
    # In the order of names, as groups of holders are.
    names = sorted(sketches.names)
    # Releases that were not counted in cells tell no counts to compare.
    if any(sketches.book.pages[name].reading is None for name in names):
        return None
    cells, columns, spread = _cells(sketches)
    counts, noise = zip(*(_counts(sketches.book, name) for name in names), strict=True)
    verdict = group_histograms(
        cells,
        counts,
        noise=noise,
        spread=spread,
        columns=columns,
        level=level,
        seed=sketches.seed,
    )
    return name_verdict(verdict, sketches.columns)


def _cells(sketches: Sketches) -> tuple[Array, tuple[str, ...], Array | None]:
    """Return the public cells, by class where there are classes, and their columns.

    These by names, and by standard deviations of the public records, if there are any.
    """
    book = sketches.book
    centres, classes = book.cells.centres, book.class_names
    columns = sketches.columns
    names = columns.features if isinstance(columns, Contract) else columns
    names = names or tuple(f"column {k}" for k in range(book.cells.dimension))
    spread = None if book.sample is None else book.sample.std(axis=0)
    if not classes:
        # Without classes a release is one histogram over the cells.
        return centres, tuple(names), spread
    # A class is a column of zeros and ones: a change of its share drives a verdict as others do.
    kinds = np.repeat(np.eye(len(classes)), len(centres), axis=0)
    cells = np.hstack([np.tile(centres, (len(classes), 1)), kinds])
    # Of a share, at least what the counts say.
    spread = None if spread is None else np.concatenate([spread, np.zeros(len(classes))])
    return cells, (*names, *(f"class {name}" for name in classes)), spread


def _counts(book: DecodedSketches, name: str) -> tuple[Array, float]:
    """Return the noisy counts of a release by class and cell, and the deviation of their noise."""
    reading = book.pages[name].reading
    assert reading is not None
    # The noise of every count is the same, and public.
    return reading.counts.ravel(), reading.count_noise


def _describe_drift(since: Sequence[Since]) -> str:
    drifted = [item for item in since if item.drifted]
    # What was not seen is named with what would have been.
    if not drifted:
        return f"no drift: {verdict_words(since[-1].test)}"
    # The columns of all periods, those of the earliest first.
    columns = dict.fromkeys(name for item in drifted for name in item.test.drivers)
    periods = ", ".join(item.period for item in drifted)
    named = f", driven by {', '.join(list(columns)[:5])}" if columns else ", by no single column"
    return (
        f"drift since {periods}{named}; a release does not show whether other people, "
        "other habits or other units are the cause"
    )
