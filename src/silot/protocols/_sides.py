"""What the distance protocols share: references, bounds, and the two sides they talk to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import COORDINATOR, Answers, Steps, ask, required
from ..federation.question import Answerer, Describe, Question
from ..federation.question import Moments as AskMoments
from ..measure import Embedding
from ..transport._check import as_points, as_weights, whole
from ..transport.moments import Moments, gelbrich_of_moments

# Numbers that went over the wire were rounded once more than the proofs assume.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Description:
    """What every side told about itself before the protocol began."""

    records: Mapping[str, int]
    uniform: Mapping[str, bool]
    dimension: int


def describe(
    sides: Sequence[str], embedding: Embedding, own: Answerer | None
) -> Steps[Description]:
    """Ask every side for its size and dimension, and check that they fit together."""
    answers = yield from ask({side: Describe(embedding=embedding) for side in sides}, own)
    return read_descriptions(answers, sides)


def read_descriptions(answers: Answers, sides: Sequence[str]) -> Description:
    """Read what sides told about themselves."""
    records: dict[str, int] = {}
    uniform: dict[str, bool] = {}
    dimensions: dict[str, int] = {}
    for side in sides:
        answer = required(answers, side)
        records[side] = int(answer.number("records"))
        dimensions[side] = int(answer.number("dimension"))
        uniform[side] = answer.flag("uniform")
    return Description(records, uniform, agreed_dimension(dimensions))


def agreed_dimension(dimensions: Mapping[str, int]) -> int:
    """Return the dimension all sides share, or raise naming two that differ."""
    first, dimension = next(iter(dimensions.items()))
    for side, other in dimensions.items():
        if other != dimension:
            raise MismatchError(
                f"{first!r} has {dimension} features and {side!r} has {other}. Give both the same "
                "features in the same order.",
                code="dimension-mismatch",
            )
    return dimension


@dataclass(frozen=True)
class Reference:
    """A public measure every party knows, given or drawn from a public seed.

    ``points`` and ``weights`` when it is given; otherwise ``support`` atoms (``None``: as many
    as the smaller side has records) from a normal law of the given mean and scale.
    """

    seed: int
    support: int | None
    mean: float
    scale: float
    points: Array | None = None
    weights: Array | None = None

    def build(self, description: Description) -> tuple[Array, Array]:
        """Atoms (S, d) and weights (S,)."""
        if self.points is not None and self.weights is not None:
            if self.points.shape[1] != description.dimension:
                raise MismatchError(
                    f"the reference has {self.points.shape[1]} features and the records have "
                    f"{description.dimension}.",
                    code="dimension-mismatch",
                )
            return self.points, self.weights
        size = self.support or min(description.records.values())
        rng = np.random.default_rng(self.seed)
        drawn = rng.standard_normal((size, description.dimension))
        return self.mean + self.scale * drawn, np.full(size, 1.0 / size)


def reference_options(
    reference: npt.ArrayLike | None, support: int | None, mean: float, scale: float, seed: int
) -> Reference:
    """Check the options every protocol with a reference takes."""
    seed = check_seed(seed)
    size = None if support is None else whole(support, "support", "option-support")
    if not (math.isfinite(mean) and math.isfinite(scale) and scale >= 0):
        raise InputError(
            f"reference_mean is {mean!r} and reference_scale {scale!r}; finite numbers, and a "
            "scale of zero or more, are needed.",
            code="option-reference",
        )
    if reference is None:
        return Reference(seed, size, float(mean), float(scale))
    points = as_points(reference, "reference")
    if size is not None and size != len(points):
        raise InputError(
            f"the reference has {len(points)} atoms and support is {size}. Give one of them.",
            code="option-support",
        )
    return Reference(seed, len(points), mean, scale, points, as_weights(None, len(points)))


def check_seed(seed: int) -> int:
    """Return a seed numpy takes."""
    return whole(seed, "seed", "option-seed", least=0)


def sides_of(a: str, b: str | None, own: Answerer | None) -> tuple[str, str]:
    """Names of the two sides: two holders, or a holder and the coordinator's own measure."""
    if (b is None) == (own is None):
        raise InputError(
            "give two holders, or one holder and own=..., not both or neither.",
            code="holder-names",
        )
    return a, COORDINATOR if b is None else b


def moments_bound(sides: Sequence[str], embedding: Embedding, own: Answerer | None) -> Steps[float]:
    """Gelbrich lower bound from the moments of two sides; 0 when one keeps them to itself."""
    asked: dict[str, Question] = {side: AskMoments(embedding=embedding) for side in sides}
    answers = yield from ask(asked, own)
    found: list[Moments] = []
    for side in sides:
        answer = answers.get(side, Failure("holder-silent"))
        if isinstance(answer, Failure):
            return 0.0
        mean = answer.array("mean", ndim=1)
        covariance = answer.array("covariance", ndim=2, columns=len(mean))
        found.append(Moments(mean, covariance))
    return gelbrich_of_moments(*found)


@dataclass(frozen=True)
class Received:
    """An interpolant as it came from one side."""

    atoms: Array
    weights: Array
    geodesic: bool
    optimal: bool
    distance: float | None
    displacement: float | None

    @classmethod
    def of(cls, answer: Answer, dimension: int) -> Received:
        """Read an interpolant, checking what can be checked."""
        atoms = answer.array("atoms", ndim=2, columns=dimension)
        weights = as_weights(answer.array("weights", ndim=1), len(atoms))
        return cls(
            atoms,
            weights,
            answer.flag("geodesic"),
            answer.flag("optimal"),
            answer.optional_number("distance"),
            answer.optional_number("displacement"),
        )

    def mean_of_records(self, t: float, reference_mean: Array) -> Array:
        """Mean of the records behind it: interpolation is linear in the mean."""
        return (self.weights @ self.atoms - t * reference_mean) / (1.0 - t)


def mean_difference(first: Received, second: Received, t: float, reference_mean: Array) -> float:
    """``|mean - mean|`` of the records behind two interpolants, rounding subtracted."""
    difference = first.mean_of_records(t, reference_mean) - second.mean_of_records(
        t, reference_mean
    )
    size = max(float(np.abs(first.atoms).max()), float(np.abs(second.atoms).max()))
    rounding = 1e-14 * len(difference) ** 0.5 * size / (1.0 - t)
    return max(float(np.linalg.norm(difference)) * (1.0 - _ROUNDING) - rounding, 0.0)


@dataclass
class Bounds:
    """The best certified bounds seen so far."""

    lower: float = 0.0
    upper: float = math.inf

    def raise_lower(self, candidate: float) -> None:
        """Take a certified lower bound into account."""
        self.lower = max(self.lower, candidate * (1.0 - math.copysign(_ROUNDING, candidate)))

    def cut_upper(self, candidate: float) -> None:
        """Take a certified upper bound into account."""
        self.upper = min(self.upper, candidate * (1.0 + _ROUNDING))

    def settle(self, estimate: float) -> tuple[float, float, float]:
        """Return ``(value, lower, upper)``, the estimate moved between the bounds."""
        # Both bounds are certified; where they cross they do so by rounding.
        lower = min(self.lower, self.upper)
        return min(max(estimate, lower), self.upper), lower, self.upper
