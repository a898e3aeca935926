"""What runs cost and disclosed: the words for it, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from ..render import Block, Cell, Column, Facts, Heading, Paragraph, Table
from ..render.words import format_bytes, level_in_words, listed, number, printable, reason
from .result import Bill, Billed

_CAPTION = "Bytes as the coordinator saw them."
_LEVELS = ("record", "aggregate", "sketch", "scalar")


class Run(Protocol):
    """A result that one run or several made."""

    @property
    def disclosure(self) -> str:
        """The finest thing that was told."""
        ...

    @property
    def bill(self) -> Bill:
        """What it cost."""
        ...


def bill_rows(result: Run) -> dict[str, str]:
    """What a run cost and disclosed, in a line each."""
    disclosed, bill = result.disclosure, result.bill
    if disclosed == "record":
        disclosed = "record: every record can be computed back from the messages"
    traffic = format_bytes(bill.bytes_sent + bill.bytes_received)
    rows = {
        "bill": f"{bill.rounds} rounds, {traffic}, {bill.seconds:.2f} s",
        "disclosed": disclosed,
    }
    if bill.privacy_mu > 0:
        rows["charged"] = f"mu {bill.privacy_mu:.4g} to each holder's ledger, at most"
    elif result.disclosure == "sketch":
        rows["charged"] = "nothing: told again from the ledgers, of the data they had then"
    return rows


def facts(rows: Mapping[str, str]) -> Facts:
    """Terms and their words."""
    return Facts(list(rows.items()))


def bill_sections(
    runs: Sequence[tuple[str, Run]],
    *,
    caption: str = _CAPTION,
    notes: Sequence[str] = (),
    disclosure: Table | None = None,
) -> list[Block]:
    """The bill of some runs, each with what it was for, and what they disclosed.

    ``disclosure`` stands for the table of levels where levels alone say too little.
    """
    paid = _paid(runs)
    return [
        Heading("The bill", "bill", "Bill"),
        _bill(paid, caption),
        *(Paragraph(note, "small") for note in notes),
        Heading("What was disclosed", "disclosure", "What was disclosed"),
        disclosure or _disclosure(paid),
    ]


def _paid(runs: Sequence[tuple[str, Run]]) -> list[tuple[list[str], Run]]:
    """Results of one run carry the same bill: it is paid once."""
    paid: dict[Any, tuple[list[str], Run]] = {}
    for k, (what, item) in enumerate(runs):
        transcript = item.transcript if isinstance(item, Billed) else None
        key = k if transcript is None else ("run", id(transcript))
        paid.setdefault(key, ([], item))[0].append(what)
    return list(paid.values())


def _bills(paid: Sequence[tuple[list[str], Run]]) -> list[tuple[str, Bill]]:
    bills = [(listed(what), item.bill) for what, item in paid]
    if len(paid) > 1:
        # Holders have ledgers of their own: their charges are no sum.
        together = replace(sum((bill for _, bill in bills), Bill()), privacy_mu=0.0)
        bills.insert(0, ("all together", together))
    return bills


def _bill(paid: Sequence[tuple[list[str], Run]], caption: str) -> Table:
    columns = ("run", "rounds", "sent", "received", "time", "charged to a ledger, at most")
    rows = [
        (
            what,
            f"{bill.rounds:,}",
            format_bytes(bill.bytes_sent),
            format_bytes(bill.bytes_received),
            f"{bill.seconds:.2f} s",
            f"mu {number(bill.privacy_mu)}" if bill.privacy_mu > 0 else "",
        )
        for what, bill in _bills(paid)
    ]
    # Runs without a name, and a charge where nothing was charged, need no column.
    shown = [k for k in range(len(columns)) if k not in (0, 5) or any(row[k] for row in rows)]
    return Table(
        caption,
        [Column(columns[k], numeric=k > 0) for k in shown],
        [[Cell(row[k]) for k in shown] for row in rows],
        fold=10,
    )


def _disclosure(paid: Sequence[tuple[list[str], Run]]) -> Table:
    levels: dict[str, list[str]] = {}
    for what, item in paid:
        levels.setdefault(item.disclosure, []).extend(what)
    named = any(what for run in levels.values() for what in run)
    order = sorted(levels, key=lambda level: _LEVELS.index(level) if level in _LEVELS else 9)
    return levels_table(
        f"The finest thing that left a holder{', run by run' if named else ''}.",
        [(level, level_in_words(level), listed(levels[level])) for level in order],
    )


def levels_table(caption: str, rows: Sequence[tuple[str, str, str]]) -> Table:
    """Levels of disclosure with their meanings, and the runs they are of."""
    named = any(runs for _, _, runs in rows)
    titles = ("level", "meaning", "runs") if named else ("level", "meaning")
    return Table(
        caption,
        [Column(title, numeric=False) for title in titles],
        [
            [
                Cell(level or "unknown", warn=level == "record"),
                Cell(meaning),
                *([Cell(runs)] if named else []),
            ]
            for level, meaning, runs in rows
        ],
    )


def missing_table(missing: Mapping[str, str], why: Mapping[str, str], party: str) -> Table:
    """Parties that took no part, and why; ``why`` has words of codes beside the common ones."""
    rows = [
        [Cell(printable(name)), Cell(f"{why.get(code) or reason(code)}."), Cell(printable(code))]
        for name, code in missing.items()
    ]
    columns = [Column(title, numeric=False) for title in (party, "why", "code")]
    caption = f"{party.capitalize()}s that took no part."
    return Table(caption, columns, rows)
