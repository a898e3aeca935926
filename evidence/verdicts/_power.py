"""Alarms of our test and of peers on pairs of samples of real tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evidence.common import Array, stream
from evidence.verdicts import _peers as peers
from evidence.verdicts._changes import CHANGES, Pair, none
from evidence.verdicts._tables import RealTable
from silot_transport import TwoSampleResult, two_sample

LEVEL = 0.05
RECORDS = 200
PEERS = ("forest", "MMD", "KS", "energy")
# What was planted, or nothing.
PLANTED = {"nothing": none, **CHANGES}


@dataclass(frozen=True)
class Trial:
    """One pair: verdict of ours, alarms of peers, and how the changed column was named."""

    change: str
    table: str
    alarm: bool
    peers: dict[str, bool]
    is_first: bool | None
    """Whether the changed column is the first driver; ``None`` without an alarm or a column."""
    names_another: bool
    """Whether a column is named that did not change, where one column alone or nothing changed."""


def measure_power(
    tables: Sequence[RealTable], draws: int, null_draws: int, *, seed: int = 0
) -> list[Trial]:
    """Test pairs of samples with each change, and with none."""
    scores: list[float] = []
    trials: list[Trial] = []
    forests: list[float] = []
    for t, table in enumerate(tables):
        for draw in range(null_draws):
            rng = stream(240, seed, t, draw)
            scores.append(peers.forest_score(*peers.encode(none(table, rng, RECORDS)), draw))
        for c, (name, change) in enumerate(PLANTED.items()):
            for draw in range(draws):
                rng = stream(241, seed, t, c, draw)
                pair = change(table, rng, RECORDS)
                pooled, first = peers.encode(pair)
                alarms = {
                    "MMD": peers.aggregated_kernel_p(pooled, first, rng) <= LEVEL,
                    "KS": peers.kolmogorov_smirnov_p(pooled, first) <= LEVEL,
                    "energy": peers.energy_p(pooled, first, rng) <= LEVEL,
                }
                forests.append(peers.forest_score(pooled, first, draw) if null_draws else 0.0)
                trials.append(_trial(name, table, pair, alarms, draw))
    limit = peers.forest_limit(scores, LEVEL) if scores else np.inf
    for trial, score in zip(trials, forests, strict=True):
        trial.peers["forest"] = score > limit
    return trials


def compare_pair(pair: Pair, seed: int) -> TwoSampleResult:
    """Test a pair by ``two_sample``."""
    return two_sample(
        pair.x, pair.y, x_labels=pair.x_labels, y_labels=pair.y_labels, level=LEVEL,
        detectable=False, seed=seed,
    )  # fmt: skip


def _trial(name: str, table: RealTable, pair: Pair, alarms: dict[str, bool], seed: int) -> Trial:
    result = compare_pair(pair, seed)
    own = {str(pair.column), f"missing values of '{pair.column}'"}
    drivers = result.drivers
    is_first = None
    if pair.column is not None and result.verdict == "different":
        is_first = bool(drivers) and drivers[0] in own
    is_single = pair.column is not None or name == "nothing"
    return Trial(
        name, table.name, result.verdict == "different", alarms, is_first,
        is_single and bool(set(drivers) - own),
    )  # fmt: skip


def power_by(trials: Sequence[Trial], what: str) -> dict[str, dict[str, float]]:
    """Compute the share of alarms of each test, by ``"change"`` or by ``"table"``."""
    alarms: dict[str, list[Trial]] = defaultdict(list)
    for trial in trials:
        alarms[getattr(trial, what)].append(trial)
    return {
        name: {
            "silot": share([trial.alarm for trial in group]),
            **{peer: share([trial.peers[peer] for trial in group]) for peer in PEERS},
        }
        for name, group in alarms.items()
    }


def share(flags: Sequence[bool] | Array) -> float:
    """Compute the share of what is true; NaN of nothing."""
    return float(np.mean(flags)) if len(flags) else float("nan")
