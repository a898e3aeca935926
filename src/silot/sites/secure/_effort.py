"""The effort of a secure distance: how many steps it computes, and how finely; all of it public."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple


class Stage(NamedTuple):
    """One temperature: squarings of the kernel before it, exact steps, relaxed steps."""

    squarings: int
    exact: int
    relaxed: int


@dataclass(frozen=True)
class Part:
    """Stages that are computed without opening anything."""

    stages: tuple[Stage, ...]
    """From hot to cold."""
    temperature: float | None = None
    """First epsilon over the cost of the independent coupling, of a kernel that is made again;
    ``None`` to continue with the last one. It is high, because the range of a new kernel must hold
    the corrections that potentials of far clusters still need."""


@dataclass(frozen=True)
class Effort:
    """How long to compute, and how finely numbers are represented: all of it public."""

    parts: tuple[Part, ...] = (
        Part((Stage(0, 2, 6), Stage(2, 1, 12), Stage(2, 1, 20)), 0.24),
        Part((Stage(2, 1, 12), Stage(2, 1, 20))),
        Part((Stage(0, 2, 6), *[Stage(2, 1, 10)] * 4, Stage(2, 1, 20), Stage(2, 1, 30)), 4.0),
        Part((Stage(2, 1, 20), Stage(2, 1, 30))),
    )
    """Between them, all parties learn whether the gap is small. The second and the fourth are for
    measures that nearly coincide; the third begins hot, for records far from all others."""
    enough: float = 0.03
    """Gap of the bounds, relative to the number, at which no further part is computed."""
    doublings: int = 5
    """exp(t) is (1 + z + z² / 2)^(2^doublings), z = t / 2^doublings >= -1."""
    relaxation: float = 1.8
    """Exponent of relaxed steps."""
    lift: float = 2.0**5
    """Factor that keeps powers of a balanced kernel within fixed point: 4 doublings above 1."""
    unit: float = 2.0**-40
    """Step of fixed-point numbers."""
    largest: float = 2.0**16
    """Largest norm of the data, as a multiple of the public scale."""
    smallest: float = 2.0**-18
    """Smallest spread of the data, as a multiple of the public scale."""
    furthest: float = 2.0**33
    """Largest squared distance, in units of the scale squared."""
    lightest: float = 2.0**-24
    """Smallest weight: lighter records are rounded away, or overflow by their inverse."""
    rough: float = 2.0**-26
    """A bound of the relative error of a division."""
    resolution: float = 0.0
    """Error of a bound by rounding, as a part of the cost of the independent coupling."""

    def temperature_before(self, part: int) -> float:
        """Return epsilon over the independent cost before the stages of a part."""
        last = max(at for at in range(part + 1) if self.parts[at].temperature is not None)
        stages = [stage for before in self.parts[last:part] for stage in before.stages]
        squarings = sum(stage.squarings for stage in stages)
        return (self.parts[last].temperature or 1.0) * 0.5**squarings

    @property
    def tiny(self) -> float:
        """Least number that is a divisor, or has its logarithm taken."""
        return 16.0 * self.unit


def unit_of(effort: Effort) -> float:
    """Return the unit of cost over the independent cost.

    At the temperature of the first part, it makes half an argument z of the exponential 1.
    """
    return 2.0 * 2.0**effort.doublings * (effort.parts[0].temperature or 1.0)


# Numbers of 64 bits, 22 of them after the point: a product must stay below 2**18.
_NARROW = Effort(
    unit=2.0**-22,
    largest=2.0**6,
    smallest=2.0**-8,
    furthest=2.0**17,
    lightest=2.0**-10,
    rough=2.0**-12,
)
_FAST = (Part((Stage(0, 2, 6), Stage(2, 1, 10)), 0.16),)
# Squares of squares would need more than 64 bits, so that there are more stages of one squaring.
_ALONE = (
    Part((Stage(0, 2, 6), Stage(1, 1, 6), Stage(1, 1, 6), Stage(1, 1, 8), Stage(1, 1, 16)), 0.24),
)


def choose_effort(
    protocol: str, sizes: Sequence[int], dimension: int, accuracy: str, *, noisy: bool = False
) -> Effort:
    """Return the effort for a protocol and an accuracy; with noise it has one part only."""
    if accuracy == "fast":
        effort = replace(_NARROW, parts=_FAST, lift=2.0**2)
    elif protocol == "cheetah":
        effort = replace(_NARROW, parts=_ALONE, lift=2.0**3)
    else:
        effort = Effort()
    if noisy:
        # Later parts are for records far from all others, and clipped records are not.
        stages = [stage for part in effort.parts[:2] for stage in part.stages]
        effort = replace(effort, parts=(Part(tuple(stages), effort.parts[0].temperature),))
    return replace(effort, resolution=_resolution(sizes, dimension, effort))


def _resolution(sizes: Sequence[int], dimension: int, effort: Effort) -> float:
    """Bound the error of rounding, as a part of the independent cost.

    In steps of fixed point: d for a norm and 2 for a product in each cost; a half for each weight
    times a potential or cost of about a half; and by Cauchy and Schwarz n sqrt(0.03 d) for the
    entries of the plan times the records, as the mean cost is about 0.065.
    """
    n, d = sum(sizes), dimension
    steps = 2.0 * d + 8.0 + 0.25 * n + 0.2 * n * math.sqrt(d)
    return steps * effort.unit * unit_of(effort)
