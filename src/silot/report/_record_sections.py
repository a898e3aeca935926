"""Sections about the records of holders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..results import Contents, Suspect
from ._checks import Scored
from ._curves import (
    inspection_figure,
    quality,
    score_figure,
    thumbnails,
)
from ._figures import Picture
from ._sections import Cell, Column, Table
from ._words import MISSING_NUMBER, count, decimals, percent, printable

_DETAILED = 6
_THUMBNAILS = 12
# Rows of suspect records in one report, of some 600 bytes each.
_ROWS = 12_000


@dataclass(frozen=True)
class Thumbnail:
    """A record as an image."""

    source: str
    alt: str
    words: str
    broken: bool


@dataclass(frozen=True)
class Holder:
    """What is said about the records of one holder."""

    name: str
    sentence: str
    rule: str
    status: str
    converged: bool
    figure: Picture
    estimates: Table | None
    suspects: Table | None
    galleries: list[tuple[str, list[Thumbnail]]]


@dataclass(frozen=True)
class Records:
    """What is said about scored records."""

    overview: Table | None
    holders: list[Holder]
    left_out: int
    raw: bool
    pictures: bool
    screened: bool


def records(scored: Sequence[Scored]) -> Records:
    """Overview of all holders, and details of those with the largest share of flagged records."""
    ordered = sorted(scored, key=lambda item: (-item.flagged_share, item.name))
    chosen = list(scored) if len(scored) <= _DETAILED else ordered[:_DETAILED]
    return Records(
        _overview(ordered) if len(scored) > 1 else None,
        [_holder(item, _ROWS // len(chosen)) for item in chosen],
        len(scored) - len(chosen),
        any(item.raw for item in chosen),
        any(item.images is not None for item in chosen),
        any(item.scores.screening is not None for item in chosen),
    )


def _overview(ordered: Sequence[Scored]) -> Table:
    known = any(item.truth is not None for item in ordered)
    top = max(item.flagged_share for item in ordered) or 1.0
    columns = [
        Column("holder", numeric=False),
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


def _holder(item: Scored, most: int) -> Holder:
    scores, truth = item.scores, item.truth
    drawn = truth is not None and bool(truth.any())
    figure = (
        inspection_figure(item.name, scores, truth)
        if drawn and truth is not None
        else score_figure(item.name, scores)
    )
    return Holder(
        name=printable(item.name),
        sentence=_sentence(item),
        rule=printable(scores.rule, 600),
        status=printable(scores.status, 400),
        converged=scores.converged,
        figure=figure,
        estimates=_estimates(item),
        suspects=_suspects(item, most),
        galleries=_galleries(item),
    )


def _sentence(item: Scored) -> str:
    text = f"{item.scores.summary}."
    if item.truth is not None:
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
    columns = (Column("broken", numeric=False), Column("about"), Column("95 % interval"))
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
        [tuple(cell(each) for _, cell in columns) for each in shown],
        filter=True,
        kinds=[each.kinds for each in shown] if item.scores.screening is not None else None,
    )


def _columns(
    item: Scored, listed: Sequence[Suspect]
) -> list[tuple[Column, Callable[[Suspect], Cell]]]:
    """Columns of the table, and what stands in them."""
    part, truth, contents = item.scores.screening, item.truth, item.contents or Contents()
    columns: list[tuple[Column, Callable[[Suspect], Cell]]] = []

    def add(title: str, text: Callable[[Suspect], str], numeric: bool = False) -> None:
        columns.append((Column(title, numeric=numeric), lambda each: Cell(text(each))))

    if contents.identifiers is not None:
        add("identifier", lambda each: printable(each.identifier))
    add("record", lambda each: str(each.record), numeric=True)
    add("score", lambda each: decimals(each.score), numeric=True)
    if part is not None:
        add("kind", lambda each: each.kind)
        if part.labels is not None:
            if contents.records is not None:
                add("label", lambda each: printable(each.label))
            add("suggested label", lambda each: printable(each.suggested))
        if any(each.columns for each in listed):
            add("columns", lambda each: printable("; ".join(map(str, each.columns)), 400))
        if part.copies.any():
            add("copy of", _original)
        add("nearest good", _nearest)
    if truth is not None:
        add("known to be", lambda each: "broken" if truth[each.record] else "sound")
    return columns


def _original(each: Suspect) -> str:
    if each.copy_of is None:
        return ""
    return printable(each.original) or str(each.copy_of)


def _nearest(each: Suspect) -> str:
    label = f" ({printable(each.nearest_label)})" if each.nearest_label else ""
    return f"{each.nearest}{label}"


def _galleries(item: Scored) -> list[tuple[str, list[Thumbnail]]]:
    if item.images is None:
        return []
    order = item.scores.worst
    worst = order[:_THUMBNAILS]
    best = order[max(len(worst), len(order) - _THUMBNAILS) :][::-1]
    found: list[tuple[str, list[Thumbnail]]] = []
    for title, places in (("most suspect", worst), ("least suspect", best)):
        if not len(places):
            continue
        images = [
            Thumbnail(
                source,
                f"Record {k} of {printable(item.name)}",
                f"{k}: {decimals(float(item.scores.scores[k]))}",
                item.truth is not None and bool(item.truth[k]),
            )
            for k, source in zip(places, thumbnails(item.images, places), strict=True)
        ]
        found.append((f"The {count(len(images), f'{title} record')}", images))
    return found
