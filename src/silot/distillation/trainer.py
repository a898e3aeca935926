"""Training a model on teachers' predictions (extra ``silot[torch]``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from ..data import checkpoint as files
from ..errors import FileError, InputError, MismatchError
from ..options import taking
from ..torch import draw_from
from .labels import LabelSpace, are_probabilities
from .losses import entropy_loss, sinkhorn_loss
from .modules import (
    Inputs,
    are_finite,
    check_finite,
    compute_logits,
    count_inputs,
    find_device,
    find_trained,
    load_parameters,
    parameters_of,
    split_batches,
)
from .options import Training

if TYPE_CHECKING:
    from ..keywords import TrainingKeywords

Array = npt.NDArray[np.float64]

FILE = "training.npz"
"""Name of the checkpoint in its folder."""


@dataclass(frozen=True)
class Epoch:
    """How far training has come."""

    epoch: int
    """Epochs done."""
    epochs: int
    """All epochs there will be."""
    loss: float
    """Mean weighted loss of the epoch's inputs, before the step each of them took part in."""
    seconds: float
    """What the epoch took."""


@dataclass(frozen=True)
class History:
    """Losses and options of the training."""

    losses: Array
    """Mean weighted loss of every epoch, shape (epochs,)."""
    by_teacher: Array
    """Mean loss against each teacher without weights, shape (epochs, K)."""
    resumed: int = 0
    """Epochs that a checkpoint already had."""


