"""Networks for figures 4 and 5 of ST-LF, and the optimum of the problem as printed."""

from __future__ import annotations

import itertools
from typing import Literal

import numpy as np

from evidence.common import stream
from silot.teaching.costs import LinkCosts
from silot.teaching.network import Network

DEVICES = 10
LABELLED = 5
RECORDS = 600
BAD = 2
"""The device the paper calls 3."""
Regime = Literal["uniform", "extreme", "random"]
REGIMES: tuple[Regime, ...] = ("uniform", "extreme", "random")


def network(seed: int, regime: Regime, *, bad: float | None = None) -> LinkCosts:
    """Costs of a network as the paper describes it."""
    rng = stream(51, seed)
    share = rng.uniform(0.6, 1.0, LABELLED)
    errors = rng.uniform(0.02, 0.15, LABELLED)
    power = rng.uniform(23.0, 25.0, DEVICES)
    rates = rng.uniform(63.0, 85.0, (DEVICES, DEVICES))
    divergence = rng.uniform(0.0, 1.0, (DEVICES, DEVICES))
    if regime != "random":
        divergence = np.ones((DEVICES, DEVICES))
    if regime == "extreme":
        divergence[0] = 0.0
        divergence[:, 0] = 0.0
    divergence = np.triu(divergence, 1) + np.triu(divergence, 1).T
    if bad is not None:
        errors[BAD] = bad
    counts = np.zeros(DEVICES, dtype=int)
    counts[:LABELLED] = np.round(share * RECORDS)
    devices = [
        {
            "name": str(i + 1),
            "labelled": int(counts[i]),
            "unlabelled": int(RECORDS - counts[i]),
            "error": float(errors[i]) if i < LABELLED else None,
            "power_dbm": float(power[i]),
        }
        for i in range(DEVICES)
    ]
    return Network(
        devices=devices,
        divergence=divergence.tolist(),
        rates_mbit=((rates + rates.T) / 2.0).tolist(),
        constants="natural",
    ).costs()


def printed_optimum(costs: LinkCosts, *, self_links: bool = False) -> tuple[float, list[str]]:
    """Smallest objective of the problem as printed, and its sources, by trying all of them."""
    by_source, _, by_energy = costs.phi
    energy = by_energy * costs.energy
    energy = energy + np.diag(np.full(costs.size, 0.0 if self_links else np.inf))
    best, sources = np.inf, np.zeros(costs.size, dtype=bool)
    for kinds in itertools.product((False, True), repeat=int(costs.eligible.sum())):
        train = np.zeros(costs.size, dtype=bool)
        train[costs.eligible] = kinds
        offers = np.vstack([costs.links[train], energy[~train]])
        total = by_source * costs.source[train].sum() + offers.min(axis=0)[~train].sum()
        if total < best:
            best, sources = float(total), train
    return best, [name for name, trains in zip(costs.names, sources, strict=True) if trains]
