"""What a file for ``silot distill`` may say, checked before anything is read or trained."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    ValidationError,
    create_model,
)

from ..api.distill import Distill
from ..data.documents import complaint, read_fields
from ..distillation import Fit, LabelSpace
from ..errors import InputError, SilotError
from ..federation.policy import Policy
from ..options import Declared, Options, declared

# What a file says in so many words; noise may be a file.
_OPTIONS = [item.name for item in declared(Distill) if item.flag]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


F = TypeVar("F", bound=_Strict)


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


def _keys(kind: type[Options], at_once: Collection[str] = ()) -> type[_Strict]:
    """Keys of the options of a class, of the types that are declared.

    Values are checked ``at_once``, for the error to name the key, or when the class is made.
    """
    hints = get_type_hints(kind)
    keys: dict[str, Any] = {}
    for item in declared(kind):
        if item.flag:
            hint = hints[item.name]
            checked = Annotated[hint, _check_of(item)] if item.name in at_once else hint
            keys[item.name] = (checked, item.default)
    return create_model(kind.__name__, __base__=_Strict, **keys)


def _check_of(item: Declared) -> AfterValidator:
    def checked(value: Any) -> Any:
        try:
            return item.check.of(value, item.name, item.code)
        except InputError as error:
            raise ValueError(error.message) from None

    return AfterValidator(checked)


class Fitted(_keys(Fit, at_once=Fit.options)):
    """How a model is fitted to labelled records."""

    def options(self, seed: int) -> Fit:
        """The options meant."""
        return Fit(**self.model_dump(), seed=seed)


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
    fit: Fitted | None = None
    parameters: Path | None = None


def _policy(body: object) -> object:
    """A policy; what is wrong with it is said of the field that has it."""
    try:
        return Policy(**body) if isinstance(body, dict) else body
    except InputError as error:
        raise ValueError(error.message) from None


class Parts(Learner):
    """A model that teaches, or the mean of several, each fitted to a part of the records."""

    parts: int = Field(default=1, ge=1)
    size: int | None = Field(default=None, ge=1)


class Instructor(Parts):
    """A teacher: its model, its rules, and the account that noisy predictions are charged to."""

    policy: Annotated[Policy | None, BeforeValidator(_policy)] = None
    ledger: Path | None = None


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


def _named_teachers(value: Any) -> Any:
    """Names alone are sites with models of their own."""
    return {str(name): {} for name in value} if isinstance(value, list) else value


class SiteTeacher(Columns, Parts):
    """What a file says of the teacher of a site; paths are relative to the file."""

    labels: Annotated[Labels, BeforeValidator(_named_preset)]
    transfer: Source | None = None
    askers: tuple[str, ...] | None = None
    seed: int = Field(default=0, ge=0)

    @classmethod
    def load(cls, path: Path) -> SiteTeacher:
        """Read a file, or raise an error that names the field."""
        found = _read(cls, path)
        with field(path, "the file"):
            _check_teacher(found)
        return found


class Config(Columns, _keys(Distill, at_once=("memory_size",))):
    """Everything a file says; paths are relative to the file."""

    labels: Annotated[Labels, BeforeValidator(_named_preset)]
    student: Learner = Field(alias="global")
    teachers: Annotated[
        dict[str, Annotated[Instructor, BeforeValidator(_teacher)]],
        BeforeValidator(_named_teachers),
    ]
    transfer: Source
    tests: dict[str, Source] = {}
    noise: StrictInt | Source | None = None

    def options(self) -> Distill:
        """The options meant, but for noise, which may be a file."""
        return Distill(**{name: value for name, value in self if name in _OPTIONS})

    def files(self, home: Path) -> list[Path]:
        """All files that are named, from the folder of this one."""
        body: list[Any] = [self.model_dump()]
        named: list[Path] = []
        for item in body:
            if isinstance(item, Path):
                named.append(home / item)
            elif isinstance(item, dict):
                body += item.values()
        return named

    @classmethod
    def load(cls, path: Path, *, there: bool = False) -> Config:
        """Read a file, or raise an error that names the field; teachers are sites if ``there``."""
        found = _read(cls, path)
        with field(path, "options"):
            how = found.options()
        with field(path, "teachers"):
            if len(found.teachers) < 2:
                raise InputError(
                    f"{len(found.teachers)} teacher(s); give two or more, by name.",
                    code="holder-names",
                )
            if how.memory and "global" in found.teachers:
                raise InputError(
                    "a teacher is called 'global', as the model itself is. Give it another name, "
                    "or memory: false.",
                    code="holder-names",
                )
        with field(path, "noise"):
            if found.noise is not None and how.weights != "confidence":
                raise InputError(
                    f"weights: {how.weights} has no use for it. Leave it out.",
                    code="option-noise",
                )
        for place, learner in (("global", found.student), *_placed(found.teachers, there)):
            with field(path, place):
                _check(learner, how.memory)
        return found


def _placed(teachers: Mapping[str, Instructor], there: bool) -> Iterator[tuple[str, Instructor]]:
    for name, each in teachers.items():
        if not there:
            yield f"teachers.{name}", each
        elif each != Instructor():
            with_sites = "with --sites teachers are names of sites, which have models of their own"
            raise InputError(f"teachers.{name}: {with_sites}.", code="distill-teacher")


def _check(learner: Learner, memory: bool) -> None:
    if isinstance(learner, Instructor):
        _check_teacher(learner)
        return
    _check_one(learner)
    _check_student(learner, memory)


def _check_one(learner: Learner) -> None:
    if learner.train is not None and learner.parameters is not None:
        raise InputError(
            "train and parameters are both given. Give data to train on, or parameters.",
            code="distill-field",
        )


def _check_teacher(teacher: Parts) -> None:
    _check_one(teacher)
    if teacher.train is None and teacher.parameters is None:
        raise InputError(
            "it has no data. Give train (a file of labelled records) or parameters (a file "
            "of a trained model).",
            code="distill-teacher",
        )
    if teacher.parts > 1 and teacher.train is None:
        raise InputError("parts are trained from data: give train.", code="distill-field")


def _check_student(student: Learner, memory: bool) -> None:
    if student.parameters is not None:
        return
    if student.model is None:
        raise InputError(
            "model is missing: vectors, bag, transformer or pretrained.", code="distill-field"
        )
    if student.train is None and memory and not isinstance(student.model, Hub):
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


def _read(kind: type[F], path: Path) -> F:
    body = read_fields(path)
    try:
        return kind(**body)
    except ValidationError as error:
        found = complaint(error, body)
    code = {"unknown": "distill-unknown-field", "missing": "distill-missing-field"}
    raise InputError(
        f"{path.name}, {'.'.join(found.place) or 'the file'}: {found.message}",
        code=code.get(found.kind, "distill-field"),
    )
