"""Points from their squared distances to known points."""

from __future__ import annotations

import numpy as np

from ._evidence import Array


def located(squares: Array, known: Array) -> Array | None:
    r"""Points ``a_i`` with ``|a_i - z_j|^2 = squares[i, j]``.

    Differences of squares are linear in the point:
    :math:`-2 \langle a, z_j - \bar z \rangle = (s_j - |z_j|^2) - \overline{(s - |z|^2)}`.

    Returns
    -------
    numpy.ndarray or None
        Shape (n, d); ``None`` when the known points do not span the space, so that a point and
        its mirror image cannot be told apart.
    """
    centre = known.mean(axis=0)
    near = known - centre
    left = squares - np.einsum("ij,ij->i", near, near)
    left = -0.5 * (left - left.mean(axis=1, keepdims=True))
    values = np.linalg.svd(near, compute_uv=False)
    if len(known) <= near.shape[1] or values[-1] <= 1e-10 * values[0]:
        return None
    solution = np.linalg.lstsq(near, left.T, rcond=None)[0].T
    return solution + centre
