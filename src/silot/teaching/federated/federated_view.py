"""What is shown of models that holders trained together."""

from __future__ import annotations

from ... import render
from ...distances.figures import rounds_figure
from ...federation.view import bill_rows, cost_content, missing_section
from ...render.words import count, percent, printable
from .clustering_view import clustering_runs
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
