"""Declare what is shown of advice."""

from __future__ import annotations

from collections.abc import Sequence

from ... import render
from ...distances.view import pairs_table
from ...distances.worth.view import worth_sections
from ...federation.view import bill_rows, cost_content
from ...records.checks import collect
from ...records.view import scored_sections
from ...render.heat_map import heat_map
from ...render.words import count, interval, number, percent, printable
from .result import OTHERS, Advice, Plan

# Pieces that a terminal shows; the page and JSON have all.
_MOST = 12
_LOOK = "Worth a look, but sampling may have made it:"


def plan_content(result: Plan) -> render.Content:
    """Declare advice in the order of what helps most, why, what it was made of, and the bill."""
    # What is sure, or that nothing is.
    first = [piece for piece in result.advice if piece.sure or piece.kind == "nothing"]
    others = [piece for piece in result.advice if piece not in first]
    more = len(others) - _MOST
    kind = "exact" if result.method == "exact" else "estimated from releases"
    status = printable(result.status, 1000)
    return [
        render.Headline("What would help most", printable(result.first.text, 1000)),
        render.on_terminal(
            [render.Paragraph(""), render.Bullets([_line(piece) for piece in first])],
            [render.Paragraph(_LOOK), render.Bullets([_line(piece) for piece in others[:_MOST]])]
            if others
            else None,
            render.Paragraph(f"and {more} more, in --report and --json") if more > 0 else None,
            render.facts({
                "pool": f"{number(result.distance.value)} from the validation records (W2, {kind})",
                "status": status,
                **bill_rows(result),
            }),
        ),
        render.on_page(
            render.section(
                "Advice",
                "advice",
                _table(first),
                [render.Paragraph(_LOOK), _table(others)] if others else None,
                render.Paragraph(
                    "The gain is by how much the pool of all records comes nearer the validation "
                    "records (W2) where the advice is followed, each piece by itself. A piece is "
                    f"sure where sampling makes it in {percent(result.level)} of cases at most, "
                    "all pieces together.",
                    "small",
                ),
            ),
            render.section(
                "Evidence",
                "evidence",
                [_evidence(piece) for piece in result.advice],
                render.facts({
                    "pool": f"{number(result.distance.value)} {interval(*result.distance.bounds)}",
                    "status": status,
                }),
            ),
            _classes(result),
            lambda: _groups(result),
            lambda: worth_sections(result.worth),
            lambda: scored_sections(collect(result.records, None, None), linked=True)
            if result.records
            else None,
        ),
        cost_content(result),
    ]  # fmt: skip


def _line(piece: Advice) -> tuple[str | render.Strong, ...]:
    return render.Strong(piece.kind), f": {printable(piece.text, 1000)}{_gain(piece)}"


def _gain(piece: Advice) -> str:
    if piece.kind == "nothing":
        return ""
    if piece.gain is None:
        return f" Gain: {piece.unit}."
    # What other validation records would leave of it says more than how exact it is.
    likely = next((item for item in piece.evidence if item.what == OTHERS), None)
    words = "" if likely is None else f" (likely {number(likely.lower)} to {number(likely.upper)})"
    return f" Gain: {number(piece.gain)}{words}."


def _table(pieces: Sequence[Advice]) -> render.Table:
    columns = [
        render.texts("advice"), render.names("holders", 200), render.names("what", 1000),
        render.numbers("gain"), render.Column("bounds"),
    ]  # fmt: skip
    rows = [
        (
            piece.kind,
            ", ".join(piece.holders),
            piece.text,
            "" if piece.gain is None else piece.gain,
            piece.unit if piece.gain is None else interval(piece.lower or 0.0, piece.upper or 0.0),
        )
        for piece in pieces
    ]
    return render.Table("", columns, rows)


def _evidence(piece: Advice) -> render.Details:
    rows = [(item.what, item.value, (item.lower, item.upper), item.by) for item in piece.evidence]
    columns = [
        render.names("number", 200),
        render.numbers("value"),
        render.intervals(),
        render.texts("measured by"),
    ]
    title = f"{piece.kind}: {', '.join(map(printable, piece.holders[:6]))}"
    return render.Details(title, [render.Paragraph(piece.text), render.plain_table(columns, rows)])


def _classes(result: Plan) -> render.Content:
    columns = [render.names("class"), render.shares("pool"), render.shares("validation")]
    rows = [(name, *both) for name, both in result.shares.items()]
    table = render.Table("Shares of the records.", columns, rows)
    return render.section("Classes", "classes", table if rows else None)


def _groups(result: Plan) -> render.Content:
    """Return the heat map, groups and pairs."""
    if result.clustering is None:
        return None
    matrix = result.clustering.in_order
    return render.section(
        "Groups and distances",
        "groups",
        render.facts({
            "groups": count(result.clustering.k, "group"),
            "status": printable(result.clustering.status, 1000),
        }),
        heat_map(list(matrix.names), matrix.values, None, order="of the groups"),
        render.Details("All distances with their bounds", [pairs_table(matrix)]),
        link="Groups",
    )  # fmt: skip
