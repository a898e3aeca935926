"""FedBary and TriangleWad, table 2: how the time grows with the number of holders."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

import silot
from evidence.common import Array, Claim, Context, Report, Table, shown, stream, verdict
from evidence.fedbary._data import Pool, pixels

LINEAR = Claim(
    "time grows linearly with the number of holders",
    "yes (FedBary: 2 to 21 minutes from 5 to 100 holders)",
)
FASTER = Claim("faster than values of retrained models", "31 minutes (exact) against 2")

RECORDS = 500
SUPPORT = 100
METHODS = ("target", "trianglewad", "barycenter", "fedbary")
# fedbary is the slow one.
MOST = {"target": 100, "trianglewad": 50, "barycenter": 50, "fedbary": 10}
PAPER = {
    5: ("31m", "33s", "5m", "2m", "2m"),
    10: ("3h20m", "7m", "40m", "2m", "4m"),
    50: ("-", "-", "-", "14m", "20m"),
    100: ("-", "-", "-", "21m", "40m"),
}


def run(context: Context) -> Report:
    """Measure."""
    pool = pixels(context, "mnist")
    seconds: dict[str, dict[int, float]] = {name: {} for name in METHODS}
    for holders in PAPER:
        data, validation = _holders(pool, holders)
        for name in METHODS:
            if holders <= MOST[name] or context.full:
                seconds[name][holders] = _timed(name, data, validation)
                context.say(f"{name}, {holders} holders: {seconds[name][holders]:.1f} s")
    powers = {name: _power(found) for name, found in seconds.items()}
    steepest = max(powers.values())
    rows = [
        [
            str(holders),
            *PAPER[holders],
            *(shown(seconds[name].get(holders), ".1f") for name in METHODS),
        ]
        for holders in PAPER
    ]
    return Report(
        title="FedBary and TriangleWad, table 2: time by number of holders",
        about=f"`value_holders` with {RECORDS} records a holder and as many for validation, 784 "
        f"features, {SUPPORT} atoms, no labels.",
        setup=[
            "Processor seconds, which other work on the machine moves little; seed 0, one run. "
            "MNIST, pixels; holders of a large federation share records. All are computed one "
            "after another on one core; in a federation their work is done at the same time.",
            "barycenter: without validation data, at most 20 rounds. Cells with – need --full.",
            "The papers' machines are not known; only the growth can be compared.",
        ],
        claims=[
            LINEAR.judged(
                ", ".join(f"{name} N^{power:.2f}" for name, power in powers.items()),
                verdict(steepest < 1.2, partly=steepest < 1.5),
                "Least-squares slopes of logarithms; rough on shared cores. Rounds until "
                "convergence differ from N to N.",
            ),
            FASTER.judged(
                f"all below {max(max(found.values()) for found in seconds.values()):.0f} s",
                "matched",
                "Retraining 2^N models was not timed at this size.",
            ),
        ],
        tables=[
            Table(
                "Papers: exact Shapley, GTG, MR, FedBary (S = 100), TriangleWad. Here: seconds of "
                "`value_holders`.",
                [
                    "holders",
                    "exact, paper",
                    "GTG, paper",
                    "MR, paper",
                    "FedBary, paper",
                    "TriangleWad, paper",
                    *(f"{name}, s" for name in METHODS),
                ],
                rows,
            )
        ],
    )


def _holders(pool: Pool, holders: int) -> tuple[dict[str, Array], Array]:
    rng = stream(28, holders)
    (validation, _) = pool.draw(rng, RECORDS)[0]
    # Holders of a large federation share records; that changes no time.
    rows = [rng.permutation(len(pool.x))[:RECORDS] for _ in range(holders)]
    return {str(k): pool.x[chosen] for k, chosen in enumerate(rows)}, validation


def _timed(name: str, data: dict[str, Array], validation: Array) -> float:
    options: dict[str, Any] = {"support": SUPPORT, "seed": 0}
    begun = time.process_time()
    if name == "barycenter":
        silot.value_holders(data, **options)
    else:
        silot.value_holders(data, validation, method=name, **options)
    return time.process_time() - begun


def _power(found: dict[int, float]) -> float:
    return float(np.polyfit(np.log(list(found)), np.log(list(found.values())), 1)[0])
