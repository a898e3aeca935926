"""What one model learnt from many: the tables of a terminal, and the page."""

from __future__ import annotations

from collections.abc import Mapping

from ..federation.view import bill_rows, bill_sections, facts, missing_table
from ..render import (
    Block,
    Column,
    Details,
    Facts,
    Heading,
    Paragraph,
    Table,
    plain_table,
    textual,
)
from .result import Distillation, Predictions
from .sections import (
    CODES,
    TERMS,
    biases_table,
    disclosure_table,
    labels_table,
    summary_blocks,
    teachers_table,
    tests_blocks,
    training_facts,
)


def distillation_sections(
    found: Distillation, *, notes: Mapping[str, str] | None = None
) -> list[Block]:
    """Teachers and scores, what was learnt, and the bill; ``notes`` are lines more."""
    losses = found.losses
    epochs = f"{len(losses)} epochs over {found.options['inputs']} inputs"
    rows = {
        "algorithm": found.algorithm,
        "loss": f"{losses[0]:.4g} in the first, {losses[-1]:.4g} in the last of {epochs}",
    }
    if found.resumed:
        rows["resumed"] = f"{found.resumed} of {len(losses)} epochs are those of the checkpoint"
    if found.noise:
        most = max(found.noise.values())
        rows["noise"] = f"standard deviation {most:.3g} in every probability, at most"
    told = bill_rows(found)
    if found.disclosure == "record":
        told["disclosed"] = (
            "record: predictions, from which it may be inferred whether a record was among a "
            "teacher's"
        )
    blocks: list[Block] = [_taught(found), Paragraph("")]
    if found.after:
        blocks += [_tested(found), Paragraph("")]
    return [*blocks, facts({**rows, **(notes or {}), **told, "status": found.status})]


def _taught(found: Distillation) -> Table:
    columns = [textual("teacher", "fold"), *map(Column, ("records", "weight", "least", "most"))]
    columns += [textual("excluded", "fold")] if found.excluded else []
    rows: list[list[str]] = []
    for name, row in zip(found.teachers, found.weights, strict=True):
        # The memory has no records: its size is a stand-in.
        own = bool(found.options["memory"]) and name == found.teachers[-1]
        size = None if own else found.sizes.get(name)
        weights = (f"{value:.3f}" for value in (row.mean(), row.min(), row.max()))
        rest = [""] if found.excluded else []
        rows.append([name, "-" if size is None else f"{size:.0f}", *weights, *rest])
    rows += [[name, "-", "-", "-", "-", code] for name, code in found.excluded.items()]
    return plain_table(columns, rows)


def _tested(found: Distillation) -> Table:
    heads = ("records", "macro F1", "accuracy", "semantic distance")
    rows = [
        [
            name,
            str(after.records),
            *(
                f"{getattr(found.before[name], what):.3f} -> {getattr(after, what):.3f}"
                for what in ("macro_f1", "accuracy", "semantic_distance")
            ),
        ]
        for name, after in found.after.items()
    ]
    return plain_table([textual("test set", "fold"), *map(Column, heads)], rows)


def predictions_sections(found: Predictions) -> list[Block]:
    """Which teachers answered, how noisily, and the bill; no prediction."""
    return [_answered(found), facts({"status": found.status, **bill_rows(found)})]


def predictions_page(found: Predictions) -> list[Block]:
    """The page of the same."""
    blocks: list[Block] = [
        Heading("What teachers predict", level=1),
        Heading("Who answered", "teachers", "Teachers"),
        _answered(found),
        facts({"status": found.status}),
    ]
    if found.excluded:
        blocks += [
            Heading("Teachers left out", "missing", "Teachers left out"),
            missing_table(found.excluded, CODES, "teacher"),
        ]
    return [*blocks, *bill_sections([("", found)])]


def _answered(found: Predictions) -> Table:
    _, inputs, labels = found.outputs.shape
    rows: list[list[str]] = []
    for name in found.names:
        size, noise = found.sizes.get(name), found.noise.get(name)
        told = ["-" if size is None else f"{size:.0f}", str(inputs), str(labels)]
        rows.append([name, *told, "-" if noise is None else f"{noise:.3g}"])
    heads = ("records", "inputs", "labels", "noise")
    return plain_table([textual("teacher", "fold"), *map(Column, heads)], rows)


def distillation_page(found: Distillation) -> list[Block]:
    """The page of a distillation; it contains no input, no record and no model."""
    # Slow to import: they draw.
    from .figures import loss_figure, weight_figure

    blocks = [Heading("One model from many", level=1), *summary_blocks(found), *tests_blocks(found)]
    blocks += [
        Heading("How it was learnt", "losses", "Losses"),
        loss_figure(found.losses, found.by_teacher, found.teachers, found.resumed),
        Facts(training_facts(found)),
        Heading("Who taught", "teachers", "Teachers"),
        weight_figure(found.weights, found.teachers),
        teachers_table(found),
    ]
    biases = biases_table(found)
    if biases is not None:
        blocks.append(Details("Biases", [biases]))
    if found.excluded:
        blocks += [
            Heading("Teachers left out", "missing", "Teachers left out"),
            missing_table(found.excluded, CODES, "teacher"),
        ]
    return [
        *blocks,
        Heading("The labels", "labels", "Labels"),
        labels_table(found),
        *bill_sections(
            [("", found)],
            caption="Asking the teachers, as the coordinator saw it; training is not in it.",
            disclosure=disclosure_table(found),
        ),
        Heading("How to read this", "terms", "How to read this"),
        Facts(TERMS),
    ]
