"""What runs cost and disclosed: the words for it, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .. import render
from ..errors import reason
from ..render.words import count, format_bytes, level_in_words, listed, number
from .result import Bill, Billed

_CAPTION = "Bytes as the coordinator saw them."
_LEVELS = ("record", "statistics", "private", "public")


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


def bill_rows(result: Run, *, of_models: bool = False) -> dict[str, str]:
    """Return what a run cost and disclosed, in a line each, for a terminal.

    What a record among parameters ``of_models`` discloses is another matter than a record itself.
    """
    disclosed, bill = result.disclosure, result.bill
    if of_models:
        disclosed = "record: parameters of models, which records may be computed back from"
    elif disclosed == "record":
        disclosed = "record: every record can be reconstructed from the messages"
    traffic = format_bytes(bill.bytes_sent + bill.bytes_received)
    rows = {
        "bill": f"{count(bill.rounds, 'round')}, {traffic}, {bill.seconds:.2f} s",
        "disclosed": disclosed,
    }
    if bill.privacy_mu > 0:
        rows["charged"] = f"mu {bill.privacy_mu:.4g} to each holder's ledger, at most"
        if bill.in_memory:
            rows["charged"] = (
                f"mu {bill.privacy_mu:.4g} of each holder, at most. This process alone remembers "
                "it: another run spends as much again"
            )
    elif result.disclosure == "private":
        rows["charged"] = "nothing: told again from the ledgers, of the data they had then"
    return rows


def cost_content(
    runs: Run | Sequence[tuple[str, Run]],
    *,
    caption: str = _CAPTION,
    notes: Sequence[str] = (),
    disclosure: render.Table | None = None,
) -> render.Content:
    """Return the bill of a run, or of several with what each was for, and what they disclosed.

    It is what a page ends with; a terminal has ``bill_rows`` among the facts. ``disclosure``
    stands for the table of levels where levels alone say too little.
    """
    paid = _paid(runs if isinstance(runs, Sequence) else [("", runs)])
    small = [render.Paragraph(note, "small") for note in notes]
    return render.on_page(
        render.section("The bill", "bill", _bill(paid, caption), small, link="Bill"),
        render.section("What was disclosed", "disclosure", disclosure or _disclosure(paid)),
    )


def _paid(runs: Sequence[tuple[str, Run]]) -> list[tuple[list[str], Run]]:
    """Group the results of one run, which carry the same bill: it is paid once."""
    paid: dict[Any, tuple[list[str], Run]] = {}
    for k, (what, item) in enumerate(runs):
        transcript = item.transcript if isinstance(item, Billed) else None
        key = k if transcript is None else ("run", id(transcript))
        paid.setdefault(key, ([], item))[0].append(what)
    return list(paid.values())


def _bill(paid: Sequence[tuple[list[str], Run]], caption: str) -> render.Table:
    bills = [(listed(what), item.bill) for what, item in paid]
    if len(paid) > 1:
        # Holders have ledgers of their own: their charges are no sum.
        together = replace(sum((bill for _, bill in bills), Bill()), privacy_mu=0.0)
        bills.insert(0, ("all together", together))
    titles = ("rounds", "sent", "received", "time", "charged, at most")
    rows = [
        (
            what,
            f"{bill.rounds:,}",
            format_bytes(bill.bytes_sent),
            format_bytes(bill.bytes_received),
            f"{bill.seconds:.2f} s",
            _charge(bill),
        )
        for what, bill in bills
    ]
    # Runs without a name, and a charge where nothing was charged, need no column.
    return render.Table(
        caption, [render.texts("run"), *map(render.Column, titles)], rows, fold=10, filled=True
    )


def _charge(bill: Bill) -> str:
    where = "remembered by this process alone" if bill.in_memory else "to a ledger"
    return f"mu {number(bill.privacy_mu)}, {where}" if bill.privacy_mu > 0 else ""


def _disclosure(paid: Sequence[tuple[list[str], Run]]) -> render.Table:
    levels: dict[str, list[str]] = {}
    for what, item in paid:
        levels.setdefault(item.disclosure, []).extend(what)
    named = any(what for runs in levels.values() for what in runs)
    order = sorted(levels, key=lambda level: _LEVELS.index(level) if level in _LEVELS else 9)
    return levels_table(
        f"The finest thing that left a holder{', run by run' if named else ''}.",
        [(level, level_in_words(level), listed(levels[level])) for level in order],
    )


def levels_table(caption: str, rows: Sequence[tuple[str, str, str]]) -> render.Table:
    """Return levels of disclosure with their meanings, and the runs they are of."""
    cells = [
        (render.Cell(level or "unknown", warn=level == "record"), meaning, runs)
        for level, meaning, runs in rows
    ]
    return render.Table(
        caption, [*map(render.texts, ("level", "meaning", "runs"))], cells, filled=True
    )


def missing_section(
    missing: Mapping[str, str],
    party: str = "holder",
    *,
    title: str = "",
    link: str | None = None,
    note: str = "",
) -> render.Content:
    """Return the section on parties that took no part, and why; there is none without any."""
    if not missing:
        return None
    rows = [(name, f"{reason(code)}.", code) for name, code in missing.items()]
    caption = f"{party.capitalize()}s that took no part."
    table = render.Table(
        caption, [render.names(party), render.texts("why"), render.names("code")], rows
    )
    title = title or f"{party.capitalize()}s left out"
    return render.on_page(
        render.section(title, "missing", render.Paragraph(note) if note else None, table, link=link)
    )
