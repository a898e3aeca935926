"""Fitting a model to labelled inputs, and its predictions: what a teacher does by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Unpack

import numpy as np
import numpy.typing as npt
import torch

from ..errors import InputError, MismatchError, SolverError
from ..options import taking
from ..torch import draw_from
from .modules import (
    Inputs,
    are_finite,
    check_finite,
    compute_logits,
    count_inputs,
    find_device,
    find_trained,
    restore_modes,
    split_batches,
)
from .options import Fit

if TYPE_CHECKING:
    from ..keywords import FitKeywords

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Share of the steps in which the rate rises from 0, as usual for transformers: AdamW's moments
# are poor estimates at first.
_WARM = 0.1
# Norm up to which gradients stay as they are, as usual for pretrained text models.
_CLIP = 1.0


@dataclass(frozen=True)
class Fitting:
    """How a model was fitted."""

    losses: tuple[float, ...]
    """Mean cross-entropy of every epoch, in nats, dropout included."""
    validation: tuple[float, ...]
    """Mean cross-entropy of the validation inputs after every epoch, over their labels where
    ``balanced``; empty without any."""
    epoch: int
    """Epoch, from 1, whose parameters the module has now."""


@taking(Fit)
def fit(
    module: torch.nn.Module,
    inputs: Inputs,
    codes: npt.ArrayLike,
    how: Fit | None = None,
    *,
    validation: tuple[Inputs, npt.ArrayLike] | None = None,
    progress: Callable[[int, float], object] | None = None,
    **options: Unpack[FitKeywords],
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
        Called with the epoch, from 1, and its loss.

    Raises
    ------
    InputError, MismatchError
        Codes that are not labels or do not fit the inputs, options out of range.
    SolverError
        Code ``training-diverged``: a loss or a parameter is not finite. The module then has the
        parameters of the failed step; do not use it.

    Notes
    -----
    Fits of several threads follow one another: torch has one generator a process.

    Examples
    --------
    >>> model = torch.nn.Linear(1, 2)
    >>> _ = fit(model, np.array([[-1.0], [1.0]]), [0, 1], epochs=200, rate=0.1)
    >>> module_predict(model, np.array([[-1.0], [1.0]])).argmax(1).tolist()
    [0, 1]
    """
    how = Fit.of(how, options)
    labels = _check_codes(codes, inputs)
    if validation is not None:
        validation = validation[0], _check_codes(validation[1], validation[0])
    run = _Run(module, inputs, labels, how)
    losses: list[float] = []
    scores: list[float] = []
    best: dict[str, torch.Tensor] | None = None
    with restore_modes(module), draw_from(how.seed, find_device(module)):
        module.train()
        for epoch in range(1, how.epochs + 1):
            losses.append(run.train_epoch(epoch))
            if validation is not None:
                scores.append(_compute_loss(module, *validation, how.balanced))
                if scores[-1] <= min(scores[:-1], default=np.inf):
                    best = {name: value.clone() for name, value in module.state_dict().items()}
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
        self.trained = find_trained(module)
        self.optimiser = torch.optim.AdamW(self.trained, lr=how.rate, weight_decay=how.decay)
        steps = how.epochs * len(split_batches(np.arange(len(labels)), how.batch))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimiser, lambda step: _rate_share(step, steps)
        )
        classes = int(labels.max()) + 1
        self.weights = _balance_classes(labels) if how.balanced else np.ones(classes)
        self.order = np.random.default_rng(how.seed)

    def train_epoch(self, number: int) -> float:
        """Take one pass over the inputs and return its mean cross-entropy."""
        total, labels = 0.0, self.labels
        for rows in split_batches(self.order.permutation(len(labels)), self.batch):
            self.optimiser.zero_grad(set_to_none=True)
            logits = compute_logits(self.module, self.inputs, rows)
            _check_labels(logits.shape[1], labels, "code")
            wanted = torch.from_numpy(labels[rows]).to(logits.device)
            losses = torch.nn.functional.cross_entropy(logits, wanted, reduction="none")
            # Divided by the weights of the batch, so that rare labels do not change the rate.
            share = torch.from_numpy(self.weights[labels[rows]]).to(logits)
            loss = (losses * share).sum() / share.sum()
            total += float(loss.detach()) * len(rows)
            check_finite(bool(np.isfinite(total)), number)
            loss.backward()
            # One odd input must not undo what many steps have learnt.
            torch.nn.utils.clip_grad_norm_(self.trained, _CLIP)
            self.optimiser.step()
            self.schedule.step()
        check_finite(are_finite(self.trained), number)
        return total / len(labels)


def module_predict(module: torch.nn.Module, inputs: Inputs, batch: int = 256) -> Array:
    """Compute the probabilities of a module: the softmax of its logits, in float64.

    Parameters
    ----------
    module
        Takes a tensor batch, returns logits (B, L). It runs without dropout, and stays as it was.
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
        Code ``prediction-nan``: the module answered with numbers that are not logits.

    Examples
    --------
    >>> module_predict(torch.nn.Linear(3, 2), np.zeros((4, 3))).sum(axis=1)
    array([1., 1., 1., 1.])
    """
    count = count_inputs(inputs)
    if count == 0 or batch < 1:
        raise InputError("give one input or more, and a batch of 1 or more.", code="input-empty")
    parts: list[Array] = []
    with restore_modes(module), torch.no_grad():
        module.eval()
        for rows in split_batches(np.arange(count), batch):
            logits = compute_logits(module, inputs, rows)
            # In float64, as everything that is computed from predictions.
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


def _check_codes(codes: npt.ArrayLike, inputs: Inputs) -> Codes:
    count, labels = count_inputs(inputs), np.asarray(codes)
    if labels.dtype.kind not in "iu" or labels.ndim != 1 or (labels < 0).any():
        raise InputError("codes are not whole numbers from 0, one per input.", code="label-codes")
    if len(labels) != count or count == 0:
        raise MismatchError(
            f"{len(labels)} codes arrived for {count} inputs; give one code per input, and one "
            "input or more.",
            code="label-codes",
        )
    return labels.astype(np.int64)


def _check_labels(labels: int, codes: Codes, what: str) -> None:
    if labels <= codes.max():
        raise MismatchError(
            f"the module has {labels} labels; a {what} {codes.max()} arrived.",
            code="label-codes",
        )


def _balance_classes(labels: Codes) -> Array:
    # Labels without records have no weight to share, and divide nothing by 0.
    counts = np.bincount(labels)
    return len(labels) / (np.count_nonzero(counts) * np.maximum(counts, 1.0))


def _rate_share(step: int, steps: int) -> float:
    warm = max(1, round(_WARM * steps))
    return min((step + 1) / warm, (steps - step) / max(1, steps - warm))


def _compute_loss(module: torch.nn.Module, inputs: Inputs, codes: Codes, balanced: bool) -> float:
    probabilities = module_predict(module, inputs)
    _check_labels(probabilities.shape[1], codes, "validation code")
    shares = probabilities[np.arange(len(codes)), codes]
    # A label that a model excludes costs 708 nats, not an infinite mean.
    losses = -np.log(np.maximum(shares, np.finfo(np.float64).tiny))
    weights = _balance_classes(codes)[codes] if balanced else None
    return float(np.average(losses, weights=weights))
