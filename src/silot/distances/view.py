"""What is shown of distances: of two holders, and between all pairs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np
import numpy.typing as npt

from .. import render
from ..federation.view import cost_content, cost_rows
from ..render.heat_map import heat_map
from ..render.words import (
    count,
    first_word,
    format_bytes,
    known_bounds,
    listed,
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
    return [
        render.Headline(
            "How far apart the data are",
            (render.Name(a), " and ", render.Name(b), value),
            render.not_converged(result),
        ),
        render.section(
            "The distance",
            distances_chart("Distance", {" and ".join(result.holders): result}),
            render.facts(distance_rows(result), terminal=cost_rows(result)),
        ),
        render.on_page(
            render.section(
                "By column",
                changes_table(result.test),
                histograms_figure(result.test, result.holders),
            )
            if result.test is not None
            else None
        ),
        parts_content(parts, b, result.holders[:1] if result.indistinct else ()),
        cost_content(result),
    ]


def distances_chart(what: str, distances: Mapping[str, Distance]) -> render.Intervals | None:
    """Return the chart of distances, each in its likely interval, or else its certified bounds."""
    rows = [
        (name, distance.value, distance.interval or distance.bounds, None)
        for name, distance in distances.items()
    ]
    return render.chart(f"{what}, with {_ends_in_words(distances.values())}.", rows)


def _ends_in_words(distances: Iterable[Distance]) -> str:
    is_likely = any(distance.interval for distance in distances)
    return "likely intervals (95 %), which are not certified" if is_likely else "certified bounds"


def distance_rows(result: Distance) -> dict[str, str]:
    """Return a distance, what is known of it, and how it was computed."""
    rows = {
        f"W{result.p}": f"{result.value:.6g}",
        "bounds": short_bounds(*result.bounds),
    }
    if result.interval is not None:
        low, high = result.interval
        by = "of the noise" if result.method == "private" else "by public records"
        rows["likely"] = f"{low:.4g} to {high:.4g} (95 %, {by}; not certified)"
    return rows | {
        **verdict_rows(result.test, result.preflight),
        "method": f"{result.method}, {' and '.join(result.holders)}",
        "status": result.status,
    }


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
    """Return the largest shares of columns and of classes, holder by holder."""
    rows: list[tuple[object, ...]] = []
    for name, part in parts.items():
        by_column, by_class = shortened(part, MOST_PARTS)
        # One holder is not named in every row.
        whose = name if len(parts) > 1 else ""
        rows += [(whose, column, render.Cell(share, share), None) for column, share in by_column]
        rows += [
            (whose, f"class {kind}", render.Cell(member.share, member.share), member.mass)
            for kind, member in by_class
        ]
    has_classes = any(part.classes for part in parts.values())
    columns = [
        render.names(wrap="cut", width=14),
        render.names("column or class" if has_classes else "column", 32, wrap="cut", width=26),
        render.shares("share"),
        render.shares("records"),
    ]
    caption = "Shares of the squared distance, and of the records of a class."
    return render.Table(caption, columns, rows, filter=True, filled=True)


def matrix_content(result: DistanceMatrix) -> render.Content:
    """Declare pairs of holders with their distances, and the cost."""
    heat = heat_map(list(result.names), result.values, None, "given", same_pairs(result))
    lead = _describe_pairs(result)
    return [
        render.Headline(
            "Distances between holders",
            f"{lead}.",
            render.not_converged(result, several=True),
        ),
        render.section(
            "Distances",
            pairs_chart(result),
            pairs_table(result),
            render.facts(
                {},
                terminal={**({"verdict": lead} if result.p_values else {}), **cost_rows(result)},
                page={
                    "distance": f"Wasserstein distance of order {result.p}; smaller is closer.",
                    "bounds": "The exact distance lies within the bounds whenever every party "
                    "followed the protocol.",
                    "method": printable(result.method),
                    "status": printable(result.status, 400),
                },
            ),
            render.Details("All pairs as a heat map", [heat])
        ),
        cost_content(result),
    ]  # fmt: skip


def pairs_chart(result: DistanceMatrix) -> render.Intervals | None:
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
    p_values = result.p_values
    apart = _apart(result)
    lead = ""
    if p_values:
        lead = f"Of {count(len(p_values), 'pair')} a test distinguishes {len(apart)}"
        untested = len(result.pairs) - len(p_values)
        lead += f"; {untested} cannot be tested" if untested else ""
    # No pair differs: then distances are no news.
    if not apart:
        return lead

    def who(pair: Distance) -> str:
        return listed([printable(name) for name in pair.holders])

    # Closest of pairs that no test tells apart would name noise.
    if len(apart) == len(result.pairs):
        closest = f"{who(apart[0])} are closest, at a distance of {number(apart[0].value)}"
        lead = f"{lead}. {closest}" if lead else closest
    if len(apart) > 1:
        lead += f"; {who(apart[-1])} are farthest apart, at {number(apart[-1].value)}"
    return lead


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
    # Of one run for all pairs, no pair has a cost of its own.
    has_bills = result.shared_cost is None
    p_values = result.p_values
    rows = [
        (
            " ".join((words or {}).get(name, name) for name in couple),
            *couple,
            pair.value,
            pair.bounds,
            pair.interval,
            (pair.value, pair.interval or pair.bounds),
            p_values.get(couple),
            p_values.get(couple),
            pair.rounds if has_bills else "",
            format_bytes(pair.bytes_sent + pair.bytes_received) if has_bills else "",
            f"{pair.seconds:.2f}" if has_bills else "",
            render.Cell(first_word(pair.status), warn=not pair.converged),
        )
        for couple, pair in result.pairs.items()
    ]
    columns = [
        render.texts("pair", on="terminal"), render.names("holder", on="page"),
        render.names("other holder", on="page"), render.numbers("value", on="terminal"),
        render.intervals(terminal=lambda ends: known_bounds(*ends), on="terminal"),
        render.intervals("95 %", on="terminal"), render.estimates("distance", on="page"),
        render.digits("p", 3, on="terminal"),
        render.texts("verdict", on="page", page=_verdict_of),
        *(render.Column(title, on="terminal") for title in ("rounds", "bytes", "seconds")),
        # What did not go as it should is news; the rest is said once, below.
        render.texts("status", page=lambda word: "" if word in ("converged", "exact") else word),
    ]  # fmt: skip
    return render.Table(
        f"Pairs of holders, their distances and {_ends_in_words(result.pairs.values())}.",
        columns,
        rows,
        filter=True,
        filled=True,
        loose=f"W{result.p} by {result.method}",
    )


def _verdict_of(p_value: float) -> str:
    return f"{'different' if p_value <= LEVEL else 'not distinguishable'}, p = {p_value:.3g}"
