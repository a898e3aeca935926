"""What a page says of a distillation, in sentences, tables and drawings."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..render import (
    Block,
    Cell,
    Column,
    Details,
    Heading,
    Name,
    Paragraph,
    Table,
    textual,
)
from ..render.words import (
    MISSING_NUMBER,
    count,
    decimals,
    level_in_words,
    listed,
    number,
    percent,
    printable,
    reason,
)
from .result import Distillation
from .scores import Scores

_DRAWN_TESTS = 6
CODES = {
    "prediction-nan": "it answered with numbers that are not finite",
    "prediction-simplex": "its answers were no probabilities",
    "prediction-labels": "it answered about another number of labels",
    "prediction-rows": "it answered about another number of inputs",
    "labels-mismatch": "it has a label that is none of the label space",
    "size-absent": "it does not tell how many records it was trained on",
    "inputs-absent": "it does not have the shared transfer set",
    "inputs-mismatch": "its transfer set is another one",
    "ledger-budget": "its budget of differentially private releases is used up",
    "ledger-absent": "it has no ledger to charge a differentially private release to",
    "teacher-question": "it does not answer this kind of question",
}
_PREDICTIONS = (
    "Probabilities of the labels for inputs of the transfer set and of the noise, and how many "
    "records there are where a teacher tells; no record and no parameter. That is no "
    "guarantee: whether a given record was among a teacher's may be inferred from them, and a "
    "model can be copied by asking it often enough."
)
_NOISY = (
    "Probabilities with noise, added before they left a teacher and charged to its ledger: what "
    "all its answers tell about one training record is bounded."
)


TERMS = (
    (
        "teacher",
        "A party with a model trained on its own records. It answers with probabilities of the "
        "labels. “global” is the model itself as it was before: it teaches too, so that what it "
        "knew is not forgotten.",
    ),
    (
        "weight",
        "How much a teacher counts for one input; weights of all teachers sum to 1. By "
        "confidence, it is the distance of its prediction from its bias, its mean prediction over "
        "inputs that mean nothing. A sure teacher can be wrong.",
    ),
    (
        "loss",
        "How far predictions of the model are from those of its teachers, not from the truth. By "
        "transport, it is what moving probability from label to label costs, in the unit of the "
        "labels' coordinates.",
    ),
    (
        "expected coordinate",
        "The mean of the labels' coordinates, weighted by their probabilities.",
    ),
    (
        "semantic distance",
        "Mean over the classes of the mean distance of the expected coordinates from those of the "
        "true label. 0 is best. A model that takes 1 star for 5 has a larger one than a model "
        "that takes 4 for 5; accuracy and F1 count both alike.",
    ),
    (
        "macro F1",
        "Mean over the classes of the harmonic mean of precision and recall: rare classes count "
        "as much as others.",
    ),
)


def tests_blocks(found: Distillation) -> list[Block]:
    """Scores before and after, by test set."""
    if not found.after:
        return []
    drawn = list(found.after)[:_DRAWN_TESTS]
    blocks: list[Block] = [
        Heading("Before and after", "scores", "Scores"),
        _scores(found),
        Heading("Class by class", "classes", "Classes"),
    ]
    for name in drawn:
        blocks += _test(found, name)
    more = len(found.after) - len(drawn)
    if more:
        blocks.append(
            Paragraph(f"{count(more, 'more test set')}: see the table of scores.", "small")
        )
    return blocks


def summary_blocks(found: Distillation) -> list[Block]:
    """The result in a few sentences."""
    taught = [printable(name) for name in _others(found)]
    inputs = count(int(found.options["inputs"]), "input")
    own = " The model as it was is one more of them." if found.options["memory"] else ""
    sentences = [
        f"{count(len(taught), 'teacher')} ({listed(taught, 6)}) taught one model, from {inputs} "
        f"without labels, in {count(len(found.losses), 'epoch')}.{own}"
    ]
    sentences += _went(found)
    if not found.after:
        sentences.append("No test set was given: nothing is known of how good the model is.")
    lines = [Paragraph(line, "warning") for line in _warnings(found)]
    return [Paragraph(" ".join(sentences), "lead"), *lines]


def _warnings(found: Distillation) -> list[str]:
    warnings: list[str] = []
    worse = [name for name, new in found.after.items() if _worse(found.before[name], new)]
    if worse:
        warnings.append(
            f"On {listed([printable(name) for name in worse], 6)} the model is worse than before, "
            "by semantic distance or macro F1."
        )
    for code in sorted(set(found.excluded.values())):
        names = [printable(name) for name, own in found.excluded.items() if own == code]
        warnings.append(f"{listed(names, 6)} took no part: {_why(code)} ({printable(code)}).")
    if len(found.losses) > 1 and found.losses[-1] >= found.losses[0]:
        warnings.append("The loss did not fall: lower the rate, or train longer.")
    drowned = [printable(name) for name, noise in found.noise.items() if noise > 0.5]
    if drowned:
        warnings.append(f"Noise drowns the predictions of {listed(drowned, 6)}.")
    return warnings


def _went(found: Distillation) -> list[str]:
    if not found.after:
        return []
    first, *others = found.after
    old, new = found.before[first], found.after[first]
    told = [
        f"On {printable(first)} ({count(new.records, 'record')}) macro F1 went from "
        f"{decimals(old.macro_f1, 3)} to {decimals(new.macro_f1, 3)}, and the semantic "
        f"distance, where less is better, from {decimals(old.semantic_distance, 3)} to "
        f"{decimals(new.semantic_distance, 3)}."
    ]
    if others:
        changes = [found.after[k].semantic_distance - found.before[k].semantic_distance
                   for k in others]  # fmt: skip
        better = sum(change < 0 for change in changes)
        told.append(f"On {better} of {count(len(others), 'other test set')} it fell as well.")
    return told


def _worse(old: Scores, new: Scores) -> bool:
    return new.semantic_distance > old.semantic_distance or new.macro_f1 < old.macro_f1


def _others(found: Distillation) -> tuple[str, ...]:
    """Teachers without the model as it was, which comes last."""
    return found.teachers[:-1] if found.options["memory"] else found.teachers


def _scores(found: Distillation) -> Table:
    columns = (
        textual("test set"),
        Column("records"),
        Column("macro F1"),
        Column("accuracy"),
        Column("semantic distance"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, new in found.after.items():
        old = found.before[name]
        rows.append(
            (
                Cell(printable(name)),
                Cell(f"{new.records:,}"),
                _both(decimals(old.macro_f1, 3), decimals(new.macro_f1, 3),
                      warn=new.macro_f1 < old.macro_f1),
                _both(percent(old.accuracy), percent(new.accuracy),
                      warn=new.accuracy < old.accuracy),
                _both(decimals(old.semantic_distance, 3), decimals(new.semantic_distance, 3),
                      warn=new.semantic_distance > old.semantic_distance),
            )
        )  # fmt: skip
    return Table("Scores of the model, before → after; worse ones are red.", columns, rows)


def _both(before: str, after: str, *, warn: bool = False) -> Cell:
    return Cell(f"{before} → {after}", warn=warn)


def _test(found: Distillation, name: str) -> list[Block]:
    old, new = found.before[name], found.after[name]
    columns = (
        textual("class"),
        Column("records"),
        Column("F1"),
        Column("recall"),
        Column("distance"),
    )
    rows = [
        (
            Cell(printable(b.name)),
            Cell(f"{b.records:,}"),
            _both(decimals(a.f1, 3), decimals(b.f1, 3)),
            _both(percent(a.recall), percent(b.recall)),
            _both(decimals(a.distance, 3), decimals(b.distance, 3)),
        )
        for a, b in zip(old.per_class, new.per_class, strict=True)
    ]
    shown = printable(name)
    # Slow to import: they draw.
    from .figures import class_figure, confusion_figure

    return [
        Heading((Name(shown),), level=3),
        class_figure(name, old, new, found.space),
        confusion_figure(name, old, new, found.space),
        Details(
            "The same as a table",
            [Table(f"{shown}, class by class, before → after.", columns, rows)],
        ),
    ]


def teachers_table(found: Distillation) -> Table:
    """What is known of every teacher."""
    noisy = bool(found.noise)
    columns = [
        textual("teacher"),
        Column("records"),
        Column("mean weight"),
        Column("least"),
        Column("most"),
        Column("loss against it, last epoch"),
    ]
    columns += [Column("noise")] if noisy else []
    others = _others(found)
    rows: list[tuple[Cell, ...]] = []
    for k, name in enumerate(found.teachers):
        row, mean = found.weights[k], float(found.weights[k].mean())
        size = found.sizes.get(name) if name in others else None
        cells = [
            Cell(printable(name) if name in others else f"{printable(name)} (as it was)"),
            Cell(MISSING_NUMBER if size is None else f"{size:,.0f}"),
            Cell(decimals(mean, 3), bar=mean),
            Cell(decimals(float(row.min()), 3)),
            Cell(decimals(float(row.max()), 3)),
            Cell(number(float(found.by_teacher[-1, k]))),
        ]
        if noisy:
            cells.append(Cell(number(found.noise[name]) if name in found.noise else MISSING_NUMBER))
        rows.append(tuple(cells))
    return Table("Who taught, and how much it counted.", tuple(columns), rows, fold=40)


def biases_table(found: Distillation) -> Table | None:
    """Bias of every teacher, where it was measured."""
    if found.biases is None:
        return None
    names = [printable(name, 28) for name in found.space.names]
    columns = (textual("teacher"), *(Column(name) for name in names))
    rows = [
        (Cell(printable(name)), *(Cell(decimals(float(value), 3)) for value in row))
        for name, row in zip(found.teachers, found.biases, strict=True)
    ]
    return Table("Bias: what a teacher predicts for noise, on average.", columns, rows, fold=40)


def labels_table(found: Distillation) -> Table:
    """Labels and where they lie."""
    space = found.space
    axes = ["coordinate"] if space.line else [f"axis {k + 1}" for k in range(space.dimension)]
    # Labels without geometry have as many axes as there are labels; they say nothing.
    shown = axes[:6]
    columns = (textual("label"), *(Column(axis) for axis in shown))
    rows = [
        (Cell(printable(name)), *(Cell(_plain(float(value))) for value in row[: len(shown)]))
        for name, row in zip(space.names, space.coordinates, strict=True)
    ]
    title = f"{printable(space.title)}: " if space.title else ""
    more = f" {len(axes) - len(shown)} more axes are left out." if len(axes) > len(shown) else ""
    metric = "Euclidean" if space.metric == "euclidean" else "city block"
    return Table(f"{title}where labels lie; distances are {metric}.{more}", columns, rows)


def _plain(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _why(code: str) -> str:
    return CODES.get(code) or reason(code)


def disclosure_table(found: Distillation) -> Table:
    """What was told to whom."""
    level = found.disclosure
    meaning = {"record": _PREDICTIONS, "sketch": _NOISY}.get(level) or level_in_words(level)
    rows = [(Cell("from teachers"), Cell(level or "unknown"), Cell(meaning))]
    rows.append(
        (
            Cell("to teachers"),
            Cell(MISSING_NUMBER),
            Cell("The inputs of the transfer set, and those of the noise if weights need it."),
        )
    )
    columns = [textual(title) for title in ("what left", "level", "meaning")]
    return Table("The finest thing that travelled.", columns, rows)


def training_facts(found: Distillation) -> list[tuple[str, str]]:
    """How the model was trained."""
    options: dict[str, Any] = dict(found.options)
    facts = [
        ("algorithm", found.algorithm),
        ("status", printable(found.status, 600)),
        (
            "training",
            f"{options['epochs']} epochs, rate {options['rate']:g}, {options['batch']} inputs a "
            f"step, seed {options['seed']}",
        ),
    ]
    if found.resumed:
        facts.append(("resumed", f"{count(found.resumed, 'epoch')} from a checkpoint"))
    questions = [f"{options['inputs']:,} inputs"]
    questions += [f"{options['noise']:,} of noise"] if options["noise"] else []
    questions += [f"temperature {options['temperature']:g}"] if options["temperature"] != 1 else []
    if options["decimals"] is not None:
        questions.append(f"{options['decimals']} decimals")
    if options["privacy_epsilon"] is not None:
        questions.append(f"noise for epsilon {options['privacy_epsilon']:g}")
    facts.append(("questions", ", ".join(questions)))
    least = np.min(found.losses)
    facts.append(
        ("least loss", f"{number(float(least))}, in epoch {int(found.losses.argmin()) + 1}")
    )
    return facts
