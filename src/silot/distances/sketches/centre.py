"""Barycenter of decoded sketches: of their atoms, and of the scatter around them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from silot_transport import ExactPlan, covariance_root, exact_plan
from silot_transport._threads import on_cores

from ...privacy.cells import grouped
from ...privacy.sketch import Array, Codes, Decoded

_TOL = 1e-6


@dataclass(frozen=True, eq=False)
class SketchCentre:
    """A barycenter: atoms with classes, and the same as a law with its scatter."""

    atoms: Array = field(repr=False)
    weights: Array = field(repr=False)
    codes: Codes = field(repr=False)
    law: Decoded = field(repr=False)
    history: tuple[Mapping[str, float], ...]
    settled: bool

    @property
    def outcome(self) -> str:
        """How the search for it ended."""
        return "converged" if self.settled else f"stopped after {len(self.history)} rounds"


def centre_of(
    sketches: Mapping[str, Decoded], shares: Mapping[str, float], support: int, rounds: int
) -> SketchCentre:
    r"""Barycenter of mixtures: :math:`\sum_i \lambda_i (W_2^2(\text{atoms}) + \mathrm{Bures}^2)`.

    Atoms and covariance part: a mixture of one covariance is moved by moving its atoms, and its
    covariance. Atoms are found by the fixed point of Cuturi and Doucet, class by class, from
    those of the average of the sketches; the covariance is the square of the
    average root, for the covariances of sketches commute.
    """
    names = sorted(sketches)
    parts = np.array([shares[name] for name in names])
    masses = np.stack([sketches[name].weights.sum(axis=1) for name in names])
    classes = parts @ masses
    atoms: list[Array] = []
    weights: list[Array] = []
    codes: list[int] = []
    objective = np.zeros(rounds)
    settled = True
    for code in np.flatnonzero(classes > 0).tolist():
        sides = [
            (*_of_class(sketches[name], code), part * mass)
            for name, part, mass in zip(names, parts, masses[:, code], strict=True)
            if mass > 0
        ]
        size = max(1, round(support * float(classes[code])))
        found, share, objectives, done = _atoms(sides, size, rounds)
        settled = settled and done
        atoms.append(found)
        weights.append(classes[code] * share)
        codes += [code] * len(found)
        # A class that settled earlier stays as it is.
        objective += np.pad(objectives, (0, rounds - len(objectives)), mode="edge")
    points, mass = np.vstack(atoms), np.concatenate(weights)
    covariance, scatter = _covariance([sketches[name].covariance for name in names], parts)
    by_class = np.zeros((int(max(codes)) + 1, len(points)))
    by_class[codes, np.arange(len(points))] = mass
    noted = (objective + scatter).tolist()
    kept = next((k for k in range(1, rounds) if noted[k] == noted[k - 1]), rounds)
    return SketchCentre(
        points,
        mass,
        np.array(codes, dtype=np.int64),
        Decoded(points, by_class, covariance, np.inf),
        tuple({"round": float(k), "objective": noted[k]} for k in range(kept)),
        settled,
    )


def _of_class(sketch: Decoded, code: int) -> tuple[Array, Array]:
    """Atoms of a class, and their weights within it."""
    row = sketch.weights[code]
    return sketch.atoms[row > 0], row[row > 0] / row[row > 0].sum()


def _atoms(
    sides: list[tuple[Array, Array, float]], size: int, rounds: int
) -> tuple[Array, Array, list[float], bool]:
    """Free-support barycenter of weighted atoms; its atoms, weights, and objective by round."""
    points = np.vstack([points for points, _, _ in sides])
    masses = np.concatenate([part * weights for _, weights, part in sides])
    atoms, weights = _merged(points, masses / masses.sum(), size)
    total = sum(part for _, _, part in sides)
    objectives: list[float] = []
    # Atoms move little from round to round: what proved a plan is near what proves the next.
    starts: list[Array | None] = [None for _ in sides]

    def planned(place: int) -> ExactPlan:
        there, mass, _ = sides[place]
        return exact_plan(atoms, there, weights, mass, start=starts[place])

    while len(objectives) < rounds:
        plans = on_cores(planned, range(len(sides)))
        starts = [plan.potentials[1] for plan in plans]
        objectives.append(
            sum(part * plan.cost for (_, _, part), plan in zip(sides, plans, strict=True))
        )
        if len(objectives) > 1 and objectives[-2] - objectives[-1] <= _TOL * objectives[-2]:
            return atoms, weights, objectives, True
        moved = np.zeros_like(atoms)
        for (there, _, part), plan in zip(sides, plans, strict=True):
            moved += part / total * np.asarray(plan.plan @ there) / weights[:, None]
        atoms = moved
    return atoms, weights, objectives, False


def _merged(points: Array, weights: Array, size: int) -> tuple[Array, Array]:
    """First atoms: groups of near points, at their mean."""
    count = min(size, len(np.unique(points, axis=0)))
    centres, codes = grouped(points, count, 0, weights)
    mass = np.bincount(codes, weights, minlength=count)
    used = mass > 0
    return centres[used], mass[used] / mass.sum()


def _covariance(covariances: list[Array], shares: Array) -> tuple[Array, float]:
    """Bures barycenter of covariances that commute, as those of sketches do; its objective."""
    roots = [covariance_root(one) for one in covariances]
    middle = np.einsum("k,kij->ij", shares, np.stack(roots))
    objective = sum(
        float(share * np.sum((root - middle) ** 2))
        for share, root in zip(shares, roots, strict=True)
    )
    return middle @ middle, objective
