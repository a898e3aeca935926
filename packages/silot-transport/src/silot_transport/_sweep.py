"""Sinkhorn's iteration in the log domain, and Newton's where it would take long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from . import _native
from ._check import Array
from ._solvers import solve_costs
from .errors import SolverError

_BLOCK = 1 << 18
_TINY = float(np.finfo(np.float64).tiny)
# Regularisation is halved when the marginals' L1 error is below _NEAR, or after _SWEEPS sweeps: any
# schedule leads to the same potentials, and this one was the fastest of those tried.
_FALL, _NEAR, _SWEEPS = 0.5, 0.05, 4
# The least mass of a column, times this, where a regularisation is solved thoroughly.
_TIGHT = 0.3
# Steps that an extrapolation uses, the error from which on it is undone, as a multiple of the one
# before, and the weight of the ridge that keeps it from following rounding.
_MEMORY, _WORSE, _RIDGE = 12, 4.0, 1e-13
# Sweeps after which an iteration that has not converged goes on from the potentials of exact
# transport: solving for these takes about as long. Sweeps of one regularisation after which Newton
# steps follow, where marginals are off by less than _CLOSE.
_PATIENCE, _WARM, _CLOSE = 64, 10, 0.3
# Passes that remain, without which no Newton step is begun.
_FEWEST = 3
# Sweeps after which it begins anew where there are no such potentials.
_LATER = 250
# Error of marginals from which on a Newton step is computed in double precision; residue of its
# equation, as a part of the error, that is small enough at any rate; and the rise of the dual, as a
# part of what the slope promises, that a step must reach.
_DOUBLE, _INEXACT, _RISE = 3e-5, 0.5, 1e-4
# How far a potential may move in a Newton step at first, in units of the regularisation, and the
# smallest part of a step that is tried.
_FARTHEST, _SHORTEST = 20.0, 1e-3
# Error of marginals in single precision, as a share of the largest exponent; and entries of costs
# from which on a copy in single precision pays.
_SINGLE, _MANY = 16 * float(np.finfo(np.float32).eps), 1 << 16
# Costs are in the range of single precision where the largest is between this and its inverse.
_LEAST = 1e-20


class Sweep(Protocol):
    """Update f for g, sum the columns of the plan, and compute its cost if ``priced``."""

    def __call__(
        self, g: Array, epsilon: float, *, near: Array | None = None, priced: bool = False
    ) -> tuple[Array, Array, float]: ...


Product = Callable[[Array], Array]


class Sweepable(Protocol):
    """Problem of entropic transport, wherever its costs are."""

    @property
    def b(self) -> Array:
        """Positive masses of the columns."""
        ...

    @property
    def largest(self) -> float:
        """A cost that no other exceeds."""
        ...

    @property
    def penalty(self) -> float:
        """Weight of the marginals' divergence; infinite where they must hold."""
        ...

    def exact_start(self) -> Array | None:
        """Return potentials of the columns of exact transport, where there are any."""
        ...

    def value(self, f: Array, g: Array, epsilon: float, columns: Array) -> float:
        """Return the dual value, for potentials whose rows have the right masses."""
        ...

    def curvature(
        self, f: Array, g: Array, sizes: Array, epsilon: float, *, single: bool
    ) -> tuple[Array, Product]:
        r"""Return the diagonal of :math:`K^T K` and the product with it.

        :math:`K_{ij} = P_{ij} / \sqrt{r_i s_j}` with the plan P, its sums of rows r, and sizes s.
        """
        ...

    def exact(self) -> Sweep:
        """Return the sweep in double precision."""
        ...

    def rough(self, epsilon: float) -> Sweep | None:
        """Return the sweep in single precision, where that is faster and of use."""
        ...


