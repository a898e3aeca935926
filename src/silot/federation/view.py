"""What runs cost and disclosed: the words for it, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .. import render
from ..errors import reason
from ..render.words import count, format_bytes, level_in_words, listed, number
from .result import Cost, RunResult

_CAPTION = "Bytes as counted by the coordinator."
_LEVELS = ("record", "statistics", "private", "public")


class Run(Protocol):
    """A result that one run or several made."""

    @property
    def disclosure(self) -> str:
        """The most detailed level that was disclosed."""
        ...

    @property
    def cost(self) -> Cost:
        """What it cost."""
        ...


def cost_rows(result: Run, *, of_models: bool = False) -> dict[str, str]:
    """Return what a run cost and disclosed, in a line each, for a terminal.

    What a record among parameters ``of_models`` discloses is another matter than a record itself.
    """
    disclosed, cost = result.disclosure, result.cost
    if of_models:
        disclosed = "record: parameters of models, from which records may be reconstructed"
    elif disclosed == "record":
        disclosed = "record: every record can be reconstructed from the messages"
    traffic = format_bytes(cost.bytes_sent + cost.bytes_received)
    rows = {
        "cost": f"{count(cost.rounds, 'round')}, {traffic}, {cost.seconds:.2f} s",
        "disclosed": disclosed,
    }
    if cost.privacy_mu > 0:
        rows["charged"] = f"mu {cost.privacy_mu:.4g} to each holder's ledger, at most"
        if cost.in_memory:
            rows["charged"] = (
                f"mu {cost.privacy_mu:.4g} of each holder, at most. Only this process remembers "
                "it, so another run spends the same again"
            )
    elif result.disclosure == "private":
        rows["charged"] = "nothing: stored answers of the ledgers, about the data of that time"
    return rows


def cost_content(
    runs: Run | Sequence[tuple[str, Run]],
    *,
    caption: str = _CAPTION,
    notes: Sequence[str] = (),
    disclosure: render.Table | None = None,
) -> render.Content:
    """Return the cost of a run, or of several with what each was for, and what they disclosed.

    It is what a page ends with; a terminal has ``cost_rows`` among the facts. ``disclosure``
    stands for the table of levels where levels alone say too little.
    """
    paid = _paid(runs if isinstance(runs, Sequence) else [("", runs)])
    small = [render.Paragraph(note, "small") for note in notes]
    return render.on_page(
        render.section("The cost", _cost(paid, caption), small, anchor="cost"),
        render.section("What was disclosed", disclosure or _disclosure(paid)),
    )


def _paid(runs: Sequence[tuple[str, Run]]) -> list[tuple[list[str], Run]]:
    """Group the results of one run, which carry the same cost: it is paid once."""
    paid: dict[Any, tuple[list[str], Run]] = {}
    for k, (what, item) in enumerate(runs):
        transcript = item.transcript if isinstance(item, RunResult) else None
        key = k if transcript is None else ("run", id(transcript))
        paid.setdefault(key, ([], item))[0].append(what)
    return list(paid.values())


def _cost(paid: Sequence[tuple[list[str], Run]], caption: str) -> render.Table:
    costs = [(listed(what), item.cost) for what, item in paid]
    if len(paid) > 1:
        # Holders have ledgers of their own: their charges are no sum.
        together = replace(sum((cost for _, cost in costs), Cost()), privacy_mu=0.0)
        costs.insert(0, ("all together", together))
    titles = ("rounds", "sent", "received", "time", "charged, at most")
    rows = [
        (
            what,
            f"{cost.rounds:,}",
            format_bytes(cost.bytes_sent),
            format_bytes(cost.bytes_received),
            f"{cost.seconds:.2f} s",
            _charge(cost),
        )
        for what, cost in costs
    ]
    # Runs without a name, and a charge where nothing was charged, need no column.
    return render.Table(
        caption, [render.texts("run"), *map(render.Column, titles)], rows, fold=10, filled=True
    )


def _charge(cost: Cost) -> str:
    where = "remembered only by this process" if cost.in_memory else "to a ledger"
    return f"mu {number(cost.privacy_mu)}, {where}" if cost.privacy_mu > 0 else ""


def _disclosure(paid: Sequence[tuple[list[str], Run]]) -> render.Table:
    levels: dict[str, list[str]] = {}
    for what, item in paid:
        levels.setdefault(item.disclosure, []).extend(what)
    named = any(what for runs in levels.values() for what in runs)
    order = sorted(levels, key=lambda level: _LEVELS.index(level) if level in _LEVELS else 9)
    return levels_table(
        f"The most detailed thing that left a holder{', run by run' if named else ''}.",
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
    missing: Mapping[str, str], party: str = "holder", what: str = "took no part", note: str = ""
) -> render.Content:
    """Return the section on parties that took no part, and why; there is none without any."""
    if not missing:
        return None
    rows = [(name, f"{reason(code)}.", code) for name, code in missing.items()]
    title = f"{party.capitalize()}s that {what}"
    columns = [render.names(party), render.texts("why"), render.names("code")]
    table = render.Table(f"{title}.", columns, rows)
    return render.on_page(render.section(title, render.Paragraph(note) if note else None, table))
