"""What was seen of tables without a schema, as every result and report shows it."""

from __future__ import annotations

from collections.abc import Sequence

from .. import render
from ..data.preflight import Preflight, percent_of
from ..render.words import named, printable

# Of a terminal; all are in the report and in JSON.
_FLAGS, _SHARES = 4, 2
_WARNINGS = 5
_ROWS = 40
_LEAST = 0.0005


def _has_content(preflight: Preflight) -> bool:
    """Return whether there is anything to show: of arrays without names of columns, flags alone."""
    return preflight.named or bool(preflight.flags or preflight.unseen)


def preflight_facts(preflight: Preflight) -> list[render.Block]:
    """Return the flags and the largest columns, for a terminal and a notebook."""
    if not _has_content(preflight):
        return []
    lines = [printable(flag.sentence, 400) for flag in preflight.flags[:_FLAGS]]
    more = len(preflight.flags) - len(lines)
    if more:
        lines.append(f"and {more} more: --json or --report shows them")
    rows: list[tuple[str, render.Text]] = [
        ("" if k else "check", line) for k, line in enumerate(lines)
    ]
    if preflight.unseen:
        rows.append(("not seen", _unseen(preflight)))
    largest = [
        f"{printable(name, 32)} {percent_of(share)}"
        for name, share in _ranked(preflight)[:_SHARES]
        if share >= _LEAST
    ]
    usual = "" if preflight.flags else "; no column looks unusual"
    if preflight.shares:
        rows.append(("variance", f"{', '.join(largest) or 'none'}{usual}"))
    return [render.Facts(rows)]


def _ranked(preflight: Preflight) -> list[tuple[str, float]]:
    return sorted(preflight.shares.items(), key=lambda item: -item[1])


def _unseen(preflight: Preflight) -> str:
    return f"The columns of {named(preflight.unseen, 3)} stay there, so silot did not check them."


def framed(blocks: Sequence[render.Block], preflight: Preflight | None) -> list[render.Block]:
    """Return a page with the warnings below its first sentences, the columns before its cost."""
    if preflight is None or not _has_content(preflight):
        return list(blocks)
    cost = _place(blocks, "cost", len(blocks))
    lead = _place(blocks, "lead", 0) + 1
    warnings, columns = (render.written(part(preflight), "page") for part in (_warnings, _section))
    return [*blocks[:lead], *warnings, *blocks[lead:cost], *columns, *blocks[cost:]]


def _place(blocks: Sequence[render.Block], what: str, otherwise: int) -> int:
    """Return the place of the heading of an anchor, or of the first paragraph of a kind."""
    places = (
        k
        for k, block in enumerate(blocks)
        if (isinstance(block, render.Heading) and block.anchor == what)
        or (isinstance(block, render.Paragraph) and block.kind == what)
    )
    return next(places, otherwise)


def _warnings(preflight: Preflight) -> render.Content:
    flags = [printable(flag.sentence, 400) for flag in preflight.flags]
    where = printable(preflight.where, 200)
    lines = [
        f"Bounds and ranks are for numbers without a schema: check {where} first.",
        *flags[:_WARNINGS],
        *[f"{len(flags) - _WARNINGS} more such remarks are below."][: len(flags) > _WARNINGS],
    ]
    return bool(flags) and [render.Paragraph(line, "warning") for line in lines]


def _section(preflight: Preflight) -> render.Content:
    """Return the columns with their part of the variance, and what was noticed of each."""
    # Of several columns together, no share is known.
    others = dict.fromkeys(finding.column for finding in preflight.findings)
    shares = [
        *((printable(name, 32), name, share) for name, share in _ranked(preflight)),
        *((name, name, None) for name in others if name not in preflight.shares),
    ]

    def noticed(name: str) -> render.Cell:
        remarks = preflight.noticed(name)
        words = (f"{printable(remark.sentence, 400).rstrip('.')}." for remark in remarks)
        return render.Cell(" ".join(words), warn=any(remark.flag for remark in remarks))

    rows = [
        (title, render.Cell("" if share is None else percent_of(share), share), noticed(name))
        for title, name, share in shares
    ]
    caption = "Columns, the largest first, and what was noticed."
    if len(rows) > _ROWS:
        # Columns that look odd are never among those without a row.
        rows.sort(key=lambda row: not row[2].warn)
        caption = f"{caption} These are {_ROWS} of {len(rows)}, odd ones first: --json has all."
    titles = ("column", "share of the variance", "noticed")
    columns = [render.Column(title, numeric=title == titles[1]) for title in titles]
    return render.section(
        "The data without a schema",
        render.Paragraph(
            "No schema describes the columns. Squared distances are sums over columns, "
            "so each column counts by its share of the variance. Bounds are valid for "
            "the numbers as they are, whatever they mean."
        ),
        bool(preflight.unseen) and render.Paragraph(_unseen(preflight), "note"),
        bool(rows) and render.Table(caption, columns, rows[:_ROWS]),
    )
