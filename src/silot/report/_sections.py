"""Sections about holders, and what every section is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..results import Billed, Contribution, Contributions, format_bytes
from ._checks import Scored
from ._figures import Picture, ranking_figure
from ._words import (
    MISSING_NUMBER,
    count,
    interval,
    level_in_words,
    listed,
    number,
    percent,
    printable,
    reason,
    short_status,
    target_in_words,
)

_WORDS = (
    "Rank: by the corrected distance; a range where chance leaves the order open.",
    "Chance: what samples of one law, of these sizes, stay below in 95 % of cases.",
    "Corrected: the distance that infinitely many records of the holder's law would have, with "
    "its 95 % interval; the bounds are those of the distance of the records as they are.",
    "Share: part of the sum of inverse distances. Explained: part of the spread of the target "
    "that the holder's data explain. Explained share: part of the sum of these.",
)
_SHAPLEY = (
    "Shapley: what the holder adds to the part of the target that the best mixture of others "
    "explains, on average over the orders in which holders may join, of distances as they are. "
    "Shapley share: part of the sum of these."
)
_STATUSES = 8
_FILTERED = 8


@dataclass(frozen=True)
class Column:
    """Head of a column."""

    title: str
    numeric: bool = True


@dataclass(frozen=True)
class Cell:
    """A cell with a bar from 0 to 1 behind it, or marked as something to look at."""

    text: str
    bar: float | None = None
    warn: bool = False


@dataclass(frozen=True)
class Table:
    """A table; rows beyond ``fold`` are shown when asked for.

    With ``filter`` a reader can filter and sort it: then all rows are there at once, and those in
    ``flagged``, one truth value a row, can be shown alone by a box that says ``only``; and with
    ``kinds``, those a row is of, the rows of one kind.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: list[tuple[Cell, ...]]
    head: int = 0
    fold: int = 20
    filter: bool = False
    flagged: Sequence[bool] | None = None
    only: str = "only flagged rows"
    kinds: Sequence[Sequence[str]] | None = None

    # Rows on paper; the style sheet has the same number.
    printed: ClassVar = 200

    @property
    def filtered(self) -> bool:
        """Whether it has controls: short tables need none."""
        return self.filter and len(self.rows) >= _FILTERED

    @property
    def choices(self) -> list[str]:
        """Kinds that there are, if more than one."""
        found = sorted({kind for row in self.kinds or () for kind in row})
        return found if len(found) > 1 else []


@dataclass(frozen=True)
class Summary:
    """What the first sentences say."""

    sentences: list[str]
    warnings: list[str]


@dataclass(frozen=True)
class Ranking:
    """Holders by distance."""

    table: Table
    figure: Picture
    statuses: list[tuple[str, str]]
    facts: list[str]


def summary(found: Contributions | None, scored: Sequence[Scored]) -> Summary:
    """The result in a few sentences."""
    sentences: list[str] = []
    warnings: list[str] = []
    if found is not None and found.holders:
        sentences += _closest(found)
    if found is not None and found.missing:
        sentences.append(f"{count(len(found.missing), 'holder')} took no part.")
    if found is not None and not found.converged:
        warnings.append(f"Not everything converged: {printable(found.status, 400)}")
    if scored:
        flagged = sum(item.flagged for item in scored)
        records = sum(item.records for item in scored)
        where = sum(item.flagged > 0 for item in scored)
        of = "" if len(scored) == 1 else f" of {count(len(scored), 'holder')}"
        if not flagged:
            sentences.append(f"None of {count(records, 'scored record')}{of} is flagged as broken.")
        else:
            verb = "is" if flagged == 1 else "are"
            among = f", in {where} of the holders" if where < len(scored) else ""
            sentences.append(
                f"{flagged:,} of {count(records, 'scored record')}{of} "
                f"({percent(flagged / max(records, 1))}) {verb} flagged as broken{among}."
            )
    return Summary(sentences, warnings)


