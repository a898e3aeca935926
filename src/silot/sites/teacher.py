"""The teacher of a site: models that were fitted before it joined, in files of its kit."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..data.container import recognise
from ..data.files import write_whole
from ..distillation.questions import Inputs, check_inputs
from ..distillation.teacher import Teacher
from ..federation.policy import Policy
from ..federation.question import Question
from ..privacy.ledger import Ledger
from .secure_holder import SecureHolder

if TYPE_CHECKING:
    from torch import nn

    from ..distillation.recipes import Recipe
    from .kit import Kit


class TeacherFiles(BaseModel):
    """A teacher as a site keeps it; what it disclosed, and was charged, is in the site's ledger.

    Attributes
    ----------
    models
        Files of the models, each fitted to its own part of the records.
    inputs
        The transfer set, where the site has it.
    size
        How many records the models were fitted to.
    askers
        Who is answered; ``None`` for all of the project.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    models: tuple[Path, ...]
    inputs: Path | None = None
    size: int | None = None
    askers: tuple[str, ...] | None = None

    def load_models(self) -> list[tuple[nn.Module, Recipe]]:
        """Load the models, and how each is built."""
        # Slow to import; the first says which extra is missing.
        from ..distillation import train  # noqa: F401
        from ..distillation.recipes import load_model

        return [load_model(path) for path in self.models]

    def read_inputs(self) -> Inputs | None:
        """Read the transfer set."""
        if self.inputs is None:
            return None
        points: Any = recognise(self.inputs).arrays()["X"]
        return check_inputs(points.tolist() if points.dtype.kind == "U" else points)

    def build(self, policy: Policy, ledger: Ledger) -> Teacher:
        """Build the party that answers about the models."""
        models = self.load_models()
        # Slow to import.
        from ..distillation import module_predict

        return Teacher(
            [partial(module_predict, module) for module, _ in models], size=self.size,
            labels=models[0][1].labels.names, policy=policy, ledger=ledger,
            inputs=self.read_inputs(), askers=self.askers,
        )  # fmt: skip

    def describe(self) -> str:
        """Describe the teacher in a sentence for the admin of the site."""
        models, inputs = self.load_models(), self.read_inputs()
        kinds = sorted({recipe.kind for _, recipe in models})
        parts = [
            f"{len(models)} model{'s' * (len(models) > 1)} ({', '.join(kinds)}) of the labels "
            f"{', '.join(models[0][1].labels.names)}"
        ]
        parts += [] if self.size is None else [f"of {self.size} records"]
        parts += [] if inputs is None else [f"{len(inputs)} inputs of a transfer set are here"]
        askers = "every asker" if self.askers is None else ", ".join(self.askers)
        return f"{'; '.join(parts)}; may answer {askers}, as the policy allows"


def save_teacher(
    folder: Path,
    models: Sequence[tuple[nn.Module, Recipe]],
    *,
    inputs: Inputs | None,
    size: int | None,
    askers: tuple[str, ...] | None,
) -> TeacherFiles:
    """Write what a site teaches with to a folder of its kit."""
    # Slow to import.
    from ..distillation.recipes import save_model

    files = [folder / f"teacher-{k + 1}.npz" for k in range(len(models))]
    for file, (module, recipe) in zip(files, models, strict=True):
        save_model(file, module, recipe)
    transfer = None
    if inputs is not None:
        transfer, buffer = folder / "transfer.npz", io.BytesIO()
        np.savez(buffer, X=np.asarray(inputs))
        write_whole(transfer, buffer.getvalue(), private=True)
    return TeacherFiles(models=tuple(files), inputs=transfer, size=size, askers=askers)


def fit_teacher(
    path: Path, tell: Callable[[str, int, int, float], None]
) -> Callable[[Kit], TeacherFiles]:
    """Fit the teacher that a file describes; return what writes it to a kit.

    ``tell`` receives a model's name, the epochs that are done and all, and the loss.
    """
    # Slow to import.
    from ..distillation.configuration import Fitted, SiteTeacher, name_field

    config = SiteTeacher.load(path)
    space, transfer, data = config.read_files(path)
    # Slow to import; the first says which extra is missing.
    from ..distillation import train  # noqa: F401
    from ..distillation.building import Builder, count_records

    with name_field(path, "model"):
        fit = config.fit or Fitted()
        builder = Builder(path.parent, space, transfer, fit, config.seed, None, tell)
        models = builder.models("teacher", config, data)
    how = {"size": count_records(config, data), "askers": config.askers}
    inputs = None if transfer is None else transfer.inputs
    return lambda kit: save_teacher(kit.own, models, inputs=inputs, **how)


class TeachingHolder(SecureHolder):
    """A holder whose model answers too, under the same name.

    Parameters
    ----------
    teacher
        Who answers questions about the model.
    *data
        As of a ``SecureHolder``.
    """

    def __init__(self, teacher: Teacher, *data: Any) -> None:
        super().__init__(*data)
        self._teacher = teacher

    def _reply(self, question: Question, asker: str, run: str = "") -> bytes:
        if question.on == "model":
            return self._teacher._reply(question, asker, run)
        return super()._reply(question, asker, run)
