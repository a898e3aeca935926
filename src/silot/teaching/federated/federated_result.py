"""What holders trained together, and how good it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ...data.measure import Measure
from ...distances.questions import encode_classes
from ...errors import InputError, MismatchError
from ...federation.result import Array, Bill, Billed
from .clustering import Clustering, finest
from .combine import Combination
from .questions import CountLabelled
from .shared import InRound, personal
from .spec import ModelSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedModels(Billed):
    """Models that holders trained together.

    Attributes
    ----------
    names
        Holders that took part to the end, in the order they were given.
    algorithm
        ``"fedavg"``, ``"fedper"`` or ``"fedrep"``.
    assignment
        Number of its group by holder.
    classes, spec
        Names of the classes, and the architecture.
    parameters
        What is shared, by group: all layers, or but for FedAvg all but the last.
    records
        How many records each holder trained on.
    left_out
        How many of its records were left out as flagged.
    weights
        What each holder counted for, where that is not the number of its records.
    tests, right
        By holder, how many records it held out, and how many of those its model gets right.
    alone
        By holder, how many a model gets right that it trained alone, as long; empty where none was.
    history
        By round, the accuracy over all records held out before it.
    clustering
        The run that groups are of, where one was made for this.
    beside
        Runs that were made for this, and are on its bill: worth, flags.
    accuracy_of
        By group, the accuracy on the records of ``tested``; empty where there were none.
    missing
        Holders that were dropped, and the code of why.
    """

    view: ClassVar = "view:federated"

    names: tuple[str, ...]
    algorithm: str
    assignment: Mapping[str, int]
    classes: tuple[str, ...]
    spec: ModelSpec
    parameters: Mapping[int, Array] = field(repr=False)
    training: InRound = field(repr=False)
    records: Mapping[str, int]
    left_out: Mapping[str, int]
    weights: Mapping[str, float] | None
    tests: Mapping[str, int]
    right: Mapping[str, int]
    alone: Mapping[str, int]
    history: tuple[Mapping[str, float], ...] = field(repr=False)
    missing: Mapping[str, str]
    status: str
    seed: int
    clustering: Clustering | None = field(default=None, repr=False)
    beside: tuple[Billed, ...] = field(default=(), repr=False)
    accuracy_of: Mapping[int, float] = field(default_factory=dict[int, float])
    tested_on: int = 0

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Members of every group, in the order of its numbers."""
        numbers = sorted(set(self.assignment.values()))
        return tuple(
            tuple(name for name in self.names if self.assignment[name] == number)
            for number in numbers
        )

    @property
    def accuracies(self) -> dict[str, float | None]:
        """Accuracy by holder on what it held out; ``None`` where that was nothing."""
        return {name: _part(self.right[name], self.tests[name]) for name in self.names}

    @property
    def accuracies_alone(self) -> dict[str, float | None]:
        """The same of models that holders trained alone."""
        return {name: _part(self.alone[name], self.tests[name]) for name in self.alone}

    @property
    def accuracy(self) -> float | None:
        """Accuracy over all records that were held out; ``None`` where there were none."""
        return _part(sum(self.right.values()), sum(self.tests.values()))

    @property
    def accuracy_alone(self) -> float | None:
        """The same of models that holders trained alone."""
        tests = sum(self.tests[name] for name in self.alone)
        return _part(sum(self.alone.values()), tests)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Where the accuracy of these models on all records of the laws lies, at 95 %."""
        return accuracy_interval(sum(self.right.values()), sum(self.tests.values()))

    def model(self, name: str, records: Measure | None = None) -> Combination:
        """A model that is ready to predict.

        Parameters
        ----------
        name
            The holder whose model is wanted.
        records
            For FedPer and FedRep: labelled records of that holder, or of any that never took
            part, which the head is fitted to. They stay here.

        Returns
        -------
        Combination
            With ``probabilities(points)``, of ``classes``.

        Raises
        ------
        InputError, MismatchError
            ``holder-names``: no such holder. ``model-head``: no records to fit the head to.
        """
        if name not in self.assignment:
            raise InputError(
                f"{name!r} trained no model; {', '.join(map(repr, self.names))} did.",
                code="holder-names",
            )
        shared = self.parameters[self.assignment[name]]
        if self.algorithm == "fedavg":
            return _ready(self.spec, shared)
        if records is None:
            raise InputError(
                f"{self.algorithm} shares all layers but the last. Give records of {name!r} to fit "
                "it to.",
                code="model-head",
            )
        points, codes = self._codes(records)
        model = personal(self.spec, shared, self.spec.scaled(points), codes, self.training)
        return _ready(self.spec, model)

    def predict(
        self, name: str, points: npt.ArrayLike, records: Measure | None = None
    ) -> npt.NDArray[np.str_]:
        """The most probable class of each record, (n,), by the model of a holder."""
        codes = self.model(name, records).probabilities(points).argmax(axis=1)
        return np.array(self.classes)[codes]

    def tested(self, records: Measure) -> Self:
        """The same, with the accuracy of each group's model on labelled records.

        Raises
        ------
        InputError, MismatchError
            Records without a label of these classes; ``model-head``: models that need a head.
        """
        if self.algorithm != "fedavg":
            raise InputError(
                f"models of {self.algorithm} end in a head of each holder, and test records are "
                "of none. Leave them out: accuracies are by holder, on what it held out.",
                code="model-head",
            )
        points, codes = self._codes(records)
        accuracies: dict[int, float] = {}
        for group, parameters in self.parameters.items():
            predicted = _ready(self.spec, parameters).probabilities(points).argmax(axis=1)
            accuracies[group] = float((predicted == codes).mean())
        return replace(self, accuracy_of=accuracies, tested_on=len(codes))

    def _codes(self, records: Measure) -> tuple[Array, npt.NDArray[np.int64]]:
        """Return the records of these classes, and their codes."""
        points = records.points
        if points.shape[1] != self.spec.inputs:
            raise MismatchError(
                f"records have {points.shape[1]} features and the model takes {self.spec.inputs}.",
                code="dimension-mismatch",
            )
        question = CountLabelled(classes=encode_classes(list(self.classes)))
        return question.labelled(points, records.weights, records.names)

    @property
    def bill(self) -> Bill:
        """That of the training, and of what was run for it."""
        own = super().bill
        for run in self._runs:
            own = own + run.bill
        return own

    @property
    def own(self) -> Self:
        """The same, with the bill of the training alone."""
        return replace(self, clustering=None, beside=())

    @property
    def _runs(self) -> tuple[Clustering | Billed, ...]:
        first = () if self.clustering is None else (self.clustering,)
        return (*first, *self.beside)

    @property
    def finest(self) -> str:
        """Finest thing disclosed, by the training and by what was run for it."""
        return finest(self, *self._runs)

    def to_dict(self) -> dict[str, Any]:
        interval = self.interval
        return {
            "names": list(self.names),
            "algorithm": self.algorithm,
            "assignment": dict(self.assignment),
            "groups": [list(group) for group in self.groups],
            "classes": list(self.classes),
            "model": self.spec.kind,
            "parameters": self.spec.size,
            "accuracy": self.accuracy,
            "interval": None if interval is None else list(interval),
            "accuracy_alone": self.accuracy_alone,
            "accuracies": self.accuracies,
            "accuracies_alone": self.accuracies_alone,
            "tests": dict(self.tests),
            "records": dict(self.records),
            "left_out": dict(self.left_out),
            "weights": None if self.weights is None else dict(self.weights),
            "accuracy_of": {str(group): value for group, value in self.accuracy_of.items()},
            "tested_on": self.tested_on,
            "history": [dict(entry) for entry in self.history],
            "clustering": None if self.clustering is None else self.clustering.to_dict(),
            "missing": dict(self.missing),
            "status": self.status,
            "seed": self.seed,
            **self._bill_dict(),
            **vars(self.bill),
            "disclosure": self.finest,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the accuracy by round."""
        from ...federation.result import axes_of

        ax = axes_of(ax)
        ax.plot(
            [entry["round"] for entry in self.history],
            [entry["accuracy"] for entry in self.history],
        )
        ax.set_xlabel("round")
        ax.set_ylabel("accuracy on records held out")
        return ax


def _ready(spec: ModelSpec, parameters: Array) -> Combination:
    return Combination(spec=spec, parameters=parameters[None], weights=np.ones(1))


def _part(right: int, tests: int) -> float | None:
    return right / tests if tests else None


def accuracy_interval(right: int, tests: int) -> tuple[float, float] | None:
    """Interval of 95 % of an accuracy (Wilson); ``None`` of no test."""
    if not tests:
        return None
    # Slow to import.
    from scipy.stats import binomtest

    interval = binomtest(right, tests).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)
