"""Measure how far the records of holders are from validation records."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
from scipy.special import stdtr, stdtrit

from silot_transport import ExactPlan, plan_from_cost
from silot_transport.classwise import distances_to_classes
from silot_transport.cost import build_cost

from ...data.measure import Measure
from ...distances.worth.target import Target
from ...federation.question import Answerer

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_EPS = float(np.finfo(np.float64).eps)


# Standard errors by which class shares may differ and are not charged, as in ``value_holders``.
_TOLERANCE = 3.0


class Span(NamedTuple):
    """A distance with its certified bounds."""

    value: float
    lower: float
    upper: float

    def less(self, other: Span) -> Span:
        """How much smaller another distance is."""
        return Span(self.value - other.value, self.lower - other.upper, self.upper - other.lower)


class Solved(NamedTuple):
    """A distance, and what each record adds to its square, to first order: (n,) and (m,)."""

    span: Span
    own: Array
    other: Array


def with_columns_of(sent: Measure, read: Measure) -> Measure:
    """Return records with the columns and the schema of others."""
    return Measure(sent.points, sent.masses, sent.labels, read.columns, schema=read.schema)


@dataclass(frozen=True, eq=False)
class Pool:
    r"""Records of several holders as one measure, each holder of a mass as it has records.

    Distances are :math:`W_2` to the validation records; with labels the squared distance of two
    records gains that of their classes, as validation records have them (``value_holders`` with
    ``label_metric="classes"``), and validation records have the class shares of the pool as far
    as sampling explains the difference (``class_tolerance``).

    Attributes
    ----------
    names
        Holders, in the order of their names.
    holder, codes
        Of which holder and of which class each of n records is (n,).
    masses
        What each record counts for (n,); they sum to 1.
    records
        By holder, how many records there are: of a release, about how many.
    classes
        Names of the classes; empty without labels.
    target
        The m validation records: their masses and classes.
    cost
        Squared distances (n, m).
    within
        Squared distances of the validation records to one another (m, m); empty without labels.
    rounding
        Of a squared distance.
    certified
        Whether the records are the holders' own, and not what releases tell of them.
    """

    names: tuple[str, ...]
    holder: Codes = field(repr=False)
    codes: Codes = field(repr=False)
    masses: Array = field(repr=False)
    records: Mapping[str, float]
    classes: tuple[str, ...]
    target: Target = field(repr=False)
    cost: Array = field(repr=False)
    within: Array = field(repr=False)
    rounding: float
    certified: bool

    @classmethod
    def of(
        cls,
        holders: Mapping[str, Measure],
        own: Answerer,
        *,
        labels: bool,
        records: Mapping[str, float] | None = None,
    ) -> Self:
        """Build the pool of holders' records, or of releases of so many ``records``."""
        names = tuple(sorted(holders))
        sizes = records or {name: float(holders[name].size) for name in names}
        target = Target.of_validation(own, "classes" if labels else "none", "none")
        parts = [holders[name] for name in names]
        total = sum(sizes[name] for name in names)
        masses = np.concatenate([holders[name].weights * (sizes[name] / total) for name in names])
        points = np.concatenate([part.points for part in parts])
        classes, codes = (
            _classes(parts, target) if labels else ((), np.zeros(len(points), dtype=np.int64))
        )
        cost = build_cost(points, target.atoms, 2)
        matrix, within = cost.matrix, np.zeros((0, 0))
        if labels:
            squares = _squares(points, masses, codes, len(classes), target)
            matrix = matrix + squares[np.ix_(codes, target.codes)]
            within = build_cost(target.atoms, target.atoms, 2).matrix
            within = within + squares[np.ix_(target.codes, target.codes)]
        return cls(
            names,
            np.repeat(np.arange(len(names)), [part.size for part in parts]),
            codes,
            masses / masses.sum(),
            dict(sizes),
            classes,
            target,
            matrix,
            within,
            cost.rounding,
            records is None,
        )

    def without(self, names: Collection[str]) -> Self:
        """Return the pool of the other holders."""
        kept = ~self.of_holders(names)
        others = tuple(name for name in self.names if name not in names)
        place = np.cumsum(np.isin(self.names, others)) - 1
        masses = self.masses[kept]
        return replace(
            self,
            names=others,
            holder=place[self.holder[kept]],
            codes=self.codes[kept],
            masses=masses / masses.sum(),
            records={name: self.records[name] for name in others},
            cost=np.ascontiguousarray(self.cost[kept]),
        )

    @property
    def target_weights(self) -> Array:
        """Masses of the validation records (m,)."""
        return self.target.weights

    @property
    def targets(self) -> Codes:
        """Classes of the validation records (m,)."""
        return self.target.codes

    @cached_property
    def weights(self) -> Array:
        """Masses of the validation records with the class shares of the pool (m,)."""
        if not self.classes:
            return self.target_weights
        classes = len(self.target.classes)
        have, _ = self.shares()
        size = max(round(sum(self.records.values())), 1)
        weights = self.target.reweight(have[:classes], size, _TOLERANCE)
        return weights / weights.sum()

    @property
    def size(self) -> float:
        """Records of equal weight that say as much about the pool, at most as many as there are."""
        total = sum(self.records.values())
        return min(total, 1.0 / float(self.masses @ self.masses)) if self.certified else total

    @property
    def validation(self) -> float:
        """The same of the validation records."""
        return 1.0 / float(self.target_weights @ self.target_weights)

    def of_holders(self, names: Collection[str]) -> Flags:
        """Which records are of these holders (n,)."""
        chosen = [place for place, name in enumerate(self.names) if name in names]
        return np.isin(self.holder, chosen)

    def solved(
        self, masses: Array, extra: Array | None = None, *, own_shares: bool = False
    ) -> Solved:
        """Compute the distance from records of these masses (n,) to the validation records.

        ``extra`` are masses (m,) of copies of the validation records beside them;
        ``own_shares`` leaves these the class shares they have.
        """
        cost = self.cost
        if extra is not None:
            masses, cost = np.concatenate([masses, extra]), np.concatenate([cost, self.within])
        plan = _solved(cost, masses, self.target_weights if own_shares else self.weights)
        return Solved(self._span(plan), *plan.potentials)

    def distance(self, masses: Array) -> Span:
        """Compute the distance without potentials."""
        return self.solved(masses).span

    def of_class(self, name: str, code: int) -> Span:
        """Compute the distance of a holder's records of a class to the validation records of it."""
        rows, columns = self.of_holders([name]) & (self.codes == code), self.targets == code
        part = np.ascontiguousarray(self.cost[np.ix_(rows, columns)])
        return self._span(_solved(part, self.masses[rows], self.target_weights[columns]))

    def _span(self, plan: ExactPlan) -> Span:
        error = self.rounding + 4.0 * _EPS * max(plan.cost, 0.0)
        lower, upper = max(plan.lower_cost - error, 0.0), max(plan.upper_cost + error, 0.0)
        return Span(max(plan.cost, 0.0) ** 0.5, lower**0.5, upper**0.5)

    def shares(self) -> tuple[Array, Array]:
        """Compute the mass of each class in the pool and among the validation records (C,)."""
        classes = len(self.classes)
        have = np.bincount(self.codes, self.masses, minlength=classes)
        want = np.bincount(self.targets, self.target_weights, minlength=classes)
        # Sums of masses may be rounded to above 1.
        return np.minimum(have, 1.0), np.minimum(want, 1.0)

    def luck(self, first: Solved, then: Solved) -> float:
        """Compute the standard error of a gain over other validation records.

        The derivative of a squared distance by the validation records is their potential. Class
        shares follow those of the pool: what varies is within classes.
        """
        apart = first.other - then.other
        masses = np.bincount(self.targets, self.weights)
        means = np.bincount(self.targets, self.weights * apart) / np.maximum(masses, 1e-300)
        within = float(self.weights @ (apart - means[self.targets]) ** 2)
        both = first.span.value + then.span.value
        return (within / max(self.validation - 1.0, 1.0)) ** 0.5 / both if both > 0 else 0.0


