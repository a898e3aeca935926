"""What is shown of trained models, of groups of holders, and of coresets."""

from __future__ import annotations

from functools import partial

import numpy as np

from ... import render
from ...distances.figures import holder_map, rounds_figure
from ...distances.verdict import group_rows, pairs_of_groups
from ...distances.view import pairs_table, same_pairs
from ...distances.worth.view import distances_content, objective_text
from ...federation.result import accuracy_interval
from ...federation.view import cost_content, cost_rows, missing_section
from ...render.heat_map import heat_map
from ...render.words import count, number, percent, printable
from .clustering import Clustering
from .coreset import Coreset
from .federated_result import FederatedModels

_SHARED = {
    "fedavg": "FedAvg: all layers are shared",
    "fedper": "FedPer: all layers but the last are shared; each holder has its own last layer",
    "fedrep": "FedRep: all layers but the last are shared, and trained with the holder's last one",
}
_MODELS = (
    "Parameters that were trained on a holder's own records. There is no proof "
    "that records cannot be reconstructed from them, and after few steps on few "
    "records they can. Treat the transcript like the data themselves."
)
_BESIDE = {"Contributions": "worth", "RecordScores": "flagged records"}


def federated_content(result: FederatedModels) -> render.Content:
    """Declare holders with their accuracies, what they are by, and the cost.

    No model and no record is shown.
    """
    cost = cost_rows(result, of_models=result.finest == "record")
    grouped = result.clustering
    groups = [] if grouped is None else [("groups", grouped.matrix)]
    beside = [(_BESIDE[type(run).__name__], run) for run in result.beside]
    rounds = rounds_figure(
        [entry["round"] for entry in result.history],
        {"together": [100 * entry["accuracy"] for entry in result.history]},
        "accuracy, %",
        "Accuracy before each round, on held-out records of the holders of that " "round.",
    ) if len(result.history) > 1 else None  # fmt: skip
    return [
        render.Headline("A model trained by the holders", _lead(result)),
        render.section(
            "Accuracy by holder",
            _chart(result),
            _holders(result),
            render.facts(_rows(result), terminal=cost),
        ),
        rounds and render.Details("Accuracy round by round", [rounds]),
        grouped
        and render.section(
            "Groups", render.on_page(render.Paragraph(printable(grouped.status, 1000)))
        ),
        missing_section(result.missing),
        cost_content([("training", result.own), *groups, *beside], notes=[_MODELS]),
    ]


def _rows(result: FederatedModels) -> dict[str, str | None]:
    rows: dict[str, str | None] = {}
    if result.accuracy is not None:
        tests = count(sum(result.tests.values()), "record")
        rows["accuracy"] = f"{percent(result.accuracy)}{_interval(result)} on {tests} held out"
    if result.accuracy_alone is not None:
        rows["alone"] = f"{percent(result.accuracy_alone)} if every holder trains alone"
    for group, accuracy in result.accuracy_of.items():
        of = f" of group {group + 1}" if len(result.accuracy_of) > 1 else ""
        rows[f"test{of}"] = f"{percent(accuracy)} of {count(result.tested_on, 'test record')}"
    kind = f"{result.spec.kind}, {result.spec.size} parameters, {len(result.classes)} classes"
    flagged = sum(result.left_out.values())
    return {
        **rows,
        "models": f"{kind}; {_SHARED[result.algorithm]}",
        "left out": f"{count(flagged, 'flagged record')}, unless held out" if flagged else None,
        "status": result.status,
    }


def _interval(result: FederatedModels) -> str:
    interval = result.interval
    return "" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})"


def _holders(result: FederatedModels) -> render.Table:
    """Return holders by group, with what their model gets right of what they held out."""
    alone, personal = result.accuracies_alone, result.accuracies_personal
    shares, write = partial(render.shares, missing="-"), "{:.3g}".format
    caption = "Accuracy on records each holder held out: of its model trained alone, and together."
    if personal:
        caption += " Personal: the same model after passes over the holder's own records."
    return render.table(
        caption,
        [name for group in result.groups for name in group],
        render.names(of=str),
        len(result.groups) > 1
        and render.Column("group", of=lambda name: result.assignment[name] + 1),
        render.Column("records", of=result.records.get),
        any(result.left_out.values()) and render.Column("left out", of=result.left_out.get),
        render.Column("weight", of=(result.weights or {}).get, terminal=write, page=write),
        render.Column("held out", of=result.tests.get),
        bool(alone) and shares("alone", of=alone.get),
        shares("together", of=result.accuracies.get),
        bool(personal) and shares("personal", of=personal.get),
        bool(personal and alone) and render.Column("best", of=result.best.get),
        filled=True,
    )


def _chart(result: FederatedModels) -> render.Intervals | None:
    """Return the chart of accuracies beside those of models that holders train alone."""
    rows = [
        (name, value, accuracy_interval(result.right[name], result.tests[name]),
         result.accuracies_alone.get(name))
        for name, value in result.accuracies.items()
    ]  # fmt: skip
    what = "Accuracy on records each holder held out, with 95 % intervals."
    if result.alone:
        what += " The band ends at the accuracy of its model trained alone."
    return render.share_chart(what, rows)


