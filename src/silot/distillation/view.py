"""What is shown of what one model learnt from many, and of what teachers predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from .. import render
from ..errors import reason
from ..federation.result import accuracy_interval
from ..federation.view import cost_content, cost_rows, missing_section
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
from .figures import class_figure, confusion_figure, loss_figure
from .result import Distillation, Predictions
from .scores import Scores

_DRAWN_TESTS = 6
_PREDICTIONS = (
    "Probabilities of the labels for inputs of the transfer set and of the noise, and how many "
    "records there are where a teacher sends it; no record and no parameter. That is not a "
    "guarantee: they may show whether a teacher was trained on a certain record, and a model can "
    "be "
    "copied with enough questions."
)
_NOISY = (
    "Probabilities with noise, added before they left a teacher and charged to its ledger: what "
    "all its answers together disclose about one training record is limited."
)
_INFERRED = "record: predictions, which may show whether a teacher was trained on a record"


def distillation_content(
    result: Distillation, *, notes: Mapping[str, str] | None = None
) -> render.Content:
    """Declare teachers and scores, what was learnt, and the cost; ``notes`` are lines more.

    No input, no record and no model is shown.
    """
    blank = render.Paragraph("")
    more = {**(notes or {}), **cost_rows(result)}
    if result.disclosure == "record":
        more["disclosed"] = _INFERRED
    return [
        render.Headline("One model from many", " ".join(_summary(result)), _warnings(result)),
        render.section("Before and after", _chart(result), _scores(result), blank)
        if result.after
        else None,
        render.section("On validation records", _trials(result), blank) if result.trials else None,
        render.on_page(render.section("Class by class", lambda: _tests(result))),
        render.section("Who taught", _teachers(result), blank, _biases(result)),
        missing_section(result.excluded, "teacher"),
        render.section(
            "How it was learnt",
            lambda: loss_figure(result.losses, result.by_teacher, result.teachers, result.resumed),
            render.facts(_training(result), terminal=more),
        ),
        render.on_page(render.section("The labels", _labels(result))),
        cost_content(
            result,
            caption="Questions to the teachers, as the coordinator saw them, without training.",
            disclosure=_disclosure(result),
        ),
        render.on_page(render.section("How to read this", render.terms("distillation"))),
    ]


def predictions_content(result: Predictions) -> render.Content:
    """Declare which teachers answered, how noisily, and the cost; no prediction is shown."""
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
            render.plain_table(columns, rows),
            render.facts({"status": result.status}, terminal=cost_rows(result)),
        ),
        missing_section(result.excluded, "teacher"),
        cost_content(result),
    ]


def _summary(result: Distillation) -> list[str]:
    taught = [printable(name) for name in _other_teachers(result)]
    inputs = count(int(result.options["inputs"]), "input")
    own = " The earlier model is one more teacher." if result.options["memory"] else ""
    sentences = [
        f"{count(len(taught), 'teacher')} ({listed(taught, 6)}) taught one model, from {inputs} "
        f"without labels, in {count(len(result.losses), 'epoch')}.{own}",
        *_went(result),
    ]
    if not result.after:
        sentences.append("No test set was given, so the quality of the model is not known.")
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
        warnings.append("The loss did not decrease: lower the learning rate, or train longer.")
    drowned = [printable(name) for name, noise in result.noise.items() if noise > 0.5]
    if drowned:
        warnings.append(f"The noise is larger than the predictions of {listed(drowned, 6)}.")
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
        sentences.append(
            f"The distance fell on {better} of {count(len(others), 'other test set')}."
        )
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


def _chart(result: Distillation) -> render.Intervals | None:
    rows = [
        (
            f"{name}, {when}",
            one.accuracy,
            accuracy_interval(int(np.trace(one.confusion)), one.records),
            None,
        )
        for name, new in result.after.items()
        for when, one in (("before", result.before[name]), ("after", new))
    ]
    return render.share_chart("Accuracy before and after, with 95 % intervals.", rows)


def _trials(result: Distillation) -> render.Table:
    columns = [
        render.names("on validation", wrap="fold"),
        render.Column("Brier score", terminal="{:.3f}".format, page="{:.3f}".format),
        render.Column("accuracy", terminal="{:.3f}".format, page="{:.3f}".format),
    ]
    rows = [(f"{t.what} {t.name}", t.score, t.accuracy) for t in result.trials]
    return render.plain_table(columns, rows)


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
        class_figure(name, old, new, result.space),
        confusion_figure(name, old, new, result.space),
        render.Details("The same as a table", [table]),
        level=3,
    )


def _teachers(result: Distillation) -> render.Table:
    others = _other_teachers(result)
    rows: list[tuple[object, ...]] = []
    for k, name in enumerate(result.teachers):
        weights = result.weights[k]
        # The memory has no records: its size is a stand-in.
        is_memory = name not in others
        rows.append((
            f"{name} (before training)" if is_memory else name,
            None if is_memory else result.sizes.get(name),
            render.Cell(float(weights.mean()), float(weights.mean())),
            weights.min(),
            weights.max(),
            float(result.by_teacher[-1, k]),
            result.noise.get(name),
        ))  # fmt: skip
    columns = [
        render.names("teacher", wrap="fold"), render.counts("records", missing="-"),
        render.digits("weight", 3, missing="-", full="mean weight"),
        render.digits("least", 3, missing="-"), render.digits("most", 3, missing="-"),
        render.numbers("loss against it, last epoch", on="page"),
        render.numbers("noise", on="page"),
    ]  # fmt: skip
    return render.Table("Teachers and their weights.", columns, rows, fold=40, filled=True)


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
    level = result.disclosure
    meaning = {"record": _PREDICTIONS, "private": _NOISY}.get(level) or level_in_words(level)
    inputs = "The inputs of the transfer set, and random inputs if the weights need them."
    rows = [
        ("from teachers", level or "unknown", meaning),
        ("to teachers", MISSING_NUMBER, inputs),
    ]
    columns = [*map(render.texts, ("what left", "level", "meaning"))]
    return render.Table("The most detailed thing that was sent.", columns, rows)


def _training(result: Distillation) -> dict[str, str]:
    options: dict[str, Any] = dict(result.options)
    losses = result.losses
    rows = {
        "algorithm": result.algorithm,
        "training": f"{len(losses)} epochs, rate {options['rate']:g}, {options['batch']} inputs a "
        f"step, seed {options['seed']}",
        "least loss": f"{number(float(losses.min()))}, in epoch {int(losses.argmin()) + 1}",
    }
    if result.resumed:
        rows["resumed"] = f"{result.resumed} of {len(losses)} epochs come from the checkpoint"
    if result.noise:
        most = max(result.noise.values())
        rows["noise"] = f"standard deviation {most:.3g} in every probability, at most"
    if result.excluded:
        excluded = (f"{printable(name)} ({code})" for name, code in result.excluded.items())
        rows["excluded"] = ", ".join(excluded)
    questions = [f"{options['inputs']:,} inputs"]
    questions += [f"{options['noise']:,} of noise"] if options["noise"] else []
    questions += [f"temperature {options['temperature']:g}"] if options["temperature"] != 1 else []
    if options["decimals"] is not None:
        questions.append(f"{options['decimals']} decimals")
    if options["privacy_epsilon"] is not None:
        questions.append(f"noise for epsilon {options['privacy_epsilon']:g}")
    return rows | {"questions": ", ".join(questions), "status": printable(result.status, 600)}
