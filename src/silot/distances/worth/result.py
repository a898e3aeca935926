"""Barycenters, and what holders are worth."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ...data.measure import Measure
from ...federation.result import Array, Run, RunResult, finite
from ...render.figure import axes_of
from ..naming import Columns
from ..result import Distance, DistanceMatrix, fields_by_name, summarize

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False)
class Barycenter(RunResult):
    r"""A measure between several holders.

    Attributes
    ----------
    points, weights
        Atoms (S, d) and their masses (S,).
    labels
        Label of each atom (S,), ``None`` when holders were compared without labels.
    objective
        :math:`\sum_i \lambda_i W_2^2(P_i, Q)` of the measure found, as an upper bound that
        rounding alone can exceed. With labels it is class by class: each class of a holder is
        compared with the same class of ``Q``, weighted by its mass at the holder, and what
        holders have more or less of a class does not count; ``distances`` do count it.
    lower
        Certified lower bound of the objective of *every* measure ``Q``.
    distances
        ``Distance`` of every holder that took part, to the barycenter.
    shares
        The :math:`\lambda_i` that were used, by holder; they sum to 1.
    history
        One entry a round: ``round``, ``objective``, and how many ``holders`` took part. While
        they are the same the objective never rises.
    missing
        Holders that were dropped, and the code of why.
    """

    view: ClassVar = "view:barycenter"

    points: Array = field(repr=False)
    weights: Array = field(repr=False)
    labels: npt.NDArray[Any] | None = field(default=None, repr=False)
    objective: float
    lower: float
    distances: Mapping[str, Distance]
    shares: Mapping[str, float]
    status: str
    converged: bool
    seed: int
    history: tuple[Mapping[str, float], ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def measure(self) -> Measure:
        """The atoms, their masses and labels as a measure."""
        return Measure(self.points, self.weights, self.labels)

    @property
    def value(self) -> float:
        """The weighted sum of squared distances."""
        return self.objective

    def to_dict(self) -> dict[str, Any]:
        return {
            "objective": finite(self.objective),
            "lower": self.lower,
            "distances": {name: item.to_dict() for name, item in self.distances.items()},
            "shares": dict(self.shares),
            "status": self.status,
            "converged": self.converged,
            "missing": dict(self.missing),
            **self._cost_dict(),
            "seed": self.seed,
            "history": [dict(entry) for entry in self.history],
            "points": self.points.tolist(),
            "weights": self.weights.tolist(),
            "labels": None if self.labels is None else self.labels.tolist(),
        }

    def __repr__(self) -> str:
        sizes = f"{len(self.weights)} atoms, {len(self.distances)} holders"
        return summarize(self, sizes, f"objective {self.objective:.6g}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the objective round by round."""
        axes = axes_of(ax)
        axes.plot([e["round"] for e in self.history], [e["objective"] for e in self.history], "o-")
        axes.set_xlabel("round")
        axes.set_ylabel(r"objective $\sum_i \lambda_i W_2^2(P_i, Q)$")
        return axes


@dataclass(frozen=True, kw_only=True)
class Utility:
    """How useful the records of a holder are to predict the labels of validation records."""

    value: float
    """Predicted gain in mean log share of the right class (nats) over the frequencies of the
    classes: what ``gain`` says, and what the validation records and the share of faulty records
    say, by their precision."""
    error: float
    """Its standard error, as far as differences of holders go: they share validation records."""
    gain: float
    """Gain of small models that were fitted on the holder's records alone."""
    faulty: Mapping[str, tuple[float, float, float]]
    """Estimated share of faulty records by ``"label"``, by ``"features"`` and in ``"all"``, and the
    ends of its 95 % interval."""


@dataclass(frozen=True, kw_only=True)
class Contribution:
    """What one holder is worth."""

    holder: str
    """Its name."""
    distance: Distance
    """``Distance`` of its records to the target: the value as it is, with certified bounds. It has
    the bias of a finite sample, larger for fewer records. Its ``verdict`` says whether the holder's
    records can be distinguished from the target's."""
    share: float
    """Its part (0..1) of the sum of positive utilities over holders (equal parts when none is
    positive); without utilities of the sum of ``1 / corrected``, where the error of a distance
    stands for it if that is no larger."""
    fedbary_share: float
    """Its part of the sum of ``1 / distance.value`` over holders, as published for FedBary."""
    explained: float
    """``max(0, 1 - corrected^2 / spread^2)``, with the ``spread`` of the contributions: 1 for a
    copy of the target, 0 for data no better than a single point."""
    rank: int
    """1 for the holder of the largest utility, or without utilities of the smallest corrected
    distance, where holders of about the same size share one correction; equal ones share a rank."""
    records: int
    """Records of positive weight that it reported."""
    corrected: float | None = None
    """Estimate of the distance of the distribution behind the records: the one that infinitely
    many of them would have to the same target. ``None`` where the holder did not report it; then
    ``distance.value`` stands for it."""
    interval: tuple[float, float] | None = None
    """Where that distance lies in 95 % of cases."""
    is_approximate: bool = False
    """Whether that interval may cover less: heavy tails, or fewer than 100 records."""
    ranks: tuple[int, int] | None = None
    """Smallest and largest rank that sampling and noise leave open: holders whose ranges overlap
    are tied. ``None`` where no holder reported an interval."""
    share_interval: tuple[float, float] | None = None
    """Where ``share`` lies in 95 % of cases; ``None`` likewise."""
    utility: Utility | None = None
    """How well models of its records predict validation labels, and which share is faulty; ``None``
    where labels were not judged."""
    shapley: float | None = None
    """Shapley value, of distances as they are: what the holder adds to the part of the target that
    the best mixture of others explains, on average over the orders in which holders may join. The
    values of all sum to what the best mixture of all explains. ``None`` where it was not asked for.
    """
    shapley_share: float | None = None
    """Its part of that sum (equal parts when all are 0)."""

    @property
    def place(self) -> str:
        """The rank, or the range that sampling and noise leave open, as ``"1-3"``."""
        low, high = self.ranks or (self.rank, self.rank)
        return str(low) if low == high else f"{low}-{high}"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        values = {item.name: getattr(self, item.name) for item in fields(self)}
        texts = {k: list(v) if isinstance(v, tuple) else v for k, v in values.items()}
        utility = None if self.utility is None else vars(self.utility)
        return texts | {"distance": self.distance.to_dict(), "utility": utility}