@taking(Training)
def train(
    module: nn.Module,
    inputs: Inputs,
    outputs: npt.ArrayLike,
    weights: npt.ArrayLike,
    space: LabelSpace,
    how: Training | None = None,
    *,
    checkpoint: str | Path | None = None,
    progress: Callable[[Epoch], None] | None = None,
    **options: Unpack[TrainingKeywords],
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
    how
        The options below as one object, in place of them.
    checkpoint
        A folder. After every epoch the model, the moments of the optimiser and the losses are
        written to it; called again with the same arguments, training continues after the last
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
    >>> outputs = np.stack([np.eye(3)[np.digitize(x[:, 0], [-0.5, 0.5])]])
    >>> space = LabelSpace([-1.0, 0.0, 1.0])
    >>> history = train(nn.Linear(2, 3), x, outputs, np.ones((1, 64)), space, epochs=40, rate=0.1)
    >>> bool(history.losses[-1] < 0.5 * history.losses[0])
    True
    """
    how = Training.of(how, options)
    predictions, shares = _check_predictions(outputs, weights, count_inputs(inputs), space)
    run = _Run(module.float(), inputs, predictions, shares, space, how)
    place, mark, resumed = None, "", 0
    if checkpoint is not None:
        place, mark = files.make_folder(checkpoint) / FILE, run.fingerprint()
        resumed = run.resume(place, mark)
    for epoch in range(resumed, how.epochs):
        began = time.perf_counter()
        loss = run.train_epoch(epoch)
        if place is not None:
            run.save(place, mark)
        if progress is not None:
            progress(Epoch(epoch + 1, how.epochs, loss, time.perf_counter() - began))
    module.eval()
    return History(run.losses, run.by_teacher, resumed)


class _Run:
    """A model, what it learns from, and how far it has come."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Inputs,
        outputs: Array,
        weights: Array,
        space: LabelSpace,
        how: Training,
    ) -> None:
        self.module, self.inputs, self.space, self.how = module, inputs, space, how
        self.outputs, self.weights = outputs, weights
        self.optimiser = torch.optim.AdamW(find_trained(module), lr=how.rate)
        self.losses, self.by_teacher = np.zeros(0), np.zeros((0, len(outputs)))

    def train_epoch(self, number: int) -> float:
        """Take one pass over the inputs and return its mean weighted loss."""
        device = find_device(self.module)
        # By the number of the epoch, so that a resumed training draws what it would have drawn.
        draw = np.random.default_rng([self.how.seed, number])
        order = draw.permutation(len(self.inputs))
        with draw_from(int(draw.integers(2**62)), device):
            self.module.train()
            for part in self.module.modules():
                parameters = list(part.parameters())
                # What is frozen keeps its statistics too, and drops nothing.
                if parameters and not any(own.requires_grad for own in parameters):
                    part.eval()
            # Sums in float64: of float32 a mean over many inputs would lose digits.
            total, by_teacher = 0.0, np.zeros(len(self.outputs))
            for rows in split_batches(order, self.how.batch):
                values = self._step(rows, number, device)
                total += float((values * self.weights[:, rows].T).sum())
                by_teacher += values.sum(axis=0)
        # A loss can be finite in the step whose gradient is not.
        check_finite(are_finite(self.module.parameters()), number + 1)
        loss = total / len(order)
        self.losses = np.append(self.losses, loss)
        self.by_teacher = np.vstack([self.by_teacher, by_teacher / len(order)])
        return loss

    def _step(self, rows: npt.NDArray[np.intp], number: int, device: torch.device) -> Array:
        """Take one step of the paper's algorithm 1; return the losses (B, K) before it."""
        predictions = torch.softmax(self._logits(rows, number), dim=1)[:, None]
        outputs = torch.from_numpy(self.outputs[:, rows].swapaxes(0, 1).astype(np.float32))
        shares = torch.from_numpy(self.weights[:, rows].T.astype(np.float32)).to(device)
        # Lines 1 to 10: T and its gradient, the potentials f of each of the K teachers.
        values = self._losses(predictions, outputs.to(device))
        # Line 11: the mean over the teachers by their weights, which sum to 1.
        value = (shares * values).sum(dim=1).mean()
        check_finite(bool(torch.isfinite(value)), number + 1)
        self.optimiser.zero_grad(set_to_none=True)
        value.backward()
        self.optimiser.step()
        return values.detach().double().cpu().numpy()

    def _logits(self, rows: npt.NDArray[np.intp], number: int) -> Tensor:
        logits = compute_logits(self.module, self.inputs, rows).float()
        if logits.shape[1] != self.space.size:
            raise MismatchError(
                f"the model answers {len(rows)} inputs with something else than logits of shape "
                f"{(len(rows), self.space.size)}, one for each label.",
                code="logits-shape",
            )
        check_finite(bool(torch.isfinite(logits).all()), number + 1)
        return logits

    def _losses(self, predictions: Tensor, outputs: Tensor) -> Tensor:
        """Compute the loss of every input against every teacher, (B, K)."""
        if self.how.loss == "entropy":
            return entropy_loss(predictions, outputs, reduction="none")
        epsilon = self.how.epsilon
        return sinkhorn_loss(predictions, outputs, self.space, epsilon=epsilon, reduction="none")

    def fingerprint(self) -> str:
        """Compute the mark of a checkpoint: of the model as it is, options and data."""
        module, how = self.module, self.how
        return files.fingerprint(
            model=[[name, own.requires_grad] for name, own in module.named_parameters()],
            # Layers without parameters; what else a forward does cannot be seen.
            layers=repr(module),
            **{f"start.{name}": array for name, array in parameters_of(module).items()},
            inputs=self.inputs if isinstance(self.inputs, np.ndarray) else list(self.inputs),
            outputs=self.outputs,
            weights=self.weights,
            space=self.space.to_dict(),
            options=[how.loss, how.epsilon, how.rate, how.batch, how.seed],
        )

    def save(self, place: Path, mark: str) -> None:
        """Write the model, the moments of the optimiser and the losses."""
        arrays = {f"model.{name}": array for name, array in parameters_of(self.module).items()}
        for number, moments in self.optimiser.state_dict()["state"].items():
            for name, value in moments.items():
                arrays[f"moment.{number}.{name}"] = value.detach().cpu().numpy()
        arrays |= {"losses": self.losses, "by_teacher": self.by_teacher}
        files.save(place, "training", mark, {"epoch": len(self.losses)}, arrays)

    def resume(self, place: Path, mark: str) -> int:
        """Continue from a checkpoint, if there is one; return how many epochs it has."""
        kept = files.load(place, "training", mark)
        if kept is None:
            return 0
        values, arrays = kept
        if values["epoch"] > self.how.epochs:
            raise MismatchError(
                f"{place} has {values['epoch']} epochs and {self.how.epochs} are requested. "
                "Request as many or more, or give another folder.",
                code="checkpoint-mismatch",
            )
        if not {"losses", "by_teacher"} <= set(arrays):
            raise FileError(
                f"{place} is not a checkpoint of a training. Remove it to start again.",
                code="checkpoint-broken",
            )
        self.losses, self.by_teacher = arrays.pop("losses"), arrays.pop("by_teacher")
        state: dict[str, npt.NDArray[Any]] = {}
        moments: dict[int, dict[str, Tensor]] = {}
        for name, array in arrays.items():
            kind, _, path = name.partition(".")
            if kind == "model":
                state[path] = array
            else:
                number, _, moment = path.partition(".")
                moments.setdefault(int(number), {})[moment] = torch.from_numpy(array.copy())
        load_parameters(self.module, state)
        # The moments of AdamW decide the next steps as much as the parameters do.
        groups = self.optimiser.state_dict()["param_groups"]
        self.optimiser.load_state_dict({"state": moments, "param_groups": groups})
        return len(self.losses)


def _check_predictions(
    outputs: npt.ArrayLike, weights: npt.ArrayLike, size: int, space: LabelSpace
) -> tuple[Array, Array]:
    predictions = np.asarray(outputs, dtype=np.float64)
    shares = np.asarray(weights, dtype=np.float64)
    wanted = (size, space.size)
    if predictions.ndim != 3 or predictions.shape[1:] != wanted or 0 in predictions.shape:
        raise MismatchError(
            f"predictions of shape {predictions.shape} arrived; (teachers, {size}, {space.size}) "
            "is needed.",
            code="prediction-shape",
        )
    if shares.shape != predictions.shape[:2]:
        raise MismatchError(
            f"weights of shape {shares.shape} arrived; {predictions.shape[:2]} is needed.",
            code="weights-shape",
        )
    if not are_probabilities(predictions).all():
        raise InputError("the predictions are not probabilities.", code="prediction-simplex")
    is_valid = np.isfinite(shares).all() and (shares >= 0).all()
    # Far above the rounding of a sum over teachers, and nothing that a loss would show.
    if not is_valid or (np.abs(shares.sum(axis=0) - 1) > 1e-6).any():
        raise InputError(
            "the weights are negative, or do not sum to 1 over the teachers.", code="weights-sum"
        )
    return predictions, shares
