"""One release of one site as a file says it, and what many of them are together."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, ClassVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ...data.measure import Measure
from ...data.reading import Schema
from ...data.reported import Reported
from ...errors import FileError, InputError, MismatchError, SilotError
from ...federation.answer import CHARGED, Answer, decode_reply
from ...federation.question import decode_question
from ...federation.recorded import Recorded
from ...federation.sealed import Sealed
from ...privacy.accounting import epsilon_of
from ...privacy.cells import public_points
from ..questions import decode_classes
from .questions import SketchPeriod, SketchRecords, read_integers
from .release_options import Releasing

ASSUMED = 2000
"""Records that the number of cells is for, where nobody says how many: a question that depended on
how many a site has would tell it."""

_ROOM = 1e-6
# Options of the question itself: public records and labels show in its cells and classes.
_COMPARED = ("privacy_epsilon", "privacy_delta", "cells", "seed", "mass_limit", "classes")

Finite = Annotated[float, Field(allow_inf_nan=False)]


class Terms(BaseModel):
    """What a release was made by, all of it public: as ``Sketching`` takes it.

    ``public`` is the digest of the public records (``digest_public_records``), ``public_records``
    how many they are; without public records there are a public mean and scale.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    privacy_epsilon: Finite
    privacy_delta: Finite
    cells: int
    seed: int
    mass_limit: Finite | None = None
    period: str | None = None
    classes: list[str] | None = None
    columns: list[str] | None = None
    schema_hash: str = ""
    public: str = ""
    public_records: int = 0
    public_mean: list[Finite] | None = None
    public_scale: list[Finite] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Options of ``Sketching``, without the public records."""
        names = ("privacy_epsilon", "privacy_delta", "cells", "seed", "mass_limit", "classes",
                 "public_mean", "public_scale")  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        return values | {"labels": self.classes is not None}


@dataclass(frozen=True, kw_only=True, eq=False)
class ReleaseFile(Reported):
    """One differentially private sketch of one site, as a file that it can send by any means.

    Attributes
    ----------
    name
        Who wrote it, in its own words.
    file, size
        Name of the file, and its bytes.
    fingerprint
        Of the key that signed it; the signature was checked when it was read.
    trusted
        Name that a trusted key has for the signer; empty where no keys were given.
    written
        When the file was written, UTC.
    schema
        The public contract by which its table was read; ``None`` where none vouches for columns.
    terms
        What the release was made by.
    question, reply
        The message that was answered, and the answer.
    sealed
        The signed file.
    """

    view: ClassVar = "view:release"

    sealed: Sealed = field(repr=False)
    terms: Terms
    schema: Schema | None = field(repr=False)
    question: SketchRecords = field(repr=False)
    trusted: str = ""
    size: int = 0

    @classmethod
    def of(cls, sealed: Sealed, trusted: str = "", size: int = 0) -> ReleaseFile:
        """Read and check what a signed file says of a release.

        Raises
        ------
        FileError
            ``release-format``: what it says does not fit together.
        """
        terms, schema = _read_terms(sealed), _read_schema(sealed)
        question = _read_question(sealed)
        release = cls(
            sealed=sealed, terms=terms, schema=schema, question=question, trusted=trusted, size=size
        )
        release._check()
        return release

    name = property(lambda self: self.sealed.author, doc="Who wrote it.")
    file = property(lambda self: self.sealed.file, doc="Name of the file.")
    written = property(lambda self: self.sealed.written, doc="When it was written.")
    fingerprint = property(lambda self: self.sealed.fingerprint, doc="Of the key that signed it.")

    def _check(self) -> None:
        """Raise where the file says of the release what its question does not."""
        question, terms = self.question, self.terms
        classes = list(decode_classes(question.classes)) if question.classes else None
        period = question.period if isinstance(question, SketchPeriod) else None
        try:
            claimed = Releasing(
                public_mean=[0.0], public_scale=[1.0],
                **{k: v for k, v in terms.options.items() if k in _COMPARED},
            ).mu  # fmt: skip
        except SilotError as error:
            raise _build_error(self.file, error.message) from None
        for what, claim, truth in (
            ("privacy_epsilon", True, abs(claimed / question.privacy_mu - 1.0) < _ROOM),
            ("cells", True, 0 < len(question.centres) <= terms.cells),
            ("mass_limit", terms.mass_limit or 0.0, question.mass_limit),
            ("classes", terms.classes, classes),
            ("period", terms.period, period),
            ("columns", len(terms.columns or question.centres.T), question.centres.shape[1]),
            ("schema", terms.schema_hash, self.schema.hash if self.schema else ""),
        ):
            if claim != truth:
                raise _build_error(
                    self.file, f"{what} is not that of the question that was answered"
                )
        if self.schema and terms.columns != list(self.schema.features):
            raise _build_error(self.file, "columns are not those of its schema")
        _ = self.numbers

    @cached_property
    def numbers(self) -> np.ndarray:
        """The noisy numbers."""
        try:
            reply = decode_reply(self.sealed.reply)
            return read_integers({self.name: reply}, self.name, "sketch", self.width)
        except SilotError:
            raise _build_error(self.file, "its numbers do not answer its question") from None

    @property
    def width(self) -> int:
        """How many numbers it holds."""
        classes = len(self.terms.classes) + 1 if self.terms.classes else 1
        return classes * len(self.question.centres) + self.question.centres.shape[1] + 1

    @property
    def epsilon(self) -> float:
        """What it spends as epsilon, by the question that was answered."""
        return epsilon_of(self.question.privacy_mu, self.terms.privacy_delta)

    @property
    def mu(self) -> float:
        """The same as one number: releases add in its square."""
        return self.question.privacy_mu

    @property
    def fresh(self) -> bool:
        """Whether it was drawn for this file; else it is the answer of before, of data of then."""
        reply = decode_reply(self.sealed.reply)
        charge = reply.scalars.get(CHARGED) if isinstance(reply, Answer) else None
        return isinstance(charge, float) and charge > 0

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know before using it."""
        if self.schema is None:
            return ("no schema describes the columns, so units, order and categories of two "
                    "sites may differ unnoticed.",)  # fmt: skip
        return (self.schema.warning,) if self.schema.warning else ()

    def recorded(self, name: str) -> Recorded:
        """Return the release as a party of a run."""
        return Recorded(name, self.sealed.answers, bytes(self.sealed.reply))

    @property
    def value(self) -> float:
        """What it spends, as epsilon."""
        return self.epsilon

    @property
    def disclosure(self) -> str:
        """A release with noise."""
        return "private"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        question = self.question
        return {
            "name": self.name,
            "file": self.file,
            "size": self.size,
            "written": self.written,
            "fingerprint": self.fingerprint,
            "trusted": self.trusted,
            "fresh": self.fresh,
            "mechanism": question.mechanism,
            "sensitivity": question.sensitivity,
            "mu": self.mu,
            "epsilon": self.epsilon,
            "numbers": self.width,
            **self.terms.model_dump(exclude={"public_mean", "public_scale"}),
            "schema": None if self.schema is None else self.schema.body(),
            "question": self.sealed.answers,
            "discloses": self.sealed.discloses,
            "warnings": list(self.warnings),
        }


