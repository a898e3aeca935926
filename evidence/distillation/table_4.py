"""Confident Sinkhorns, table 4: eight algorithms of distillation, inference."""

from __future__ import annotations

from evidence.common import Context
from evidence.distillation._setting import ALL
from evidence.distillation._tables import Published, judged, reproduce
from evidence.report import Report

__all__ = ["judged", "run"]

PUBLISHED = Published(
    task="nli",
    space="nli",
    title="Confident Sinkhorns, table 4: inference",
    score="accuracy",
    data=(
        "Global model: an excerpt of SNLI (1 770 pairs to train on). Teachers: three parts of "
        "SICK, 900 to 3 200 pairs, whose labels are dealt by Dirichlet(1) draws. Transfer set: a "
        "fourth part, 2 460; a premise may be in several parts, a pair is in one. The paper has "
        "MNLI by genre, ANLI to transfer and all of SNLI, some 200 times as much."
    ),
    models=(
        "Models: means of word vectors of both texts, their difference and product, shares of "
        "common words, one hidden layer of 100, all trained, from public GloVe vectors; noise for "
        "the bias is 2 000 pairs of 200 words drawn from the vocabulary. The two texts of such a "
        "pair have hardly a word in common, and teachers call it neutral, as they should: here the "
        "bias is in part an answer."
    ),
    columns=("Fic", "Gov", "Slate", "Tele", "Trv", "SNLI (global)", ALL),
    scores={
        "Entropy-A": ((0.60, 0.62, 0.60, 0.60, 0.62, 0.78, 0.65),
                       (0.56, 0.54, 0.56, 0.56, 0.55, 0.40, 0.53)),
        "Entropy-D": ((0.58, 0.59, 0.57, 0.57, 0.58, 0.85, 0.64),
                       (0.58, 0.56, 0.58, 0.58, 0.57, 0.30, 0.53)),
        "Entropy-U": ((0.60, 0.62, 0.60, 0.60, 0.61, 0.76, 0.65),
                       (0.55, 0.54, 0.56, 0.56, 0.55, 0.40, 0.53)),
        "Entropy-E": ((0.60, 0.62, 0.60, 0.60, 0.61, 0.76, 0.65),
                       (0.55, 0.54, 0.56, 0.55, 0.54, 0.39, 0.52)),
        "Sinkhorn-A": ((0.60, 0.63, 0.60, 0.61, 0.62, 0.73, 0.64),
                       (0.54, 0.53, 0.55, 0.55, 0.53, 0.42, 0.52)),
        "Sinkhorn-D": ((0.55, 0.57, 0.54, 0.55, 0.56, 0.85, 0.63),
                       (0.58, 0.56, 0.58, 0.58, 0.57, 0.23, 0.52)),
        "Sinkhorn-U": ((0.60, 0.62, 0.60, 0.60, 0.61, 0.77, 0.65),
                       (0.53, 0.52, 0.54, 0.54, 0.52, 0.37, 0.51)),
        "Sinkhorn-E": ((0.60, 0.62, 0.60, 0.60, 0.61, 0.77, 0.65),
                       (0.53, 0.52, 0.54, 0.54, 0.52, 0.37, 0.50)),
    },
)  # fmt: skip


def run(context: Context) -> Report:
    return reproduce(context, PUBLISHED)
