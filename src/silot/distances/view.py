"""Distances: of two holders, and between all pairs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from itertools import compress, zip_longest

import numpy as np

from ..federation.view import bill_rows, bill_sections, facts
from ..render import (
    Block,
    Cell,
    Column,
    Details,
    Facts,
    Heading,
    Name,
    Paragraph,
    Table,
    plain_table,
    textual,
)
from ..render.words import (
    first_word,
    format_bytes,
    interval,
    known_bounds,
    listed,
    number,
    printable,
    short_bounds,
    short_number,
)
from .cost_parts import Parts, shortened
from .result import Distance, DistanceMatrix

# Columns and classes that are shown one by one.
MOST_PARTS = 8
_TABLED = 12
# Holders whose tables of parts are open.
_OPEN = 3


def distance_sections(result: Distance) -> list[Block]:
    """A distance with its bounds, bill and disclosure, and what it is made of."""
    blocks: list[Block] = [facts({**_rows(result), **bill_rows(result)})]
    if result.parts is not None:
        blocks += parts_sections(
            {result.holders[0]: result.parts}, result.holders[:1] if result.by_chance else ()
        )
    return blocks


def distance_page(result: Distance) -> list[Block]:
    """The page of a distance."""
    a, b = (printable(name) for name in result.holders)
    low, high = number(result.lower), number(result.upper)
    certified = f"between {low} and {high}" if np.isfinite(result.upper) else f"at least {low}"
    blocks: list[Block] = [
        Heading("How far apart the data are", level=1),
        Paragraph(
            (
                Name(a),
                " and ",
                Name(b),
                f" are {number(result.value)} apart, certified to be {certified}.",
            ),
            "lead",
        ),
    ]
    if not result.converged:
        blocks.append(Paragraph(f"Not converged: {printable(result.status, 400)}", "warning"))
    blocks += [Heading("The distance", "distance", "Distance"), facts(_rows(result))]
    if any("upper" in entry for entry in result.history):
        # Slow to import: it draws.
        from .figures import bounds_figure

        blocks.append(bounds_figure(result))
    if result.parts is not None:
        blocks += why_sections({result.holders[0]: result.parts}, b)
    return [*blocks, *bill_sections([("", result)])]


def _rows(result: Distance) -> dict[str, str]:
    rows = {
        f"W{result.p}": f"{result.value:.6g}",
        "bounds": short_bounds(*result.bounds),
    }
    if result.interval is not None:
        low, high = result.interval
        rows["likely"] = f"{low:.4g} to {high:.4g} (95 %, by public records; not certified)"
    if result.chance is not None:
        verdict = "no more than chance" if result.by_chance else "more than chance"
        rows["chance"] = f"{result.chance:.4g}, for two samples of one law: {verdict}"
    return rows | {
        "method": f"{result.method}, {' and '.join(result.holders)}",
        "status": result.status,
    }


def parts_sections(found: Mapping[str, Parts], chance: Collection[str] = ()) -> list[Block]:
    """The largest parts of each distance, by the holder whose classes are meant.

    Of holders whose distance ``chance`` alone may have made, that is said.
    """
    if not found:
        return []
    first, several = next(iter(found)), len(found) > 1
    by_class = any(parts.classes for parts in found.values())
    where = " between the cells' points" if found[first].of == "cells" else ""
    whose = f" of {', '.join(chance)}" if several else ""
    doubt = f"; chance may have made those{whose}" if chance else ""
    columns = [
        Column("holder", False, "cut", 14),
        Column("column", False, "cut", 20),
        Column("share"),
        Column("class" if several else f"class of {first}", False, "cut", 20),
        Column("share"),
        Column("records"),
    ]
    # One holder is not named in every row, and without labels there are no classes.
    shown = [several, True, True, by_class, by_class, by_class]
    rows = [list(compress(row, shown)) for name in found for row in _parts_rows(name, found[name])]
    return [
        Paragraph(""),
        Paragraph(f"why: shares of the squared distance{where}{doubt}"),
        plain_table(list(compress(columns, shown)), rows),
        *(Paragraph(f"{name}: {parts.note}") for name, parts in found.items() if parts.note),
    ]


def _parts_rows(name: str, parts: Parts) -> list[list[str]]:
    """Columns and classes side by side, the name of the holder before the first."""
    columns, classes = shortened(parts, MOST_PARTS)
    left = [[column, _percent(share)] for column, share in columns]
    right = [[kind, _percent(part.share), _percent(part.mass)] for kind, part in classes]
    names = [name] + [""] * (max(len(left), len(right)) - 1)
    return [
        [called, *(column or ["", ""]), *(kind or ["", "", ""])]
        for called, column, kind in zip_longest(names, left, right)
    ]


def why_sections(found: Mapping[str, Parts], target: str) -> list[Block]:
    """The same on a page, the first open and the others when asked for."""
    if not found:
        return []
    cells = any(parts.of == "cells" for parts in found.values())
    between = "sketched cells" if cells else "records"
    title = "What the distances are made of"
    blocks: list[Block] = [
        Heading(title, "why", title),
        Paragraph(
            f"Shares of the squared cost of an optimal plan between the holder's {between} and "
            f"{target}; labels are what differences of labels add to it. Where several plans are "
            "optimal the shares are those of one of them."
        ),
    ]
    for k, (name, parts) in enumerate(found.items()):
        shown, tables = printable(name), part_tables(printable(name), parts)
        if k < _OPEN:
            blocks += [Heading((Name(shown),), level=3), *tables]
        else:
            blocks.append(Details((Name(shown),), tables))
    return blocks


def part_tables(name: str, parts: Parts) -> list[Block]:
    """The same of one distance, for a page."""
    columns, classes = shortened(parts, MOST_PARTS)
    blocks: list[Block] = []
    if parts.note:
        note = parts.note[:1].upper() + parts.note[1:]
        blocks.append(Paragraph(f"{printable(note, 400)}.", "warning"))
    blocks.append(
        Table(
            f"Share of the squared distance by column: {name}.",
            (textual("column"), Column("share")),
            [(_name(column), _bar(share)) for column, share in columns],
        )
    )
    if classes:
        blocks.append(
            Table(
                f"Share of the squared distance, and of the records, by class: {name}.",
                (textual("class"), Column("share"), Column("records")),
                [
                    (_name(kind), _bar(part.share), Cell(_percent(part.mass)))
                    for kind, part in classes
                ],
            )
        )
    return blocks


def _name(text: str) -> Cell:
    """The name of a column or class, short enough for its share to stand beside it."""
    return Cell(printable(text, 32))


def _bar(share: float) -> Cell:
    return Cell(_percent(share), share)


def _percent(share: float) -> str:
    return f"{100.0 * share:.1f} %"


def matrix_sections(
    result: DistanceMatrix, called: Mapping[str, str] | None = None, *, bill: bool = True
) -> list[Block]:
    """Pairs of holders with their distances; ``called`` has words that stand for names."""
    # Of one run for all pairs, no pair has a bill of its own.
    apart = () if result.shared_bill is not None else ("rounds", "bytes", "seconds")
    titles = ("value", "bounds", "95 %", *apart)
    columns = [textual("pair"), *map(Column, titles), textual("status")]
    rows: list[list[str]] = []
    for couple, pair in result.pairs.items():
        traffic = format_bytes(pair.bytes_sent + pair.bytes_received)
        rows.append(
            [
                " ".join((called or {}).get(name, name) for name in couple),
                short_number(pair.value),
                known_bounds(*pair.bounds),
                "" if pair.interval is None else short_bounds(*pair.interval),
                *((str(pair.rounds), traffic, f"{pair.seconds:.2f}") if apart else ()),
                first_word(pair.status),
            ]
        )
    table = plain_table(columns, rows, f"W{result.p} by {result.method}", loose=True).filled
    return [table, facts(bill_rows(result))] if bill else [table]


def matrix_page(result: DistanceMatrix) -> list[Block]:
    """The page of all distances."""
    # Slow to import: it draws.
    from ..render.figure import heat_map

    names = list(result.names)
    ranked = sorted(result.pairs.values(), key=lambda pair: pair.value)
    ends = [listed([printable(name) for name in pair.holders]) for pair in (ranked[0], ranked[-1])]
    lead = f"{ends[0]} are closest, at a distance of {number(ranked[0].value)}"
    if len(ranked) > 1:
        lead += f"; {ends[1]} are farthest apart, at {number(ranked[-1].value)}"
    blocks: list[Block] = [
        Heading("Distances between holders", level=1),
        Paragraph(f"{lead}.", "lead"),
    ]
    if not result.converged:
        status = printable(result.status, 400)
        blocks.append(Paragraph(f"Not everything converged: {status}", "warning"))
    blocks += [
        Heading("Distances", "distances", "Distances"),
        heat_map(names, result.values, None, order="given"),
        matrix_pairs(result),
        Facts(
            [
                ("distance", f"Wasserstein distance of order {result.p}; smaller is closer."),
                (
                    "bounds",
                    "The exact distance lies within them whenever every party followed "
                    "the protocol.",
                ),
                ("method", printable(result.method)),
                ("status", printable(result.status, 400)),
            ]
        ),
    ]
    if len(names) <= _TABLED:
        square = square_table(names, names, names, result)
        blocks.append(Details("The same as a square", [square]))
    return [*blocks, *bill_sections([("", result)])]


def matrix_pairs(result: DistanceMatrix) -> Table:
    """All pairs with their distances and bounds, for a page."""
    likely = any(pair.interval is not None for pair in result.pairs.values())
    columns = [textual("holder"), textual("other holder"), Column("distance"), Column("bounds")]
    columns += [Column("likely (95 %)")] if likely else []
    rows: list[list[Cell]] = []
    for (a, b), pair in result.pairs.items():
        cells = [Cell(printable(a)), Cell(printable(b)), Cell(number(pair.value))]
        cells.append(Cell(interval(*pair.bounds)))
        if likely:
            cells.append(Cell("" if pair.interval is None else interval(*pair.interval)))
        rows.append([*cells, Cell(first_word(pair.status), warn=not pair.converged)])
    return Table(
        "Pairs of holders with their distances.", [*columns, textual("status")], rows, filter=True
    )


def square_table(
    names: Sequence[str], every: Sequence[str], heads: Sequence[str], matrix: DistanceMatrix
) -> Table:
    """Distances of holders to every party, with the bounds that there are."""
    likely = any(pair.interval is not None for pair in matrix.pairs.values())
    what = "likely intervals, which are not certified" if likely else "certified bounds"

    def cell(a: str, b: str) -> Cell:
        if a == b:
            return Cell("0")
        pair = matrix[a, b]
        return Cell(f"{number(pair.value)} {interval(*(pair.interval or pair.bounds))}")

    columns = [textual("holder"), *(Column(printable(name, 28)) for name in heads)]
    rows = [[Cell(printable(a, 28)), *(cell(a, b) for b in every)] for a in names]
    return Table(f"Distances between holders with their {what}.", columns, rows)
