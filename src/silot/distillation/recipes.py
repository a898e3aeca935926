"""How a model is built, so that a file of parameters is enough to use it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, get_args

import torch

from ..data.checkpoint import write_arrays
from ..data.foreign import guard, parse_json, read_npz
from ..errors import FileError, InputError, MismatchError
from .labels import LabelSpace
from .models import BagOfWords, VectorHead, pretrained
from .modules import load_parameters, parameters_of
from .text import Vocabulary

Kind = Literal["vectors", "bag", "pretrained"]

_BUILDERS: dict[str, Any] = {
    "vectors": VectorHead,
    "bag": BagOfWords,
    "pretrained": pretrained,
}
_RECIPE, _PARAMETER = "recipe", "parameter."


@dataclass(frozen=True)
class Recipe:
    """Everything about a model but its parameters.

    Raises
    ------
    InputError
        A kind that is none, or a vocabulary where none is needed or none where one is.

    Examples
    --------
    >>> recipe = Recipe("vectors", LabelSpace([0.0, 1.0]), {"dimension": 3, "hidden": [4]})
    >>> recipe.build(seed=0)(torch.zeros(5, 3)).shape
    torch.Size([5, 2])
    >>> Recipe.from_dict(recipe.to_dict()) == recipe
    True
    """

    kind: Kind
    """``"vectors"`` (``VectorHead``), ``"bag"`` (``BagOfWords``) or ``"pretrained"``."""
    labels: LabelSpace
    """The labels."""
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Other arguments of its constructor, as plain values."""
    vocabulary: Vocabulary | None = field(default=None, repr=False)
    """Its words, for ``"bag"``."""

    def __post_init__(self) -> None:
        if self.kind not in _BUILDERS:
            raise InputError(
                f"{self.kind!r} is not a kind of model; give one of {', '.join(get_args(Kind))}.",
                code="model-kind",
            )
        if (self.vocabulary is not None) != (self.kind == "bag"):
            raise InputError(
                "a bag of words has a vocabulary, other models have none.",
                code="model-vocabulary",
            )

    def build(self, seed: int = 0) -> torch.nn.Module:
        """Build the module; same seed, same first parameters."""
        options = dict(self.options)
        place: Any = options.pop("dimension", options.pop("name", None))
        first = self.vocabulary if self.vocabulary is not None else place
        return _BUILDERS[self.kind](first, self.labels, **options, seed=seed)

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON."""
        return {
            "kind": self.kind,
            "labels": self.labels.to_dict(),
            "options": dict(self.options),
            "vocabulary": None if self.vocabulary is None else self.vocabulary.to_dict(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Recipe:
        """Read what ``to_dict`` wrote, or raise an ``InputError`` where it is not a recipe."""
        if set(values) != {"kind", "labels", "options", "vocabulary"}:
            raise InputError(
                "a recipe has kind, labels, options and vocabulary.", code="model-fields"
            )
        words = values["vocabulary"]
        return cls(
            values["kind"],
            LabelSpace.from_dict(values["labels"]),
            dict(values["options"]),
            None if words is None else Vocabulary.from_dict(words),
        )


def save_model(path: str | Path, module: torch.nn.Module, recipe: Recipe) -> None:
    """Write a model to one ``.npz`` file, whole or not at all, for its owner's eyes only.

    The file holds numbers and text alone: nothing in it is run when it is read. ``module`` is what
    ``recipe`` builds, trained.

    Raises
    ------
    FileError
        It cannot be written.
    """
    write_arrays(Path(path), parameters_of(module), _PARAMETER, _RECIPE, recipe.to_dict())


def load_model(path: str | Path, recipe: Recipe | None = None) -> tuple[torch.nn.Module, Recipe]:
    """Read a model that ``save_model`` wrote, or the parameters of one, and how it is built.

    A file with parameters alone (``numpy.savez(path, **parameters_of(module))``) needs ``recipe``.

    Raises
    ------
    FileError
        The file is missing or damaged (``"file-missing"``, ``"file-unreadable"``).
    InputError, MismatchError
        No recipe in the file and none given (``"model-recipe"``); parameters of another model.

    Examples
    --------
    >>> import tempfile
    >>> recipe = Recipe("vectors", LabelSpace([0.0, 1.0]), {"dimension": 3})
    >>> place = Path(tempfile.mkdtemp()) / "model.npz"
    >>> save_model(place, recipe.build(), recipe)
    >>> load_model(place)[1] == recipe
    True
    """
    file = Path(path)
    if not file.exists():
        raise FileError(f"{file} does not exist. Check the path.", code="file-missing")
    arrays = read_npz(
        file,
        lambda why: FileError(
            f"{file.name} cannot be read as .npz ({why}). Give a model that silot saved.",
            code="file-unreadable",
        ),
    )
    document = arrays.pop(_RECIPE, None)
    if document is not None:

        def fail(why: str) -> FileError:
            return FileError(
                f"{file.name} does not say how its model is built ({why}). Save it again.",
                code="file-unreadable",
            )

        with guard(fail):
            own = Recipe.from_dict(parse_json(document.tobytes(), fail))
        if recipe is not None and replace(recipe, labels=own.labels) != own:
            raise MismatchError(
                f"{file.name} describes another model. Leave your description of the model out.",
                code="model-recipe",
            )
        recipe = own
        arrays = {name.removeprefix(_PARAMETER): array for name, array in arrays.items()}
    if recipe is None:
        raise InputError(
            f"{file.name} holds parameters but does not say of which model. Describe the model.",
            code="model-recipe",
        )
    return load_parameters(recipe.build(), arrays), recipe
