"""What the distance protocols share: references, bounds, and the two sides they talk to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from silot_transport._check import as_points, as_weights
from silot_transport.moments import Moments, gelbrich_of_moments

from ..data.measure import Embedding, Measure
from ..errors import InputError, MismatchError, WireError
from ..federation.answer import Answer, Array, Failure, build_malformed_error
from ..federation.parties import Parties, column_names
from ..federation.protocol import COORDINATOR, Answers, Steps, ask, failure_error, required
from ..federation.question import Answerer, Question
from .questions import Describe
from .questions import Moments as AskMoments
from .result import Distance

# Classes that are named one by one.
_NAMED = 5


def draw_reference(seed: int, size: int, dimension: int) -> Array:
    """Draw ``size`` atoms of the standard normal distribution, equal on every machine."""
    # A stream of its own: users draw their data from default_rng(seed) too, and a reference
    # that equals the data makes every method look exact. Zeros at the end of a seed change
    # nothing, hence the 5.
    return np.random.default_rng([seed, 5]).standard_normal((size, dimension))


def is_drawn(reference: Array, seed: int) -> bool:
    """Check whether a reference is the draw of a seed, shifted and scaled as one cloud."""
    size, dimension = reference.shape
    drawn = draw_reference(seed, size, dimension)
    # One mean for all coordinates, as ``reference_mean`` is one number.
    mean, flat = float(reference.mean()), reference - reference.mean()
    # Least squares of the one on the other: a scale and a shift are all that may differ.
    level = drawn - drawn.mean()
    scale = float((flat * level).sum()) / max(float((level * level).sum()), 1e-300)
    largest = abs(mean) + abs(scale) * float(np.abs(drawn).max())
    # A billionth of the largest number: what travelled as text or in other units was rounded, and a
    # reference of other records is never that close.
    return scale > 0 and bool(np.abs(flat - scale * level).max() <= 1e-9 * largest)


# Numbers that went over the wire were rounded once more than the proofs assume: a few thousand
# units in the last place are far above that, and far below any difference a user looks at.
_ROUNDING = 1e-12
_EPSILON = float(np.finfo(np.float64).eps)
# No holder has as many records; a larger number comes from broken code.
_LARGEST_COUNT = 1 << 31

CLOSE = 0.02
"""Part of the upper bound that bounds of a converged result may be apart."""


@dataclass(frozen=True)
class Description:
    """Sizes and dimension that every side reports before the protocol begins."""

    records: Mapping[str, int]
    uniform: Mapping[str, bool]
    dimension: int

    @property
    def even(self) -> bool:
        """Whether all sides have equally many records, all of one weight."""
        # With a reference of as many atoms, optimal plans may then be permutations (Birkhoff), and
        # barycentric interpolants are exact ones.
        return len(set(self.records.values())) == 1 and all(self.uniform.values())


def describe(
    sides: Sequence[str], embedding: Embedding, own: Answerer | None
) -> Steps[Description]:
    """Request size and dimension of every side, and check that they fit together."""
    answers = yield from ask({side: Describe(embedding=embedding) for side in sides}, own)
    return read_descriptions(answers, sides)


def read_descriptions(answers: Answers, sides: Sequence[str]) -> Description:
    """Read the descriptions that sides sent of themselves."""
    records: dict[str, int] = {}
    uniform: dict[str, bool] = {}
    dimensions: dict[str, int] = {}
    for side in sides:
        answer = required(answers, side)
        records[side] = _read_count(answer, "records")
        dimensions[side] = _read_count(answer, "dimension")
        uniform[side] = answer.flag("uniform")
    return Description(records, uniform, agree_on_dimension(dimensions))


def _read_count(answer: Answer, name: str) -> int:
    value = answer.number(name)
    # A count is read as a number: a holder of other code may send one that is not whole.
    if value != int(value) or not 1 <= value <= _LARGEST_COUNT:
        raise build_malformed_error(f"{name!r} that is not a count")
    return int(value)


def agree_on_dimension(dimensions: Mapping[str, int]) -> int:
    """Return the dimension that all sides share, or raise an error that names two which differ."""
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
    """A public measure every party knows: a caller's own, or a draw from a public seed.

    ``points`` and ``weights`` are those of a caller's own; otherwise ``support`` atoms (``None``:
    as many as the smaller side has records) come from a normal distribution of this mean and scale.
    """

    seed: int
    support: int | None
    mean: float
    scale: float
    points: Array | None = None
    weights: Array | None = None

    def build(self, description: Description) -> tuple[Array, Array]:
        """Return atoms (S, d) and weights (S,), drawing them where needed."""
        if self.points is not None and self.weights is not None:
            if self.points.shape[1] != description.dimension:
                raise MismatchError(
                    f"the reference has {self.points.shape[1]} features and the records have "
                    f"{description.dimension}.",
                    code="dimension-mismatch",
                )
            return self.points, self.weights
        # More atoms than the smaller side has records would split them, and fewer would merge them.
        size = self.support or min(description.records.values())
        drawn = draw_reference(self.seed, size, description.dimension)
        return self.mean + self.scale * drawn, np.full(size, 1.0 / size)


def build_reference(
    reference: npt.ArrayLike | None, support: int | None, mean: float, scale: float, seed: int
) -> Reference:
    """Build the reference of checked options, whose atoms and scale must be usable together."""
    # Beyond 1e100 squared distances to the reference overflow.
    if scale < 0 or max(abs(mean), scale) > 1e100:
        raise InputError(
            f"reference_mean is {mean!r} and reference_scale {scale!r}; a scale of zero or more, "
            "and numbers whose squares do not overflow, are needed.",
            code="option-reference",
        )
    if reference is None:
        return Reference(seed, support, mean, scale)
    # A copy: what was checked must not change with the caller's array.
    points = as_points(reference, "reference").copy()
    if support is not None and support != len(points):
        raise InputError(
            f"the reference has {len(points)} atoms and support is {support}. Give one of them.",
            code="option-support",
        )
    return Reference(seed, len(points), mean, scale, points, as_weights(None, len(points)))


def keep_present(
    answers: Answers, names: Sequence[str], missing: dict[str, Failure], quorum: int
) -> tuple[str, ...]:
    """Return who answered, or raise below the quorum; add all others to ``missing``."""
    for name in names:
        answer = answers.get(name, Failure("holder-silent"))
        if isinstance(answer, Failure):
            missing[name] = answer
    present = tuple(name for name in names if name not in missing)
    if len(present) < quorum:
        raise failure_error(*next(iter(missing.items())))
    return present


def name_sides(a: str, b: str | None, own: Answerer | None) -> tuple[str, str]:
    """Name the two sides: two holders, or a holder and the coordinator's own measure."""
    if (b is None) == (own is None):
        raise InputError(
            "give two holders, or one holder and own=..., not both or neither.", code="holder-names"
        )
    return a, COORDINATOR if b is None else b


