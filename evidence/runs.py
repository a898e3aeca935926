"""Calls to silot as the papers ran their methods.

Moments and displacements are never asked for: they serve silot's bounds, cost a covariance matrix,
and are no part of the published methods. Without them the certified bounds cannot move
TriangleWad's value: ``W(interpolants) / (1 - t)`` lies between them by construction. FedWaD's
value is its best triangle sum, which is its upper bound.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Literal

import numpy as np

import silot
from evidence.common import Array
from silot import Measure
from silot.distances import Distance
from silot.distances.direct import compute_exact_distance
from silot.federation import Answer

Data = Measure | Array
Form = Literal["exact", "barycentric"]
FORMS: tuple[Form, ...] = ("barycentric", "exact")


def exact(x: Data, y: Data, *, labels: bool = False) -> Distance:
    """Pool the records and solve: the ground truth (DirectWad, OTDD on vectors).

    Without labels it is the solver alone: `silot.distance` tests for a difference too, and the
    papers' methods would be timed against both.
    """
    if labels:
        return silot.distance(x, y, method="direct", labels=True)
    clouds = [each if isinstance(each, Measure) else Measure(each) for each in (x, y)]
    first, second = ((each.points, each.weights) for each in clouds)
    begun = time.perf_counter()
    found = compute_exact_distance(first, second, ("x", "y"), 2, 0)
    return replace(found, seconds=time.perf_counter() - begun)


def fedwad(
    x: Data,
    y: Data,
    *,
    support: int,
    rounds: int,
    t: float | None,
    form: Form = "barycentric",
    tol: float = 0.0,
    seed: int = 0,
    labels: bool = False,
) -> Distance:
    """FedWaD from a standard normal reference; ``t=None`` draws a new t for every fit."""
    return silot.distance(
        x,
        y,
        method="fedwad",
        support=support,
        rounds=rounds,
        t=t,
        interpolation=form,
        tol=tol,
        seed=seed,
        moments=False,
        labels=labels,
    )


def triangle(
    x: Data,
    y: Data,
    *,
    support: int,
    t: float,
    form: Form,
    scale: float = 1.0,
    mean: float = 0.0,
    seed: int = 0,
) -> Distance:
    """TriangleWad with a normal reference of the given standard deviation and mean."""
    return silot.distance(
        x,
        y,
        method="trianglewad",
        support=support,
        t=t,
        interpolation=form,
        reference_scale=scale,
        reference_mean=mean,
        seed=seed,
        moments=False,
        distances=False,
    )


def triangle_sums(result: Distance) -> list[float]:
    """``W(x, reference) + W(reference, y)`` of every round of a FedWaD run.

    The result's history keeps the best so far; the papers plot the sum itself.
    """
    told: dict[int, list[float]] = {}
    for number, _, answer in _answers(result):
        distance = answer.scalars.get("distance")
        if distance is not None:
            told.setdefault(number, []).append(float(distance))
    return [sum(pair) for _, pair in sorted(told.items())]


def interpolant(result: Distance, holder: str) -> Measure:
    """The last interpolating measure a holder sent."""
    found: Measure | None = None
    for _, name, answer in _answers(result):
        if name == holder and "atoms" in answer.arrays:
            found = Measure(answer.arrays["atoms"], answer.arrays["weights"])
    if found is None:
        raise ValueError(f"{holder} sent no interpolating measure")
    return found


def largest_support(result: Distance) -> int:
    """Atoms of the largest measure that travelled."""
    return max(
        len(answer.arrays["atoms"]) for _, _, answer in _answers(result) if "atoms" in answer.arrays
    )


def seconds_per_round(result: Distance) -> float:
    """Duration of a FedWaD round; the first and the last exchange are no rounds of it."""
    return result.seconds / max(result.rounds - 2, 1)


def relative(value: float, truth: float) -> float:
    """``value / truth - 1``."""
    return float(np.divide(value, truth)) - 1.0


def _answers(result: Distance) -> list[tuple[int, str, Answer]]:
    if result.transcript is None:
        raise ValueError("the result has no transcript")
    found: list[tuple[int, str, Answer]] = []
    for entry in result.transcript.entries:
        message = entry.open() if entry.direction == "received" else None
        if isinstance(message, Answer):
            found.append((entry.round, entry.holder, message))
    return found
