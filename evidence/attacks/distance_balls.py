"""The distributional attack of the TriangleWad paper, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from silot.audits.case import Case, View
from silot.audits.inversion import Array, Guess, InapplicableError
from silot.audits.time_limit import check_time
from silot.distances.questions import DistanceTo, Interpolate
from silot_transport import exact_plan

_STEPS = 60
_MOST_SPHERES = 8
_LARGEST = 500

Sphere = tuple[Array, Array, float]
"""Centre (S, d), its weights (S,), and the distance from it."""


@dataclass(frozen=True)
class Cloud:
    """Points at given distances from known measures.

    ``points``: shape (n, d). ``misses``: largest relative error of a distance, at the start and
    after every step. ``history``: ``W_2`` of the points and the truth likewise; empty without
    the truth.
    """

    points: Array = field(repr=False)
    misses: list[float] = field(repr=False)
    history: list[float] = field(repr=False)


def wasserstein_ball(
    own: Array,
    walk: Array,
    distance: float,
    distance_to_walk: float,
    *,
    truth: Array | None = None,
    steps: int = _STEPS,
    seed: int = 0,
) -> Cloud:
    r"""Look for a cloud at the right distances from two known ones.

    Descent on :math:`(W(\hat\nu, \mu) - W(\nu, \mu))^2 + (W(\hat\nu, \xi) - W(\nu, \xi))^2`,
    with :math:`\mu` the attacker's own records and :math:`\xi` FedWaD's last iterate.

    Notes
    -----
    *Private Wasserstein Distance*, sec. 3.2 and app. D.1. It finds a distribution, not records:
    that it fails proves nothing.
    """
    rng = np.random.default_rng([seed, 12])
    spread = float(walk.std()) or 1.0
    start = walk + 0.1 * spread * rng.standard_normal(walk.shape)
    spheres = [
        (cloud, np.full(len(cloud), 1.0 / len(cloud)), far)
        for cloud, far in ((own, distance), (walk, distance_to_walk))
    ]
    return Cloud(*_descend(start, spheres, steps, truth))


def distance_balls(case: Case) -> Guess:
    """The same for the distances to all references that were told."""
    if not case.view.is_central:
        raise InapplicableError("distances of the other party are not stated to a holder")
    told = told_distances(case.view, case.target)
    if not told or case.records is None:
        raise InapplicableError("no distances to known references were told")
    told = told[:: -(-len(told) // _MOST_SPHERES)]
    rng = np.random.default_rng([case.seed, 12])
    reference, weights, _ = told[0]
    size = min(case.records, _LARGEST)
    start = weights @ reference + reference.std(axis=0) * rng.standard_normal(
        (size, reference.shape[1])
    )
    points, misses, _ = _descend(start, told, _STEPS)
    miss = 100.0 * misses[-1]
    return Guess(points, note=f"its distances are off by {miss:.2g} % at most")


def told_distances(view: View, holder: str) -> list[Sphere]:
    """References, their weights, and the distance to each that the holder sent."""
    spheres: list[Sphere] = []
    for question, answer in view.answered(holder, DistanceTo, Interpolate):
        distance = answer.optional_number("distance")
        if distance is not None and question.p == 2:
            spheres.append((question.reference, question.reference_weights, distance))
    return spheres


def _descend(
    points: Array, spheres: Sequence[Sphere], steps: int, truth: Array | None = None
) -> tuple[Array, list[float], list[float]]:
    masses = np.full(len(points), 1.0 / len(points))
    misses: list[float] = []
    history: list[float] = []
    for _ in range(steps + 1):
        step, miss = np.zeros_like(points), 0.0
        for cloud, weights, distance in spheres:
            check_time()
            plan = exact_plan(points, cloud, masses, weights)
            image = np.asarray(plan.plan @ cloud) * len(points)
            now = max(plan.distance, 1e-12)
            miss = max(miss, abs(now - distance) / max(distance, 1e-12))
            # To the sphere around this measure, along the geodesic from it.
            step += (distance / now - 1.0) * (points - image)
        misses.append(miss)
        if truth is not None:
            history.append(exact_plan(points, truth).distance)
        if miss < 1e-4 or len(misses) > steps:
            break
        points = points + step / len(spheres)
    return points, misses, history
