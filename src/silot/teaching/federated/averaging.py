"""The rounds of one federated training: what is asked, and how answers are averaged."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ...distances.methods import Turns, resolve_quorum
from ...distances.questions import encode_classes
from ...errors import HolderError, InputError, MismatchError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Steps, failure_error
from .devices import Devices, ask_columns, ask_each, codes_of, count
from .federated_result import FederatedModels
from .questions.models import described
from .questions.rounds import TrainAlone, TrainRound
from .shared import check_head, shared_size
from .spec import ModelSpec
from .training import initial

if TYPE_CHECKING:
    from .federated import FederatedTraining

Codes = npt.NDArray[np.int64]

# Larger parameters belong to no model that was trained, and overflow in every layer.
_LARGEST = 1e6


@dataclass(frozen=True)
class _Told:
    """What one holder told in a round."""

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
        self.missing: dict[str, Failure] = {}
        self._check_groups(holders)

    def start(self) -> Steps[FederatedModels]:
        """Questions, and the models that follow from the answers."""
        return Averaging(self.options, self.holders).steps()

    def steps(self) -> Steps[FederatedModels]:
        """The rounds of a run that has not begun."""
        options, devices = self.options, Devices()
        classes = yield from count(
            sorted(self.holders), options.classes, options.unlabelled, devices
        )
        self._drop(devices.missing)
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
        alone: dict[str, _Told] = {}
        if options.alone and options.held_out > 0:
            alone = yield from self._ask(
                {
                    name: TrainAlone(
                        **fixed,
                        **self._of(name),
                        passes=options.passes * options.rounds,
                        seed=_seed(options.seed, -1, name),
                    )
                    for name in self._present
                },
                spec,
                0,
            )
        first = initial(spec, options.seed)[: shared_size(spec, options.algorithm)]
        shared = dict.fromkeys(set(self.groups.values()), first)
        fixed |= options.values("algorithm", "head_passes")
        history: list[dict[str, float]] = []
        told: dict[str, _Told] = {}
        turns = {group: Turns(options.active, options.seed) for group in shared}
        for k in range(options.rounds + 1):
            last = k == options.rounds
            asked = self._present if last else self._following(turns)
            told = yield from self._ask(
                {
                    name: TrainRound(
                        **fixed,
                        **self._of(name),
                        start=shared[self.groups[name]],
                        passes=0.0 if last else options.passes,
                        seed=_seed(options.seed, k, name),
                    )
                    for name in asked
                },
                spec,
                0 if last else len(first),
            )
            tests = sum(item.tests for item in told.values())
            if tests:
                right = sum(item.right for item in told.values())
                history.append({"round": k, "accuracy": right / tests})
            if not last:
                shared = self._averages(shared, told)
        return self._result(devices, classes, spec, shared, told, alone, history)

    @property
    def _present(self) -> tuple[str, ...]:
        return tuple(name for name in sorted(self.holders) if name not in self.missing)

    def _following(self, turns: Mapping[int, Turns]) -> list[str]:
        """Who is asked next, of every group."""
        return [
            name
            for group, turn in sorted(turns.items())
            for name in turn.next_holders([n for n in self._present if self.groups[n] == group])
        ]

    def _of(self, name: str) -> dict[str, Any]:
        return {"flagged": self.flagged[name]} if name in self.flagged else {}

    def _drop(self, failures: Mapping[str, Failure]) -> None:
        """Leave holders out from now on; raise when fewer than the quorum are left."""
        self.missing.update(failures)
        if len(self.holders) - len(self.missing) < self.quorum:
            raise failure_error(*min(self.missing.items()))
        self._check_groups(self._present)

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
        self, questions: Mapping[str, TrainRound | TrainAlone], spec: ModelSpec, size: int
    ) -> Steps[dict[str, _Told]]:
        told, failed = yield from ask_each(questions, lambda _, answer: _read(answer, size))
        self._drop(failed)
        return told

    def _averages(self, shared: Mapping[int, Array], told: Mapping[str, _Told]) -> dict[int, Array]:
        """Weighted means by group; a group that nobody is left of keeps what it has."""
        found = dict(shared)
        for group in shared:
            members = [name for name in told if self.groups[name] == group]
            if not members:
                continue
            weights = np.array(
                [
                    told[name].records if self.weights is None else self.weights[name]
                    for name in members
                ],
                dtype=np.float64,
            )
            stacked = np.stack([told[name].parameters for name in members])
            found[group] = weights / weights.sum() @ stacked
        return found

    def _result(
        self,
        devices: Devices,
        classes: tuple[str, ...],
        spec: ModelSpec,
        shared: Mapping[int, Array],
        told: Mapping[str, _Told],
        alone: Mapping[str, _Told],
        history: Sequence[Mapping[str, float]],
    ) -> FederatedModels:
        options = self.options
        names = tuple(name for name in self.holders if name in told)
        without = ", ".join(f"{n} ({c})" for n, c in codes_of(self.missing).items())
        groups = len({self.groups[name] for name in names})
        # Of the flagged as many were held out as of the others.
        part = 1.0 - options.held_out
        others = [n for n in names if part * len(self.flagged.get(n, ())) > told[n].records]
        notes = [f"trained: {options.rounds} rounds of {options.algorithm}"]
        notes[0] += f" in {groups} groups" if groups > 1 else ""
        if without:
            notes.append(f"without {without}")
        if others:
            notes.append(f"most records of {', '.join(others)} are flagged: of another law?")
        return FederatedModels(
            names=names,
            algorithm=options.algorithm,
            assignment={name: self.groups[name] for name in names},
            classes=classes,
            spec=spec,
            parameters=dict(shared),
            training=options.in_round,
            records={name: told[name].records for name in names},
            left_out={name: len(self.flagged.get(name, ())) for name in names},
            weights=None if self.weights is None else {n: self.weights[n] for n in names},
            tests={name: told[name].tests for name in names},
            right={name: told[name].right for name in names},
            alone={name: alone[name].right for name in names if name in alone},
            history=tuple(history),
            missing=codes_of(self.missing),
            status="; ".join(notes),
            seed=options.seed,
        )


def _read(answer: Answer, size: int) -> _Told:
    """What a holder told, or an error that stands for what is wrong with it."""
    numbers = [answer.number(name) for name in ("records", "right", "tests")]
    records, right, tests = (int(each) for each in numbers)
    sound = all(each == int(each) for each in numbers) and records > 0 and right <= tests
    parameters = answer.array("parameters", ndim=1) if size else np.zeros(0)
    if not sound or parameters.shape != (size,):
        raise HolderError("a model that is none.", code="answer-malformed")
    if size and np.abs(parameters).max() > _LARGEST:
        raise HolderError("a model that is none.", code="answer-malformed")
    return _Told(records, right, tests, parameters)


def _seed(seed: int, round_: int, name: str) -> int:
    """Seeds by name and round: who else takes part changes nothing."""
    digest = hashlib.sha256(f"{seed}\0{round_}\0{name}".encode()).digest()
    return int.from_bytes(digest[:7], "big")


def _by_holder(given: object, holders: Sequence[str], what: str, code: str) -> dict[str, Any]:
    """Values by holder, for these holders and no others."""
    if not isinstance(given, Mapping):
        raise InputError(f"{what} are not given by holder.", code=code)
    values = cast("Mapping[str, Any]", given)
    strange = [str(name) for name in values if name not in holders]
    if strange:
        raise MismatchError(
            f"{what} name {sorted(strange)[0]!r}, which is no holder here.", code=code
        )
    return dict(values)


def _groups(given: Mapping[str, int] | None, holders: Sequence[str]) -> dict[str, int]:
    if given is None:
        return dict.fromkeys(holders, 0)
    groups = _by_holder(given, holders, "groups", "option-groups")
    left = [name for name in holders if name not in groups]
    if left or not all(isinstance(k, int | np.integer) for k in groups.values()):
        raise InputError(
            f"groups have no whole number for {left[0]!r}."
            if left
            else "groups are not whole numbers by holder.",
            code="option-groups",
        )
    return {name: int(groups[name]) for name in holders}


def _weights(given: Mapping[str, float] | None, holders: Sequence[str]) -> dict[str, float] | None:
    if given is None:
        return None
    weights = _by_holder(given, holders, "weights", "option-weights")
    for name in holders:
        value = weights.get(name)
        if not isinstance(value, int | float | np.number) or not 0 <= float(value) < np.inf:
            raise InputError(
                f"the weight of {name!r} is {value!r}; give every holder 0 or more.",
                code="option-weights",
            )
    return {name: float(weights[name]) for name in holders}


def _flagged(given: Mapping[str, Any] | None, holders: Sequence[str]) -> dict[str, Codes]:
    """Places of the records that are left out, by holder that has any."""
    if given is None:
        return {}
    found: dict[str, Codes] = {}
    for name, each in _by_holder(given, holders, "flagged records", "option-flagged").items():
        flags = np.asarray(each)
        if flags.ndim != 1 or flags.dtype != np.bool_:
            raise InputError(
                f"flagged records of {name!r} are {flags.dtype} of shape {flags.shape}; a truth "
                "value for each record is needed.",
                code="option-flagged",
            )
        if flags.any():
            found[name] = np.flatnonzero(flags).astype(np.int64)
    return found


__all__ = ["Averaging"]
