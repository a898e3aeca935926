"""Confident Sinkhorns, table 2: eight algorithms of distillation, sentiment."""

from __future__ import annotations

from evidence.common import Context
from evidence.distillation._setting import ALL
from evidence.distillation._tables import Published, judged, reproduce
from evidence.report import Report

__all__ = ["judged", "run"]

PUBLISHED = Published(
    task="sentiment",
    space="sentiment-5",
    title="Confident Sinkhorns, table 2: sentiment",
    data=(
        "Global model: SST-5 (8 534 sentences to train on). Teachers: Amazon reviews of books, "
        "DVDs and electronics, 1 370 each; they have 1, 2, 4 and 5 stars, so no teacher knows the "
        "neutral class. Transfer set: 1 978 reviews of kitchen articles. The paper's teachers have "
        "19 000 to 134 000 reviews, its global model 398 000."
    ),
    models=(
        "Models: one hidden layer of 64 on public MiniLM sentence vectors, which stay fixed; noise "
        "for the bias is 2 000 points uniform on the sphere of these vectors."
    ),
    columns=("Cloths", "Toys", "Cell", "Food (global)", ALL),
    scores={
        "Entropy-A": ((0.48, 0.44, 0.47, 0.52, 0.50), (0.77, 0.87, 0.76, 0.79, 0.79)),
        "Entropy-D": ((0.48, 0.44, 0.46, 0.56, 0.52), (0.77, 0.86, 0.77, 0.71, 0.78)),
        "Entropy-U": ((0.47, 0.43, 0.47, 0.50, 0.49), (0.79, 0.90, 0.78, 0.82, 0.83)),
        "Entropy-E": ((0.49, 0.46, 0.48, 0.55, 0.52), (0.74, 0.80, 0.74, 0.71, 0.75)),
        "Sinkhorn-A": ((0.49, 0.47, 0.47, 0.55, 0.52), (0.74, 0.80, 0.72, 0.75, 0.75)),
        "Sinkhorn-D": ((0.47, 0.44, 0.45, 0.59, 0.52), (0.77, 0.84, 0.76, 0.65, 0.76)),
        "Sinkhorn-U": ((0.48, 0.44, 0.47, 0.51, 0.49), (0.77, 0.89, 0.77, 0.83, 0.82)),
        "Sinkhorn-E": ((0.49, 0.47, 0.48, 0.55, 0.52), (0.72, 0.78, 0.72, 0.69, 0.73)),
    },
)  # fmt: skip


def run(context: Context) -> Report:
    return reproduce(context, PUBLISHED)