@dataclass(frozen=True, kw_only=True, eq=False)
class Contributions(RunResult):
    """What every holder's data are worth for a target.

    Attributes
    ----------
    holders
        One ``Contribution`` a holder, in the order the holders were given.
    target
        ``"validation"`` or ``"barycenter"``.
    barycenter
        The target when it is the barycenter of the holders.
    spread
        Distance of the target to its own mean, or of the holders' records to the mean of their
        barycenter: the unit of ``explained``.
    missing
        Holders that were dropped, and the code of why.
    between
        Distances between holders, and from each to the target, which is called
        ``"coordinator"`` there: all by one method, for a map. ``None`` when none was requested
        or a holder refused. Labels are compared as vectors.
    """

    view: ClassVar = "view:value"

    holders: tuple[Contribution, ...]
    target: str
    method: str
    spread: float
    status: str
    converged: bool
    seed: int
    labels: str = "none"
    barycenter: Barycenter | None = field(default=None, repr=False)
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    between: DistanceMatrix | None = field(default=None, repr=False)

    def with_run(self, run: Run | RunResult) -> Self:
        result = super().with_run(run)
        if self.between is None:
            return result
        return replace(result, between=replace(self.between, shared_cost=result.cost))

    def __getitem__(self, name: str) -> Contribution:
        """Return the contribution of a holder."""
        return next(item for item in self.holders if item.holder == name)

    def named(self, columns: Columns) -> Self:
        """Return the contributions with the names of the columns in the parts of distances."""
        items = (replace(item, distance=item.distance.named(columns)) for item in self.holders)
        return replace(self, holders=tuple(items))

    def with_note(self, note: str) -> Self:
        """Return the same contributions with a note at the end of their status."""
        return replace(self, status=f"{self.status}; {note}")

    @property
    def names(self) -> tuple[str, ...]:
        """Holders, in order."""
        return tuple(item.holder for item in self.holders)

    @property
    def shares(self) -> dict[str, float]:
        """Share by holder; they sum to 1."""
        return {item.holder: item.share for item in self.holders}

    @property
    def ranking(self) -> tuple[Contribution, ...]:
        """Contributions, the most valuable first."""
        return tuple(sorted(self.holders, key=lambda item: (item.rank, item.holder)))

    @property
    def value(self) -> dict[str, float]:
        """The distance of each holder to the target, without sampling noise where that is known."""
        return {
            item.holder: item.distance.value if item.corrected is None else item.corrected
            for item in self.holders
        }

    @property
    def interval(self) -> dict[str, tuple[float, float] | None]:
        """Where each distance lies in 95 % of cases; ``None`` where that is not known."""
        return {item.holder: item.interval or item.distance.interval for item in self.holders}

    def to_dict(self) -> dict[str, Any]:
        return {
            **fields_by_name(self, "target", "method", "labels", "spread", "status", "converged"),
            "missing": dict(self.missing),
            "holders": [item.to_dict() for item in self.holders],
            "between": None if self.between is None else self.between.to_dict(),
            "barycenter": None if self.barycenter is None else self.barycenter.to_dict(),
            **self._cost_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        return summarize(self, f"{len(self.holders)} holders", f"target {self.target}")

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw every holder's distance with its bounds, the closest first."""
        axes = axes_of(ax)
        ranked = sorted(self.holders, key=lambda item: item.distance.value, reverse=True)
        values = [item.distance.value for item in ranked]
        below = [item.distance.value - item.distance.lower for item in ranked]
        above = [
            item.distance.upper - item.distance.value if np.isfinite(item.distance.upper) else 0.0
            for item in ranked
        ]
        axes.errorbar(values, range(len(ranked)), xerr=[below, above], fmt="o", capsize=3)
        axes.set_yticks(range(len(ranked)), [item.holder for item in ranked], parse_math=False)
        axes.set_xlabel(f"$W_2$ to the {self.target}")
        return axes
