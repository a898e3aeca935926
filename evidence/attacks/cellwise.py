"""The projection of the inversion, cell by cell of the plan, where whole plans are too coarse."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.sparse.linalg import splu

from silot.audits.attacks import easiest_barycentric
from silot.audits.case import Case
from silot.audits.inversion import Array, Guess, Problem, projection_inversion
from silot.audits.time_limit import check_time
from silot_transport import ExactPlan, cost_matrix

Index = npt.NDArray[np.intp]
_NEAR = 12
_ROUNDS = 15
_STEPS = 60
_LARGEST = 6_000


def cellwise_projection(case: Case) -> Guess:
    """Projection inversion that ends cell by cell of the plan: for tables of unlike scales."""
    one = easiest_barycentric(case)
    return projection_inversion(one, one.known_t, finish=cellwise_image)


def cellwise_image(problem: Problem, image: Array) -> Array | None:
    """Image of the records under their plan, from an image near it; ``None`` if not found.

    Solves the quadratic programme on the cells of the plan that are near optimal, adds those
    that the records found make optimal, and ends when their own plan gives the message.
    """
    n, m = len(problem.atoms), len(problem.reference)
    if n * _NEAR > _LARGEST or n * m > 4_000_000:
        return None
    cells = np.empty(0, np.intp)
    for _ in range(_ROUNDS):
        check_time()
        rows = problem.rows(image)
        plan = problem.plan(rows)
        answer = problem.image(rows, plan)
        if _fits(problem, answer):
            return answer
        cells = np.unique(np.concatenate([cells, _near_cells(problem, rows, plan)]))
        if len(cells) > 2 * _LARGEST:
            return None
        mass = _solved(problem, cells)
        if mass is None:
            return None
        image = _image(problem, cells, mass)
        cells = cells[mass > 1e-9 * mass.max()]
    return None


def _fits(problem: Problem, image: Array) -> bool:
    """Whether the records with this image have it as the image of their own plan."""
    again = problem.image(problem.rows(image))
    return bool(np.abs(again - image).max() <= 1e-9 * (np.abs(image).max() or 1.0))


def _near_cells(problem: Problem, rows: Array, plan: ExactPlan) -> Index:
    m = len(problem.reference)
    f, g = plan.potentials
    reduced = cost_matrix(rows, problem.reference) - f[:, None] - g
    near = np.argpartition(reduced, min(_NEAR, m - 1), axis=1)[:, :_NEAR]
    around = (np.arange(len(rows))[:, None] * m + near).ravel()
    return np.concatenate([plan.rows * m + plan.cols, around]).astype(np.intp)


def _image(problem: Problem, cells: Index, mass: Array) -> Array:
    n, m = len(problem.atoms), len(problem.reference)
    matrix = sparse.csr_array((mass, (cells // m, cells % m)), shape=(n, m))
    total = np.asarray(matrix.sum(axis=1)).ravel()
    return np.asarray(matrix @ problem.reference) / total[:, None]


def _solved(problem: Problem, cells: Index) -> Array | None:
    """Masses of the cells by an interior point method (Mehrotra), in units of 1 / n."""
    n, m = len(problem.atoms), len(problem.reference)
    scale = float(np.abs(problem.reference).max()) or 1.0
    reference, aims = problem.reference / scale, problem.atoms / (problem.t * scale)
    i, j = cells // m, cells % m
    a, b = n * problem.weights, n * problem.reference_weights
    order = np.argsort(i, kind="stable")
    i, j = i[order], j[order]
    blocks = [reference[j[i == row]] @ reference[j[i == row]].T / a[row] for row in range(n)]
    hessian = sparse.block_diag(blocks, format="csc")
    linear = -np.einsum("ij,ij->i", reference[j], aims[i])
    size = len(cells)
    ones = np.ones(size)
    # The last column follows from the others.
    kept = j < m - 1
    marginals = sparse.vstack(
        [
            sparse.csc_array((ones, (i, np.arange(size))), shape=(n, size)),
            sparse.csc_array((ones[kept], (j[kept], np.arange(size)[kept])), shape=(m - 1, size)),
        ],
        format="csc",
    )
    wanted = np.concatenate([a, b[:-1]])
    p, z, y = np.full(size, n / size), np.ones(size), np.zeros(len(wanted))
    for _ in range(_STEPS):
        check_time()
        dual = hessian @ p + linear - marginals.T @ y - z
        primal = marginals @ p - wanted
        gap = float(p @ z) / size
        if gap < 1e-13 and max(np.abs(primal).max(), np.abs(dual).max()) < 1e-9:
            break
        corner = 1e-13 * sparse.eye_array(len(wanted), format="csc")
        system = sparse.block_array(
            [[hessian + sparse.diags_array(z / p), -marginals.T], [marginals, corner]],
            format="csc",
        )
        try:
            factor = splu(system)
        except RuntimeError:
            return None

        def step(target: Array) -> tuple[Array, Array, Array]:
            found = factor.solve(np.concatenate([-dual - z + target / p, -primal]))  # noqa: B023
            dp = found[:size]
            return dp, found[size:], (target - z * dp) / p - z  # noqa: B023

        dp, _, dz = step(np.zeros(size))
        ahead = (p + _reach(p, dp) * dp) @ (z + _reach(z, dz) * dz) / size
        centre = (ahead / gap) ** 3 * gap
        dp, dy, dz = step(centre - dp * dz)
        if not np.isfinite(dp).all():
            return None
        go, back = 0.995 * _reach(p, dp), 0.995 * _reach(z, dz)
        p, y, z = p + go * dp, y + back * dy, z + back * dz
    mass = np.empty(size)
    mass[order] = p
    return mass


def _reach(values: Array, step: Array) -> float:
    down = step < 0
    return min(1.0, float((-values[down] / step[down]).min(initial=np.inf)))
