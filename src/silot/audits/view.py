"""What is shown of audits of runs and of policies."""

from __future__ import annotations

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
_BEWARE = render.on_page(
    render.Paragraph(
        f"An audit shows what is broken and never that anything is safe: {SILENCE}.", "alert"
    )
)


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
    unfinished = ", ".join(result.not_finished)
    return [
        render.Headline(
            "What the messages give away",
            (
                "Attacks on the messages of one ",
                render.Name(printable(result.protocol)),
                " run, from what ",
                render.Name(printable(result.viewpoint)),
                " saw of it.",
            ),
        ),
        render.on_terminal(
            _attacks(applied) if applied else None,
            render.facts({
                "seen by": result.viewpoint,
                "method": result.protocol,
                "verdict": result.findings,
                "tried": ", ".join(result.tried) or "nothing",
                **({"not finished": unfinished} if unfinished else {}),
                "not tried": "; ".join(result.not_tried),
                "beware": SILENCE,
            }),
        ),
        render.on_page(lambda: _page(result, unfinished)),
    ]  # fmt: skip


def _page(result: Audit, unfinished: str) -> render.Content:
    targets = [(target, _tiles(result, target)) for target in result.targets]
    is_pictured = any(tiles for _, tiles in targets)
    verdicts: list[tuple[str | render.Strong, ...]] = [
        (render.Strong(printable(name)), f": {printable(text, 2000)}")
        for name, text in result.verdicts.items()
    ]
    return [
        render.Private("records of holders as pictures" if is_pictured else ""),
        render.Bullets(verdicts),
        render.Paragraph(f"Tried: {printable(', '.join(result.tried) or 'nothing', 2000)}."),
        render.Paragraph(f"Not finished: {printable(unfinished, 2000)}.", "warning")
        if unfinished
        else None,
        render.Paragraph("Not tried:"),
        render.Bullets([printable(text, 2000) for text in result.not_tried]),
        _BEWARE,
        [
            _target(result, target, tiles, f"target-{k + 1}")
            for k, (target, tiles) in enumerate(targets)
        ],
        render.section("How to read this", "terms", render.Facts(_TERMS), link=""),
    ]


_TERMS = (
    (
        "exact",
        "Share of the true records recovered exactly: every value to a millionth of the largest "
        "of its column.",
    ),
    (
        "re-identified",
        "Share of the true records nearest to their own guess. Guesses without an order are "
        "matched with the records first, as well as can be; chance is what that does for guesses "
        "that know nothing of single records.",
    ),
    ("error", "Root mean square error, as a multiple of that of guessing every column's mean."),
    (
        "proven",
        "Whether the messages themselves prove the rows, without the truth: encoded again they "
        "give the messages, and no other rows do.",
    ),
    (
        "membership",
        "Area under the ROC curve of records against outsiders (.5 is guessing), with its 95 % "
        "interval in the finding.",
    ),
)


def _target(result: Audit, target: str, tiles: list[render.Tile], anchor: str) -> render.Content:
    attacks = result.of(target)
    applied = [attack for attack in attacks if attack.applicable]
    skipped = [(attack.name, attack.reason) for attack in attacks if not attack.applicable]
    best = result.best(target)
    heading, words = "Reconstructed", "" if best is None else f"By {best.name}."
    if result.truth.get(target) is not None:
        heading = "True and reconstructed"
        words += " Left the record, right what was computed from the messages."
    more = ", or not finished" if result.not_finished else ""
    return render.section(
        ("Records of ", render.Name(printable(target))),
        anchor,
        # What no attack applied to has its heading as well.
        render.Paragraph(""),
        _attacks(applied) if applied else None,
        render.section(
            heading, "", render.Paragraph(words, "small"), render.Gallery(tiles), level=3
        )
        if tiles
        else None,
        render.Details(f"Attacks that were not tried{more}", [render.Facts(skipped)])
        if skipped
        else None,
    )


def _attacks(attacks: list[Attack]) -> render.Table:
    """Return attacks that applied, and what each recovered."""
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
            "attacks",
            _attacks_on_people(result) if result.attacks else None,
            render.facts({"finding": result.status}),
        ),
        render.on_terminal(render.Paragraph("what the policy discloses at most:")),
        render.section(
            "What the policy discloses at most",
            "bound",
            render.Bullets([printable(line, 2000) for line in result.bound.split("\n")]),
            link="What the policy discloses",
        ),
    ]


def _attacks_on_people(result: PolicyAudit) -> render.Table:
    rows = [
        (
            attack.name,
            attack.knows,
            f"{attack.auc:.3f} ({attack.interval[0]:.3f} to {attack.interval[1]:.3f})",
            "none" if attack.bound_auc is None else f"{attack.bound_auc:.3f}",
            f"{attack.power:.1%} ± {1.96 * attack.power_error:.1%}",
            "none" if attack.bound_power is None else f"{attack.bound_power:.2%}",
        )
        for attack in result.attacks
    ]
    columns = [
        render.Column("attack", False, "fold", 34),
        render.Column("who knows", False, "fold", 16),
        *map(render.Column, ("AUC", "proven AUC", "found at 1 %", "proven")),
    ]
    caption = "Guessing has an AUC of 0.5, and finds 1 % at 1 % false alarms."
    return render.Table(caption, columns, rows, fold=max(len(rows), 1), loose="")
