"""What is shown of what one model learnt from many, and of what teachers predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import render
from ..errors import reason
from ..federation.view import bill_rows, cost_content, missing_section
from ..render.words import (
    MISSING_NUMBER,
    count,
    decimals,
    level_in_words,
    listed,
    number,
    percent,
    printable,
)
from .figures import class_figure, confusion_figure, loss_figure, weight_figure
from .result import Distillation, Predictions
from .scores import Scores

_DRAWN_TESTS = 6
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
_INFERRED = (
    "record: predictions, from which it may be inferred whether a record was among a teacher's"
)


_TERMS = (
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


def distillation_content(
    result: Distillation, *, notes: Mapping[str, str] | None = None
) -> render.Content:
    """Declare teachers and scores, what was learnt, and the bill; ``notes`` are lines more.

    No input, no record and no model is shown.
    """
    teachers = _teachers(result)
    scores = _scores(result) if result.after else None
    warnings = _warnings(result)
    return [
        render.Headline("One model from many", " ".join(_summary(result)), warnings),
        render.on_terminal(
            [_teachers(result, result.excluded), render.Paragraph("")],
            [scores, render.Paragraph("")] if scores else None,
            render.facts({
                **_learnt(result),
                **(notes or {}),
                **bill_rows(result),
                **({"disclosed": _INFERRED} if result.disclosure == "record" else {}),
                "status": result.status,
            }),
        ),
        render.on_page(
            render.section("Before and after", "scores", scores, link="Scores") if scores else None,
            render.section("Class by class", "classes", lambda: _tests(result), link="Classes"),
            render.section(
                "How it was learnt",
                "losses",
                loss_figure(result.losses, result.by_teacher, result.teachers, result.resumed),
                render.Facts(_training(result)),
                link="Losses",
            ),
            render.section(
                "Who taught",
                "teachers",
                weight_figure(result.weights, result.teachers),
                teachers,
                _biases(result),
                link="Teachers",
            ),
            missing_section(result.excluded, "teacher"),
            render.section("The labels", "labels", _labels(result), link="Labels"),
            cost_content(
                result,
                caption="Asking the teachers, as the coordinator saw it; training is not in it.",
                disclosure=_disclosure(result),
            ),
            render.section("How to read this", "terms", render.Facts(_TERMS)),
        ),
    ]  # fmt: skip


def predictions_content(result: Predictions) -> render.Content:
    """Declare which teachers answered, how noisily, and the bill; no prediction is shown."""
    _, inputs, labels = result.outputs.shape
    rows = [
        (name, result.sizes.get(name), inputs, labels, result.noise.get(name))
        for name in result.names
    ]
    columns = [
        render.names("teacher", wrap="fold"), render.counts("records", missing="-"),
        render.Column("inputs"), render.Column("labels"),
        render.Column("noise", terminal="{:.3g}".format, page="{:.3g}".format, missing="-"),
    ]  # fmt: skip
    return [
        render.Headline("What teachers predict"),
        render.section(
            "Who answered",
            "teachers",
            render.plain_table(columns, rows),
            render.facts({"status": result.status}, terminal=bill_rows(result)),
            link="Teachers",
        ),
        missing_section(result.excluded, "teacher"),
        cost_content(result),
    ]


def _learnt(result: Distillation) -> dict[str, str]:
    """Return how the loss went, and what disturbed it, for a terminal."""
    losses = result.losses
    epochs = f"{len(losses)} epochs over {result.options['inputs']} inputs"
    rows = {
        "algorithm": result.algorithm,
        "loss": f"{losses[0]:.4g} in the first, {losses[-1]:.4g} in the last of {epochs}",
    }
    if result.resumed:
        rows["resumed"] = f"{result.resumed} of {len(losses)} epochs are those of the checkpoint"
    if result.noise:
        most = max(result.noise.values())
        rows["noise"] = f"standard deviation {most:.3g} in every probability, at most"
    return rows


def _summary(result: Distillation) -> list[str]:
    """Return the result in a few sentences."""
    taught = [printable(name) for name in _other_teachers(result)]
    inputs = count(int(result.options["inputs"]), "input")
    own = " The model as it was is one more of them." if result.options["memory"] else ""
    sentences = [
        f"{count(len(taught), 'teacher')} ({listed(taught, 6)}) taught one model, from {inputs} "
        f"without labels, in {count(len(result.losses), 'epoch')}.{own}",
        *_went(result),
    ]
    if not result.after:
        sentences.append("No test set was given: nothing is known of how good the model is.")
    return sentences


def _warnings(result: Distillation) -> list[str]:
    warnings: list[str] = []
    worse = [name for name, new in result.after.items() if _worse(result.before[name], new)]
    if worse:
        warnings.append(
            f"On {listed([printable(name) for name in worse], 6)} the model is worse than before, "
            "by semantic distance or macro F1."
        )
    for code in sorted(set(result.excluded.values())):
        absent = [printable(name) for name, own in result.excluded.items() if own == code]
        warnings.append(f"{listed(absent, 6)} took no part: {reason(code)} ({printable(code)}).")
    if len(result.losses) > 1 and result.losses[-1] >= result.losses[0]:
        warnings.append("The loss did not fall: lower the rate, or train longer.")
    drowned = [printable(name) for name, noise in result.noise.items() if noise > 0.5]
    if drowned:
        warnings.append(f"Noise drowns the predictions of {listed(drowned, 6)}.")
    return warnings


def _went(result: Distillation) -> list[str]:
    if not result.after:
        return []
    first, *others = result.after
    old, new = result.before[first], result.after[first]
    sentences = [
        f"On {printable(first)} ({count(new.records, 'record')}) macro F1 went from "
        f"{decimals(old.macro_f1, 3)} to {decimals(new.macro_f1, 3)}, and the semantic "
        f"distance, where less is better, from {decimals(old.semantic_distance, 3)} to "
        f"{decimals(new.semantic_distance, 3)}."
    ]
    if others:
        changes = [result.after[k].semantic_distance - result.before[k].semantic_distance
                   for k in others]  # fmt: skip
        better = sum(change < 0 for change in changes)
        sentences.append(f"On {better} of {count(len(others), 'other test set')} it fell as well.")
    return sentences


def _worse(old: Scores, new: Scores) -> bool:
    return new.semantic_distance > old.semantic_distance or new.macro_f1 < old.macro_f1


def _other_teachers(result: Distillation) -> tuple[str, ...]:
    """Return teachers without the model as it was, which comes last."""
    return result.teachers[:-1] if result.options["memory"] else result.teachers


def _scores(result: Distillation) -> render.Table:
    rows: list[tuple[object, ...]] = []
    for name, new in result.after.items():
        old = result.before[name]
        is_farther = new.semantic_distance > old.semantic_distance
        rows.append((
            name,
            new.records,
            render.Cell((old.macro_f1, new.macro_f1), warn=new.macro_f1 < old.macro_f1),
            render.Cell((old.accuracy, new.accuracy), warn=new.accuracy < old.accuracy),
            render.Cell((old.semantic_distance, new.semantic_distance), warn=is_farther),
        ))  # fmt: skip
    columns = [
        render.names("test set", wrap="fold"), render.counts("records"), _change("macro F1"),
        _change("accuracy", percent), _change("semantic distance"),
    ]  # fmt: skip
    return render.Table("Scores of the model, before → after; worse ones are red.", columns, rows)


def _change(title: str, write: Callable[[float], str] | None = None) -> render.Column:
    """Return the column of a number before and after."""
    write = write or partial(decimals, digits=3)
    return render.Column(
        title,
        terminal=lambda both: f"{both[0]:.3f} -> {both[1]:.3f}",
        page=lambda both: f"{write(both[0])} → {write(both[1])}",
    )


def _tests(result: Distillation) -> render.Content:
    if not result.after:
        return None
    drawn = list(result.after)[:_DRAWN_TESTS]
    more = len(result.after) - len(drawn)
    return [
        [_test(result, name) for name in drawn],
        render.Paragraph(f"{count(more, 'more test set')}: see the table of scores.", "small")
        if more
        else None,
    ]


def _test(result: Distillation, name: str) -> render.Content:
    old, new = result.before[name], result.after[name]
    rows = [
        (b.name, b.records, (a.f1, b.f1), (a.recall, b.recall), (a.distance, b.distance))
        for a, b in zip(old.per_class, new.per_class, strict=True)
    ]
    columns = [
        render.names("class"), render.counts("records"), _change("F1"), _change("recall", percent),
        _change("distance"),
    ]  # fmt: skip
    shown = printable(name)
    table = render.Table(f"{shown}, class by class, before → after.", columns, rows)
    return render.section(
        (render.Name(shown),),
        "",
        class_figure(name, old, new, result.space),
        confusion_figure(name, old, new, result.space),
        render.Details("The same as a table", [table]),
        level=3,
    )


def _teachers(result: Distillation, excluded: Mapping[str, str] | None = None) -> render.Table:
    """Return what is known of every teacher, and of those that were excluded."""
    others = _other_teachers(result)
    rows: list[tuple[object, ...]] = []
    for k, name in enumerate(result.teachers):
        weights = result.weights[k]
        # The memory has no records: its size is a stand-in.
        is_memory = name not in others
        rows.append((
            name,
            f"{name} (as it was)" if is_memory else name,
            None if is_memory else result.sizes.get(name),
            render.Cell(float(weights.mean()), float(weights.mean())),
            weights.min(),
            weights.max(),
            float(result.by_teacher[-1, k]),
            result.noise.get(name),
            "",
        ))  # fmt: skip
    nothing = (None,) * 6
    rows += [(name, name, *nothing, code) for name, code in (excluded or {}).items()]
    columns = [
        render.texts("teacher", wrap="fold", on="terminal"), render.names("teacher", on="page"),
        render.counts("records", missing="-"),
        render.digits("weight", 3, missing="-", full="mean weight"),
        render.digits("least", 3, missing="-"), render.digits("most", 3, missing="-"),
        render.numbers("loss against it, last epoch", on="page"),
        render.numbers("noise", on="page"), render.texts("excluded", wrap="fold", on="terminal"),
    ]  # fmt: skip
    return render.Table("Who taught, and how much it counted.", columns, rows, fold=40, filled=True)


def _biases(result: Distillation) -> render.Content:
    """Return the bias of every teacher, where it was measured."""
    if result.biases is None:
        return None
    labels = (printable(name, 28) for name in result.space.names)
    columns = [render.names("teacher"), *(render.digits(label, 3) for label in labels)]
    rows = [
        (name, *map(float, row)) for name, row in zip(result.teachers, result.biases, strict=True)
    ]
    caption = "Bias: what a teacher predicts for noise, on average."
    return render.Details("Biases", [render.Table(caption, columns, rows, fold=40)])


def _labels(result: Distillation) -> render.Table:
    """Return labels and where they lie."""
    space = result.space
    axes = ["coordinate"] if space.line else [f"axis {k + 1}" for k in range(space.dimension)]
    # Labels without geometry have as many axes as there are labels; they say nothing.
    shown = axes[:6]
    rows = [
        (name, *map(float, row[: len(shown)]))
        for name, row in zip(space.names, space.coordinates, strict=True)
    ]
    title = f"{printable(space.title)}: " if space.title else ""
    more = f" {len(axes) - len(shown)} more axes are left out." if len(axes) > len(shown) else ""
    metric = "Euclidean" if space.metric == "euclidean" else "city block"
    where = f"where labels lie; distances are {metric}.{more}" if axes else "labels, by costs."
    return render.Table(
        f"{title}{where}",
        [render.names("label"), *(render.Column(axis, page=_plain) for axis in shown)],
        rows,
    )


def _plain(value: float) -> str:
    return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")


def _disclosure(result: Distillation) -> render.Table:
    """Return what was told to whom."""
    level = result.disclosure
    meaning = {"record": _PREDICTIONS, "private": _NOISY}.get(level) or level_in_words(level)
    inputs = "The inputs of the transfer set, and those of the noise if weights need it."
    rows = [
        ("from teachers", level or "unknown", meaning),
        ("to teachers", MISSING_NUMBER, inputs),
    ]
    columns = [*map(render.texts, ("what left", "level", "meaning"))]
    return render.Table("The finest thing that travelled.", columns, rows)


def _training(result: Distillation) -> list[tuple[str, str]]:
    """Return how the model was trained."""
    options: dict[str, Any] = dict(result.options)
    rows = [
        ("algorithm", result.algorithm),
        ("status", printable(result.status, 600)),
        (
            "training",
            f"{options['epochs']} epochs, rate {options['rate']:g}, {options['batch']} inputs a "
            f"step, seed {options['seed']}",
        ),
    ]
    if result.resumed:
        rows.append(("resumed", f"{count(result.resumed, 'epoch')} from a checkpoint"))
    questions = [f"{options['inputs']:,} inputs"]
    questions += [f"{options['noise']:,} of noise"] if options["noise"] else []
    questions += [f"temperature {options['temperature']:g}"] if options["temperature"] != 1 else []
    if options["decimals"] is not None:
        questions.append(f"{options['decimals']} decimals")
    if options["privacy_epsilon"] is not None:
        questions.append(f"noise for epsilon {options['privacy_epsilon']:g}")
    rows.append(("questions", ", ".join(questions)))
    least = np.min(result.losses)
    epoch = int(result.losses.argmin()) + 1
    rows.append(("least loss", f"{number(float(least))}, in epoch {epoch}"))
    return rows
