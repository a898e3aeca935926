r"""Optimal transport with additions, products, and few comparisons: what secret shares can do.

The same code runs on numbers in the clear (numpy) and on secret shares (jax through spu). Nothing
in it branches on data: how many stages and steps a part has is public.

A part holds a kernel K, made once from hard transforms of the cost C (so that every row and column
has an entry 1), and scales it by over-relaxed Sinkhorn steps on vectors. Between stages it is
balanced and raised to a power, which divides epsilon by that power,

.. math:: K_{ij} = \exp\big((f_i + g_j - C_{ij}) / \epsilon\big), \qquad
    K \leftarrow \Big(u_i K_{ij} \frac{v_j}{b_j}\Big)^{s}, \quad \epsilon \leftarrow \epsilon / s

What is proven does not rest on K. Any g gives a lower bound by its hard transform; any matrix
that is not negative gives an upper one once its marginals are repaired (Altschuler et al. 2017):

.. math:: \sum_i a_i \min_j (C_{ij} - g_j) + \sum_j b_j g_j \le W_2^2 \le \langle P, C \rangle
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from ._effort import Effort, Stage, unit_of

# Arrays of numpy or of jax, in the clear or secret.
Shared = Any


class Numbers(Protocol):
    """The functions of numpy and jax.numpy that are used here."""

    log: Callable[..., Any]
    sqrt: Callable[..., Any]
    stack: Callable[..., Any]
    maximum: Callable[..., Any]
    minimum: Callable[..., Any]
    where: Callable[..., Any]
    concatenate: Callable[..., Any]
    ones: Callable[..., Any]


class Block(NamedTuple):
    """One holder's secret inputs, in units of the public scale.

    Attributes
    ----------
    cloud
        Records less their mean (n, d).
    weights, roots
        Weights that sum to 1, and one over the root of each (n,).
    mean
        Mean of the records (d,).
    numbers
        Mean squared norm of ``cloud``, and noise (2,).
    """

    cloud: Shared
    weights: Shared
    roots: Shared
    mean: Shared
    numbers: Shared


class Problem(NamedTuple):
    """The problem, which stays the same from part to part.

    Attributes
    ----------
    x, y
        Records less their mean, in units in which the first epsilon is public.
    cost
        Their squared distances.
    a, b
        Weights.
    root_a, root_b
        One over the roots of the weights.
    unit
        One unit of cost, as a multiple of the scale squared.
    shift
        Squared distance of the means.
    independent
        Cost of the independent coupling.
    noise
        Noise of all holders.
    """

    x: Shared
    y: Shared
    cost: Shared
    a: Shared
    b: Shared
    root_a: Shared
    root_b: Shared
    unit: Shared
    shift: Shared
    independent: Shared
    noise: Shared


class State(NamedTuple):
    """The state at the end of a part: potentials, the kernel, and its scales.

    The plan is ``rows[i] kernel[i, j] columns[j]``; ``columns`` times ``start`` is 1 where ``g`` is
    the potential of the kernel. ``raised`` is g plus the potential of the last stage.
    """

    g: Shared
    raised: Shared
    kernel: Shared
    rows: Shared
    columns: Shared
    start: Shared


@dataclass(frozen=True)
class Bracket:
    """Squared distance in units of the public scale, between two bounds.

    ``independent`` is the cost of the independent coupling: no optimal one costs more. ``mass`` is
    that of the plan before its marginals are repaired: 1 unless numbers overflowed.
    """

    lower: Shared
    upper: Shared
    independent: Shared
    mass: Shared


Repeat = Callable[[int, Callable[[Any], Any], Any], Any]


def prepare(
    first: Sequence[Block],
    second: Sequence[Block],
    shares: tuple[Sequence[float], Sequence[float]],
    effort: Effort,
    xp: Numbers,
) -> Problem:
    """Compute the costs between two unions of holders.

    ``shares`` are the public masses of the holders within each union. The translation between the
    means is split off, because it adds their squared difference and nothing else.
    """
    x, y = _join(first, shares[0], xp), _join(second, shares[1], xp)
    # A sum above the limit reports that data are too far apart; without it the sum would overflow.
    limit = 1.1 * effort.furthest**0.5
    apart = xp.minimum(xp.maximum(x.mean - y.mean, -limit), limit)
    shift = (apart * apart).sum()
    spread = x.numbers[0] + y.numbers[0] + effort.smallest**2
    # In units of the spread, so that epsilon and the range of the exponential are public.
    root = xp.sqrt(spread)
    rate = (1.0 / root) * unit_of(effort) ** -0.5
    p, q = x.cloud * rate, y.cloud * rate
    cost = (p * p).sum(1)[:, None] + (q * q).sum(1)[None, :] - (p + p) @ q.T
    # Roots and inverses on shares are rough: two steps of Newton's method correct the unit by how
    # far their product is from 1.
    part = ((spread * rate) * rate) * unit_of(effort)
    miss = 2.0 - part
    unit = spread * unit_of(effort) * (miss * (2.0 - part * miss))
    noise = sum((block.numbers[1] for block in (*first, *second)), start=0.0)
    independent = x.numbers[0] + y.numbers[0] + shift
    return Problem(
        x=p, y=q, cost=cost, a=x.weights, b=y.weights, root_a=x.roots, root_b=y.roots,
        unit=unit, shift=shift, independent=independent, noise=noise,
    )  # fmt: skip


def _make_kernel(
    problem: Problem, g: Shared | None, temperature: float, effort: Effort, xp: Numbers
) -> State:
    """Make a kernel of at most 1, with a 1 in every row and column, from hard transforms of g."""
    slack = problem.cost if g is None else problem.cost - g[None, :]
    slack = slack - slack.min(1)[:, None]
    room = slack.min(0)
    ratio = (effort.parts[0].temperature or 1.0) / temperature
    slack = slack - room[None, :]
    z = -xp.minimum(slack if ratio == 1.0 else slack * ratio, 0.5)
    # z is halved, so that sums replace products with constants, which cost as much as any product.
    square = z * z
    kernel = 1.0 + (z + z) + (square + square)
    for _ in range(effort.doublings):
        kernel = kernel * kernel
    g = room if g is None else g + room
    return State(g, g, kernel, problem.a, problem.b, problem.root_b * problem.root_b)


def advance(
    problem: Problem,
    state: State | None,
    part: int,
    effort: Effort,
    xp: Numbers,
    repeat: Repeat,
) -> State:
    """Run the stages of a part; the first has no state to begin with."""
    temperature = effort.parts[part].temperature
    if temperature is not None:
        state = _make_kernel(problem, state and state.raised, temperature, effort, xp)
    assert state is not None
    # In units of cost.
    epsilon = effort.temperature_before(part) / unit_of(effort)
    a, b, root_a, root_b = problem.a, problem.b, problem.root_a, problem.root_b
    ia, ib = root_a * root_a, root_b * root_b
    g, _, kernel, rows, columns, start = state
    ratios: list[tuple[float, Shared]] = []
    for stage in effort.parts[part].stages:
        if stage.squarings:
            ratios.append((epsilon, columns * start))
            # The plan over the roots of its marginals: at most 1, whatever the weights.
            kernel = ((rows * root_a)[:, None] * kernel) * (columns * (root_b * effort.lift))[None]
            for _ in range(stage.squarings):
                kernel = kernel * kernel
            epsilon *= 0.5**stage.squarings
            lowered = effort.lift ** -(2.0 ** (stage.squarings - 1))
            if stage.squarings == 1:
                rows, columns = xp.ones(a.shape) * lowered, xp.ones(b.shape) * lowered
                start = xp.ones(b.shape) * (1.0 / lowered)
            else:
                rows, columns, start = ia * lowered, ib * lowered, b * (1.0 / lowered)
        columns = _balance(problem, kernel, stage, (rows, columns), effort, xp, repeat)
        rows = a * _invert(kernel @ columns, effort, xp)
    ratios.append((epsilon, columns * start))
    # All logarithms in one call, because each call costs a fixed number of messages.
    logs = xp.log(xp.maximum(xp.concatenate([ratio for _, ratio in ratios]), effort.tiny))
    m = b.shape[0]
    raised = g
    for place, (temperature, _) in enumerate(ratios):
        g = raised
        raised = raised + temperature * logs[place * m : (place + 1) * m]
    # g lacks the last ratio, which is still in the columns: the next part adds it.
    return State(g, raised, kernel, rows, columns, start)


def _balance(
    problem: Problem,
    kernel: Shared,
    stage: Stage,
    scales: tuple[Shared, Shared],
    effort: Effort,
    xp: Numbers,
    repeat: Repeat,
) -> Shared:
    """Scale rows and columns by exact, then over-relaxed Sinkhorn steps; return the columns."""
    a, b, transposed, w = problem.a, problem.b, kernel.T + 0.0, effort.relaxation
    ia, ib = problem.root_a * problem.root_a, problem.root_b * problem.root_b

    def take_power(ratio: Shared) -> Shared:
        """Return ``ratio`` to the power of minus ``relaxation``, by its series at 1.

        Beyond the turning point of the series it is constant; an inverse would cost three times
        more messages.
        """
        excess = xp.minimum(ratio - 1.0, 1.0 / (w + 1.0))
        return 1.0 - excess * (w - (0.5 * w * (w + 1.0)) * excess)

    def step(scales: Any) -> Any:
        rows = a * _invert(kernel @ scales[1], effort, xp)
        return rows, b * _invert(transposed @ rows, effort, xp)

    def step_relaxed(scales: Any) -> Any:
        rows, columns = scales
        rows = rows * take_power((rows * (kernel @ columns)) * ia)
        return rows, columns * take_power((columns * (transposed @ rows)) * ib)

    # Exact steps come first, because far from balance relaxed ones diverge.
    return repeat(stage.relaxed, step_relaxed, repeat(stage.exact, step, scales))[1]


def _invert(value: Shared, effort: Effort, xp: Numbers) -> Shared:
    return 1.0 / xp.maximum(value, effort.tiny)


def bounds(problem: Problem, state: State, effort: Effort, xp: Numbers) -> Bracket:
    """Bound the squared distance; the bounds hold whatever became of the kernel."""
    x, y, cost, a, b = problem.x, problem.y, problem.cost, problem.a, problem.b
    _, raised, kernel, rows, columns, _ = state
    lower = a @ (cost - raised[None, :]).min(1) + b @ raised
    # Rows have their mass. Columns that exceed theirs are scaled down, and the product of what is
    # missing on each side is added. No entry is negative, because rows and columns are reduced by
    # more than the error of a division on shares.
    keep = 1.0 - effort.rough
    rows = rows * keep
    full = columns * (kernel.T @ rows)
    scale = xp.minimum(1.0, b * _invert(full, effort, xp)) * keep
    columns = columns * scale
    first, second = rows * (kernel @ columns), full * scale
    missing_a, missing_b = xp.maximum(a - first, 0.0), xp.maximum(b - second, 0.0)
    # One product instead of a sum of products, because it is rounded once.
    inner = (rows[:, None] * (kernel @ (columns[:, None] * y))).reshape(-1) @ x.reshape(-1)
    moved = first @ (x * x).sum(1) + second @ (y * y).sum(1) - (inner + inner)
    share = missing_b * _invert(missing_a.sum(), effort, xp)
    filled = missing_a @ (cost @ share)
    return Bracket(
        lower * problem.unit + problem.shift,
        (moved + filled) * problem.unit + problem.shift,
        problem.independent,
        full.sum(),
    )


def _join(blocks: Sequence[Block], shares: Sequence[float], xp: Numbers) -> Block:
    """Return the union of holders as one block."""
    if len(blocks) == 1:
        return blocks[0]
    pairs = list(zip(blocks, shares, strict=True))
    mean = blocks[0].mean * shares[0]
    for block, share in pairs[1:]:
        mean = mean + share * block.mean
    points: list[Shared] = []
    spread = 0.0
    for block, share in pairs:
        move = block.mean - mean
        points.append(block.cloud + move[None, :])
        spread = spread + share * (block.numbers[0] + (move * move).sum())
    return Block(
        xp.concatenate(points),
        xp.concatenate([share * block.weights for block, share in pairs]),
        xp.concatenate([block.roots * share**-0.5 for block, share in pairs]),
        mean,
        xp.stack([spread]),
    )
