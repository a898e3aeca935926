"""Options of distillation: what teachers are asked, what they count for, how a model is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy.typing as npt

from silot_transport._check import real

from ..distances.shared_options import switch
from ..errors import InputError
from ..federation.protocol import COORDINATOR
from ..options import Check, Options, anything, count, none_or, number, option, seed, truth, word
from ..privacy.accounting import mu_of
from .labels import LabelSpace
from .weights import VALIDATED, Weights, check_cap

Loss = Literal["sinkhorn", "entropy"]

# Above it a step overflows inside torch.
_LARGEST_RATE = 1e6
_BATCH, _PRIVATE_BATCH = 256, 4096
MEMORY = "global"
"""Name of the model as it was before, among the teachers."""
# Of the largest cost: below it, the entropic loss takes too many iterations.
_LEAST_EPSILON = 2e-5
# Of the largest cost: the epsilon that validation records may choose.
_SOFT = 0.3


def _rate(value: Any, name: str, code: str) -> float:
    rate = real(value, name, code)
    if not 0 < rate <= _LARGEST_RATE:
        raise InputError(
            f"{name} is {rate:g}; a number above 0, far below 1, is needed.", code=code
        )
    return rate


class Fit(Options):
    """How a model is fitted to labelled inputs."""

    name = "fit"

    epochs: int = option("Number of passes over all inputs.", count(), default=5, code="option-fit")
    rate: float = option(
        "Largest learning rate. 1e-3 suits models from scratch; 2e-5 to 5e-5 pretrained ones.",
        number(above=0),
        default=1e-3,
        code="option-fit",
    )
    batch: int = option("Number of inputs in one step.", count(), default=32, code="option-fit")
    decay: float = option("Weight decay.", number(least=0), default=0.01, code="option-fit")
    balanced: bool = switch("Whether every label counts the same, however rare.", code="option-fit")
    seed: int = option(
        "Seed of the order of inputs and of dropout. The same seed gives the same "
        "result on one machine.",
        seed(),
        default=0,
        flag=False,
    )


class Training(Options):
    """How a model is trained on predictions of teachers."""

    name = "train"

    loss: Loss | None = option(
        '``"sinkhorn"`` (transport of labels) or ``"entropy"`` (Kullback-Leibler). By default '
        "``validation`` chooses, also among values of ``epsilon``; without it ``sinkhorn``.",
        none_or(word(*get_args(Loss))),
        default=None,
        brief="sinkhorn or entropy. Default: as validation records choose, or sinkhorn.",
    )
    epsilon: float | None = option(
        "Regularisation of the Sinkhorn loss, in the unit of the coordinates; ``None`` for exact "
        "transport.",
        none_or(number(above=0)),
        default=None,
    )
    epochs: int = option("Passes over all inputs.", count(), default=10)
    rate: float = option(
        "Learning rate of AdamW.", Check(_rate, float, "float, above 0"), default=1e-3
    )
    batch: int = option("Number of inputs in one step.", count(), default=64)
    seed: int = option(
        "Seed of the order of inputs, of dropout, and of noise inputs.", seed(), default=0
    )

    def fit(self) -> None:
        super().fit()
        if self.epsilon is not None and self.loss == "entropy":
            raise InputError("loss='entropy' has no epsilon. Leave it out.", code="option-epsilon")


class Weighing(Options):
    """Options of the weights of teachers, and whether the earlier model is one of them."""

    weights: Weights | Literal["validation"] | None = option(
        'Weight of a teacher for an input: ``"confidence"``, the Euclidean distance of its '
        "prediction "
        'from its mean prediction over noise; ``"uniform-distance"``, that from the uniform '
        'distribution; ``"uniform"``; ``"size"`` of its training records; ``"validation"``, the '
        "constant weights that are best on ``validation``. By default ``validation`` chooses; "
        "without it ``confidence``.",
        none_or(word(*get_args(Weights), VALIDATED)),
        default=None,
        brief="How teachers are weighted. Default: as validation records choose, or confidence.",
    )
    weight_cap: float | None = option(
        "Largest weight of a teacher in the mean over the inputs, in multiples of "
        "the equal share 1 / K. If a weight is larger, all weights are mixed with "
        "equal weights until it is not. ``None``, as in the paper, sets no limit.",
        none_or(Check(lambda value, *_: check_cap(value), float, "float, 1 or more")),
        default=1.5,
        code="option-cap",
    )
    robust: bool | None = option(
        "Whether only the closest majority of the teachers counts (``distillation.majority``), so "
        "that fewer than half of them may be dishonest. With ``memory``, the earlier model is one "
        "of the teachers. By default ``validation`` chooses; without it all teachers count.",
        none_or(truth()),
        default=None,
        brief="Use only the majority of teachers that agree most. Default: as validation "
        "records choose, or no.",
    )
    noise: npt.ArrayLike | Sequence[str] | int | None = option(
        'For ``"confidence"``: random inputs without meaning, or their number '
        "(2000). Records are drawn from a Gaussian with the mean and standard "
        "deviation of every feature of the transfer set; texts have 200 random words "
        "of the transfer set, and come in pairs if its texts do.",
        anything("inputs, int, or None"),
        default=None,
    )
    memory: bool = switch(
        "Learn without forgetting: the model as it was before training is one more "
        'teacher, ``"global"``. Its bias is computed over the same noise.',
        default=True,
    )
    memory_size: int | None = option(
        'Number of records of the teacher ``"global"``, for weights by size. By default the mean '
        "of the other teachers.",
        none_or(count(1, 1 << 62)),
        default=None,
        code="option-size",
    )

    def fit(self) -> None:
        super().fit()
        if self.memory_size is not None and not self.memory:
            raise InputError("memory_size is for memory=True. Leave it out.", code="option-size")
        if self.noise is not None and self.weights not in (None, "confidence"):
            raise InputError(
                f"weights={self.weights!r} does not use noise. Leave noise out.",
                code="option-noise",
            )

    @property
    def by_size(self) -> bool:
        """Whether teachers have to tell their size."""
        return self.weights == "size"


class Asking(Options):
    """Options of the questions to teachers, and how many must answer."""

    temperature: float = option(
        "Temperature T: a teacher's predictions h become :math:`h^{1/T}`, "
        "normalized. With ``privacy_epsilon`` the coordinator does this, after the "
        "noise, and ``noise`` cannot be used.",
        number(above=0),
        default=1.0,
    )
    decimals: int | None = option(
        "Number of decimals to which each teacher rounds its predictions, which "
        "still sum to 1. ``None``: no rounding.",
        none_or(count(0, 12)),
        default=None,
    )
    privacy_epsilon: float | None = option(
        "Request predictions with Gaussian noise, charged to the teachers' ledgers: "
        "all answers of a teacher together are differentially private for its "
        "training records. Sizes are not sent then.",
        Check(lambda value, *_: value, float, "float, above 0, or None"),
        default=None,
    )
    privacy_delta: float = option(
        "Probability that the privacy budget is exceeded.",
        Check(lambda value, *_: value, float, "float, between 0 and 1"),
        default=1e-5,
    )
    shared: bool = switch(
        "Teachers have the transfer set, and questions send only positions in it. "
        "A teacher with another transfer set is excluded."
    )
    question_batch: int | None = option(
        "Number of inputs in one question. Default: 256, or 4096 with "
        "``privacy_epsilon``. At most what teachers accept.",
        none_or(count()),
        default=None,
        code="option-batch",
    )
    min_teachers: int = option(
        "Fewest teachers that must answer.", count(), default=1, code="option-teachers"
    )

    def fit(self) -> None:
        super().fit()
        if self.decimals is not None and self.private:
            raise InputError(
                "predictions with noise are not rounded. Leave decimals out.",
                code="option-decimals",
            )
        # Checked here, for it costs nothing and a run costs much.
        if self.mu is not None and math.isinf(self.mu):
            raise InputError(
                "privacy_epsilon is infinite. Leave it out for predictions without noise.",
                code="option-epsilon",
            )

    @property
    def private(self) -> bool:
        """Whether noise is added, and charged."""
        return self.privacy_epsilon is not None

    @property
    def mu(self) -> float | None:
        """What a teacher may spend on all its answers; ``None`` without noise."""
        if self.privacy_epsilon is None:
            return None
        return mu_of(self.privacy_epsilon, self.privacy_delta)

    @property
    def inputs_at_once(self) -> int:
        """Inputs of one question."""
        return self.question_batch or (_PRIVATE_BATCH if self.private else _BATCH)

    @property
    def noise_at_once(self) -> int:
        """Most inputs of noise where their mean is sent with noise."""
        return max(self.inputs_at_once, _PRIVATE_BATCH)


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