def bound_by_moments(
    sides: Sequence[str],
    embedding: Embedding,
    own: Answerer | None,
    masses: Mapping[str, float] | None = None,
) -> Steps[float]:
    """Compute Gelbrich's bound of the last side and the union of the others; 0 if one refuses."""
    questions: dict[str, Question] = {side: AskMoments(embedding=embedding) for side in sides}
    answers = yield from ask(questions, own)
    received: list[Moments] = []
    for side in sides:
        answer = answers.get(side, Failure("holder-silent"))
        # A refusal only weakens the bound, to the one that always holds. In a union any failure
        # does: its other sellers are still worth measuring.
        if isinstance(answer, Failure) and (answer.kind == "refused" or masses is not None):
            return 0.0
        answer = required(answers, side)
        mean = answer.array("mean", ndim=1)
        covariance = answer.array("covariance", ndim=2, columns=len(mean))
        received.append(Moments(mean, covariance))
    # Means are known to the rounding of the coordinates behind them.
    largest = max(float(np.abs(side.mean).max() + _measure_spread(side)) for side in received)
    rounding = 1e-14 * len(received[0].mean) ** 0.5 * largest
    union = _mix(received[:-1], [1.0 if masses is None else masses[side] for side in sides[:-1]])
    # Gelbrich, 1990: W_2 is at least the distance of the Gaussians that have the same moments.
    return max(gelbrich_of_moments(union, received[-1]) - rounding, 0.0)


