"""What was seen of tables without a schema, as every result and report shows it."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.preflight import Preflight, percent_of
from ..render import Block, Cell, Column, Facts, Heading, Paragraph, Table, Text, textual
from ..render.words import listed, printable

# Of a terminal; all are in the report and in JSON.
_FLAGS, _SHARES = 4, 2
_WARNINGS = 5
_LEAST = 0.0005
_ANCHOR = "preflight"


def _said(preflight: Preflight) -> bool:
    """Whether there is anything to show: of arrays without names of columns only flags are."""
    return preflight.named or bool(preflight.flags or preflight.unseen)


def _largest(preflight: Preflight) -> str:
    """The columns with most of the variance."""
    ranked = sorted(preflight.shares.items(), key=lambda item: -item[1])[:_SHARES]
    told = [
        f"{printable(name, 32)} {percent_of(share)}" for name, share in ranked if share >= _LEAST
    ]
    return ", ".join(told or ["none"]) + ("" if preflight.flags else "; no column looks odd")


def _unseen(preflight: Preflight) -> str:
    names = listed([printable(name) for name in preflight.unseen])
    return f"Nobody looked at the columns of {names}: their data are their own."


def preflight_facts(preflight: Preflight) -> list[Block]:
    """The flags and the largest columns, for a terminal and a notebook."""
    if not _said(preflight):
        return []
    lines = [printable(each.sentence, 400) for each in preflight.flags[:_FLAGS]]
    more = len(preflight.flags) - len(lines)
    if more:
        lines.append(f"and {more} more: --json or --report shows them")
    rows: list[tuple[str, Text]] = [("" if k else "look at", line) for k, line in enumerate(lines)]
    if preflight.unseen:
        rows.append(("not seen", _unseen(preflight)))
    if preflight.shares:
        rows.append(("variance", _largest(preflight)))
    return [Facts(rows)]


def framed(blocks: Sequence[Block], preflight: Preflight | None) -> list[Block]:
    """A page with the warnings below its first sentences, and the columns before its bill."""
    found = list(blocks)
    if preflight is None or not _said(preflight):
        return found
    bill = _place(found, "bill")
    found[bill:bill] = _section(preflight)
    lead = next((k for k, each in enumerate(found) if _is_lead(each)), 0) + 1
    found[lead:lead] = _warnings(preflight)
    return found


def _place(blocks: Sequence[Block], anchor: str) -> int:
    places = (
        k for k, each in enumerate(blocks) if isinstance(each, Heading) and each.anchor == anchor
    )
    return next(places, len(blocks))


def _is_lead(block: Block) -> bool:
    return isinstance(block, Paragraph) and block.kind == "lead"


def _warnings(preflight: Preflight) -> list[Block]:
    flags = [printable(each.sentence, 400) for each in preflight.flags]
    if not flags:
        return []
    about = (
        "Bounds and ranks are those of the numbers as they were given: look at "
        f"{printable(preflight.where, 200)} first."
    )
    lines = [about, *flags[:_WARNINGS]]
    if len(flags) > _WARNINGS:
        lines.append(f"{len(flags) - _WARNINGS} more such remarks are below.")
    return [Paragraph(line, "warning") for line in lines]


def _section(preflight: Preflight) -> list[Block]:
    """The columns with their part of the variance, and what was noticed of each."""
    title = "The data as they were given"
    blocks: list[Block] = [
        Heading(title, _ANCHOR, title),
        Paragraph(
            "No schema says what the columns are. Squared distances are sums over columns: a "
            "column counts for its part of the variance. Bounds hold for the numbers as they were "
            "given, whatever these mean."
        ),
    ]
    if preflight.unseen:
        blocks.append(Paragraph(_unseen(preflight), "note"))
    rows = [
        [
            Cell(printable(name, 32)),
            Cell(percent_of(share), share),
            Cell(_noticed(preflight, name), warn=any(e.flag for e in preflight.noticed(name))),
        ]
        for name, share in sorted(preflight.shares.items(), key=lambda item: -item[1])
    ]
    for other in dict.fromkeys(each.column for each in preflight.findings):
        if other not in preflight.shares:
            flagged = any(each.flag for each in preflight.noticed(other))
            rows.append([Cell(other), Cell(""), Cell(_noticed(preflight, other), warn=flagged)])
    if rows:
        columns = (textual("column"), Column("share of the variance"), textual("noticed"))
        blocks.append(Table("Columns, the largest first, and what was noticed.", columns, rows))
    return blocks


def _noticed(preflight: Preflight, column: str) -> str:
    return " ".join(
        f"{printable(each.sentence, 400).rstrip('.')}." for each in preflight.noticed(column)
    )
