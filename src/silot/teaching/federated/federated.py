"""One model of many holders, or one for each group of them: FedAvg, FedPer, FedRep."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from ...options import anything, count, none_or, number, option, part, word
from ..questions import TrainAlone, TrainRound, described, singles
from .federated_result import FederatedModels
from .modelling import (
    Devices,
    Modelling,
    ask_columns,
    ask_each,
    codes_of,
    count_labelled,
)
from .spec import ModelSpec
from .training import (
    LARGEST_PARAMETER,
    Algorithm,
    InRound,
    check_head,
    initial,
    shared_size,
)

Codes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class _Report:
    """What one holder reported in a round."""

    records: int
    right: int
    tests: int
    loss: float
    personal: int | None
    parameters: Array = field(repr=False)


@dataclass(frozen=True)
class Progression:
    """How far a training has come: what it takes to continue after ``len(history)`` rounds."""

    shared: Mapping[int, Array] = field(repr=False)
    best: Mapping[int, Array] = field(repr=False)  # of the round of highest accuracy
    history: tuple[Mapping[str, Any], ...] = ()
    alone: Mapping[str, int] = field(default_factory=dict[str, int])

    def parts(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Return values and arrays, which a checkpoint keeps."""
        shared = {f"shared.{group}": values for group, values in self.shared.items()}
        best = {f"best.{group}": values for group, values in self.best.items()}
        return {"history": list(self.history), "alone": dict(self.alone)}, {**shared, **best}

    @classmethod
    def of(
        cls, values: Mapping[str, Any], arrays: Mapping[str, Array], groups: Sequence[int]
    ) -> Progression:
        """Read the values and arrays of a checkpoint; ``KeyError`` where one is absent."""
        return cls(
            shared={group: arrays[f"shared.{group}"] for group in groups},
            best={group: arrays[f"best.{group}"] for group in groups},
            history=tuple(values["history"]),
            alone=values["alone"],
        )


def best_round(history: Sequence[Mapping[str, Any]]) -> int:
    """Return the round before which accuracy was highest, the first of equals."""
    return int(np.argmax([entry["accuracy"] for entry in history]))


Keep = Callable[[Progression], None]


