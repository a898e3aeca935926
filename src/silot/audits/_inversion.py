"""Records from an interpolant: the direct inverse, and the one that is always right."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

import numpy as np
from scipy.optimize import nnls
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from silot_transport import exact_plan

from ._cellwise import Problem, cellwise_image
from ._clock import look
from ._evidence import Array, Evidence, Guess, barycentric_image, merged_rows

_TOLERANCE = 1e-9
_EXACT = 1e-6
_MOST_STEPS = 300
# Steps with whole plans before single cells are looked at.
_PATIENCE = 40
_MOST_VERTICES = 120
_LARGEST_FACTOR = 100_000_000


def direct_inversion(evidence: Evidence, t: float, records: int | None = None) -> Guess:
    r"""Take the plan of the interpolant and the reference for the plan of the records.

    .. math:: \hat x_i = \frac{\eta_i - t\, T_i}{1 - t}

    with :math:`T_i` the image of atom i under an optimal plan from the interpolant to the
    reference. Geodesics do not cross, so it is exact wherever the plan splits no atom: for the
    exact interpolant always, for the barycentric one where it splits no record.
    """
    image = evidence.image
    rows = (evidence.atoms - t * image) / (1.0 - t)
    if evidence.form == "pairs":
        merged = merged_rows(rows, evidence.weights, records)
        return Guess(merged, certified=_pairs_fit(evidence, rows, image))
    fits = _reencodes(evidence, t, rows, image)
    return Guess(rows, ordered=evidence.ordered, certified=fits)


def projection_inversion(evidence: Evidence, t: float) -> Guess:
    r"""The inverse of the barycentric interpolant, which exists and is unique.

    .. math:: x = \frac{\eta - t\, \Pi_K(\eta / t)}{1 - t}

    with :math:`\Pi_K` the projection on the barycentric images of all couplings with the
    reference. Found by fully corrective Frank-Wolfe, each of whose steps is one transport
    problem; it stops when some coupling that gives the message is optimal for its records, by
    which they are *the* records: with a gap :math:`g` to optimality the root mean square error
    is at most :math:`(t g / (1 - t))^{1/2}`.
    """
    found = project(evidence, t)
    rows = (evidence.atoms - t * found.image) / (1.0 - t)
    note = ""
    if not found.certified:
        note = (
            f"no records give this message up to a root mean square error of {found.error:.1e}: "
            f"noise of size N in it moves a record by at most N / (1 - t) = {1 / (1 - t):.3g} N"
        )
    return Guess(rows, ordered=evidence.ordered, certified=found.certified, note=note)


@dataclass(frozen=True)
class Projection:
    """Image of the records under the plan, the proof that it is, and an error bound."""

    image: Array = field(repr=False)
    certified: bool
    error: float
    steps: int


def project(evidence: Evidence, t: float, *, steps: int = _MOST_STEPS) -> Projection:
    """Project ``eta / t`` on the barycentric images of couplings, in the norm of the weights."""
    # Moving everything by the mean of the reference changes no plan and keeps digits.
    centre = evidence.reference_weights @ evidence.reference
    atoms, reference, weights = (
        evidence.atoms - centre,
        evidence.reference - centre,
        evidence.weights,
    )
    problem = Problem(atoms, reference, weights, evidence.reference_weights, t)
    root = np.sqrt(weights)[:, None]
    vertices = [problem.image(atoms)]
    image, answer = vertices[0], vertices[0]
    chosen, least = image, np.inf
    size = float(np.abs(atoms).max()) * float(np.abs(reference).max()) * atoms.shape[1] or 1.0
    for step in range(steps):
        look()
        for candidate in (answer, image) if step else (image,):
            rows = problem.rows(candidate)
            answer = problem.image(rows)
            # How far the plan behind the candidate is from optimal for its own records.
            gap = max(float(weights @ np.einsum("ij,ij->i", rows, answer - candidate)), 0.0)
            if gap < least:
                chosen, least = candidate, gap
            if gap <= 2e-15 * size or _same(answer, candidate):
                return Projection(candidate + centre, True, _error(gap, t), step)
            vertices.append(answer)
        image, vertices = _corrected(vertices, atoms / t, root, image)
        found = cellwise_image(problem, image) if step == _PATIENCE else None
        if found is not None:
            return Projection(found + centre, True, 0.0, step)
    proven, error = _bounded(problem, chosen, least, size)
    return Projection(chosen + centre, proven, error, steps)


def _bounded(problem: Problem, image: Array, gap: float, size: float) -> tuple[bool, float]:
    """Whether an image proves its records though its plan is not optimal, and how far off it is."""
    rows = problem.rows(image)
    apart = _tied_optimal(problem, rows, image, size)
    if apart is not None:
        return True, apart
    error = _error(gap, problem.t)
    # Of every single record, and as fine as what counts as exact.
    least = float(problem.weights.min()) ** 0.5
    return error <= _EXACT * float(np.abs(rows).max()) * least, error


def _tied_optimal(problem: Problem, rows: Array, image: Array, size: float) -> float | None:
    """How far rows are from tied ones whose plan has this image; ``None`` if it is not optimal.

    The plan between equal records and the reference is not unique, and rounding parts equal
    records. Where the image is optimal for the records made equal again, they give a message
    off by no more than they were moved, and the inverse stretches that by 1 / (1 - t) at most.
    """
    weights = problem.weights
    near = cKDTree(rows).query_pairs(1e-8 * float(np.abs(rows).max()), output_type="ndarray")
    shape = (len(rows), len(rows))
    ties = coo_array((np.ones(len(near)), (near[:, 0], near[:, 1])), shape=shape)
    count, groups = connected_components(ties, directed=False)
    mass = np.bincount(groups, weights, minlength=count).astype(np.float64)

    def merged(values: Array) -> Array:
        total = np.zeros((count, values.shape[1]))
        np.add.at(total, groups, weights[:, None] * values)
        return total / mass[:, None]

    equal = merged(rows)
    answer = barycentric_image(equal, problem.reference, mass, problem.reference_weights)
    gap = float(mass @ np.einsum("ij,ij->i", equal, answer - merged(image)))
    return float(np.abs(rows - equal[groups]).max()) if gap <= 2e-15 * size else None


def _error(gap: float, t: float) -> float:
    return float(np.sqrt(t * gap / (1.0 - t)))


def _same(first: Array, second: Array) -> bool:
    return bool(np.abs(first - second).max() <= _TOLERANCE * (np.abs(second).max() or 1.0))


def _corrected(
    vertices: list[Array], aim: Array, root: Array, image: Array
) -> tuple[Array, list[Array]]:
    """The point nearest to ``aim`` in the hull of the vertices, and those it is made of."""
    if len(vertices) > _MOST_VERTICES:
        vertices = [image, *vertices[-_MOST_VERTICES // 2 :]]
    stacked = np.stack([((one - aim) * root).ravel() for one in vertices])
    size = len(stacked)
    if stacked.size * size <= _LARGEST_FACTOR:
        # Squares would cost half the digits, which data of unlike scales need.
        factor: Array = np.asarray(np.linalg.qr(stacked.T, mode="r"))
        half = factor / (float(np.abs(factor).max()) or 1.0)
    else:
        gram = stacked @ stacked.T
        scale = float(np.trace(gram)) or 1.0
        values, vectors = cast("tuple[Array, Array]", np.linalg.eigh(gram / scale))
        half = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T
    # Weights that sum to one, through a heavy last row.
    heavy = 1e3
    system = np.vstack([half, np.full(size, heavy)])
    aims = np.append(np.zeros(len(half)), heavy)
    shares = cast("Array", nnls(system, aims, maxiter=100 * size)[0])
    shares /= shares.sum()
    kept = np.flatnonzero(shares > 1e-12)
    image = np.einsum("k,kij->ij", shares[kept], np.stack([vertices[k] for k in kept]))
    return image, [vertices[k] for k in kept]


def _reencodes(evidence: Evidence, t: float, rows: Array, image: Array) -> bool:
    """Whether the records' own plan gives the message: then they are the records."""
    again = barycentric_image(
        rows, evidence.reference, evidence.weights, evidence.reference_weights, evidence.p
    )
    if _same((1.0 - t) * rows + t * again, evidence.atoms):
        return True
    if evidence.p != 2:
        return False
    # Ties (equal records) have many optimal plans: it is enough that this one is optimal.
    centre = evidence.reference_weights @ evidence.reference
    size = float(np.abs(rows).max()) * float(np.abs(again - centre).max()) * rows.shape[1]
    gap = float(evidence.weights @ np.einsum("ij,ij->i", rows, again - image))
    return gap <= 2e-15 * size


def _pairs_fit(evidence: Evidence, rows: Array, image: Array) -> bool:
    """Whether every atom goes to one atom of the reference, and the pairs are an optimal plan."""
    apart = np.min(
        np.stack([np.abs(image - atom).max(axis=1) for atom in evidence.reference]),
        axis=0,
    )
    if apart.max() > _TOLERANCE * (np.abs(evidence.reference).max() or 1.0):
        return False
    plan = exact_plan(
        rows, evidence.reference, evidence.weights, evidence.reference_weights, p=evidence.p
    )
    cost = np.linalg.norm(rows - image, axis=1) ** evidence.p
    told = float(evidence.weights @ cost)
    return told <= plan.upper_cost * (1.0 + 1e-9) + 1e-12
