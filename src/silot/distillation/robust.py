"""Teachers that most others agree with: liars are outvoted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .labels import LabelSpace

Array = npt.NDArray[np.float64]

_BATCH = 1 << 16
# Of the radius of the majority, how far from its centre a teacher may be.
_REACH = 1.5


def majority(outputs: npt.ArrayLike, space: LabelSpace) -> npt.NDArray[np.bool_]:
    r"""Which teachers belong to the closest majority, or are about as close.

    Teachers are as far apart as their predictions are, by exact transport, in the mean over the
    inputs. Of the balls around one teacher that hold :math:`\lfloor K / 2 \rfloor + 1` of them the
    smallest is taken. Fewer than K / 2 liars do not fill it, however alike their lies are: it has
    an honest teacher, and is no larger than the smallest that honest ones fill. Whoever is within
    1.5 times its radius belongs to it. Lies that are as near as that, and teachers that are
    right where the majority is wrong, cannot be told from others.

    Parameters
    ----------
    outputs
        Shape (K, n, L): probabilities of K teachers.
    space
        Of the labels.

    Returns
    -------
    ndarray
        Shape (K,).

    Examples
    --------
    >>> space = LabelSpace([0.0, 1.0, 2.0])
    >>> told = [[[1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0]], [[0.0, 0.0, 1.0]]]
    >>> majority(told, space).tolist()
    [True, True, False]
    """
    given = np.asarray(outputs, dtype=np.float64)
    teachers = len(given)
    apart = np.zeros((teachers, teachers))
    for i in range(teachers):
        for j in range(i):
            apart[i, j] = apart[j, i] = _distance(given[i], given[j], space)
    radii = np.sort(apart, axis=1)[:, teachers // 2]
    centre = int(radii.argmin())
    return apart[centre] <= _REACH * radii[centre]


def _distance(p: Array, q: Array, space: LabelSpace) -> float:
    # Slow to import.
    import torch

    from ._label_transport import solve_exact

    line = space.coordinates[:, 0] if space.line else None
    total = 0.0
    for at in range(0, len(p), _BATCH):
        one, other = (torch.from_numpy(each[at : at + _BATCH]) for each in (p, q))
        total += float(solve_exact(one, other, space.cost, line)[0].sum())
    return total / len(p)
