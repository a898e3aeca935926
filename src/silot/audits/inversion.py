"""Compute records from an interpolant whose parameter is known: direct and projection inversion."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import numpy.typing as npt
from scipy.optimize import nnls
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from silot_transport import ExactPlan, exact_plan

from .time_limit import check_time

Array = npt.NDArray[np.float64]
Form = Literal["rows", "pairs", "cells"]

NO_PARAMETER = "the interpolation parameter was not seen"

# Relative error below which two encodings count as the same. Plans are vertices, so encodings
# that differ at all differ by far more than this.
_TOLERANCE = 1e-9
# Relative error below which a record counts as recovered exactly, as in `metrics`.
_EXACT = 1e-6
# Gap to optimality that rounding of float64 sums leaves, relative to the size of the products.
_ROUNDING_GAP = 2e-15
_MOST_STEPS = 300
# Steps of the projection before its `finish` is tried: most projections end before it.
_PATIENCE = 40
# Images kept in one corrective step. The least-squares problem grows with their square.
_MOST_VERTICES = 120
# Work of a QR factorisation above which the corrective step uses the smaller Gram matrix.
_LARGEST_FACTOR = 100_000_000


class InapplicableError(Exception):
    """An attack does not apply; the text says what the messages lack for it."""


@dataclass(frozen=True)
class Interpolant:
    """An interpolant of a target's records towards a known reference."""

    atoms: Array = field(repr=False)
    """Shape (k, d)."""
    weights: Array = field(repr=False)
    """Shape (k,)."""
    reference: Array = field(repr=False)
    """Shape (S, d)."""
    reference_weights: Array = field(repr=False)
    """Shape (S,), all positive."""
    t: float | None
    """Interpolation parameter, ``None`` where the viewpoint does not know it."""
    form: Form
    """``"rows"``: one atom for every record, in the order of the records. ``"pairs"``: one atom for
    every coupled pair of a record and an atom of the reference. ``"cells"``: one atom for every
    atom of the reference, from the mean of the records that the plan sends to it."""
    p: int = 2
    """Order of the plan behind it."""
    round: int = 0
    """Round of the run that it came with."""
    is_geodesic: bool | None = None
    """Whether the holder said that no atom is a mixture of records; ``None`` where it said nothing.
    """
    group: int = 0
    """Class of the records."""
    mass: float = 1.0
    """Their share of all weights."""
    distance: float | None = None
    """``W_p`` of the records and the reference, where the holder sent it."""
    mean: Array | None = field(default=None, repr=False)
    """Mean of the records, where the holder sent it."""

    @property
    def known_t(self) -> float:
        """The parameter; ``InapplicableError`` where it is not known."""
        if self.t is None:
            raise InapplicableError(NO_PARAMETER)
        return self.t

    @property
    def means(self) -> Array:
        """Means of the records behind the atoms, for the form ``"cells"``."""
        t = self.t or 0.0
        return (self.atoms - t * self.reference) / (1.0 - t)

    @property
    def image(self) -> Array:
        """``barycentric_image`` of the atoms."""
        return barycentric_image(
            self.atoms, self.reference, self.weights, self.reference_weights, self.p
        )


@dataclass(frozen=True)
class Guess:
    """Records that an attack guesses."""

    rows: Array = field(repr=False)
    """Guessed records (k, d)."""
    ordered: bool = False
    """Whether row i stands for the i-th record of positive weight."""
    certified: bool | None = None
    """Whether the messages themselves prove the rows; ``None`` where no such check exists."""
    note: str = ""
    """A sentence that the verdict adds."""
    proven: npt.NDArray[np.bool_] | None = field(default=None, repr=False)
    """Which rows are proven, where only a part of them is (k,)."""


def barycentric_image(
    points: Array, reference: Array, weights: Array, reference_weights: Array, p: int = 2
) -> Array:
    """Return the mean of the reference's atoms that an optimal plan sends each point to (n, d)."""
    plan = exact_plan(points, reference, weights, reference_weights, p=p)
    return np.asarray(plan.plan @ reference) / weights[:, None]


def normalized(weights: Array) -> Array:
    """Scale weights so that they sum to one."""
    return weights / np.sum(weights)


def merged_rows(rows: Array, weights: Array, records: int | None) -> Array:
    """Merge equal rows, and repeat each as often as its weight says of this many records."""
    centred = rows - rows.mean(axis=0)
    scale = float(np.abs(centred).max()) or 1.0
    # Atoms of one record differ by rounding only, which 1 / (1 - t) enlarges to far below 1e-7.
    keys = np.rint(centred / (1e-7 * scale))
    _, first, codes = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    mass = np.bincount(codes.ravel(), weights)
    if records is None:
        return rows[first]
    counts = np.maximum(np.rint(mass / weights.sum() * records).astype(int), 1)
    # Rows that did not merge would be repeated without end: then each is listed once.
    return np.repeat(rows[first], counts, axis=0) if counts.sum() <= 4 * records else rows[first]