class Pull(NamedTuple):
    r"""What some records do to the squared distance of the pool, to first order.

    ``gain`` is :math:`s (\bar f_L - \bar f_R)`, with f the potential, L the records and s their
    mass, R the others. The squared distance is convex in the pool: leaving them out lowers it by
    no more than that. ``error`` is the standard error, ``freedom`` its degrees of freedom.
    """

    gain: float
    error: float
    freedom: float

    @property
    def p_value(self) -> float:
        """How often as many records of the distribution of the others would gain as much."""
        # Records that are all alike do not tell how others would vary.
        if self.freedom < 1 or self.gain <= 0 or self.error == 0:
            return 1.0
        return float(stdtr(self.freedom, -self.gain / self.error))

    def margin(self, level: float) -> float:
        """Half the interval of the gain, but for this share of cases."""
        if self.freedom < 1:
            return np.inf
        return float(stdtrit(self.freedom, 1.0 - level)) * self.error


def pull(pool: Pool, potential: Array, out: Flags, flagged: Flags) -> Pull:
    """Measure the effect of leaving out records by those not ``flagged`` (Welch's test)."""
    mass = float(pool.masses[out].sum())
    means, errors, sizes = [], [], []
    for side in (out & ~flagged, ~out & ~flagged):
        share = pool.masses[side] / pool.masses[side].sum()
        mean = float(share @ potential[side])
        size = 1.0 / float(share @ share)
        if not pool.certified:
            size = sum(pool.records[pool.names[place]] for place in set(pool.holder[side].tolist()))
        spread = float(share @ (potential[side] - mean) ** 2)
        means.append(mean)
        errors.append(spread / (size - 1.0) if size > 1.5 else np.inf)
        sizes.append(size)
    error = mass * float(np.sqrt(sum(errors)))
    return Pull(mass * (means[0] - means[1]), error, min(sizes) - 1.0)


def _solved(cost: Array, masses: Array, weights: Array) -> ExactPlan:
    return plan_from_cost(cost, masses / masses.sum(), weights / weights.sum())


def _classes(parts: list[Measure], target: Target) -> tuple[tuple[str, ...], Codes]:
    """List all classes, those of the validation records first, and the class of each record."""
    labels = [part.names for part in parts if part.names is not None]
    names = np.concatenate(labels)
    new = sorted(set(names.tolist()) - set(target.classes))
    classes = (*target.classes, *new)
    place = {name: code for code, name in enumerate(classes)}
    return classes, np.array([place[name] for name in names.tolist()], dtype=np.int64)


def _squares(points: Array, masses: Array, codes: Codes, classes: int, target: Target) -> Array:
    """Compute squared distances between classes, as far as validation records tell."""
    validated = len(target.classes)
    apart = np.zeros((classes, classes))
    apart[:validated, :validated] = target.metric
    for code in range(validated, classes):
        members = (codes == code) & (masses > 0)
        share = masses[members] / masses[members].sum()
        row = distances_to_classes(
            points[members], share, target.atoms, target.weights, target.codes, target.metric,
            np.zeros(validated),
        )  # fmt: skip
        apart[code, :validated] = apart[:validated, code] = row
    return apart**2
