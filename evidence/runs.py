"""Calls to silot as the papers ran their methods.

Moments and displacements are never asked for: they serve silot's bounds, cost a covariance matrix,
and are no part of the published methods. Without them the certified bounds cannot move
TriangleWad's value: ``W(interpolants) / (1 - t)`` lies between them by construction. FedWaD's
value is its best triangle sum, which is its upper bound.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

import silot
from evidence.common import Array, T
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
    x: Data, y: Data, *, form: Form = "barycentric", tol: float = 0.0, **options: Any
) -> Distance:
    """FedWaD from a standard normal reference; ``t=None`` draws a new t for every fit."""
    chosen = {"interpolation": form, "tol": tol, "moments": False, **options}
    return silot.distance(x, y, method="fedwad", **chosen)


def triangle(
    x: Data, y: Data, *, form: Form, scale: float = 1.0, mean: float = 0.0, **options: Any
) -> Distance:
    """TriangleWad with a normal reference of the given standard deviation and mean."""
    options |= {"reference_scale": scale, "reference_mean": mean, "interpolation": form}
    return silot.distance(x, y, method="trianglewad", moments=False, distances=False, **options)


def timed(solve: Callable[[], T]) -> tuple[T, float]:
    """What a call returns, and the processor seconds that it takes."""
    begun = time.process_time()
    return solve(), time.process_time() - begun


def triangle_sums(result: Distance) -> list[float]:
    """``W(x, reference) + W(reference, y)`` of every round of a FedWaD run.

    The result's history keeps the best so far; the papers plot the sum itself.
    """
    sums: dict[int, float] = {}
    for number, _, answer in _answers(result):
        if (distance := answer.scalars.get("distance")) is not None:
            sums[number] = sums.get(number, 0.0) + float(distance)
    return [total for _, total in sorted(sums.items())]


def interpolant(result: Distance, holder: str) -> Measure:
    """The last interpolating measure a holder sent."""
    sent = [answer.arrays for _, name, answer in _answers(result)
            if name == holder and "atoms" in answer.arrays]  # fmt: skip
    return Measure(sent[-1]["atoms"], sent[-1]["weights"])


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
