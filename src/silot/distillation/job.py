"""A distillation from end to end: its inputs, its student, and what a checkpoint keeps."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import nn

from silot_transport._check import integer

from ..data.checkpoint import fingerprint, load, make_folder, save
from ..data.measure import Measure
from ..data.preflight import Preflight
from ..errors import FileError, InputError, MismatchError
from ..federation.local import Endpoint, LocalFederation, Progress
from ..federation.policy import Policy
from ..federation.protocol import COORDINATOR, Protocol
from ..privacy.ledger import Ledger
from .fitting import module_predict
from .labels import LabelCodes, LabelSpace
from .modules import parameters_of
from .options import MEMORY, Distill
from .protocol import distill
from .questions import Inputs, apply_temperature, check_inputs, hash_inputs
from .result import Distillation, Predictions, Trial
from .scores import Scores, scores
from .teacher import Teacher
from .text import PAIR, Vocabulary, noise, noise_vectors
from .trainer import Epoch, History, train
from .weights import choose_combination, choose_student, compare, majority, ways_of, weigh

Test = tuple[Any, npt.ArrayLike | LabelCodes]
Tests = dict[str, tuple[Inputs, LabelCodes]]

_FILE = "predictions.npz"
_FEWEST_VALIDATED = 20
# Noise inputs that are drawn where a caller says nothing.
_NOISE = 2000
# Options that results report, in this order.
_REPORTED = (
    "loss", "weights", "weight_cap", "robust", "epsilon", "memory", "epochs", "rate", "batch",
    "temperature", "decimals", "privacy_epsilon", "privacy_delta", "min_teachers", "shared",
)  # fmt: skip
# What a checkpoint keeps of predictions, beside their arrays, and of the cost of asking for them.
_KEPT = ("names", "sizes", "noise", "excluded", "status")
_COST = ("rounds", "bytes_sent", "bytes_received", "seconds", "privacy_mu", "disclosure")


class Job:
    """A distillation whose options and inputs were checked.

    The caller runs ``protocol`` over what ``join`` returns, unless ``read`` has the answers.
    """

    def __init__(
        self,
        global_model: nn.Module,
        transfer_set: Any,
        how: Distill,
        labels: LabelSpace,
        *,
        validation: Test | None = None,
        test: Mapping[str, Test] | Test | None = None,
        checkpoint: str | Path | None = None,
    ) -> None:
        how.check_labels(labels)
        self.how, self.labels, self.checkpoint = how, labels, checkpoint
        self.inputs, self.tests = check_inputs(transfer_set), check_tests(test, labels)
        self.shown, self.codes = _read_validation(validation, self.inputs, labels, how)
        # Validation records are predicted as inputs are, and are not learnt from.
        self.every = self.inputs if self.shown is None else _joined(self.inputs, self.shown)
        self.student = _Student(global_model, self.every, labels)
        self.before = self.student.score(self.tests)
        self.noise = _draw_noise(how.noise, self.inputs, how.seed) if how.needs_noise else None
        self._place, self._mark = None, ""

    def join(self, teachers: Any) -> Any:
        """Return a federation of the teachers, or the one that arrived in their place."""
        federation = _join_teachers(teachers, self.inputs if self.how.shared else None, self.how)
        if self.how.memory and MEMORY in federation.names:
            raise InputError(
                f"a teacher is called {MEMORY!r}, as the model itself is. Give it another name, or "
                "memory=False.",
                code="holder-names",
            )
        return federation

    def protocol(self, names: Sequence[str]) -> Protocol[Predictions]:
        """Build the protocol by which all teachers predict the transfer set and noise."""
        return distill(
            names, self.every, self.how, labels=self.labels, noise=self.noise,
            sizes=self.how.by_size,
        )  # fmt: skip

    def read(self, protocol: Protocol[Predictions], teachers: Any) -> Predictions | None:
        """Read the predictions of an earlier run from the folder of checkpoints, if it has any."""
        if self.checkpoint is None:
            return None
        place = self._place = make_folder(self.checkpoint) / _FILE
        # All that predictions depend on.
        self._mark = fingerprint(
            inputs=hash_inputs(self.every),
            noise="" if self.noise is None else hash_inputs(self.noise),
            labels=list(self.labels.names),
            teachers=sorted(protocol.holders),
            questions=dict(protocol.parameters),
            rules={
                "sizes": self.how.by_size,
                "min_teachers": self.how.min_teachers,
                "teachers": _identify(teachers),
            },
        )
        kept = load(place, "predictions", self._mark)
        if kept is None:
            return None
        values, arrays = kept
        try:
            cost = values.pop("cost")
            return Predictions(
                outputs=arrays["outputs"],
                biases=arrays.get("biases"),
                **{name: values[name] for name in _KEPT} | {"names": tuple(values["names"])},
                **{name: cost[name] for name in _COST},
            )
        except (KeyError, TypeError) as error:
            raise FileError(
                f"{place} is not a record of predictions ({type(error).__name__}). Remove it to "
                "begin again.",
                code="checkpoint-broken",
            ) from None

    def keep(self, answers: Predictions) -> None:
        """Write predictions to the folder of checkpoints, if there is one."""
        if self._place is None:
            return
        arrays = {"outputs": answers.outputs}
        if answers.biases is not None:
            arrays["biases"] = answers.biases
        values = {name: getattr(answers, name) for name in _KEPT}
        cost = {name: getattr(answers, name) for name in _COST}
        save(self._place, "predictions", self._mark, {**values, "cost": cost}, arrays)

    def finish(
        self,
        answers: Predictions,
        names: Sequence[str],
        progress: Callable[[Progress | Epoch], None] | None,
    ) -> Distillation:
        """Weigh the teachers, and train the student on what they predict."""
        how, labels, inputs, codes = self.how, self.labels, self.inputs, self.codes
        if how.memory:
            answers = self.student.remember(answers, self.noise, how)
        # Equation 3: what each of them counts for each input.
        outputs, trials = answers.outputs[:, : len(inputs)], list[Trial]()
        if codes is None:
            counted = majority(outputs, labels) if how.robust else np.ones(len(outputs), np.bool_)
            shares = weigh(answers, outputs, str(how.weights), counted, how.weight_cap)
        else:
            chosen, trials = choose_combination(
                answers, outputs, answers.outputs[:, len(inputs) :], codes, labels,
                ways=ways_of(answers, how.weights), robust=how.robust, cap=how.weight_cap,
            )  # fmt: skip
            counted, shares = chosen.counted, chosen.shares
            how = replace(how, weights=cast("Any", chosen.weights), robust=chosen.robust)
        # Equation 4: the model moves towards all of them at once.
        how, student, history, students = self._teach(how, outputs, shares, progress)
        trials += students
        sets = {"transfer set": inputs}
        sets |= {f"test set {name}": x for name, (x, _) in self.tests.items()}
        status = _status(answers, counted, history.losses)
        return Distillation(
            model=student.model,
            space=labels,
            teachers=answers.names,
            losses=history.losses,
            by_teacher=history.by_teacher,
            weights=shares,
            biases=answers.biases,
            sizes=cast("Mapping[str, float | None]", answers.sizes),
            noise=answers.noise,
            before=self.before,
            after=student.score(self.tests),
            trials=tuple(trials),
            options={
                **how.values(*_REPORTED),
                "inputs": len(inputs),
                "noise": 0 if self.noise is None else len(self.noise),
                "seed": how.seed,
            },
            resumed=history.resumed,
            excluded=answers.excluded,
            status=f"{status} {compare(trials)}" if trials else status,
            predictor=student.predict,
        ).with_run(replace(answers, preflight=inspect_vectors(sets, names)))

    def _teach(
        self,
        how: Distill,
        outputs: npt.NDArray[np.float64],
        shares: npt.NDArray[np.float64],
        progress: Callable[[Progress | Epoch], None] | None,
    ) -> tuple[Distill, _Student, History, list[Trial]]:
        """Train a student for every loss to try; return the best on validation records."""
        results: list[tuple[Distill, _Student, History]] = []
        trials: list[Trial] = []
        for name, own in how.losses(self.labels).items():
            learner, folder = self.student.copied(), self.checkpoint
            if folder is not None and self.codes is not None:
                folder = Path(folder) / name.replace(", ", "-").replace(" ", "-")
            history = train(
                learner.model, self.inputs, outputs, shares, self.labels, own,
                checkpoint=folder, progress=progress,
            )  # fmt: skip
            results.append((own, learner, history))
            if self.shown is not None and self.codes is not None:
                trials.append(Trial.of("student", name, learner.predict(self.shown), self.codes))
        return *results[choose_student(trials) if trials else 0], trials


def _read_validation(
    validation: Test | None, inputs: Inputs, space: LabelSpace, how: Distill
) -> tuple[Inputs | None, npt.NDArray[np.int64] | None]:
    """Read validation records, which are of the same kind as the inputs."""
    if validation is None:
        return None, None
    if how.shared or how.private:
        raise InputError(
            "teachers would have to predict validation records too, which shared inputs and "
            "privacy_epsilon do not allow. Leave validation out, and give loss and weights.",
            code="option-validation",
        )
    shown, codes = check_tests({"validation": validation}, space)["validation"]
    if isinstance(shown, np.ndarray) != isinstance(inputs, np.ndarray) or (
        isinstance(shown, np.ndarray)
        and isinstance(inputs, np.ndarray)
        and shown.shape[1] != inputs.shape[1]
    ):
        raise MismatchError(
            "validation records are of another kind or dimension than the transfer set.",
            code="input-dimension",
        )
    if len(shown) < _FEWEST_VALIDATED:
        raise InputError(
            f"{len(shown)} validation records are too few to choose by. Give "
            f"{_FEWEST_VALIDATED} or more.",
            code="option-validation",
        )
    return shown, np.asarray(codes.values, dtype=np.int64)


def _joined(inputs: Inputs, shown: Inputs) -> Inputs:
    if isinstance(inputs, np.ndarray) and isinstance(shown, np.ndarray):
        return np.concatenate([inputs, shown])
    return [*cast("Sequence[str]", inputs), *cast("Sequence[str]", shown)]


class _Student:
    """A copy of a model: one more teacher as it was, then trained."""

    def __init__(self, global_model: nn.Module, inputs: Inputs, labels: LabelSpace) -> None:
        if not isinstance(global_model, nn.Module):
            raise InputError(
                f"the global model is a {type(global_model).__name__}; give a torch.nn.Module "
                "that returns logits for a batch.",
                code="model-kind",
            )
        self.model = copy.deepcopy(global_model).float()
        self.predict = partial(module_predict, self.model)
        self.labels = labels
        self.own = self.predict(inputs)
        if self.own.shape[1] != labels.size:
            raise MismatchError(
                f"the model has {self.own.shape[1]} outputs for {labels.size} labels.",
                code="model-labels",
            )

    def copied(self) -> _Student:
        """Return a student whose model is another copy, as it is now."""
        other = copy.copy(self)
        other.model = copy.deepcopy(self.model)
        other.predict = partial(module_predict, other.model)
        return other

    def score(self, tests: Tests) -> dict[str, Scores]:
        """Score the model as it is now on test sets."""
        return {
            name: scores(self.predict(inputs), codes.values, self.labels)
            for name, (inputs, codes) in tests.items()
        }

    def remember(self, answers: Predictions, noise: Inputs | None, how: Distill) -> Predictions:
        """Add the predictions of the model as it was to the answers."""
        sizes = [size for size in answers.sizes.values() if size is not None]
        # In place of a size nobody gave: it then weighs like the others.
        mean = round(sum(sizes) / len(sizes)) if sizes else None
        biases = answers.biases
        if noise is not None and biases is not None:
            bias = apply_temperature(self.predict(noise), how.temperature).mean(axis=0)
            biases = np.vstack([biases, bias])
        own = apply_temperature(self.own, how.temperature)
        return replace(
            answers,
            names=(*answers.names, MEMORY),
            outputs=np.concatenate([answers.outputs, own[None]]),
            biases=biases,
            sizes={**answers.sizes, MEMORY: mean if how.memory_size is None else how.memory_size},
        )


def _join_teachers(teachers: Any, inputs: Inputs | None, how: Distill) -> Any:
    """Return a federation of the teachers, or the one that arrived in their place."""
    if hasattr(teachers, "run") and hasattr(teachers, "names"):
        if how.timeout is not None:
            raise InputError(
                "the federation has its own timeout. Leave timeout out.",
                code="option-timeout",
            )
        if how.asker != COORDINATOR:
            raise InputError(
                "the federation has its own name as asker. Leave asker out.", code="asker-name"
            )
        return teachers
    if isinstance(teachers, Mapping):
        named = dict(cast("Mapping[str, Any]", teachers))
    elif isinstance(teachers, Sequence) and not isinstance(teachers, str):
        named = {str(k): teacher for k, teacher in enumerate(teachers)}
    else:
        raise InputError(
            "teachers are neither a mapping, a sequence nor a federation.", code="holder-names"
        )
    parties = {name: _make_party(teacher, inputs) for name, teacher in named.items()}
    return LocalFederation(parties, timeout=how.timeout, asker=how.asker)


def _make_party(teacher: Any, inputs: Inputs | None) -> Endpoint:
    if isinstance(teacher, Endpoint):
        return teacher
    if isinstance(teacher, nn.Module):
        teacher = partial(module_predict, teacher)
    # The caller owns it: everything is allowed, and nothing remembers the run.
    return Teacher(teacher, policy=Policy.open(), ledger=Ledger(), inputs=inputs)


def _identify(teacher: Any) -> Any:
    """Describe a teacher by parameters of modules and rules; functions cannot be distinguished."""
    if isinstance(teacher, nn.Module):
        return [repr(teacher), fingerprint(**parameters_of(teacher))]
    if isinstance(teacher, Teacher):
        predict, rules = teacher.rules()
        return [_identify(predict), rules]
    if isinstance(teacher, partial):
        return [_identify(part) for part in teacher.args]
    if isinstance(teacher, list | tuple):
        return [_identify(part) for part in cast("Sequence[Any]", teacher)]
    if isinstance(teacher, Mapping):
        named = cast("Mapping[str, Any]", teacher)
        return {str(name): _identify(named[name]) for name in named}
    return ""


def _draw_noise(noise_inputs: Any, inputs: Inputs, seed: int) -> Inputs:
    """Return the noise of a caller, or draw so much of it from what the transfer set shows."""
    if noise_inputs is not None and not isinstance(noise_inputs, bool | int | float | np.number):
        return check_inputs(noise_inputs)
    count = integer(_NOISE if noise_inputs is None else noise_inputs, "noise", "option-noise")
    if isinstance(inputs, np.ndarray):
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        return noise_vectors(count, inputs.shape[1], mean=mean, scale=scale, seed=seed)
    pairs = all(PAIR in text for text in inputs)
    return noise(Vocabulary.build(inputs), count, seed=seed, parts=2 if pairs else 1)


def check_tests(test: Mapping[str, Test] | Test | None, space: LabelSpace) -> Tests:
    """Read test sets by name, with codes of their labels."""
    named = {} if test is None else test if isinstance(test, Mapping) else {"test": test}
    tests: Tests = {}
    for name, pair in named.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(
                f"test set {name!r} is not a pair of inputs and labels.", code="test-labels"
            )
        inputs, codes = check_inputs(pair[0]), _read_codes(name, pair[1], space)
        if len(inputs) != len(codes):
            raise MismatchError(
                f"test set {name!r} has {len(inputs)} inputs and {len(codes)} labels.",
                code="test-labels",
            )
        tests[str(name)] = (inputs, codes)
    return tests


def _read_codes(name: str, labels: npt.ArrayLike | LabelCodes, space: LabelSpace) -> LabelCodes:
    if isinstance(labels, LabelCodes):
        return space.codes(labels)
    array = np.asarray(labels)
    if array.dtype.kind not in "Uiuf" or array.ndim != 1:
        raise InputError(
            f"the labels of test set {name!r} are neither names nor codes.", code="test-labels"
        )
    items: list[Any] = array.tolist()
    # A class that the test set lacks must not decide which of the two is meant.
    if array.dtype.kind != "U" and space.is_ambiguous(items):
        raise InputError(
            f"the labels of test set {name!r} are numbers that may be names of labels or their "
            "positions, which differ. Give names as texts, or labels.coded(numbers) for "
            "positions.",
            code="test-labels",
        )
    try:
        return space.codes(items)
    except MismatchError as error:
        raise MismatchError(f"test set {name!r}: {error.message}", code="test-labels") from None


def inspect_vectors(
    inputs: Mapping[str, Inputs],
    unseen: Sequence[str],
    columns: Mapping[str, Sequence[str]] | None = None,
) -> Preflight | None:
    """Inspect the vectors that the caller has, by name; texts have no columns to look at."""
    names = columns or {}
    vectors = {name: Measure(x, columns=names.get(name) or None, copy=False)
               for name, x in inputs.items() if isinstance(x, np.ndarray)}  # fmt: skip
    return Preflight.of(vectors, unseen) if vectors else None


def _status(
    answers: Predictions, counted: npt.NDArray[np.bool_], losses: npt.NDArray[np.float64]
) -> str:
    first, last = float(losses[0]), float(losses[-1])
    status = (
        f"{answers.status} {len(losses)} epochs: loss {first:.4g} in the first, {last:.4g} in the "
        "last."
    )
    if len(losses) > 1 and last >= first:
        status += " It did not decrease: lower the learning rate, or train longer."
    if not counted.all():
        out = ", ".join(np.array(answers.names)[~counted])
        status += f" Too far from the majority to count: {out}."
    return status
