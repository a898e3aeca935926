r"""Every potential that can be optimal for a metric cost of few labels.

The dual of transport with a metric cost is a maximum over one polytope, whatever the two
distributions are:

.. math:: W(p, q) = \max_f \langle f, p - q \rangle, \quad f_i - f_j \le C_{ij}.

A linear function is largest at a vertex. There are at most :math:`\binom{2L - 2}{L - 1}` of them
(70 for 5 labels, 48620 for 10), found once per label space by walking from vertex to vertex. At a
vertex the tight constraints span a tree of labels; such a tree is a row of edges ``L i + j``.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

MOST = 10
"""Labels up to which vertices are listed."""

# Costs become whole numbers up to this, so that walking is exact; a potential is no sum of more
# than MOST of them.
_SCALE = 2.0**58
# Ties would multiply the trees without end: every cost is raised at random, by about this share
# of the smallest one, and by no less than this whole number. The raise keeps a metric a metric.
_JITTER, _LEAST = 2.0**-24, 2.0**8
# Trees whose neighbours are looked for at once.
_BLOCK = 512


def vertices(cost: Array) -> Array:
    """Vertices of the polytope, one of f and -f, shape (V, L); the first column is 0.

    Parameters
    ----------
    cost
        Shape (L, L), a metric, 2 <= L <= ``MOST``.

    Examples
    --------
    >>> vertices(np.array([[0.0, 2.0], [2.0, 0.0]])).tolist()
    [[0.0, -2.0]]
    """
    return _listed(len(cost), np.ascontiguousarray(cost, dtype=np.float64).tobytes())


@lru_cache(maxsize=16)
def _listed(size: int, data: bytes) -> Array:
    cost = np.frombuffer(data).reshape(size, size)
    whole = _whole(cost)
    # The star of the first label: f = -C[0].
    front = _canonical(np.arange(1, size)[None], size)
    seen = _key(front, size)
    parts = [front]
    while len(front):
        found = [_neighbours(front[i : i + _BLOCK], whole) for i in range(0, len(front), _BLOCK)]
        near = np.concatenate(found)
        keys, first = np.unique(_key(near, size), return_index=True)
        fresh = ~np.isin(keys, seen, assume_unique=True)
        front = near[first[fresh]]
        seen = np.concatenate([seen, keys[fresh]])
        parts.append(front)
    trees = np.concatenate(parts)
    # Without the raise, which also brings together what it kept apart.
    found = np.hstack(
        [np.zeros((len(trees), 1)), np.einsum("tve,te->tv", _sides(trees, size), cost.flat[trees])]
    )
    step = 1e-9 * float(cost[cost > 0].min())
    first = np.unique(np.rint(found / step), axis=0, return_index=True)[1]
    listed = found[np.sort(first)]
    listed.flags.writeable = False
    return listed


def _whole(cost: Array) -> Whole:
    scaled = cost / cost.max() * _SCALE
    smallest = float(scaled[scaled > 0].min())
    raised = np.random.default_rng(0).uniform(1.0, 2.0, cost.shape)
    raised = np.triu(raised, 1) * max(_JITTER * smallest, _LEAST)
    whole = np.rint(scaled + raised + raised.T).astype(np.int64)
    np.fill_diagonal(whole, 0)
    return whole


def _neighbours(trees: Whole, whole: Whole) -> Whole:
    """Trees of the vertices next to those of ``trees``, (m, L - 1)."""
    size = len(whole)
    sides = _sides(trees, size).astype(np.int64)
    f = np.zeros((len(trees), size), dtype=np.int64)
    f[:, 1:] = (sides * whole.flat[trees][:, None]).sum(axis=2)
    slack = whole - f[:, :, None] + f[:, None]
    # Without its edge i -> j a tree is two parts; the one with j rises until an edge from it to
    # the other is tight. Columns of `sides` are the parts without label 0: -1 where j is in it.
    apart = np.zeros((len(trees), size - 1, size), dtype=np.int64)
    apart[:, :, 1:] = sides.transpose(0, 2, 1)
    rises = np.where(np.any(apart < 0, axis=2, keepdims=True), apart < 0, apart == 0)
    across = rises[:, :, :, None] & ~rises[:, :, None]
    height = np.where(across, slack[:, None], np.iinfo(np.int64).max).reshape(*trees.shape, -1)
    tree, edge, entering = np.nonzero(height == height.min(axis=2, keepdims=True))
    near = trees[tree]
    near[np.arange(len(tree)), edge] = entering
    return _canonical(near, size)


def _sides(trees: Whole, size: int) -> Array:
    """Shape (m, L - 1, L - 1): what each edge's cost adds to each label's potential.

    The inverse of a tree's incidence matrix; its entries are -1, 0 and 1.
    """
    tails, heads = np.divmod(trees, size)
    incidence = np.zeros((len(trees), size - 1, size))
    row, edge = np.indices(trees.shape)
    incidence[row, edge, tails] = 1.0
    incidence[row, edge, heads] = -1.0
    return np.rint(np.linalg.inv(incidence[:, :, 1:]))


def _canonical(trees: Whole, size: int) -> Whole:
    """Sort edges; of a tree and its reverse, whose potentials are -f, take the smaller key."""
    forth = np.sort(trees, axis=1)
    back = np.sort(trees % size * size + trees // size, axis=1)
    return np.where((_key(forth, size) <= _key(back, size))[:, None], forth, back)


def _key(trees: Whole, size: int) -> Whole:
    # Below (10 * 10) ** 9 = 1e18.
    return trees @ (size * size) ** np.arange(size - 1)
