"""Training a model on teachers' predictions (extra ``silot[torch]``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..errors import FileError, InputError, MismatchError, SolverError
from ..transport._check import real, whole
from . import checkpoint as files
from ._batches import Inputs, batch_of, batches_of, count_of, device_of, seeded
from .labels import LabelSpace, improper
from .losses import entropy_loss, sinkhorn_loss
from .parameters import load_parameters, parameters_of

Array = npt.NDArray[np.float64]

Loss = Literal["sinkhorn", "entropy"]

# Above it a step overflows inside torch.
_LARGEST_RATE = 1e6

FILE = "training.npz"
"""Name of the checkpoint in its folder."""


@dataclass(frozen=True)
class Epoch:
    """How far training has come.

    Attributes
    ----------
    epoch, epochs
        Epochs done, and all there will be.
    loss
        Mean weighted loss of the epoch's inputs, before the step each of them took part in.
    seconds
        What the epoch took.
    """

    epoch: int
    epochs: int
    loss: float
    seconds: float


@dataclass(frozen=True)
class History:
    """What training was like.

    Attributes
    ----------
    losses
        Mean weighted loss of every epoch, shape (epochs,).
    by_teacher
        Mean loss against each teacher without weights, shape (epochs, K).
    resumed
        Epochs that a checkpoint already had.
    """

    losses: Array
    by_teacher: Array
    resumed: int = 0


def train(
    module: nn.Module,
    inputs: Inputs,
    outputs: npt.ArrayLike,
    weights: npt.ArrayLike,
    space: LabelSpace,
    *,
    loss: Loss = "sinkhorn",
    epsilon: float | None = None,
    epochs: int = 10,
    rate: float = 1e-3,
    batch: int = 64,
    seed: int = 0,
    checkpoint: str | Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
) -> History:
    r"""Fit a model to the predictions of several teachers, in place.

    .. math:: \min_\theta \frac1n \sum_i \sum_k w_k(x_i)\, T(h_\theta(x_i), h_k(x_i))

    by AdamW in float32. Epochs differ in the order of inputs and in dropout; both follow from
    ``seed`` and the number of the epoch, and nothing else does.

    Parameters
    ----------
    module
        As for ``module_predict``. Its floating-point parameters become float32; those that need
        no gradient stay as they are.
    inputs
        The transfer set: an array (n, d), or n texts.
    outputs
        The teachers' predictions, shape (K, n, L).
    weights
        Weight of every teacher for every input, shape (K, n), not negative; they sum to 1 over
        the teachers.
    space
        The labels.
    loss
        ``"sinkhorn"`` (transport of labels) or ``"entropy"`` (Kullback-Leibler).
    epsilon
        Of the Sinkhorn loss, in the unit of the coordinates; ``None`` for exact transport.
    epochs, rate, batch
        Passes over all inputs, learning rate of AdamW, inputs a step.
    seed
        Of the order of inputs and of dropout.
    checkpoint
        A folder. After every epoch the model, the moments of the optimiser and the losses are
        written to it; called again with the same arguments, training goes on after the last
        epoch there and ends with the same numbers as if it had never stopped. ``epochs`` may be
        raised.
    progress
        Called after every epoch that was trained now.

    Returns
    -------
    History
        The losses of all epochs, those of the checkpoint included.

    Raises
    ------
    InputError, MismatchError
        Options out of range; shapes that do not fit; predictions or weights that are none; a
        checkpoint of other options, data or another model (``"checkpoint-mismatch"``).
    FileError
        A checkpoint that is damaged, or cannot be written.
    SolverError
        The loss or a parameter is not finite (``"training-diverged"``). The checkpoint is that
        of the epoch before.

    Notes
    -----
    Paper 004, equation 4. The loss of an input is linear in the weights; gradients of a step are
    those of the mean over its inputs.

    Examples
    --------
    >>> rng, _ = np.random.default_rng(0), torch.manual_seed(0)
    >>> x = rng.normal(size=(64, 2))
    >>> taught = np.stack([np.eye(3)[np.digitize(x[:, 0], [-0.5, 0.5])]])
    >>> space = LabelSpace([-1.0, 0.0, 1.0])
    >>> found = train(nn.Linear(2, 3), x, taught, np.ones((1, 64)), space, epochs=40, rate=0.1)
    >>> bool(found.losses[-1] < 0.5 * found.losses[0])
    True
    """
    taught, shares = _checked(outputs, weights, count_of(inputs), space)
    check_options(loss, epsilon, epochs, rate, batch, seed)
    module.float()
    learnt = [each for each in module.parameters() if each.requires_grad]
    if not learnt:
        raise InputError("the model has no parameter to train.", code="model-parameters")
    optimiser = torch.optim.AdamW(learnt, lr=rate)
    run = _Run(module, optimiser, inputs, taught, shares, space, loss, epsilon, batch, seed)
    place, mark = None, ""
    losses, by_teacher = np.zeros(0), np.zeros((0, len(taught)))
    if checkpoint is not None:
        place = files.folder(checkpoint) / FILE
        mark = _mark(module, inputs, taught, shares, space, loss, epsilon, rate, batch, seed)
        found = _resume(place, mark, module, optimiser, epochs)
        if found is not None:
            losses, by_teacher = found
    resumed = len(losses)
    for epoch in range(resumed, epochs):
        began = time.perf_counter()
        value, each = run.epoch(epoch)
        losses = np.append(losses, value)
        by_teacher = np.vstack([by_teacher, each])
        if place is not None:
            _save(place, mark, module, optimiser, losses, by_teacher)
        if progress is not None:
            progress(Epoch(epoch + 1, epochs, value, time.perf_counter() - began))
    module.eval()
    return History(losses, by_teacher, resumed)


@dataclass
class _Run:
    """Everything an epoch needs."""

    module: nn.Module
    optimiser: torch.optim.Optimizer
    inputs: Inputs
    outputs: Array
    weights: Array
    space: LabelSpace
    loss: Loss
    epsilon: float | None
    batch: int
    seed: int

    def epoch(self, number: int) -> tuple[float, Array]:
        """One pass: mean weighted loss, and mean loss by teacher."""
        device = device_of(self.module)
        draw = np.random.default_rng([self.seed, number])
        order = draw.permutation(len(self.inputs))
        with seeded(int(draw.integers(2**62)), device):
            self.module.train()
            for part in self.module.modules():
                held = list(part.parameters())
                # What is frozen keeps its statistics too, and drops nothing.
                if held and not any(each.requires_grad for each in held):
                    part.eval()
            total, each = 0.0, np.zeros(len(self.outputs))
            for rows in batches_of(order, self.batch):
                values = self._step(rows, number, device)
                total += float((values * self.weights[:, rows].T).sum())
                each += values.sum(axis=0)
        if not all(bool(torch.isfinite(p).all()) for p in self.module.parameters()):
            raise _diverged(number)
        return total / len(order), each / len(order)

    def _step(self, rows: npt.NDArray[np.intp], number: int, device: torch.device) -> Array:
        logits = self.module(batch_of(self.module, self.inputs, rows))
        wanted = (len(rows), self.space.size)
        if not isinstance(logits, Tensor) or tuple(logits.shape) != wanted:
            raise MismatchError(
                f"the model answers {len(rows)} inputs with something else than logits of shape "
                f"{wanted}, one for each label.",
                code="logits-shape",
            )
        logits = logits.float()
        if not bool(torch.isfinite(logits).all()):
            raise _diverged(number)
        told = torch.softmax(logits, dim=1)[:, None]
        taught = torch.from_numpy(self.outputs[:, rows].swapaxes(0, 1).astype(np.float32))
        shares = torch.from_numpy(self.weights[:, rows].T.astype(np.float32)).to(device)
        values = self._losses(told, taught.to(device))
        self.optimiser.zero_grad(set_to_none=True)
        value = (shares * values).sum(dim=1).mean()
        if not bool(torch.isfinite(value)):
            raise _diverged(number)
        value.backward()
        self.optimiser.step()
        return values.detach().double().cpu().numpy()

    def _losses(self, told: Tensor, taught: Tensor) -> Tensor:
        """Loss of every input against every teacher, (B, K)."""
        if self.loss == "entropy":
            return entropy_loss(told, taught, reduction="none")
        return sinkhorn_loss(told, taught, self.space, epsilon=self.epsilon, reduction="none")


def _checked(
    outputs: npt.ArrayLike, weights: npt.ArrayLike, size: int, space: LabelSpace
) -> tuple[Array, Array]:
    taught = np.asarray(outputs, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    if taught.ndim != 3 or taught.shape[1:] != (size, space.size) or 0 in taught.shape:
        raise MismatchError(
            f"predictions of shape {taught.shape} arrived; (teachers, {size}, {space.size}) is "
            "needed.",
            code="prediction-shape",
        )
    if shares.shape != taught.shape[:2]:
        raise MismatchError(
            f"weights of shape {shares.shape} arrived; {taught.shape[:2]} is needed.",
            code="weights-shape",
        )
    if improper(taught).any():
        raise InputError("the predictions are no probabilities.", code="prediction-simplex")
    fine = np.isfinite(shares).all() and (shares >= 0).all()
    if not fine or (np.abs(shares.sum(axis=0) - 1) > 1e-6).any():
        raise InputError(
            "the weights are negative, or do not sum to 1 over the teachers.", code="weights-sum"
        )
    return taught, shares


def check_options(
    loss: str, epsilon: float | None, epochs: int, rate: float, batch: int, seed: int
) -> None:
    """Raise for options of ``train`` that are out of range."""
    if loss not in get_args(Loss):
        raise InputError(
            f"loss is {loss!r}; give one of {', '.join(get_args(Loss))}.", code="option-loss"
        )
    if epsilon is not None and loss == "entropy":
        raise InputError("loss='entropy' has no epsilon. Leave it out.", code="option-epsilon")
    if epsilon is not None and not real(epsilon, "epsilon", "option-epsilon") > 0:
        raise InputError("epsilon must be positive, or None.", code="option-epsilon")
    if not 0 < real(rate, "rate", "option-rate") <= _LARGEST_RATE:
        raise InputError(
            f"rate is {rate:g}; a number above 0, far below 1, is needed.", code="option-rate"
        )
    whole(epochs, "epochs", "option-epochs", least=1)
    whole(batch, "batch", "option-batch", least=1)
    whole(seed, "seed", "option-seed", least=0, most=2**63 - 1)


def _diverged(epoch: int) -> SolverError:
    return SolverError(
        f"the loss or a parameter is not finite in epoch {epoch + 1}. Lower the rate, or scale "
        "the inputs.",
        code="training-diverged",
    )


def _mark(
    module: nn.Module,
    inputs: Inputs,
    taught: Array,
    shares: Array,
    space: LabelSpace,
    loss: Loss,
    epsilon: float | None,
    rate: float,
    batch: int,
    seed: int,
) -> str:
    given = inputs if isinstance(inputs, np.ndarray) else list(inputs)
    return files.fingerprint(
        model=[[name, each.requires_grad] for name, each in module.named_parameters()],
        # Layers without parameters; what else a forward does cannot be seen.
        layers=repr(module),
        **{f"start.{name}": array for name, array in parameters_of(module).items()},
        inputs=given,
        outputs=taught,
        weights=shares,
        space=space.to_dict(),
        options=[loss, epsilon, rate, batch, seed],
    )


def _save(
    place: Path,
    mark: str,
    module: nn.Module,
    optimiser: torch.optim.Optimizer,
    losses: Array,
    by_teacher: Array,
) -> None:
    arrays = {f"model.{name}": array for name, array in parameters_of(module).items()}
    for number, moments in optimiser.state_dict()["state"].items():
        for name, value in moments.items():
            arrays[f"moment.{number}.{name}"] = value.detach().cpu().numpy()
    arrays |= {"losses": losses, "by_teacher": by_teacher}
    files.save(place, "training", mark, {"epoch": len(losses)}, arrays)


def _resume(
    place: Path, mark: str, module: nn.Module, optimiser: torch.optim.Optimizer, epochs: int
) -> tuple[Array, Array] | None:
    found = files.load(place, "training", mark)
    if found is None:
        return None
    values, arrays = found
    if values["epoch"] > epochs:
        raise MismatchError(
            f"{place} has {values['epoch']} epochs and {epochs} are asked for. Ask for as many "
            "or more, or give another folder.",
            code="checkpoint-mismatch",
        )
    if not {"losses", "by_teacher"} <= set(arrays):
        raise FileError(
            f"{place} is no checkpoint of a training. Remove it to begin anew.",
            code="checkpoint-broken",
        )
    losses, by_teacher = arrays.pop("losses"), arrays.pop("by_teacher")
    state: dict[str, npt.NDArray[Any]] = {}
    moments: dict[int, dict[str, Tensor]] = {}
    for name, array in arrays.items():
        kind, _, rest = name.partition(".")
        if kind == "model":
            state[rest] = array
        else:
            number, _, part = rest.partition(".")
            moments.setdefault(int(number), {})[part] = torch.from_numpy(array.copy())
    load_parameters(module, state)
    groups = optimiser.state_dict()["param_groups"]
    optimiser.load_state_dict({"state": moments, "param_groups": groups})
    return losses, by_teacher