class Averaging:
    """One federated training between some holders."""

    def __init__(
        self,
        options: FederatedTraining,
        holders: tuple[str, ...],
        begun: Progression | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.options = options
        self.begun, self.keep = begun, keep
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
        alone = yield from self._alone(devices, fixed)
        first = initial(spec, options.seed)[: shared_size(spec, options.algorithm)]
        shared: Mapping[int, Array] = dict.fromkeys(set(self.groups.values()), first)
        fixed |= options.values("algorithm", "head_passes")
        state = self.begun or Progression(shared, shared, (), alone)
        if any(len(values) != len(first) for values in state.shared.values()):
            raise MismatchError(
                "the checkpoint has a model of another size. Give the earlier options, or "
                "another file.",
                code="checkpoint-mismatch",
            )
        turns = {group: Turns(options.active, options.seed) for group in shared}
        for _ in state.history:
            self._following(devices, turns)
        for k in range(len(state.history), options.rounds):
            names = self._following(devices, turns)
            questions = self._round(names, fixed, state.shared, k, passes=options.passes)
            reports = yield from self._ask(devices, questions, len(first))
            state = self._after(state, reports)
            if self.keep is not None:
                self.keep(state)
            if self._is_over(state):
                break
        reports = yield from self._evaluate(devices, fixed, state.shared)
        history = (*state.history, *_entry(len(state.history), reports))
        chosen, last = len(state.history), state.shared
        if options.patience is not None and history:
            chosen = best_round(history)
            if chosen < len(state.history):
                last = state.best
                reports = yield from self._evaluate(devices, fixed, last)
        return self._result(devices, classes, spec, last, reports, state.alone, history, chosen)

    def _evaluate(
        self, devices: Devices, fixed: Mapping[str, Any], shared: Mapping[int, Array]
    ) -> Steps[dict[str, _Report]]:
        """Ask everybody how good the models are."""
        questions = self._round(
            devices.names, fixed, shared, self.options.rounds, passes=0.0,
            personal_passes=self.options.personal_passes,
        )  # fmt: skip
        return (yield from self._ask(devices, questions, 0))

    def _alone(self, devices: Devices, fixed: Mapping[str, Any]) -> Steps[dict[str, int]]:
        """Ask for models that holders train alone, as long; return what these get right."""
        options = self.options
        if self.begun is not None or not options.alone or options.held_out == 0:
            return {}
        questions = {
            name: TrainAlone(
                **fixed,
                **self._flags_of(name),
                passes=options.passes * options.rounds,
                seed=_seed(options.seed, -1, name),
            )
            for name in devices.names
        }
        reports = yield from self._ask(devices, questions, 0)
        return {name: report.right for name, report in reports.items()}

    def _round(
        self,
        names: Sequence[str],
        fixed: Mapping[str, Any],
        shared: Mapping[int, Array],
        k: int,
        *,
        passes: float,
        personal_passes: float = 0.0,
    ) -> dict[str, TrainRound]:
        return {
            name: TrainRound(
                **fixed,
                **self._flags_of(name),
                passes=passes,
                personal_passes=personal_passes,
                start=singles(shared[self.groups[name]]),
                seed=_seed(self.options.seed, k, name),
            )
            for name in names
        }

    def _after(self, state: Progression, reports: Mapping[str, _Report]) -> Progression:
        """Return how far training has come after the reports of one more round."""
        history = (*state.history, *_entry(len(state.history), reports))
        is_best = bool(history) and best_round(history) == len(state.history)
        return replace(
            state,
            history=history,
            best=state.shared if is_best else state.best,
            shared=self._averages(state.shared, reports),
        )

    def _is_over(self, state: Progression) -> bool:
        """Return whether accuracy has not risen for as many rounds as ``patience`` allows."""
        patience = self.options.patience
        history = state.history
        return patience is not None and len(history) - 1 - best_round(history) >= patience

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
                    f"all of {', '.join(map(repr, members))} have weight 0 but form a group. Give "
                    "one of them a weight, or use other groups.",
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
        alone: Mapping[str, int],
        history: Sequence[Mapping[str, Any]],
        chosen: int,
    ) -> FederatedModels:
        options, missing = self.options, codes_of(devices.missing)
        names = tuple(name for name in self.holders if name in reports)
        without = ", ".join(f"{n} ({c})" for n, c in missing.items())
        groups = len({self.groups[name] for name in names})
        flags = {name: len(self.flagged.get(name, ())) for name in names}
        # The same share of flagged records was held out as of the others.
        part = 1.0 - options.held_out
        others = [name for name in names if part * flags[name] > reports[name].records]
        notes = [f"trained: {chosen} rounds of {options.algorithm}"]
        if options.patience is not None:
            notes[0] += f", of {len(history) - 1} the best on the records held out"
        notes[0] += f" in {groups} groups" if groups > 1 else ""
        if without:
            notes.append(f"without {without}")
        if others:
            notes.append(
                f"most records of {', '.join(others)} are flagged: do they have another "
                "distribution?"
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
            alone={name: alone[name] for name in names if name in alone},
            personal={
                name: right for name in names if (right := reports[name].personal) is not None
            },
            personal_passes=options.personal_passes,
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
    personal = answer.optional_number("personal")
    sound &= personal is None or (personal == int(personal) and personal <= tests)
    parameters = answer.array("parameters", ndim=1, single=True) if size else np.zeros(0)
    if (
        not sound
        or parameters.shape != (size,)
        or np.abs(parameters).max(initial=0.0) > LARGEST_PARAMETER
    ):
        raise HolderError("a model that is not valid.", code="answer-malformed")
    own = None if personal is None else int(personal)
    return _Report(records, right, tests, answer.number("loss"), own, parameters)


def _entry(k: int, reports: Mapping[str, _Report]) -> list[dict[str, Any]]:
    """Return what is known of the models before a round; nothing where no record was held out."""
    tests = sum(item.tests for item in reports.values())
    if not tests:
        return []
    right = sum(item.right for item in reports.values())
    loss = sum(item.loss for item in reports.values())
    by_holder = {name: item.right / item.tests for name, item in reports.items() if item.tests}
    return [{"round": k, "accuracy": right / tests, "loss": loss / tests, "holders": by_holder}]


def _seed(seed: int, round_: int, name: str) -> int:
    """Draw a seed by name and round: who else takes part changes nothing."""
    digest = hashlib.sha256(f"{seed}\0{round_}\0{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _by_holder(
    option: object, holders: Sequence[str], name: str, needs: str, read: Callable[[Any], Any]
) -> dict[str, Any]:
    """Return what ``read`` makes of values by holder, or raise where that is ``None``."""
    code = f"option-{name}"
    if not isinstance(option, Mapping):
        raise InputError(f"{name} are not given by holder; give {needs}.", code=code)
    values = cast("Mapping[str, Any]", option)
    strange = [str(holder) for holder in values if holder not in holders]
    if strange:
        raise MismatchError(f"{name} name {min(strange)!r}, which is not a holder here.", code=code)
    own = {holder: read(value) for holder, value in values.items()}
    wrong = [holder for holder, value in own.items() if value is None]
    if name != "flagged":
        wrong += [holder for holder in holders if holder not in own]
    if wrong:
        what = "of another kind" if wrong[0] in values else "missing"
        raise InputError(f"{name} of {wrong[0]!r} are {what}; give {needs}.", code=code)
    return own


def _groups(option: Mapping[str, int] | None, holders: Sequence[str]) -> dict[str, int]:
    if option is None:
        return dict.fromkeys(holders, 0)

    def read(value: Any) -> int | None:
        return int(value) if isinstance(value, int | np.integer) else None

    return _by_holder(option, holders, "groups", "every holder a whole number", read)


def _weights(option: Mapping[str, float] | None, holders: Sequence[str]) -> dict[str, float] | None:
    if option is None:
        return None

    def read(value: Any) -> float | None:
        is_number = isinstance(value, int | float | np.number)
        return float(value) if is_number and 0 <= float(value) < np.inf else None

    return _by_holder(option, holders, "weights", "every holder 0 or more", read)


def _flagged(option: Mapping[str, Any] | None, holders: Sequence[str]) -> dict[str, Codes]:
    """Return the places of the records that are not trained on, by holder that has any."""

    def read(value: Any) -> Codes | None:
        flags = np.asarray(value)
        is_flags = flags.ndim == 1 and flags.dtype == np.bool_
        return np.flatnonzero(flags).astype(np.int64) if is_flags else None

    needs = "a truth value for each record"
    places = _by_holder(option or {}, holders, "flagged", needs, read)
    return {name: own for name, own in places.items() if len(own)}


class FederatedTraining(Modelling, Joint[FederatedModels]):
    """Federated training: a model of all holders, or of each group of them.

    In each round every holder trains what its group shares on its own records and returns it; the
    coordinator takes the weighted mean. FedAvg shares all layers. FedPer and FedRep share all but
    the last, the head, which is a holder's own and never travels: FedPer trains both together,
    FedRep the shared layers with the head as it is fitted. A head is fitted to the shared layers
    again in every round, from 0, where the papers keep it: holders then need no memory.

    Every holder holds out the part ``held_out`` of its records; accuracies are on those, of the
    shared model with, but for FedAvg, the holder's own head.
    """

    name = "train"

    algorithm: Algorithm = option(
        "``fedavg`` shares all layers, ``fedper`` and ``fedrep`` all but the last.",
        word(*get_args(Algorithm)),
        default="fedavg",
        brief="Which layers holders share: all, or all but the last.",
    )
    rounds: int = option("Averagings.", count(1, 10_000), default=20)
    active: int | None = active_option(
        "Number of holders of each group that receive a question in each round. All take turns, in "
        "a random order that changes every turn. ``None``: all in every round.",
        who="Holders of each group",
    )
    passes: float = option(
        "Passes over a holder's records in each round.", number(above=0), default=1.0
    )
    head_passes: float = option(
        "Passes over a holder's records to fit its last layer in each round.",
        number(above=0),
        default=5.0,
        flag=False,
    )
    batch: int = option("Records in a step of gradient descent.", count(), default=10)
    rate: float = option("Learning rate of gradient descent.", number(above=0), default=0.01)
    momentum: float = training_option("Momentum of gradient descent.", part("number"), default=0.9)
    held_out: float = option(
        "Part of a holder's labelled records that accuracies are measured on, and no model is "
        "trained on.",
        part("number"),
        default=0.2,
        brief="Part of each holder's records to measure accuracies on.",
    )
    alone: bool = switch(
        "Also train a model at every holder alone, as long, to compare with.",
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
    patience: int | None = option(
        "Stop when the accuracy on held-out records has not risen for this many "
        "rounds, and keep the models of the best round. ``None``: all rounds.",
        none_or(count()),
        default=None,
    )
    personal_passes: float = option(
        "Passes in which each holder finally trains on its own records, to estimate "
        "how good a personal model is; that model stays with the holder.",
        number(least=0),
        default=0.0,
    )
    quorum: int | None = quorum_option()

    def fit(self) -> None:
        super().fit()
        if self.patience is not None and self.held_out == 0:
            raise InputError(
                "patience needs accuracies, but no records are held out. Give held_out, or "
                "leave patience out.",
                code="option-patience",
            )
        if self.algorithm != "fedavg" and isinstance(self.model, str) and self.model == "logistic":
            check_head(ModelSpec("logistic", (1,), 2), self.algorithm)

    @property
    def parts(self) -> dict[str, Any]:
        """What a training depends on beside its data and groups: of an equal one it may go on."""
        flags = {name: np.flatnonzero(rows).tolist() for name, rows in (self.flagged or {}).items()}
        return {
            "weights": dict(self.weights or {}), "flags": flags, "model": self.described_model,
            "shape": self.shape and list(self.shape),
            "classes": self.classes and list(self.classes),
            **self.values(
                "algorithm", "active", "passes", "head_passes", "batch", "rate", "momentum",
                "held_out", "alone", "seed", "unlabelled", "rounds",
            ),
        }  # fmt: skip

    @property
    def in_round(self) -> InRound:
        """How a holder trains within a round."""
        training = self.values("passes", "head_passes", "batch", "rate", "momentum", "seed")
        return InRound(**training)

    def among(
        self,
        holders: Sequence[str],
        own: Answerer | None = None,
        *,
        begun: Progression | None = None,
        keep: Keep | None = None,
    ) -> Protocol[FederatedModels]:
        """Return the protocol; ``keep`` is called after every round, ``begun`` is what it kept."""
        run = Averaging(self, tuple(holders), begun, keep)
        return Protocol(
            self.name,
            run.holders,
            self.disclosure,
            run.steps,
            {
                "model": self.described_model,
                "groups": len(set(run.groups.values())),
                **self.values("algorithm", "rounds", "active", "passes", "batch", "rate", "seed"),
            },
            expected_rounds=self.rounds + 4,
        )
