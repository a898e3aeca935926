"""What is shown of trained models, of groups of holders, and of coresets."""

from __future__ import annotations

import numpy as np

from ... import render
from ...distances.figures import holder_map, rounds_figure
from ...distances.verdict import group_rows, pairs_of_groups
from ...distances.view import pairs_table, same_pairs
from ...distances.worth.view import distances_content, objective_text
from ...federation.result import accuracy_interval
from ...federation.view import Run, cost_content, cost_rows, missing_section
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
    clustering = result.clustering
    groups = [] if clustering is None else clustering_runs(clustering, "groups")
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
        render.Details("Accuracy round by round", [rounds]) if rounds else None,
        None
        if clustering is None
        else render.section(
            "Groups", render.on_page(render.Paragraph(printable(clustering.status, 1000)))
        ),
        missing_section(result.missing),
        cost_content([("training", result.own), *groups, *beside], notes=[_MODELS]),
    ]


def _rows(result: FederatedModels) -> dict[str, str]:
    rows: dict[str, str] = {}
    if result.accuracy is not None:
        tests = count(sum(result.tests.values()), "record")
        rows["accuracy"] = f"{percent(result.accuracy)}{_interval(result)} on {tests} held out"
    if result.accuracy_alone is not None:
        rows["alone"] = f"{percent(result.accuracy_alone)} if every holder trains alone"
    for group, accuracy in result.accuracy_of.items():
        of = f" of group {group + 1}" if len(result.accuracy_of) > 1 else ""
        records = count(result.tested_on, "test record")
        rows[f"test{of}"] = f"{percent(accuracy)} of {records}"
    kind = f"{result.spec.kind}, {result.spec.size} parameters, {len(result.classes)} classes"
    rows["models"] = f"{kind}; {_SHARED[result.algorithm]}"
    flagged = sum(result.left_out.values())
    if flagged:
        rows["left out"] = f"{count(flagged, 'flagged record')}, unless held out"
    return {**rows, "status": result.status}


def _interval(result: FederatedModels) -> str:
    interval = result.interval
    return "" if interval is None else f" ({percent(interval[0])} to {percent(interval[1])})"


def _holders(result: FederatedModels) -> render.Table:
    """Return holders by group, with what their model gets right of what they held out."""
    is_grouped, alone, weights = len(result.groups) > 1, result.accuracies_alone, result.weights
    has_left_out, personal = any(result.left_out.values()), result.accuracies_personal
    rows = [
        (
            name,
            result.assignment[name] + 1 if is_grouped else "",
            result.records[name],
            result.left_out[name] if has_left_out else "",
            "" if weights is None else f"{weights[name]:.3g}",
            result.tests[name],
            alone.get(name) if alone else "",
            result.accuracies[name],
            personal.get(name) if personal else "",
            result.best[name] if personal and alone else "",
        )
        for group in result.groups
        for name in group
    ]
    columns = [
        render.names(), *map(render.Column, ("group", "records", "left out", "weight", "held out")),
        render.shares("alone", missing="-"), render.shares("together", missing="-"),
        render.shares("personal", missing="-"), render.Column("best"),
    ]  # fmt: skip
    caption = "Accuracy on records each holder held out: of its model trained alone, and together."
    if personal:
        caption += " Personal: the same model after passes over the holder's own records."
    return render.Table(caption, columns, rows, filled=True)


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
    rows = {
        "groups": f"{result.k}" + ("" if result.requested == "auto" else ", as requested"),
        **({} if result.test is None else group_rows(result.test, names)),
        # Where a test decides the number of groups, its verdict is the status.
        **(
            {}
            if result.test and result.requested == "auto"
            else {"status": printable(result.status, 1000)}
        ),
    }
    return [
        render.Headline(
            "Groups of holders",
            _clustering_lead(result),
            render.not_converged(result.matrix, several=True),
        ),
        render.section(
            "Groups",
            _spread(result),
            _members(result),
            render.facts(
                rows,
                terminal={
                    "distances": f"W{result.matrix.p} by {result.method}", **cost_rows(result)
                },
            )
        ),
        render.on_page(
            render.Details(
                "Distances as a heat map",
                [heat_map(ordered, matrix.values, None, "of the groups", same_pairs(matrix))],
            ),
            lambda: _map(holder_map(words, numbers, matrix.values, None)),
            render.section(
                "Which pairs differ",
                None if result.test is None else pairs_of_groups(result.test, names),
                render.Details("All distances with their bounds", [pairs_table(result.matrix)])
            ),
        ),
        cost_content(clustering_runs(result)),
    ]  # fmt: skip


def _map(drawn: render.Content) -> render.Content:
    words = "The number of the group is before each name, or replaces it."
    content = [render.Paragraph(words), drawn] if drawn else []
    return render.section("Map of the holders", content)


def clustering_runs(result: Clustering, name: str = "distances") -> list[tuple[str, Run]]:
    """Return the runs on its cost."""
    return [(name, result.matrix)]


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


def _members(result: Clustering) -> render.Table:
    """Return holders in the order of their groups."""
    rows = [(name, result.assignment[name] + 1) for group in result.groups for name in group]
    return render.Table("", [render.names(), render.Column("group")], rows, filled=True)


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
    is_estimate = result.method == "sketch"
    rows = {
        "objective": f"{number(result.objective)}, an estimate"
        if is_estimate
        else objective_text(result),
        "points": f"{result.size}: {_POINTS[result.method]}",
    }
    if result.sizes:
        few, many = min(result.sizes.values()), max(result.sizes.values())
        size = str(few) if few == many else f"{few} to {many}"
        rows["classes"] = f"{len(result.sizes)}, of {size} points each"
    if result.accuracy is not None:
        rows["1-NN accuracy"] = f"{percent(result.accuracy)} of {count(result.tests, 'record')}"
    rows["status"] = result.status
    return distances_content(result, "A coreset of the holders", lead, "coreset", rows)
