"""What is shown of what one model learnt from many, and of what teachers predict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np

from .. import render
from ..federation.result import accuracy_interval
from ..federation.view import absences, cost_content, cost_rows, missing_section
from ..render.words import count, decimals, level_in_words, named, number, percent, printable
from .figures import class_figure, confusion_figure, loss_figure
from .result import Distillation, Predictions
from .scores import Scores

_DRAWN_TESTS = 6
_MEANING = {
    "record": "Probabilities of the labels for inputs of the transfer set and of the noise, and "
    "how many records there are where a teacher sends it; no record and no parameter. That is not "
    "a guarantee: they may show whether a teacher was trained on a certain record, and a model can "
    "be copied with enough questions.",
    "private": "Probabilities with noise, added before they left a teacher and charged to its "
    "ledger: what all its answers together disclose about one training record is limited.",
}
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
    scores = [render.digits(title, 3, of=of) for title, of in
              (("Brier score", "score"), ("accuracy", ""))]  # fmt: skip
    tried = render.names("on validation", of=lambda one: f"{one.what} {one.name}", wrap="fold")
    trials = render.table("", result.trials, tried, *scores, fold=None)
    return [
        render.Headline("One model from many", _summary(result), _warnings(result)),
        bool(result.after)
        and render.section("Before and after", _chart(result), _scores(result), blank),
        bool(result.trials) and render.section("On validation records", trials, blank),
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
            disclosure=_disclosure(result.disclosure),
        ),
        render.on_page(render.section("How to read this", render.terms("distillation"))),
    ]


def predictions_content(result: Predictions) -> render.Content:
    """Declare which teachers answered, how noisily, and the cost; no prediction is shown."""
    rows = [
        (name, result.sizes.get(name), *result.outputs.shape[1:], result.noise.get(name))
        for name in result.names
    ]
    write = "{:.3g}".format
    columns = [
        render.names("teacher", wrap="fold"), render.counts("records", missing="-"),
        render.Column("inputs"), render.Column("labels"),
        render.Column("noise", terminal=write, page=write, missing="-"),
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


def _summary(result: Distillation) -> str:
    taught = _other_teachers(result)
    inputs = count(int(result.options["inputs"]), "input")
    own = " The earlier model is one more teacher." if result.options["memory"] else ""
    sentences = [
        f"{count(len(taught), 'teacher')} ({named(taught)}) taught one model, from {inputs} "
        f"without labels, in {count(len(result.losses), 'epoch')}.{own}"
    ]
    for name, new in [*result.after.items()][:1]:
        old = result.before[name]
        sentences.append(
            f"On {printable(name)} ({count(new.records, 'record')}) macro F1 went from "
            f"{decimals(old.macro_f1, 3)} to {decimals(new.macro_f1, 3)}, and the semantic "
            f"distance, where less is better, from {decimals(old.semantic_distance, 3)} to "
            f"{decimals(new.semantic_distance, 3)}."
        )
    others = [_changes(result, name)[1] for name in result.after][1:]
    if others:
        better, tests = sum(far < 0 for far in others), count(len(others), "other test set")
        sentences.append(f"The distance fell on {better} of {tests}.")
    if not result.after:
        sentences.append("No test set was given, so the quality of the model is not known.")
    return " ".join(sentences)


def _changes(result: Distillation, name: str) -> tuple[float, float]:
    """Return how macro F1 and the semantic distance changed on a test set."""
    old, new = result.before[name], result.after[name]
    return new.macro_f1 - old.macro_f1, new.semantic_distance - old.semantic_distance


def _warnings(result: Distillation) -> list[str]:
    warnings = absences(result.excluded)
    changes = {name: _changes(result, name) for name in result.after}
    if worse := named(name for name, (score, far) in changes.items() if far > 0 or score < 0):
        words = "the model is worse than before, by semantic distance or macro F1."
        warnings.insert(0, f"On {worse} {words}")
    if len(result.losses) > 1 and result.losses[-1] >= result.losses[0]:
        warnings.append("The loss did not decrease: lower the learning rate, or train longer.")
    if drowned := named(name for name, noise in result.noise.items() if noise > 0.5):
        warnings.append(f"The noise is larger than the predictions of {drowned}.")
    return warnings


def _other_teachers(result: Distillation) -> tuple[str, ...]:
    """Return teachers without the model as it was, which comes last."""
    return result.teachers[:-1] if result.options["memory"] else result.teachers


def _scores(result: Distillation) -> render.Table:
    tests = [(name, result.before[name], new) for name, new in result.after.items()]
    return render.table(
        "Scores of the model, before → after; worse ones are red.",
        tests,
        render.names("test set", wrap="fold", of=lambda test: test[0]),
        render.counts("records", of=lambda test: test[2].records),
        _change("macro F1"),
        _change("accuracy", percent),
        _change("semantic distance", is_better=np.less_equal),
    )


def _change(
    title: str,
    write: Callable[[float], str] | None = None,
    is_better: Callable[[float, float], Any] | None = np.greater_equal,
) -> render.Column:
    """Return the column of a number before and after, of which worse ones are marked."""
    read, write = attrgetter(title.lower().replace(" ", "_")), write or partial(decimals, digits=3)

    def cell(item: tuple[str, Any, Any]) -> render.Cell:
        old, new = read(item[1]), read(item[2])
        return render.Cell((old, new), warn=is_better is not None and not is_better(new, old))

    return render.Column(
        title,
        of=cell,
        terminal=lambda both: f"{both[0]:.3f} -> {both[1]:.3f}",
        page=lambda both: f"{write(both[0])} → {write(both[1])}",
    )


def _chart(result: Distillation) -> render.Intervals | None:
    rows = [
        (f"{name}, {when}", one.accuracy,
         accuracy_interval(int(np.trace(one.confusion)), one.records), None)
        for name, new in result.after.items()
        for when, one in (("before", result.before[name]), ("after", new))
    ]  # fmt: skip
    return render.share_chart("Accuracy before and after, with 95 % intervals.", rows)


def _tests(result: Distillation) -> render.Content:
    names = list(result.after)
    more = f"{count(len(names) - _DRAWN_TESTS, 'more test set')}: see the table of scores."
    return [
        [_test(result, name, result.before[name], result.after[name])
         for name in names[:_DRAWN_TESTS]],
        len(names) > _DRAWN_TESTS and render.Paragraph(more, "small"),
    ]  # fmt: skip


def _test(result: Distillation, name: str, old: Scores, new: Scores) -> render.Content:
    change = partial(_change, is_better=None)
    table = render.table(
        f"{printable(name)}, class by class, before → after.",
        [(one.name, old, one) for old, one in zip(old.per_class, new.per_class, strict=True)],
        render.names("class", of=lambda one: one[0]),
        render.counts("records", of=lambda one: one[2].records),
        *(change("F1"), change("recall", percent), change("distance")),
    )
    return render.section(
        (render.Name(printable(name)),),
        class_figure(name, old, new, result.space),
        confusion_figure(name, old, new, result.space),
        render.Details("The same as a table", [table]),
        level=3,
    )


def _teachers(result: Distillation) -> render.Table:
    others = _other_teachers(result)
    rows = [
        # The memory has no records: its size is a stand-in.
        (name if name in others else f"{name} (before training)",
         result.sizes.get(name) if name in others else None,
         float(weights.mean()), weights.min(), weights.max(), float(loss), result.noise.get(name))
        for name, weights, loss in zip(
            result.teachers, result.weights, result.by_teacher[-1], strict=True
        )
    ]  # fmt: skip
    columns = [
        render.names("teacher", wrap="fold"), render.counts("records", missing="-"),
        render.digits("weight", 3, missing="-", full="mean weight", bar=1),
        render.digits("least", 3, missing="-"), render.digits("most", 3, missing="-"),
        render.numbers("loss against it, last epoch", on="page"),
        render.numbers("noise", on="page"),
    ]  # fmt: skip
    return render.Table("Teachers and their weights.", columns, rows, fold=40, filled=True)


def _biases(result: Distillation) -> render.Content:
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

    def plain(value: float) -> str:
        return f"{value:.4g}".replace("-", "\N{MINUS SIGN}")

    columns = [render.names("label"), *(render.Column(axis, page=plain) for axis in shown)]
    return render.Table(f"{title}{where}", columns, rows)


def _disclosure(level: str) -> render.Table:
    inputs = "The inputs of the transfer set, and random inputs if the weights need them."
    rows = [
        ("from teachers", level or "unknown", _MEANING.get(level) or level_in_words(level)),
        ("to teachers", None, inputs),
    ]
    columns = [*map(render.texts, ("what left", "level", "meaning"))]
    return render.Table("The most detailed thing that was sent.", columns, rows)


def _training(result: Distillation) -> dict[str, str | None]:
    options: dict[str, Any] = dict(result.options)
    losses, noise = result.losses, max(result.noise.values(), default=0.0)
    excluded = (f"{printable(name)} ({code})" for name, code in result.excluded.items())
    questions = {
        f"{options['inputs']:,} inputs": True,
        f"{options['noise']:,} of noise": options["noise"],
        f"temperature {options['temperature']:g}": options["temperature"] != 1,
        f"{options['decimals']} decimals": options["decimals"] is not None,
        f"noise for epsilon {options['privacy_epsilon'] or 0:g}": options["privacy_epsilon"],
    }
    resumed = f"{result.resumed} of {len(losses)} epochs come from the checkpoint"
    return {
        "algorithm": result.algorithm,
        "training": f"{len(losses)} epochs, rate {options['rate']:g}, {options['batch']} inputs a "
        f"step, seed {options['seed']}",
        "least loss": f"{number(float(losses.min()))}, in epoch {int(losses.argmin()) + 1}",
        "resumed": resumed if result.resumed else None,
        "noise": f"standard deviation {noise:.3g} in every probability, at most"
        if result.noise
        else None,
        "excluded": ", ".join(excluded) or None,
        "questions": ", ".join(words for words, is_said in questions.items() if is_said),
        "status": printable(result.status, 600),
    }
