"""Confident Sinkhorns, theorem 5.2: the bound of the risk, against losses on fresh texts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from evidence.common import Context, mean
from evidence.distillation._setting import SETTINGS
from evidence.distillation._tables import seeds_of, workers
from evidence.report import Claim, Judged, Report, Table, pick, spread, verdict

HOLDS = Claim("the risk is at most the empirical risk and two terms (theorem 5.2)", "proved")

SIZES = (50, 100, 300, 900)
CLASSES, LARGEST, DELTA = 5, 4.0, 0.05
# Of the paper's transfer set.
PAPER_SIZE = 104_817
EPOCHS = 30
QUICK = {"SIZES": (50, 300), "EPOCHS": 2}


def run(context: Context) -> Report:
    seeds = seeds_of(context)[:3]
    with workers() as pool:
        runs = list(pool.map(_losses, [(context, seed) for seed in seeds]))
    rows = [
        [str(size), *(f"{mean(one[size][k] for one in runs):.3f}" for k in range(3)),
         f"{last_term(size):.2f}"]
        for size in SIZES
    ]  # fmt: skip
    rows.append([str(PAPER_SIZE), "–", "–", "–", f"{last_term(PAPER_SIZE):.2f}"])
    table = Table(
        "Loss of the student on its N texts and on fresh ones, and of the global model before on "
        "the fresh ones; the bound's last term.",
        ["N", "on its texts", "fresh", "before", "last term"],
        rows,
    )
    return Report(
        title="Confident Sinkhorns, theorem 5.2: the bound of the risk",
        about="The theorem bounds the expected loss of the student by the least empirical loss, "
        "32 |Y| times a Rademacher complexity, and 2 C |Y| sqrt(|Y| log(1 / delta) / 2N).",
        setup=[
            "The sentiment task of [table 2](distillation-table-2.md): |Y| = 5, C = 4, delta = "
            ".05, Sinkhorn-A with exact transport. The student learns from N reviews of the "
            f"transfer set; the others are fresh. {EPOCHS} epochs.",
            "The Rademacher complexity of the network is not known; without it the bound is only "
            "larger. Of linear functions whose weights have norm 1, on vectors of norm 1, it is "
            "about N^-1/2, and its term 160 N^-1/2.",
            f"Seeds {seeds[0]} to {seeds[-1]}, means.",
        ],
        claims=judged([table]),
        tables=[table],
    )


def last_term(size: int) -> float:
    """Compute the last term of the bound."""
    return 2 * LARGEST * CLASSES * float(np.sqrt(CLASSES * np.log(1 / DELTA) / (2 * size)))


def judged(tables: Sequence[Table]) -> list[Judged]:
    """Judge by the losses of the table."""
    rows = pick(tables, "N", "on its texts", "fresh", "last term")
    measured = [row for row in rows if row["fresh"] != "–"]
    gaps = [float(row["fresh"]) - float(row["on its texts"]) for row in measured]
    terms = [float(row["last term"]) for row in measured]
    fresh = [float(row["fresh"]) for row in measured]
    falling = all(b <= a for a, b in pairwise(fresh))
    bounds = {int(row["N"]): float(row["last term"]) + 160 * int(row["N"]) ** -0.5 for row in rows}
    return [
        HOLDS.judged(
            f"fresh minus trained {spread(gaps, '.3f')}; the last term alone "
            f"{spread(terms, '.2f')}",
            verdict(all(gap <= term for gap, term in zip(gaps, terms, strict=True))),
            "A bound that is far away cannot be contradicted.",
        ),
        Claim("the expected loss approaches the best achievable as N grows (5.3)", "yes").judged(
            f"fresh loss {' / '.join(f'{value:.3f}' for value in fresh)}, gap "
            f"{' / '.join(f'{value:.3f}' for value in gaps)}",
            verdict(falling and gaps[-1] < 0.01 * LARGEST, partly=gaps[-1] < gaps[0]),
            "Matched if the loss on fresh texts never rises and ends within .04 of that on its "
            "own.",
        ),
        Claim("the bound is below the largest loss there is", "not claimed").judged(
            "with the complexity of linear functions of norm 1: "
            + "; ".join(f"{value:.2f} at N = {size}" for size, value in bounds.items()),
            verdict(
                min(bounds[int(row["N"])] for row in measured) < LARGEST,
                partly=min(bounds.values()) < LARGEST,
            ),
            "No loss is larger than 4.",
        ),
    ]


def _losses(work: tuple[Context, int]) -> dict[int, tuple[float, float, float]]:
    """By size: loss on the texts of the student, on fresh ones, and of the model before."""
    import copy

    import torch

    from evidence.distillation._runs import asked, inputs_of, module_predict, train
    from silot.distillation import sinkhorn_loss

    context, seed = work
    setting = SETTINGS["sentiment"]
    found = asked(context, "sentiment", seed, setting)
    x = np.asarray(inputs_of(found.task.transfer))
    order = np.random.default_rng([48, seed]).permutation(len(x))
    fresh = order[max(SIZES) :]
    weights = found.weights("uniform")

    def loss(model: torch.nn.Module, rows: np.ndarray) -> float:
        told = torch.tensor(module_predict(model, x[rows], batch=1024))[:, None]
        theirs = torch.tensor(found.outputs[:, rows].transpose(1, 0, 2))
        each = sinkhorn_loss(told, theirs, found.task.space, reduction="none")
        return float((each.numpy() * weights[:, rows].T).sum(axis=1).mean())

    losses: dict[int, tuple[float, float, float]] = {}
    for size in SIZES:
        rows = order[:size]
        model = copy.deepcopy(found.start)
        train(
            model, x[rows], found.outputs[:, rows], weights[:, rows], found.task.space,
            loss="sinkhorn", epochs=EPOCHS, rate=setting.rate, batch=64, seed=seed,
        )  # fmt: skip
        losses[size] = (loss(model.eval(), rows), loss(model, fresh), loss(found.start, fresh))
    return losses
