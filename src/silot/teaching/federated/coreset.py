"""A few points that stand for the records of all holders: a federated Wasserstein coreset."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from ...data.measure import Measure
from ...distances.methods import Joint
from ...distances.result import Distance, fields_by_name, summarize
from ...distances.shared_options import (
    active_option,
    numbers_by_holder,
    quorum_option,
    rounds_option,
    seed_option,
    switch,
    tolerance_option,
)
from ...distances.sketches.decoded import LEAST_NU
from ...distances.sketches.result import Sketches
from ...distances.worth.fedbary import FedBary, Rounds
from ...distances.worth.result import Barycenter
from ...errors import MismatchError
from ...federation.protocol import Protocol, Steps
from ...federation.question import Answerer
from ...options import count, option
from ...render.words import percent
from .neighbour import NearestNeighbour

# Part of the mass of a sketch that noise alone may put into a class.
_NOISE = 0.05


@dataclass(frozen=True, kw_only=True, eq=False)
class Coreset(Barycenter):
    r"""A few points that stand for the records of several holders.

    What ``Barycenter`` has; ``points`` are those of the coreset, all of one weight within a class.

    Attributes
    ----------
    method
        ``"fedbary"``: from couplings with the records. ``"sketch"``: from one differentially
        private release of each holder; ``objective`` and ``distances`` are estimates then, with
        the scatter of records around what was released, and ``lower`` is 0.
    accuracy
        Of the 1-nearest-neighbour classifier on it, on the records of ``tested``; ``None`` where
        it was tested on none.
    tests
        How many records it was tested on.
    public_accuracy
        Of the labelled public records themselves, as nearest neighbours of the same records;
        ``None`` where there are none.
    """

    view: ClassVar = "view:coreset"

    method: str = "fedbary"
    accuracy: float | None = None
    tests: int = 0
    public_accuracy: float | None = None

    @classmethod
    def of(cls, barycenter: Barycenter) -> Self:
        """Return a barycenter as a coreset."""
        return cls(**{item.name: getattr(barycenter, item.name) for item in fields(barycenter)})

    @property
    def size(self) -> int:
        """How many points there are."""
        return len(self.weights)

    @property
    def sizes(self) -> dict[str, int]:
        """How many points each class has; empty without labels."""
        return {} if self.labels is None else dict(Counter(map(str, self.labels.tolist())))

    @property
    def classifier(self) -> NearestNeighbour:
        """The 1-nearest-neighbour classifier on its points; ``InputError`` without labels."""
        return NearestNeighbour.of(self.measure)

    def tested(self, records: Measure, public: Measure | None = None) -> Self:
        """The same, with the accuracy of its classifier on labelled records.

        And with that of ``public`` records, where these have labels: they may do without it.
        """
        accuracy = self.classifier.accuracy(records)
        tested = replace(self, accuracy=accuracy, tests=int(np.count_nonzero(records.weights)))
        if public is None or not public.labelled:
            return tested
        other = NearestNeighbour.of(public).accuracy(records)
        note = f"the labelled public records alone classify {percent(other)} of the test records"
        cure = f", the coreset {percent(accuracy)}: use them if their labels are reliable"
        note += cure * (other >= accuracy)
        return replace(tested, public_accuracy=other, status=f"{self.status}; {note}")

    def to_dict(self) -> dict[str, Any]:
        names = ("method", "size", "sizes", "accuracy", "tests", "public_accuracy")
        return {**fields_by_name(self, *names), **super().to_dict()}

    def __repr__(self) -> str:
        sizes = f"{self.size} points, {len(self.distances)} holders"
        return summarize(self, sizes, f"objective {self.objective:.6g}")


class Condensing(Joint[Coreset]):
    """Federated Wasserstein coreset: K free points near the records of all holders.

    The rounds are those of ``FedBary``: a holder answers with the mean of the records that an
    optimal plan brings to each point, and each point moves to the weighted mean of those means,
    which is the gradient step that is exact for these plans. With ``active`` only some holders are
    asked a round; what the others answered before stays a coupling with the points, so that the
    objective never rises. In FedWaD (sec. 4.2) a holder's part in the gradient is lost when it is
    not asked again.
    """

    name = "coreset"

    weights: Mapping[str, float] | None = numbers_by_holder(
        "The :math:`\\lambda_i` by holder, any positive numbers; equal by default."
    )
    size: int = option(
        "Points K of the coreset. With labels at least one for each class; if there "
        "are more points than records, points represent parts of records.",
        count(most=5_000),
        default=100,
        brief="Points of the coreset.",
    )
    rounds: int = rounds_option()
    active: int | None = active_option(
        "Number of holders that receive a question in each round; all take turns. "
        "``None``: all in every round."
    )
    tol: float = tolerance_option(
        "Stop when a round, or one turn of all holders, lowers the objective by less "
        "than this share."
    )
    seed: int = seed_option(
        "Seed of the first points, and of the order in which holders receive questions."
    )
    labels: bool = switch(
        "Find points class by class, in proportion to class masses, at least one each.", flag=False
    )
    quorum: int | None = quorum_option()

    def fit(self) -> None:
        _ = self.barycenter

    @cached_property
    def barycenter(self) -> FedBary:
        """The barycenter that it is."""
        shared = ("weights", "rounds", "active", "tol", "seed", "labels", "quorum")
        return FedBary(support=self.size, **self.values(*shared))

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Coreset]:
        rounds = self.barycenter.between(holders)
        shown = ("size", "rounds", "active", "tol", "seed", "labels")
        return Protocol(
            self.name,
            rounds.holders,
            self.disclosure,
            lambda: _start(rounds),
            self.values(*shown),
            expected_rounds=self.rounds + 2 + self.labels,
        )


def _start(rounds: Rounds) -> Steps[Coreset]:
    return Coreset.of((yield from rounds.start()))


def released(sketches: Sketches) -> dict[str, Measure]:
    """Return what the sketches of holders hold of the public classes, as measures of their own."""
    measures: dict[str, Measure] = {}
    for name, measure in sketches.measures.items():
        if measure.names is None:
            measures[name] = measure
            continue
        public = np.isin(measure.names, sketches.book.classes)
        if measure.weights[public].sum() < _NOISE:
            raise MismatchError(
                f"the sketch of {name!r} has almost no records of a public class. Write labels "
                "in the same way on both sides, or exclude the holder.",
                code="labels-disjoint",
            )
        # Records of all other classes were counted together: they are no class.
        measures[name] = Measure(
            measure.points[public], measure.weights[public], measure.names[public]
        )
    return measures


def _left_out(sketches: Sketches, shares: Mapping[str, float]) -> str:
    """Say in a status which share of the records is of no public class."""
    other = sum(
        share * float(measure.weights[~np.isin(measure.names, sketches.book.classes)].sum())
        for name, share in shares.items()
        if (measure := sketches.measures[name]).names is not None
    )
    if other < _NOISE:
        return ""
    return f"; about {100 * other:.0f} % of the records belong to no public class, and are left out"


def of_released(coreset: Coreset, sketches: Sketches) -> Coreset:
    """Turn a coreset of released measures into an estimate for the records behind them.

    Records lie around the atoms of a sketch as far as its scatter says, and are coupled with the
    points through them.
    """
    through = {name: sketches.scatter[name] for name in coreset.distances}
    distances = {k: _estimated(item, through[k]) for k, item in coreset.distances.items()}
    scatter = sum(coreset.shares[name] * square for name, square in through.items())
    loud = sketches.nu < LEAST_NU
    noise = (
        "the noise is too large for this estimate: give more records or a larger privacy_epsilon;  "
    )
    return replace(
        coreset,
        method="sketch",
        objective=coreset.objective + scatter,
        lower=0.0,
        distances=distances,
        status=(
            f"{noise * loud}{coreset.status}; computed from the releases: objective and "
            f"distances are estimates, not certified{_left_out(sketches, coreset.shares)}"
        ),
        converged=coreset.converged and not loud,
        seed=sketches.seed,
    )


def _estimated(distance: Distance, scatter: float) -> Distance:
    return replace(
        distance,
        value=(distance.value**2 + scatter) ** 0.5,
        lower=0.0,
        upper=math.inf,
        method="sketch",
        status="estimate: computed from the releases, not certified",
        test=None,
    )
