"""Sinkhorn's iteration in the log domain: one sweep over the costs, and when to stop."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np
import numpy.typing as npt

from . import _native
from ._check import Array

_BLOCK = 1 << 18
_TINY = float(np.finfo(np.float64).tiny)
# Regularisation is halved when the marginals' L1 error is below _NEAR, or after _SWEEPS sweeps: any
# schedule leads to the same potentials, and this one was the fastest of those tried.
_FALL, _NEAR, _SWEEPS = 0.5, 0.05, 4
# Steps that an extrapolation uses, the error from which on it is undone, as a multiple of the one
# before, and the weight of the ridge that keeps it from following rounding.
_MEMORY, _WORSE, _RIDGE = 12, 4.0, 1e-13
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

    def damped(self, epsilon: float) -> float:
        """Factor of a step: 1 where marginals must hold."""
        ...

    def wanted(self, g: Array) -> Array:
        """Masses that the columns should have at these potentials."""
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

    def damped(self, epsilon: float) -> float:
        """Factor of a step that the penalty causes: 1 where marginals must hold."""
        return 1.0 / (1.0 + epsilon / self.penalty)

    def wanted(self, g: Array) -> Array:
        """Masses that the columns should have at these potentials."""
        return self.b * np.exp(-g / self.penalty)

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


def iterate(
    problem: Sweepable, epsilon: float, tolerance: float, most: int, *, symmetric: bool
) -> Iterate:
    """Sweep from a large regularisation down to ``epsilon``, until the marginals fit."""
    exact, single = problem.exact(), problem.rough(epsilon)
    rough = _SINGLE * problem.largest / epsilon
    current = max(problem.largest, epsilon) if most > 1 else epsilon
    steps = _Steps(np.sqrt(problem.b))
    f: Array | None = None
    g = np.zeros(len(problem.b))
    level_sweeps = sweeps = 0
    error, converged = np.inf, False
    for sweeps in range(1, most + 1):
        # The last sweep is at epsilon itself, so that potentials and value belong to it.
        if sweeps == most and current > epsilon:
            current = epsilon
        run = exact if single is None or sweeps == most else single
        f, columns, _ = run(g, current, near=f)
        error = float(np.abs(columns - problem.wanted(g)).sum())
        converged = run is exact and current <= epsilon and error < tolerance
        if converged or sweeps == most:
            break
        if current <= epsilon and error < max(rough, tolerance):
            single = None
        if symmetric:
            # Both potentials are one: alternating updates overshoot it, their mean does not.
            plain = 0.5 * (f + g)
        else:
            rise = np.log(problem.b) - np.log(np.maximum(columns, _TINY))
            plain = problem.damped(current) * (g + current * rise)
        g = steps.next(g, plain, error)
        level_sweeps += 1
        if current > epsilon and (error < _NEAR or level_sweeps == _SWEEPS):
            current, level_sweeps = max(_FALL * current, epsilon), 0
            steps.forget()
    f, columns, moved = exact(g, current, near=f, priced=True)
    return Iterate(f, g, columns, moved, current, error, sweeps, converged)


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
    damp = problem.damped(epsilon)
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