def _mix(parts: Sequence[Moments], masses: Sequence[float]) -> Moments:
    """Compute the moments of a union from those of its parts."""
    if len(parts) == 1:
        return parts[0]
    # The covariance of a mixture is that within its parts and that of their means.
    weights = np.asarray(masses) / sum(masses)
    mean = np.asarray(sum(w * part.mean for w, part in zip(weights, parts, strict=True)))
    covariance = np.zeros((len(mean), len(mean)))
    for w, part in zip(weights, parts, strict=True):
        covariance += w * (part.covariance + np.outer(part.mean - mean, part.mean - mean))
    return Moments(mean, covariance)


def _measure_spread(side: Moments) -> float:
    # Rounding may leave the trace of a covariance of equal records just below zero.
    return float(np.sqrt(max(np.trace(side.covariance), 0.0)))


@dataclass(frozen=True)
class Received:
    """An interpolant as it came from one side."""

    atoms: Array
    weights: Array
    geodesic: bool
    optimal: bool
    distance: float | None
    distance_lower: float | None
    displacement: float | None
    gap: float

    @classmethod
    def of(cls, answer: Answer, dimension: int) -> Received:
        """Read an interpolant, and check whatever can be checked without the records."""
        atoms = answer.array("atoms", ndim=2, columns=dimension)
        weights = read_weights(answer, len(atoms))
        return cls(
            atoms,
            weights,
            answer.flag("geodesic"),
            answer.flag("optimal"),
            answer.optional_number("distance"),
            answer.optional_number("distance_lower"),
            answer.optional_number("displacement"),
            answer.number("gap"),
        )

    @property
    def rounding(self) -> float:
        """Largest distance by which rounding can have moved the interpolant."""
        return estimate_rounding(self.atoms)

    def recover_mean(self, t: float, reference_mean: Array) -> Array:
        """Compute the mean of the records behind it: interpolation is linear in the mean."""
        # The plan has the reference as its second marginal, so that its part of the mean is known.
        return (self.weights @ self.atoms - t * reference_mean) / (1.0 - t)


def bound_by_means(first: Received, second: Received, t: float, reference_mean: Array) -> float:
    """Bound W below by the difference of the means of the records, less its rounding."""
    difference = first.recover_mean(t, reference_mean) - second.recover_mean(t, reference_mean)
    # Sums of n products are rounded by a few units in the last place of the largest term:
    # 1e-14 is 45 of them.
    size = max(float(np.abs(first.atoms).max()), float(np.abs(second.atoms).max()))
    size = max(size, float(np.abs(reference_mean).max()))
    rounding = 1e-14 * len(difference) ** 0.5 * size / (1.0 - t)
    return max(float(np.linalg.norm(difference)) * (1.0 - _ROUNDING) - rounding, 0.0)


def estimate_rounding(atoms: Array) -> float:
    """Bound how far a few roundings of its coordinates can move a cloud."""
    # A handful of roundings of half a unit in the last place for each coordinate, with room to
    # spare; the root of d turns the largest error of a coordinate into that of a point.
    return 4.0 * _EPSILON * atoms.shape[1] ** 0.5 * float(np.abs(atoms).max())


def read_weights(answer: Answer, size: int) -> Array:
    """Read the weights of an answer, normalised; what is wrong with them is the holder's error."""
    try:
        return as_weights(answer.array("weights", ndim=1), size)
    except InputError:
        raise build_malformed_error("weights that are not masses of its atoms") from None


def build_misfit_error(what: str = "question") -> WireError:
    """Build the error of an answer whose arrays are not those of the question."""
    return WireError(
        f"the answer does not fit the {what}. The holder runs other or faulty code.",
        code="answer-malformed",
    )


