"""What a report says of a distillation, in tables and sentences."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..distillation.scores import Scores
from ..results import format_bytes
from ..results.distillation import Distillation
from ._distill_figures import class_figure, confusion_figure, loss_figure, weight_figure
from ._figures import Picture
from ._sections import Cell, Column, Summary, Table
from ._words import (
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

_DRAWN_TESTS = 6
_CODES = {
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


@dataclass(frozen=True)
class TestSet:
    """One test set."""

    name: str
    classes: Picture
    confusion: Picture
    table: Table


@dataclass(frozen=True)
class Parts:
    """Everything that the template shows."""

    scores: Table | None
    tests: list[TestSet]
    undrawn: int
    losses: Picture
    weights: Picture
    teachers: Table
    biases: Table | None
    labels: Table
    excluded: Table | None
    bill: Table
    disclosure: Table
    facts: list[tuple[str, str]]


def summary(found: Distillation) -> Summary:
    """The result in a few sentences."""
    taught = [printable(name) for name in _others(found)]
    inputs = count(int(found.options["inputs"]), "input")
    own = " The model as it was is one more of them." if found.options["memory"] else ""
    sentences = [
        f"{count(len(taught), 'teacher')} ({listed(taught, 6)}) taught one model, from {inputs} "
        f"without labels, in {count(len(found.losses), 'epoch')}.{own}"
    ]
    warnings: list[str] = []
    sentences += _went(found)
    if not found.after:
        sentences.append("No test set was given: nothing is known of how good the model is.")
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
    return Summary(sentences, warnings)


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


def parts(found: Distillation) -> Parts:
    """Figures and tables."""
    drawn = list(found.after)[:_DRAWN_TESTS]
    return Parts(
        scores=_scores(found) if found.after else None,
        tests=[_test(found, name) for name in drawn],
        undrawn=len(found.after) - len(drawn),
        losses=loss_figure(found.losses, found.by_teacher, found.teachers, found.resumed),
        weights=weight_figure(found.weights, found.teachers),
        teachers=_teachers(found),
        biases=_biases(found),
        labels=_labels(found),
        excluded=_excluded(found),
        bill=_bill(found),
        disclosure=_disclosure(found),
        facts=_facts(found),
    )


def _scores(found: Distillation) -> Table:
    columns = (
        Column("test set", numeric=False),
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


def _test(found: Distillation, name: str) -> TestSet:
    old, new = found.before[name], found.after[name]
    columns = (
        Column("class", numeric=False),
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
    return TestSet(
        shown,
        class_figure(name, old, new, found.space),
        confusion_figure(name, old, new, found.space),
        Table(f"{shown}, class by class, before → after.", columns, rows),
    )


def _teachers(found: Distillation) -> Table:
    noisy = bool(found.noise)
    columns = [
        Column("teacher", numeric=False),
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


def _biases(found: Distillation) -> Table | None:
    if found.biases is None:
        return None
    names = [printable(name, 28) for name in found.space.names]
    columns = (Column("teacher", numeric=False), *(Column(name) for name in names))
    rows = [
        (Cell(printable(name)), *(Cell(decimals(float(value), 3)) for value in row))
        for name, row in zip(found.teachers, found.biases, strict=True)
    ]
    return Table("Bias: what a teacher predicts for noise, on average.", columns, rows, fold=40)


def _labels(found: Distillation) -> Table:
    space = found.space
    axes = ["coordinate"] if space.line else [f"axis {k + 1}" for k in range(space.dimension)]
    # Labels without geometry have as many axes as there are labels; they say nothing.
    shown = axes[:6]
    columns = (Column("label", numeric=False), *(Column(axis) for axis in shown))
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
    return _CODES.get(code) or reason(code)


def _excluded(found: Distillation) -> Table | None:
    if not found.excluded:
        return None
    rows = [
        (Cell(printable(name)), Cell(f"{_why(code)}."), Cell(printable(code)))
        for name, code in found.excluded.items()
    ]
    columns = tuple(Column(title, numeric=False) for title in ("teacher", "why", "code"))
    return Table("Teachers that took no part.", columns, rows)


def _bill(found: Distillation) -> Table:
    columns = [Column("rounds"), Column("sent"), Column("received"), Column("time")]
    row = [
        Cell(f"{found.rounds:,}"),
        Cell(format_bytes(found.bytes_sent)),
        Cell(format_bytes(found.bytes_received)),
        Cell(f"{found.seconds:.2f} s"),
    ]
    if found.privacy_mu > 0:
        columns.append(Column("charged to a ledger, at most"))
        row.append(Cell(f"mu {number(found.privacy_mu)}"))
    return Table(
        "Asking the teachers, as the coordinator saw it; training is not in it.",
        tuple(columns),
        [tuple(row)],
    )


def _disclosure(found: Distillation) -> Table:
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
    columns = tuple(Column(title, numeric=False) for title in ("what left", "level", "meaning"))
    return Table("The finest thing that travelled.", columns, rows)


def _facts(found: Distillation) -> list[tuple[str, str]]:
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
