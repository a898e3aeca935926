"""What teachers predicted, and what a model learnt from it."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..data.files import write_whole
from ..distances.result import fields_by_name
from ..federation.result import Array, RunResult, plain

if TYPE_CHECKING:
    from . import LabelSpace
    from .scores import Scores

_VARIANTS = {
    "confidence": "E", "uniform": "A", "size": "D", "uniform-distance": "U", "validation": "V"
}  # fmt: skip


@dataclass(frozen=True, kw_only=True, eq=False)
class Predictions(RunResult):
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

    @property
    def value(self) -> None:
        """Nothing: predictions are arrays."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Everything but the predictions themselves."""
        _, inputs, labels = self.outputs.shape
        return {
            **fields_by_name(self, "names", "biases", "sizes", "noise", "excluded", "status"),
            "inputs": inputs,
            "labels": labels,
            **self._cost_dict(),
        }


@dataclass(frozen=True)
class Trial:
    """How good a model is on validation records."""

    what: str
    """A teacher, a mixture of them, or a student."""
    name: str
    score: float
    """Mean halved Brier score: 0 is best, 1 is worst."""
    accuracy: float
    errors: Array = field(repr=False)
    """The score of every record, (m,)."""

    @classmethod
    def of(cls, what: str, name: str, outputs: Array, codes: npt.NDArray[np.int64]) -> Trial:
        """Score predictions (m, L)."""
        off = outputs - np.eye(outputs.shape[1])[codes]
        errors = (off**2).sum(axis=1) / 2.0
        right = float((outputs.argmax(axis=1) == codes).mean())
        return cls(what, name, float(errors.mean()), right, errors)

    def to_dict(self) -> dict[str, Any]:
        """Everything but single records."""
        return fields_by_name(self, "what", "name", "score", "accuracy")


@dataclass(frozen=True, kw_only=True, eq=False)
class Distillation(RunResult):
    """A model that learnt from teachers' predictions, and how that went.

    The cost is that of asking the teachers. Where predictions came from a checkpoint it is the
    cost of the run that asked; there is no transcript then.

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
        Training records by teacher, as used or sent; ``None`` where unknown.
    noise
        Standard deviation of the noise in every probability, by teacher; empty without noise.
    before, after
        Scores on test sets by name, of the model as it was and as it is.
    trials
        Scores on validation records of teachers, mixtures and students; empty without any.
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
    trials: tuple[Trial, ...] = field(default=(), repr=False)
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

    def predict_proba(self, inputs: npt.ArrayLike | Sequence[str]) -> Array:
        """Predict probabilities of the labels, (n, L), for records or texts."""
        return self.predictor(inputs)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the parameters of the model to an ``.npz``, for its owner's eyes only.

        ``silot.distillation.load_parameters`` puts them into a module of the same layers, and
        ``silot.distillation.recipes.load_model`` reads them with how the model is built.
        """
        # Slow to import.
        from .modules import parameters_of

        file = io.BytesIO()
        parameters: dict[str, Any] = parameters_of(self.model)
        np.savez(file, **parameters)
        write_whole(Path(path), file.getvalue(), private=True)

    def predict(self, inputs: npt.ArrayLike | Sequence[str]) -> npt.NDArray[np.str_]:
        """Predict the most probable label of records or texts, by name, (n,)."""
        return np.array(self.space.names)[self.predict_proba(inputs).argmax(axis=1)]

    @property
    def value(self) -> dict[str, float]:
        """The accuracy on each set of test records."""
        return {name: scores.accuracy for name, scores in self.after.items()}

    def to_dict(self) -> dict[str, Any]:
        names = (
            "teachers", "losses", "by_teacher", "biases", "sizes", "noise", "before", "after",
            "trials", "options", "resumed", "excluded", "status",
        )  # fmt: skip
        return {
            **fields_by_name(self, *names),
            "labels": self.space.to_dict(),
            "weights": {
                name: plain({"mean": row.mean(), "least": row.min(), "most": row.max()})
                for name, row in zip(self.teachers, self.weights, strict=True)
            },
            **self._cost_dict(),
        }

    def __repr__(self) -> str:
        accuracies = "".join(
            f", {name}: accuracy {scores.accuracy:.3f}" for name, scores in self.after.items()
        )
        return (
            f"Distillation({len(self.teachers)} teachers, {len(self.losses)} epochs, loss "
            f"{self.losses[-1]:.3g}{accuracies})"
        )
