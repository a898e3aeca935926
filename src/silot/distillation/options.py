"""Options of distillation: what teachers are asked, what they count for, how a model is trained."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, get_args

import numpy.typing as npt

from silot_transport._check import real

from ..distances.shared_options import switch
from ..errors import InputError
from ..options import Check, Options, anything, count, none_or, number, option, seed, word
from ..privacy.accounting import mu_of
from .weights import Weights, check_cap

Loss = Literal["sinkhorn", "entropy"]

# Above it a step overflows inside torch.
_LARGEST_RATE = 1e6
_BATCH, _PRIVATE_BATCH = 256, 4096


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

    epochs: int = option("Times every input is seen.", count(), default=5, code="option-fit")
    rate: float = option(
        "Largest learning rate. 1e-3 suits models from scratch; 2e-5 to 5e-5 pretrained ones.",
        number(above=0),
        default=1e-3,
        code="option-fit",
    )
    batch: int = option("Inputs of a step.", count(), default=32, code="option-fit")
    decay: float = option("Weight decay.", number(least=0), default=0.01, code="option-fit")
    balanced: bool = switch("Whether every label counts the same, however rare.", code="option-fit")
    seed: int = option(
        "Order of inputs and dropout. Same seed, same result on one machine.",
        seed(),
        default=0,
        flag=False,
    )


class Training(Options):
    """How a model is trained on predictions of teachers."""

    name = "train"

    loss: Loss = option(
        '``"sinkhorn"`` (transport of labels) or ``"entropy"`` (Kullback-Leibler).',
        word(*get_args(Loss)),
        default="sinkhorn",
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
    batch: int = option("Inputs of a step.", count(), default=64)
    seed: int = option(
        "Seed of the order of inputs, of dropout, and of noise that is made.", seed(), default=0
    )

    def fit(self) -> None:
        super().fit()
        if self.epsilon is not None and self.loss == "entropy":
            raise InputError("loss='entropy' has no epsilon. Leave it out.", code="option-epsilon")


class Weighing(Options):
    """What teachers count for, and whether the model as it was is one of them."""

    weights: Weights = option(
        'Of a teacher for an input: ``"confidence"``, the Euclidean distance of its prediction '
        'from its mean prediction over noise; ``"uniform-distance"``, that from the uniform '
        'distribution; ``"uniform"``; ``"size"`` of its training records.',
        word(*get_args(Weights)),
        default="confidence",
    )
    weight_cap: float | None = option(
        "How many times its even share, 1 / K, a teacher may count at most in the mean over the "
        "inputs: where one counts for more, all weights are mixed with even ones as far as it "
        "takes. ``None``, as in the paper, does not limit.",
        none_or(Check(lambda value, *_: check_cap(value), float, "float, 1 or more")),
        default=1.5,
        code="option-cap",
    )
    robust: bool = switch(
        "Whether only the closest majority of the teachers counts (``distillation.majority``): "
        "fewer than half of them can then lie. The model as it was is one of them where there is "
        "``memory``."
    )
    noise: npt.ArrayLike | Sequence[str] | int | None = option(
        'For ``"confidence"``: inputs that mean nothing, or how many to make (2000). Records are '
        "drawn from a Gaussian with the transfer set's mean and deviation of every feature, texts "
        "of 200 words from the words of the transfer set, in pairs where its texts are.",
        anything("inputs, int, or None"),
        default=None,
    )
    memory: bool = switch(
        "Learn without forgetting: the model's own predictions, as it was, are those of one more "
        'teacher, ``"global"``. Its bias is that over the same noise.',
        default=True,
    )
    memory_size: int | None = option(
        "Its size then, for weights by size. By default the mean of the teachers'.",
        none_or(count(1, 1 << 62)),
        default=None,
        code="option-size",
    )

    def fit(self) -> None:
        super().fit()
        if self.memory_size is not None and not self.memory:
            raise InputError("memory_size is for memory=True. Leave it out.", code="option-size")
        if self.noise is not None and self.weights != "confidence":
            raise InputError(
                f"weights={self.weights!r} has no use for noise. Leave it out.",
                code="option-noise",
            )

    @property
    def by_size(self) -> bool:
        """Whether teachers have to tell their size."""
        return self.weights == "size"


class Asking(Options):
    """What teachers are asked, and how many have to answer."""

    temperature: float = option(
        "Predictions become :math:`h^{1/T}`, normalised, at the teacher; with ``privacy_epsilon`` "
        "here, after the noise, and not together with ``noise``.",
        number(above=0),
        default=1.0,
    )
    decimals: int | None = option(
        "Predictions are rounded to so many decimals at the teacher, summing to 1; ``None`` does "
        "not round.",
        none_or(count(0, 12)),
        default=None,
    )
    privacy_epsilon: float | None = option(
        "Ask for predictions with Gaussian noise instead, charged to the teachers' ledgers: all "
        "answers of a teacher together are private for its training records. Sizes are not told "
        "then.",
        Check(lambda value, *_: value, float, "float, above 0, or None"),
        default=None,
    )
    privacy_delta: float = option(
        "Chance that the privacy budget is exceeded.",
        Check(lambda value, *_: value, float, "float, between 0 and 1"),
        default=1e-5,
    )
    shared: bool = switch(
        "Teachers have the transfer set, and questions carry places in it: nothing else is sent. "
        "A teacher that has another one is excluded."
    )
    question_batch: int | None = option(
        "Inputs of one question; 256, or 4096 with ``privacy_epsilon``. No more than teachers "
        "take.",
        none_or(count()),
        default=None,
        code="option-batch",
    )
    min_teachers: int = option(
        "Fewest teachers to go on with.", count(), default=1, code="option-teachers"
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
        """Most inputs of noise where their mean is told with noise."""
        return max(self.inputs_at_once, _PRIVATE_BATCH)
