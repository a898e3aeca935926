"""Models that holders trained together: the tables of a terminal, and the page."""

from __future__ import annotations

from ...federation.view import bill_rows, bill_sections, facts, missing_table
from ...render import Block, Cell, Column, Heading, Paragraph, Table, textual
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


def federated_sections(result: FederatedModels) -> list[Block]:
    """Holders with their accuracies, what they are by, and the bill."""
    return [_holders(result), facts(_rows(result) | _bill(result))]


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
    left = sum(result.left_out.values())
    if left:
        rows["left out"] = f"{count(left, 'flagged record')}, unless held out"
    return {**rows, "status": result.status}


def _interval(result: FederatedModels) -> str:
    interval = result.interval
    if interval is None:
        return ""
    return f" ({percent(interval[0])} to {percent(interval[1])})"


def _bill(result: FederatedModels) -> dict[str, str]:
    rows = bill_rows(result)
    if result.finest == "record":
        rows["disclosed"] = "record: parameters of models, which records may be computed back from"
    return rows


def _holders(result: FederatedModels, fold: int | None = None) -> Table:
    """Holders by group, with what their model gets right of what they held out."""
    grouped, alone = len(result.groups) > 1, result.accuracies_alone
    weighted, left = result.weights is not None, any(result.left_out.values())
    columns = [
        textual("holder"),
        *([Column("group")] if grouped else []),
        Column("records"),
        *([Column("left out")] if left else []),
        *([Column("weight")] if weighted else []),
        Column("held out"),
        *([Column("alone")] if alone else []),
        Column("together"),
    ]
    rows = [
        [
            Cell(printable(name)),
            *([Cell(str(result.assignment[name] + 1))] if grouped else []),
            Cell(str(result.records[name])),
            *([Cell(str(result.left_out[name]))] if left else []),
            *([Cell(f"{result.weights[name]:.3g}")] if result.weights is not None else []),
            Cell(str(result.tests[name])),
            *([Cell(_percent(alone.get(name)))] if alone else []),
            Cell(_percent(result.accuracies[name])),
        ]
        for group in result.groups
        for name in group
    ]
    caption = "Accuracy on records each holder held out: of its model trained alone, and together."
    return Table(caption if fold else "", columns, rows, fold=fold or max(len(rows), 1))


def _percent(value: float | None) -> str:
    return "-" if value is None else percent(value)


def federated_page(result: FederatedModels) -> list[Block]:
    """The page of the same; no model and no record is in it."""
    # Slow to import: it draws.
    from ...distances.figures import rounds_figure

    blocks: list[Block] = [
        Heading("A model trained by the holders", level=1),
        Paragraph(_lead(result), "lead"),
        Heading("Accuracy by holder", "accuracy", "Accuracy"),
        _holders(result, fold=20),
        facts(_rows(result)),
    ]
    if len(result.history) > 1:
        blocks += [
            Heading("Round by round", "rounds", "Rounds"),
            rounds_figure(
                [each["round"] for each in result.history],
                {"together": [100 * each["accuracy"] for each in result.history]},
                "accuracy, %",
                "Accuracy before each round, over what the holders asked in it held out.",
            ),
        ]
    if result.clustering is not None:
        blocks += [
            Heading("Groups", "groups", "Groups"),
            Paragraph(printable(result.clustering.status, 1000)),
        ]
    if result.missing:
        blocks += [
            Heading("Holders left out", "missing", "Left out"),
            missing_table(result.missing, {}, "holder"),
        ]
    first = [] if result.clustering is None else clustering_runs(result.clustering, "groups")
    beside = [(type(each).__name__, each) for each in result.beside]
    words = {"Contributions": "worth", "RecordScores": "flagged records"}
    runs = [("training", result.own), *first, *[(words[name], each) for name, each in beside]]
    return [*blocks, *bill_sections(runs, notes=[_MODELS])]


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
