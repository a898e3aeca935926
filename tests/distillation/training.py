"""A problem to train on, and a process that trains until it is killed."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from silot.distillation import LabelSpace
from silot.distillation.trainer import Epoch, History, train

# The process trains so many epochs, and then waits.
LAST = 12
LINE = LabelSpace.preset("sentiment-5")


def student(seed: int = 0, *, inputs: int = 3, labels: int = 5) -> nn.Module:
    """A network with dropout and running statistics: both must survive a stop."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(
            nn.Linear(inputs, 8),
            nn.BatchNorm1d(8),
            nn.Tanh(),
            nn.Dropout(0.2),
            nn.Linear(8, labels),
        )


def problem(
    inputs: int = 120, teachers: int = 3, labels: int = 5
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(inputs, 3))
    logits = x @ rng.normal(size=(teachers, 3, labels)) * 2
    raised = np.exp(logits - logits.max(axis=2, keepdims=True))
    weights = rng.uniform(size=(teachers, inputs))
    return x, raised / raised.sum(axis=2, keepdims=True), weights / weights.sum(axis=0)


def fitted(model: nn.Module, epochs: int, **more: Any) -> History:
    x, outputs, weights = problem()
    options: dict[str, Any] = {"rate": 0.01, "batch": 32, "seed": 3} | more
    return train(model, x, outputs, weights, LINE, epochs=epochs, **options)


def serve(folder: str, epochs: int) -> None:
    def tell(epoch: Epoch) -> None:
        print(epoch.epoch, flush=True)
        if epoch.epoch == LAST:
            time.sleep(3600)  # until it is killed

    fitted(student(), epochs, checkpoint=Path(folder), progress=tell)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]))
