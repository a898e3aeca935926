"""The short way to a distilled model: a model and teachers in, a trained copy out."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import numpy as np
import numpy.typing as npt

from ..distillation import LabelSpace
from ..distillation.asking import distill as _predictions
from ..distillation.confidence import Weights, check_cap, teacher_weights
from ..distillation.questions import Inputs, inputs_of, tempered
from ..distillation.result import Distillation, Predictions
from ..distillation.robust import majority
from ..distillation.scores import scores
from ..errors import ExtraError, InputError, MismatchError
from ..federation.local import Progress
from ..federation.protocol import COORDINATOR
from ..transport._check import flag, whole
from ._distilling import Test, asked, check_module, check_tests, identity_of, noise_of, parties

if TYPE_CHECKING:
    from torch import nn

    from ..distillation.trainer import Epoch, Loss

MEMORY = "global"
"""Name of the model as it was before, among the teachers."""


class Federation(Protocol):
    """Teachers by name, and a runtime that carries questions to them."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the teachers."""
        ...

    def run(self, protocol: Any, *, progress: Callable[[Progress], None] | None = None) -> Any:
        """Run a protocol."""
        ...


# Of the largest cost: below it, the entropic loss takes too many iterations.
_LEAST_EPSILON = 2e-5


def distill(
    global_model: nn.Module,
    teachers: Mapping[str, Any] | Sequence[Any] | Federation,
    transfer_set: npt.ArrayLike | Sequence[str],
    *,
    labels: LabelSpace,
    loss: Loss = "sinkhorn",
    weights: Weights = "confidence",
    weight_cap: float | None = 1.5,
    robust: bool = False,
    noise: npt.ArrayLike | Sequence[str] | int | None = None,
    memory: bool = True,
    memory_size: int | None = None,
    epochs: int = 10,
    rate: float = 1e-3,
    batch: int = 64,
    epsilon: float | None = None,
    temperature: float = 1.0,
    decimals: int | None = None,
    privacy_epsilon: float | None = None,
    privacy_delta: float = 1e-5,
    shared: bool = False,
    question_batch: int | None = None,
    min_teachers: int = 1,
    timeout: float | None = None,
    asker: str = COORDINATOR,
    checkpoint: str | Path | None = None,
    test: Mapping[str, Test] | Test | None = None,
    seed: int = 0,
    progress: Callable[[Progress | Epoch], None] | None = None,
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
    labels
        The labels and where they lie.
    loss, epsilon
        ``"sinkhorn"``, with its regularisation in the unit of the coordinates or ``None`` for
        exact transport; or ``"entropy"``, Kullback-Leibler.
    weights
        Of a teacher for an input: ``"confidence"``, the Euclidean distance of its prediction
        from its mean prediction over noise; ``"uniform-distance"``, that from the uniform
        distribution; ``"uniform"``; ``"size"`` of its training records.
    weight_cap
        How many times its even share, 1 / K, a teacher may count at most in the mean over the
        inputs: where one counts for more, all weights are mixed with even ones as far as it
        takes. ``None``, as in the paper, does not limit.
    robust
        Whether only the closest majority of the teachers counts (``distillation.majority``):
        fewer than half of them can then lie. The model as it was is one of them where there is
        ``memory``.
    noise
        For ``"confidence"``: inputs that mean nothing, or how many to make (2000). Records are
        drawn from a Gaussian with the transfer set's mean and deviation of every feature, texts
        of 200 words from the words of the transfer set, in pairs where its texts are.
    memory
        Learn without forgetting: the model's own predictions, as it was, are those of one more
        teacher, ``"global"``. Its bias is that over the same noise.
    memory_size
        Its size, for weights by size; by default the mean of the teachers'.
    epochs, rate, batch
        Of the training, as in ``distillation.train``.
    temperature, decimals, privacy_epsilon, privacy_delta, shared, min_teachers
        Of the questions, as in ``protocols.distill``.
    question_batch
        Inputs of one question; its ``batch``.
    timeout
        Seconds a teacher has for one answer; not for a federation, which has its own.
    asker
        Name under which teachers are asked; not for a federation either.
    checkpoint
        A folder that keeps the predictions and every epoch. Called again with the same
        arguments, no teacher is asked and no epoch is trained twice.
    test
        Inputs and their labels, alone or by name: the model is scored on them before and after.
        Labels are names, or ``labels.coded(rows)``. Numbers are taken for names where these are
        numbers, and refused where they may be names or rows and the two differ.
    seed
        Of noise, the order of inputs and dropout.
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
    Paper 004, equations 3 and 4. Predictions of level aggregate are no guarantee of privacy:
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
    module_predict, train, check_options = _tools()
    check_module(global_model)
    if not isinstance(labels, LabelSpace):
        raise InputError("labels are no LabelSpace(coordinates).", code="label-coordinates")
    check_options(loss, epsilon, epochs, rate, batch, seed)
    if epsilon is not None and epsilon < _LEAST_EPSILON * labels.diameter:
        raise InputError(
            f"epsilon is {epsilon:g}, below {_LEAST_EPSILON:g} of the largest cost, where Sinkhorn "
            "iterations do not end. Leave epsilon out: the loss is then exact transport.",
            code="option-epsilon",
        )
    if weights not in get_args(Weights):
        raise InputError(
            f"weights is {weights!r}; give one of {', '.join(get_args(Weights))}.",
            code="option-weights",
        )
    flag(robust, "robust", "option-robust")
    if weight_cap is not None:
        check_cap(weight_cap)
    inputs = inputs_of(transfer_set)
    tests = check_tests(test, labels)
    if memory_size is not None and not memory:
        raise InputError("memory_size is for memory=True. Leave it out.", code="option-size")
    if memory_size is not None:
        whole(memory_size, "memory_size", "option-size", most=1 << 62)
    model = copy.deepcopy(global_model).float()
    before = {name: module_predict(model, given) for name, (given, _) in tests.items()}
    own = module_predict(model, inputs)
    if own.shape[1] != labels.size:
        raise MismatchError(
            f"the model has {own.shape[1]} outputs for {labels.size} labels.", code="model-labels"
        )
    unmeant: Inputs | None = None
    if weights == "confidence":
        unmeant = noise_of(noise, inputs, seed)
    elif noise is not None:
        raise InputError(
            f"weights={weights!r} has no use for noise. Leave it out.", code="option-noise"
        )
    federation = parties(teachers, inputs if shared else None, timeout, asker, module_predict)
    if flag(memory, "memory", "option-memory") and MEMORY in federation.names:
        raise InputError(
            f"a teacher is called {MEMORY!r}, as the model itself is. Give it another name, or "
            "memory=False.",
            code="holder-names",
        )
    protocol = _predictions(
        federation.names,
        inputs,
        labels=labels,
        noise=unmeant,
        batch=question_batch,
        temperature=temperature,
        decimals=decimals,
        privacy_epsilon=privacy_epsilon,
        privacy_delta=privacy_delta,
        shared=shared,
        sizes=weights == "size",
        min_teachers=min_teachers,
    )
    rules = {
        "sizes": weights == "size",
        "min_teachers": min_teachers,
        "teachers": identity_of(teachers),
    }
    found = asked(federation, protocol, inputs, unmeant, labels, checkpoint, progress, rules)
    if memory:
        bias = None
        if unmeant is not None:
            bias = tempered(module_predict(model, unmeant), temperature).mean(axis=0)
        found = _with_memory(found, tempered(own, temperature), bias, memory_size)
    # All sizes are known where they count: whoever does not tell is excluded.
    counts = [cast("float", found.sizes[name]) for name in found.names]
    kept = np.ones(len(found.names), dtype=np.bool_)
    if robust:
        kept = majority(found.outputs, labels)
    shares = np.zeros(found.outputs.shape[:2])
    shares[kept] = teacher_weights(
        found.outputs[kept],
        weights=weights,
        biases=None if found.biases is None else found.biases[kept],
        sizes=np.array(counts)[kept] if weights == "size" else None,
        cap=weight_cap,
    )
    history = train(
        model,
        inputs,
        found.outputs,
        shares,
        labels,
        loss=loss,
        epsilon=epsilon,
        epochs=epochs,
        rate=rate,
        batch=batch,
        seed=seed,
        checkpoint=checkpoint,
        progress=progress,
    )
    predictor = partial(module_predict, model)
    return Distillation(
        model=model,
        space=labels,
        teachers=found.names,
        losses=history.losses,
        by_teacher=history.by_teacher,
        weights=shares,
        biases=found.biases,
        sizes=cast("Mapping[str, float | None]", found.sizes),
        noise=found.noise,
        before={
            name: scores(before[name], codes.values, labels) for name, (_, codes) in tests.items()
        },
        after={
            name: scores(predictor(x), codes.values, labels) for name, (x, codes) in tests.items()
        },
        options={
            "loss": loss,
            "weights": weights,
            "weight_cap": weight_cap,
            "robust": robust,
            "epsilon": epsilon,
            "memory": memory,
            "epochs": epochs,
            "rate": rate,
            "batch": batch,
            "temperature": temperature,
            "decimals": decimals,
            "privacy_epsilon": privacy_epsilon,
            "privacy_delta": privacy_delta,
            "min_teachers": min_teachers,
            "shared": shared,
            "inputs": len(inputs),
            "noise": 0 if unmeant is None else len(unmeant),
            "seed": seed,
        },
        resumed=history.resumed,
        excluded=found.excluded,
        status=_status(found.status, found.names, kept, history.losses),
        predictor=predictor,
        rounds=found.rounds,
        bytes_sent=found.bytes_sent,
        bytes_received=found.bytes_received,
        seconds=found.seconds,
        privacy_mu=found.privacy_mu,
        disclosure=found.disclosure,
        transcript=found.transcript,
    )


def _tools() -> tuple[Any, Any, Any]:
    # torch is slow to import, and not needed by anything else here.
    try:
        import torch  # noqa: F401
    except ImportError:
        raise ExtraError(
            "distillation needs torch. Run: pip install 'silot[torch]'", code="extra-torch"
        ) from None
    from ..distillation.fitting import module_predict
    from ..distillation.trainer import check_options, train

    return module_predict, train, check_options


def _with_memory(
    found: Predictions, own: npt.NDArray[np.float64], bias: Any, size: int | None
) -> Predictions:
    """The model as it was, as one more teacher."""
    told = [known for known in found.sizes.values() if known is not None]
    # In place of a size nobody gave: it then weighs like the others.
    mean = round(sum(told) / len(told)) if told else None
    return replace(
        found,
        names=(*found.names, MEMORY),
        outputs=np.concatenate([found.outputs, own[None]]),
        biases=None if found.biases is None else np.vstack([found.biases, bias]),
        sizes={**found.sizes, MEMORY: mean if size is None else size},
    )


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
