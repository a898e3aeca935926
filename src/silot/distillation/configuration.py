"""What a file for ``silot train distill`` may say, and the records that it names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_type_hints

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

from ..data.container import recognise
from ..data.documents import Plain, complaint, read_fields
from ..data.inputs import read_inputs
from ..errors import InputError, MismatchError, SilotError
from ..federation.policy import Policy
from ..options import Options, declared
from .labels import LabelCodes, LabelSpace, Metric
from .options import MEMORY, Distill, Fit
from .protocol import distill
from .questions import Inputs, check_inputs
from .text import PAIR

_INPUT_COLUMNS = ("text_column", "premise_column", "hypothesis_column", "feature_columns")


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file, or raise an error that names the field."""
        body = read_fields(path)
        try:
            return cls(**body)
        except ValidationError as error:
            fault = complaint(error, body)
        code = {"unknown": "distill-unknown-field", "missing": "distill-missing-field"}
        raise InputError(
            f"{path.name}, {'.'.join(fault.place) or 'the file'}: {fault.message}",
            code=code.get(fault.kind, "distill-field"),
        )


@contextmanager
def name_field(path: Path, place: str) -> Iterator[None]:
    """Put the file and the field before the message of an error."""
    try:
        yield
    except SilotError as error:
        message = f"{path.name}, {place}: {error.message}"
        raise type(error)(message, code=error.code) from None


def _from_text(key: str) -> BeforeValidator:
    """Read a text in place of a mapping as the mapping that has it under ``key``."""
    return BeforeValidator(lambda value: {key: value} if isinstance(value, str) else value)


