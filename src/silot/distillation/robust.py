"""Teachers that most others agree with, input by input: liars are outvoted."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .labels import LabelSpace

Array = npt.NDArray[np.float64]

_BATCH = 1 << 16
# Of the median teacher's share of inputs in the majority, what a teacher needs.
_OFTEN = 0.5


def majority(outputs: npt.ArrayLike, space: LabelSpace) -> npt.NDArray[np.bool_]:
    r"""Which teachers belong to the closest majority on each input.

    The teacher k is taken whose :math:`h = \lfloor K / 2 \rfloor + 1` nearest teachers, itself
    among them, are nearest in all, and those h count: distances are exact transport between
    predictions. Fewer than K / 2 liars never are a majority, and count only where they say about
    what the others say. Who belongs to it on less than half as many inputs as the median teacher
    counts nowhere, and then fewer liars are left to be outvoted among the others.

    Parameters
    ----------
    outputs
        Shape (K, n, L): probabilities of K teachers.
    space
        Of the labels.

    Returns
    -------
    ndarray
        Shape (K, n): for every input h teachers, or more where some count nowhere.

    Examples
    --------
    >>> space = LabelSpace([0.0, 1.0, 2.0])
    >>> told = [[[1.0, 0.0, 0.0]], [[0.9, 0.1, 0.0]], [[0.0, 0.0, 1.0]]]
    >>> majority(told, space)[:, 0].tolist()
    [True, True, False]
    """
    given = np.asarray(outputs, dtype=np.float64)
    teachers, inputs, _ = given.shape
    apart = np.zeros((inputs, teachers, teachers))
    for i in range(teachers):
        for j in range(i):
            apart[:, i, j] = apart[:, j, i] = _distances(given[i], given[j], space)
    trusted, liars = np.arange(teachers), (teachers - 1) // 2
    while True:
        kept = _closest(apart[:, trusted][:, :, trusted], len(trusted) - liars)
        often = kept.mean(axis=0)
        odd = np.flatnonzero(often < _OFTEN * np.median(often))
        odd = odd[np.argsort(often[odd], kind="stable")][:liars]
        if not len(odd):
            break
        trusted, liars = np.delete(trusted, odd), liars - len(odd)
    found = np.zeros((teachers, inputs), dtype=np.bool_)
    found[trusted] = kept.T
    return found


def _closest(apart: Array, size: int) -> npt.NDArray[np.bool_]:
    """Of so many teachers that are closest to one of them, (n, K)."""
    inputs, teachers, _ = apart.shape
    near = np.argsort(apart, axis=2, kind="stable")[:, :, :size]
    spread = np.take_along_axis(apart, near, axis=2).sum(axis=2)
    chosen = near[np.arange(inputs), spread.argmin(axis=1)]
    found = np.zeros((inputs, teachers), dtype=np.bool_)
    found[np.arange(inputs)[:, None], chosen] = True
    return found


def _distances(p: Array, q: Array, space: LabelSpace) -> Array:
    # Slow to import.
    import torch

    from ._exact import exact

    line = space.coordinates[:, 0] if space.line else None
    parts = [
        exact(torch.from_numpy(p[k : k + _BATCH]), torch.from_numpy(q[k : k + _BATCH]),
              space.cost, line)[0].numpy()
        for k in range(0, len(p), _BATCH)
    ]  # fmt: skip
    return np.concatenate(parts)
