"""Measures on Wasserstein geodesics."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from ._check import Array, Weights, as_clouds, as_order, interval
from .cost import paired_cost
from .errors import InputError
from .exact import ExactPlan, exact_plan

Interpolation = Literal["exact", "barycentric"]
Side = Literal["x", "y"]


@dataclass(frozen=True)
class Interpolant:
    """A measure between two measures, and how far it is from the first.

    Attributes
    ----------
    atoms, weights
        Shapes (k, d) and (k,), all weights positive.
    geodesic
        Whether it lies on a geodesic: always for exact interpolation, and for barycentric
        interpolation when the plan splits no point of the supporting side.
    distance, lower
        ``W_p`` of the two measures from the plan that was used, and its certified lower bound.
    displacement
        Cost of the coupling of ``x`` with the interpolant that the plan induces: an upper bound
        of ``W_p(x, interpolant)``, equal to ``t * distance`` on a geodesic.
    gap
        Cost of the plan less its certified lower bound.
    optimal
        Whether the plan was proven optimal.
    """

    atoms: Array = field(repr=False)
    weights: Array = field(repr=False)
    geodesic: bool
    distance: float
    lower: float
    displacement: float
    gap: float
    optimal: bool


def interpolate(
    x: npt.ArrayLike, y: npt.ArrayLike, a: Weights = None, b: Weights = None,
    *, t: float, p: int = 2, interpolation: Interpolation = "barycentric", support: Side = "x",
) -> Interpolant:  # fmt: skip
    r"""Interpolate at parameter ``t`` between the measures ``x`` (t = 0) and ``y`` (t = 1).

    Exact (McCann), on at most n + m - 1 atoms:

    .. math:: \eta_t = \sum_{ij} P_{ij}\, \delta_{(1-t) x_i + t y_j}

    Barycentric, on the points of one side (here ``x``; ``support="y"`` swaps the roles):

    .. math:: \eta_t = \sum_i a_i\, \delta_{(1-t) x_i + t\, (P y)_i / a_i}

    Parameters
    ----------
    x, y
        Points, shapes (n, d) and (m, d).
    a, b
        Weights; ``None`` means uniform. Points of weight zero give no atom.
    t
        Between 0 and 1, exclusive.
    p
        Order of the plan, 1 or 2.
    interpolation
        ``"exact"`` or ``"barycentric"``.
    support
        Side whose points and weights support a barycentric interpolant.

    Returns
    -------
    Interpolant

    Raises
    ------
    InputError, MismatchError, SolverError
        As ``exact_plan``; ``t`` outside (0, 1); an unknown option.

    Notes
    -----
    Eq. 4 and 5 of *Private Wasserstein Distance* (TriangleWad), eq. 5 and 10 of *Federated
    Wasserstein Distance* (FedWaD).

    Examples
    --------
    >>> interpolate([[0.0]], [[4.0]], t=0.25).atoms
    array([[1.]])
    """
    order = as_order(p)
    x, y, a, b = as_clouds(x, y, a, b)
    t = interval(t, "t", "option-t")
    if interpolation not in ("exact", "barycentric"):
        raise InputError(
            f"interpolation is {interpolation!r}; give 'exact' or 'barycentric'.",
            code="option-interpolation",
        )
    if support not in ("x", "y"):
        raise InputError(f"support is {support!r}; give 'x' or 'y'.", code="option-support")
    plan = exact_plan(x, y, a, b, p=order)
    if interpolation == "exact":
        return _interpolate_exactly(plan, x, y, t)
    if support == "x":
        return _interpolate_on_x(plan, x, y, a, t)
    return _interpolate_on_y(plan, x, y, b, t)


def _interpolate_exactly(plan: ExactPlan, x: Array, y: Array, t: float) -> Interpolant:
    atoms = (1.0 - t) * x[plan.rows] + t * y[plan.cols]
    weights = plan.mass / plan.mass.sum()
    return _make_interpolant(plan, atoms, weights, t * plan.distance, geodesic=True)


def _interpolate_on_x(plan: ExactPlan, x: Array, y: Array, a: Array, t: float) -> Interpolant:
    used = np.flatnonzero(a)
    image = (plan.plan @ y)[used] / a[used, None]
    atoms = (1.0 - t) * x[used] + t * image
    moved = float(a[used] @ paired_cost(x[used], atoms, plan.p))
    # With one cell a row, the plan splits no point.
    is_whole = len(plan.rows) == len(used)
    return _make_interpolant(plan, atoms, a[used], moved ** (1.0 / plan.p), geodesic=is_whole)


def _interpolate_on_y(plan: ExactPlan, x: Array, y: Array, b: Array, t: float) -> Interpolant:
    used = np.flatnonzero(b)
    image = (plan.plan.T @ x)[used] / b[used, None]
    atoms = (1.0 - t) * image + t * y[used]
    place = np.full(len(b), -1, dtype=np.intp)
    place[used] = np.arange(len(used))
    moved = float(plan.mass @ paired_cost(x[plan.rows], atoms[place[plan.cols]], plan.p))
    is_whole = len(plan.cols) == len(used)
    return _make_interpolant(plan, atoms, b[used], moved ** (1.0 / plan.p), geodesic=is_whole)


def _make_interpolant(
    plan: ExactPlan, atoms: Array, weights: Array, displacement: float, *, geodesic: bool
) -> Interpolant:
    return Interpolant(
        atoms,
        weights,
        geodesic=geodesic,
        distance=plan.distance,
        lower=plan.lower,
        displacement=displacement,
        gap=plan.upper_cost - plan.lower_cost,
        optimal=plan.optimal,
    )
