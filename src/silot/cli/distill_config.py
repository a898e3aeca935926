"""What a file for ``silot distill`` may say, checked before anything is read or trained."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, ValidationError

from ..data.documents import complaint, read_fields
from ..distillation import LabelSpace
from ..errors import InputError, SilotError
from ..federation.policy import Policy


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Columns(_Strict):
    """Columns of tables; ``.npz`` files name their arrays X and y instead."""

    text_column: str | None = None
    premise_column: str | None = None
    hypothesis_column: str | None = None
    label_column: str | None = None
    feature_columns: tuple[str, ...] | None = None


def _named_file(value: Any) -> Any:
    return {"file": value} if isinstance(value, str) else value


def _named_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


class FileSource(Columns):
    """A data file."""

    file: Path


Source = Annotated[FileSource, BeforeValidator(_named_file)]


class Fit(_Strict):
    """How a model is fitted to labelled records."""

    epochs: int = Field(default=5, ge=1)
    rate: float = Field(default=1e-3, gt=0)
    batch: int = Field(default=32, ge=1)
    decay: float = Field(default=0.01, ge=0)
    balanced: bool = False


class Vectors(_Strict):
    """A ``VectorHead``; columns are brought to the transfer set's mean 0 and deviation 1."""

    kind: Literal["vectors"]
    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.1
    standardise: bool = True


class _Words(_Strict):
    vocabulary: int = Field(default=10_000, ge=1)
    buckets: int = Field(default=1024, ge=0)


class Bag(_Words):
    """A ``BagOfWords``."""

    kind: Literal["bag"]
    width: int = 64
    length: int = 256
    dropout: float = 0.1


class Sequential(_Words):
    """A ``Transformer`` trained from scratch."""

    kind: Literal["transformer"]
    width: int = 64
    layers: int = 2
    heads: int = 4
    length: int = 128
    dropout: float = 0.1


class Hub(_Strict):
    """A model of Hugging Face, by name or from a folder."""

    kind: Literal["pretrained"]
    name: str
    length: int = 128
    revision: str | None = None
    local_files_only: bool = False
    new_head: bool = False


Model = Annotated[
    Annotated[Vectors | Bag | Sequential | Hub, Field(discriminator="kind")],
    BeforeValidator(_named_kind),
]


class Learner(_Strict):
    """A model: what it is, and the data it is fitted to or a file of its parameters."""

    model: Model | None = None
    train: Source | None = None
    fit: Fit | None = None
    parameters: Path | None = None


def _policy(body: object) -> object:
    """A policy; what is wrong with it is said of the field that has it."""
    try:
        return Policy(**body) if isinstance(body, dict) else body
    except InputError as error:
        raise ValueError(error.message) from None


class Instructor(Learner):
    """A teacher: its model, its rules, and the account that noisy predictions are charged to."""

    policy: Annotated[Policy | None, BeforeValidator(_policy)] = None
    ledger: Path | None = None
    parts: int = Field(default=1, ge=1)
    size: int | None = Field(default=None, ge=1)


class Labels(_Strict):
    """A label space: a preset, names with coordinates, or names alone."""

    preset: str | None = None
    names: tuple[str, ...] | None = None
    coordinates: tuple[float | tuple[float, ...], ...] | None = None
    one_hot: bool = False
    metric: Literal["euclidean", "cityblock"] = "euclidean"
    title: str = ""

    def space(self) -> LabelSpace:
        """The label space meant."""
        ways = [self.preset is not None, self.coordinates is not None, self.one_hot]
        if sum(ways) != 1:
            raise InputError(
                "give one of preset, coordinates (a row for each label) and one_hot: true.",
                code="distill-field",
            )
        if self.coordinates is not None:
            return LabelSpace(self.coordinates, self.names, self.metric, self.title)
        if self.preset is not None:
            known = LabelSpace.preset(self.preset)
            names = self.names or known.names
            title = self.title or known.title
            return LabelSpace(known.coordinates, names, self.metric, title)
        if self.names is None:
            raise InputError("labels without coordinates need names.", code="distill-field")
        return LabelSpace.one_hot(self.names, title=self.title)


