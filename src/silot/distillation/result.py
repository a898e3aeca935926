"""What teachers predicted, and what a model learnt from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..federation.result import Array, Billed, finite, finite_rows

if TYPE_CHECKING:
    from . import LabelSpace
    from .scores import Scores

_VARIANTS = {"confidence": "E", "uniform": "A", "size": "D", "uniform-distance": "U"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions(Billed):
    """What every teacher says of a transfer set."""

    view: ClassVar = "view:predictions"

    names: tuple[str, ...]
    """The K teachers that answered everything, in the order of the alphabet."""
    outputs: Array = field(repr=False)
    """Shape (K, n, L): probabilities; noisy ones are moved onto the simplex."""
    biases: Array | None = field(repr=False)
    """Shape (K, L): mean predictions over noise; ``None`` when they were not asked for."""
    sizes: Mapping[str, int | None]
    """Training records by teacher, ``None`` where it does not tell."""
    noise: Mapping[str, float] = field(default_factory=dict[str, float])
    """Standard deviation of the noise in every probability, by teacher; empty without noise."""
    excluded: Mapping[str, str] = field(default_factory=dict[str, str])
    """Why other teachers take no part, as a code."""
    status: str = ""
    """The same in words."""

    def to_dict(self) -> dict[str, Any]:
        """Everything but the predictions themselves."""
        return {
            "names": list(self.names),
            "inputs": self.outputs.shape[1],
            "labels": self.outputs.shape[2],
            "biases": None if self.biases is None else finite_rows(self.biases),
            "sizes": dict(self.sizes),
            "noise": dict(self.noise),
            "excluded": dict(self.excluded),
            "status": self.status,
            **self._bill_dict(),
        }


@dataclass(frozen=True, kw_only=True, eq=False)
class Distillation(Billed):
    """A model that learnt from teachers' predictions, and how that went.

    The bill is that of asking the teachers. Where predictions came from a checkpoint it is the
    bill of the run that asked; there is no transcript then.

    Attributes
    ----------
    model
        The trained module, in evaluation mode; the one given stays as it was.
    space
        The labels.
    teachers
        Names, in the order of all arrays; ``"global"`` is the model as it was before, unless
        ``memory`` was off.
    losses
        Mean weighted loss of every epoch, (epochs,).
    by_teacher
        Mean loss against each teacher, without weights, (epochs, K).
    weights
        Shape (K, n): weight of every teacher for every input; sums to 1 over the teachers.
    biases
        Shape (K, L): mean predictions over noise; ``None`` when the weights do not need them.
    sizes
        Training records by teacher, as used or told; ``None`` where unknown.
    noise
        Standard deviation of the noise in every probability, by teacher; empty without noise.
    before, after
        Scores on test sets by name, of the model as it was and as it is.
    options
        Loss, weights, epochs and so on, as used.
    resumed
        Epochs taken from a checkpoint.
    excluded
        Teachers that took no part, with the code of the reason.
    status
        In words: who taught, who did not and why, and what to change.
    """

    view: ClassVar = "view:distillation"

    model: Any = field(repr=False)
    space: LabelSpace
    teachers: tuple[str, ...]
    losses: Array = field(repr=False)
    by_teacher: Array = field(repr=False)
    weights: Array = field(repr=False)
    biases: Array | None = field(repr=False)
    sizes: Mapping[str, float | None]
    noise: Mapping[str, float]
    before: Mapping[str, Scores] = field(repr=False)
    after: Mapping[str, Scores] = field(repr=False)
    options: Mapping[str, Any]
    resumed: int
    excluded: Mapping[str, str]
    status: str
    predictor: Callable[[Any], Array] = field(repr=False)

    @property
    def algorithm(self) -> str:
        """The paper's name of loss and weights, and what they mean."""
        name, meaning = "Sinkhorn", "exact transport"
        if self.options["loss"] == "entropy":
            name, meaning = "Entropy", "Kullback-Leibler"
        elif self.options["epsilon"] is not None:
            meaning = f"transport with epsilon {self.options['epsilon']:g}"
        weights = str(self.options["weights"])
        kept = ", of a closest majority" if self.options.get("robust") else ""
        return f"{name}-{_VARIANTS[weights]}: {meaning}, weights by {weights}{kept}"

    def probabilities(self, inputs: npt.ArrayLike | Sequence[str]) -> Array:
        """Predict probabilities of the labels, (n, L), for records or texts."""
        return self.predictor(inputs)

    def predict(self, inputs: npt.ArrayLike | Sequence[str]) -> npt.NDArray[np.str_]:
        """Predict the most probable label of records or texts, by name, (n,)."""
        return np.array(self.space.names)[self.probabilities(inputs).argmax(axis=1)]

    def to_dict(self) -> dict[str, Any]:
        return {
            "teachers": list(self.teachers),
            "labels": self.space.to_dict(),
            "losses": [finite(float(value)) for value in self.losses],
            "by_teacher": finite_rows(self.by_teacher),
            "weights": {
                name: {
                    "mean": float(row.mean()),
                    "least": float(row.min()),
                    "most": float(row.max()),
                }
                for name, row in zip(self.teachers, self.weights, strict=True)
            },
            "biases": None if self.biases is None else finite_rows(self.biases),
            "sizes": dict(self.sizes),
            "noise": dict(self.noise),
            "before": {name: scores.to_dict() for name, scores in self.before.items()},
            "after": {name: scores.to_dict() for name, scores in self.after.items()},
            "options": dict(self.options),
            "resumed": self.resumed,
            "excluded": dict(self.excluded),
            "status": self.status,
            **self._bill_dict(),
        }

    def __repr__(self) -> str:
        accuracies = "".join(
            f", {name}: accuracy {scores.accuracy:.3f}" for name, scores in self.after.items()
        )
        return (
            f"Distillation({len(self.teachers)} teachers, {len(self.losses)} epochs, loss "
            f"{self.losses[-1]:.3g}{accuracies})"
        )