@dataclass(frozen=True, eq=False)
class Problem:
    """Costs and masses of entropic transport, whose marginals hold or are penalised."""

    cost: Array
    """Shape (n, m), float64."""
    a: Array
    b: Array
    """Positive masses."""
    penalty: float = np.inf
    """Weight of KL(P 1 | a) and KL(P^T 1 | b); infinite where marginals must hold."""
    largest: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "largest", float(self.cost.max()))

    def exact_start(self) -> Array | None:
        """Return potentials of the columns of exact transport: masses hold, and kernels solve."""
        if np.isfinite(self.penalty) or _native.kernels is None or min(self.cost.shape) == 1:
            return None
        try:
            return solve_costs(self.cost, self.a, self.b).g
        except SolverError:
            return None

    def curvature(
        self, f: Array, g: Array, sizes: Array, epsilon: float, *, single: bool
    ) -> tuple[Array, Product]:
        """Compute K in blocks, and keep it."""
        levels = f * (1.0 / (damped(self, epsilon) * epsilon) - 0.5 / self.penalty)
        levels += 0.5 * np.log(self.a)
        shifts = g / epsilon + np.log(self.b) - 0.5 * np.log(sizes)
        kept = np.empty(self.cost.shape, np.float32 if single else np.float64)
        least = float(np.finfo(kept.dtype).tiny) ** 0.5
        step = max(1, _BLOCK // len(g))
        for start in range(0, len(f), step):
            rows = slice(start, start + step)
            part = self.cost[rows] * (-1.0 / epsilon)
            part += shifts
            part += levels[rows, None]
            np.exp(part.astype(kept.dtype, copy=False), out=kept[rows])
            # Products below the normal numbers take many times as long.
            kept[rows][kept[rows] < least] = 0.0

        def product(v: Array) -> Array:
            return ((kept @ v.astype(kept.dtype)) @ kept).astype(np.float64)

        return np.einsum("ij,ij->j", kept, kept).astype(np.float64), product

    def exact(self) -> Sweep:
        """Return the sweep in double precision."""
        return partial(sweep, self, self.cost)

    def rough(self, epsilon: float) -> Sweep | None:
        """Return the sweep over a copy in single precision, where that is faster and of use."""
        is_faster = self.cost.size >= _MANY and _native.kernels is not None
        if not is_faster or not single_suits(self.largest, epsilon):
            return None
        return partial(sweep, self, self.cost.astype(np.float32))

    def value(self, f: Array, g: Array, epsilon: float, columns: Array) -> float:
        """Return the dual value, for potentials whose rows have the right masses."""
        if np.isinf(self.penalty):
            return float(self.a @ f + self.b @ g)
        penalties = [
            -self.penalty * float(w @ np.expm1(-h / self.penalty))
            for w, h in ((self.a, f), (self.b, g))
        ]
        mass = float(self.a.sum() * self.b.sum())
        return sum(penalties) + epsilon * (mass - float(columns.sum()))


@dataclass(frozen=True, eq=False)
class Iterate:
    """Potentials after the last sweep, and its regularisation."""

    f: Array
    g: Array
    """Potentials; f is best for g."""
    columns: Array
    """Sums of the plan's columns."""
    transport_cost: float
    """Of the plan."""
    epsilon: float
    error: float
    """L1 distance of the columns' sums from what they should be."""
    sweeps: int
    converged: bool

    def status(self, tolerance: float) -> str:
        """Say how the iteration ended, and what to change where it stopped early."""
        if self.converged:
            return "converged"
        return (
            f"stopped after {self.sweeps} sweeps with marginal error {self.error:.1e} above "
            f"{tolerance:.1e}: raise max_iterations or epsilon."
        )


def damped(problem: Sweepable, epsilon: float) -> float:
    """Return the factor of a step: 1 where marginals must hold."""
    return 1.0 / (1.0 + epsilon / problem.penalty)


def wanted(problem: Sweepable, g: Array) -> Array:
    """Return the masses that the columns should have at these potentials."""
    return problem.b * np.exp(-g / problem.penalty)


def iterate(
    problem: Sweepable, epsilon: float, tolerance: float, most: int, *, symmetric: bool
) -> Iterate:
    """Solve to a marginal error, in at most this many passes over the matrix.

    Sweeps go from a large regularisation down to ``epsilon``. Where those are many, they begin
    again at ``epsilon`` from the potentials of exact transport, which are near; and Newton's steps
    end what sweeps would take long for.
    """
    return _Iteration(problem, epsilon, tolerance, most, symmetric).run()


class _Iteration:
    """Potentials, and what is to be done next with them."""

    def __init__(
        self, problem: Sweepable, epsilon: float, tolerance: float, most: int, symmetric: bool
    ) -> None:
        self._problem, self._epsilon, self._tolerance = problem, epsilon, tolerance
        self._most, self._symmetric = most, symmetric
        self._exact, self._single = problem.exact(), problem.rough(epsilon)
        self._current = max(problem.largest, epsilon) if most > 1 else epsilon
        self._steps = _Steps(np.sqrt(problem.b))
        self._f: Array | None = None
        self._g = np.zeros(len(problem.b))
        self._passes = self._of_level = 0
        self._error, self._radius = np.inf, _FARTHEST
        self._has_begun_anew = symmetric

    def run(self) -> Iterate:
        """Sweep and step until marginals fit, or passes are used up."""
        while True:
            run, columns = self._sweep()
            is_at_end = run is self._exact and self._current <= self._epsilon
            converged = is_at_end and self._error < self._tolerance
            if converged or self._passes >= self._most:
                break
            if not (self._begin_anew() or self._newton(run, columns)):
                self._go_on(columns)
        f, columns, moved = self._exact(self._g, self._current, near=self._f, priced=True)
        return Iterate(
            f, self._g, columns, moved, self._current, self._error, self._passes, converged
        )

    def _sweep(self) -> tuple[Sweep, Array]:
        self._passes += 1
        is_last = self._passes >= self._most
        if is_last:
            # At epsilon itself, so that potentials and value belong to it.
            self._current = min(self._current, self._epsilon)
        run = self._exact if self._single is None or is_last else self._single
        self._f, columns, _ = run(self._g, self._current, near=self._f)
        self._error = float(np.abs(columns - wanted(self._problem, self._g)).sum())
        rough = _SINGLE * self._problem.largest / self._epsilon
        if self._current <= self._epsilon and self._error < max(rough, self._tolerance):
            self._single = None
        return run, columns

    def _begin_anew(self) -> bool:
        """Begin once more where sweeps have become many.

        At the potentials of exact transport, or where there are none, with marginals that are near
        enough at every regularisation.
        """
        if self._has_begun_anew or self._passes not in (_PATIENCE, _LATER):
            return False
        start = self._problem.exact_start() if self._passes == _PATIENCE else None
        if start is None and self._passes < _LATER:
            return False
        self._has_begun_anew = True
        if start is None:
            self._current = max(self._problem.largest, self._epsilon)
            start = np.zeros_like(self._g)
        else:
            self._current = self._epsilon
        self._g, self._f, self._of_level = start, None, 0
        self._steps.forget()
        return True

    def _newton(self, run: Sweep, columns: Array) -> bool:
        """Take a Newton step where one is due."""
        is_due = self._of_level >= _WARM and self._error < _CLOSE
        # A step takes one pass more, and a sweep follows.
        most = self._most - self._passes - 2
        if not is_due or not self._is_thorough or self._is_near or most < _FEWEST:
            return False
        if run is not self._exact:
            self._single = None
            return True
        assert self._f is not None
        self._g, self._f, passes, has_far_to_go = _step(
            self._problem, self._exact, self._f, self._g, columns, self._current, self._radius, most
        )
        self._passes += passes
        self._radius = _FARTHEST if not has_far_to_go else _FALL**-2 * self._radius
        self._steps.forget()
        return True

    @property
    def _is_thorough(self) -> bool:
        return self._has_begun_anew and not self._symmetric

    @property
    def _is_near(self) -> bool:
        """Whether the next regularisation can follow."""
        if self._current <= self._epsilon:
            return False
        # A point far out is one of few, and its potential has far to go.
        near = _TIGHT * float(self._problem.b.min()) if self._is_thorough else np.inf
        return self._error < min(near, _NEAR)

    def _go_on(self, columns: Array) -> None:
        """Extrapolate, and lower the regularisation where the marginals are near enough."""
        if self._symmetric:
            # Both potentials are one: alternating updates overshoot it, their mean does not.
            assert self._f is not None
            plain = 0.5 * (self._f + self._g)
        else:
            plain = _rise(self._problem, self._g, columns, self._current)
        self._g = self._steps.next(self._g, plain, self._error)
        self._of_level += 1
        is_over = self._of_level == _SWEEPS and not self._is_thorough
        if self._is_near or (is_over and self._current > self._epsilon):
            self._current, self._of_level = max(_FALL * self._current, self._epsilon), 0
            self._steps.forget()


def _rise(problem: Sweepable, g: Array, columns: Array, epsilon: float) -> Array:
    """Return potentials with which the columns would have their masses, were it for them alone."""
    rise = np.log(problem.b) - np.log(np.maximum(columns, _TINY))
    return damped(problem, epsilon) * (g + epsilon * rise)


def _step(
    problem: Sweepable, sweep: Sweep, f: Array, g: Array, columns: Array,
    epsilon: float, radius: float, most: int,
) -> tuple[Array, Array, int, bool]:  # fmt: skip
    r"""Take one truncated Newton step of the dual in g, whose best f is known, and one plain step.

    With D the diagonal of columns' sums and slopes of penalties, conjugate gradients solve

    .. math:: (I - \lambda K^T K) D^{1/2} \delta = \epsilon D^{-1/2} \nabla

    so far as the error makes worth while, but not beyond a radius (Steihaug), in units of the
    regularisation. The step is halved until the dual rises by enough. Returns potentials, the
    number of passes over the matrix, and whether the whole step ended at the radius (Kemertas,
    Farahmand and Jepson, *A Truncated Newton Method for Optimal Transport*, 2025).
    """
    goal = wanted(problem, g)
    slope = goal - columns
    error = float(np.abs(slope).sum())
    sizes = np.maximum(columns + epsilon * goal / problem.penalty, _TINY)
    roots = np.sqrt(sizes)
    diagonal, product = problem.curvature(f, g, sizes, epsilon, single=error > _DOUBLE)
    damp = damped(problem, epsilon)
    scale = 1.0 / np.maximum(1.0 - damp * diagonal, 1e-3)
    residual = epsilon * slope / roots
    goal_error = 0.5 * min(_INEXACT, error**0.5) * float(roots @ np.abs(residual))
    y, ahead = np.zeros_like(g), scale * residual
    power, passes, is_cut = float(residual @ ahead), 1, False
    while passes < most:
        bent = ahead - damp * product(ahead)
        passes += 1
        bend = float(ahead @ bent)
        # Where groups of points hardly exchange mass, the dual is flat, but not for long.
        length = power / bend if bend > 0.0 else np.inf
        farthest = radius * epsilon / max(float(np.abs(ahead / roots).max()), _TINY)
        y += min(length, farthest) * ahead
        is_cut = length > farthest
        if is_cut:
            break
        residual -= length * bent
        if float(roots @ np.abs(residual)) < goal_error:
            break
        scaled = scale * residual
        before, power = power, float(residual @ scaled)
        ahead = scaled + (power / before) * ahead
    step = y / roots
    if np.isinf(problem.penalty):
        # Potentials stay where they are in the mean.
        step -= float(problem.b @ step)
    value, promised = problem.value(f, g, epsilon, columns), float(slope @ step)
    before_step = columns
    length = 1.0
    while True:
        tried = g + length * step
        f, columns, _ = sweep(tried, epsilon, near=f)
        passes += 1
        rise = problem.value(f, tried, epsilon, columns) - value
        off = float(np.abs(columns - wanted(problem, tried)).sum())
        # So near to the optimum that rounding hides the rise.
        is_flat = promised < 1e-12 * abs(value) and off < error
        if rise >= _RISE * length * promised or is_flat:
            return _rise(problem, tried, columns, epsilon), f, passes, is_cut and length == 1.0
        if length < _SHORTEST or passes >= most:
            return _rise(problem, g, before_step, epsilon), f, passes, False
        length *= 0.5


def single_suits(largest: float, epsilon: float) -> bool:
    """Return whether single precision keeps enough digits of marginals to start with."""
    return _SINGLE * largest <= _NEAR * epsilon and _LEAST < largest < 1.0 / _LEAST


class _Steps:
    """Extrapolate a fixed-point iteration by Anderson's method, in a weighted norm."""

    def __init__(self, weights: Array) -> None:
        self._weights = weights
        self.forget()

    def forget(self) -> None:
        """Drop all steps, because the map has changed."""
        self._plain: list[Array] = []
        self._moves: list[Array] = []
        self._error = np.inf

    def next(self, point: Array, plain: Array, error: float) -> Array:
        """Combine all steps into the next point; the last one led from ``point`` to ``plain``."""
        if error > _WORSE * self._error:
            back = self._plain[-1]
            self.forget()
            return back
        self._error = error
        self._plain = [*self._plain[-_MEMORY:], plain]
        self._moves = [*self._moves[-_MEMORY:], (plain - point) * self._weights]
        if len(self._moves) == 1:
            return plain
        bends = np.array(self._moves[:-1]) - self._moves[-1]
        square = bends @ bends.T
        size = float(np.trace(square))
        if not size > 0.0:
            return plain
        square[np.diag_indices_from(square)] += _RIDGE * size
        shares = np.linalg.solve(square, -bends @ self._moves[-1])
        return plain + shares @ (np.array(self._plain[:-1]) - plain)


def sweep(
    problem: Problem,
    cost: npt.NDArray[np.float32] | Array,
    g: Array,
    epsilon: float,
    *,
    near: Array | None = None,
    priced: bool = False,
) -> tuple[Array, Array, float]:
    """Update f, sum the columns of the plan, and compute its cost if ``priced``.

    It takes one exponential per entry. ``cost`` has the problem's columns, ``near`` is close to f.
    """
    damp = damped(problem, epsilon)
    shifted = g / epsilon + np.log(problem.b)
    if _native.kernels is None:
        run: Callable[..., float] = _sweep_rows
    else:
        run = _native.kernels.sweep
    columns = np.empty(len(g))
    levels = np.empty(len(cost)) if near is None else near / (-damp * epsilon)
    moved = run(
        cost, problem.a, shifted, 1.0 / epsilon, damp, near is not None, priced, levels, columns
    )
    return -damp * epsilon * levels, columns, moved


def _sweep_rows(
    cost: Array,
    a: Array,
    h: Array,
    scale: float,
    damp: float,
    has_levels: bool,
    priced: bool,
    levels: Array,
    columns: Array,
) -> float:
    """Sweep as the kernel ``sweep`` does, where there are no kernels."""
    n, m = cost.shape
    moved = 0.0
    columns[:] = 0.0
    step = max(1, _BLOCK // m)
    for start in range(0, n, step):
        rows = slice(start, start + step)
        plan = cost[rows] * -scale
        plan += h
        # Exponents of the largest entry are 0: nothing overflows, and some entry is not lost.
        peak = plan.max(axis=1)
        plan -= peak[:, None]
        np.exp(plan, out=plan)
        total = plan.sum(axis=1)
        levels[rows] = peak + np.log(total)
        masses = a[rows] * np.exp((1.0 - damp) * levels[rows]) / total
        columns += masses @ plan
        if priced:
            moved += float(masses @ (plan * cost[rows]).sum(axis=1))
    return moved
