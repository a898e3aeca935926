"""Groups of holders that differ in a known way, and how well they come back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from sklearn.metrics import adjusted_rand_score

from evidence.common import Array, Labels, stream
from evidence.verdicts._power import LEVEL
from silot_transport import group_samples

RECORDS, COLUMNS = 100, 4
# Groups that differ, by the number of holders.
GROUPS = {4: 2, 12: 3, 40: 3}

Plant = Callable[[Array, Labels, int], tuple[Array, Labels]]


def _mean(x: Array, y: Labels, group: int) -> tuple[Array, Labels]:
    return x + 0.8 * group * np.eye(COLUMNS)[0], y


def _rotated(x: Array, y: Labels, group: int) -> tuple[Array, Labels]:
    """Rotate an elongated distribution by 60 degrees a group."""
    angle = np.pi / 3 * group
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    turned = x.copy()
    turned[:, :2] = x[:, :2] * [1.5, 0.6] @ turn
    return turned, y


def _renamed(x: Array, y: Labels, group: int) -> tuple[Array, Labels]:
    return x, (y + group) % 3


def _other_columns(x: Array, y: Labels, group: int) -> tuple[Array, Labels]:
    """Move another column in each group but the first."""
    return x + 0.8 * (group > 0) * np.eye(COLUMNS)[group], y


PLANTS: Mapping[str, Plant] = {
    "mean, .8 sd": _mean,
    "rotation": _rotated,
    "renamed classes": _renamed,
    "other columns": _other_columns,
}


@dataclass(frozen=True)
class Grouped:
    """One run: adjusted Rand index, and whether holders of one true group were cut."""

    kind: str
    holders: int
    rand: float
    is_cut: bool


def measure_groups(draws: Mapping[int, int], *, seed: int = 0) -> list[Grouped]:
    """Group holders of each kind, by the number of holders as often as ``draws`` says."""
    runs: list[Grouped] = []
    for place, (kind, plant) in enumerate(PLANTS.items()):
        for holders, count in draws.items():
            for draw in range(count):
                rng = stream(244, seed, place, holders, draw)
                truth = rng.permutation(np.arange(holders) % GROUPS[holders])
                parts = [plant(*_records(rng), int(group)) for group in truth]
                labels = [y for _, y in parts] if kind == "renamed classes" else None
                result = group_samples([x for x, _ in parts], labels=labels, level=LEVEL, seed=draw)
                runs.append(_compare(kind, truth, np.array(result.groups)))
    return runs


def _records(rng: np.random.Generator) -> tuple[Array, Labels]:
    """Draw records with a class that goes with two of the columns."""
    x = rng.standard_normal((RECORDS, COLUMNS))
    votes = x[:, [2]] * [1.0, 0.0, -1.0] + x[:, [3]] * [0.0, 1.0, 0.0]
    noise = 0.5 * rng.standard_normal((RECORDS, 3))
    return x, (votes + noise).argmax(axis=1).astype(np.int64)


def _compare(kind: str, truth: Labels, groups: Labels) -> Grouped:
    is_cut = any(len(np.unique(groups[truth == group])) > 1 for group in np.unique(truth))
    return Grouped(kind, len(truth), float(adjusted_rand_score(truth, groups)), is_cut)
