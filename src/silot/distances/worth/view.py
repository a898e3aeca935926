"""What is shown of what holders are worth, of barycenters, and of distances between holders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import render
from ...data.preflight import Preflight
from ...federation.view import Run, bill_rows, cost_content, missing_section
from ...render.figure import TARGET
from ...render.heat_map import heat_map
from ...render.words import (
    count,
    known_bounds,
    level_in_words,
    listed,
    number,
    percent,
    printable,
    short_status,
    target_in_words,
)
from ..cost_parts import Parts
from ..figures import holder_map
from ..result import Distance, DistanceMatrix
from ..view import pairs_table, parts_content, square_table
from .figures import objective_figure, ranking_figure
from .result import Barycenter, Contribution, Contributions

# On a terminal; all are in JSON and in the report.
_MOST_PAIRS = 36
_WORDS = (
    "Rank: by utility where labels were judged, else by the corrected distance; a range where "
    "sampling and noise leave the order open.",
    "p: how often samples of the target's distribution, of these sizes, would differ as clearly; "
    "above .05 a holder cannot be told from the target.",
    "Corrected: the distance that infinitely many records of the holder's distribution would have, "
    "with its 95 % interval; the bounds are those of the distance of the records as they are.",
    "Share: part of the sum of positive utilities, or without them of inverse corrected distances. "
    "FedBary share: part of the sum of inverse distances, as published. Explained: part of the "
    "spread of the target that the holder's data explain.",
)
_UTILITY = (
    "Utility: how much likelier (nats, on average) the holder's records make the right labels of "
    "validation records than the frequencies of the classes do, from models of its records and "
    "its share of faulty records, with its 95 % interval. Wrong labels, faulty: estimated "
    "shares of records with a wrong label, and of faulty ones in all."
)
# A utility lies within so many standard errors in 95 % of cases.
_WITHIN = 1.959964
_SHAPLEY = (
    "Shapley: what the holder adds to the part of the target that the best mixture of others "
    "explains, on average over the orders in which holders may join, of distances as they are. "
    "Shapley share: part of the sum of these."
)
_STATUSES = 8
_PROOF = "The bounds prove that no other holder is closer."
# Of data that nobody here looked at.
_UNSEEN = "By the bounds no other holder is closer, in the numbers as the holders have them."


@dataclass(frozen=True)
class Beside:
    """What a page of worth has of records that were scored as well."""

    sentences: Sequence[str] = ()
    warning: render.Content = None
    sections: render.Content = None
    runs: Sequence[tuple[str, Run]] = ()


def value_content(result: Contributions, beside: Beside | None = None) -> render.Content:
    """Declare what holders are worth, the bill, what distances are made of, and those of a map."""
    beside = beside or Beside()
    sentences = closest(result) if result.holders else []
    if result.missing:
        sentences.append(f"{count(len(result.missing), 'holder')} took no part.")
    runs: list[tuple[str, Run]] = [("worth of the holders", result)]
    if result.barycenter is not None and result.barycenter.rounds:
        runs.append(("barycenter", result.barycenter))
    return [
        render.Headline(
            "What the data of the holders are worth",
            " ".join([*sentences, *beside.sentences]),
            render.not_converged(result, several=True),
        ),
        beside.warning,
        render.on_terminal(lambda: _terminal(result)),
        render.on_page(lambda: worth_sections(result)),
        beside.sections,
        missing_section(
            result.missing, title="Missing holders",
            note="Nothing in this report says anything about their data.",
        ),
        cost_content([*runs, *beside.runs]),
    ]  # fmt: skip


def _terminal(result: Contributions) -> render.Content:
    same = [item.holder for item in result.ranking if item.distance.indistinct]
    between = result.between
    return [
        worth_table(result),
        render.facts({"target": result.target, "status": result.status, **bill_rows(result)}),
        parts_content(_parts(result), "", same),
        None
        if between is None
        else pairs_table(between, {TARGET_NAME: "the target"})
        if len(between.pairs) <= _MOST_PAIRS
        else render.Paragraph(
            f"distances of {len(between.pairs)} pairs: --json or --report shows them"
        ),
    ]


def worth_sections(result: Contributions) -> render.Content:
    """Return ranking, parts and map of the holders, on a page."""
    if not result.holders:
        return None
    aim = target_in_words(result.target)
    return [_ranking(result), parts_content(_parts(result), aim), between_sections(result)]


def _parts(result: Contributions) -> dict[str, Parts]:
    """Return what distances are made of, holders in the order of their ranks."""
    parts = {item.holder: item.distance.parts for item in result.ranking}
    return {name: part for name, part in parts.items() if part is not None}


def closest(result: Contributions) -> list[str]:
    """Return who is closest and who farthest, and what proves it, in sentences."""
    target = target_in_words(result.target)
    if result.ranking[0].utility is not None and len(result.holders) > 1:
        return _most_useful(result.ranking, target)
    ranked = result.ranking
    leaders = [item for item in ranked if item.rank == ranked[0].rank]
    leading, at = _listed(leaders), _certified(leaders[0].distance)
    if len(ranked) == 1:
        return [f"{leading} is the only holder compared to {target}, {at}."]
    if len(leaders) > 1:
        first = f"{leading} are equally close to {target} and closest"
    else:
        first = f"Of {count(len(ranked), 'holder')}, {leading} is closest to {target}"
    last = ranked[-1]
    if result.preflight is not None and result.preflight.flags:
        first = f"In the numbers as they were given, {first[:1].lower()}{first[1:]}"
    sentences = [f"{first}, {at}.", _proof(leaders, ranked[len(leaders) :], result.preflight)]
    if last.rank != ranked[0].rank:
        sentences.append(f"{printable(last.holder)} is farthest, at {number(last.distance.value)}.")
    same = [item for item in ranked if item.distance.indistinct]
    if same:
        sentences.append(f"{_listed(same)} cannot be told from {target}.")
    return sentences


def _most_useful(ranked: Sequence[Contribution], target: str) -> list[str]:
    """Return whose records are most useful and whose least, and who is closest, in sentences."""
    first, last = ranked[0], ranked[-1]
    near = min(ranked, key=lambda item: item.distance.value)
    rivals = [item for item in ranked[1:] if item.ranks is not None and item.ranks[0] == 1]
    open_to = f"Sampling leaves open whether {_listed(rivals)} may be more useful."
    return [
        f"Of {count(len(ranked), 'holder')}, the records of {printable(first.holder)} are most "
        f"useful to predict labels of {target}, and those of {printable(last.holder)} least.",
        open_to if rivals else "No other holder's are as useful, by the 95 % intervals.",
        f"{printable(near.holder)} is closest, {_certified(near.distance)}.",
    ]


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
    leaders: Sequence[Contribution], others: Sequence[Contribution], preflight: Preflight | None
) -> str:
    """Return whether another holder may be closer than those in front."""
    if preflight is not None and preflight.flags:
        return (
            "The bounds hold for the numbers as they were given, and do not settle who is "
            f"closest: look at {printable(preflight.where, 200)} first."
        )
    if leaders[0].ranks is None:
        reach = max(item.distance.upper for item in leaders)
        rivals = [item for item in others if item.distance.lower <= reach]
        proof = _PROOF if preflight is None or not preflight.unseen else _UNSEEN
        doubt = "The bounds leave open whether"
    else:
        rivals = [item for item in others if item.ranks is not None and item.ranks[0] == 1]
        proof = "No other holder is as close, by the 95 % intervals."
        doubt = "Sampling leaves open whether"
    return f"{doubt} {_listed(rivals)} may be closer." if rivals else proof


def _ranking(result: Contributions) -> render.Content:
    """Return table and figure of the holders, the best first, and what the words mean."""
    ranked = result.ranking
    target = target_in_words(result.target)
    lines = [
        f"Method: {printable(result.method)}; order of the distance: {ranked[0].distance.p}; "
        f"labels: {printable(result.labels)}; seed: {result.seed}.",
        f"Spread of {target}, its distance to its own mean: {number(result.spread)}.",
        *_WORDS,
        *([_UTILITY] if any(item.utility for item in ranked) else []),
        *([_SHAPLEY] if any(item.shapley_share for item in ranked) else []),
    ]
    terms: list[tuple[str, render.Text]] = [
        (
            "distance",
            f"Wasserstein distance of the holder's records to {target}; smaller is better. The "
            "exact distance lies within the bounds whenever every party followed the protocol.",
        ),
        *_statuses(ranked),
    ]
    return render.section(
        "Ranking of the holders",
        "ranking",
        worth_table(result),
        ranking_figure(sorted(ranked, key=lambda item: item.distance.value), target),
        render.Facts(terms),
        [render.Paragraph(line, "small") for line in lines],
        link="Ranking",
    )


def worth_table(result: Contributions) -> render.Table:
    """Return holders by rank, and what each is worth in every way."""
    ranked = result.ranking
    share = _largest(item.share for item in ranked)
    published = _largest(item.fedbary_share for item in ranked)
    added = _largest(item.shapley_share for item in ranked)
    rows = [
        (
            item.place,
            item.holder,
            item.distance.value,
            item.distance.bounds,
            None if item.distance.verdict is None else item.distance.verdict.p_value,
            item.corrected,
            item.interval,
            item.records,
            *_utility(item),
            *_share(item.share, item.share_interval, share),
            render.Cell(item.fedbary_share, item.fedbary_share / published),
            render.Cell(item.explained, item.explained),
            item.shapley,
            render.Cell(
                item.shapley_share,
                None if item.shapley_share is None else item.shapley_share / added,
            ),
            item.records,
            render.Cell(item.distance.status, warn=not item.distance.converged),
        )
        for item in ranked
    ]
    columns = [
        render.Column("rank"), render.names(), render.numbers("distance"),
        render.intervals(terminal=lambda ends: known_bounds(*ends)), render.digits("p", 3),
        render.numbers("corrected"), render.intervals("95 %"),
        render.counts("records", on="terminal"),
        render.Column("utility", terminal=_with_room, page=_with_room),
        *_share_columns("wrong labels"), *_share_columns("faulty"), *_share_columns("share"),
        render.shares("FedBary share"), render.shares("explained"),
        render.shares("Shapley value", full="Shapley"), render.shares("Shapley share"),
        render.counts("records", on="page"), render.texts("status", page=short_status, on="page"),
    ]  # fmt: skip
    return render.Table(
        f"What holders are worth for {target_in_words(result.target)}, by rank.",
        columns,
        rows,
        head=1,
        filter=True,
        flagged=[not item.distance.converged for item in ranked],
        only="only those that did not converge",
        filled=True,
        # A terminal has no room for all that a holder is worth.
        keys=2,
        breaks=(8, 13, 17),
    )


def _share(
    share: float, ends: tuple[float, float] | None, largest: float
) -> tuple[render.Cell, tuple[float, float] | None]:
    return render.Cell((share, ends), share / largest), ends


def _utility(item: Contribution) -> tuple[Any, ...]:
    """Return the cells of the utility and of faulty records, with their intervals."""
    if item.utility is None:
        return (None,) * 5
    faulty = [item.utility.faulty[kind] for kind in ("label", "all")]
    return (
        (item.utility.value, _WITHIN * item.utility.error),
        *(cell for share, *ends in faulty for cell in _share(share, (ends[0], ends[1]), 1.0)),
    )


def _with_room(utility: tuple[float, float]) -> str:
    return f"{utility[0]:.3f} ± {utility[1]:.3f}"


def _share_columns(title: str) -> tuple[render.Column, render.Column]:
    """Return the columns of a share and of its interval, which share a cell on a page."""

    def with_interval(value: tuple[float, tuple[float, float] | None]) -> str:
        share, ends = value
        if ends is None:
            return percent(share)
        return f"{percent(share)} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"

    return (
        render.Column(title, terminal=lambda value: percent(value[0]), page=with_interval),
        render.Column(
            "95 %",
            terminal=lambda ends: f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %",
            on="terminal",
        ),
    )


def _largest(values: Iterable[float | None]) -> float:
    """Return the share whose bar fills its cell."""
    return max((value or 0.0 for value in values), default=0.0) or 1.0


def _statuses(ranked: Sequence[Contribution]) -> list[tuple[str, render.Text]]:
    """Return what the distances say of themselves, and which of them say it."""
    holders: dict[str, list[str]] = {}
    for item in ranked:
        holders.setdefault(item.distance.status, []).append(printable(item.holder))
    lines: list[render.Text] = [
        (
            render.Name(printable(status, 400)),
            f" ({'all holders' if len(members) == len(ranked) else listed(members)})",
        )
        for status, members in list(holders.items())[:_STATUSES]
    ]
    if len(holders) > _STATUSES:
        lines.append(f"… ({len(holders) - _STATUSES} more statuses are left out here)")
    return [("" if k else "status", line) for k, line in enumerate(lines)]


def barycenter_content(result: Barycenter) -> render.Content:
    """Declare how far every holder is from the barycenter, the objective and the bill.

    The atoms are not shown.
    """
    lead = (
        f"A measure of {count(len(result.weights), 'atom')} between "
        f"{count(len(result.distances), 'holder')}: the weighted sum of its squared distances is "
        f"{number(result.objective)}, and that of no measure is less than {number(result.lower)}."
    )
    rows = {
        "objective": objective_text(result),
        "atoms": str(len(result.weights)),
        "status": result.status,
    }
    return distances_content(result, "Between the holders", lead, "barycenter", rows)


def objective_text(result: Barycenter) -> str:
    """Return the objective, and what no measure goes below."""
    return f"{result.objective:.6g}; no measure has less than {result.lower:.6g}"


def distances_content(
    result: Barycenter, title: str, lead: str, what: str, rows: Mapping[str, str]
) -> render.Content:
    """Declare distances of holders to what stands for them, other facts, and the bill."""
    cells = [
        (
            name,
            render.Cell(result.shares[name], result.shares[name]),
            distance.value,
            distance.bounds,
            render.Cell(distance.status, warn=not distance.converged),
        )
        for name, distance in result.distances.items()
    ]
    columns = [
        render.names(),
        render.digits("weight", 3),
        render.numbers("distance"),
        render.intervals(),
        render.texts("status", page=short_status, on="page"),
    ]
    return [
        render.Headline(title, lead, render.not_converged(result)),
        render.section(
            f"Distances to the {what}",
            "distances",
            render.Table(f"Holders by their distance to the {what}.", columns, cells, filter=True),
            render.facts(rows, terminal=bill_rows(result)),
            objective_figure(result) if result.history else None,
            link="Distances",
        ),
        missing_section(result.missing, title="Missing holders"),
        cost_content(result),
    ]


# What the target is called in a matrix: no holder may be called so.
TARGET_NAME = "coordinator"
_TABLED = 12
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


def between_sections(result: Contributions) -> render.Content:
    """Return the heat map and the map of the holders, in the order of the ranking."""
    matrix = result.between
    if matrix is None or len(result.holders) < 2:
        return None
    ranked = [item for item in result.ranking if item.holder in matrix.names]
    holders = [item.holder for item in ranked]
    order = [matrix.names.index(name) for name in holders]
    values, target = matrix.values[np.ix_(order, order)], None
    every, heads = holders, holders
    if TARGET_NAME in matrix.names:
        target = matrix.values[order, matrix.names.index(TARGET_NAME)]
        every, heads = [*holders, TARGET_NAME], [*holders, TARGET]
    is_short = len(holders) <= _TABLED
    square = square_table(holders, every, heads, matrix) if is_short else None
    return [
        render.section(
            "Distances between holders",
            "between",
            _sentences(result, matrix),
            heat_map(holders, values, target),
            render.Details("All distances with their bounds", [square]) if square else None,
        ),
        render.section(
            "Map of the holders",
            "map",
            lambda: holder_map(holders, [item.rank for item in ranked], values, target),
            link="Map",
        ),
    ]


def _sentences(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    kind = _KINDS.get(matrix.method, f"By method {printable(matrix.method)}")
    aim = target_in_words(result.target)
    lines: list[str] = []
    if TARGET_NAME in matrix.names:
        first = f"{kind}: distances between holders, and to {aim}, on one scale."
        if matrix.method != result.method and not _has_same_distances(result, matrix):
            lines.append(
                f"The ranking has distances to {aim} of another kind; the two differ by that."
            )
    else:
        first = f"{kind}: distances between holders. Without {aim}."
    if result.labels == "classes":
        lines.append(
            "Labels are compared as vectors here and by the records of their classes in the "
            "ranking: wrong labels show less here."
        )
    lines.append(f"Disclosed for it: {matrix.disclosure}. {level_in_words(matrix.disclosure)}")
    if not matrix.converged:
        lines.append(f"Not everything converged: {printable(matrix.status, 400)}")
    return [render.Paragraph(first), [render.Paragraph(line, "small") for line in lines]]


def _has_same_distances(result: Contributions, matrix: DistanceMatrix) -> bool:
    """Return whether the ranking's distances to the target are those of the matrix."""
    return not any(
        abs(item.distance.value - matrix[item.holder, TARGET_NAME].value)
        > 1e-3 * item.distance.value
        for item in result.holders
    )
