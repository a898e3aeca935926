"""How a transport cost changes with the mass of one record."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ._check import Array
from .cost import build_cost
from .entropic import potentials_of


class Potential(NamedTuple):
    """Potential of every record (n,), in units of cost, and whether it was solved for."""

    values: Array
    converged: bool


def debiased_potential(x: Array, y: Array, a: Array, b: Array, *, epsilon: float) -> Potential:
    r"""Debiased potential of entropic transport from ``x`` to ``y``.

    .. math:: f_{xy} - f_{xx},

    the derivative of the Sinkhorn divergence by the masses of ``x``.

    Parameters
    ----------
    x, y, a, b
        Points (n, d) and (m, d), weights.
    epsilon
        Regularisation, in units of cost.

    Returns
    -------
    Potential

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, eq. 9; the potentials
    of exact transport are not unique, entropic ones are.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[0.0], [5.0]]), np.array([[0.0], [1.0]])
    >>> half = np.full(2, 0.5)
    >>> found = debiased_potential(x, y, half, half, epsilon=0.1).values
    >>> bool(found[1] > found[0])
    True
    """
    across, done = potentials_of(build_cost(x, y, 2).matrix, a, b, epsilon)
    own, own_done = potentials_of(build_cost(x, x, 2).matrix, a, a, epsilon, symmetric=True)
    return Potential(across - own, done and own_done)


def calibrated_gradient(potential: npt.ArrayLike, weights: npt.ArrayLike) -> Array:
    r"""Derivative of a transport cost as mass moves to one record from all others.

    .. math:: s_l = f_l - \frac{\sum_{j \ne l} a_j f_j}{1 - a_l}

    Parameters
    ----------
    potential
        Potential of every record (n,).
    weights
        Masses (n,), summing to 1.

    Returns
    -------
    numpy.ndarray
        Shape (n,); zero for a record that has all the mass.

    Notes
    -----
    Eq. 10 of *Data Valuation and Detections in Federated Learning* (FedBary), for any weights.
    Adding a constant to the potential changes nothing.

    Examples
    --------
    >>> calibrated_gradient([0.0, 0.0, 3.0], [1 / 3, 1 / 3, 1 / 3])
    array([-1.5, -1.5,  3. ])
    """
    f, a = np.asarray(potential, dtype=np.float64), np.asarray(weights, dtype=np.float64)
    total = float(a @ f)
    rest = 1.0 - a
    safe = rest > 1e-12
    return np.where(safe, (f - total) / np.where(safe, rest, 1.0), 0.0)
