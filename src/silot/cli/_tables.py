"""Tables of distances and of worth on a terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.markup import escape
from rich.table import Table

from ..federation.protocol import COORDINATOR
from ..results import Contributions, DistanceMatrix
from ._parts import show_parts
from .console import OUT, bill_rows, interval, number, short_status, show_rows, traffic

# On a terminal; all are in JSON and in the report.
_MOST_PAIRS = 36


def pairs_table(result: DistanceMatrix, words: Mapping[str, str] | None = None) -> Table:
    """Pairs of holders with their distances; ``words`` stand for the names they are given for."""
    table = Table(title=f"W{result.p} by {result.method}", title_justify="left", box=None)
    table.add_column("pair")
    # Of one run for all pairs, no pair has a bill of its own.
    apart = () if result.shared_bill is not None else ("rounds", "bytes", "seconds")
    for title in ("value", "bounds", *apart):
        table.add_column(title, justify="right")
    table.add_column("status")
    for (a, b), pair in result.pairs.items():
        bill = (str(pair.rounds), traffic(pair), f"{pair.seconds:.2f}") if apart else ()
        table.add_row(
            escape(" ".join((words or {}).get(name, name) for name in (a, b))),
            number(pair.value),
            interval(pair),
            *bill,
            short_status(pair.status),
        )
    return table


def ranking_table(result: Contributions) -> Table:
    """Holders by distance, the closest first, and what their distances owe to chance."""
    table = _table("rank", "holder", "distance", "bounds", "chance", "corrected", "95 %", "records")
    for item in result.ranking:
        chance = item.distance.chance
        table.add_row(
            item.place,
            escape(item.holder),
            number(item.distance.value),
            interval(item.distance),
            "" if chance is None else number(chance),
            "" if item.corrected is None else number(item.corrected),
            ""
            if item.interval is None
            else f"[{number(item.interval[0])}, {number(item.interval[1])}]",
            str(item.records),
        )
    return table


def shares_table(result: Contributions) -> Table:
    """What every holder is worth, in each of the ways to say it."""
    heads = ("share", "95 %", "explained", "95 %", "explained share", "95 %")
    table = _table("rank", "holder", *heads)
    for item in result.ranking:
        cells = [
            _percent(item.share),
            _percents(item.share_interval),
            _percent(item.explained),
            _percents(item.explained_interval),
            _percent(item.explained_share),
            _percents(item.explained_share_interval),
        ]
        table.add_row(item.place, escape(item.holder), *cells)
    return table


def shapley_table(result: Contributions) -> Table:
    """What every holder adds to the best mixture of the others."""
    table = _table("rank", "holder", "Shapley value", "Shapley share")
    for item in result.ranking:
        if item.shapley is not None and item.shapley_share is not None:
            cells = (_percent(item.shapley), _percent(item.shapley_share))
            table.add_row(item.place, escape(item.holder), *cells)
    return table


def _table(rank: str, holder: str, *titles: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="bold", pad_edge=False)
    table.add_column(rank, justify="right", no_wrap=True)
    table.add_column(holder)
    for title in titles:
        table.add_column(title, justify="right", no_wrap=True)
    return table


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _percents(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"


def show_contributions(result: Contributions) -> None:
    """What holders are worth, the bill, and what distances are made of."""
    OUT.print(ranking_table(result), highlight=False)
    OUT.print(shares_table(result), highlight=False)
    if any(item.shapley is not None for item in result.holders):
        OUT.print(shapley_table(result), highlight=False)
    show_rows({"target": result.target, "status": result.status, **bill_rows(result)})
    told = {item.holder: item.distance.parts for item in result.ranking}
    show_parts({name: parts for name, parts in told.items() if parts is not None})


def show_between(between: DistanceMatrix) -> None:
    """The distances of a map of holders."""
    if len(between.pairs) <= _MOST_PAIRS:
        OUT.print(pairs_table(between, {COORDINATOR: "the target"}), highlight=False)
    else:
        OUT.print(
            f"distances of {len(between.pairs)} pairs: --json or --report shows them",
            highlight=False,
        )
