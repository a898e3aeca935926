"""Sections about the records of holders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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
    sides: Table
    worst: Table
    galleries: list[tuple[str, list[Thumbnail]]]


@dataclass(frozen=True)
class Records:
    """What is said about scored records."""

    overview: Table | None
    holders: list[Holder]
    left_out: int
    raw: bool


def records(scored: Sequence[Scored]) -> Records:
    """Overview of all holders, and details of those with the largest share of flagged records."""
    ordered = sorted(scored, key=lambda item: (-item.flagged_share, item.name))
    chosen = list(scored) if len(scored) <= _DETAILED else ordered[:_DETAILED]
    return Records(
        _overview(ordered) if len(scored) > 1 else None,
        [_holder(item) for item in chosen],
        len(scored) - len(chosen),
        any(item.images is not None for item in chosen),
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


def _holder(item: Scored) -> Holder:
    scores, truth = item.scores, item.truth
    drawn = truth is not None and bool(truth.any())
    flagged = f"{item.flagged:,} of {count(item.records, 'record')} flagged"
    sentence = f"{flagged} ({percent(item.flagged_share)})."
    if scores.screening is not None:
        kinds = scores.screening.kinds
        sentence += (
            f" {int((kinds == 'label').sum()):,} for the label, "
            f"{int((kinds == 'features').sum()):,} for the features; "
            f"{count(int(scores.screening.copies.sum()), 'record')} more are copies of others."
        )
    figure = (
        inspection_figure(item.name, scores, truth)
        if drawn and truth is not None
        else score_figure(item.name, scores)
    )
    return Holder(
        name=printable(item.name),
        sentence=sentence,
        rule=printable(scores.rule, 600),
        status=printable(scores.status, 400),
        converged=scores.converged,
        figure=figure,
        sides=_estimates(item),
        worst=_worst(item),
        galleries=_galleries(item),
    )


def _estimates(item: Scored) -> Table:
    columns = [Column("broken", numeric=False), Column("about"), Column("95 % interval")]
    rows: list[tuple[Cell, ...]] = []
    part = item.scores.screening
    if part is not None:
        names = {"label": "by label", "features": "by features", "all": "in all"}
        rows = [
            (
                Cell(names[name]),
                Cell(f"{each.value:,.0f}"),
                Cell(f"{each.low:,.0f} to {each.high:,.0f}"),
            )
            for name, each in part.broken.items()
        ]
    caption = f"About how many of the {count(item.records, 'record')} are broken."
    if item.truth is not None:
        good = quality(item.scores, item.truth)
        caption += (
            f" {count(int(item.truth.sum()), 'record')} known to be broken: AUC "
            f"{decimals(good.auc, 3)}, precision {percent(good.precision)}, recall "
            f"{percent(good.recall)}."
        )
    return Table(caption, tuple(columns), rows)


def _worst(item: Scored) -> Table:
    scores, truth = item.scores, item.truth
    rows = scores.rows()
    names = list(rows[0]) if rows else ["record"]
    columns = [Column(name.replace("_", " "), numeric=name == "record") for name in names]
    if truth is not None:
        columns.append(Column("known to be", numeric=False))
    body: list[tuple[Cell, ...]] = []
    for row in rows:
        cells = [Cell(printable(str(row[name]))) for name in names]
        if truth is not None:
            cells.append(Cell("broken" if truth[int(str(row["record"]))] else "sound"))
        body.append(tuple(cells))
    caption = "Flagged records and copies, the most suspect first, by position counted from 0."
    return Table(caption, tuple(columns), body)


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
