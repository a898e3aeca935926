"""One model of many holders, or one for each group of them: FedAvg, FedPer, FedRep."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast, get_args

import numpy as np
import numpy.typing as npt

from ...distances.methods import Joint, Turns, resolve_quorum
from ...distances.questions import encode_classes
from ...distances.shared_options import (
    active_option,
    numbers_by_holder,
    quorum_option,
    switch,
    training_option,
)
from ...errors import HolderError, InputError, MismatchError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Protocol, Steps
from ...federation.question import Answerer
from ...options import anything, count, number, option, part, word
from .federated_result import FederatedModels
from .modelling import (
    LARGEST_PARAMETER,
    Devices,
    Modelling,
    ask_columns,
    ask_each,
    codes_of,
    count_labelled,
)
from .questions import TrainAlone, TrainRound, described
from .shared import Algorithm, InRound, check_head, shared_size
from .spec import ModelSpec
from .training import initial

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Report:
    """What one holder reported in a round."""

    records: int
    right: int
    tests: int
    parameters: Array = field(repr=False)


class Averaging:
    """One federated training between some holders."""

    def __init__(self, options: FederatedTraining, holders: tuple[str, ...]) -> None:
        self.options = options
        self.holders = holders
        self.quorum = resolve_quorum(options.quorum, holders)
        self.groups = _groups(options.groups, holders)
        self.weights = _weights(options.weights, holders)
        self.flagged = _flagged(options.flagged, holders)
        self._check_groups(holders)

    def steps(self) -> Steps[FederatedModels]:
        """Ask for rounds of training, and return the models that follow from the answers."""
        options, devices = self.options, Devices()
        classes = yield from count_labelled(
            sorted(self.holders), options.classes, options.unlabelled, devices
        )
        devices.quorum = self.quorum
        self._drop(devices, {})
        if options.by_column:
            yield from ask_columns(devices)
        if len(classes) < 2:
            raise InputError(
                f"{len(classes)} class(es) have records of their own; two or more are needed. "
                "Give holders of other classes, or the column that has the labels.",
                code="classes-few",
            )
        spec = options.spec_of(devices, classes)
        check_head(spec, options.algorithm)
        fixed = {
            **described(spec),
            "classes": encode_classes(list(classes)),
            "unlabelled": options.unlabelled,
            "split": options.seed,
            **options.values("batch", "rate", "momentum", "held_out"),
        }
        alone: dict[str, _Report] = {}
        if options.alone and options.held_out > 0:
            questions = {
                name: TrainAlone(
                    **fixed,
                    **self._flags_of(name),
                    passes=options.passes * options.rounds,
                    seed=_seed(options.seed, -1, name),
                )
                for name in devices.names
            }
            alone = yield from self._ask(devices, questions, 0)
        first = initial(spec, options.seed)[: shared_size(spec, options.algorithm)]
        shared = dict.fromkeys(set(self.groups.values()), first)
        fixed |= options.values("algorithm", "head_passes")
        history: list[dict[str, float]] = []
        reports: dict[str, _Report] = {}
        turns = {group: Turns(options.active, options.seed) for group in shared}
        for k in range(options.rounds + 1):
            last = k == options.rounds
            names = devices.names if last else self._following(devices, turns)
            questions = {
                name: TrainRound(
                    **fixed,
                    **self._flags_of(name),
                    start=shared[self.groups[name]],
                    passes=0.0 if last else options.passes,
                    seed=_seed(options.seed, k, name),
                )
                for name in names
            }
            reports = yield from self._ask(devices, questions, 0 if last else len(first))
            tests = sum(item.tests for item in reports.values())
            if tests:
                right = sum(item.right for item in reports.values())
                history.append({"round": k, "accuracy": right / tests})
            if not last:
                shared = self._averages(shared, reports)
        return self._result(devices, classes, spec, shared, reports, alone, history)

    def _following(self, devices: Devices, turns: Mapping[int, Turns]) -> list[str]:
        """Choose the holders of every group that take part in the next round."""
        return [
            name
            for group, turn in sorted(turns.items())
            for name in turn.next_holders([n for n in devices.names if self.groups[n] == group])
        ]

    def _flags_of(self, name: str) -> dict[str, Any]:
        return {"flagged": self.flagged[name]} if name in self.flagged else {}

    def _drop(self, devices: Devices, failures: Mapping[str, Failure]) -> None:
        """Exclude holders from now on; raise when fewer than the quorum are present."""
        devices.drop(failures)
        self._check_groups(devices.names)

    def _check_groups(self, present: Sequence[str]) -> None:
        if self.weights is None:
            return
        for group in {self.groups[name] for name in present}:
            members = [name for name in present if self.groups[name] == group]
            if not sum(self.weights[name] for name in members) > 0:
                raise InputError(
                    f"all of {', '.join(map(repr, members))} have weight 0, and are a group. Give "
                    "one of them a weight, or other groups.",
                    code="option-weights",
                )

    def _ask(
        self, devices: Devices, questions: Mapping[str, TrainRound | TrainAlone], size: int
    ) -> Steps[dict[str, _Report]]:
        reports, failures = yield from ask_each(questions, lambda _, answer: _read(answer, size))
        self._drop(devices, failures)
        return reports

    def _averages(
        self, shared: Mapping[int, Array], reports: Mapping[str, _Report]
    ) -> dict[int, Array]:
        """Compute weighted means by group; a group without reports keeps what it has."""
        averages = dict(shared)
        for group in shared:
            members = [name for name in reports if self.groups[name] == group]
            if not members:
                continue
            own = self.weights or {name: reports[name].records for name in members}
            weights = np.array([own[name] for name in members], dtype=np.float64)
            stacked = np.stack([reports[name].parameters for name in members])
            averages[group] = weights / weights.sum() @ stacked
        return averages

    def _result(
        self,
        devices: Devices,
        classes: tuple[str, ...],
        spec: ModelSpec,
        shared: Mapping[int, Array],
        reports: Mapping[str, _Report],
        alone: Mapping[str, _Report],
        history: Sequence[Mapping[str, float]],
    ) -> FederatedModels:
        options, missing = self.options, codes_of(devices.missing)
        names = tuple(name for name in self.holders if name in reports)
        without = ", ".join(f"{n} ({c})" for n, c in missing.items())
        groups = len({self.groups[name] for name in names})
        flags = {name: len(self.flagged.get(name, ())) for name in names}
        # The same share of flagged records was held out as of the others.
        part = 1.0 - options.held_out
        others = [name for name in names if part * flags[name] > reports[name].records]
        notes = [f"trained: {options.rounds} rounds of {options.algorithm}"]
        notes[0] += f" in {groups} groups" if groups > 1 else ""
        if without:
            notes.append(f"without {without}")
        if others:
            notes.append(
                f"most records of {', '.join(others)} are flagged: of another distribution?"
            )
        return FederatedModels(
            names=names,
            algorithm=options.algorithm,
            assignment={name: self.groups[name] for name in names},
            classes=classes,
            spec=spec,
            parameters=dict(shared),
            training=options.in_round,
            records={name: reports[name].records for name in names},
            left_out=flags,
            weights=None if self.weights is None else {n: self.weights[n] for n in names},
            tests={name: reports[name].tests for name in names},
            right={name: reports[name].right for name in names},
            alone={name: alone[name].right for name in names if name in alone},
            history=tuple(history),
            missing=missing,
            status="; ".join(notes),
            seed=options.seed,
        )


def _read(answer: Answer, size: int) -> _Report:
    """Read what a holder reported, or raise a ``HolderError``."""
    numbers = [answer.number(name) for name in ("records", "right", "tests")]
    records, right, tests = map(int, numbers)
    sound = numbers == [records, right, tests] and records > 0 and right <= tests
    parameters = answer.array("parameters", ndim=1) if size else np.zeros(0)
    if (
        not sound
        or parameters.shape != (size,)
        or np.abs(parameters).max(initial=0.0) > LARGEST_PARAMETER
    ):
        raise HolderError("a model that is none.", code="answer-malformed")
    return _Report(records, right, tests, parameters)


def _seed(seed: int, round_: int, name: str) -> int:
    """Draw a seed by name and round: who else takes part changes nothing."""
    digest = hashlib.sha256(f"{seed}\0{round_}\0{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _by_holder(option: object, holders: Sequence[str], what: str, code: str) -> dict[str, Any]:
    """Return values by holder, or raise unless they are of these holders alone."""
    if not isinstance(option, Mapping):
        raise InputError(f"{what} are not given by holder.", code=code)
    values = cast("Mapping[str, Any]", option)
    strange = [str(name) for name in values if name not in holders]
    if strange:
        raise MismatchError(f"{what} name {min(strange)!r}, which is no holder here.", code=code)
    return dict(values)


def _groups(option: Mapping[str, int] | None, holders: Sequence[str]) -> dict[str, int]:
    if option is None:
        return dict.fromkeys(holders, 0)
    groups = _by_holder(option, holders, "groups", "option-groups")
    for name in holders:
        if name not in groups:
            raise InputError(f"groups have no whole number for {name!r}.", code="option-groups")
    if not all(isinstance(k, int | np.integer) for k in groups.values()):
        raise InputError("groups are not whole numbers by holder.", code="option-groups")
    return {name: int(groups[name]) for name in holders}


def _weights(option: Mapping[str, float] | None, holders: Sequence[str]) -> dict[str, float] | None:
    if option is None:
        return None
    weights = _by_holder(option, holders, "weights", "option-weights")
    for name in holders:
        value = weights.get(name)
        if not isinstance(value, int | float | np.number) or not 0 <= float(value) < np.inf:
            raise InputError(
                f"the weight of {name!r} is {value!r}; give every holder 0 or more.",
                code="option-weights",
            )
    return {name: float(weights[name]) for name in holders}


def _flagged(option: Mapping[str, Any] | None, holders: Sequence[str]) -> dict[str, Codes]:
    """Return the places of the records that are not trained on, by holder that has any."""
    if option is None:
        return {}
    places: dict[str, Codes] = {}
    for name, values in _by_holder(option, holders, "flagged records", "option-flagged").items():
        flags = np.asarray(values)
        if flags.ndim != 1 or flags.dtype != np.bool_:
            raise InputError(
                f"flagged records of {name!r} are {flags.dtype} of shape {flags.shape}; a truth "
                "value for each record is needed.",
                code="option-flagged",
            )
        if flags.any():
            places[name] = np.flatnonzero(flags).astype(np.int64)
    return places


class FederatedTraining(Modelling, Joint[FederatedModels]):
    r"""Federated training: a model of all holders, or of each group of them.

    .. math:: \theta_g^{t+1} = \sum_{i \in g} \frac{w_i}{\sum_{j \in g} w_j}\,
        \mathrm{SGD}_i(\theta_g^t)

    In each round every holder trains what its group shares on its own records and returns it;
    the coordinator takes the weighted mean. FedAvg shares all layers. FedPer and FedRep share all
    but the last, the head, which is a holder's own and never travels: FedPer trains both together,
    FedRep the shared layers with the head as it is fitted.

    Every holder holds out the part ``held_out`` of its records; accuracies are on those, of the
    shared model with, but for FedAvg, the holder's own head.

    Returns
    -------
    Protocol[FederatedModels]
        Discloses at level record: parameters trained on a holder's records.

    Raises
    ------
    InputError, MismatchError
        Options out of range; groups, weights or flags of other holders; in the run fewer than two
        classes, or records that do not fit the model.
    ExtraError
        In the run, where torch is not installed.

    Notes
    -----
    McMahan et al., *Communication-efficient learning of deep networks from decentralized data*,
    2017 (FedAvg); Arivazhagan et al., *Federated learning with personalization layers*, 2019
    (FedPer); Collins et al., *Exploiting shared representations for personalized federated
    learning*, 2021 (FedRep). By groups: FedWaD, section 4.4. A head is fitted to the shared layers
    anew in every round, from 0, where the papers keep it: holders then need no memory.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> parts = {"a": slice(0, 100), "b": slice(100, 300)}
    >>> fed = LocalFederation({k: Measure(x[v], labels=y[v]) for k, v in parts.items()})
    >>> models = fed.run(FederatedTraining(model="logistic", rounds=5).among(["a", "b"]))
    >>> models.tests, models.accuracy > 0.8
    ({'a': 20, 'b': 40}, True)
    """

    name = "train"

    algorithm: Algorithm = option(
        "``fedavg`` shares all layers, ``fedper`` and ``fedrep`` all but the last.",
        word(*get_args(Algorithm)),
        default="fedavg",
        brief="What is shared: all layers, or all but the last.",
    )
    rounds: int = option("Averagings.", count(1, 10_000), default=20)
    active: int | None = active_option(
        "Holders of each group asked a round: so many, and all of them in turn, in an order that "
        "is drawn anew every turn. ``None`` asks all.",
        who="Holders of each group",
    )
    passes: float = option("Over a holder's records, in a round.", number(above=0), default=1.0)
    head_passes: float = option(
        "Over a holder's records, to fit its head in a round.",
        number(above=0),
        default=5.0,
        flag=False,
    )
    batch: int = option("Of stochastic gradient descent.", count(), default=10)
    rate: float = option("Of stochastic gradient descent.", number(above=0), default=0.01)
    momentum: float = training_option(
        "Of stochastic gradient descent.", part("number"), default=0.9
    )
    held_out: float = option(
        "Part of a holder's labelled records that accuracies are measured on, and no model is "
        "trained on.",
        part("number"),
        default=0.2,
        brief="Part of each holder's records to measure accuracies on.",
    )
    alone: bool = switch(
        "Also train a model at every holder alone, as long, to compare with: its accuracy is told.",
        default=True,
        flag=False,
    )
    groups: Mapping[str, int] | None = option(
        "Number of the group by holder, such as ``Clustering.assignment``; by default one group.",
        anything("numbers by holder, or None"),
        default=None,
    )
    weights: Mapping[str, float] | None = numbers_by_holder(
        "The :math:`w_i` by holder; by default how many records it trains on."
    )
    flagged: Mapping[str, Any] | None = option(
        "By holder, whether each of its records is left out (n,), as ``RecordScores.flagged``.",
        anything("arrays by holder, or None"),
        default=None,
    )
    quorum: int | None = quorum_option()

    def fit(self) -> None:
        super().fit()
        if self.algorithm != "fedavg" and self.model == "logistic":
            check_head(ModelSpec("logistic", (1,), 2), self.algorithm)

    @property
    def in_round(self) -> InRound:
        """How a holder trains within a round."""
        training = self.values("passes", "head_passes", "batch", "rate", "momentum", "seed")
        return InRound(**training)

    def among(
        self, holders: Sequence[str], own: Answerer | None = None
    ) -> Protocol[FederatedModels]:
        run = Averaging(self, tuple(holders))
        model = self.model
        return Protocol(
            self.name,
            run.holders,
            self.disclosure,
            run.steps,
            {
                "model": model if isinstance(model, str) else model.to_text(),
                "groups": len(set(run.groups.values())),
                **self.values("algorithm", "rounds", "active", "passes", "batch", "rate", "seed"),
            },
            expected_rounds=self.rounds + 4,
        )
