"""What is shown of distances: of two holders, and between all pairs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from math import isfinite

import numpy as np
import numpy.typing as npt

from .. import render
from ..federation.view import cost_rows, run_content
from ..render.heat_map import heat_map
from ..render.words import (
    count,
    first_word,
    format_bytes,
    known_bounds,
    named,
    number,
    printable,
    short_bounds,
)
from .cost_parts import Parts, shortened
from .figures import histograms_figure
from .result import Distance, DistanceMatrix
from .verdict import changes_table, verdict_rows

# Columns and classes that are shown one by one.
MOST_PARTS = 8
# Level of the tests of all pairs together.
LEVEL = 0.05
# Pairs of a chart.
_PAIRS = 10


def distance_content(result: Distance) -> render.Content:
    """Declare a distance with its bounds, cost and disclosure, and what it is made of."""
    a, b = (printable(name) for name in result.holders)
    low, high = number(result.lower), number(result.upper)
    certified = f"between {low} and {high}" if np.isfinite(result.upper) else f"at least {low}"
    value = f" are {number(result.value)} apart, certified to be {certified}."
    parts = {} if result.parts is None else {result.holders[0]: result.parts}
    return run_content(
        result,
        "How far apart the data are",
        (render.Name(a), " and ", render.Name(b), value),
        render.section(
            "The distance",
            distances_chart("Distance", {" and ".join(result.holders): result}),
            render.facts(distance_rows(result), terminal=cost_rows(result)),
        ),
        result.test is not None
        and render.on_page(
            render.section(
                "By column",
                changes_table(result.test),
                histograms_figure(result.test, result.holders),
            )
        ),
        parts_content(parts, b, result.holders[:1] if result.indistinct else ()),
    )


def likely(distance: Distance) -> tuple[float, tuple[float, float]]:
    """Return a distance with its likely interval, or else its certified bounds."""
    return distance.value, distance.interval or distance.bounds


def distances_chart(what: str, distances: Mapping[str, Distance]) -> render.Intervals | None:
    """Return the chart of distances, each in its likely interval, or else its certified bounds."""
    rows = [(name, *likely(distance), None) for name, distance in distances.items()]
    return render.chart(f"{what}, with {_ends_in_words(distances.values())}.", rows)


def _ends_in_words(distances: Iterable[Distance]) -> str:
    distances = list(distances)
    if any(distance.interval for distance in distances):
        return "likely intervals (95 %), which are not certified"
    is_bounded = any(distance.lower > 0 or isfinite(distance.upper) for distance in distances)
    return "certified bounds" if is_bounded else "no bounds: estimates"


def distance_rows(result: Distance) -> dict[str, str]:
    """Return a distance, what is known of it, and how it was computed."""
    rows = {f"W{result.p}": f"{result.value:.6g}", "bounds": short_bounds(*result.bounds)}
    if result.interval is not None:
        by = "of the noise" if result.method == "private" else "by public records"
        low, high = (f"{end:.4g}" for end in result.interval)
        rows["likely"] = f"{low} to {high} (95 %, {by}; not certified)"
    method = f"{result.method}, {' and '.join(result.holders)}"
    verdict = verdict_rows(result.test, result.preflight)
    return {**rows, **verdict, "method": method, "status": result.status}


def parts_content(
    parts: Mapping[str, Parts], target: str, indistinct: Collection[str] = ()
) -> render.Content:
    """Declare the largest parts of each distance, by the holder whose classes are meant.

    Of ``indistinct`` holders, which no test can distinguish from the target, that is said.
    """
    if not parts:
        return None
    by_cells = any(part.of == "cells" for part in parts.values())
    where = " between the cells' points" if by_cells else ""
    whose = f" of {', '.join(indistinct)}" if len(parts) > 1 else ""
    doubt = f"; sampling noise may explain the shares{whose}" if indistinct else ""
    return render.section(
        "What the distances are made of",
        render.on_terminal(
            render.Paragraph(""),
            render.Paragraph(f"why: shares of the squared distance{where}{doubt}"),
        ),
        render.on_page(
            render.Paragraph(
                "Shares of the squared cost of an optimal plan between the holder's "
                f"{'sketched cells' if by_cells else 'records'} and {target}; the share "
                "of labels comes from different labels. If several plans are optimal, the shares "
                "belong to one of them."
            )
        ),
        _parts_table(parts),
        [
            render.Paragraph((render.Name(name), f": {printable(part.note, 400)}."), "warning")
            for name, part in parts.items()
            if part.note
        ],
    )


def _parts_table(parts: Mapping[str, Parts]) -> render.Table:
    rows: list[tuple[object, ...]] = []
    for name, part in parts.items():
        by_column, by_class = shortened(part, MOST_PARTS)
        # One holder is not named in every row.
        whose = name if len(parts) > 1 else ""
        rows += [(whose, column, share, None) for column, share in by_column]
        rows += [(whose, f"class {kind}", one.share, one.mass) for kind, one in by_class]
    has_classes = any(part.classes for part in parts.values())
    columns = [
        render.names(wrap="cut", width=14),
        render.names("column or class" if has_classes else "column", 32, wrap="cut", width=26),
        render.shares("share", bar=1), render.shares("records"),
    ]  # fmt: skip
    caption = "Shares of the squared distance, and of the records of a class."
    return render.Table(caption, columns, rows, filter=True, filled=True)


def matrix_content(result: DistanceMatrix) -> render.Content:
    """Declare pairs of holders with their distances, and the cost."""
    heat = heat_map(list(result.names), result.values, None, "given", same_pairs(result))
    lead = _describe_pairs(result)
    return run_content(
        result,
        "Distances between holders",
        f"{lead}.",
        render.section(
            "Distances",
            _pairs_chart(result),
            pairs_table(result),
            render.facts(
                {},
                terminal={"verdict": lead if result.p_values else None, **cost_rows(result)},
                page={
                    "distance": f"Wasserstein distance of order {result.p}; smaller is closer.",
                    "bounds": "The exact distance lies within the bounds whenever every party "
                    "followed the protocol.",
                    "method": printable(result.method),
                    "status": printable(result.status, 400),
                },
            ),
            render.Details("All pairs as a heat map", [heat]),
        ),
        several=True,
    )


def _pairs_chart(result: DistanceMatrix) -> render.Intervals | None:
    """Return the chart of few pairs, or of the farthest of those that a test distinguishes."""
    pairs, what = _apart(result)[-_PAIRS:][::-1], "The farthest pairs"
    if len(result.pairs) <= _PAIRS:
        pairs, what = [*result.pairs.values()], "Pairs"
    return distances_chart(
        f"{what} of holders by their distance", {" – ".join(pair.holders): pair for pair in pairs}
    )


def _apart(result: DistanceMatrix) -> list[Distance]:
    """Return the pairs that a test distinguishes, or all where nobody tested, the closest first."""
    ranked = sorted(result.pairs.values(), key=lambda pair: pair.value)
    p_values = result.p_values
    return [pair for pair in ranked if p_values.get(pair.holders, 1.0) <= LEVEL or not p_values]


def _describe_pairs(result: DistanceMatrix) -> str:
    """Say which pairs a test distinguishes; who is closest and farthest only among those."""
    p_values, apart, leads = result.p_values, _apart(result), list[str]()
    if p_values:
        untested = len(result.pairs) - len(p_values)
        more = f"; {untested} cannot be tested" if untested else ""
        leads.append(f"Of {count(len(p_values), 'pair')} a test distinguishes {len(apart)}{more}")
    # Closest of pairs that no test tells apart would name noise.
    if apart and len(apart) == len(result.pairs):
        near = apart[0]
        leads.append(f"{named(near.holders)} are closest, at a distance of {number(near.value)}")
    far = ""
    if len(apart) > 1:
        far = f"; {named(apart[-1].holders)} are farthest apart, at {number(apart[-1].value)}"
    return ". ".join(leads) + far


def same_pairs(result: DistanceMatrix) -> npt.NDArray[np.bool_]:
    """Return the pairs that a test cannot distinguish (N, N)."""
    place = {name: k for k, name in enumerate(result.names)}
    same = np.zeros((len(place), len(place)), dtype=bool)
    # Pairs that nobody tested are not marked.
    for (a, b), p_value in result.p_values.items():
        same[place[a], place[b]] = same[place[b], place[a]] = p_value > LEVEL
    return same


def pairs_table(result: DistanceMatrix, words: Mapping[str, str] | None = None) -> render.Table:
    """Return all pairs; on a terminal ``words`` stand for the names of some holders."""

    def p_value(pair: Distance) -> float | None:
        return result.p_values.get(pair.holders)

    def couple(pair: Distance) -> str:
        return " ".join((words or {}).get(name, name) for name in pair.holders)

    # Of one run for all pairs, no pair has a cost of its own.
    has_cost, column = result.shared_cost is None, partial(render.Column, on="terminal")
    return render.table(
        f"Pairs of holders, their distances and {_ends_in_words(result.pairs.values())}.",
        result.pairs.values(),
        render.texts("pair", on="terminal", of=couple),
        render.names("holder", on="page", of=lambda pair: pair.holders[0]),
        render.names("other holder", on="page", of=lambda pair: pair.holders[1]),
        render.numbers("value", on="terminal"),
        render.intervals(on="terminal", terminal=known_bounds),
        render.intervals("95 %", on="terminal", of="interval"),
        render.estimates("distance", on="page", of=likely),
        render.digits("p", 3, on="terminal", of=p_value),
        render.texts("verdict", on="page", page=_verdict_of, of=p_value),
        has_cost and column("rounds"),
        has_cost and column("bytes", of=lambda pair: format_bytes(
            pair.bytes_sent + pair.bytes_received)),
        has_cost and column("seconds", terminal="{:.2f}".format),
        # What did not go as it should is news; the rest is said once, below.
        render.texts("status", of=lambda pair: status(pair, first_word),
                     page=lambda word: "" if word in ("converged", "exact") else word),
        filter=True,
        filled=True,
        loose=f"W{result.p} by {result.method}",
    )  # fmt: skip


def status(distance: Distance, write: Callable[[str], str] = str) -> render.Cell:
    """Return the cell of the status of a distance."""
    return render.Cell(write(distance.status), warn=not distance.converged)


def _verdict_of(p_value: float) -> str:
    return f"{'different' if p_value <= LEVEL else 'not distinguishable'}, p = {p_value:.3g}"