def _named_preset(value: Any) -> Any:
    return {"preset": value} if isinstance(value, str) else value


def _teacher(value: Any) -> Any:
    return {"train": value} if isinstance(value, str) else value


class Config(Columns):
    """Everything a file says; paths are relative to the file."""

    labels: Annotated[Labels, BeforeValidator(_named_preset)]
    student: Learner = Field(alias="global")
    teachers: dict[str, Annotated[Instructor, BeforeValidator(_teacher)]]
    transfer: Source
    tests: dict[str, Source] = {}
    loss: Literal["sinkhorn", "entropy"] = "sinkhorn"
    weights: Literal["confidence", "uniform", "size", "uniform-distance"] = "confidence"
    weight_cap: float | None = 1.5
    robust: bool = False
    noise: StrictInt | Source | None = None
    memory: bool = True
    memory_size: int | None = Field(default=None, ge=1)
    epochs: int = 10
    rate: float = 1e-3
    batch: int = 64
    epsilon: float | None = None
    temperature: float = 1.0
    decimals: int | None = None
    privacy_epsilon: float | None = None
    privacy_delta: float = 1e-5
    shared: bool = False
    question_batch: int | None = None
    min_teachers: int = 1
    timeout: float | None = None
    seed: int = 0

    @classmethod
    def load(cls, path: Path) -> Config:
        """Read a file, or raise an error that names the field."""
        body = read_fields(path)
        try:
            found = cls(**body)
        except ValidationError as error:
            raise _translated(path, body, error) from None
        with field(path, "teachers"):
            if len(found.teachers) < 2:
                raise InputError(
                    f"{len(found.teachers)} teacher(s); give two or more, by name.",
                    code="holder-names",
                )
            if found.memory and "global" in found.teachers:
                raise InputError(
                    "a teacher is called 'global', as the model itself is. Give it another name, "
                    "or memory: false.",
                    code="holder-names",
                )
        with field(path, "noise"):
            if found.noise is not None and found.weights != "confidence":
                raise InputError(
                    f"weights: {found.weights} has no use for it. Leave it out.",
                    code="option-noise",
                )
        for place, learner in (("global", found.student), *_placed(found.teachers)):
            with field(path, place):
                _check(learner, found)
        return found


def _placed(teachers: Mapping[str, Instructor]) -> Iterator[tuple[str, Instructor]]:
    return ((f"teachers.{name}", each) for name, each in teachers.items())


def _check(learner: Learner, config: Config) -> None:
    if learner.train is not None and learner.parameters is not None:
        raise InputError(
            "train and parameters are both given. Give data to train on, or parameters.",
            code="distill-field",
        )
    given = learner.train is not None or learner.parameters is not None
    if isinstance(learner, Instructor):
        if not given:
            raise InputError(
                "it has no data. Give train (a file of labelled records) or parameters (a file "
                "of a trained model).",
                code="distill-teacher",
            )
        if learner.parts > 1 and learner.train is None:
            raise InputError("parts are trained from data: give train.", code="distill-field")
        return
    if learner.model is None and learner.parameters is None:
        raise InputError(
            "model is missing: vectors, bag, transformer or pretrained.", code="distill-field"
        )
    if not given and config.memory and not isinstance(learner.model, Hub):
        raise InputError(
            "it is not trained, and would teach itself what it does not know. Give train, "
            "parameters, or memory: false.",
            code="distill-field",
        )


@contextmanager
def field(path: Path, place: str) -> Iterator[None]:
    """Put the file and the field before the message of an error."""
    try:
        yield
    except SilotError as error:
        message = f"{path.name}, {place}: {error.message}"
        raise type(error)(message, code=error.code) from None


def _translated(path: Path, body: Mapping[str, Any], error: ValidationError) -> InputError:
    found = complaint(error, body)
    code = {"unknown": "distill-unknown-field", "missing": "distill-missing-field"}
    return InputError(
        f"{path.name}, {'.'.join(found.place) or 'the file'}: {found.message}",
        code=code.get(found.kind, "distill-field"),
    )
