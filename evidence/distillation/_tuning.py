"""What the constants of ``_setting`` were chosen by: validation records of seeds 0 to 2.

``python -m evidence.distillation._tuning TASK [--data DIR]``; needs torch.
"""

from __future__ import annotations

import argparse
import itertools
import os
from pathlib import Path

import numpy as np
import torch

from evidence.common import DATA_VARIABLE, DEFAULT_DATA, Context
from evidence.distillation._runs import asked
from evidence.distillation._setting import ALL, LOSSES, SETTINGS, Setting
from evidence.distillation._texts import TASKS


def choose(context: Context, name: str, fitting: tuple[int, float]) -> None:
    """Print semantic distances of validation records for settings of one task.

    Means over seeds 0 to 2 and over both losses, each with uniform weights and with confidence.
    """
    stops = (5, 10, 20)
    rates = {True: (1e-3, 3e-3), False: (3e-3,)}
    tables: dict[tuple[bool, float, int], list[list[float]]] = {}
    for seed, balanced in itertools.product(range(3), rates):
        found = asked(context, name, seed, Setting(balanced=balanced, fitting=fitting))
        for rate in rates[balanced]:
            setting = Setting(balanced, fitting, max(stops), rate)
            row: dict[int, list[float]] = {stop: [] for stop in stops}
            for loss, weights in itertools.product(LOSSES, "AE"):
                kept = found.student(f"{loss}-{weights}", setting=setting, stops=stops)
                for stop in stops:
                    row[stop].append(found.scored(kept[stop], "validation")[ALL].distance)
            for stop in stops:
                key = (balanced, rate, stop)
                tables.setdefault(key, []).append(row[stop])
                context.say(f"seed {seed} {key}: {np.round(row[stop], 4).tolist()}")
    for key, rows in sorted(tables.items(), key=lambda item: np.mean(item[1])):
        print(name, key, f"{np.mean(rows):.4f}", np.mean(rows, axis=0).round(4).tolist())


if __name__ == "__main__":
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("task", choices=list(TASKS))
    parser.add_argument("--data")
    options = parser.parse_args()
    folder = Path(options.data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA)
    choose(
        Context("distillation", "tuning", folder, False),
        options.task,
        SETTINGS[options.task].fitting,
    )
