"""What holders trained together, and how good it is."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from ...data.measure import Measure
from ...distances.result import fields_by_name
from ...errors import InputError
from ...federation.result import Array, Cost, RunResult, accuracy_interval
from .clustering import Clustering, finest
from .model import Model, labelled_records, save_models
from .spec import ModelSpec
from .training import InRound, descend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Holders that have a curve of their own.
_MOST_CURVES = 20


@dataclass(frozen=True, kw_only=True, eq=False)
class FederatedModels(RunResult):
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
    personal
        By holder, how many its model gets right after ``personal_passes`` over its own records;
        empty where there were none.
    history
        By round: accuracy and mean cross-entropy over the records held out by the holders asked,
        and accuracy by holder, of the models before it.
    clustering
        The run that groups are of, where one was made for this.
    beside
        Runs that were made for this, and are on its cost: worth, flags.
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
    personal: Mapping[str, int] = field(default_factory=dict[str, int])
    personal_passes: float = 0.0
    history: tuple[Mapping[str, Any], ...] = field(repr=False)
    missing: Mapping[str, str]
    status: str
    seed: int
    clustering: Clustering | None = field(default=None, repr=False)
    beside: tuple[RunResult, ...] = field(default=(), repr=False)
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
    def accuracies_personal(self) -> dict[str, float | None]:
        """The same for models that holders trained further by themselves."""
        return {name: _part(self.personal[name], self.tests[name]) for name in self.personal}

    @property
    def best(self) -> dict[str, str]:
        """By holder, which model gets most of its records right: shared, personal or alone.

        Of equals the first of these. The records are those that accuracies are of.
        """
        ways = {"shared": self.right, "personal": self.personal, "alone": self.alone}
        return {name: max(ways, key=lambda way: ways[way].get(name, -1)) for name in self.names}

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
        """95 % interval of the accuracy of these models on new records."""
        return accuracy_interval(sum(self.right.values()), sum(self.tests.values()))

    def model(self, name: str | None = None, records: Measure | None = None) -> Model:
        """Return the model of a holder, ready to predict.

        Parameters
        ----------
        name
            The holder whose model is wanted; ``None`` for one that never took part. It gets the
            model of ``nearest_group(records)``.
        records
            Labelled records of that holder, for FedPer and FedRep, whose heads are fitted to them,
            and where it has no name. They stay here.

        Raises
        ------
        InputError, MismatchError
            ``holder-names``: no such holder. ``model-head``: no records to fit the head to.
        """
        if name is not None and name not in self.assignment:
            raise InputError(
                f"{name!r} trained no model; {', '.join(map(repr, self.names))} did.",
                code="holder-names",
            )
        if name is not None:
            return self._of_group(self.assignment[name], records)
        if records is None:
            raise InputError(
                "a holder that never took part has no name here. Give labelled records of it.",
                code="holder-names",
            )
        return self._of_group(self.nearest_group(records), records)

    def nearest_group(self, records: Measure) -> int:
        """Return the number of the group whose model gets most of some labelled records right.

        Of equals the first. Heads of FedPer and FedRep are fitted to half of the records, and
        tested on the others. It is a choice and no verdict: few records do not distinguishes
        groups.
        """
        points, codes = labelled_records(records, self.spec, self.classes)
        order = np.random.default_rng(self.seed).permutation(len(points))
        halves = [order, order] if self.algorithm == "fedavg" else [order[::2], order[1::2]]
        names = np.array(self.classes)[codes]
        fitted, tested = (Measure(points[rows], labels=names[rows]) for rows in halves)
        right = {k: self._of_group(k, fitted).accuracy(tested) for k in sorted(self.parameters)}
        return max(right, key=lambda group: right[group])

    def _of_group(self, group: int, records: Measure | None) -> Model:
        shared = self.parameters[group]
        if self.algorithm == "fedavg":
            return Model.of(self.spec, self.classes, shared)
        if records is None:
            raise InputError(
                f"{self.algorithm} shares all layers but the last. Give records of the holder to "
                "fit it to.",
                code="model-head",
            )
        return Model.with_head(self.spec, self.classes, shared, self.training, records)

    def personal_model(self, name: str, records: Measure) -> Model:
        """Return the model of a holder after ``personal`` passes over its own records."""
        points, codes = labelled_records(records, self.spec, self.classes)
        start = self.model(name, records).parameters[0]
        inputs = self.spec.scaled(points)
        own = descend(self.spec, start, inputs, codes, self.training, self.personal_passes)
        return Model.of(self.spec, self.classes, own)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models of all holders to one file.

        ``silot.teaching.federated.Model.load`` reads one.
        """
        models = {
            name: Model.of(self.spec, self.classes, self.parameters[self.assignment[name]])
            for name in self.names
        }
        save_models(path, models, None if self.algorithm == "fedavg" else self.training)

    def predict(
        self, name: str, points: npt.ArrayLike, records: Measure | None = None
    ) -> npt.NDArray[np.str_]:
        """Predict the most probable class of each record, (n,), by the model of a holder."""
        return self.model(name, records).predict(points)

    def predict_proba(
        self, name: str, points: npt.ArrayLike, records: Measure | None = None
    ) -> Array:
        """Compute the probability of every class for each record, (n, C), by the same model."""
        return self.model(name, records).predict_proba(points)

    def tested(self, records: Measure) -> Self:
        """The same, with the accuracy of each group's model on labelled records.

        Raises
        ------
        InputError, MismatchError
            Records without a label of these classes; ``model-head``: models that need a head.
        """
        if self.algorithm != "fedavg":
            raise InputError(
                f"models of {self.algorithm} have a last layer for each holder, and test records "
                "belong to no holder. Leave them out: accuracies are measured at each holder, "
                "on its held-out records.",
                code="model-head",
            )
        points, codes = labelled_records(records, self.spec, self.classes)
        accuracies: dict[int, float] = {}
        for group, parameters in self.parameters.items():
            outputs = Model.of(self.spec, self.classes, parameters).predict_proba(points)
            accuracies[group] = float((outputs.argmax(axis=1) == codes).mean())
        return replace(self, accuracy_of=accuracies, tested_on=len(codes))

    @property
    def cost(self) -> Cost:
        """Cost of the training, and of runs for it."""
        own = super().cost
        for run in self._runs:
            own = own + run.cost
        return own

    @property
    def own(self) -> Self:
        """The same, with the cost of the training alone."""
        return replace(self, clustering=None, beside=())

    @property
    def _runs(self) -> tuple[Clustering | RunResult, ...]:
        first = () if self.clustering is None else (self.clustering,)
        return (*first, *self.beside)

    @property
    def finest(self) -> str:
        """Most detailed thing disclosed, by the training and by runs for it."""
        return finest(self, *self._runs)

    @property
    def value(self) -> float | None:
        """The accuracy over all records held out."""
        return self.accuracy

    def to_dict(self) -> dict[str, Any]:
        names = (
            "names", "algorithm", "assignment", "groups", "classes", "accuracy", "interval",
            "accuracy_alone", "accuracies", "accuracies_alone", "accuracies_personal", "best",
            "tests", "records", "left_out", "weights", "accuracy_of", "tested_on", "history",
            "clustering", "missing", "status", "seed",
        )  # fmt: skip
        return {
            **fields_by_name(self, *names),
            "model": self.spec.kind,
            "parameters": self.spec.size,
            **self._cost_dict(),
            **vars(self.cost),
            "disclosure": self.finest,
        }

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the accuracy by round, of all holders and, thin, of each."""
        from ...render.figure import axes_of

        ax = axes_of(ax)
        rounds = [entry["round"] for entry in self.history]
        for name in self.names if len(self.names) <= _MOST_CURVES else ():
            own = [entry for entry in self.history if name in entry["holders"]]
            ax.plot(
                [entry["round"] for entry in own], [entry["holders"][name] for entry in own],
                linewidth=0.6, alpha=0.6, color="grey",
            )  # fmt: skip
        ax.plot(rounds, [entry["accuracy"] for entry in self.history])
        ax.set_xlabel("round")
        ax.set_ylabel("accuracy on records held out")
        return ax


def _part(right: int, tests: int) -> float | None:
    return right / tests if tests else None
