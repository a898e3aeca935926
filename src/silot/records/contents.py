"""Suspect records one by one: what is wrong with each, and what stands in it."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from ..data.measure import Measure
from ..errors import InputError
from ..render.words import count

if TYPE_CHECKING:
    from .result import RecordScores, Screening

# Further columns are named from so many times what is usual.
_ODD = 2.0
# Beyond, how many times it is says nothing.
_MOST = 1e6
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, kw_only=True, eq=False)
class Contents:
    """What stands in a holder's records, for whoever has them; none of it is told to anybody.

    Attributes
    ----------
    records
        The holder's records, as they were scored.
    validation
        The validation records that they were compared with.
    identifiers
        What the holder calls its records (n,): texts, which may be empty or equal.

    Examples
    --------
    >>> Contents(identifiers=["p-17", "p-18"])
    Contents(identifiers of 2 records)
    """

    records: Measure | None = None
    validation: Measure | None = None
    identifiers: Sequence[str] | None = None

    def __repr__(self) -> str:
        identifiers, records = self._lengths
        parts = [
            f"{what} of {count(size, 'record')}"
            for what, size in (("values", records), ("identifiers", identifiers))
            if size is not None
        ]
        return f"Contents({', '.join(parts)})"

    @property
    def raw(self) -> bool:
        """Whether values of records are among it."""
        return bool(self._measures)

    def check(self, scores: RecordScores) -> None:
        """Raise unless it is of the records that were scored.

        Raises
        ------
        InputError
            ``records-contents``.
        """
        size, part = len(scores.scores), scores.screening
        for what, length in zip(("identifiers", "records"), self._lengths, strict=True):
            if length not in (None, size):
                raise InputError(
                    f"{scores.name!r} has {size} scored records, and {what} are {length}. Give "
                    "those that were scored, in their order.",
                    code="records-contents",
                )
        if part is None:
            return
        for measure in self._measures:
            if not self._has(measure, part.columns):
                raise InputError(
                    f"{scores.name!r} was scored with other columns than these. Give the "
                    "measures that were scored and compared with.",
                    code="records-contents",
                )
        if self.validation is not None and len(self.validation.weights) <= part.nearest.max():
            raise InputError(
                f"{scores.name!r} was compared with more validation records than these. Give "
                "those it was compared with.",
                code="records-contents",
            )

    @property
    def _lengths(self) -> tuple[int | None, int | None]:
        """How many identifiers and records there are, of those at hand."""
        return (
            None if self.identifiers is None else len(self.identifiers),
            None if self.records is None else len(self.records.weights),
        )

    @property
    def _measures(self) -> list[Measure]:
        return [each for each in (self.records, self.validation) if each is not None]

    @property
    def _names(self) -> tuple[str, ...]:
        named = (each.columns for each in self._measures)
        return next((names for names in named if names is not None), ())

    def _has(self, measure: Measure, columns: npt.NDArray[Any]) -> bool:
        """Whether the columns that were scored are there, by name or by place."""
        if columns.dtype.kind == "U":
            return set(columns.ravel()) <= set(self._names)
        return measure.points.shape[1] > columns.max(initial=-1)

    def value(self, record: int, column: str | int) -> float | None:
        """What stands in a column of a record."""
        return _field(self.records, self._names, record, column)

    def good(self, record: int, column: str | int) -> float | None:
        """What stands in a column of a validation record."""
        return _field(self.validation, self._names, record, column)

    def identifier(self, record: int) -> str:
        """What the holder calls a record; nothing where it has no name."""
        return "" if self.identifiers is None else str(self.identifiers[record])


def _label(measure: Measure | None, record: int) -> str:
    return "" if measure is None or measure.names is None else str(measure.names[record])


def _field(
    measure: Measure | None, names: Sequence[str], record: int, column: str | int
) -> float | None:
    if measure is None:
        return None
    own = measure.columns or names
    place = own.index(column) if isinstance(column, str) else column
    return float(measure.points[record, place])


@dataclass(frozen=True, kw_only=True)
class OddColumn:
    """A column whose value does not fit the others of its record.

    Attributes
    ----------
    name
        Of the column, or its place where it has none.
    times
        How many times what is usual the value is off.
    value, good
        What stands there, in the record and in the nearest validation record; ``None`` where that
        is not at hand.
    """

    name: str | int
    times: float
    value: float | None = None
    good: float | None = None

    def __str__(self) -> str:
        text = self.name if isinstance(self.name, str) else f"column {self.name}"
        if self.value is not None:
            text += f" {self.value:.6g}"
        if self.good is not None:
            text += f" (nearest good {self.good:.6g})"
        if self.times >= _MOST:
            return f"{text}, over a million times usual"
        return f"{text}, {self.times:,.{0 if self.times >= 10 else 1}f} times usual"


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A record that is flagged, a copy, or of a class nobody knows; and why.

    Attributes
    ----------
    record
        Its place.
    identifier
        What the holder calls it; empty where that is not at hand.
    score, flagged
        As in the scores.
    kinds
        Of ``"label"``, ``"features"``, ``"copy"`` and ``"unknown label"`` those that it is
        listed for; none with the published method.
    label
        Its label; empty where that is not at hand.
    suggested
        The class it seems to be of, where its label is wrong or unknown.
    columns
        Where its features are likely broken, those responsible, the worst first.
    copy_of, original
        The record it is a copy of, if any, and what the holder calls that.
    nearest, nearest_label
        Place and label of the nearest good record: the nearest one of the validation data.
    """

    record: int
    identifier: str = ""
    score: float
    flagged: bool
    kinds: tuple[str, ...] = ()
    label: str = ""
    suggested: str = ""
    columns: tuple[OddColumn, ...] = field(default=())
    copy_of: int | None = None
    original: str = ""
    nearest: int | None = None
    nearest_label: str = ""

    @property
    def kind(self) -> str:
        """The kinds in one text."""
        return ", ".join(self.kinds)

    @property
    def why(self) -> str:
        """What is wrong, in a line."""
        parts: list[str] = []
        if self.suggested:
            parts.append(f"{self.label}, suggested {self.suggested}".removeprefix(", "))
        parts += map(str, self.columns)
        if self.copy_of is not None:
            parts.append(f"copy of {self.original or self.copy_of}")
        return "; ".join(parts)


