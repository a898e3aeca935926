"""What is computed on shares: a program of public shapes, and the arrays a holder puts in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ._sinkhorn import (
    Block,
    Effort,
    Numbers,
    Repeat,
    Shared,
    opened_noisily,
    opened_number,
    repeat_here,
    squared_distance,
)

PARTS = 5


@dataclass(frozen=True)
class Noise:
    """Public numbers of the noise, in units of the scale (squared)."""

    largest: float
    tolerance: float
    failed: float


@dataclass(frozen=True)
class Program:
    """A computation all parties agree on before any secret is sent.

    Attributes
    ----------
    sizes
        Records of the holders: those of the first union, then those of the second.
    split
        How many holders are in the first union.
    dimension
        Number of features.
    effort
        How long to compute.
    noise
        What the noise needs, ``None`` without.
    """

    sizes: tuple[int, ...]
    split: int
    dimension: int
    effort: Effort = field(default_factory=Effort)
    noise: Noise | None = None

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of all arrays, holder by holder."""
        d = self.dimension
        return [shape for n in self.sizes for shape in ((n, d), (n,), (n,), (d,), (3,))]

    @property
    def shares(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Public mass of each holder within its union: in proportion to its records."""
        unions = self.sizes[: self.split], self.sizes[self.split :]
        first, second = (tuple(n / sum(union) for n in union) for union in unions)
        return first, second


def opened(program: Program, xp: Numbers, repeat: Repeat, arrays: Sequence[Shared]) -> Shared:
    """Return the one number a run opens, from the arrays of all holders."""
    blocks = [Block(*arrays[start : start + PARTS]) for start in range(0, len(arrays), PARTS)]
    found = squared_distance(
        blocks[: program.split], blocks[program.split :], program.shares, program.effort, xp, repeat
    )
    if program.noise is None:
        return opened_number(found, program.effort, xp)
    noise = sum((block.numbers[2] for block in blocks[1:]), start=blocks[0].numbers[2])
    with_ = program.noise
    return opened_noisily(
        found, noise, with_.largest, with_.tolerance, with_.failed, program.effort, xp
    )


def opened_in_the_clear(program: Program, arrays: Sequence[Any], xp: Numbers) -> float:
    """Run the program without secrets: the oracle of its tests."""
    return float(opened(program, xp, repeat_here, arrays))


def effort_for(protocol: str, sizes: Sequence[int], split: int) -> Effort:
    """Return the effort for public sizes: large problems get fewer steps."""
    if protocol == "cheetah":
        # 64 bits: a product must stay below 2**19.
        effort = Effort(
            squarings=3,
            steps=6,
            last=40,
            unit=2.0**-22,
            depth=14.0,
            largest=2.0**6,
            smallest=2.0**-8,
            furthest=2.0**18,
            lightest=2.0**-10,
        )
    elif sum(sizes[:split]) * sum(sizes[split:]) > 200_000:
        effort = Effort(last=40)
    else:
        effort = Effort()
    return replace(effort, resolution=sum(sizes) * effort.unit)
