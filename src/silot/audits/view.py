"""Audits of runs and of policies: the tables of a terminal, and the pages."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import MismatchError
from ..federation.result import Array
from ..federation.view import facts
from ..render import (
    Block,
    Bullets,
    Cell,
    Column,
    Details,
    Facts,
    Gallery,
    Heading,
    Name,
    Paragraph,
    Private,
    Strong,
    Table,
    Tile,
    plain_table,
    textual,
)
from ..render.words import MISSING_NUMBER, count, number, percent, printable
from .metrics import exact_rows, match_rows
from .result import SILENCE, Attack, Audit, PolicyAudit

_PICTURES = 24
_BEWARE = Paragraph(
    f"An audit shows what is broken and never that anything is safe: {SILENCE}.", "alert"
)


def audit_sections(found: Audit) -> list[Block]:
    """What attacks recovered, and what silence is worth."""
    columns = [textual("target", "cut"), textual("attack", "cut")]
    columns += map(Column, ("exact", "re-id", "chance", "error", "AUC"))
    rows = [[one.target, one.name, *_rates(one)] for one in found.attacks if one.applicable]
    unfinished = {"not finished": ", ".join(found.not_finished)} if found.not_finished else {}
    said = {
        "seen by": found.viewpoint,
        "method": found.protocol,
        "verdict": found.findings,
        "tried": ", ".join(found.tried) or "nothing",
        **unfinished,
        "not tried": "; ".join(found.not_tried),
        "beware": SILENCE,
    }
    return [*([plain_table(columns, rows)] if rows else []), facts(said)]


def _rates(attack: Attack) -> tuple[str, ...]:
    rates = (attack.exact_rate, attack.reidentification_rate, attack.chance)
    error, area = attack.relative_rmse, attack.membership_auc
    return (
        *map(_rate, rates),
        MISSING_NUMBER if error is None else f"{error:.2g}",
        MISSING_NUMBER if area is None else f"{area:.2f}",
    )


def policy_sections(found: PolicyAudit) -> list[Block]:
    """What a malicious coordinator got under a policy, strategy by strategy."""
    return [
        _strategies(found),
        facts({"finding": found.status}),
        Paragraph("what the policy can tell at most:"),
        Bullets(found.bound.split("\n")),
    ]


def _strategies(found: PolicyAudit, caption: str = "") -> Table:
    columns = [
        Column("a coordinator that asks for", False, "fold", 34),
        *map(Column, ("asked", "told", "records found")),
        Column("refused by", False, "fold", 20),
    ]
    rows = [
        [
            each.name,
            str(each.asked),
            str(each.answered),
            str(each.recovered),
            ", ".join(sorted(each.refusals)),
        ]
        for each in found.strategies
    ]
    return plain_table(columns, rows, caption, loose=True)


def policy_page(found: PolicyAudit) -> list[Block]:
    """The page of the same; it contains no record."""
    tried = f"{count(len(found.strategies), 'strategy', 'strategies')} of a malicious coordinator"
    some = f"found {found.recovered} of {count(found.records, 'record')}"
    lead = f"{tried} {some if found.recovered else 'found no record; others may'}."
    return [
        Heading("What a malicious coordinator gets", level=1),
        Paragraph(lead, "lead"),
        Paragraph(f"Not tried: {printable(found.untried, 2000)}", "small"),
        _BEWARE,
        Heading("Strategies", "strategies", "Strategies"),
        _strategies(found, "Strategies, each played against a fresh ledger."),
        facts({"finding": found.status}),
        Heading("What the policy can tell at most", "bound", "What the policy can tell"),
        Bullets([printable(line, 2000) for line in found.bound.split("\n")]),
    ]


def audit_page(found: Audit) -> list[Block]:
    """The page of an audit.

    Where records have the shape of pictures, true and reconstructed ones stand side by side, and
    the page contains raw records.

    Raises
    ------
    MismatchError
        ``report-images``: the image shape does not hold the features of a record.
    """
    parts: list[Block] = []
    for k, target in enumerate(found.targets):
        parts += _part(found, target, f"target-{k + 1}")
    pictured = any(isinstance(each, Gallery) for each in parts)
    blocks: list[Block] = [
        Heading("What the messages give away", level=1),
        Paragraph(
            (
                "Attacks on the messages of one ",
                Name(printable(found.protocol)),
                " run, from what ",
                Name(printable(found.viewpoint)),
                " saw of it.",
            ),
            "lead",
        ),
        Private("records of holders as pictures" if pictured else ""),
        Bullets(
            [
                (Strong(printable(name)), f": {printable(text, 2000)}")
                for name, text in found.verdicts.items()
            ]
        ),
        Paragraph(f"Tried: {printable(', '.join(found.tried) or 'nothing', 2000)}."),
    ]
    if found.not_finished:
        cut = printable(", ".join(found.not_finished), 2000)
        blocks.append(Paragraph(f"Not finished: {cut}.", "warning"))
    return [
        *blocks,
        Paragraph("Not tried:"),
        Bullets([printable(text, 2000) for text in found.not_tried]),
        _BEWARE,
        *parts,
        Heading("How to read this", "terms"),
        Facts(_TERMS),
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


def _part(found: Audit, target: str, anchor: str) -> list[Block]:
    applied = [attack for attack in found.of(target) if attack.applicable]
    best, truth = found.best(target), found.truth.get(target)
    blocks: list[Block] = [Heading(("Records of ", Name(printable(target))), anchor)]
    if applied:
        titles = ("exact", "re-identified", "chance", "error", "proven", "membership")
        columns = [textual("attack"), *map(Column, titles), textual("finding")]
        blocks.append(Table("Attacks that applied", columns, [_row(attack) for attack in applied]))
    tiles = _tiles(found, best, truth)
    if best is not None and tiles:
        heading, said = "Reconstructed", f"By {best.name}."
        if truth is not None:
            heading = "True and reconstructed"
            said += " Left the record, right what was computed from the messages."
        blocks += [Heading(heading, level=3), Paragraph(said, "small"), Gallery(tiles)]
    skipped = [(one.name, one.reason) for one in found.of(target) if not one.applicable]
    if skipped:
        rest = ", or not finished" if found.not_finished else ""
        blocks.append(Details(f"Attacks that were not tried{rest}", [Facts(skipped)]))
    return blocks


def _row(attack: Attack) -> tuple[Cell, ...]:
    exact = attack.exact_rate
    error = attack.relative_rmse
    proven = {True: "yes", False: "no", None: MISSING_NUMBER}[attack.certified]
    return (
        Cell(attack.name),
        Cell(_rate(exact), bar=exact, warn=bool(exact)),
        Cell(_rate(attack.reidentification_rate)),
        Cell(_rate(attack.chance)),
        Cell(MISSING_NUMBER if error is None else number(error)),
        Cell(proven),
        Cell(MISSING_NUMBER if attack.membership_auc is None else f"{attack.membership_auc:.3f}"),
        Cell(printable(attack.verdict, 1000)),
    )


def _rate(share: float | None) -> str:
    return MISSING_NUMBER if share is None else percent(share)


def _tiles(found: Audit, best: Attack | None, truth: Array | None) -> list[Tile]:
    shape = found.image_shape
    if shape is None or best is None or best.recovered is None:
        return []
    # Slow to import: it draws.
    from ..records.figures import thumbnails

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
        Tile([(source, f"reconstructed record {k}")], f"row {k}")
        for k, source in enumerate(sources)
    ]


def _compared(rows: Array, truth: Array, shape: tuple[int, ...]) -> list[Tile]:
    """True records beside what was computed from the messages."""
    from ..records.figures import thumbnails

    shown = min(len(rows), _PICTURES)
    both: Any = np.concatenate([truth[:shown], rows[:shown]]).reshape(-1, *shape)
    sources = thumbnails(both, np.arange(2 * shown))
    exact = exact_rows(rows, truth)
    return [
        Tile(
            [
                (sources[k], f"true record {k}"),
                (sources[shown + k], f"reconstruction of record {k}"),
            ],
            f"record {k}, {'exact' if exact[k] else 'not exact'}",
        )
        for k in range(shown)
    ]
