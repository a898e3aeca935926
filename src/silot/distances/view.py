"""What is shown of distances: of two holders, and between all pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

import numpy as np
import numpy.typing as npt

from .. import render
from ..federation.view import bill_rows, cost_content
from ..render.heat_map import heat_map
from ..render.words import (
    count,
    first_word,
    format_bytes,
    interval,
    known_bounds,
    listed,
    number,
    percent,
    printable,
    short_bounds,
)
from .cost_parts import Parts, shortened
from .figures import bounds_figure, histograms_figure
from .result import Distance, DistanceMatrix
from .verdict import changes_table, verdict_rows

# Columns and classes that are shown one by one.
MOST_PARTS = 8
_TABLED = 12
# Level of the tests of all pairs together.
LEVEL = 0.05
# Holders whose tables of parts are open.
_OPEN = 3


def distance_content(result: Distance) -> render.Content:
    """Declare a distance with its bounds, bill and disclosure, and what it is made of."""
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
            "distance",
            render.facts(_rows(result), terminal=bill_rows(result)),
            bounds_figure(result) if any("upper" in entry for entry in result.history) else None,
            link="Distance",
        ),
        render.on_page(
            render.section(
                "By column",
                "columns",
                changes_table(result.verdict),
                histograms_figure(result.verdict, result.holders),
                link="Columns",
            )
            if result.verdict is not None
            else None
        ),
        parts_content(parts, b, result.holders[:1] if result.indistinct else ()),
        cost_content(result),
    ]


def _rows(result: Distance) -> dict[str, str]:
    rows = {
        f"W{result.p}": f"{result.value:.6g}",
        "bounds": short_bounds(*result.bounds),
    }
    if result.interval is not None:
        low, high = result.interval
        by = "of the noise" if result.method == "private" else "by public records"
        rows["likely"] = f"{low:.4g} to {high:.4g} (95 %, {by}; not certified)"
    return rows | {
        **verdict_rows(result.verdict, result.preflight),
        "method": f"{result.method}, {' and '.join(result.holders)}",
        "status": result.status,
    }


def parts_content(
    parts: Mapping[str, Parts], target: str, indistinct: Collection[str] = ()
) -> render.Content:
    """Declare the largest parts of each distance, by the holder whose classes are meant.

    Of holders that could not be told from the target, that is said.
    """
    if not parts:
        return None
    by_cells = any(part.of == "cells" for part in parts.values())
    return [
        render.on_terminal(lambda: _parts_in_one(parts, indistinct)),
        render.on_page(
            render.section(
                "What the distances are made of",
                "why",
                render.Paragraph(
                    "Shares of the squared cost of an optimal plan between the holder's "
                    f"{'sketched cells' if by_cells else 'records'} and {target}; labels are what "
                    "differences of labels add to it. Where several plans are optimal the shares "
                    "are those of one of them."
                ),
                [
                    render.section((render.Name(name),), "", tables, level=3)
                    if k < _OPEN
                    else render.Details((render.Name(name),), tables)
                    for k, (name, tables) in enumerate(_parts_by_holder(parts))
                ],
            )
        ),
    ]


def _parts_in_one(parts: Mapping[str, Parts], indistinct: Collection[str]) -> render.Content:
    """Return the parts of all holders in one table, columns and classes side by side."""
    first, is_several = next(iter(parts)), len(parts) > 1
    where = " between the cells' points" if parts[first].of == "cells" else ""
    whose = f" of {', '.join(indistinct)}" if is_several else ""
    doubt = f"; sampling may have made those{whose}" if indistinct else ""
    columns = [
        render.Column("holder", False, "cut", 14),
        render.Column("column", False, "cut", 20),
        render.Column("share"),
        render.Column("class" if is_several else f"class of {first}", False, "cut", 20),
        render.Column("share"),
        render.Column("records"),
    ]
    rows: list[tuple[str, ...]] = []
    for name, part in parts.items():
        by_column, by_class = shortened(part, MOST_PARTS)
        # One holder is not named in every row.
        firsts = [name if is_several else ""] + [""] * (max(len(by_column), len(by_class)) - 1)
        columns_of_one = [(column, percent(share)) for column, share in by_column]
        classes_of_one = [
            (kind, percent(member.share), percent(member.mass)) for kind, member in by_class
        ]
        rows += [
            (name, *(column or ("", "")), *(kind or ("", "", "")))
            for name, column, kind in zip_longest(firsts, columns_of_one, classes_of_one)
        ]
    return [
        render.Paragraph(""),
        render.Paragraph(f"why: shares of the squared distance{where}{doubt}"),
        render.Table("", columns, rows, filled=True),
        [render.Paragraph(f"{name}: {part.note}") for name, part in parts.items() if part.note],
    ]


def _parts_by_holder(
    parts: Mapping[str, Parts],
) -> list[tuple[str, list[render.Paragraph | render.Table]]]:
    """Return the tables of each holder, for a page."""
    holders: list[tuple[str, list[render.Paragraph | render.Table]]] = []
    for name, part in parts.items():
        shown = printable(name)
        by_column, by_class = shortened(part, MOST_PARTS)
        note = f"{printable(part.note[:1].upper() + part.note[1:], 400)}."
        classes = render.Table(
            f"Share of the squared distance, and of the records, by class: {shown}.",
            [render.names("class", 32), render.shares("share"), render.shares("records")],
            [
                (kind, render.Cell(member.share, member.share), member.mass)
                for kind, member in by_class
            ],
        )
        columns = render.Table(
            f"Share of the squared distance by column: {shown}.",
            [render.names("column", 32), render.shares("share")],
            [(column, render.Cell(share, share)) for column, share in by_column],
        )
        warning = [render.Paragraph(note, "warning")] if part.note else []
        holders.append((shown, [*warning, columns, *([classes] if by_class else [])]))
    return holders


def matrix_content(result: DistanceMatrix) -> render.Content:
    """Declare pairs of holders with their distances, and the bill."""
    holders = list(result.names)
    lead = _describe_pairs(result)
    square = square_table(holders, holders, holders, result) if len(holders) <= _TABLED else None
    return [
        render.Headline(
            "Distances between holders",
            f"{lead}.",
            render.not_converged(result, several=True),
        ),
        render.section(
            "Distances",
            "distances",
            heat_map(holders, result.values, None, order="given", same=same_pairs(result)),
            pairs_table(result),
            render.facts(
                {},
                terminal={**({"verdict": lead} if result.p_values else {}), **bill_rows(result)},
                page={
                    "distance": f"Wasserstein distance of order {result.p}; smaller is closer.",
                    "bounds": "The exact distance lies within them whenever every party followed "
                    "the protocol.",
                    "method": printable(result.method),
                    "status": printable(result.status, 400),
                },
            ),
            render.Details("The same as a square", [square]) if square else None,
        ),
        cost_content(result),
    ]  # fmt: skip


def _describe_pairs(result: DistanceMatrix) -> str:
    """Say which pairs a test tells apart; who is closest and farthest only among those."""
    p_values = result.p_values
    ranked = sorted(result.pairs.values(), key=lambda pair: pair.value)
    # Where nobody tested, distances are all there is.
    apart = [pair for pair in ranked if p_values.get(pair.holders, 1.0) <= LEVEL or not p_values]
    lead = ""
    if p_values:
        lead = f"Of {count(len(p_values), 'pair')} a test tells {len(apart)} apart"
        untested = len(ranked) - len(p_values)
        lead += f", and {untested} cannot be tested" if untested else ""
    # No pair differs: then distances are no news.
    if not apart:
        return lead

    def who(pair: Distance) -> str:
        return listed([printable(name) for name in pair.holders])

    # Closest of pairs that no test tells apart would name noise.
    if len(apart) == len(ranked):
        closest = f"{who(apart[0])} are closest, at a distance of {number(apart[0].value)}"
        lead = f"{lead}. {closest}" if lead else closest
    if len(apart) > 1:
        lead += f"; {who(apart[-1])} are farthest apart, at {number(apart[-1].value)}"
    return lead


def same_pairs(result: DistanceMatrix) -> npt.NDArray[np.bool_]:
    """Return the pairs that a test cannot tell apart (N, N)."""
    place = {name: k for k, name in enumerate(result.names)}
    same = np.zeros((len(place), len(place)), dtype=bool)
    # Pairs that nobody tested are not marked.
    for (a, b), p_value in result.p_values.items():
        same[place[a], place[b]] = same[place[b], place[a]] = p_value > LEVEL
    return same


def pairs_table(result: DistanceMatrix, words: Mapping[str, str] | None = None) -> render.Table:
    """Return all pairs; on a terminal ``words`` stand for the names of some holders."""
    # Of one run for all pairs, no pair has a bill of its own.
    has_bills = result.shared_bill is None
    p_values = result.p_values
    rows = [
        (
            " ".join((words or {}).get(name, name) for name in couple),
            *couple,
            pair.value,
            pair.bounds,
            pair.interval,
            p_values.get(couple),
            _verdict_of(p_values.get(couple)),
            pair.rounds if has_bills else "",
            format_bytes(pair.bytes_sent + pair.bytes_received) if has_bills else "",
            f"{pair.seconds:.2f}" if has_bills else "",
            render.Cell(first_word(pair.status), warn=not pair.converged),
        )
        for couple, pair in result.pairs.items()
    ]
    columns = [
        render.texts("pair", on="terminal"), render.names("holder", on="page"),
        render.names("other holder", on="page"), render.numbers("value", full="distance"),
        render.intervals(terminal=lambda ends: known_bounds(*ends)),
        render.intervals("95 %", full="likely (95 %)"), render.digits("p", 3),
        render.texts("verdict", on="page"),
        *(render.Column(title, on="terminal") for title in ("rounds", "bytes", "seconds")),
        render.texts("status"),
    ]  # fmt: skip
    return render.Table(
        "Pairs of holders with their distances.",
        columns,
        rows,
        filter=True,
        filled=True,
        loose=f"W{result.p} by {result.method}",
    )


def _verdict_of(p_value: float | None) -> str | None:
    # Nobody tested: an empty cell, not a verdict.
    if p_value is None:
        return None
    return "different" if p_value <= LEVEL else "not distinguishable"


def square_table(
    rows: Sequence[str], every: Sequence[str], heads: Sequence[str], matrix: DistanceMatrix
) -> render.Table:
    """Return distances of holders to every party, with the bounds that there are."""
    is_likely = any(pair.interval is not None for pair in matrix.pairs.values())
    what = "likely intervals, which are not certified" if is_likely else "certified bounds"

    def cell(a: str, b: str) -> str:
        if a == b:
            return "0"
        pair = matrix[a, b]
        return f"{number(pair.value)} {interval(*(pair.interval or pair.bounds))}"

    return render.Table(
        f"Distances between holders with their {what}.",
        [render.names("holder", 28), *(render.Column(printable(name, 28)) for name in heads)],
        [(a, *(cell(a, b) for b in every)) for a in rows],
    )