def suspects(scores: RecordScores, contents: Contents | None) -> list[Suspect]:
    """Flagged records, copies and records of unknown classes, the most suspect first."""
    contents = contents or Contents()
    contents.check(scores)
    part = scores.screening
    if part is None:
        listed = scores.flagged
    else:
        listed = scores.flagged | part.copies
        if part.labels is not None:
            listed = listed | ~part.known
    return [suspect(scores, k, contents) for k in scores.worst.tolist() if listed[k]]


def suspect(scores: RecordScores, k: int, contents: Contents) -> Suspect:
    """What there is to say of a record."""
    part = scores.screening
    made: dict[str, Any] = {
        "record": k,
        "identifier": contents.identifier(k),
        "score": float(scores.scores[k]),
        "flagged": bool(scores.flagged[k]),
    }
    if part is None:
        return Suspect(**made)
    kinds = _kinds(part, k)
    made |= {"kinds": kinds, "nearest": int(part.nearest[k])}
    if part.labels is not None:
        made["label"] = _label(contents.records, k)
        made["nearest_label"] = _label(contents.validation, int(part.nearest[k]))
    if part.suggested is not None and ("label" in kinds or "unknown label" in kinds):
        made["suggested"] = str(part.suggested[k])
    if "features" in kinds or ("label" in kinds and part.features[k] > 0):
        made["columns"] = _odd(part, k, contents)
    if "copy" in kinds:
        original = int(part.copy_of[k])
        made |= {"copy_of": original, "original": contents.identifier(original)}
    return Suspect(**made)


def _kinds(part: Screening, k: int) -> tuple[str, ...]:
    """What a record is listed for."""
    unknown = part.labels is not None and not part.known[k]
    kinds = (str(part.kinds[k]), "copy" * bool(part.copies[k]), "unknown label" * unknown)
    return tuple(kind for kind in kinds if kind)


def _odd(part: Screening, k: int, contents: Contents) -> tuple[OddColumn, ...]:
    pairs = zip(part.columns[k].tolist(), part.residuals[k].tolist(), strict=True)
    return tuple(
        OddColumn(
            name=name,
            times=times,
            value=contents.value(k, name),
            good=contents.good(int(part.nearest[k]), name),
        )
        for place, (name, times) in enumerate(pairs)
        if place == 0 or times >= _ODD
    )


def row(found: Suspect, scores: RecordScores, contents: Contents | None) -> dict[str, object]:
    """A suspect record as a row of a table; all of one result have the same keys."""
    contents, part = contents or Contents(), scores.screening
    named = contents.identifiers is not None
    screened = part is not None
    labelled = part is not None and part.labels is not None
    cells: list[tuple[str, object, bool]] = [
        ("record", found.record, True),
        ("identifier", found.identifier, named),
        ("score", round(found.score, 4), True),
        ("flagged", found.flagged, True),
        ("kind", found.kind, screened),
        ("label", found.label, labelled and contents.records is not None),
        ("suggested_label", found.suggested, labelled),
        ("columns", "; ".join(map(str, found.columns)), screened),
        ("copy_of", "" if found.copy_of is None else found.copy_of, screened),
        ("copy_of_identifier", found.original, screened and named),
        ("nearest_good", "" if found.nearest is None else found.nearest, screened),
        ("nearest_good_label", found.nearest_label, labelled and contents.validation is not None),
    ]
    return {title: value for title, value, there in cells if there}


def records_csv(
    scored: Mapping[str, RecordScores],
    contents: Mapping[str, Contents] | None = None,
    *,
    holders: bool = True,
) -> str:
    """Flagged records and copies of several holders as the text of one csv file.

    Parameters
    ----------
    scored
        Scores by holder.
    contents
        By holder, what stands in the records.
    holders
        Whether the first column names the holder.
    """
    contents = contents or {}
    names: dict[str, None] = {"holder": None} if holders else {}
    rows: list[dict[str, object]] = []
    for name, scores in scored.items():
        own = contents.get(name, Contents())
        # The first record has the same columns, listed or not.
        names |= dict.fromkeys(row(suspect(scores, 0, own), scores, own))
        told = {"holder": name} if holders else {}
        rows += [told | row(each, scores, own) for each in suspects(scores, own)]
    return csv_text(names, rows)


def csv_text(names: Iterable[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Rows as the text of a csv file, of which no spreadsheet takes a cell for a formula."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    for each in rows:
        writer.writerow({name: _cell(value) for name, value in each.items()})
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