def _closest(found: Contributions) -> list[str]:
    target = target_in_words(found.target)
    ranked = found.ranking
    leaders = [item for item in ranked if item.rank == ranked[0].rank]
    first = leaders[0].distance
    names = listed([printable(item.holder) for item in leaders])
    low, high = number(first.lower), number(first.upper)
    at = f"at a distance of {number(first.value)}, "
    if low == high:
        at += "certified to four digits"
    elif np.isfinite(first.upper):
        at += f"certified to lie between {low} and {high}"
    else:
        at += f"certified to be at least {low}"
    if len(ranked) == 1:
        return [f"{names} is the only holder compared to {target}, {at}."]
    if len(leaders) > 1:
        closest = f"{names} are equally close to {target} and closest"
    else:
        closest = f"Of {count(len(ranked), 'holder')}, {names} is closest to {target}"
    rest = ranked[len(leaders) :]
    if ranked[0].ranks is None:
        reach = max(item.distance.upper for item in leaders)
        rivals = [item for item in rest if item.distance.lower <= reach]
        proof = "The bounds prove that no other holder is closer."
        doubt = "The bounds leave open whether"
    else:
        rivals = [item for item in rest if item.ranks is not None and item.ranks[0] == 1]
        proof = "No other holder is as close, by the 95 % intervals."
        doubt = "Chance leaves open whether"
    if rivals:
        proof = f"{doubt} {listed([printable(item.holder) for item in rivals])} may be closer."
    last = ranked[-1]
    sentences = [f"{closest}, {at}.", proof]
    if last.rank != ranked[0].rank:
        sentences.append(f"{printable(last.holder)} is farthest, at {number(last.distance.value)}.")
    chance = [printable(item.holder) for item in ranked if item.distance.by_chance]
    if chance:
        verb = "is" if len(chance) == 1 else "are"
        sentences.append(f"{listed(chance)} {verb} no further off than chance.")
    return sentences


def ranking(found: Contributions) -> Ranking:
    """Table and figure of the holders, the closest first."""
    ranked = found.ranking
    target = target_in_words(found.target)
    largest = max(item.share for item in ranked) or 1.0
    explained = max(item.explained_share for item in ranked) or 1.0
    shapley = max(item.shapley_share or 0.0 for item in ranked)
    columns = (
        Column("rank"),
        Column("holder", numeric=False),
        Column("distance"),
        Column("bounds"),
        Column("chance"),
        Column("corrected"),
        Column("95 %"),
        Column("share"),
        Column("explained"),
        Column("explained share"),
        *([Column("Shapley"), Column("Shapley share")] if shapley else []),
        Column("records"),
        Column("status", numeric=False),
    )
    rows = [
        (
            Cell(item.place),
            Cell(printable(item.holder)),
            Cell(number(item.distance.value)),
            Cell(interval(*item.distance.bounds)),
            Cell(_optional(item.distance.chance)),
            Cell(_optional(item.corrected)),
            Cell(MISSING_NUMBER if item.interval is None else interval(*item.interval)),
            Cell(_share(item.share, item.share_interval), item.share / largest),
            Cell(_share(item.explained, item.explained_interval), item.explained),
            Cell(
                _share(item.explained_share, item.explained_share_interval),
                item.explained_share / explained,
            ),
            *(_shapley(item, shapley) if shapley else ()),
            Cell(f"{item.records:,}"),
            Cell(short_status(item.distance.status), warn=not item.distance.converged),
        )
        for item in ranked
    ]
    facts = [
        f"Method: {printable(found.method)}; order of the distance: {ranked[0].distance.p}; "
        f"labels: {printable(found.labels)}; seed: {found.seed}.",
        f"Spread of {target}, its distance to its own mean: {number(found.spread)}.",
        *_WORDS,
        *([_SHAPLEY] if shapley else []),
    ]
    return Ranking(
        Table(
            f"Holders by their distance to {target}.",
            columns,
            rows,
            head=1,
            filter=True,
            flagged=[not item.distance.converged for item in ranked],
            only="only those that did not converge",
        ),
        ranking_figure(ranked, target),
        _statuses(ranked),
        facts,
    )


