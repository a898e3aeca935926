"""What holders are worth: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from ...data.preflight import Preflight
from ...federation.view import bill_rows, facts
from ...render import (
    Block,
    Cell,
    Column,
    Facts,
    Heading,
    Name,
    Paragraph,
    Table,
    Text,
    plain_table,
    textual,
)
from ...render.words import (
    MISSING_NUMBER,
    count,
    interval,
    known_bounds,
    listed,
    number,
    percent,
    printable,
    short_bounds,
    short_number,
    short_status,
    target_in_words,
)
from ..cost_parts import Parts
from ..result import Distance
from ..view import matrix_sections, parts_sections, why_sections
from .map_view import between_sections
from .result import Contribution, Contributions

TITLE = "What the data of the holders are worth"
# On a terminal; all are in JSON and in the report.
_MOST_PAIRS = 36
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
_PROOF = "The bounds prove that no other holder is closer."
# Of data that nobody here looked at.
_UNSEEN = "By the bounds no other holder is closer, in the numbers as the holders have them."


def value_sections(result: Contributions) -> list[Block]:
    """What holders are worth, the bill, what distances are made of, and those of a map."""
    rows = {"target": result.target, "status": result.status, **bill_rows(result)}
    by_chance = [item.holder for item in result.ranking if item.distance.by_chance]
    blocks = [*worth_tables(result), facts(rows), *parts_sections(_parts(result), by_chance)]
    between = result.between
    if between is None:
        return blocks
    if len(between.pairs) <= _MOST_PAIRS:
        called = {"coordinator": "the target"}
        return [*blocks, *matrix_sections(between, called, bill=False)]
    pairs = f"distances of {len(between.pairs)} pairs: --json or --report shows them"
    return [*blocks, Paragraph(pairs)]


def _parts(found: Contributions) -> dict[str, Parts]:
    """What distances are made of, holders in the order of their ranks."""
    told = {item.holder: item.distance.parts for item in found.ranking}
    return {name: parts for name, parts in told.items() if parts is not None}


def worth_tables(result: Contributions) -> list[Block]:
    """Holders by distance, the closest first, and what each is worth in every way to say it."""
    heads = ("distance", "bounds", "chance", "corrected", "95 %", "records")
    blocks: list[Block] = [
        _table(
            heads,
            [
                [
                    item.place,
                    item.holder,
                    short_number(item.distance.value),
                    known_bounds(*item.distance.bounds),
                    "" if item.distance.chance is None else short_number(item.distance.chance),
                    "" if item.corrected is None else short_number(item.corrected),
                    "" if item.interval is None else short_bounds(*item.interval),
                    str(item.records),
                ]
                for item in result.ranking
            ],
        ),
        _table(
            ("share", "95 %", "explained", "95 %", "explained share", "95 %"),
            [
                [
                    item.place,
                    item.holder,
                    _percent(item.share),
                    _percents(item.share_interval),
                    _percent(item.explained),
                    _percents(item.explained_interval),
                    _percent(item.explained_share),
                    _percents(item.explained_share_interval),
                ]
                for item in result.ranking
            ],
        ),
    ]
    shapley = [
        [item.place, item.holder, _percent(item.shapley), _percent(item.shapley_share)]
        for item in result.ranking
        if item.shapley is not None and item.shapley_share is not None
    ]
    return [*blocks, _table(("Shapley value", "Shapley share"), shapley)] if shapley else blocks


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    return plain_table([Column("rank"), textual("holder"), *map(Column, titles)], rows).filled


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def _percents(ends: tuple[float, float] | None) -> str:
    return "" if ends is None else f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"


def closest(found: Contributions) -> list[str]:
    """Who is closest and who farthest, and what proves it, in sentences."""
    target = target_in_words(found.target)
    ranked = found.ranking
    leaders = [item for item in ranked if item.rank == ranked[0].rank]
    names, at = _listed(leaders), _certified(leaders[0].distance)
    if len(ranked) == 1:
        return [f"{names} is the only holder compared to {target}, {at}."]
    if len(leaders) > 1:
        closest = f"{names} are equally close to {target} and closest"
    else:
        closest = f"Of {count(len(ranked), 'holder')}, {names} is closest to {target}"
    last = ranked[-1]
    if found.preflight is not None and found.preflight.flags:
        closest = f"In the numbers as they were given, {closest[:1].lower()}{closest[1:]}"
    sentences = [f"{closest}, {at}.", _proof(leaders, ranked[len(leaders) :], found.preflight)]
    if last.rank != ranked[0].rank:
        sentences.append(f"{printable(last.holder)} is farthest, at {number(last.distance.value)}.")
    chance = [item for item in ranked if item.distance.by_chance]
    if chance:
        verb = "is" if len(chance) == 1 else "are"
        sentences.append(f"{_listed(chance)} {verb} no further off than chance.")
    return sentences


def _listed(items: Sequence[Contribution]) -> str:
    return listed([printable(item.holder) for item in items])


def _certified(distance: Distance) -> str:
    low, high = number(distance.lower), number(distance.upper)
    at = f"at a distance of {number(distance.value)}, certified to"
    if low == high:
        return f"{at} four digits"
    if np.isfinite(distance.upper):
        return f"{at} lie between {low} and {high}"
    return f"{at} be at least {low}"


def _proof(
    leaders: Sequence[Contribution], rest: Sequence[Contribution], seen: Preflight | None
) -> str:
    """Whether another holder may be closer than those in front."""
    if seen is not None and seen.flags:
        return (
            "The bounds hold for the numbers as they were given, and do not settle who is "
            f"closest: look at {printable(seen.where, 200)} first."
        )
    if leaders[0].ranks is None:
        reach = max(item.distance.upper for item in leaders)
        rivals = [item for item in rest if item.distance.lower <= reach]
        proof = _PROOF if seen is None or not seen.unseen else _UNSEEN
        doubt = "The bounds leave open whether"
    else:
        rivals = [item for item in rest if item.ranks is not None and item.ranks[0] == 1]
        proof = "No other holder is as close, by the 95 % intervals."
        doubt = "Chance leaves open whether"
    return f"{doubt} {_listed(rivals)} may be closer." if rivals else proof


def worth_blocks(found: Contributions) -> list[Block]:
    """Ranking, parts and map of the holders, on a page."""
    aim = target_in_words(found.target)
    return [*_ranking(found), *why_sections(_parts(found), aim), *between_sections(found)]


def _ranking(found: Contributions) -> list[Block]:
    """Table and figure of the holders, the closest first."""
    # Slow to import: it draws.
    from .figures import ranking_figure

    ranked = found.ranking
    target = target_in_words(found.target)
    shapley = any(item.shapley_share for item in ranked)
    lines = [
        f"Method: {printable(found.method)}; order of the distance: {ranked[0].distance.p}; "
        f"labels: {printable(found.labels)}; seed: {found.seed}.",
        f"Spread of {target}, its distance to its own mean: {number(found.spread)}.",
        *_WORDS,
        *([_SHAPLEY] if shapley else []),
    ]
    terms: list[tuple[str, Text]] = [
        (
            "distance",
            f"Wasserstein distance of the holder's records to {target}; smaller is better. The "
            "exact distance lies within the bounds whenever every party followed the protocol.",
        ),
        ("share", "The holder's part of the sum of 1 / distance over all holders."),
        (
            "explained share",
            "Its part of what the holders explain of the target. A copy of the target explains "
            "all of it; data no better than a single point explain nothing.",
        ),
        *_statuses(ranked),
    ]
    return [
        Heading("Ranking of the holders", "ranking", "Ranking"),
        _ranking_table(ranked, target, shapley=shapley),
        ranking_figure(ranked, target),
        Facts(terms),
        *(Paragraph(line, "small") for line in lines),
    ]


def _ranking_table(ranked: Sequence[Contribution], target: str, *, shapley: bool) -> Table:
    share = _largest(item.share for item in ranked)
    explained = _largest(item.explained_share for item in ranked)
    added = _largest(item.shapley_share for item in ranked)
    columns = (
        Column("rank"),
        textual("holder"),
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
        textual("status"),
    )
    rows = [
        (
            Cell(item.place),
            Cell(printable(item.holder)),
            Cell(number(item.distance.value)),
            Cell(interval(*item.distance.bounds)),
            Cell(_optional(item.distance.chance)),
            Cell(_optional(item.corrected)),
            Cell(_optional_interval(item.interval)),
            Cell(_share(item.share, item.share_interval), item.share / share),
            Cell(_share(item.explained, item.explained_interval), item.explained),
            Cell(
                _share(item.explained_share, item.explained_share_interval),
                item.explained_share / explained,
            ),
            *(_shapley(item, added) if shapley else ()),
            Cell(f"{item.records:,}"),
            Cell(short_status(item.distance.status), warn=not item.distance.converged),
        )
        for item in ranked
    ]
    return Table(
        f"Holders by their distance to {target}.",
        columns,
        rows,
        head=1,
        filter=True,
        flagged=[not item.distance.converged for item in ranked],
        only="only those that did not converge",
    ).filled


def _largest(shares: Iterable[float | None]) -> float:
    """The share whose bar fills its cell."""
    return max(share or 0.0 for share in shares) or 1.0


def _optional(value: float | None) -> str:
    return MISSING_NUMBER if value is None else number(value)


def _optional_interval(ends: tuple[float, float] | None) -> str:
    return MISSING_NUMBER if ends is None else interval(*ends)


def _shapley(item: Contribution, largest: float) -> tuple[Cell, Cell]:
    if item.shapley is None or item.shapley_share is None:
        return Cell(MISSING_NUMBER), Cell(MISSING_NUMBER)
    bar = item.shapley_share / largest
    return Cell(percent(item.shapley)), Cell(percent(item.shapley_share), bar)


def _share(share: float, ends: tuple[float, float] | None) -> str:
    if ends is None:
        return percent(share)
    return f"{percent(share)} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"


def _statuses(ranked: Sequence[Contribution]) -> list[tuple[str, Text]]:
    """What the distances say of themselves, and which of them say it."""
    holders: dict[str, list[str]] = {}
    for item in ranked:
        holders.setdefault(item.distance.status, []).append(printable(item.holder))
    lines: list[Text] = [
        (
            Name(printable(status, 400)),
            f" ({'all holders' if len(names) == len(ranked) else listed(names)})",
        )
        for status, names in list(holders.items())[:_STATUSES]
    ]
    if len(holders) > _STATUSES:
        lines.append(f"… ({len(holders) - _STATUSES} more statuses are left out here)")
    return [("" if k else "status", line) for k, line in enumerate(lines)]
