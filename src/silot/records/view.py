"""Scored records, and counts of broken ones: the tables of a terminal, and parts of a page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..federation.view import bill_rows, bill_sections, facts
from ..render import (
    Block,
    Cell,
    Column,
    Gallery,
    Heading,
    Name,
    Paragraph,
    Strong,
    Table,
    Tile,
    plain_table,
    textual,
)
from ..render.words import MISSING_NUMBER, count, decimals, percent, printable
from .checks import Scored
from .counts import BrokenCounts
from .result import Contents, RecordScores, Suspect

_DETAILED = 6
_THUMBNAILS = 12
# Rows of suspect records in one report, of some 600 bytes each.
_ROWS = 12_000
# On a terminal.
_SHOWN, _LONGEST = 10, 16


def records_sections(result: RecordScores, contents: Contents | None = None) -> list[Block]:
    """The most suspect records of a holder, the rule and the bill."""
    suspects = result.suspects(contents)
    blocks: list[Block] = []
    if suspects:
        named = contents is not None and contents.identifiers is not None
        blocks.append(_most_suspect(suspects[:_SHOWN], named, result.screening is not None))
    if len(suspects) > _SHOWN:
        more = f"{len(suspects) - _SHOWN:,} more: --csv FILE and --report FILE list all"
        blocks.append(Paragraph(more))
    rows = {"records": result.summary, "rule": result.rule, "status": result.status}
    rows |= bill_rows(result)
    if result.screening is not None:
        rows["disclosed"] = (
            "record: some 16 numbers about every record; to the holder, the validation records"
        )
    return [*blocks, facts(rows)]


def _most_suspect(suspects: Sequence[Suspect], named: bool, parts: bool) -> Table:
    columns = [Column("record"), *[textual("identifier", "cut")] * named, Column("score")]
    columns += [textual("kind", "cut"), textual("why", "fill")] if parts else []
    rows: list[list[str]] = []
    for each in suspects:
        name = [printable(each.identifier, _LONGEST)] if named else []
        kind = [each.kind, printable(each.why, 400)] if parts else []
        rows.append([str(each.record), *name, f"{each.score:.4g}", *kind])
    return plain_table(columns, rows)


def counts_sections(result: BrokenCounts) -> list[Block]:
    """What the coordinator was told of broken records, with noise."""
    rows = {
        "told": "counts with noise; scores, flags and suggestions stay with the holder",
        "status": result.status,
    }
    strange = [each.strange for each in result.holders.values() if each.strange is not None]
    if strange:
        rows["other classes"] = f"about {sum(strange):.0f} records"
    return [_counts(result), facts({**rows, **bill_rows(result)})]


def counts_page(result: BrokenCounts) -> list[Block]:
    """The page of the same: nothing in it is about a single record."""
    found = sum(each.broken["all"].value for each in result.holders.values())
    return [
        Heading("How many records are broken", level=1),
        Paragraph(
            f"About {found:,.0f} records of {count(len(result.holders), 'holder')} are broken, by "
            "counts with noise. Scores, flags and suggestions stay with the holders.",
            "lead",
        ),
        Heading("Broken records", "records", "Broken records"),
        _counts(result),
        facts({"status": result.status}),
        *bill_sections([("", result)]),
    ]


def _counts(result: BrokenCounts) -> Table:
    heads = ("broken", "95 %", "would be flagged", "of about")
    rows = [
        [
            name,
            fault,
            f"{told.broken[fault].value:.0f}",
            f"{told.broken[fault].low:.0f} to {told.broken[fault].high:.0f}",
            f"{told.flagged[fault].value:.0f}",
            f"{told.records:.0f}",
        ]
        for name, told in result.holders.items()
        for fault in ("label", "features", "all")
        if fault in told.broken
    ]
    return plain_table([textual("holder"), textual("fault"), *map(Column, heads)], rows)


def scored_sections(scored: Sequence[Scored]) -> list[Block]:
    """Overview of all holders, and details of those with the largest share of flagged records."""
    if not scored:
        return []
    ordered = sorted(scored, key=lambda item: (-item.flagged_share, item.name))
    chosen = list(scored) if len(scored) <= _DETAILED else ordered[:_DETAILED]
    blocks: list[Block] = [
        Heading("Suspect records", "records", "Records"),
        Paragraph(
            _SCREENED if any(item.scores.screening is not None for item in chosen) else _PUBLISHED
        ),
        Paragraph(
            "Scores, positions and flags say something about single records. Share this report "
            "with those who may know that.",
            "note",
        ),
    ]
    if len(scored) > 1:
        blocks.append(_overview(ordered))
    if len(chosen) < len(scored):
        shown = f"The {len(chosen)} holders with the largest share of flagged records"
        blocks.append(Paragraph(f"{shown} are shown in full."))
    for k, item in enumerate(chosen):
        blocks += _holder(item, f"records-{k + 1}", _ROWS // len(chosen))
    return blocks


_SCREENED = (
    "A score is the log odds that a record is broken: at 0 it is as likely broken as not. Kinds: "
    "a wrong ", Strong("label"), ", broken ", Strong("features"), ", a ", Strong("copy"),
    " of an earlier record, an ", Strong("unknown label"), " that no validation record has. The "
    "nearest good record is the nearest one of the validation data. Places count from 0.",
)  # fmt: skip
_PUBLISHED = "A score is a calibrated gradient: positive ones are flagged. Places count from 0."


def _overview(ordered: Sequence[Scored]) -> Table:
    # Slow to import: of scipy.
    from .quality import quality

    known = any(item.truth is not None for item in ordered)
    top = max(item.flagged_share for item in ordered) or 1.0
    columns = [
        textual("holder"),
        Column("records"),
        Column("flagged"),
        Column("flagged share"),
    ]
    if known:
        columns += [Column("broken"), Column("precision"), Column("recall"), Column("AUC")]
    rows: list[tuple[Cell, ...]] = []
    for item in ordered:
        row = [
            Cell(printable(item.name)),
            Cell(f"{item.records:,}"),
            Cell(f"{item.flagged:,}"),
            Cell(percent(item.flagged_share), item.flagged_share / top),
        ]
        if known and item.truth is None:
            row += [Cell(MISSING_NUMBER)] * 4
        elif item.truth is not None:
            good = quality(item.scores, item.truth)
            row += [
                Cell(f"{int(item.truth.sum()):,}"),
                Cell(percent(good.precision)),
                Cell(percent(good.recall)),
                Cell(decimals(good.auc, 3)),
            ]
        rows.append(tuple(row))
    return Table(
        "Scored records by holder, the largest share of flagged ones first.",
        tuple(columns),
        rows,
        filter=True,
        flagged=[item.flagged > 0 for item in ordered],
        only="only holders with flagged records",
    )


def _holder(item: Scored, anchor: str, most: int) -> list[Block]:
    # Slow to import: they draw.
    from .figures import inspection_figure, score_figure

    scores, truth, name = item.scores, item.truth, printable(item.name)
    drawn = (
        inspection_figure(item.name, scores, truth)
        if truth is not None and truth.any()
        else score_figure(item.name, scores)
    )
    quiet = "small" if scores.converged else "small warn"
    blocks: list[Block | None] = [
        Heading(("Records of ", Name(name)), anchor, level=3),
        Paragraph(_sentence(item)),
        Paragraph(f"Rule: {printable(scores.rule, 600)}", "small"),
        Paragraph(f"Status: {printable(scores.status, 400)}", quiet),
        _estimates(item),
        _suspects(item, most),
        drawn,
        *_galleries(item, name),
    ]
    return [block for block in blocks if block is not None]


def _sentence(item: Scored) -> str:
    text = f"{item.scores.summary}."
    if item.truth is not None:
        from .quality import quality

        good = quality(item.scores, item.truth)
        text += (
            f" {count(int(item.truth.sum()), 'record')} known to be broken: AUC "
            f"{decimals(good.auc, 3)}, precision {percent(good.precision)}, recall "
            f"{percent(good.recall)}."
        )
    return text


def _estimates(item: Scored) -> Table | None:
    part = item.scores.screening
    if part is None:
        return None
    columns = (textual("broken"), Column("about"), Column("95 % interval"))
    names = {"label": "by label", "features": "by features", "all": "in all"}
    rows = [
        (
            Cell(names[name]),
            Cell(f"{each.value:,.0f}"),
            Cell(f"{each.low:,.0f} to {each.high:,.0f}"),
        )
        for name, each in part.broken.items()
        if len(part.broken) > 2 or name == "all"
    ]
    caption = f"About how many of the {count(item.records, 'record')} are broken."
    return Table(caption, columns, rows)


def _suspects(item: Scored, most: int) -> Table | None:
    """Flagged records, copies and records of unknown classes; the most suspect, if very many."""
    listed = item.scores.suspects(item.contents)
    if not listed:
        return None
    columns = _columns(item, listed)
    shown = listed[:most]
    caption = "Flagged records, copies and unknown labels, the most suspect first."
    if len(listed) > most:
        caption += f" These are {most:,} of {len(listed):,}: silot records --csv lists all."
    return Table(
        caption,
        tuple(column for column, _ in columns),
        [tuple(Cell(text(each)) for _, text in columns) for each in shown],
        filter=True,
        kinds=[each.kinds for each in shown] if item.scores.screening is not None else None,
    )


def _columns(
    item: Scored, listed: Sequence[Suspect]
) -> list[tuple[Column, Callable[[Suspect], str]]]:
    """Columns of the table, and what stands in them."""
    part, truth, contents = item.scores.screening, item.truth, item.contents or Contents()

    def known(each: Suspect) -> str:
        return "broken" if truth is not None and truth[each.record] else "sound"

    named, own = contents.identifiers is not None, contents.records is not None
    screened = part is not None
    labelled = part is not None and part.labels is not None
    copied = part is not None and bool(part.copies.any())
    columns: list[tuple[Column, Callable[[Suspect], str], bool]] = [
        (textual("identifier"), lambda each: printable(each.identifier), named),
        (Column("record"), lambda each: str(each.record), True),
        (Column("score"), lambda each: decimals(each.score), True),
        (textual("kind"), lambda each: each.kind, screened),
        (textual("label"), lambda each: printable(each.label), labelled and own),
        (textual("suggested label"), lambda each: printable(each.suggested), labelled),
        (textual("columns"), _odd, screened and any(each.columns for each in listed)),
        (textual("copy of"), _original, copied),
        (textual("nearest good"), _nearest, screened),
        (textual("known to be"), known, truth is not None),
    ]
    return [(column, text) for column, text, there in columns if there]


def _odd(each: Suspect) -> str:
    return printable("; ".join(map(str, each.columns)), 400)


def _original(each: Suspect) -> str:
    if each.copy_of is None:
        return ""
    return printable(each.original) or str(each.copy_of)


def _nearest(each: Suspect) -> str:
    label = f" ({printable(each.nearest_label)})" if each.nearest_label else ""
    return f"{each.nearest}{label}"


def _galleries(item: Scored, name: str) -> list[Block]:
    if item.images is None:
        return []
    # Slow to import: it draws.
    from .figures import thumbnails

    order = item.scores.worst
    worst = order[:_THUMBNAILS]
    best = order[max(len(worst), len(order) - _THUMBNAILS) :][::-1]
    blocks: list[Block] = []
    for title, places in (("most suspect", worst), ("least suspect", best)):
        if not len(places):
            continue
        tiles = [
            Tile(
                [(source, f"Record {k} of {name}")],
                f"{k}: {decimals(float(item.scores.scores[k]))}",
                "broken" if item.truth is not None and item.truth[k] else "",
            )
            for k, source in zip(places, thumbnails(item.images, places), strict=True)
        ]
        heading = f"The {count(len(tiles), f'{title} record')}"
        blocks += [Heading(heading, level=4), Gallery(tiles)]
    if not blocks:
        return []
    warning = (
        Strong("Raw records of "),
        Name(name),
        Strong(" follow."),
        " They must stay with their owner.",
    )
    return [
        Paragraph(warning, "warning"),
        *blocks,
        Paragraph("Below each picture: position of the record, and its score.", "small"),
    ]
