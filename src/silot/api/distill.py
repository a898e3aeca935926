"""The short way to a distilled model: a model and teachers in, a trained copy out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from ..distillation import Asking, LabelCodes, LabelSpace, Scores, Training, Weighing
from ..distillation.protocol import distill as questions
from ..distillation.questions import Inputs, apply_temperature, check_inputs
from ..distillation.result import Distillation, Predictions
from ..distillation.scores import scores
from ..distillation.weights import majority, teacher_weights
from ..errors import InputError, MismatchError
from ..federation.local import Progress
from ..federation.protocol import COORDINATOR
from ..federation.run import Federation
from ..options import anything, none_or, number, option, taking
from ._distilling import (
    Test,
    asked,
    check_module,
    check_tests,
    identity_of,
    looked_at,
    noise_of,
    parties,
)

if TYPE_CHECKING:
    from torch import nn

    from ..distillation.trainer import Epoch

MEMORY = "global"
"""Name of the model as it was before, among the teachers."""

# Of the largest cost: below it, the entropic loss takes too many iterations.
_LEAST_EPSILON = 2e-5
# Options that results tell, in this order.
_TOLD = (
    "loss", "weights", "weight_cap", "robust", "epsilon", "memory", "epochs", "rate", "batch",
    "temperature", "decimals", "privacy_epsilon", "privacy_delta", "min_teachers", "shared",
)  # fmt: skip


class Distill(Asking, Weighing, Training):
    """Options of ``silot.distill``: of the questions, of the weights and of the training.

    Examples
    --------
    >>> Distill(loss="entropy", rate=0.02).chosen()
    {'loss': 'entropy', 'rate': 0.02}
    """

    name = "distill"

    timeout: float | None = option(
        "Seconds a teacher has for one answer; not for a federation, which has its own.",
        none_or(number(above=0)),
        default=None,
    )
    asker: str = option(
        "Name under which teachers are asked; not for a federation either.",
        anything("str"),
        default=COORDINATOR,
    )

    def check_labels(self, labels: LabelSpace) -> None:
        """Raise for what is no label space, or has costs too large for the regularisation."""
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
    test: Mapping[str, Test] | Test | None = None,
    checkpoint: str | Path | None = None,
    progress: Callable[[Progress | Epoch], None] | None = None,
    **options: Any,
) -> Distillation:
    r"""Train a copy of a model on what teachers predict for inputs without labels.

    .. math:: \min_\theta \frac1n \sum_i \sum_k
              \frac{W_k(x_i)}{\sum_j W_j(x_i)}\, T_\varepsilon(h_\theta(x_i), h_k(x_i))

    Teachers are asked once, before the first epoch; they may be of any architecture. Neither
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
        The options below as one object, such as ``silot.Distill(loss="entropy")``, in place of
        them.
    labels
        The labels and where they lie.
    test
        Inputs and their labels, alone or by name: the model is scored on them before and after.
        Labels are names, or ``labels.coded(rows)``. Numbers are taken for names where these are
        numbers, and refused where they may be names or rows and the two differ.
    checkpoint
        A folder that keeps the predictions and every epoch. Called again with the same
        arguments, no teacher is asked and no epoch is trained twice.
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
    >>> found = distill(
    ...     model, {"north": north}, x, labels=space, memory=False, epochs=20, rate=0.02
    ... )
    >>> found.predict([[-2.0], [2.0]]).tolist()
    ['low', 'high']
    """
    # Slow to import.
    from ..distillation import train

    how = Distill.of(how, options)
    how.check_labels(labels)
    inputs, tests = check_inputs(transfer_set), check_tests(test, labels)
    student = _Student(global_model, inputs, labels)
    before = student.scores(tests)
    noise = noise_of(how.noise, inputs, how.seed) if how.weights == "confidence" else None
    shared = inputs if how.shared else None
    federation = parties(teachers, shared, how.timeout, how.asker)
    if how.memory and MEMORY in federation.names:
        raise InputError(
            f"a teacher is called {MEMORY!r}, as the model itself is. Give it another name, or "
            "memory=False.",
            code="holder-names",
        )

    # All teachers predict the transfer set and noise, and so does the model as it is.
    protocol = questions(
        federation.names, inputs, how, labels=labels, noise=noise, sizes=how.by_size
    )
    rules = {
        "sizes": how.by_size,
        "min_teachers": how.min_teachers,
        "teachers": identity_of(teachers),
    }
    answers = asked(federation, protocol, inputs, noise, labels, checkpoint, progress, rules)
    if how.memory:
        answers = student.remembered(answers, noise, how)
    # Equation 3: what each of them counts for each input.
    kept = _kept(answers, labels, how)
    weights = _weights(answers, kept, how)
    # Equation 4: the model moves towards all of them at once.
    history = train(
        student.model, inputs, answers.outputs, weights, labels, how,
        checkpoint=checkpoint, progress=progress,
    )  # fmt: skip

    used = how.values()
    return Distillation(
        model=student.model,
        space=labels,
        teachers=answers.names,
        losses=history.losses,
        by_teacher=history.by_teacher,
        weights=weights,
        biases=answers.biases,
        sizes=cast("Mapping[str, float | None]", answers.sizes),
        noise=answers.noise,
        before=before,
        after=student.scores(tests),
        options={
            **{name: used[name] for name in _TOLD},
            "inputs": len(inputs),
            "noise": 0 if noise is None else len(noise),
            "seed": how.seed,
        },
        resumed=history.resumed,
        excluded=answers.excluded,
        status=_status(answers.status, answers.names, kept, history.losses),
        predictor=student.predict,
    ).with_run(replace(answers, preflight=looked_at(inputs, tests, federation.names)))


class _Student:
    """A copy of a model: one more teacher as it was, then trained."""

    def __init__(self, global_model: nn.Module, inputs: Inputs, labels: LabelSpace) -> None:
        # Slow to import, and not needed by anything else here.
        from ..distillation import module_predict

        check_module(global_model)
        self.model = copy.deepcopy(global_model).float()
        self.predict = partial(module_predict, self.model)
        self.labels = labels
        self.own = self.predict(inputs)
        if self.own.shape[1] != labels.size:
            raise MismatchError(
                f"the model has {self.own.shape[1]} outputs for {labels.size} labels.",
                code="model-labels",
            )

    def scores(self, tests: Mapping[str, tuple[Inputs, LabelCodes]]) -> dict[str, Scores]:
        """How good the model is now."""
        return {
            name: scores(self.predict(inputs), codes.values, self.labels)
            for name, (inputs, codes) in tests.items()
        }

    def remembered(self, answers: Predictions, noise: Inputs | None, how: Distill) -> Predictions:
        """Answers with those of the model as it was."""
        sizes = [size for size in answers.sizes.values() if size is not None]
        # In place of a size nobody gave: it then weighs like the others.
        mean = round(sum(sizes) / len(sizes)) if sizes else None
        biases = answers.biases
        if noise is not None and biases is not None:
            bias = apply_temperature(self.predict(noise), how.temperature).mean(axis=0)
            biases = np.vstack([biases, bias])
        return replace(
            answers,
            names=(*answers.names, MEMORY),
            outputs=np.concatenate(
                [answers.outputs, apply_temperature(self.own, how.temperature)[None]]
            ),
            biases=biases,
            sizes={**answers.sizes, MEMORY: mean if how.memory_size is None else how.memory_size},
        )


def _kept(answers: Predictions, labels: LabelSpace, how: Weighing) -> npt.NDArray[np.bool_]:
    """Which teachers count at all."""
    if how.robust:
        return majority(answers.outputs, labels)
    return np.ones(len(answers.names), dtype=np.bool_)


def _weights(
    answers: Predictions, kept: npt.NDArray[np.bool_], how: Weighing
) -> npt.NDArray[np.float64]:
    """What every teacher counts for every input, (K, n); nothing where it is not ``kept``."""
    # All sizes are known where they count: whoever does not tell is excluded.
    sizes = [cast("float", answers.sizes[name]) for name in answers.names]
    weights = np.zeros(answers.outputs.shape[:2])
    weights[kept] = teacher_weights(
        answers.outputs[kept],
        weights=how.weights,
        biases=None if answers.biases is None else answers.biases[kept],
        sizes=np.array(sizes)[kept] if how.by_size else None,
        cap=how.weight_cap,
    )
    return weights


def _status(
    asked: str,
    names: Sequence[str],
    kept: npt.NDArray[np.bool_],
    losses: npt.NDArray[np.float64],
) -> str:
    first, last = float(losses[0]), float(losses[-1])
    told = f"{asked} {len(losses)} epochs: loss {first:.4g} in the first, {last:.4g} in the last."
    if len(losses) > 1 and last >= first:
        told += " It did not fall: lower the rate, or train longer."
    if not kept.all():
        out = ", ".join(name for name, inside in zip(names, kept, strict=True) if not inside)
        told += f" Too far from the majority to count: {out}."
    return told