def _read_terms(sealed: Sealed) -> Terms:
    try:
        return Terms.model_validate(dict(sealed.facts))
    except ValidationError as error:
        names = dict.fromkeys(str(item["loc"][0])[:64] for item in error.errors())
        raise _build_error(sealed.file, f"its {', '.join(names)!r} is not possible") from None


def _read_schema(sealed: Sealed) -> Schema | None:
    if sealed.schema is None:
        return None
    try:
        return Schema.of(dict(sealed.schema))
    except InputError as error:
        raise _build_error(sealed.file, error.message) from None


def _read_question(sealed: Sealed) -> SketchRecords:
    try:
        question = decode_question(sealed.question)
        if isinstance(question, SketchRecords) and question.sensitivity > 0:
            return question
    except SilotError:
        pass
    raise _build_error(sealed.file, "its question is not about a sketch")


def _build_error(file: str, why: str) -> FileError:
    return FileError(
        f"{file} is signed, but its parts do not match: {why.rstrip('.')}. Ask its author "
        "to write it again with the same silot.",
        code="release-format",
    )


def digest_public_records(public: Measure, labelled: bool) -> str:
    """Compute the SHA-256 of public records in their order, with labels where these count."""
    digest = hashlib.sha256(repr((public.size, public.dimension, labelled)).encode())
    digest.update(np.ascontiguousarray(public_points(public.points)).tobytes())
    if labelled and public.names is not None:
        digest.update("\0".join(public.names.tolist()).encode())
    return digest.hexdigest()


def check_alike(releases: Mapping[str, ReleaseFile]) -> None:
    """Raise where releases do not fit together.

    Raises
    ------
    MismatchError
        ``schema-mismatch``, ``public-mismatch``, ``release-mismatch``, with what differs.
    """
    first, *others = releases.values()
    for other in others:
        files = f"{first.file!r} and {other.file!r}"
        _check_schemas(first, other)
        if first.terms.public != other.terms.public:
            raise MismatchError(
                f"{files} were made with other public records. Give all sites the same "
                "file of public records, and have one of them release again.",
                code="public-mismatch",
            )
        names = [name for name in Terms.model_fields if name not in ("period", "public_records")]
        apart = [name for name in names if getattr(first.terms, name) != getattr(other.terms, name)]
        if apart:
            raise MismatchError(
                f"{files} differ in {', '.join(apart)}. All releases that are combined "
                "must be of one question: agree on its options.",
                code="release-mismatch",
            )


def _check_schemas(first: ReleaseFile, other: ReleaseFile) -> None:
    one, two = first.schema, other.schema
    if (one is None) != (two is None):
        lacks = first if one is None else other
        raise MismatchError(
            f"{lacks.file} was made without a schema, and the other with one. Make all releases "
            "by one schema.",
            code="schema-mismatch",
        )
    if one is not None and two is not None and one.hash != two.hash:
        names = ", ".join(map(repr, one.differing(two)))
        raise MismatchError(
            f"{first.file} and {other.file} were read by different schemas, which differ in "
            f"{names}. Agree on one schema.",
            code="schema-mismatch",
        )
