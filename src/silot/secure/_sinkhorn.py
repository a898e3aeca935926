r"""Optimal transport with additions, products, and few comparisons: what secret shares can do.

The same code runs on numbers in the clear (numpy) and on secret shares (jax through spu). Nothing
in it branches on data: the number of stages and steps is public, the temperature is secret.

A stage holds a matrix Q with rows that sum to 1,

.. math:: Q_{ij} = \exp\big((f_i + g_j - C_{ij}) / \epsilon\big)

and balances it by over-relaxed Sinkhorn steps. The next stage halves epsilon by squaring Q, unless
epsilon is already small against the distance found; now and then Q is made anew from C, f and g.
As every entry of Q is at most 1, (f, g) is feasible for the dual problem at every stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

# Arrays of numpy or of jax, in the clear or secret.
Shared = Any

# Gap of the two bounds that is still called close, relative to the number opened.
CLOSE = 0.12
# Where the number opened lies between the bounds: the lower one is by far the tighter.
SPLIT = 0.1
# Beyond every squared distance; 64-bit numbers with 22 bits after the point end at 2**40.
FAILED = -(2.0**38)


class Numbers(Protocol):
    """What numpy and jax.numpy have in common, and is used here."""

    exp: Callable[..., Any]
    log: Callable[..., Any]
    sqrt: Callable[..., Any]
    stack: Callable[..., Any]
    maximum: Callable[..., Any]
    minimum: Callable[..., Any]
    where: Callable[..., Any]
    concatenate: Callable[..., Any]
    ones: Callable[..., Any]
    zeros: Callable[..., Any]


@dataclass(frozen=True)
class Effort:
    """How long to compute, and how finely numbers are represented: all of it public."""

    rounds: int = 3
    squarings: int = 5
    steps: int = 6
    last: int = 60
    temperature: float = 0.01
    relaxation: float = 1.9
    # Steps at the start of a stage that are plain.
    exact: int = 1
    # Squarings of Q that sharpen the lower bound.
    sharpen: int = 2
    unit: float = 2.0**-40
    # Exponents below this are 0 at that unit.
    depth: float = 28.0
    # Largest norm and smallest spread of data, as multiples of the public scale.
    largest: float = 2.0**16
    smallest: float = 2.0**-18
    # Largest squared distance, in units of the scale squared.
    furthest: float = 2.0**33
    # Smallest weight: lighter records are rounded away, or overflow by their inverse.
    lightest: float = 1e-9
    # Error of sums over the plan, as a part of the cost of the independent coupling.
    resolution: float = 0.0


@dataclass(frozen=True)
class Block:
    """One holder's secret inputs, in units of the public scale.

    Attributes
    ----------
    cloud
        Records less their mean (n, d).
    weights, inverse
        Weights that sum to 1, and one over each (n,).
    mean
        Mean of the records (d,).
    numbers
        Root mean squared norm of ``cloud``, their largest norm, and noise (3,).
    """

    cloud: Shared
    weights: Shared
    inverse: Shared
    mean: Shared
    numbers: Shared

    def parts(self) -> tuple[Shared, ...]:
        """Return the arrays in the order of the constructor."""
        return self.cloud, self.weights, self.inverse, self.mean, self.numbers


@dataclass(frozen=True)
class Found:
    """Squared distance in units of the public scale, between two bounds.

    ``independent`` is the cost of the coupling that knows nothing: no optimal one costs more.
    """

    lower: Shared
    upper: Shared
    independent: Shared


Repeat = Callable[[int, Callable[[Any], Any], Any], Any]


def repeat_here(count: int, body: Callable[[Any], Any], state: Any) -> Any:
    """Run ``body`` ``count`` times."""
    for _ in range(count):
        state = body(state)
    return state


def squared_distance(
    first: Sequence[Block],
    second: Sequence[Block],
    shares: tuple[Sequence[float], Sequence[float]],
    effort: Effort,
    xp: Numbers,
    repeat: Repeat = repeat_here,
) -> Found:
    """Bounds of the squared distance between two unions of holders.

    ``shares`` are the public masses of the holders within each union. A common translation is
    split off, as it adds the squared difference of the means and nothing else.
    """
    x, y = _join(first, shares[0], xp), _join(second, shares[1], xp)
    # Data too far apart are told by this sum; without the limit it would overflow.
    limit = 1.1 * effort.furthest**0.5
    apart = xp.minimum(xp.maximum(x.mean - y.mean, -limit), limit)
    shift = (apart * apart).sum()
    spread = x.numbers[0] + y.numbers[0] + effort.smallest
    rate = 1.0 / spread
    # In units of the spread, and no more of it than matters: far clusters would overflow.
    far = xp.minimum(shift, 16.0 * spread * spread) * rate * rate
    p, q = x.cloud * rate, y.cloud * rate
    cost = (p * p).sum(1)[:, None] + (q * q).sum(1)[None, :] - 2.0 * (p @ q.T)
    radius = (x.numbers[1] + y.numbers[1]) * rate
    lower, upper = _Solver(cost, x, y, far, effort, xp, repeat).solve(radius)
    square = spread * spread
    independent = x.numbers[0] * x.numbers[0] + y.numbers[0] * y.numbers[0]
    return Found(lower * square + shift, upper * square + shift, independent + shift)


def opened_number(found: Found, effort: Effort, xp: Numbers) -> Shared:
    """Return the one number that is opened.

    It is the squared distance where the bounds are close; minus the lower bound where they are
    not, for that one is tight long before the other; and ``FAILED`` where numbers left their
    range.
    """
    gap = found.upper - found.lower
    middle = found.lower + SPLIT * gap
    error = _error(found, effort)
    # Room for the error on either side of the number: see ``bounds_of``.
    close = gap + (1.0 / SPLIT) * error <= CLOSE * middle
    opened = xp.where(close, middle, -xp.maximum(found.lower - error, 0.0))
    return xp.where(_sound(found, effort), opened, FAILED)


def opened_noisily(
    found: Found,
    noise: Shared,
    largest: float,
    tolerance: float,
    failed: float,
    effort: Effort,
    xp: Numbers,
) -> Shared:
    """Return the squared distance, clipped to [0, largest], plus noise.

    Bounds further apart than the tolerance open as the constant ``failed`` plus noise.
    """
    middle = xp.minimum(xp.maximum(0.5 * (found.lower + found.upper), 0.0), largest)
    gap = found.upper - found.lower + 2.0 * _error(found, effort)
    close = (gap <= tolerance) & _sound(found, effort)
    return xp.where(close, middle, failed) + noise


def bounds_of(opened: float) -> tuple[float, float]:
    """Return the bounds of the squared distance that an opened number stands for."""
    if opened <= 0.0:
        return abs(opened), math.inf
    return opened * (1.0 - SPLIT * CLOSE), opened * (1.0 + (1.0 - SPLIT) * CLOSE)


def _error(found: Found, effort: Effort) -> Shared:
    """What fixed point may have cost."""
    return effort.resolution * found.independent + 64.0 * effort.unit


def _sound(found: Found, effort: Effort) -> Shared:
    """Whether the bounds can be bounds: anything else is an overflow."""
    room = 0.01 * found.independent + 2.0**10 * effort.unit
    return (
        (found.upper <= found.independent + room)
        & (found.lower <= found.upper + room)
        & (found.lower >= -room)
        & (found.independent <= effort.furthest)
    )


def _join(blocks: Sequence[Block], shares: Sequence[float], xp: Numbers) -> Block:
    """The union of holders as one block."""
    if len(blocks) == 1:
        return blocks[0]
    pairs = list(zip(blocks, shares, strict=True))
    mean = blocks[0].mean * shares[0]
    for block, share in pairs[1:]:
        mean = mean + share * block.mean
    points: list[Shared] = []
    spread = radius = 0.0
    for block, share in pairs:
        move = block.mean - mean
        points.append(block.cloud + move[None, :])
        away = (move * move).sum()
        spread = spread + share * (block.numbers[0] * block.numbers[0] + away)
        radius = radius + block.numbers[1] + xp.sqrt(away)
    return Block(
        xp.concatenate(points),
        xp.concatenate([share * block.weights for block, share in pairs]),
        xp.concatenate([block.inverse * (1.0 / share) for block, share in pairs]),
        mean,
        xp.stack([xp.sqrt(spread), radius]),
    )


class _Solver:
    """Bounds of the transport cost between two centred blocks."""

    def __init__(
        self,
        cost: Shared,
        x: Block,
        y: Block,
        far: Shared,
        effort: Effort,
        xp: Numbers,
        repeat: Repeat,
    ) -> None:
        self.cost, self.x, self.y, self.far = cost, x, y, far
        self.effort, self.xp, self.repeat = effort, xp, repeat
        # Keeps logarithms and inverses in range where a sum has vanished.
        self.tiny = 16.0 * effort.unit

    def solve(self, radius: Shared) -> tuple[Shared, Shared]:
        xp, effort = self.xp, self.effort
        n, m = self.cost.shape
        epsilon = xp.maximum(radius * radius * (1.0 / effort.depth), 0.25)
        state = (xp.zeros(n), xp.zeros(m), epsilon, 1.0 / epsilon)

        def colder(now: Any) -> Any:
            plan, state = self._balance(now, effort.steps)
            halve, state = self._cool(state)
            # One to the power of one or two.
            return plan * xp.where(halve, plan, 1.0), state

        def anew(now: Any) -> Any:
            now = self.repeat(effort.squarings, colder, now)
            _, state = self._balance(now, effort.steps)
            _, state = self._cool(state)
            return self._plan(*state), state

        now = self.repeat(effort.rounds, anew, (self._plan(*state), state))
        return self._bounds(*self._balance(now, effort.last))

    def _plan(self, f: Shared, g: Shared, epsilon: Shared, rate: Shared) -> Shared:
        slack = f[:, None] + g[None, :] - self.cost
        return self.xp.exp(self.xp.maximum(slack, -self.effort.depth * epsilon) * rate)

    def _balance(self, now: Any, steps: int) -> tuple[Shared, Any]:
        """Scale rows and columns, and move what was found into the potentials."""
        plan, (f, g, epsilon, rate) = now
        flipped = plan.T + 0.0
        a, inverse, repeat = self.x.weights, self.y.inverse, self.repeat

        def exact(scales: Any) -> Any:
            u, v = scales
            u = self._over(plan @ v)
            return u, v * self._over((v * (flipped @ (a * u))) * inverse)

        def relaxed(scales: Any) -> Any:
            u, v = scales
            u = u * self._power(u * (plan @ v))
            return u, v * self._power((v * (flipped @ (a * u))) * inverse)

        scales = (self.xp.ones(f.shape), self.xp.ones(g.shape))
        # Exact steps first: far off, relaxed ones go astray.
        scales = repeat(self.effort.exact, exact, scales)
        _, v = repeat(steps - self.effort.exact, relaxed, scales)
        u = self._over(plan @ v)
        plan = (u[:, None] * plan) * v[None, :]
        # In one go: a call costs a fixed number of messages.
        moves = epsilon * self._log(self.xp.concatenate([u, v]))
        return plan, (f + moves[: len(u)], g + moves[len(u) :], epsilon, rate)

    def _over(self, value: Shared) -> Shared:
        return 1.0 / (self.xp.maximum(value, self.tiny))

    def _power(self, filled: Shared) -> Shared:
        """``filled`` to the power of minus ``relaxation``, by its series at 1.

        Beyond the turning point of the series it is held; an inverse would cost five times more.
        """
        relaxation = self.effort.relaxation
        excess = self.xp.minimum(filled - 1.0, 1.0 / (relaxation + 1.0))
        return (
            1.0 - relaxation * excess + (0.5 * relaxation * (relaxation + 1.0)) * (excess * excess)
        )

    def _log(self, value: Shared) -> Shared:
        return self.xp.log(self.xp.maximum(value, self.tiny))

    def _cool(self, state: Any) -> tuple[Shared, Any]:
        """Halve epsilon, unless it is small against the distance by now."""
        f, g, epsilon, rate = state
        xp = self.xp
        found = (self.x.weights * f).sum() + (self.y.weights * g).sum() + self.far
        halve = 0.5 * epsilon > self.effort.temperature * found
        epsilon = xp.where(halve, 0.5 * epsilon, epsilon)
        return halve, (f, g, epsilon, xp.where(halve, 2.0 * rate, rate))

    def _bounds(self, plan: Shared, state: Any) -> tuple[Shared, Shared]:
        f, g, epsilon, _ = state
        a, b, xp = self.x.weights, self.y.weights, self.xp
        # Rows of the sharper matrix sum to less than 1: there is room left in f.
        sharp, power = plan, 1.0
        for _ in range(self.effort.sharpen):
            sharp, power = sharp * sharp, 2.0 * power
        room = self._log(sharp.sum(1) + len(b) * 4.0 * self.effort.unit)
        lower = (a * f).sum() + (b * g).sum() - (epsilon * (1.0 / power)) * (a * room).sum()
        # A coupling with the right marginals: columns that are too full are scaled down, and
        # what is then missing is filled in by the product of what is missing on each side.
        full = plan.T @ a
        scale = xp.minimum(1.0, b / xp.maximum(full, self.tiny))
        left = a * xp.maximum(1.0 - plan @ scale, 0.0)
        right = xp.maximum(b - full * scale, 0.0)
        missing = xp.maximum(left.sum(), self.tiny)
        moved = (((plan * self.cost) @ scale) * a).sum()
        filled = (left * (self.cost @ (right * (1.0 / missing)))).sum()
        return lower, moved + filled
