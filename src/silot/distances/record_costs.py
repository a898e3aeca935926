"""Costs of records from the costs of their interpolants, as a buyer can read them off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..federation.answer import Array

_EPSILON = float(np.finfo(np.float64).eps)
# Roundings in an entry of a cost matrix that travelled.
_ROUNDINGS = 16.0


def record_costs(
    samples: Sequence[float], costs: Sequence[Array], target: Array, records: Array
) -> tuple[Array, float]:
    r"""Squared distances of sellers' records and a buyer's, from those of interpolants.

    An atom of an interpolant is :math:`(1 - s) x_i + s g_i` with the same :math:`g_i` for every
    s, so its squared distance to a point of the target is a quadratic in s, which three samples
    determine; at s = 0 it is that of the record. And :math:`|x_i - y|^2 - |y|^2` is affine in
    y, so its values at the target give those at every y in the target's affine span.

    Parameters
    ----------
    samples
        Three or more parameters s.
    costs
        For each of them, squared distances (k, m) of atoms and target; atoms in one order.
    target
        Atoms of the buyer's interpolant (m, d).
    records
        The buyer's records (n, d).

    Returns
    -------
    costs
        Squared distances (k, n) of the sellers' records and the buyer's.
    rounding
        How far rounding, and what of ``records`` is outside the span, can have moved an entry.
    """
    powers = np.vander(samples, 3, increasing=True)
    # The combination of samples that is exact for 1, s and s^2, at s = 0.
    at_zero = np.linalg.lstsq(powers.T, np.array([1.0, 0.0, 0.0]))[0]
    largest = max(float(np.abs(matrix).max()) for matrix in costs)
    start = sum((w * matrix for w, matrix in zip(at_zero, costs, strict=True)), np.zeros(()))
    missed = float(np.abs(powers.T @ at_zero - [1.0, 0.0, 0.0]).max()) * 4.0 * largest
    # Atoms were rounded when they were made, and costs are those of the rounded ones.
    atoms = float(np.abs(target).max()) + largest**0.5
    moved = _ROUNDINGS * _EPSILON * target.shape[1] ** 0.5 * atoms
    rounded = 2.0 * largest**0.5 * moved + moved**2 + _ROUNDINGS * _EPSILON * largest
    rounding = float(np.abs(at_zero).sum()) * rounded + missed
    centre = target.mean(axis=0)
    near, wanted = target - centre, records - centre
    scale = max(float(np.abs(near).max()), float(np.abs(wanted).max()), np.finfo(float).tiny)
    points = np.column_stack([near / scale, np.ones(len(near))])
    goals = np.column_stack([wanted / scale, np.ones(len(wanted))])
    combine = goals @ np.linalg.pinv(points)
    affine = start - (near**2).sum(axis=1)
    found = affine @ combine.T + (wanted**2).sum(axis=1)
    # A residual r of a point costs 2 x r, and one of the constant |x|^2.
    residual = np.abs(combine @ points - goals).sum(axis=1).max()
    size = float(np.sqrt(max(start.max(), 0.0))) + 2.0 * scale * near.shape[1] ** 0.5
    gain = float(np.abs(combine).sum(axis=1).max())
    sums = _ROUNDINGS * _EPSILON * len(near) * float(np.abs(affine).max()) * gain
    rounding = gain * rounding + sums + 2.0 * float(residual) * size * (size + scale)
    return np.maximum(found, 0.0), rounding + _ROUNDINGS * _EPSILON * float(np.abs(found).max())
