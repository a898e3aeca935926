"""What is shown of what holders are worth, of barycenters, and of distances between holders."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from ... import render
from ...data.preflight import Preflight
from ...federation.view import Run, cost_content, cost_rows, missing_section, run_content
from ...render.figure import TARGET
from ...render.heat_map import heat_map
from ...render.words import (
    count,
    known_bounds,
    level_in_words,
    named,
    number,
    percent,
    printable,
    short_status,
    target_in_words,
)
from ..figures import holder_map
from ..result import Distance, DistanceMatrix
from ..view import distances_chart, likely, pairs_table, parts_content, status
from .result import Barycenter, Contribution, Contributions, Utility

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
_SHAPLEY = (
    "Shapley: what the holder adds to the part of the target that the best mixture of others "
    "explains, on average over the orders in which holders may join. Distances are not "
    "corrected. Shapley share: part of the sum of Shapley values."
)


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
        missing_section(result.missing, note="This report says nothing about their data."),
        cost_content([*runs, *beside.runs]),
    ]


def worth_sections(result: Contributions) -> render.Content:
    """Return ranking, parts and map of the holders."""
    same = [item.holder for item in result.ranking if item.distance.indistinct]
    parts = {item.holder: part for item in result.ranking if (part := item.distance.parts)}
    more = {"target": result.target, "status": result.status, **cost_rows(result)}
    return [
        bool(result.holders) and _ranking(result),
        render.facts({}, terminal=more),
        parts_content(parts, target_in_words(result.target), same),
        result.between is not None and _between(result, result.between),
    ]


def closest(result: Contributions) -> list[str]:
    """Return who is closest and who farthest, and what proves it, in sentences."""
    target = target_in_words(result.target)
    if result.ranking[0].utility is not None and len(result.holders) > 1:
        return _most_useful(result.ranking, target)
    ranked, last = result.ranking, result.ranking[-1]
    leaders = [item for item in ranked if item.rank == ranked[0].rank]
    leading, at = _named(leaders), _certified(leaders[0].distance)
    if len(ranked) == 1:
        return [f"{leading} is the only holder compared to {target}, {at}."]
    first = f"Of {count(len(ranked), 'holder')}, {leading} is closest to {target}"
    if len(leaders) > 1:
        first = f"{leading} are equally close to {target} and closest"
    if result.preflight is not None and result.preflight.flags:
        first = f"In the numbers without a schema, {first[:1].lower()}{first[1:]}"
    sentences = [f"{first}, {at}.", _proof(leaders, ranked[len(leaders) :], result.preflight)]
    if last.rank != ranked[0].rank:
        sentences.append(f"{printable(last.holder)} is farthest, at {number(last.distance.value)}.")
    if same := _named(item for item in ranked if item.distance.indistinct):
        sentences.append(f"{same} cannot be distinguished from {target}.")
    return sentences


def _most_useful(ranked: Sequence[Contribution], target: str) -> list[str]:
    first, last = ranked[0], ranked[-1]
    near = min(ranked, key=lambda item: item.distance.value)
    rivals = _named(item for item in ranked[1:] if item.ranks is not None and item.ranks[0] == 1)
    open_to = f"Sampling leaves open whether {rivals} may be more useful."
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
            (item.holder, value, (value - room, value + room), None)
            for item in ranked
            if item.utility
            for value, room in (_utility(item.utility),)
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


def _utility(utility: Utility) -> tuple[float, float]:
    # It lies within so many standard errors in 95 % of cases.
    return utility.value, 1.959964 * utility.error


def _named(items: Iterable[Contribution]) -> str:
    return named((item.holder for item in items), 3)


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
        rivals = _named(item for item in others if item.distance.lower <= reach)
        proof = "The bounds prove that no other holder is closer."
        if preflight is not None and preflight.unseen:
            proof = "By the bounds no other holder is closer, in the numbers without a schema."
        doubt = "The bounds leave open whether"
    else:
        rivals = _named(item for item in others if item.ranks is not None and item.ranks[0] == 1)
        proof = "No other holder is as close, by the 95 % intervals."
        doubt = "Sampling leaves open whether"
    return f"{doubt} {rivals} may be closer." if rivals else proof


def _ranking(result: Contributions) -> render.Content:
    """Return table and figure of the holders, the best first, and what the words mean."""
    ranked, target = result.ranking, target_in_words(result.target)
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
    holders: dict[str, list[str]] = {}
    for item in ranked:
        holders.setdefault(item.distance.status, []).append(item.holder)
    statuses = render.Table(
        "Status of the distances.",
        [render.names("status of the distance", 400), render.texts("holders")],
        [(status, named(members, 8)) for status, members in holders.items()],
    )
    more = [render.facts({"distance": distance}), statuses]
    small = [render.Paragraph(line, "small") for line in lines]
    return render.section(
        "Ranking of the holders",
        _chart(ranked, target),
        worth_table(result),
        render.Details("What the columns mean, and how they were computed", [*more, *small]),
    )


def worth_table(result: Contributions) -> render.Table:
    """Return holders by rank, and what each is worth in every way."""

    def most(name: str) -> float:
        values = (getattr(item, name) or 0.0 for item in result.ranking)
        return max(values, default=0.0) or 1.0

    def utility(item: Contribution) -> str | None:
        return item.utility and "{:.3f} ± {:.3f}".format(*_utility(item.utility))

    def faulty(kind: str, item: Contribution) -> tuple[float, tuple[float, ...]] | None:
        return item.utility and (item.utility.faulty[kind][0], item.utility.faulty[kind][1:])

    share = partial(_shares, "share", attrgetter("share", "share_interval"), bar=most("share"))
    return render.table(
        f"What holders are worth for {target_in_words(result.target)}, by rank.",
        result.ranking,
        render.Column("rank", of="place"),
        render.names(),
        render.numbers("distance", on="terminal", of="distance.value"),
        render.intervals(on="terminal", of="distance.bounds", terminal=known_bounds),
        render.estimates("distance", on="page", of=lambda item: likely(item.distance)),
        render.digits("p", 3, on="terminal", of="distance.test.p_value"),
        render.numbers("corrected", on="terminal"),
        render.intervals("95 %", on="terminal", of="interval"),
        render.estimates("corrected", on="page", of=attrgetter("corrected", "interval")),
        render.counts("records", on="terminal"),
        render.Column("utility", of=utility),
        share(on="page")[0],
        *_shares("wrong labels", partial(faulty, "label")),
        *_shares("faulty", partial(faulty, "all")),
        *share(on="terminal"),
        render.texts("status", page=short_status, on="page", of=lambda item: status(item.distance)),
        render.shares("FedBary share", of="fedbary_share", bar=most("fedbary_share")),
        render.shares("explained", bar=1),
        render.shares("Shapley value", full="Shapley", of="shapley"),
        render.shares("Shapley share", of="shapley_share", bar=most("shapley_share")),
        render.counts("records", on="page"),
        head=1,
        filter=True,
        flagged=[not item.distance.converged for item in result.ranking],
        only="only those that did not converge",
        filled=True,
        # A terminal has no room for all that a holder is worth.
        keys=2,
        breaks=(10, 16, 21),
    )


def _shares(
    title: str, of: Callable[[Any], Any], on: render.Medium | None = None, bar: float = 1.0
) -> tuple[render.Column, render.Column]:
    """Return the columns of shares and of their intervals, which are one column on a page."""

    def with_interval(value: tuple[float, tuple[float, float] | None]) -> str:
        share, ends = value
        return percent(share) + (f" [{100 * ends[0]:.0f}, {100 * ends[1]:.0f}]" if ends else "")

    return (
        render.Column(title, of=of, terminal=lambda value: percent(value[0]), page=with_interval,
                      on=on, bar=bar),
        render.Column("95 %", of=lambda item: (of(item) or (0, None))[1], on="terminal",
                      terminal=lambda ends: f"{100 * ends[0]:.0f} to {100 * ends[1]:.0f} %"),
    )  # fmt: skip


def barycenter_content(result: Barycenter) -> render.Content:
    """Declare how far every holder is from the barycenter, the objective and the cost.

    The atoms are not shown.
    """
    atoms = len(result.weights)
    lead = (
        f"A measure of {count(atoms, 'atom')} between {count(len(result.distances), 'holder')}: "
        f"the weighted sum of its squared distances is {number(result.objective)}, and no measure "
        f"can have a sum below {number(result.lower)}."
    )
    rows = {"objective": objective_text(result), "atoms": f"{atoms}", "status": result.status}
    return distances_content(result, "Between the holders", lead, "barycenter", rows)


def objective_text(result: Barycenter) -> str:
    """Return the objective, and what no measure goes below."""
    return f"{result.objective:.6g}; no measure has less than {result.lower:.6g}"


def distances_content(
    result: Barycenter, title: str, lead: str, what: str, rows: Mapping[str, str | None]
) -> render.Content:
    """Declare distances of holders to what stands for them, other facts, and the cost."""
    cells = [
        (name, result.shares[name], distance.value, distance.bounds, status(distance))
        for name, distance in result.distances.items()
    ]
    columns = [
        render.names(), render.digits("weight", 3, bar=1), render.numbers("distance"),
        render.intervals(), render.texts("status", page=short_status, on="page"),
    ]  # fmt: skip
    return run_content(
        result,
        title,
        lead,
        render.section(
            f"Distances to the {what}",
            distances_chart(f"Distance to the {what}", result.distances),
            render.Table(f"Holders by their distance to the {what}.", columns, cells, filter=True),
            render.facts(rows, terminal=cost_rows(result)),
        ),
    )


# What the target is called in a matrix: no holder may be called so.
TARGET_NAME = "coordinator"
_KINDS = {
    "direct": "Exact, computed from the records of all holders",
    "sketch": "Estimated from one differentially private sketch of each holder",
    "secure": "Computed on secret shares, by multi-party computation",
}


def _between(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    """Return the pairs, and on a page their heat map and the map of holders, by rank."""
    words = f"distances of {len(matrix.pairs)} pairs: --json or --report shows them"
    pairs = render.Paragraph(words)
    if len(matrix.pairs) <= _MOST_PAIRS:
        pairs = pairs_table(matrix, {TARGET_NAME: "the target"})
    return [render.on_terminal(pairs), render.on_page(lambda: _maps(result, matrix))]


def _maps(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    ranked = [item for item in result.ranking if item.holder in matrix.names]
    holders = [item.holder for item in ranked]
    order = [matrix.names.index(name) for name in holders]
    values, target = matrix.values[np.ix_(order, order)], None
    if TARGET_NAME in matrix.names:
        target = matrix.values[order, matrix.names.index(TARGET_NAME)]
    pairs = pairs_table(matrix, {TARGET_NAME: TARGET})
    return len(result.holders) > 1 and [
        render.section(
            "Distances between holders",
            _sentences(result, matrix),
            heat_map(holders, values, target),
            render.Details("All distances with their bounds", [pairs]),
        ),
        render.section(
            "Map of the holders",
            holder_map(holders, [item.rank for item in ranked], values, target),
        ),
    ]


def _sentences(result: Contributions, matrix: DistanceMatrix) -> render.Content:
    kind = _KINDS.get(matrix.method, f"By method {printable(matrix.method)}")
    aim = target_in_words(result.target)
    first = f"{kind}: distances between holders, not to {aim}."
    lines: list[str] = []
    if TARGET_NAME in matrix.names:
        first = f"{kind}: distances between holders, and to {aim}, on one scale."
        differ = (
            (item.distance.value, matrix[item.holder, TARGET_NAME].value) for item in result.holders
        )
        if matrix.method != result.method and any(abs(a - b) > 1e-3 * a for a, b in differ):
            lines.append(
                f"The ranking uses another kind of distance to {aim}, so the numbers differ."
            )
    if result.labels == "classes":
        lines.append(
            "Labels are compared as vectors here, but by the records of their classes in "
            "the ranking, so wrong labels have less effect here."
        )
    lines.append(f"Level of this map: {matrix.disclosure}. {level_in_words(matrix.disclosure)}")
    if not matrix.converged:
        lines.append(f"Not everything converged: {printable(matrix.status, 400)}")
    return [render.Paragraph(first), [render.Paragraph(line, "small") for line in lines]]
