r"""Exact transport of many pairs of distributions at one cost, all at the same time.

The dual of a problem whose labels :math:`i` have too much mass and :math:`j` too little,

.. math:: \max \sum_i d_i \varphi_i - \sum_j d_j \varphi_j, \quad \varphi_i + \varphi_j \le C_{ij},

is solved at a tree of tight constraints whose flows are not negative. Entropic potentials are
pushed to such a tree (``_grown``), which seldom has a wrong flow left; network simplex steps on
the dual mend those (``_mended``). Every step is taken for all problems of a batch at once. Where
there are compiled kernels, those do it instead, by shortest augmenting paths.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from silot_transport import _native

Array = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# Costs are raised at random by so small a share: ties would let steps go round in circles.
_JITTER = 1e-11
# Above every potential and cost: the largest cost is 1 here.
_FAR = 1e6
# Of the mass that moves: what rounding may make of a flow of 0.
_ROUNDING = 1e-14
# The largest gap between cost and dual value, as a share of the cost, that counts as none.
_GAP = 1e-9
# Entropic start: epsilons as shares of the largest cost, and iterations at each.
_EPSILONS, _ITERATIONS = (0.04, 0.02, 0.0125), 8
# Numbers that are held at once: as many as fit the cache.
_BLOCK, _POOL = 1 << 15, 1 << 23
# Simplex steps for every label before a problem is given up.
_STEPS = 20


def potentials(change: Array, cost: Array) -> tuple[Array, Flags]:
    """Potentials f with ``f_i - f_j <= cost_ij`` that are best for every row of ``change``.

    Parameters
    ----------
    change
        Shape (n, L); rows sum to 0.
    cost
        Shape (L, L), a metric.

    Returns
    -------
    potentials, proven
        Shape (n, L); and (n,), whether a flow was found whose cost is theirs to 1e-9.
    """
    if _native.kernels is not None:
        return _compiled(change, cost)
    found, proven = np.zeros_like(change), np.ones(len(change), dtype=np.bool_)
    out, into = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    moving = np.flatnonzero((out > 0).any(axis=1) & (into > 0).any(axis=1))
    largest = float(cost.max())
    unit = cost / largest
    raised = np.random.default_rng(0).uniform(1.0, 1.0 + _JITTER, cost.shape)
    raised = unit * (np.triu(raised) + np.triu(raised, 1).T)
    for rows in _blocks(moving, _POOL // cost.size):
        # Each side by itself: where hardly any mass moves, rounding leaves them unlike.
        net = _shares(out[rows]) - _shares(into[rows])
        f, fine = _solved(net, unit, raised)
        found[rows], proven[rows] = largest * f, fine
    return found, proven


def _compiled(change: Array, cost: Array) -> tuple[Array, Flags]:
    assert _native.kernels is not None
    change = np.ascontiguousarray(change)
    found, paid = np.empty_like(change), np.empty(len(change))
    _native.kernels.labels(np.ascontiguousarray(cost), change, found, paid)
    out, into = np.maximum(change, 0.0), np.maximum(-change, 0.0)
    # Each side by itself, as the kernel does: a problem where nothing moves is worth 0.
    sums = [np.maximum(side.sum(axis=1), np.finfo(np.float64).tiny) for side in (out, into)]
    value = (found * out).sum(axis=1) / sums[0] - (found * into).sum(axis=1) / sums[1]
    return found, paid - value <= _GAP * paid


def _shares(masses: Array) -> Array:
    return masses / masses.sum(axis=1, keepdims=True)


def _blocks(rows: Whole, size: int) -> list[Whole]:
    step = max(1, size)
    return [rows[at : at + step] for at in range(0, len(rows), step)]


def _solved(net: Array, cost: Array, raised: Array) -> tuple[Array, Flags]:
    trees = _Trees.joined(
        [
            _grown(net[rows], _start(net[rows], cost), raised)
            for rows in _blocks(np.arange(len(net)), _BLOCK // len(cost))
        ]
    )
    wrong = np.flatnonzero(trees.flows.min(axis=1) < -_ROUNDING)
    part = trees.of(wrong)
    _mended(part, net[wrong], raised)
    part.write(trees, wrong)
    f = _closed(trees.phi - _FAR * (net >= 0), cost)
    paid = (trees.flows * cost[trees.tails, trees.heads]).sum(axis=1)
    proven = (trees.flows.min(axis=1) >= -_ROUNDING) & (paid - (f * net).sum(axis=1) <= _GAP * paid)
    return f, proven


@dataclass(frozen=True)
class _Trees:
    """A tree of tight constraints for every problem.

    Attributes
    ----------
    phi
        Potentials, (n, L).
    parents
        Of every label, (n, L + 1); L where it has none.
    order
        Labels in the order in which they came to the tree, (n, L); L for none.
    tails, heads, flows
        From where to where the edge of every label leads, and what flows; (n, L).
    """

    phi: Array
    parents: Whole
    order: Whole
    tails: Whole
    heads: Whole
    flows: Array

    @classmethod
    def joined(cls, parts: list[_Trees]) -> _Trees:
        return cls(
            *(np.concatenate([getattr(part, each.name) for part in parts]) for each in fields(cls))
        )

    def of(self, rows: Whole) -> _Trees:
        return _Trees(*(getattr(self, each.name)[rows] for each in fields(self)))

    def write(self, trees: _Trees, rows: Whole) -> None:
        for each in fields(self):
            getattr(trees, each.name)[rows] = getattr(self, each.name)


def _start(net: Array, cost: Array) -> Array:
    """Feasible potentials from a few entropic iterations."""
    tiny = np.float32(1e-30)
    p = np.maximum(net, 0.0).astype(np.float32)
    q = np.maximum(-net, 0.0).astype(np.float32)
    v, last = np.ones_like(q), _EPSILONS[0]
    for epsilon in _EPSILONS:
        kernel = np.exp(-cost / epsilon).astype(np.float32)
        v = (v / v.max(axis=1, keepdims=True)) ** np.float32(last / epsilon)
        last = epsilon
        for _ in range(_ITERATIONS):
            u = p / (v @ kernel + tiny)
            v = q / (u @ kernel + tiny)
    phi = last * np.log(np.maximum(v, tiny)).astype(np.float64)
    above = _closed(phi - _FAR * (net >= 0), cost)
    return phi + (net >= 0) * (above - phi)


def _closed(phi: Array, cost: Array) -> Array:
    """Least ``cost_ij - phi_j`` over j."""
    columns = np.ascontiguousarray(phi.T)
    found = cost[:, 0, None] - columns[0]
    each = np.empty_like(found)
    for j in range(1, len(cost)):
        np.subtract(cost[:, j, None], columns[j], out=each)
        np.minimum(found, each, out=found)
    return np.ascontiguousarray(found.T)


def _grown(net: Array, phi: Array, cost: Array) -> _Trees:
    """Let a tree grow from the label with the largest mass until it spans all that have any.

    All labels outside move together, the way the dual rises, until the next one is tight.
    """
    count, size = net.shape
    every = np.arange(count)
    out = net > 0
    # Two rows a problem, for labels with too little and with too much mass. Far: those that a
    # label of that side is not tight with; those that are not to be added, less potentials.
    across = (_FAR * np.stack([~out, net >= 0], axis=1)).reshape(2 * count, size)
    adding = _FAR * np.stack([net >= 0, ~out], axis=1) - phi[:, None]
    adding_rows = adding.reshape(2 * count, size)
    left = np.stack([(net < 0).sum(axis=1), out.sum(axis=1)])
    # How high labels outside may rise, and the step of the label that limits them.
    least, limited = np.full((count, size), _FAR), np.zeros((count, size), dtype=np.int32)
    # One column more for problems that are complete.
    best = np.hstack([phi, np.zeros((count, 1))])
    parents = np.full((count, size + 1), size)
    order = np.full((count, size), size)
    new = np.abs(net).argmax(axis=1)
    side = out[every, new].astype(np.int64)
    value, rest = phi[every, new], -net[every, new]
    left[side, every] -= 1
    adding[every, :, new] = _FAR
    order[:, 0] = new
    for step in range(1, size):
        edges = cost.take(new, axis=0)
        edges += across.take(2 * every + side, axis=0)
        edges -= value[:, None]
        np.maximum(limited, (edges < least) * np.int32(step - 1), out=limited)
        np.minimum(least, edges, out=least)
        side = (((rest > 0) & (left[1] > 0)) | (left[0] == 0)).astype(np.int64)
        live = left[side, every] > 0
        keys = adding_rows.take(2 * every + side, axis=0)
        keys += least
        new = keys.argmin(axis=1)
        value = least[every, new]
        place = np.where(live, new, size)
        parents[every, place] = order[every, limited[every, new]]
        best[every, place] = value
        order[:, step] = place
        adding[every, :, new] = _FAR
        rest -= np.where(live, net[every, new], 0.0)
        left[side, every] -= live
    flows = np.hstack([net, np.zeros((count, 1))])
    for step in range(size - 1, 0, -1):
        child = order[:, step]
        flows[every, parents[every, child]] += flows[every, child]
    flows[every, order[:, 0]] = 0.0
    own, near = np.arange(size), np.minimum(parents[:, :size], size - 1)
    return _Trees(
        best[:, :size],
        parents,
        order,
        np.where(out, own, near),
        np.where(out, near, own),
        np.where(out, flows[:, :size], -flows[:, :size]),
    )


def _mended(trees: _Trees, net: Array, cost: Array) -> None:
    """Network simplex on the dual, in place, until no flow is negative."""
    size = len(cost)
    now = _Basis.of(trees, net)
    for _ in range(_STEPS * size):
        edge = now.flows.argmin(axis=1)
        wrong = now.flows[np.arange(len(edge)), edge] < -_ROUNDING
        if not wrong.all():
            now.write(trees, ~wrong)
            now, edge = now.those(wrong), edge[wrong]
        if len(edge) == 0:
            return
        now.step(edge, cost)
    now.write(trees, np.ones(len(now.rows), dtype=np.bool_))


@dataclass
class _Basis:
    """Trees with what lies on the one side of every edge.

    Attributes
    ----------
    rows
        Which problems these are, (m,).
    signs
        Of every label's mass, (m, L): 1, -1 or 0.
    phi, flows, tails, heads
        As in ``_Trees``.
    cuts, sizes
        Labels on the side of an edge that the first label of the tree is not on, (m, L, L), and
        how many, (m, L).
    inward
        Whether an edge's tail is on that side, (m, L).
    """

    rows: Whole
    signs: Array
    phi: Array
    flows: Array
    tails: Whole
    heads: Whole
    cuts: Flags
    sizes: Whole
    inward: Flags

    @classmethod
    def of(cls, trees: _Trees, net: Array) -> _Basis:
        count, size = net.shape
        every = np.arange(count)
        below = np.tile(np.packbits(np.eye(size + 1, dtype=np.bool_), axis=1), (count, 1, 1))
        for step in range(size - 1, 0, -1):
            child = trees.order[:, step]
            below[every, trees.parents[every, child]] |= below[every, child]
        below[every, trees.order[:, 0]] = 0
        cuts = np.unpackbits(below[:, :size], axis=2, count=size).view(np.bool_)
        return cls(
            every,
            np.sign(net),
            trees.phi.copy(),
            trees.flows.copy(),
            trees.tails.copy(),
            trees.heads.copy(),
            cuts,
            cuts.sum(axis=2, dtype=np.int64),
            net > 0,
        )

    def those(self, chosen: Flags) -> _Basis:
        return _Basis(*(getattr(self, each.name)[chosen] for each in fields(self)))

    def write(self, trees: _Trees, chosen: Flags) -> None:
        rows = self.rows[chosen]
        for name in ("phi", "flows", "tails", "heads"):
            getattr(trees, name)[rows] = getattr(self, name)[chosen]

    def step(self, edge: Whole, cost: Array) -> None:
        """Take out an edge of every tree, and let its sides move apart until another is tight."""
        every = np.arange(len(edge))
        side, size = self.cuts[every, edge], self.sizes[every, edge]
        sinks = self.inward[every, edge]
        # 1 where potentials rise; what they are tight with next is on the other side.
        moves = (2.0 * side - 1.0) * self.signs * (1.0 - 2.0 * sinks)[:, None]
        tail, head, height = self._tight(moves, cost)
        self.phi += moves * (side * height[:, None])
        from_tail, from_head = self.cuts[every, :, tail], self.cuts[every, :, head]
        inner = side[every, tail]
        across = from_tail ^ from_head
        across[every, edge] = False
        # Sides of a tree's edges lie in one another or apart: whether they lie in one another.
        nested = from_head ^ (inner[:, None] & across)
        flow = self.flows[every, edge]
        leaves = np.where(sinks, flow, -flow)[:, None]
        self.flows += across * (2.0 * (self.inward ^ nested) - 1.0) * leaves
        self.inward ^= across & nested & (self.sizes < size[:, None])
        total = np.abs(size[:, None] - (2 * nested - 1) * self.sizes)
        self.sizes += across * (total - self.sizes)
        problem, other = np.nonzero(across)
        self.cuts[problem, other] ^= side[problem]
        self.flows[every, edge] = -flow
        self.tails[every, edge], self.heads[every, edge] = tail, head
        self.inward[every, edge] = inner

    def _tight(self, moves: Array, cost: Array) -> tuple[Whole, Whole, Array]:
        """The edge that is tight next, and how far potentials move until then."""
        rising = (moves > 0) & (self.signs > 0)
        other = (moves > 0) & (self.signs < 0)
        swapped = rising.sum(axis=1) > other.sum(axis=1)
        # From the side with fewer labels, one by one, to the other.
        few = rising ^ ((rising ^ other) & swapped[:, None])
        problem, start = np.nonzero(few)
        heights = cost[start] - (self.phi - _FAR * ((rising | other) <= few))[problem]
        ends = heights.argmin(axis=1)
        heights = heights[np.arange(len(ends)), ends] - self.phi[problem, start]
        least = np.minimum.reduceat(heights, np.flatnonzero(np.diff(problem, prepend=-1)))
        best = np.flatnonzero(heights == least[problem])
        chosen = np.empty(len(least), dtype=np.int64)
        chosen[problem[best]] = best
        start, end = start[chosen], ends[chosen]
        return np.where(swapped, end, start), np.where(swapped, start, end), least
