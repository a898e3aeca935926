"""What is shown of audits of runs and of policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import render
from ..errors import MismatchError
from ..records.figures import thumbnails
from ..render.words import MISSING_NUMBER, number, printable
from .metrics import exact_rows, match_rows
from .result import SILENCE, Attack, Audit, PolicyAudit

_PICTURES = 24


def audit_content(result: Audit) -> render.Content:
    """Declare what attacks recovered, and what silence is worth.

    Where records have the shape of pictures, true and reconstructed ones stand side by side on
    the page, which then contains raw records.

    Raises
    ------
    MismatchError
        ``report-images``: the image shape does not hold the features of a record.
    """
    applied = [attack for attack in result.attacks if attack.applicable]
    unfinished = printable(", ".join(result.not_finished), 2000)
    protocol, viewpoint = printable(result.protocol), printable(result.viewpoint)
    return [
        render.Headline(
            "What the messages give away",
            ("Attacks on the messages of a ", render.Name(protocol), " run, from what ",
             render.Name(viewpoint), " saw of it."),
            [f"Not finished: {unfinished}."] if unfinished else (),
        ),
        _chart(
            (f"{one.target}: {one.name}", one.membership_auc, one.membership_interval, 0.5)
            for one in applied
        ),
        render.on_terminal(bool(applied) and _attacks(applied)),
        render.facts(
            {
                "seen by": viewpoint,
                "method": protocol,
                "not finished": unfinished or None,
                "tried": printable(", ".join(result.tried) or "nothing", 2000),
                "not tried": printable("; ".join(result.not_tried), 2000),
            },
            terminal={"verdict": result.findings, "beware": SILENCE},
        ),
        render.on_page(lambda: _page(result)),
    ]  # fmt: skip


def _page(result: Audit) -> render.Content:
    tiles = [_tiles(result, target) for target in result.targets]
    return [
        render.Private("records of holders as pictures" if any(tiles) else ""),
        render.Bullets([
            (render.Strong(printable(name)), f": {printable(text, 2000)}")
            for name, text in result.verdicts.items()
        ]),
        render.Paragraph(
            f"An audit can show that records are exposed, and never the opposite: {SILENCE}.",
            "alert",
        ),
        [
            _target(result, target, pictures, f"target-{k + 1}")
            for k, (target, pictures) in enumerate(zip(result.targets, tiles, strict=True))
        ],
        render.section("How to read this", render.terms("audit")),
    ]  # fmt: skip


def _target(result: Audit, target: str, tiles: list[render.Tile], anchor: str) -> render.Content:
    attacks = result.of(target)
    applied = [attack for attack in attacks if attack.applicable]
    skipped = {attack.name: attack.reason for attack in attacks if not attack.applicable}
    best = result.best(target)
    heading, words = "Reconstructed", "" if best is None else f"By {best.name}."
    if result.truth.get(target) is not None:
        heading = "True and reconstructed"
        words += " Left: the record. Right: what was computed from the messages."
    more = ", or not finished" if result.not_finished else ""
    pictures = (render.Paragraph(words, "small"), render.Gallery(tiles))
    return render.section(
        ("Records of ", render.Name(printable(target))),
        # What no attack applied to has its heading as well.
        render.Paragraph(""),
        bool(applied) and _attacks(applied),
        bool(tiles) and render.section(heading, *pictures, level=3),
        render.Details(f"Attacks that were not tried{more}", [render.facts(skipped)]),
        anchor=anchor,
    )


def _chart(rows: Iterable[render.Row]) -> render.Intervals | None:
    what = "Area under the ROC curve, with 95 % intervals where known. The band is guessing."
    return render.chart(what, rows, write="{:.3f}".format, limit=1.0)


def _attacks(attacks: list[Attack]) -> render.Table:

    def exact(attack: Attack) -> render.Cell:
        return render.Cell(attack.exact_rate, attack.exact_rate, bool(attack.exact_rate))

    none, two, three = MISSING_NUMBER, "{:.2f}".format, "{:.3f}".format
    is_proven = {None: None, True: "yes", False: "no"}
    return render.table(
        "Attacks that applied",
        attacks,
        render.texts("target", wrap="cut", on="terminal"),
        render.texts("attack", wrap="cut", of="name"),
        render.shares("exact", missing=none, of=exact),
        render.shares("re-id", full="re-identified", missing=none, of="reidentification_rate"),
        render.shares("chance", missing=none),
        render.Column("error", of="relative_rmse", terminal="{:.2g}".format, page=number,
                      missing=none),
        render.Column("proven", on="page", of=lambda attack: is_proven[attack.certified]),
        render.Column("AUC", of="membership_auc", full="membership", terminal=two, page=three,
                      missing=none),
        render.names("finding", 1000, on="page", of="verdict"),
    )  # fmt: skip


def _tiles(result: Audit, target: str) -> list[render.Tile]:
    """Return records as pictures, beside true ones where these are known."""
    shape, best, truth = result.image_shape, result.best(target), result.truth.get(target)
    if shape is None or best is None or best.recovered is None:
        return []
    rows = best.recovered
    if rows.shape[1] != int(np.prod(shape)):
        raise MismatchError(
            f"a record has {rows.shape[1]} features and an image of shape {shape} "
            f"{int(np.prod(shape))}.",
            code="report-images",
        )
    shown = min(len(rows), _PICTURES)
    if truth is None:
        sources = thumbnails(rows.reshape(-1, *shape), np.arange(shown))
        return [
            render.Tile([(source, f"reconstructed record {k}")], f"row {k}")
            for k, source in enumerate(sources)
        ]
    rows = match_rows(rows, truth, ordered=best.ordered)
    shown, exact = min(len(rows), _PICTURES), exact_rows(rows, truth)
    both: Any = np.concatenate([truth[:shown], rows[:shown]]).reshape(-1, *shape)
    sources = thumbnails(both, np.arange(2 * shown))
    return [
        render.Tile(
            [(sources[k], f"true record {k}"),
             (sources[shown + k], f"reconstruction of record {k}")],
            f"record {k}, {'exact' if exact[k] else 'not exact'}",
        )
        for k in range(shown)
    ]  # fmt: skip


def policy_content(result: PolicyAudit) -> render.Content:
    """Declare what an asker learns about single people under a policy; no record is shown."""
    rows = [
        (one.name, one.knows, "none" if one.bound_auc is None else f"{one.bound_auc:.3f}",
         f"{one.power:.1%} ± {1.96 * one.power_error:.1%}",
         "none" if one.bound_power is None else f"{one.bound_power:.2%}")
        for one in result.attacks
    ]  # fmt: skip
    columns = [
        render.Column("attack", False, "fold", 34), render.Column("who knows", False, "fold", 16),
        *map(render.Column, ("proven AUC", "found at 1 %", "proven")),
    ]  # fmt: skip
    caption = "Guessing has an AUC of 0.5, and finds 1 % at 1 % false alarms."
    return [
        render.Headline("What an asker learns about single people", f"{result.status}."),
        render.section(
            "Attacks",
            _chart((one.name, one.auc, one.interval, 0.5) for one in result.attacks),
            bool(rows) and render.Table(caption, columns, rows, fold=None, loose=""),
            render.facts({"finding": result.status}),
        ),
        render.on_terminal(render.Paragraph("what the policy discloses at most:")),
        render.section(
            "What the policy discloses at most",
            render.Bullets([printable(line, 2000) for line in result.bound.split("\n")]),
        ),
    ]
