"""What is shown of audits of runs and of policies."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import render
from ..errors import MismatchError
from ..federation.result import Array
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
    return [
        render.Headline(
            "What the messages give away",
            (
                "Attacks on the messages of a ",
                render.Name(printable(result.protocol)),
                " run, from what ",
                render.Name(printable(result.viewpoint)),
                " saw of it.",
            ),
            [f"Not finished: {unfinished}."] if unfinished else (),
        ),
        _chart(
            (f"{one.target}: {one.name}", one.membership_auc, one.membership_interval, 0.5)
            for one in applied
        ),
        render.on_terminal(_attacks(applied) if applied else None),
        render.facts(
            {
                "seen by": printable(result.viewpoint),
                "method": printable(result.protocol),
                **({"not finished": unfinished} if unfinished else {}),
                "tried": printable(", ".join(result.tried) or "nothing", 2000),
                "not tried": printable("; ".join(result.not_tried), 2000),
            },
            terminal={"verdict": result.findings, "beware": SILENCE},
        ),
        render.on_page(lambda: _page(result)),
    ]


def _page(result: Audit) -> render.Content:
    targets = [(target, _tiles(result, target)) for target in result.targets]
    is_pictured = any(tiles for _, tiles in targets)
    return [
        render.Private("records of holders as pictures" if is_pictured else ""),
        render.Bullets([
            (render.Strong(printable(name)), f": {printable(text, 2000)}")
            for name, text in result.verdicts.items()
        ]),
        render.Paragraph(
            f"An audit can show that records are exposed, and never the opposite: {SILENCE}.",
            "alert",
        ),
        [
            _target(result, target, tiles, f"target-{k + 1}")
            for k, (target, tiles) in enumerate(targets)
        ],
        render.section("How to read this", render.terms("audit")),
    ]  # fmt: skip


def _target(result: Audit, target: str, tiles: list[render.Tile], anchor: str) -> render.Content:
    attacks = result.of(target)
    applied = [attack for attack in attacks if attack.applicable]
    skipped = [(attack.name, attack.reason) for attack in attacks if not attack.applicable]
    best = result.best(target)
    heading, words = "Reconstructed", "" if best is None else f"By {best.name}."
    if result.truth.get(target) is not None:
        heading = "True and reconstructed"
        words += " Left: the record. Right: what was computed from the messages."
    more = ", or not finished" if result.not_finished else ""
    return render.section(
        ("Records of ", render.Name(printable(target))),
        # What no attack applied to has its heading as well.
        render.Paragraph(""),
        _attacks(applied) if applied else None,
        render.section(heading, render.Paragraph(words, "small"), render.Gallery(tiles), level=3)
        if tiles
        else None,
        render.Details(f"Attacks that were not tried{more}", [render.Facts(skipped)])
        if skipped
        else None,
        anchor=anchor,
    )


def _chart(rows: Iterable[render.Row]) -> render.Intervals | None:
    what = "Area under the ROC curve, with 95 % intervals where known. The band is guessing."
    return render.chart(what, rows, write="{:.3f}".format, limit=1.0)


def _attacks(attacks: list[Attack]) -> render.Table:
    rows = [
        (
            attack.target,
            attack.name,
            render.Cell(attack.exact_rate, attack.exact_rate, bool(attack.exact_rate)),
            attack.reidentification_rate,
            attack.chance,
            attack.relative_rmse,
            None if attack.certified is None else "yes" if attack.certified else "no",
            attack.membership_auc,
            printable(attack.verdict, 1000),
        )
        for attack in attacks
    ]
    none, two, three = MISSING_NUMBER, "{:.2g}".format, "{:.3f}".format
    columns = [
        render.texts("target", wrap="cut", on="terminal"), render.texts("attack", wrap="cut"),
        render.shares("exact", missing=none),
        render.shares("re-id", full="re-identified", missing=none),
        render.shares("chance", missing=none),
        render.Column("error", terminal=two, page=number, missing=none),
        render.Column("proven", on="page"),
        render.Column("AUC", full="membership", terminal="{:.2f}".format, page=three, missing=none),
        render.texts("finding", on="page"),
    ]  # fmt: skip
    return render.Table("Attacks that applied", columns, rows)


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
    if truth is not None:
        return _compared(match_rows(rows, truth, ordered=best.ordered), truth, shape)
    sources = thumbnails(rows.reshape(-1, *shape), np.arange(min(len(rows), _PICTURES)))
    return [
        render.Tile([(source, f"reconstructed record {k}")], f"row {k}")
        for k, source in enumerate(sources)
    ]


def _compared(rows: Array, truth: Array, shape: tuple[int, ...]) -> list[render.Tile]:
    """Return true records beside what was computed from the messages."""
    shown = min(len(rows), _PICTURES)
    both: Any = np.concatenate([truth[:shown], rows[:shown]]).reshape(-1, *shape)
    sources = thumbnails(both, np.arange(2 * shown))
    exact = exact_rows(rows, truth)
    return [
        render.Tile(
            [
                (sources[k], f"true record {k}"),
                (sources[shown + k], f"reconstruction of record {k}"),
            ],
            f"record {k}, {'exact' if exact[k] else 'not exact'}",
        )
        for k in range(shown)
    ]


def policy_content(result: PolicyAudit) -> render.Content:
    """Declare what an asker learns about single people under a policy; no record is shown."""
    return [
        render.Headline("What an asker learns about single people", f"{result.status}."),
        render.section(
            "Attacks",
            _chart((one.name, one.auc, one.interval, 0.5) for one in result.attacks),
            _attacks_on_people(result) if result.attacks else None,
            render.facts({"finding": result.status}),
        ),
        render.on_terminal(render.Paragraph("what the policy discloses at most:")),
        render.section(
            "What the policy discloses at most",
            render.Bullets([printable(line, 2000) for line in result.bound.split("\n")]),
        ),
    ]


def _attacks_on_people(result: PolicyAudit) -> render.Table:
    rows = [
        (
            attack.name,
            attack.knows,
            "none" if attack.bound_auc is None else f"{attack.bound_auc:.3f}",
            f"{attack.power:.1%} ± {1.96 * attack.power_error:.1%}",
            "none" if attack.bound_power is None else f"{attack.bound_power:.2%}",
        )
        for attack in result.attacks
    ]
    columns = [
        render.Column("attack", False, "fold", 34),
        render.Column("who knows", False, "fold", 16),
        *map(render.Column, ("proven AUC", "found at 1 %", "proven")),
    ]
    caption = "Guessing has an AUC of 0.5, and finds 1 % at 1 % false alarms."
    return render.Table(caption, columns, rows, fold=max(len(rows), 1), loose="")