def direct_inversion(interpolant: Interpolant, t: float, records: int | None = None) -> Guess:
    r"""Use the plan from the interpolant to the reference as the plan of the records.

    .. math:: \hat x_i = \frac{\eta_i - t\, T_i}{1 - t}

    with :math:`T_i` the image of atom i under an optimal plan from the interpolant to the
    reference. Geodesics do not cross, so the inverse is exact wherever the plan splits no atom:
    for the exact interpolant always, for the barycentric one where it splits no record.
    """
    image = interpolant.image
    rows = (interpolant.atoms - t * image) / (1.0 - t)
    if interpolant.form == "pairs":
        merged = merged_rows(rows, interpolant.weights, records)
        return Guess(merged, certified=_pairs_are_optimal(interpolant, rows, image))
    return Guess(rows, ordered=True, certified=_reencodes(interpolant, t, rows, image))


@dataclass(frozen=True)
class Problem:
    """The projection of a message: ``min sum_i a_i |(P y)_i / a_i - eta_i / t|^2`` over plans P."""

    atoms: Array = field(repr=False)
    reference: Array = field(repr=False)
    weights: Array = field(repr=False)
    reference_weights: Array = field(repr=False)
    t: float

    def rows(self, image: Array) -> Array:
        """Return the records that give the message with this image."""
        return (self.atoms - self.t * image) / (1.0 - self.t)

    def plan(self, rows: Array) -> ExactPlan:
        """Return an optimal plan from records to the reference."""
        return exact_plan(rows, self.reference, self.weights, self.reference_weights)

    def image(self, rows: Array, plan: ExactPlan | None = None) -> Array:
        """Return the image of records under an optimal plan."""
        plan = plan or self.plan(rows)
        return np.asarray(plan.plan @ self.reference) / self.weights[:, None]


Finish = Callable[[Problem, Array], "Array | None"]
"""Computes the image of the records from an image near it, or ``None`` where it cannot."""


def projection_inversion(
    interpolant: Interpolant, t: float, *, finish: Finish | None = None
) -> Guess:
    r"""Compute the inverse of the barycentric interpolant, which exists and is unique.

    .. math:: x = \frac{\eta - t\, \Pi_K(\eta / t)}{1 - t}

    with :math:`\Pi_K` the projection on the barycentric images of all couplings with the
    reference. Fully corrective Frank-Wolfe finds it; each of its steps is one transport problem.
    It stops when a coupling that gives the message is optimal for its records, which proves that
    they are *the* records: with a gap :math:`g` to optimality the root mean square error is at
    most :math:`(t g / (1 - t))^{1/2}`.
    """
    projection = project(interpolant, t, finish=finish)
    rows = (interpolant.atoms - t * projection.image) / (1.0 - t)
    note = ""
    if not projection.certified:
        note = (
            f"the projection ended with a root mean square error of up to {projection.error:.1e}; "
            f"noise of size N in the message moves a record by at most N / (1 - t) = "
            f"{1 / (1 - t):.3g} N"
        )
    return Guess(rows, ordered=True, certified=projection.certified, note=note)


@dataclass(frozen=True)
class Projection:
    """Image of the records under their plan, whether it is proven, and a bound of its error."""

    image: Array = field(repr=False)
    certified: bool
    error: float


def project(
    interpolant: Interpolant, t: float, *, steps: int = _MOST_STEPS, finish: Finish | None = None
) -> Projection:
    """Project ``eta / t`` on the barycentric images of couplings, in the norm of the weights.

    ``finish`` is tried once, where the projection takes many steps.
    """
    # A shift of everything by the mean of the reference changes no plan, and keeps digits.
    centre = interpolant.reference_weights @ interpolant.reference
    atoms, reference = interpolant.atoms - centre, interpolant.reference - centre
    weights = interpolant.weights
    problem = Problem(atoms, reference, weights, interpolant.reference_weights, t)
    root = np.sqrt(weights)[:, None]
    vertices = [problem.image(atoms)]
    image, answer = vertices[0], vertices[0]
    best, least = image, np.inf
    size = float(np.abs(atoms).max()) * float(np.abs(reference).max()) * atoms.shape[1] or 1.0
    for step in range(steps):
        check_time()
        for candidate in (answer, image) if step else (image,):
            rows = problem.rows(candidate)
            answer = problem.image(rows)
            # How far the plan behind the candidate is from optimal for its own records.
            gap = max(float(weights @ np.einsum("ij,ij->i", rows, answer - candidate)), 0.0)
            if gap < least:
                best, least = candidate, gap
            if gap <= _ROUNDING_GAP * size or _is_same(answer, candidate):
                return Projection(candidate + centre, True, _error(gap, t))
            vertices.append(answer)
        image, vertices = _nearest_in_hull(vertices, atoms / t, root, image)
        finished = finish(problem, image) if finish and step == _PATIENCE else None
        if finished is not None:
            return Projection(finished + centre, True, 0.0)
    certified, error = _bounded(problem, best, least, size)
    return Projection(best + centre, certified, error)