def _lead(result: FederatedModels) -> str:
    holders = count(len(result.names), "holder")
    groups = f" in {count(len(result.groups), 'group')}" if len(result.groups) > 1 else ""
    if result.accuracy is None:
        return f"{holders}{groups} trained together; no records were held out for testing."
    alone = result.accuracy_alone
    beside = "" if alone is None else f"; if each trains alone, {percent(alone)}"
    return (
        f"{holders}{groups} trained together: {percent(result.accuracy)}{_interval(result)} of the "
        f"held-out records are classified correctly{beside}."
    )


def clustering_content(result: Clustering) -> render.Content:
    """Declare holders with their groups, what decided, and the cost."""
    matrix = result.in_order
    ordered = list(matrix.names)
    numbers = [result.assignment[name] + 1 for name in ordered]
    words = [f"{group}: {name}" for group, name in zip(numbers, ordered, strict=True)]
    names = sorted(result.names)
    test, is_chosen = result.test, result.requested == "auto"
    rows = {
        "groups": f"{result.k}" + ("" if is_chosen else ", as requested"),
        **({} if test is None else group_rows(test, names)),
        # Where a test decides the number of groups, its verdict is the status.
        "status": None if test and is_chosen else printable(result.status, 1000),
    }
    own = {"distances": f"W{result.matrix.p} by {result.method}", **cost_rows(result)}
    members = [(name, result.assignment[name] + 1) for group in result.groups for name in group]
    heat = heat_map(ordered, matrix.values, None, "of the groups", same_pairs(matrix))
    return [
        render.Headline(
            "Groups of holders",
            _clustering_lead(result),
            render.not_converged(result.matrix, several=True),
        ),
        render.section(
            "Groups",
            _spread(result),
            render.Table("", [render.names(), render.Column("group")], members, filled=True),
            render.facts(rows, terminal=own),
        ),
        render.on_page(
            render.Details("Distances as a heat map", [heat]),
            lambda: _map(holder_map(words, numbers, matrix.values, None)),
            render.section(
                "Which pairs differ",
                pairs_of_groups(test, names),
                render.Details("All distances with their bounds", [pairs_table(result.matrix)]),
            ),
        ),
        cost_content([("distances", result.matrix)]),
    ]


def _map(drawn: render.Content) -> render.Content:
    words = "The number of the group is before each name, or replaces it."
    return bool(drawn) and render.section("Map of the holders", render.Paragraph(words), drawn)


def _clustering_lead(result: Clustering) -> str:
    holders = count(len(result.names), "holder")
    if result.requested != "auto":
        return f"{holders} in {count(result.k, 'group')}, the number that was requested."
    if result.k == 1:
        return f"{holders}, and the tests distinguish none of them: one group."
    return f"{holders} in {count(result.k, 'group')}: the tests distinguish these."


def _spread(result: Clustering) -> render.Intervals | None:
    """Return the chart of how far holders are from the others of their group."""
    rows: list[render.Row] = []
    for group in result.groups:
        for name in group if len(group) > 1 else ():
            pairs = [result.matrix[name, other] for other in group if other != name]
            value, *ends = np.mean([(pair.value, *pair.bounds) for pair in pairs], axis=0).tolist()
            bounds = (ends[0], ends[1]) if np.isfinite(ends[1]) else None
            rows.append((f"{result.assignment[name] + 1}: {name}", value, bounds, None))
    return render.chart(
        "Mean distance of each holder to the others of its group, with certified bounds where "
        "they are known. The number of the group stands first.",
        rows,
    )


_POINTS = {
    "fedbary": "means of records; a point for a single record is that record",
    "sketch": "computed only from the releases, so they disclose nothing more",
}


def coreset_content(result: Coreset) -> render.Content:
    """Declare how far every holder is from the coreset, what it is worth, and the cost.

    The points are not shown.
    """
    lead = (
        f"{count(result.size, 'point')} that {'stands' if result.size == 1 else 'stand'} for the "
        f"records of {count(len(result.distances), 'holder')}: the weighted sum of squared "
        f"distances is {number(result.objective)}."
    )
    sizes = sorted({*result.sizes.values()})
    estimate = f"{number(result.objective)}, an estimate"
    size = " to ".join(str(size) for size in dict.fromkeys([*sizes[:1], *sizes[-1:]]))
    accuracy = None
    if result.accuracy is not None:
        accuracy = f"{percent(result.accuracy)} of {count(result.tests, 'record')}"
    rows = {
        "objective": estimate if result.method == "sketch" else objective_text(result),
        "points": f"{result.size}: {_POINTS[result.method]}",
        "classes": f"{len(result.sizes)}, of {size} points each" if sizes else None,
        "1-NN accuracy": accuracy,
        "status": result.status,
    }
    return distances_content(result, "A coreset of the holders", lead, "coreset", rows)
