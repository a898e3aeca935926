"""Distill one model from teachers: a model and teachers in, a trained copy out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import integer

from ..data.checkpoint import fingerprint, load, make_folder, save
from ..data.measure import Measure
from ..data.preflight import Preflight
from ..distillation import Asking, LabelCodes, LabelSpace, Scores, Training, Weighing
from ..distillation.protocol import distill as ask_teachers
from ..distillation.questions import Inputs, apply_temperature, check_inputs, hash_inputs
from ..distillation.result import Distillation, Predictions, Trial
from ..distillation.scores import scores
from ..distillation.teacher import Teacher
from ..distillation.text import PAIR, Vocabulary, noise, noise_vectors
from ..distillation.weights import (
    VALIDATED,
    choose_combination,
    choose_student,
    compare,
    majority,
    ways_of,
    weigh,
)
from ..errors import FileError, InputError, MismatchError
from ..federation.local import Endpoint, LocalFederation, Progress
from ..federation.policy import Policy
from ..federation.protocol import COORDINATOR, Protocol
from ..federation.run import Federation
from ..options import anything, none_or, number, option, taking
from ..privacy.ledger import Ledger

if TYPE_CHECKING:
    from torch import nn

    from ..distillation.trainer import Epoch, History
    from ..keywords import DistillKeywords

Test = tuple[Any, npt.ArrayLike | LabelCodes]
Tests = dict[str, tuple[Inputs, LabelCodes]]

MEMORY = "global"
"""Name of the model as it was before, among the teachers."""

FILE = "predictions.npz"
"""Name of the predictions in the folder of checkpoints."""

# Of the largest cost: below it, the entropic loss takes too many iterations.
_LEAST_EPSILON = 2e-5
# Of the largest cost: the epsilon that validation records may choose.
_SOFT = 0.3
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


class Distill(Asking, Weighing, Training):
    """Options of ``silot.distill``: of the questions, of the weights and of the training.

    Examples
    --------
    >>> Distill(loss="entropy", rate=0.02).chosen()
    {'loss': 'entropy', 'rate': 0.02}
    """

    name = "distill"

    timeout: float | None = option(
        "Seconds in which a teacher must answer. Leave it out with a federation, "
        "which has its own.",
        none_or(number(above=0)),
        default=None,
    )
    asker: str = option(
        "Name under which teachers receive questions. Leave it out with a federation.",
        anything("str"),
        default=COORDINATOR,
    )

    def settled(self, *, validated: bool) -> Distill:
        """Return the same, with what nothing chooses."""
        if validated:
            return self
        if self.weights == VALIDATED:
            raise InputError(
                "weights='validation' needs labelled records. Give validation=(inputs, labels).",
                code="validation-absent",
            )
        open_ones = {"loss": "sinkhorn", "weights": "confidence", "robust": False}
        return replace(self, **{k: v for k, v in open_ones.items() if getattr(self, k) is None})

    @property
    def needs_noise(self) -> bool:
        """Whether biases may be needed."""
        return self.weights in (None, "confidence")

    def losses(self, labels: LabelSpace) -> dict[str, Distill]:
        """List what may be trained: what is fixed, or every loss, by words."""
        if self.loss is not None:
            return {self.loss: self}
        if self.epsilon is not None:
            return {"sinkhorn": replace(self, loss="sinkhorn")}
        soft = _SOFT * labels.diameter
        return {
            "entropy": replace(self, loss="entropy"),
            "sinkhorn": replace(self, loss="sinkhorn"),
            f"sinkhorn, epsilon {soft:g}": replace(self, loss="sinkhorn", epsilon=soft),
        }

    def check_labels(self, labels: LabelSpace) -> None:
        """Raise where labels are not a label space, or their costs too large for ``epsilon``."""
        if not isinstance(labels, LabelSpace):
            raise InputError("labels are no LabelSpace(coordinates).", code="label-coordinates")
        if self.epsilon is not None and self.epsilon < _LEAST_EPSILON * labels.diameter:
            raise InputError(
                f"epsilon is {self.epsilon:g}, below {_LEAST_EPSILON:g} of the largest cost, "
                "where Sinkhorn iterations do not end. Leave epsilon out: the loss is then exact "
                "transport.",
                code="option-epsilon",
            )


@taking(Distill)
def distill(
    global_model: nn.Module,
    teachers: Mapping[str, Any] | Sequence[Any] | Federation,
    transfer_set: npt.ArrayLike | Sequence[str],
    how: Distill | None = None,
    *,
    labels: LabelSpace,
    validation: Test | None = None,
    test: Mapping[str, Test] | Test | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress | Epoch], None] | None = None,
    **options: Unpack[DistillKeywords],
) -> Distillation:
    r"""Train a copy of a model on what teachers predict for inputs without labels.

    .. math:: \min_\theta \frac1n \sum_i \sum_k
              \frac{W_k(x_i)}{\sum_j W_j(x_i)}\, T_\varepsilon(h_\theta(x_i), h_k(x_i))

    Teachers predict once, before the first epoch; they may be of any architecture. Neither
    their records nor their parameters are sent, their predictions are.

    Parameters
    ----------
    global_model
        A ``torch.nn.Module`` that returns logits (B, L), with ``encode(inputs)`` if it takes
        texts. It stays as it was; a copy is trained.
    teachers
        By name (a sequence is named ``"0"``, ``"1"`` ...): ``Teacher`` objects, whatever has
        their ``reply``, and for models the caller owns modules or functions from inputs to
        probabilities. Or a federation of teachers: an object with ``names`` and ``run``.
    transfer_set
        Inputs without labels: records (n, d) or n texts. Teachers see them.
    how
        The options below as one object, such as ``silot.api.Distill(loss="entropy")``, in place of
        them.
    labels
        The labels and where they lie.
    validation
        Inputs and their labels, 100 or more: they choose loss, weights, epsilon and whether the
        majority alone counts, where these are not fixed, by Brier scores. Teachers predict them
        among the inputs; labels stay here. The result says whether the student is better than
        the best teacher and than their mixture. Not with ``shared`` or ``privacy_epsilon``.
    test
        Inputs and their labels, alone or by name: the model is scored on them before and after.
        Labels are names, or ``labels.coded(rows)``. Numbers are taken for names where these are
        numbers, and refused where they may be names or rows and the two differ.
    checkpoint
        A folder that keeps the predictions and every epoch. A call with the same arguments
        requests no prediction and trains no epoch twice.
    progress
        Called with a ``Progress`` after every exchange and an ``Epoch`` after every epoch.

    Returns
    -------
    Distillation
        With the trained ``model``, its scores, losses, weights, and who was excluded and why.

    Raises
    ------
    InputError, MismatchError
        Options or inputs that are none or do not fit; before any question is sent. A checkpoint
        of something else (``"checkpoint-mismatch"``).
    FileError
        A checkpoint that is damaged, or cannot be written.
    HolderError
        Fewer teachers than ``min_teachers`` gave probabilities (``"teachers-few"``).
    SolverError
        Training diverged (``"training-diverged"``).
    ExtraError
        ``silot[torch]`` is not installed.

    Notes
    -----
    Paper 004, equations 3 and 4. Predictions of level record are no guarantee of privacy:
    whether a record was among a teacher's may be inferred from them. With ``privacy_epsilon``
    noise bounds that.

    Examples
    --------
    >>> import torch
    >>> _ = torch.manual_seed(0)
    >>> x = np.random.default_rng(0).normal(size=(200, 1))
    >>> def north(inputs):
    ...     return np.eye(3)[np.digitize(inputs[:, 0], [-0.5, 0.5])]
    >>> space = LabelSpace([-1.0, 0.0, 1.0], names=["low", "middle", "high"])
    >>> model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    >>> result = distill(
    ...     model, {"north": north}, x, labels=space, memory=False, epochs=20, rate=0.02
    ... )
    >>> result.predict([[-2.0], [2.0]]).tolist()
    ['low', 'high']
    """
    # Slow to import, and says which extra is missing.
    from ..distillation import train  # noqa: F401

    how = Distill.of(how, options).settled(validated=validation is not None)
    how.check_labels(labels)
    inputs, tests = check_inputs(transfer_set), check_tests(test, labels)
    shown, codes = _read_validation(validation, inputs, labels, how)
    # Validation records are predicted as inputs are, and are not learnt from.
    every = inputs if shown is None else _joined(inputs, shown)
    student = _Student(global_model, every, labels)
    before = student.score(tests)
    noise = _draw_noise(how.noise, inputs, how.seed) if how.needs_noise else None
    federation = _join_teachers(teachers, inputs if how.shared else None, how)
    if how.memory and MEMORY in federation.names:
        raise InputError(
            f"a teacher is called {MEMORY!r}, as the model itself is. Give it another name, or "
            "memory=False.",
            code="holder-names",
        )

    # All teachers predict the transfer set and noise, and so does the model as it is.
    protocol = ask_teachers(
        federation.names, every, how, labels=labels, noise=noise, sizes=how.by_size
    )
    place, mark, answers = None, "", None
    if checkpoint is not None:
        place = make_folder(checkpoint) / FILE
        mark = _mark_predictions(protocol, every, noise, labels, how, teachers)
        answers = _read_predictions(place, mark)
    if answers is None:
        answers = cast("Predictions", federation.run(protocol, progress=progress))
        if place is not None:
            _keep_predictions(place, mark, answers)
    if how.memory:
        answers = student.remember(answers, noise, how)
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
    how, student, history, students = _teach(
        student, inputs, outputs, shares, labels, how, shown, codes,
        checkpoint=checkpoint, progress=progress,
    )  # fmt: skip
    trials += students

    sets = {"transfer set": inputs, **{f"test set {name}": x for name, (x, _) in tests.items()}}
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
        before=before,
        after=student.score(tests),
        trials=tuple(trials),
        options={
            **how.values(*_REPORTED),
            "inputs": len(inputs),
            "noise": 0 if noise is None else len(noise),
            "seed": how.seed,
        },
        resumed=history.resumed,
        excluded=answers.excluded,
        status=f"{status} {compare(trials)}" if trials else status,
        predictor=student.predict,
    ).with_run(replace(answers, preflight=inspect_vectors(sets, federation.names)))


def _teach(
    student: _Student,
    inputs: Inputs,
    outputs: npt.NDArray[np.float64],
    shares: npt.NDArray[np.float64],
    labels: LabelSpace,
    how: Distill,
    shown: Inputs | None,
    codes: npt.NDArray[np.int64] | None,
    *,
    checkpoint: str | Path | None,
    progress: Callable[[Progress | Epoch], None] | None,
) -> tuple[Distill, _Student, History, list[Trial]]:
    """Train a student for every loss to try; return the best on validation records."""
    from ..distillation import train

    results: list[tuple[Distill, _Student, History]] = []
    trials: list[Trial] = []
    for name, own in how.losses(labels).items():
        learner, folder = student.copied(), checkpoint
        if checkpoint is not None and codes is not None:
            folder = Path(checkpoint) / name.replace(", ", "-").replace(" ", "-")
        history = train(
            learner.model, inputs, outputs, shares, labels, own,
            checkpoint=folder, progress=progress,
        )  # fmt: skip
        results.append((own, learner, history))
        if shown is not None and codes is not None:
            trials.append(Trial.of("student", name, learner.predict(shown), codes))
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
        # Slow to import, and not needed by anything else here.
        from torch import nn

        from ..distillation import module_predict

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
        from ..distillation import module_predict

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
    from torch import nn

    from ..distillation import module_predict

    if isinstance(teacher, nn.Module):
        teacher = partial(module_predict, teacher)
    # The caller owns it: everything is allowed, and nothing remembers the run.
    return Teacher(teacher, policy=Policy.open(), ledger=Ledger(), inputs=inputs)


def _identify(teacher: Any) -> Any:
    """Describe a teacher by parameters of modules and rules; functions cannot be distinguished."""
    from torch import nn

    from ..distillation import parameters_of

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


def _mark_predictions(
    protocol: Protocol[Predictions],
    inputs: Inputs,
    noise_inputs: Inputs | None,
    space: LabelSpace,
    how: Distill,
    teachers: Any,
) -> str:
    """Compute the fingerprint of all that predictions depend on."""
    return fingerprint(
        inputs=hash_inputs(inputs),
        noise="" if noise_inputs is None else hash_inputs(noise_inputs),
        labels=list(space.names),
        teachers=sorted(protocol.holders),
        questions=dict(protocol.parameters),
        rules={
            "sizes": how.by_size,
            "min_teachers": how.min_teachers,
            "teachers": _identify(teachers),
        },
    )


def _keep_predictions(place: Path, mark: str, answers: Predictions) -> None:
    arrays = {"outputs": answers.outputs}
    if answers.biases is not None:
        arrays["biases"] = answers.biases
    values = {name: getattr(answers, name) for name in _KEPT}
    cost = {name: getattr(answers, name) for name in _COST}
    save(place, "predictions", mark, {**values, "cost": cost}, arrays)


def _read_predictions(place: Path, mark: str) -> Predictions | None:
    """Read the predictions of an earlier run from the folder of checkpoints, if it has any."""
    kept = load(place, "predictions", mark)
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
            f"{place} is not a record of predictions ({type(error).__name__}). Remove it to begin "
            "again.",
            code="checkpoint-broken",
        ) from None


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
