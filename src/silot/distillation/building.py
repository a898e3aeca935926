"""The models of ``silot train distill``: built, trained, and kept for a run that resumes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from ..data.checkpoint import fingerprint, load, make_folder, save
from ..data.preflight import Preflight
from ..errors import InputError, MismatchError
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from .configuration import (
    Bag,
    Fitted,
    Hub,
    Instructor,
    Learner,
    Model,
    Parts,
    Records,
    Setup,
    Vectors,
    name_field,
)
from .fitting import fit, module_predict
from .job import inspect_vectors
from .labels import LabelSpace
from .modules import load_parameters, parameters_of
from .options import Fit
from .questions import hash_inputs
from .recipes import Recipe, load_model
from .teacher import Teacher
from .text import PAIR, Vocabulary

Tell = Callable[[str, int, int, float], None]
"""Called with the name of the model that is trained, its epoch, the epochs there are, the loss."""


@dataclass
class Builder:
    """Build models for one label space and one transfer set; a site may teach without the latter.

    Paths are relative to ``home``. Models that do not say it are fitted as ``how`` says, and built
    as the ``common`` one. The folder ``checkpoint`` keeps trained models, if there is one.
    """

    home: Path
    space: LabelSpace
    transfer: Records | None
    how: Fitted
    seed: int
    checkpoint: Path | None
    tell: Tell
    common: Recipe | None = None
    _words: dict[tuple[int, int], Vocabulary] = field(default_factory=dict)

    @classmethod
    def of(cls, setup: Setup, seed: int, checkpoint: Path | None, tell: Tell) -> Builder:
        """Return what builds the models of a file."""
        how = setup.config.student.fit or Fitted()
        return cls(setup.path.parent, setup.space, setup.transfer, how, seed, checkpoint, tell)

    def student(self, setup: Setup) -> tuple[nn.Module, Recipe]:
        """Build the global model, which is the common one of the teachers too."""
        with name_field(setup.path, "global"):
            data = setup.files.get("global.train")
            module, self.common = self.model("global", setup.config.student, data)
        return module, self.common

    def teachers(self, setup: Setup) -> dict[str, Teacher]:
        """Build all teachers of a file, by name."""
        teachers: dict[str, Teacher] = {}
        for name, teacher in setup.config.teachers.items():
            with name_field(setup.path, f"teachers.{name}"):
                data = setup.files.get(f"teachers.{name}.train")
                teachers[name] = self.teacher(name, teacher, data)
        return teachers

    def model(self, name: str, learner: Learner, data: Records | None) -> tuple[nn.Module, Recipe]:
        """Train a model on data, read it from a file, or build it."""
        recipe = None if learner.model is None else self.recipe(learner.model)
        if learner.parameters is not None:
            module, recipe = load_model(self.home / learner.parameters, recipe)
            if recipe.labels.names != self.space.names:
                raise MismatchError(
                    f"{learner.parameters.name} is a model of other labels.", code="model-labels"
                )
            return module, replace(recipe, labels=self.space)
        recipe = recipe or self.common
        if recipe is None:
            raise InputError("model is missing.", code="distill-field")
        if data is None:
            return recipe.build(self.seed), recipe
        return self.train(name, learner, recipe, data), recipe

    def models(
        self, name: str, teacher: Parts, data: Records | None
    ) -> list[tuple[nn.Module, Recipe]]:
        """Train the model of a teacher, or one for each part of its records."""
        if teacher.parts == 1 or data is None:
            return [self.model(name, teacher, data)]
        return [
            self.model(f"{name}, part {k + 1}", teacher, part)
            for k, part in enumerate(split_records(data, teacher.parts))
        ]

    def teacher(self, name: str, teacher: Instructor, data: Records | None) -> Teacher:
        """Build a teacher with its own model, or the mean of several."""
        models = [partial(module_predict, model) for model, _ in self.models(name, teacher, data)]
        return Teacher(
            # Several as a list: the teacher replaces what one of them fails to predict.
            models if len(models) > 1 else models[0],
            size=count_records(teacher, data),
            labels=self.space.names,
            # The caller owns the data: without rules of its own everything is allowed.
            policy=Policy.open() if teacher.policy is None else teacher.policy,
            ledger=Ledger(None if teacher.ledger is None else self.home / teacher.ledger),
            parts=teacher.parts,
            inputs=None if self.transfer is None else self.transfer.inputs,
        )

    def recipe(self, model: Model) -> Recipe:
        """Say how a model is built; what is not in the file comes from the transfer set."""
        if self.transfer is None:
            raise InputError(
                "words, and the scale of vectors, come from the transfer set. Give transfer.",
                code="distill-field",
            )
        inputs = self.transfer.inputs
        options = model.model_dump(exclude={"kind", "vocabulary", "buckets", "standardise"})
        if isinstance(model, Vectors):
            if isinstance(inputs, list):
                raise MismatchError(
                    "a model of vectors cannot read texts. Give bag or pretrained.",
                    code="inputs-kind",
                )
            dimension = inputs.shape[1]
            mean, scale = np.zeros(dimension), np.ones(dimension)
            if model.standardise:
                mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
                # A column of one value tells nothing, and stays as it is.
                scale = np.where(scale > 0, scale, 1.0)
            options |= {"dimension": dimension, "hidden": list(model.hidden)}
            options |= {"mean": mean.tolist(), "scale": scale.tolist()}
            return Recipe("vectors", self.space, options)
        if not isinstance(inputs, list):
            raise MismatchError(
                f"a model of kind {model.kind} reads texts, and the transfer set is of vectors. "
                "Give vectors, or name a text_column.",
                code="inputs-kind",
            )
        if isinstance(model, Hub):
            if (self.home / model.name).is_dir():
                options["name"] = str((self.home / model.name).resolve())
            return Recipe("pretrained", self.space, options)
        options["pairs"] = PAIR in inputs[0]
        return Recipe(model.kind, self.space, options, self._vocabulary(model, inputs))

    def _vocabulary(self, model: Bag, texts: Sequence[str]) -> Vocabulary:
        size = model.vocabulary, model.buckets
        if size not in self._words:
            self._words[size] = Vocabulary.build(texts, size=size[0], buckets=size[1])
        return self._words[size]

    def train(self, name: str, learner: Learner, recipe: Recipe, data: Records) -> nn.Module:
        """Fit a model to data, or read what an earlier run fitted."""
        fields = (learner.fit or self.how).model_dump()
        how = Fit(**fields, seed=self.seed)
        module = recipe.build(self.seed)
        place, mark = None, ""
        if self.checkpoint is not None:
            # Names may hold anything; a digest is a file name everywhere.
            digest = hashlib.sha256(name.encode()).hexdigest()[:16]
            place = make_folder(self.checkpoint) / f"model-{digest}.npz"
            mark = fingerprint(
                recipe=recipe.to_dict(),
                fit=fields,
                seed=self.seed,
                inputs=hash_inputs(data.inputs),
                codes=data.truth.values,
            )
            kept = load(place, "model", mark)
            if kept is not None:
                return load_parameters(module, kept[1])
        fit(
            module,
            data.inputs,
            data.truth.values,
            how,
            progress=lambda epoch, loss: self.tell(name, epoch, how.epochs, loss),
        )
        if place is not None:
            save(place, "model", mark, {}, parameters_of(module))
        return module


def count_records(teacher: Parts, data: Records | None) -> int | None:
    """Return how many records a teacher learnt from, if that is known."""
    return teacher.size or (None if data is None else len(data.inputs))


def split_records(data: Records, count: int) -> list[Records]:
    """Split records into parts; which part a record is in depends only on that record."""
    codes, inputs = data.truth, data.inputs
    parts = np.array(
        [_choose_part(x, int(y), count) for x, y in zip(inputs, codes.values, strict=True)]
    )
    split: list[Records] = []
    for part in range(count):
        rows = np.flatnonzero(parts == part)
        if not len(rows):
            raise InputError(
                f"part {part + 1} of {count} has no records. Give fewer parts.",
                code="distill-parts",
            )
        chosen = [inputs[k] for k in rows] if isinstance(inputs, list) else inputs[rows]
        split.append(Records(chosen, codes[rows]))
    return split


def _choose_part(record: Any, code: int, count: int) -> int:
    raw = record.encode() if isinstance(record, str) else np.ascontiguousarray(record).tobytes()
    digest = hashlib.sha256(raw + code.to_bytes(4, "little")).digest()
    return int.from_bytes(digest[:8], "little") % count


def inspect(setup: Setup) -> Preflight | None:
    """Inspect the vectors that a file names; nobody saw those of teachers with models alone."""
    owned = setup.owners()
    return inspect_vectors(
        {name: records.inputs for name, records in owned.items()},
        [name for name in setup.config.teachers if name not in owned],
        {name: records.features for name, records in owned.items()},
    )
