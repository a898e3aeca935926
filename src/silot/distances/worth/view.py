"""What is shown of what holders are worth, of barycenters, and of distances between holders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ... import render
from ...data.preflight import Preflight
from ...federation.view import Run, cost_content, cost_rows, missing_section
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
from ..view import distances_chart, pairs_table, parts_content
from .result import Barycenter, Contribution, Contributions

# On a terminal; all are in JSON and in the report.
_MOST_PAIRS = 36
_WORDS = (
    "Rank: by utility if labels were judged, otherwise by the corrected "
    "distance; a range if sampling and noise leave the order open.",
    "p: how often samples of the same sizes from the target's distribution would differ as "
    "clearly; above .05 a holder cannot be distinguished from the target.",
    "Corrected: the distance that infinitely many records of the holder's distribution would have, "
    "with its 95 % interval; the bounds are for the distance of the records themselves.",
    "Share: part of the sum of positive utilities or, without utilities, of inverse corrected "
    "distances. FedBary share: part of the sum of inverse distances, as published. Explained: part "
    "of the spread of the target that the holder's data explain.",
)
_UTILITY = (
    "Utility: how much better than the frequencies of the classes the holder's records predict "
    "the labels of validation records (nats, on average), from models of its records and its "
    "share of faulty records, with its 95 % interval. Wrong labels, faulty: estimated shares of "
    "records with a wrong label, and of all faulty records."
)
# A utility lies within so many standard errors in 95 % of cases.
_WITHIN = 1.959964
_SHAPLEY = (
    "Shapley: what the holder adds to the part of the target that the best mixture of others "
    "explains, on average over the orders in which holders may join. Distances are not "
    "corrected. Shapley share: part of the sum of Shapley values."
)
_PROOF = "The bounds prove that no other holder is closer."
# Of data that nobody here looked at.
_UNSEEN = "By the bounds no other holder is closer, in the numbers without a schema."


@dataclass(frozen=True)
class Beside:
    """What a page of worth has of records that were scored as well."""

    sentences: Sequence[str] = ()
    warning: render.Content = None
    sections: render.Content = None
    runs: Sequence[tuple[str, Run]] = ()


def value_content(result: Contributions, beside: Beside | None = None) -> render.Content:
    """Declare what holders are worth, the cost, what distances are made of, and those of a map."""
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
        worth_sections(result),
        beside.sections,
        missing_section(
            result.missing, note="This report says nothing about their data."
        ),
        cost_content([*runs, *beside.runs]),
    ]  # fmt: skip


def worth_sections(result: Contributions) -> render.Content:
    """Return ranking, parts and map of the holders."""
    same = [item.holder for item in result.ranking if item.distance.indistinct]
    more = {"target": result.target, "status": result.status, **cost_rows(result)}
    return [
        _ranking(result) if result.holders else None,
        render.facts({}, terminal=more),
        parts_content(_parts(result), target_in_words(result.target), same),
        None if result.between is None else between_sections(result, result.between),
    ]


def _parts(result: Contributions) -> dict[str, Parts]:
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
        first = f"In the numbers without a schema, {first[:1].lower()}{first[1:]}"
    sentences = [f"{first}, {at}.", _proof(leaders, ranked[len(leaders) :], result.preflight)]
    if last.rank != ranked[0].rank:
        sentences.append(f"{printable(last.holder)} is farthest, at {number(last.distance.value)}.")
    same = [item for item in ranked if item.distance.indistinct]
    if same:
        sentences.append(f"{_listed(same)} cannot be distinguished from {target}.")
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
        open_to if rivals else "No other holder's records are as useful, by the 95 % intervals.",
        f"{printable(near.holder)} is closest, {_certified(near.distance)}.",
    ]


def _chart(ranked: Sequence[Contribution], target: str) -> render.Intervals | None:
    """Return the chart of utilities where labels were judged, else of distances to the target."""
    if any(item.utility for item in ranked):
        rows = [
            (item.holder, one.value, (one.value - room, one.value + room), None)
            for item in ranked
            if (one := item.utility)
            for room in (_WITHIN * one.error,)
        ]
        what = (
            f"Utility to predict labels of {target}, with 95 % intervals. Records help if it "
            "is above 0."
        )
        return render.chart(what, rows, unit="nats", write="{:.3f}".format)
    if all(item.corrected is not None for item in ranked):
        rows = [(item.holder, item.corrected, item.interval, None) for item in ranked]
        what = f"Distance to {target} without sampling noise, with 95 % intervals."
        return render.chart(what, rows)
    return distances_chart(f"Distance to {target}", {item.holder: item.distance for item in ranked})


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
            "The bounds hold for the numbers without a schema, and do not decide who is "
            f"closest: check {printable(preflight.where, 200)} first."
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
    distance = (
        f"Wasserstein distance of the holder's records to {target}; smaller is better. The exact "
        "distance lies within the bounds whenever every party followed the protocol."
    )
    return render.section(
        "Ranking of the holders",
        _chart(ranked, target),
        worth_table(result),
        render.Details(
            "What the columns mean, and how they were computed",
            [
                render.Facts([("distance", distance)]),
                _statuses(ranked),
                *(render.Paragraph(line, "small") for line in lines),
            ],
        ),
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
            (item.distance.value, item.distance.interval or item.distance.bounds),
            None if item.distance.test is None else item.distance.test.p_value,
            item.corrected,
            item.interval,
            None if item.corrected is None else (item.corrected, item.interval),
            item.records,
            _utility(item)[0],
            _share(item.share, item.share_interval, share)[0],
            *_utility(item)[1:],
            *_share(item.share, item.share_interval, share),
            render.Cell(item.distance.status, warn=not item.distance.converged),
            render.Cell(item.fedbary_share, item.fedbary_share / published),
            render.Cell(item.explained, item.explained),
            item.shapley,
            render.Cell(
                item.shapley_share,
                None if item.shapley_share is None else item.shapley_share / added,
            ),
            item.records,
        )
        for item in ranked
    ]
    columns = [
        render.Column("rank"), render.names(), render.numbers("distance", on="terminal"),
        render.intervals(terminal=lambda ends: known_bounds(*ends), on="terminal"),
        render.estimates("distance", on="page"), render.digits("p", 3, on="terminal"),
        render.numbers("corrected", on="terminal"), render.intervals("95 %", on="terminal"),
        render.estimates("corrected", on="page"), render.counts("records", on="terminal"),
        render.Column("utility", terminal=_with_room, page=_with_room),
        _share_columns("share", "page")[0], *_share_columns("wrong labels"),
        *_share_columns("faulty"), *_share_columns("share", "terminal"),
        render.texts("status", page=short_status, on="page"),
        render.shares("FedBary share"), render.shares("explained"),
        render.shares("Shapley value", full="Shapley"), render.shares("Shapley share"),
        render.counts("records", on="page"),
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
        breaks=(10, 16, 21),
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


def _share_columns(
    title: str, on: render.Medium | None = None
) -> tuple[render.Column, render.Column]:
    """Return the columns of a share and of its interval, which share a cell on a page."""

    def with_interval(value: tuple[float, tuple[float, float] | None]) -> str:
        share, ends = value
        if ends is None:
            return percent(share)
        return f"{percent(share)} [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]"

    return (
        render.Column(title, terminal=lambda value: percent(value[0]), page=with_interval, on=on),
        render.Column(
            "95 %",
            terminal=lambda ends: f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %",
            on="terminal",
        ),
    )


def _largest(values: Iterable[float | None]) -> float:
    return max((value or 0.0 for value in values), default=0.0) or 1.0


def _statuses(ranked: Sequence[Contribution]) -> render.Table:
    """Return what the distances say of themselves, and which of them say it."""
    holders: dict[str, list[str]] = {}
    for item in ranked:
        holders.setdefault(item.distance.status, []).append(printable(item.holder))
    rows = [(status, listed(members, 8)) for status, members in holders.items()]
    columns = [render.names("status of the distance", 400), render.texts("holders")]
    return render.Table("Status of the distances.", columns, rows)


def barycenter_content(result: Barycenter) -> render.Content:
    """Declare how far every holder is from the barycenter, the objective and the cost.

    The atoms are not shown.
    """
    lead = (
        f"A measure of {count(len(result.weights), 'atom')} between "
        f"{count(len(result.distances), 'holder')}: the weighted sum of its squared distances is "
        f"{number(result.objective)}, and no measure can have a sum below {number(result.lower)}."
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
    """Declare distances of holders to what stands for them, other facts, and the cost."""
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
            distances_chart(f"Distance to the {what}", result.distances),
            render.Table(f"Holders by their distance to the {what}.", columns, cells, filter=True),
            render.facts(rows, terminal=cost_rows(result)),
        ),
        missing_section(result.missing),
        cost_content(result),
    ]


# What the target is called in a matrix: no holder may be called so.
TARGET_NAME = "coordinator"
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


def between_sections(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    """Return the pairs, and on a page their heat map and the map of holders, by rank."""
    words = f"distances of {len(matrix.pairs)} pairs: --json or --report shows them"
    is_short = len(matrix.pairs) <= _MOST_PAIRS
    pairs = (
        pairs_table(matrix, {TARGET_NAME: "the target"}) if is_short else render.Paragraph(words)
    )
    return [render.on_terminal(pairs), render.on_page(lambda: _maps(result, matrix))]


def _maps(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    if len(result.holders) < 2:
        return None
    ranked = [item for item in result.ranking if item.holder in matrix.names]
    holders = [item.holder for item in ranked]
    order = [matrix.names.index(name) for name in holders]
    values, target = matrix.values[np.ix_(order, order)], None
    if TARGET_NAME in matrix.names:
        target = matrix.values[order, matrix.names.index(TARGET_NAME)]
    return [
        render.section(
            "Distances between holders",
            _sentences(result, matrix),
            heat_map(holders, values, target),
            render.Details(
                "All distances with their bounds", [pairs_table(matrix, {TARGET_NAME: TARGET})]
            ),
        ),
        render.section(
            "Map of the holders",
            holder_map(holders, [item.rank for item in ranked], values, target),
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
                f"The ranking uses another kind of distance to {aim}, so the numbers differ."
            )
    else:
        first = f"{kind}: distances between holders. Without {aim}."
    if result.labels == "classes":
        lines.append(
            "Labels are compared as vectors here, but by the records of their classes in "
            "the ranking, so wrong labels have less effect here."
        )
    lines.append(f"Level of this map: {matrix.disclosure}. {level_in_words(matrix.disclosure)}")
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
