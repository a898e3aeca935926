"""Fitting a model to labelled inputs, and asking it: what a teacher does by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError, MismatchError, SolverError
from ..options import taking
from ._batches import Inputs, batch_of, batches_of, count_of, device_of, modes_of, seeded
from .options import Fit

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Share of the steps in which the rate rises from 0.
_WARM = 0.1
# Norm up to which gradients are left as they are.
_CLIP = 1.0


@dataclass(frozen=True)
class Fitting:
    """How a model was fitted.

    Attributes
    ----------
    losses
        Mean cross-entropy of every epoch, in nats, dropout included.
    validation
        Mean cross-entropy of the validation inputs after every epoch, over their labels where
        ``balanced``; empty without any.
    epoch
        Epoch, from 1, whose parameters the module has now.
    """

    losses: tuple[float, ...]
    validation: tuple[float, ...]
    epoch: int


@taking(Fit)
def fit(
    module: torch.nn.Module,
    inputs: Inputs,
    codes: npt.ArrayLike,
    how: Fit | None = None,
    *,
    validation: tuple[Inputs, npt.ArrayLike] | None = None,
    progress: Callable[[int, float], object] | None = None,
    **options: Any,
) -> Fitting:
    r"""Fit a module to labelled inputs, in place, by cross-entropy and AdamW.

    .. math:: \min_\theta \frac{1}{\sum_i w_{y_i}} \sum_i -w_{y_i} \log h_\theta(x_i)_{y_i}

    with :math:`w_c = 1`, or :math:`w_c = n / (C n_c)` where ``balanced``. The rate rises over the
    first tenth of the steps and falls to 0 in a line; gradients are clipped to norm 1.

    Parameters
    ----------
    module
        Takes a tensor batch, returns logits (B, L). It stays where it is, on any device.
    inputs
        n texts, or an array of n rows.
    codes
        Shape (n,): whole numbers from 0 to L - 1.
    how
        The options below as one object, in place of them.
    validation
        Inputs and codes that are not trained on; the module ends with the parameters of the
        epoch that was best on them.
    progress
        Told the epoch, from 1, and its loss.

    Returns
    -------
    Fitting

    Raises
    ------
    InputError, MismatchError
        Codes that are no labels or do not fit the inputs, options out of range.
    SolverError
        Code ``training-diverged``: a loss or a parameter is not finite. The module then has the
        parameters of the failed step; do not use it.

    Notes
    -----
    Fits of several threads follow one another: torch has one generator a process.

    Examples
    --------
    >>> model = torch.nn.Linear(1, 2)
    >>> found = fit(model, np.array([[-1.0], [1.0]]), [0, 1], epochs=200, rate=0.1)
    >>> module_predict(model, np.array([[-1.0], [1.0]])).argmax(1).tolist()
    [0, 1]
    """
    how = Fit.of(how, options)
    labels = _codes(codes, count_of(inputs))
    tested = None
    if validation is not None:
        tested = (validation[0], _codes(validation[1], count_of(validation[0])))
    run = _Run(module, inputs, labels, how)
    losses: list[float] = []
    scores: list[float] = []
    best: dict[str, torch.Tensor] | None = None
    with modes_of(module), seeded(how.seed, device_of(module)):
        module.train()
        for epoch in range(1, how.epochs + 1):
            losses.append(run.epoch(epoch))
            if tested is not None:
                scores.append(_score(module, *tested, how.balanced))
                if scores[-1] <= min(scores[:-1], default=np.inf):
                    best = {name: held.clone() for name, held in module.state_dict().items()}
            if progress is not None:
                progress(epoch, losses[-1])
    if best is not None:
        module.load_state_dict(best)
    chosen = how.epochs if not scores else len(scores) - int(np.argmin(scores[::-1]))
    return Fitting(tuple(losses), tuple(scores), chosen)


class _Run:
    """A module, what it is fitted to, and the optimiser between its steps."""

    def __init__(self, module: torch.nn.Module, inputs: Inputs, labels: Codes, how: Fit) -> None:
        self.module, self.inputs, self.labels, self.batch = module, inputs, labels, how.batch
        self.trained = [each for each in module.parameters() if each.requires_grad]
        if not self.trained:
            raise InputError("the module has no parameter to train.", code="parameters-frozen")
        self.optimiser = torch.optim.AdamW(self.trained, lr=how.rate, weight_decay=how.decay)
        steps = how.epochs * len(batches_of(np.arange(len(labels)), how.batch))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda step: _share(step, steps)
        )
        self.weights = _weights(labels) if how.balanced else np.ones(int(labels.max()) + 1)
        self.order = np.random.default_rng(how.seed)

    def epoch(self, number: int) -> float:
        """One pass; its mean cross-entropy."""
        total, labels = 0.0, self.labels
        for rows in batches_of(self.order.permutation(len(labels)), self.batch):
            self.optimiser.zero_grad(set_to_none=True)
            tensor = batch_of(self.module, self.inputs, rows)
            logits = _logits(self.module, tensor, len(rows), labels.max())
            wanted = torch.from_numpy(labels[rows]).to(logits.device)
            each = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
            share = torch.from_numpy(self.weights[labels[rows]]).to(logits)
            loss = (each * share).sum() / share.sum()
            total += float(loss.detach()) * len(rows)
            _finite(total, number)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.trained, _CLIP)
            self.optimiser.step()
            self.schedule.step()
        if not all(bool(parameter.isfinite().all()) for parameter in self.trained):
            _finite(float("nan"), number)
        return total / len(labels)


def module_predict(module: torch.nn.Module, inputs: Inputs, batch: int = 256) -> Array:
    r"""Probabilities of a module: the softmax of its logits, taken once, in float64.

    Parameters
    ----------
    module
        Takes a tensor batch, returns logits (B, L). Asked without dropout, and left as it was.
    inputs
        n texts, or an array of n rows.
    batch
        Inputs at once.

    Returns
    -------
    ndarray
        Shape (n, L), rows on the simplex.

    Raises
    ------
    InputError
        No inputs.
    MismatchError
        Logits of another shape than (B, L).
    SolverError
        Code ``prediction-nan``: the module answered with numbers that are no logits.

    Examples
    --------
    >>> module_predict(torch.nn.Linear(3, 2), np.zeros((4, 3))).sum(axis=1)
    array([1., 1., 1., 1.])
    """
    count = count_of(inputs)
    if count == 0 or batch < 1:
        raise InputError("give one input or more, and a batch of 1 or more.", code="input-empty")
    parts: list[Array] = []
    with modes_of(module), torch.no_grad():
        module.eval()
        for rows in batches_of(np.arange(count), batch):
            logits = _logits(module, batch_of(module, inputs, rows), len(rows), 0)
            parts.append(torch.softmax(logits.double(), dim=1).cpu().numpy())
    if len({part.shape[1] for part in parts}) > 1:
        raise MismatchError(
            "logits of different batches have different numbers of labels.", code="logits-shape"
        )
    probabilities = np.concatenate(parts)
    wrong = np.flatnonzero(~np.isfinite(probabilities).all(axis=1))
    if len(wrong):
        raise SolverError(
            f"the module's answer to {len(wrong)} of {count} inputs is not finite (first row "
            f"{wrong[0]}). Fit it again.",
            code="prediction-nan",
        )
    return probabilities


def _codes(codes: npt.ArrayLike, count: int) -> Codes:
    given = np.asarray(codes)
    if given.dtype.kind not in "iu" or given.ndim != 1 or (given < 0).any():
        raise InputError("codes are not whole numbers from 0, one per input.", code="label-codes")
    if len(given) != count or count == 0:
        raise MismatchError(
            f"{len(given)} codes arrived for {count} inputs; give one each, and one input or more.",
            code="label-codes",
        )
    return given.astype(np.int64)


def _weights(labels: Codes) -> Array:
    counts = np.bincount(labels)
    return len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1.0))


def _share(step: int, steps: int) -> float:
    warm = max(1, round(_WARM * steps))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def _logits(module: torch.nn.Module, tensor: torch.Tensor, rows: int, highest: int) -> torch.Tensor:
    logits = module(tensor)
    if not isinstance(logits, torch.Tensor) or logits.ndim != 2 or len(logits) != rows:
        shape = tuple(logits.shape) if isinstance(logits, torch.Tensor) else type(logits).__name__
        raise MismatchError(
            f"the module answered {rows} inputs with {shape}; it must return logits, one row per "
            f"input.",
            code="logits-shape",
        )
    if logits.shape[1] <= highest:
        raise MismatchError(
            f"the module tells {logits.shape[1]} labels apart; a code {highest} arrived.",
            code="label-codes",
        )
    return logits


def _score(module: torch.nn.Module, inputs: Inputs, codes: Codes, balanced: bool) -> float:
    found = module_predict(module, inputs)
    if found.shape[1] <= codes.max():
        raise MismatchError(
            f"the module tells {found.shape[1]} labels apart; a validation code {codes.max()} "
            f"arrived.",
            code="label-codes",
        )
    told = found[np.arange(len(codes)), codes]
    losses = -np.log(np.maximum(told, np.finfo(np.float64).tiny))
    return float(np.average(losses, weights=_weights(codes)[codes] if balanced else None))


def _finite(value: float, epoch: int) -> None:
    if not np.isfinite(value):
        raise SolverError(
            f"the loss of epoch {epoch} is not finite. Lower the rate, or look for broken inputs.",
            code="training-diverged",
        )
