"""What the figures of distillation agree on; needs no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from silot.distillation import Weights

BEFORE = "global model before"
BIAS = "bias"
MEMORY = "global"
ALL = "ALL"
EXACT = "geometric, exact"
ONE_HOT = "one-hot, exact"
SHARP = ", sharpened"
SHARPENED = 0.5
PLAIN = "no geometry (Entropy-E)"
# What silot.distill does by itself: the paper's algorithm with capped weights.
CAPPED, CAP = "Sinkhorn-E, capped", 1.5
# Epsilons, of the largest distance of two labels, that validation records may choose besides none.
OFFERED = (0.3,)
CHOSEN = "best student by validation"
BEST = "best teacher by validation"
ENSEMBLE = "mean of the teachers' predictions"
DISTILLED_MEAN = "FedDF (mean of logits)"
ROUNDS = 10
AVERAGED, ROUNDED = "FedAvg, 1 round", f"FedAvg, {ROUNDS} rounds"
OTHERS = (BEST, ENSEMBLE, DISTILLED_MEAN, AVERAGED, ROUNDED)

WEIGHTS: dict[str, Weights] = {
    "A": "uniform", "D": "size", "U": "uniform-distance", "E": "confidence",
}  # fmt: skip
LOSSES: dict[str, Literal["sinkhorn", "entropy"]] = {"Entropy": "entropy", "Sinkhorn": "sinkhorn"}
ALGORITHMS = tuple(f"{loss}-{weights}" for loss in LOSSES for weights in WEIGHTS)


@dataclass(frozen=True)
class Setting:
    """Constants of a task, the same for every algorithm.

    ``balanced``: whether the global model and the teachers are fitted with every label counting
    the same. ``fitting``: epochs and rate of that. ``epochs, rate, batch``: of the
    distillation.
    """

    balanced: bool = True
    fitting: tuple[int, float] = (10, 3e-3)
    epochs: int = 10
    rate: float = 1e-3
    batch: int = 256


SETTINGS = {
    "sentiment": Setting(fitting=(20, 1e-3), epochs=5),
    "emotion": Setting(fitting=(10, 3e-3), epochs=20, rate=3e-3),
    "nli": Setting(fitting=(15, 3e-3), epochs=20),
}
"""Chosen on seeds 0 to 2, by validation records."""

# Of a look (``--quick``): one epoch each.
LOOK = {name: replace(each, fitting=(1, 3e-3), epochs=1) for name, each in SETTINGS.items()}
