"""Confident Sinkhorns, table 1: the data, and scores of the local models."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evidence.common import Context
from evidence.distillation._setting import LOOK, SETTINGS
from evidence.distillation._tables import seeds_of, workers
from evidence.distillation._texts import TASKS
from evidence.report import Claim, Judged, Report, Table, number, pick, verdict

# What a score may be off and agree.
CLOSE = 0.05
QUICK = {"SETTINGS": LOOK}


@dataclass(frozen=True)
class Local:
    """A party's numbers of texts, and the scores of its own model on its own test texts."""

    sizes: tuple[int, int, int]
    f1: float
    accuracy: float


def run(context: Context) -> Report:
    seeds = seeds_of(context)[:3]
    work = [(context, name, seed) for name in TASKS for seed in seeds]
    runs: dict[tuple[str, str], list[Local]] = {}
    with workers() as pool:
        for (_, name, seed), parties in zip(work, pool.map(_trained, work), strict=True):
            for party, local in parties.items():
                runs.setdefault((name, party), []).append(local)
            context.say(f"{name}, seed {seed}")
    table = Table(
        "Texts of every party, and scores of its own model on its own test texts: mean ± sd.",
        ["task", "party", "train", "validation", "test", "macro F1", "accuracy"],
        [
            [name, party, *(f"{round(size)}" for size in np.mean([k.sizes for k in each], axis=0)),
             *(f"{np.mean(values):.2f} ± {np.std(values):.2f}"
               for values in ([k.f1 for k in each], [k.accuracy for k in each]))]
            for (name, party), each in runs.items()
        ],
    )  # fmt: skip
    return Report(
        title="Confident Sinkhorns, table 1: data and local models",
        about="How many texts every party has, and how good its own model is before any "
        "distillation. The paper's scores are those of a fine-tuned BERT-Tiny.",
        setup=[
            "Tasks, splits and models of [table 2](distillation-table-2.md), "
            "[table 3](distillation-table-3.md) and [table 4](distillation-table-4.md): one hidden "
            "layer on public sentence vectors (sentiment) or a bag of words with public vectors, "
            "fitted by cross-entropy, the epoch chosen on validation texts. `global` is the model "
            "that is distilled into.",
            "Of the paper's sets MELD, DailyDialog and SNLI are here; its Amazon categories, "
            "IEMOCAP, MNLI and ANLI are not on this machine. DailyDialog is cut in four by "
            "dialogue; the paper does not say how it cut.",
            f"Seeds {seeds[0]} to {seeds[-1]}.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge the scores of the sets that the paper has too."""
    rows = pick(tables, "task", "party", "macro F1", "accuracy")

    def score(task: str, party: str, what: str) -> float:
        cells = [row[what] for row in rows if (row["task"], row["party"]) == (task, party)]
        return number(cells[0])

    meld = score("emotion", "meld", "macro F1")
    daily = [
        number(row["macro F1"])
        for row in rows
        if row["task"] == "emotion" and row["party"] != "meld"
    ]
    snli = score("nli", "global", "accuracy")
    theirs = (0.38, 0.34, 0.40)
    off = [abs(a - b) for a, b in zip(sorted(daily), sorted(theirs), strict=True)]
    words = "Another model: words in a bag, not a transformer."
    return [
        Claim("macro F1 of local models, emotion: MELD", "0.45").judged(
            f"{meld:.2f}",
            verdict(abs(meld - 0.45) <= CLOSE, partly=abs(meld - 0.45) <= 2 * CLOSE),
            words,
        ),
        Claim("macro F1 on quarters of DailyDialog", "0.38, 0.34, 0.40").judged(
            ", ".join(f"{value:.2f}" for value in daily),
            verdict(max(off) <= CLOSE, partly=max(off) <= 2 * CLOSE),
            f"{words} In order of size; .05 off counts as equal. The paper's quarters have "
            "21 680 texts to train on.",
        ),
        Claim("accuracy on SNLI", "0.85").judged(
            f"{snli:.2f}",
            "not testable here",
            "Trained on far fewer pairs: the paper has 549 367, this machine a small part of them.",
        ),
        Claim("macro F1, sentiment: cells, cloths, toys, food", "0.49, 0.52, 0.49, 0.64").judged(
            ", ".join(
                f"{row['party']} {row['macro F1']}" for row in rows if row["task"] == "sentiment"
            ),
            "not testable here",
            "Other reviews: the paper's categories are not on this machine.",
        ),
    ]


def _trained(work: tuple[Context, str, int]) -> dict[str, Local]:
    from evidence.distillation._runs import asked, inputs_of, module_predict, scores

    context, name, seed = work
    found = asked(context, name, seed, SETTINGS[name])
    locals_: dict[str, Local] = {}
    for party, split, model in zip(found.names, found.parties, found.models, strict=True):
        told = scores(
            module_predict(model, inputs_of(split.test), batch=1024),
            split.test.codes,
            found.task.space,
        )
        sizes = (len(split.train), len(split.validation), len(split.test))
        locals_[party] = Local(sizes, told.macro_f1, told.accuracy)
    return locals_
