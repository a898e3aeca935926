"""Confident Sinkhorns, table 3: eight algorithms of distillation, emotion."""

from __future__ import annotations

from evidence.common import Context
from evidence.distillation._setting import ALL
from evidence.distillation._tables import Published, judged, reproduce
from evidence.report import Report

__all__ = ["judged", "run"]

PUBLISHED = Published(
    task="emotion",
    space="emotion",
    title="Confident Sinkhorns, table 3: emotion",
    data=(
        "Global model: a quarter of DailyDialog (2 600 utterances to train on). Teachers: two more "
        "quarters and MELD (8 400). Transfer set: the fourth quarter, 3 700. 85 % of DailyDialog "
        "is 'no emotion'. IEMOCAP, a teacher in the paper, is not among the data."
    ),
    models=(
        "Models: mean of word vectors and a linear map, all trained, from public GloVe vectors; "
        "noise for the bias is 2 000 texts of 200 words drawn from the vocabulary."
    ),
    columns=("MELD", "IEMOCAP", "DyDa 0", "DyDa 1", "DyDa 2", ALL),
    scores={
        "Entropy-A": ((0.28, 0.21, 0.34, 0.33, 0.36, 0.31), (0.67, 0.65, 0.60, 0.61, 0.63, 0.64)),
        "Entropy-D": ((0.30, 0.21, 0.39, 0.35, 0.38, 0.34), (0.68, 0.65, 0.57, 0.59, 0.61, 0.62)),
        "Entropy-U": ((0.30, 0.24, 0.42, 0.31, 0.37, 0.33), (0.68, 0.65, 0.60, 0.62, 0.64, 0.64)),
        "Entropy-E": ((0.34, 0.36, 0.42, 0.40, 0.44, 0.39), (0.69, 0.62, 0.57, 0.59, 0.62, 0.62)),
        "Sinkhorn-A": ((0.30, 0.26, 0.45, 0.37, 0.39, 0.34), (0.67, 0.67, 0.59, 0.62, 0.62, 0.64)),
        "Sinkhorn-D": ((0.35, 0.31, 0.45, 0.37, 0.44, 0.39), (0.67, 0.63, 0.54, 0.59, 0.61, 0.61)),
        "Sinkhorn-U": ((0.30, 0.23, 0.39, 0.34, 0.39, 0.34), (0.68, 0.68, 0.62, 0.64, 0.64, 0.65)),
        "Sinkhorn-E": ((0.38, 0.33, 0.46, 0.43, 0.43, 0.41), (0.64, 0.62, 0.53, 0.56, 0.60, 0.59)),
    },
)  # fmt: skip


def run(context: Context) -> Report:
    return reproduce(context, PUBLISHED)
