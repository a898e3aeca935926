"""Sections about the records of holders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ._checks import Scored
from ._curves import (
    inspection_figure,
    quality,
    score_figure,
    thumbnails,
    viewpoints,
)
from ._figures import Picture
from ._sections import Cell, Column, Table
from ._words import MISSING_NUMBER, count, decimals, percent, printable

_DETAILED = 6
_WORST = 10
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
            good = quality(item.scores.holder_side, item.truth)
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
    sentence = f"{flagged} on the holder side ({percent(item.flagged_share)})"
    if scores.coordinator_side is None:
        sentence += "; the coordinator side was not scored."
    else:
        theirs = int(scores.coordinator_side.flagged.sum())
        sentence += f", {theirs:,} on the coordinator side."
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
        sides=_sides(item),
        worst=_worst(item),
        galleries=_galleries(item),
    )


def _sides(item: Scored) -> Table:
    columns = [Column("side", numeric=False), Column("flagged"), Column("threshold")]
    if item.truth is not None:
        columns += [Column("AUC"), Column("precision"), Column("recall")]
    rows: list[tuple[Cell, ...]] = []
    for side, view in viewpoints(item.scores):
        threshold = decimals(view.threshold) if np.isfinite(view.threshold) else "none flagged"
        row = [Cell(side), Cell(f"{int(view.flagged.sum()):,}"), Cell(threshold)]
        if item.truth is not None:
            good = quality(view, item.truth)
            row += [
                Cell(decimals(good.auc, 3)),
                Cell(percent(good.precision)),
                Cell(percent(good.recall)),
            ]
        rows.append(tuple(row))
    caption = "Records flagged, by the side that scored them."
    if item.truth is not None:
        broken = count(int(item.truth.sum()), "record")
        caption = f"{caption} {broken} known to be broken."
    return Table(caption, tuple(columns), rows)


def _worst(item: Scored) -> Table:
    scores, truth = item.scores, item.truth
    side, other = scores.holder_side, scores.coordinator_side
    columns = [Column("record"), Column("score")]
    if side.labels is not None:
        columns += [Column("because of", numeric=False), Column("features"), Column("label")]
    if other is not None:
        columns.append(Column("coordinator side"))
    columns.append(Column("flagged", numeric=False))
    if truth is not None:
        columns.append(Column("known to be", numeric=False))
    rows: list[tuple[Cell, ...]] = []
    for k in scores.worst[:_WORST].tolist():
        row = [Cell(f"{k}"), Cell(decimals(float(side.scores[k])))]
        if side.labels is not None:
            features, label = float(side.features[k]), float(side.labels[k])
            part = "features" if features >= label else "label"
            row += [Cell(part), Cell(decimals(features)), Cell(decimals(label))]
        if other is not None:
            row.append(Cell(decimals(float(other.scores[k]))))
        row.append(Cell("yes" if side.flagged[k] else "no"))
        if truth is not None:
            row.append(Cell("broken" if truth[k] else "sound"))
        rows.append(tuple(row))
    caption = f"The {count(len(rows), 'most suspect record')}, by position counted from 0."
    if side.labels is not None:
        caption += " A score is the larger of its two parts, features and label."
    return Table(caption, tuple(columns), rows)


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
