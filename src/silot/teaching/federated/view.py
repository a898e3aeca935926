"""What is shown of trained models, of groups of holders, and of coresets."""

from __future__ import annotations

from ... import render
from ...distances.figures import holder_map, rounds_figure
from ...distances.verdict import group_rows, pairs_of_groups
from ...distances.view import pairs_table, same_pairs
from ...distances.worth.view import distances_content, objective_text
from ...federation.view import Run, bill_rows, cost_content, missing_section
from ...render.heat_map import heat_map
from ...render.words import count, number, percent, printable
from .clustering import Clustering
from .coreset import Coreset
from .federated_result import FederatedModels

_SHARED = {
    "fedavg": "FedAvg: all layers are shared",
    "fedper": "FedPer: all layers but the last are shared; that is each holder's own",
    "fedrep": "FedRep: all layers but the last are shared, and trained with the holder's own last",
}
_MODELS = (
    "Parameters that were trained on a holder's own records. Nobody has shown that records cannot "
    "be computed back from them, and after few steps on few records they can. Treat the transcript "
    "like the data themselves."
)
_BESIDE = {"Contributions": "worth", "RecordScores": "flagged records"}


def federated_content(result: FederatedModels) -> render.Content:
    """Declare holders with their accuracies, what they are by, and the bill.

    No model and no record is shown.
    """
    bill = bill_rows(result, of_models=result.finest == "record")
    clustering = result.clustering
    groups = [] if clustering is None else clustering_runs(clustering, "groups")
    beside = [(_BESIDE[type(run).__name__], run) for run in result.beside]
    rounds = rounds_figure(
        [entry["round"] for entry in result.history],
        {"together": [100 * entry["accuracy"] for entry in result.history]},
        "accuracy, %",
        "Accuracy before each round, over what the holders asked in it held out.",
    ) if len(result.history) > 1 else None  # fmt: skip
    return [
        render.Headline("A model trained by the holders", _lead(result)),
        render.section(
            "Accuracy by holder",
            "accuracy",
            _holders(result),
            render.facts(_rows(result), terminal=bill),
            link="Accuracy",
        ),
        render.section("Round by round", "rounds", rounds, link="Rounds"),
        None
        if clustering is None
        else render.section(
            "Groups", "groups", render.on_page(render.Paragraph(printable(clustering.status, 1000)))
        ),
        missing_section(result.missing, link="Left out"),
        cost_content([("training", result.own), *groups, *beside], notes=[_MODELS]),
    ]


def _rows(result: FederatedModels) -> dict[str, str]:
    rows: dict[str, str] = {}
    if result.accuracy is not None:
        tests = count(sum(result.tests.values()), "record")
        rows["accuracy"] = f"{percent(result.accuracy)}{_interval(result)} on {tests} held out"
    if result.accuracy_alone is not None:
        rows["alone"] = f"{percent(result.accuracy_alone)} where every holder trains for itself"
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
    has_left_out = any(result.left_out.values())
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
        )
        for group in result.groups
        for name in group
    ]
    columns = [
        render.names(), *map(render.Column, ("group", "records", "left out", "weight", "held out")),
        render.shares("alone", missing="-"), render.shares("together", missing="-"),
    ]  # fmt: skip
    caption = "Accuracy on records each holder held out: of its model trained alone, and together."
    return render.Table(caption, columns, rows, filled=True)


def _lead(result: FederatedModels) -> str:
    holders = count(len(result.names), "holder")
    groups = f" in {count(len(result.groups), 'group')}" if len(result.groups) > 1 else ""
    if result.accuracy is None:
        return f"{holders}{groups} trained together; no record was held out to test on."
    alone = result.accuracy_alone
    beside = "" if alone is None else f"; where each trains alone, {percent(alone)}"
    return (
        f"{holders}{groups} trained together: {percent(result.accuracy)}{_interval(result)} of the "
        f"records they held out are named right{beside}."
    )


def clustering_content(result: Clustering) -> render.Content:
    """Declare holders with their groups, what decided, and the bill."""
    matrix = result.in_order
    ordered = list(matrix.names)
    numbers = [result.assignment[name] + 1 for name in ordered]
    words = [f"{group}: {name}" for group, name in zip(numbers, ordered, strict=True)]
    names = sorted(result.names)
    rows = {
        "groups": f"{result.k}" + ("" if result.requested == "auto" else ", as requested"),
        **({} if result.verdict is None else group_rows(result.verdict, names)),
        # Where a test decides the number of groups, its verdict is the status.
        **(
            {}
            if result.verdict and result.requested == "auto"
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
            "groups",
            _members(result),
            render.facts(
                rows,
                terminal={
                    "distances": f"W{result.matrix.p} by {result.method}", **bill_rows(result)
                },
            ),
        ),
        render.on_page(
            render.section(
                "Distances",
                "distances",
                heat_map(
                    ordered, matrix.values, None, order="of the groups", same=same_pairs(matrix)
                ),
            ),
            lambda: _map(holder_map(words, numbers, matrix.values, None)),
            render.section(
                "Which pairs differ",
                "pairs",
                None if result.verdict is None else pairs_of_groups(result.verdict, names),
                render.Details("All distances with their bounds", [pairs_table(result.matrix)]),
                link="Pairs",
            ),
        ),
        cost_content(clustering_runs(result)),
    ]  # fmt: skip


def _map(drawn: render.Content) -> render.Content:
    words = "Before each name, or in its place, stands the number of the group."
    content = [render.Paragraph(words), drawn] if drawn else []
    return render.section("Map of the holders", "map", content, link="Map")


def clustering_runs(result: Clustering, name: str = "distances") -> list[tuple[str, Run]]:
    """Return the runs on its bill."""
    tested = [] if result.test is None else [("test of the records", result.test)]
    return [(name, result.matrix), *tested]


def _clustering_lead(result: Clustering) -> str:
    holders = count(len(result.names), "holder")
    if result.requested != "auto":
        return f"{holders} in {count(result.k, 'group')}, the number that was requested."
    if result.k == 1:
        return f"{holders}, and the tests tell none of them apart: one group."
    return f"{holders} in {count(result.k, 'group')}: the tests tell these apart."


def _members(result: Clustering) -> render.Table:
    """Return holders in the order of their groups."""
    rows = [(name, result.assignment[name] + 1) for group in result.groups for name in group]
    return render.Table("", [render.names(), render.Column("group")], rows, filled=True)


_POINTS = {
    "fedbary": "means of records; one that stands for a single record is that record",
    "sketch": "computed from the releases alone: they tell no more than these do",
}


def coreset_content(result: Coreset) -> render.Content:
    """Declare how far every holder is from the coreset, what it is worth, and the bill.

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
