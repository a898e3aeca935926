"""Distill one model from teachers: a model and teachers in, a trained copy out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy.typing as npt

from ..distillation import LabelSpace
from ..distillation.options import Distill
from ..distillation.result import Distillation
from ..federation.run import Federation, Progress
from ..options import taking

if TYPE_CHECKING:
    from torch import nn

    from ..distillation.job import Test
    from ..distillation.trainer import Epoch
    from ..keywords import DistillKeywords


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
    >>> import numpy as np
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
    # Slow to import; the first says which extra is missing.
    from ..distillation import train  # noqa: F401
    from ..distillation.job import Job

    how = Distill.of(how, options).settled(validated=validation is not None)
    job = Job(
        global_model, transfer_set, how, labels, validation=validation, test=test,
        checkpoint=checkpoint,
    )  # fmt: skip
    federation = job.join(teachers)
    protocol = job.protocol(federation.names)
    answers = job.read(protocol, teachers)
    if answers is None:
        answers = federation.run(protocol, progress=progress)
        job.keep(answers)
    return job.finish(answers, federation.names, progress)