def bound_by_distances(first: Received, second: Received) -> float:
    """Bound W below by the difference of two distances to one reference."""
    ends = [(side.distance, side.distance_lower) for side in (first, second)]
    # |W(x, r) - W(y, r)| <= W(x, y): certified only between the low end of one and the high end of
    # the other.
    (high_1, low_1), (high_2, low_2) = ends
    if high_1 is None or high_2 is None or low_1 is None or low_2 is None:
        return 0.0
    # Both sides may have rounded their distance: 1e-12 of the sum is far more than that.
    return max(low_1 - high_2, low_2 - high_1) - 1e-12 * (high_1 + high_2)


@dataclass
class Bounds:
    """The best certified bounds seen so far."""

    lower: float = 0.0
    upper: float = math.inf

    def raise_lower(self, candidate: float) -> None:
        """Raise the lower bound to a certified one."""
        # A negative candidate is moved away from zero as well: rounding must weaken a bound,
        # whatever its sign.
        self.lower = max(self.lower, candidate * (1.0 - math.copysign(_ROUNDING, candidate)))

    def cut_upper(self, candidate: float) -> None:
        """Cut the upper bound down to a certified one."""
        self.upper = min(self.upper, candidate * (1.0 + _ROUNDING))

    @property
    def close(self) -> bool:
        """Whether the bounds are within ``CLOSE`` of one another: what ``converged`` means."""
        # Relative to the upper bound, which is never zero where the two differ; infinity minus
        # anything proves nothing.
        return self.upper - self.lower <= CLOSE * self.upper < math.inf

    def settle(self, estimate: float) -> tuple[float, float, float]:
        """Return ``(value, lower, upper)``, the estimate moved between the bounds."""
        # Both bounds are certified; where they cross they do so by rounding.
        lower = min(self.lower, self.upper)
        return min(max(estimate, lower), self.upper), lower, self.upper


# Share of a squared distance by which the sum of its parts may miss it: the parts are summed in
# another order than the distance, and each is rounded.
ROUNDING = 1e-6


def describe_missing(missing: Mapping[str, Failure]) -> str:
    """Describe in a status which holders were dropped, and why."""
    if not missing:
        return ""
    listed = ", ".join(f"{name} ({missing[name].code})" for name in sorted(missing))
    return f"; without {listed}"


def name_columns(result: Distance, parties: Parties, sides: Sequence[str]) -> Distance:
    """Return the result with columns by their names, and the classes that were compared."""
    owned = {} if parties.own is None else {COORDINATOR: parties.own.measure}
    measures = {**parties.measures, **owned}
    compared = [measures[name] for name in sides if name in measures]
    if len(compared) < 2:
        # Columns of a party that read by no schema are not guessed from the caller's own.
        return result.named(parties.agreed)
    named = result.named(column_names(dict(zip(sides, compared, strict=True))))
    return with_classes(named, *compared) if parties.labels else named


def with_classes(result: Distance, first: Measure, second: Measure) -> Distance:
    """The result, whose status names the classes that one of two labelled measures has alone.

    Label vectors compare classes by their records, whatever they are called: other words for the
    same classes do not show in the distance.
    """
    kinds = [
        set() if measure.names is None else set(measure.names[measure.weights > 0].tolist())
        for measure in (first, second)
    ]
    names = [repr(name) for name in result.holders]
    # With no class in common the names themselves are in doubt, and a list of all would hide it.
    if not kinds[0] & kinds[1]:
        note = f"{' and '.join(names)} share no class: labels were compared by their records only"
    else:
        alone = [sorted(map(str, own - other)) for own, other in (kinds, kinds[::-1])]
        note = "; ".join(
            f"only {name} has the class{'es' * (len(classes) > 1)} {', '.join(classes[:_NAMED])}"
            + (f" and {len(classes) - _NAMED} more" if len(classes) > _NAMED else "")
            for name, classes in zip(names, alone, strict=True)
            if classes
        )
    return replace(result, status=f"{result.status}; {note}") if note else result
