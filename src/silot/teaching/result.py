"""Results: divergences between devices, and what devices learnt from one another."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
from scipy.special import erf

from ..data.measure import Data, Measure, features
from ..distances.result import fields_by_name, summarize
from ..errors import InputError
from ..federation.result import Array, RunResult, plain
from .federated.model import save_models

if TYPE_CHECKING:
    from .costs import LinkCosts
    from .federated import Model, ModelSpec
    from .plan import LinkPlan


Reading = Literal["half", "root", "normal"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Divergences(RunResult):
    r"""A divergence between every two devices.

    Attributes
    ----------
    names
        Devices that answered, in the order they were given.
    values
        Shape (N, N), symmetric, zero diagonal.
    method
        How they were found.
    unit
        What a value of 1 means, in words.
    reading
        How ``as_error`` reads values: ``"half"`` of them, their part of ``"root"`` two, or as the
        gap of two ``"normal"`` distributions.
    scale
        For ``"normal"``: standard deviation of a device's records, in the unit of the values.
    lower, upper
        Certified bounds, shape (N, N); ``None`` where the method certifies nothing.
    errors
        Shape (N, N) for ``"classifier"``, else ``None``: ``[i, j]`` is the share of device i's
        mass that the classifier of devices i and j takes for j's.
    details
        Of the method: numbers it chose, by name.
    status, converged
        What kind of numbers these are, in words, and whether nothing stopped early.
    seed
        Seed of the run.
    missing
        Devices without an answer, and why (a code).
    """

    view: ClassVar = "view:divergences"

    names: tuple[str, ...]
    values: Array
    method: str
    unit: str
    reading: Reading
    status: str
    seed: int
    scale: float | None = None
    lower: Array | None = None
    upper: Array | None = None
    errors: Array | None = None
    details: Mapping[str, float] = field(default_factory=dict[str, float])
    history: tuple[Mapping[str, float], ...] = ()
    converged: bool = True
    missing: Mapping[str, str] = field(default_factory=dict[str, str])

    def __getitem__(self, pair: tuple[str, str]) -> float:
        """The divergence of two devices."""
        a, b = pair
        return float(self.values[self.names.index(a), self.names.index(b)])

    def as_error(self) -> Array:
        r"""The divergences in units of error, from 0 to 1: ``½ d`` of the transfer cost (18).

        A model's error on two devices with one labelling function differs by their total
        variation at most. Every method is read as an estimate of it:

        =============  ==============================================================
        reading        value v
        =============  ==============================================================
        ``"half"``     :math:`v / 2`, for ``"classifier"``: a classifier shows that much of it
        ``"root"``     :math:`v / \sqrt 2`, for ``"mmd"``: as the kernel is at most 1,
                       :math:`\mathrm{MMD} \le \sqrt 2\, \mathrm{TV}`
        ``"normal"``   :math:`2 \Phi(v / 2 s) - 1`, for distances, with s = ``scale``: the
                       total variation of two normal distributions of deviation s on the
                       line, v apart
        =============  ==============================================================

        The first two never exceed the total variation of what was compared (up to the
        sampling error of the estimate); the third is a reading of a length, no bound.

        The result (N, N) is symmetric, has a zero diagonal, and grows with the values.
        """
        if self.reading == "half":
            return np.clip(0.5 * self.values, 0.0, 1.0)
        if self.reading == "root":
            return np.clip(self.values / np.sqrt(2.0), 0.0, 1.0)
        scale = self.scale or 0.0
        if scale == 0.0:
            # Without any spread, devices that differ have nothing in common.
            return np.where(self.values > 0, 1.0, 0.0)
        return np.asarray(erf(self.values / (2.0 * np.sqrt(2.0) * scale)), dtype=np.float64)

    @property
    def value(self) -> dict[tuple[str, str], float]:
        """The divergence of each pair."""
        return {(a, b): self[a, b] for a, b in combinations(self.names, 2)}

    def to_dict(self) -> dict[str, Any]:
        names = (
            "names", "method", "values", "unit", "lower", "upper", "errors", "scale", "status",
            "converged", "details", "history", "missing", "seed",
        )  # fmt: skip
        as_error = plain(self.as_error())
        return {**fields_by_name(self, *names), "as_error": as_error, **self._cost_dict()}

    def __repr__(self) -> str:
        return summarize(self, f"{len(self.names)} devices", self.method)


# Divergences whose messages give every record away.
_RECORDS = ("direct", "fedwad", "trianglewad")


@dataclass(frozen=True, kw_only=True, eq=False)
class Adaptation(RunResult):
    r"""Result of an adaptation: links, models and accuracies.

    Arrays over devices are in the order of ``names``, which is that of the alphabet.

    Attributes
    ----------
    names
        Devices that took part.
    classes
        Names of the classes, in the order of all codes.
    plan
        Sources, targets, links and weights.
    costs
        What the plan was computed from: ``silot.teaching.evaluate(plan, costs)`` is its objective.
    divergences
        Between devices; ``None`` when they were not asked for.
    labelled, unlabelled
        Records by device.
    errors
        By device that trained: the error it expects on records of its own kind, on records held
        out from training unless ``folds=0``.
    shares
        Shape (N, C): estimated class proportions of every device; ``None`` with the bound.
    contrary
        Sources whose models contradict the labels of others, which nobody else uses.
    models
        By device that has one: its own model for a source, the combination it received for a
        target.
    spec
        Architecture of all models.
    parameters
        Trained parameters by device, (P,).
    rule
        How targets combine models.
    accuracies
        By target: accuracy on its evaluation records, ``None`` where it has none or did not
        tell (``unevaluated`` says why).
    energy
        Energy of the plan's links in joule, by the model of the costs. That is what devices
        would spend who send models to one another directly; here all messages pass the
        coordinator, and their bytes are on the cost.
    energy_share
        ``energy`` as a part of that of all links from eligible sources to the plan's targets.
    status
        In words: how the plan was found, and who could not take part.
    excluded
        Devices that took part and may be no source, and the code of why.
    missing
        Devices that took no part, and the code of why.
    columns
        Names of the devices' features in their order, where they had names.
    """

    view: ClassVar = "view:adaptation"

    names: tuple[str, ...]
    classes: tuple[str, ...]
    plan: LinkPlan
    costs: LinkCosts = field(repr=False)
    divergences: Divergences | None = field(repr=False)
    labelled: Mapping[str, int]
    unlabelled: Mapping[str, int]
    errors: Mapping[str, float]
    shares: Array | None = field(default=None, repr=False)
    models: Mapping[str, Model] = field(repr=False)
    spec: ModelSpec
    parameters: Mapping[str, Array] = field(repr=False)
    rule: str
    accuracies: Mapping[str, float | None]
    energy: float
    energy_share: float
    status: str
    seed: int
    excluded: Mapping[str, str] = field(default_factory=dict[str, str])
    missing: Mapping[str, str] = field(default_factory=dict[str, str])
    unevaluated: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: tuple[str, ...] | None = None
    contrary: tuple[str, ...] = ()

    @property
    def source(self) -> Array:
        """Costs of training, (N,)."""
        return self.costs.source

    @property
    def transfer(self) -> Array:
        """Costs of using a source's model at a target, (N, N)."""
        return self.costs.transfer

    @property
    def link_energy(self) -> Array:
        """Energies of all links in joule, (N, N)."""
        return self.costs.energy

    @property
    def accuracy(self) -> float | None:
        """Mean accuracy of the targets that sent theirs."""
        values = [value for value in self.accuracies.values() if value is not None]
        return float(np.mean(values)) if values else None

    @property
    def told_models(self) -> bool:
        """Whether what left at level record is parameters of models, and no records."""
        between = self.divergences
        return self.disclosure == "record" and (between is None or between.method not in _RECORDS)

    def model(self, device: str) -> Model:
        """Return the model that a device has: its own, or of those that it received.

        Raises
        ------
        InputError
            ``device-model``: a device that has no model.
        """
        if device not in self.models:
            raise InputError(
                f"device {device!r} has no model; those that have are {', '.join(self.models)}.",
                code="device-model",
            )
        return self.models[device]

    def predict_proba(self, device: str, points: Data) -> Array:
        """Compute the probability of every class for records of a device, (n, C).

        Columns of a data frame are taken by name, where those of the devices had names.

        Raises
        ------
        InputError
            A device that has no model, a data frame without a column of the devices.
        """
        if isinstance(points, Measure):
            raise InputError("the records are a Measure. Give its points.", code="measure-dtype")
        return self.model(device).predict_proba(features(points, self.columns))

    def predict(self, device: str, points: Data) -> npt.NDArray[np.str_]:
        """Predict the most probable class of records of a device, by name, (n,)."""
        return np.array(self.classes)[self.predict_proba(device, points).argmax(axis=1)]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models of all devices to one file.

        ``silot.teaching.federated.Model.load`` reads one.
        """
        save_models(path, self.models)

    @property
    def value(self) -> Mapping[str, float | None]:
        """The accuracy at each target; ``None`` where it is not known."""
        return self.accuracies

    def to_dict(self) -> dict[str, Any]:
        names = (
            "names", "classes", "plan", "source", "transfer", "link_energy", "divergences",
            "labelled", "unlabelled", "errors", "shares", "rule", "accuracies", "accuracy",
            "energy", "energy_share", "status", "contrary", "excluded", "missing", "unevaluated",
            "seed",
        )  # fmt: skip
        return {
            **fields_by_name(self, *names),
            "phi": list(self.costs.phi),
            "model": self.spec.kind,
            "model_parameters": self.spec.size,
            **self._cost_dict(),
        }

    def __repr__(self) -> str:
        accuracy = "" if self.accuracy is None else f", accuracy {self.accuracy:.3f}"
        return (
            f"Adaptation({len(self.plan.sources)} sources, {len(self.plan.targets)} targets"
            f"{accuracy}, {self.energy:.3g} J)"
        )
