"""Confident Sinkhorns, figure 4: expected outputs by true label, after Entropy or Sinkhorn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evidence.common import Array, Context, mean
from evidence.distillation._tables import seeds_of, workers
from evidence.report import Claim, Judged, Report, Table, pick, verdict

MEDIANS = Claim("medians of Sinkhorn are nearer the truth for labels 1, 2, 3 and 5", "yes")
MEANS = Claim("means of Sinkhorn are relatively nearer", "yes")
QUARTILES = Claim("first and third quartiles of Sinkhorn are relatively nearer", "yes")

LABELS = ("1", "2", "3", "4", "5")
NAMED = ("1", "2", "3", "5")
STATISTICS = ("median", "mean", "first quartile", "third quartile")
LOSSES = ("entropy", "sinkhorn")
EPOCHS, RATE, BATCH = 20, 1e-3, 128
QUICK = {"EPOCHS": 2}


def run(context: Context) -> Report:
    seeds = seeds_of(context)
    with workers() as pool:
        runs = list(pool.map(_expected, [(context, seed) for seed in seeds]))
    table = Table(
        "Expected output by true label (1 to 5), means over seeds.",
        ["label", *(f"{what}, {loss}" for what in STATISTICS for loss in LOSSES)],
        [
            [label, *(f"{mean(float(one[loss][k, j]) for one in runs):.2f}"
                      for j in range(len(STATISTICS)) for loss in LOSSES)]
            for k, label in enumerate(LABELS)
        ],
    )  # fmt: skip
    return Report(
        title="Confident Sinkhorns, figure 4: expected outputs by true label",
        about="The global model of the sentiment task is trained on labelled sentences with the "
        "entropy loss (Kullback-Leibler to the label) or with the Sinkhorn loss (exact transport "
        "to the label); the box plot of expected outputs, in numbers.",
        setup=[
            "SST-5 with its official split, the model of [table 2](distillation-table-2.md); the "
            "paper has food reviews and BERT-Tiny.",
            f"{EPOCHS} epochs of AdamW at {RATE:g}, batches of {BATCH}, from one start for both; "
            f"the last epoch is tested. Seeds {seeds[0]} to {seeds[-1]}.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by how far each statistic is from its label."""
    rows = {row["label"]: row for row in pick(tables, "label", "median, sinkhorn")}

    def off(label: str, what: str, loss: str) -> float:
        return abs(float(rows[label][f"{what}, {loss}"]) - float(label))

    def compared(claim: Claim, labels: Sequence[str], *whats: str) -> Judged:
        won = [
            f"{label} ({what})" if len(whats) > 1 else label
            for label in labels
            for what in whats
            if off(label, what, "sinkhorn") < off(label, what, "entropy")
        ]
        total = len(labels) * len(whats)
        return claim.judged(
            f"nearer for {len(won)} of {total}" + (f": {', '.join(won)}" if won else ""),
            verdict(len(won) == total, partly=len(won) > total / 2),
            "" if len(won) == total else "More than half is counted as partly.",
        )

    return [
        compared(MEDIANS, NAMED, "median"),
        compared(MEANS, LABELS, "mean"),
        compared(QUARTILES, LABELS, "first quartile", "third quartile"),
    ]


def _expected(work: tuple[Context, int]) -> dict[str, Array]:
    """Statistics (labels, 4) of the expected output, by loss."""
    from evidence.distillation._runs import VectorHead, inputs_of, module_predict, train
    from evidence.distillation._texts import sentiment

    context, seed = work
    task = sentiment(context, seed)
    x = inputs_of(task.own.train)
    codes = task.own.train.codes
    truth = np.eye(task.space.size)[codes][None]
    found: dict[str, Array] = {}
    for loss in LOSSES:
        width = np.shape(x)[1]
        model = VectorHead(width, task.space, scale=width**-0.5, seed=1000 * seed)
        train(
            model, x, truth, np.ones((1, len(codes))), task.space,
            loss=loss, epochs=EPOCHS, rate=RATE, batch=BATCH, seed=seed,
        )  # fmt: skip
        told = module_predict(model.eval(), inputs_of(task.own.test), batch=1024)
        stars = told @ np.arange(1.0, task.space.size + 1.0)
        found[loss] = np.array(
            [
                [np.median(part), part.mean(), *np.quantile(part, (0.25, 0.75))]
                for k in range(task.space.size)
                if len(part := stars[task.own.test.codes == k])
            ]
        )
    return found
