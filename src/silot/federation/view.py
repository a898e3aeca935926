"""What runs cost and disclosed: the words for it, written once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from .. import render
from ..errors import reason
from ..render.words import count, format_bytes, level_in_words, listed, named, number, printable
from .result import Cost, RunResult

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
        where = "to each holder's ledger, at most"
        if cost.in_memory:
            where = (
                "of each holder, at most. Only this process remembers it, so another run spends "
                "the same again"
            )
        rows["charged"] = f"mu {cost.privacy_mu:.4g} {where}"
    elif result.disclosure == "private":
        rows["charged"] = "nothing: stored answers of the ledgers, about the data of that time"
    return rows


def run_content(
    result: Any, title: str, verdict: render.Text, *content: render.Content, several: bool = False
) -> render.Content:
    """Return what a run showed below its verdict, who took no part, and the cost.

    Its solver, or one of ``several``, may have stopped early.
    """
    return [
        render.Headline(title, verdict, render.not_converged(result, several=several)),
        content,
        missing_section(getattr(result, "missing", {})),
        cost_content(result),
    ]


def cost_content(
    runs: Run | Sequence[tuple[str, Run]],
    *,
    caption: str = "Bytes as counted by the coordinator.",
    notes: Sequence[str] = (),
    disclosure: render.Table | None = None,
) -> render.Content:
    """Return the cost of a run, or of several with what each was for, and what they disclosed.

    It is what a page ends with; a terminal has ``cost_rows`` among the facts. ``disclosure``
    stands for the table of levels where levels alone say too little.
    """
    # Results of one run carry the same cost, which is paid once.
    paid: dict[Any, tuple[list[str], Run]] = {}
    for k, (what, run) in enumerate(runs if isinstance(runs, Sequence) else [("", runs)]):
        transcript = run.transcript if isinstance(run, RunResult) else None
        key = k if transcript is None else ("run", id(transcript))
        paid.setdefault(key, ([], run))[0].append(what)
    costs = [(listed(what), run.cost) for what, run in paid.values()]
    if len(costs) > 1:
        # Holders have ledgers of their own: their charges are no sum.
        together = replace(sum((cost for _, cost in costs), Cost()), privacy_mu=0.0)
        costs.insert(0, ("all together", together))
    rows = [
        (what, f"{cost.rounds:,}", format_bytes(cost.bytes_sent), format_bytes(cost.bytes_received),
         f"{cost.seconds:.2f} s", _charge(cost))
        for what, cost in costs
    ]  # fmt: skip
    titles = ("rounds", "sent", "received", "time", "charged, at most")
    columns = [render.texts("run"), *map(render.Column, titles)]
    # Runs without a name, and a charge where nothing was charged, need no column.
    table = render.Table(caption, columns, rows, fold=10, filled=True)
    small = [render.Paragraph(note, "small") for note in notes]
    return render.on_page(
        render.section("The cost", table, small, anchor="cost"),
        render.section("What was disclosed", disclosure or _disclosure([*paid.values()])),
    )


def _charge(cost: Cost) -> str:
    where = "remembered only by this process" if cost.in_memory else "to a ledger"
    return f"mu {number(cost.privacy_mu)}, {where}" if cost.privacy_mu > 0 else ""


def _disclosure(paid: Sequence[tuple[list[str], Run]]) -> render.Table:
    levels: dict[str, list[str]] = {}
    for what, run in paid:
        levels.setdefault(run.disclosure, []).extend(what)
    by_run = ", run by run" if any(map(any, levels.values())) else ""
    order = sorted(levels, key=lambda level: _LEVELS.index(level) if level in _LEVELS else 9)
    return levels_table(
        f"The most detailed thing that left a holder{by_run}.",
        [(level, level_in_words(level), listed(levels[level])) for level in order],
    )


def levels_table(caption: str, rows: Sequence[tuple[str, str, str]]) -> render.Table:
    """Return levels of disclosure with their meanings, and the runs they are of."""
    cells = [(render.Cell(row[0] or "unknown", warn=row[0] == "record"), *row[1:]) for row in rows]
    columns = [*map(render.texts, ("level", "meaning", "runs"))]
    return render.Table(caption, columns, cells, filled=True)


def absences(parties: Mapping[str, str], what: str = "took no part") -> list[str]:
    """Return a warning for each reason why parties took no part."""
    return [
        f"{named(name for name, own in parties.items() if own == code)} {what}: {reason(code)} "
        f"({printable(code)})."
        for code in sorted(set(parties.values()))
    ]


def missing_section(
    missing: Mapping[str, str], party: str = "holder", what: str = "took no part", note: str = ""
) -> render.Content:
    """Return the section on parties that took no part, and why; there is none without any."""
    title = f"{party.capitalize()}s that {what}"
    rows = [(name, f"{reason(code)}.", code) for name, code in missing.items()]
    columns = [render.names(party), render.texts("why"), render.names("code")]
    lines = [bool(note) and render.Paragraph(note), render.Table(f"{title}.", columns, rows)]
    return render.on_page(bool(missing) and render.section(title, lines))
