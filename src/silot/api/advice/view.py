"""Advice: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...federation.view import bill_rows, bill_sections, facts
from ...render import (
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Facts,
    Heading,
    Paragraph,
    Strong,
    Table,
    plain_table,
    textual,
)
from ...render.words import count, interval, number, percent, printable
from .result import OTHERS, Advice, Evidence, Plan

# Pieces that a terminal shows; the page and JSON have all.
_MOST = 12
_LOOK = "Worth a look, but it may be chance:"


def plan_sections(result: Plan) -> list[Block]:
    """Advice in the order of what helps most, and the bill."""
    first, others = _parted(result)
    blocks: list[Block] = [Paragraph(""), Bullets([_line(each) for each in first])]
    if others:
        blocks += [Paragraph(_LOOK), Bullets([_line(each) for each in others[:_MOST]])]
    if len(others) > _MOST:
        blocks.append(Paragraph(f"and {len(others) - _MOST} more, in --report and --json"))
    rows = {
        "pool": f"{number(result.distance.value)} from the validation records (W2, {_of(result)})",
        "status": printable(result.status, 1000),
        **bill_rows(result),
    }
    return [*blocks, facts(rows)]


def plan_page(result: Plan) -> list[Block]:
    """The page of a plan: what helps, why, and what it was made of."""
    from ...distances.worth.view import worth_blocks
    from ...records.checks import collect
    from ...records.view import scored_sections

    first, others = _parted(result)
    blocks: list[Block] = [
        Heading("What would help most", level=1),
        Paragraph(printable(result.first.text, 1000), "lead"),
        Heading("Advice", "advice", "Advice"),
        _table(first),
        *([Paragraph(_LOOK), _table(others)] if others else []),
        Paragraph(
            "The gain is by how much the pool of all records comes nearer the validation records "
            "(W2) where the advice is followed, each piece by itself. A piece is sure where "
            f"chance makes it in {percent(result.level)} of cases at most, all pieces together.",
            "small",
        ),
        Heading("Evidence", "evidence", "Evidence"),
    ]
    for each in result.advice:
        title = f"{each.kind}: {', '.join(map(printable, each.holders[:6]))}"
        blocks.append(Details(title, [Paragraph(each.text), _evidence(each.evidence)]))
    blocks.append(
        Facts([
            ("pool", f"{number(result.distance.value)} {interval(*result.distance.bounds)}"),
            ("status", printable(result.status, 1000)),
        ])
    )  # fmt: skip
    blocks += _classes(result)
    blocks += _groups(result)
    if result.worth.holders:
        blocks += worth_blocks(result.worth)
    if result.records:
        scored = scored_sections(collect(result.records, None, None))
        blocks += [_linked(block) for block in scored]
    return [*blocks, *bill_sections([("", result)])]


def _linked(block: Block) -> Block:
    """A heading with its link at the top: the records of a holder are evidence of a piece."""
    if not isinstance(block, Heading) or block.link or isinstance(block.text, str):
        return block
    words = (part if isinstance(part, str) else part.text for part in block.text)
    return replace(block, link="".join(words))


def _parted(result: Plan) -> tuple[list[Advice], list[Advice]]:
    """What is sure, or that nothing is; and the rest."""
    first = [each for each in result.advice if each.sure or each.kind == "nothing"]
    return first, [each for each in result.advice if each not in first]


def _of(result: Plan) -> str:
    return "exact" if result.method == "exact" else "estimated from releases"


def _line(piece: Advice) -> tuple[str | Strong, ...]:
    return Strong(piece.kind), f": {printable(piece.text, 1000)}{_gain(piece)}"


def _gain(piece: Advice) -> str:
    if piece.kind == "nothing":
        return ""
    if piece.gain is None:
        return f" Gain: {piece.unit}."
    # What other validation records would leave of it says more than how exact it is.
    likely = next((each for each in piece.evidence if each.what == OTHERS), None)
    words = "" if likely is None else f" (likely {number(likely.lower)} to {number(likely.upper)})"
    return f" Gain: {number(piece.gain)}{words}."


def _table(pieces: Sequence[Advice]) -> Table:
    columns = [
        textual("advice"), textual("holders"), textual("what"), Column("gain"), Column("bounds")
    ]  # fmt: skip
    rows = [
        [
            Cell(each.kind),
            Cell(printable(", ".join(each.holders), 200)),
            Cell(printable(each.text, 1000)),
            Cell("" if each.gain is None else number(each.gain)),
            Cell(
                each.unit if each.gain is None else interval(each.lower or 0.0, each.upper or 0.0)
            ),
        ]
        for each in pieces
    ]
    return Table("", columns, rows)


def _evidence(evidence: Sequence[Evidence]) -> Table:
    columns = [textual("number"), Column("value"), Column("bounds"), textual("measured by")]
    rows = [
        [printable(each.what, 200), number(each.value), interval(each.lower, each.upper), each.by]
        for each in evidence
    ]
    return plain_table(columns, rows)


def _classes(result: Plan) -> list[Block]:
    if not result.shares:
        return []
    columns = [textual("class"), Column("pool"), Column("validation")]
    rows = [
        [printable(name), percent(have), percent(want)]
        for name, (have, want) in result.shares.items()
    ]
    return [
        Heading("Classes", "classes", "Classes"),
        Table("Shares of the records.", columns, [[Cell(each) for each in row] for row in rows]),
    ]


def _groups(result: Plan) -> list[Block]:
    """The heat map, groups and pairs."""
    from ...distances.view import matrix_pairs
    from ...render.figure import heat_map

    if result.clustering is None:
        return []
    matrix = result.clustering.in_order
    return [
        Heading("Groups and distances", "groups", "Groups"),
        Facts([
            ("groups", count(result.clustering.k, "group")),
            ("status", printable(result.clustering.status, 1000)),
        ]),
        heat_map(list(matrix.names), matrix.values, None, order="of the groups"),
        Details("All distances with their bounds", [matrix_pairs(matrix)]),
    ]  # fmt: skip