def _optional(value: float | None) -> str:
    return MISSING_NUMBER if value is None else number(value)


def _shapley(item: Contribution, largest: float) -> tuple[Cell, Cell]:
    if item.shapley is None or item.shapley_share is None:
        return Cell(MISSING_NUMBER), Cell(MISSING_NUMBER)
    bar = item.shapley_share / largest
    return Cell(percent(item.shapley)), Cell(percent(item.shapley_share), bar)


def _share(share: float, ends: tuple[float, float] | None) -> str:
    if ends is None:
        return percent(share)
    return f"{percent(share)} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"


def _statuses(ranked: Sequence[Contribution]) -> list[tuple[str, str]]:
    """What the distances say of themselves, and which of them say it."""
    holders: dict[str, list[str]] = {}
    for item in ranked:
        holders.setdefault(item.distance.status, []).append(printable(item.holder))
    found = [
        (printable(status, 400), "all holders" if len(names) == len(ranked) else listed(names))
        for status, names in list(holders.items())[:_STATUSES]
    ]
    if len(holders) > _STATUSES:
        found.append(("…", f"{len(holders) - _STATUSES} more statuses are left out here"))
    return found


def missing(found: Contributions) -> Table | None:
    """Holders that took no part, and why."""
    codes = dict(found.missing)
    if not codes:
        return None
    rows = [
        (Cell(printable(name)), Cell(f"{reason(code)}."), Cell(printable(code)))
        for name, code in codes.items()
    ]
    columns = tuple(Column(title, numeric=False) for title in ("holder", "why", "code"))
    return Table("Holders that took no part.", columns, rows)


def bills(found: Contributions | None, scored: Sequence[Scored]) -> tuple[Table, Table]:
    """What the runs cost, and what they disclosed."""
    parts: list[tuple[str, Billed]] = []
    if found is not None:
        parts.append(("worth of the holders", found))
        if found.barycenter is not None and found.barycenter.rounds:
            parts.append(("barycenter", found.barycenter))
    parts += [(f"records of {printable(item.name)}", item.scores) for item in scored]
    # Results of one run carry the same bill: it is paid once.
    runs: dict[Any, tuple[list[str], Billed]] = {}
    for k, (what, item) in enumerate(parts):
        key = k if item.transcript is None else ("run", id(item.transcript))
        runs.setdefault(key, ([], item))[0].append(what)
    cost = [
        (
            Cell(listed(what)),
            Cell(f"{item.rounds:,}"),
            Cell(format_bytes(item.bytes_sent)),
            Cell(format_bytes(item.bytes_received)),
            Cell(f"{item.seconds:.2f} s"),
        )
        for what, item in runs.values()
    ]
    if len(runs) > 1:
        items = [item for _, item in runs.values()]
        cost.insert(
            0,
            (
                Cell("all together"),
                Cell(f"{sum(item.rounds for item in items):,}"),
                Cell(format_bytes(sum(item.bytes_sent for item in items))),
                Cell(format_bytes(sum(item.bytes_received for item in items))),
                Cell(f"{sum(item.seconds for item in items):.2f} s"),
            ),
        )
    bill = Table(
        "Bytes as the coordinator saw them.",
        (
            Column("run", numeric=False),
            Column("rounds"),
            Column("sent"),
            Column("received"),
            Column("time"),
        ),
        cost,
        fold=10,
    )
    levels: dict[str, list[str]] = {}
    for what, item in runs.values():
        levels.setdefault(item.disclosure, []).extend(what)
    order = ("record", "aggregate", "sketch", "scalar")
    ranked = sorted(levels, key=lambda level: order.index(level) if level in order else len(order))
    told = [
        (
            Cell(level or "unknown", warn=level == "record"),
            Cell(level_in_words(level)),
            Cell(listed(levels[level])),
        )
        for level in ranked
    ]
    columns = tuple(Column(title, numeric=False) for title in ("level", "meaning", "runs"))
    return bill, Table("The finest thing that left a holder, run by run.", columns, told)