def _bounded(problem: Problem, image: Array, gap: float, size: float) -> tuple[bool, float]:
    """Check whether an image proves its records though its plan is not optimal; bound its error."""
    rows = problem.rows(image)
    shift = _shift_to_ties(problem, rows, image, size)
    if shift is not None:
        return True, shift
    error = _error(gap, problem.t)
    # The bound is of the mean over records: a light record may carry all of the error.
    least = float(problem.weights.min()) ** 0.5
    return error <= _EXACT * float(np.abs(rows).max()) * least, error


def _shift_to_ties(problem: Problem, rows: Array, image: Array, size: float) -> float | None:
    """Return how far rows are from tied ones whose plan has this image, ``None`` if it has not.

    The plan between equal records and the reference is not unique, and rounding separates equal
    records. Where the image is optimal for the records made equal again, their message differs
    by no more than the records were moved, and the inverse enlarges that by 1 / (1 - t) at most.
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
    return float(np.abs(rows - equal[groups]).max()) if gap <= _ROUNDING_GAP * size else None


def _error(gap: float, t: float) -> float:
    return float(np.sqrt(t * gap / (1.0 - t)))


def _is_same(first: Array, second: Array) -> bool:
    return bool(np.abs(first - second).max() <= _TOLERANCE * (np.abs(second).max() or 1.0))


def _nearest_in_hull(
    vertices: list[Array], aim: Array, root: Array, image: Array
) -> tuple[Array, list[Array]]:
    """Return the point nearest to ``aim`` in the hull of the vertices, and its own vertices."""
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
    # A heavy last row makes the non-negative shares sum to one.
    heavy = 1e3
    system = np.vstack([half, np.full(size, heavy)])
    aims = np.append(np.zeros(len(half)), heavy)
    shares = cast("Array", nnls(system, aims, maxiter=100 * size)[0])
    shares /= shares.sum()
    # Vertices of share 0 are dropped, so that later steps stay small.
    used = np.flatnonzero(shares > 1e-12)
    image = np.einsum("k,kij->ij", shares[used], np.stack([vertices[k] for k in used]))
    return image, [vertices[k] for k in used]


def _reencodes(interpolant: Interpolant, t: float, rows: Array, image: Array) -> bool:
    """Check whether the plan of the rows gives the message, which proves that they are records."""
    again = barycentric_image(
        rows, interpolant.reference, interpolant.weights, interpolant.reference_weights,
        interpolant.p,
    )  # fmt: skip
    if _is_same((1.0 - t) * rows + t * again, interpolant.atoms):
        return True
    if interpolant.p != 2:
        return False
    # Equal records have many optimal plans: it is enough that this one is optimal.
    centre = interpolant.reference_weights @ interpolant.reference
    size = float(np.abs(rows).max()) * float(np.abs(again - centre).max()) * rows.shape[1]
    gap = float(interpolant.weights @ np.einsum("ij,ij->i", rows, again - image))
    return gap <= _ROUNDING_GAP * size


def _pairs_are_optimal(interpolant: Interpolant, rows: Array, image: Array) -> bool:
    """Check that every atom goes to one atom of the reference, and that the pairs are optimal."""
    reference = interpolant.reference
    offset = np.min(np.stack([np.abs(image - atom).max(axis=1) for atom in reference]), axis=0)
    if offset.max() > _TOLERANCE * (np.abs(reference).max() or 1.0):
        return False
    plan = exact_plan(
        rows, reference, interpolant.weights, interpolant.reference_weights, p=interpolant.p
    )
    cost = np.linalg.norm(rows - image, axis=1) ** interpolant.p
    total = float(interpolant.weights @ cost)
    return total <= plan.upper_cost * (1.0 + 1e-9) + 1e-12