def _reword(check: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let pydantic name the field that a check of silot refuses."""

    def check_value(value: Any) -> Any:
        try:
            return check(value)
        except InputError as error:
            raise ValueError(error.message) from None

    return check_value


def _declare_keys(kind: type[Options], at_once: Collection[str] = ()) -> type[_Strict]:
    """Declare the options of a class as keys of a file, of the types that they have there.

    Values are checked ``at_once``, for the error to name the key, or when the class is built.
    """
    hints = get_type_hints(kind)
    keys: dict[str, Any] = {}
    for item in declared(kind):
        if item.flag:
            hint = hints[item.name]
            if item.name in at_once:
                check = _reword(lambda value, item=item: item.check.of(value, item.name, item.code))
                hint = Annotated[hint, AfterValidator(check)]
            keys[item.name] = (hint, item.default)
    return create_model(kind.__name__, __base__=_Strict, **keys)


class Columns(_Strict):
    """Columns of tables; ``.npz`` files name their arrays X and y instead."""

    text_column: Plain | None = None
    premise_column: Plain | None = None
    hypothesis_column: Plain | None = None
    label_column: Plain | None = None
    feature_columns: tuple[Plain, ...] | None = None


class FileSource(Columns):
    """A data file."""

    file: Path


Source = Annotated[FileSource, _from_text("file")]


class Fitted(_declare_keys(Fit, at_once=Fit.options)):
    """How a model is fitted to labelled records."""


class Vectors(_Strict):
    """A ``VectorHead``; columns are brought to the transfer set's mean 0 and deviation 1."""

    kind: Literal["vectors"]
    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.1
    standardise: bool = True


class Bag(_Strict):
    """A ``BagOfWords``."""

    kind: Literal["bag"]
    vocabulary: int = Field(default=10_000, ge=1)
    buckets: int = Field(default=1024, ge=0)
    width: int = 64
    dropout: float = 0.1
    length: int = 256


class Hub(_Strict):
    """A model of Hugging Face, by name or from a folder."""

    kind: Literal["pretrained"]
    name: str
    length: int = 128
    revision: str | None = None
    local_files_only: bool = False
    new_head: bool = False


Model = Annotated[Annotated[Vectors | Bag | Hub, Field(discriminator="kind")], _from_text("kind")]


class Learner(_Strict):
    """A model: what it is, and the data it is fitted to or a file of its parameters."""

    model: Model | None = None
    train: Source | None = None
    fit: Fitted | None = None
    parameters: Path | None = None

    def check(self) -> None:
        """Raise where fields do not go together."""
        if self.train is not None and self.parameters is not None:
            raise InputError(
                "train and parameters are both given. Give data to train on, or parameters.",
                code="distill-field",
            )

    def check_student(self, memory: bool) -> None:
        """Raise for a global model that is nothing, or that would teach without training."""
        self.check()
        if self.parameters is not None:
            return
        if self.model is None:
            raise InputError("model is missing: vectors, bag or pretrained.", code="distill-field")
        if self.train is None and memory and not isinstance(self.model, Hub):
            raise InputError(
                "the model is not trained, so it cannot be its own teacher. Give train, "
                "parameters, or memory: false.",
                code="distill-field",
            )


class Parts(Learner):
    """A model that teaches, or the mean of several, each fitted to a part of the records."""

    parts: int = Field(default=1, ge=1)
    size: int | None = Field(default=None, ge=1)

    def check(self) -> None:
        super().check()
        if self.train is None and self.parameters is None:
            raise InputError(
                "it has no data. Give train (a file of labelled records) or parameters (a file "
                "of a trained model).",
                code="distill-teacher",
            )
        if self.parts > 1 and self.train is None:
            raise InputError("parts are trained from data: give train.", code="distill-field")


class Instructor(Parts):
    """A teacher: its model, its rules, and the account that noisy predictions are charged to."""

    policy: Annotated[
        Policy | None,
        BeforeValidator(_reword(lambda body: Policy(**body) if isinstance(body, dict) else body)),
    ] = None
    ledger: Path | None = None


class Labels(_Strict):
    """A label space: a preset, coordinates, costs, a tree, or names alone."""

    preset: str | None = None
    names: tuple[str, ...] | None = None
    coordinates: tuple[float | tuple[float, ...], ...] | None = None
    cost: tuple[tuple[float, ...], ...] | None = None
    tree: dict[str, str] | None = None
    one_hot: bool = False
    metric: Metric = "euclidean"
    title: str = ""

    def space(self) -> LabelSpace:
        """Build the label space."""
        placed = {"coordinates": self.coordinates, "cost": self.cost, "tree": self.tree}
        placed = {name: value for name, value in placed.items() if value is not None}
        if len(placed) + (self.preset is not None) + self.one_hot != 1:
            raise InputError(
                "give one of preset, coordinates (a row for each label), cost, tree and "
                "one_hot: true.",
                code="distill-field",
            )
        if placed:
            return LabelSpace(None, self.names, self.metric, self.title, **placed)
        if self.preset is not None:
            preset = LabelSpace.preset(self.preset)
            names, title = self.names or preset.names, self.title or preset.title
            return LabelSpace(None, names, self.metric, title, coordinates=preset.coordinates)
        if self.names is None:
            raise InputError("labels without coordinates need names.", code="distill-field")
        return LabelSpace.one_hot(self.names, title=self.title)


class SiteTeacher(Columns, Parts):
    """What a file says of the teacher of a site; paths are relative to the file."""

    labels: Annotated[Labels, _from_text("preset")]
    transfer: Source | None = None
    askers: tuple[str, ...] | None = None
    seed: int = Field(default=0, ge=0)

    @classmethod
    def load(cls, path: Path) -> SiteTeacher:
        """Read and check a file, or raise an error that names the field."""
        teacher = cls.read(path)
        with name_field(path, "the file"):
            teacher.check()
        return teacher

    def read_files(self, path: Path) -> tuple[LabelSpace, Records | None, Records | None]:
        """Read the labels, the transfer set and the records to learn from, where there are any."""
        transfer = data = None
        with name_field(path, "labels"):
            space = self.labels.space()
        if self.transfer is not None:
            with name_field(path, "transfer"):
                transfer = read(path.parent, self.transfer, self)
        if self.train is not None:
            with name_field(path, "train"):
                data = read(path.parent, self.train, self, space, transfer)
        return space, transfer, data


# Names alone are sites with models of their own.
_NAMES = BeforeValidator(
    lambda value: {str(name): {} for name in value} if isinstance(value, list) else value
)


class Config(Columns, _declare_keys(Distill, at_once=("memory_size",))):
    """Everything a file says; paths are relative to the file."""

    labels: Annotated[Labels, _from_text("preset")]
    student: Learner = Field(alias="global")
    teachers: Annotated[dict[str, Annotated[Instructor, _from_text("train")]], _NAMES]
    transfer: Source
    validation: Source | None = None
    tests: dict[str, Source] = {}
    noise: StrictInt | Source | None = None

    def options(self) -> Distill:
        """Build the options, all but noise, which may be a file."""
        names = [item.name for item in declared(Distill) if item.flag]
        return Distill(**{name: getattr(self, name) for name in names})

    def files(self, home: Path) -> list[Path]:
        """List all files that are named, from the folder of this one."""
        body: list[Any] = [self.model_dump()]
        named: list[Path] = []
        for item in body:
            if isinstance(item, Path):
                named.append(home / item)
            elif isinstance(item, dict):
                body += item.values()
        return named

    @classmethod
    def load(cls, path: Path, *, at_sites: bool = False) -> Config:
        """Read and check a file, or raise an error that names the field."""
        config = cls.read(path)
        with name_field(path, "options"):
            how = config.options()
        with name_field(path, "teachers"):
            config.check_teachers(how.memory, at_sites)
        with name_field(path, "noise"):
            if config.noise is not None and not how.needs_noise:
                raise InputError(
                    f"it is not used with weights: {how.weights}. Leave it out.",
                    code="option-noise",
                )
        with name_field(path, "global"):
            config.student.check_student(how.memory)
        for name, teacher in ({} if at_sites else config.teachers).items():
            with name_field(path, f"teachers.{name}"):
                teacher.check()
        return config

    def check_teachers(self, memory: bool, at_sites: bool) -> None:
        """Raise for too few teachers, for a name that is not free, and for models of sites."""
        if len(self.teachers) < 2:
            raise InputError(
                f"{len(self.teachers)} teacher(s); give two or more, by name.", code="holder-names"
            )
        if memory and MEMORY in self.teachers:
            raise InputError(
                "a teacher is called 'global', as the model itself is. Give it another name, "
                "or memory: false.",
                code="holder-names",
            )
        for name, teacher in self.teachers.items():
            if at_sites and teacher != Instructor():
                raise InputError(
                    f"teachers.{name}: with --sites teachers are names of sites, which have models "
                    "of their own.",
                    code="distill-teacher",
                )


@dataclass(frozen=True, eq=False)
class Setup:
    """A file, its label space, and by their fields all records that it names."""

    path: Path
    config: Config
    space: LabelSpace
    files: Mapping[str, Records]

    @classmethod
    def read(cls, path: Path, config: Config) -> Setup:
        """Read every file by its field, so that a broken one shows before a model is trained."""
        with name_field(path, "labels"):
            space = config.labels.space()
        sources = {"transfer": config.transfer, "global.train": config.student.train}
        sources |= {f"teachers.{name}.train": own.train for name, own in config.teachers.items()}
        sources |= {f"tests.{name}": source for name, source in config.tests.items()}
        sources["validation"] = config.validation
        sources["noise"] = config.noise if isinstance(config.noise, FileSource) else None
        files: dict[str, Records] = {}
        for place, source in sources.items():
            if source is not None:
                labels = None if place in ("transfer", "noise") else space
                with name_field(path, place):
                    files[place] = read(path.parent, source, config, labels, files.get("transfer"))
        return cls(path, config, space, files)

    @property
    def transfer(self) -> Records:
        """The transfer set."""
        return self.files["transfer"]

    @property
    def validation(self) -> tuple[Inputs, LabelCodes] | None:
        """Validation records and their labels, if the file names any."""
        records = self.files.get("validation")
        return None if records is None else (records.inputs, records.truth)

    @property
    def tests(self) -> dict[str, tuple[Inputs, LabelCodes]]:
        """Test sets by name, with their labels."""
        records = {name: self.files[f"tests.{name}"] for name in self.config.tests}
        return {name: (own.inputs, own.truth) for name, own in records.items()}

    def options(self) -> Distill:
        """Build the options, and check all of a run that can be checked before it."""
        noise = self.files["noise"].inputs if "noise" in self.files else self.config.noise
        with name_field(self.path, "options"):
            how = self.config.options().having(noise=noise)
            how = how.settled(validated=self.config.validation is not None)
            how.check_labels(self.space)
            names, inputs = list(self.config.teachers), self.transfer.inputs
            distill(names, inputs, how, labels=self.space, sizes=how.by_size)
        return how

    def owners(self) -> dict[str, Records]:
        """Return records by what they are; of teachers whose models alone are here, none."""
        names = {"transfer set": "transfer", MEMORY: "global.train"}
        names |= {name: f"teachers.{name}.train" for name in self.config.teachers}
        names["validation"] = "validation"
        names |= {f"test set {name}": f"tests.{name}" for name in self.config.tests}
        return {name: self.files[place] for name, place in names.items() if place in self.files}


@dataclass(frozen=True, eq=False)
class Records:
    """Records (n, d) or n texts of a file, their labels where these were read, and their columns.

    ``labelled`` is whether the file has labels, read or not.
    """

    inputs: Inputs = field(repr=False)
    codes: LabelCodes | None = field(default=None, repr=False)
    features: tuple[str, ...] = ()
    labelled: bool = False

    @property
    def truth(self) -> LabelCodes:
        """Labels of a file that was read with them."""
        assert self.codes is not None
        return self.codes


def read(
    folder: Path,
    source: FileSource,
    defaults: Columns,
    space: LabelSpace | None = None,
    like: Records | None = None,
) -> Records:
    """Read a file; with ``space`` its labels too. ``like`` says what the inputs have to be."""
    columns = _choose_columns(source, defaults)
    pair = (columns.premise_column, columns.hypothesis_column)
    file = recognise(folder / source.file)
    with file.naming():
        content = read_inputs(
            file,
            texts=[name for name in (columns.text_column, *pair) if name],
            features=columns.feature_columns,
            label=columns.label_column,
            with_labels=space is not None,
            like=like.features if like else (),
        )
        inputs = check_inputs(content.inputs)
        if like is not None:
            _check_alike(inputs, like.inputs)
        codes = None if space is None else space.codes(content.labels)
    return Records(inputs, codes, content.features, content.labelled)


def _choose_columns(source: FileSource, defaults: Columns) -> Columns:
    """Choose the columns of a file: its own where it names any that inputs come from."""
    own = source if any(getattr(source, name) for name in _INPUT_COLUMNS) else defaults
    columns = Columns(
        **{name: getattr(own, name) for name in _INPUT_COLUMNS},
        label_column=source.label_column or defaults.label_column,
    )
    if (columns.premise_column is None) != (columns.hypothesis_column is None):
        raise InputError(
            "a pair of texts has premise_column and hypothesis_column; one of them is given.",
            code="option-columns",
        )
    ways = (columns.text_column, columns.premise_column, columns.feature_columns)
    if sum(way is not None for way in ways) > 1:
        raise InputError(
            "inputs come from text_column, from premise_column and hypothesis_column, or from "
            "feature_columns. Give one of these.",
            code="option-columns",
        )
    return columns


def _check_alike(inputs: Inputs, others: Inputs) -> None:
    """Raise where inputs are of another kind than those of the transfer set."""
    kind, other = _describe(inputs), _describe(others)
    if kind != other:
        is_kind = isinstance(inputs, list) or isinstance(others, list)
        raise MismatchError(
            f"these are {kind} and the transfer set is of {other}.",
            code="inputs-kind" if is_kind else "input-dimension",
        )


def _describe(inputs: Inputs) -> str:
    if isinstance(inputs, list):
        return "pairs of texts" if PAIR in inputs[0] else "texts"
    return f"vectors of {inputs.shape[1]} numbers"
