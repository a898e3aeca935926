"""Which records of a holder are suspect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..data.coordinates import read_back
from ..data.measure import Measure
from ..data.schema import Contract
from ..data.sheets import csv_lines
from ..data.units import unit_mistake
from ..errors import InputError
from ..federation.result import Array, RunResult, finite
from ..render.words import count
from ._arrays import Flags

# Quantiles of validation values: between the outer ones a value is expected.
_USUAL = [0.01, 0.25, 0.75, 0.99]
# Records at the head of the ranking that are listed whether they are flagged or not.
_LISTED = 10
# Further columns are named from so many times what is usual.
_ODD = 2.0
# Beyond, how many times it is says nothing.
_MOST = 1e6


@dataclass(frozen=True, kw_only=True, eq=False)
class Contents:
    """The contents of a holder's records, for their owner; none of it is sent.

    Examples
    --------
    >>> Contents(identifiers=["p-17", "p-18"])
    Contents(identifiers of 2 records)
    """

    records: Measure | None = None
    """The holder's records, as they were scored."""
    validation: Measure | None = None
    """The validation records that they were compared with."""
    identifiers: Sequence[str] | None = None
    """What the holder calls its records (n,): texts, which may be empty or equal."""

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
        return [measure for measure in (self.records, self.validation) if measure is not None]

    @property
    def _names(self) -> tuple[str, ...]:
        named = (measure.columns for measure in self._measures)
        return next((names for names in named if names is not None), ())

    def _has(self, measure: Measure, columns: npt.NDArray[Any]) -> bool:
        """Return whether the columns that were scored are there, by name or by place."""
        if columns.dtype.kind == "U":
            return set(columns.ravel()) <= set(self._names)
        return measure.points.shape[1] > columns.max(initial=-1)

    def column(self, name: str | int) -> str | int:
        """The column of the table to which a coordinate belongs."""
        schema = self._schema
        return name if schema is None else schema.origins[self._place(name)]

    def value(self, record: int, name: str | int) -> float | str | None:
        """Return what stands in a column of a record, as its table has it."""
        return None if self.records is None else self._written(self.records.points[record], name)

    def expected(self, name: str | int) -> tuple[float, ...] | None:
        """The quantiles ``_USUAL`` of validation values; ``None`` where they are not numbers."""
        if self.validation is None:
            return None
        places = self._places(name)
        levels = np.quantile(self.validation.points[:, places], _USUAL, axis=0)
        if self._schema is None:
            return tuple(levels[:, 0].tolist())
        # Where values are missing, and how often, is no range of numbers.
        levels[:, 1:] = 0.0
        written = [self._written_by(level, name) for level in levels]
        return tuple(k for k in written if isinstance(k, float)) or None

    def unit(self, name: str | int) -> str:
        """The unit of a column, by its schema."""
        schema = self._schema
        column = None if schema is None else schema.used[schema.origins[self._place(name)]]
        return str(getattr(column, "unit", ""))

    @property
    def _schema(self) -> Contract | None:
        return next((measure.schema for measure in self._measures if measure.schema), None)

    def _place(self, name: str | int) -> int:
        return self._names.index(name) if isinstance(name, str) else name

    def _places(self, name: str | int) -> list[int]:
        """Places of all coordinates of a column, by one of them."""
        place, schema = self._place(name), self._schema
        if schema is None:
            return [place]
        own = schema.origins[place]
        return [k for k, origin in enumerate(schema.origins) if origin == own]

    def _written(self, point: Array, name: str | int) -> float | str:
        return self._written_by(point[self._places(name)], name)

    def _written_by(self, coordinates: Array, name: str | int) -> float | str:
        schema = self._schema
        if schema is None:
            return float(coordinates[0])
        return read_back(schema.used[schema.origins[self._place(name)]], coordinates)

    def identifier(self, record: int) -> str:
        """Return what the holder calls a record; nothing where it has no name."""
        return "" if self.identifiers is None else str(self.identifiers[record])


def _label(measure: Measure | None, record: int) -> str:
    return "" if measure is None or measure.names is None else str(measure.names[record])


@dataclass(frozen=True, kw_only=True)
class OddColumn:
    """A column whose value does not fit the others of its record."""

    name: str | int
    """Of the column, or its place where it has none."""
    times: float
    """How many times what is usual the value is off."""
    value: float | str | None = None
    """What stands there in the record; ``None`` where that is not at hand."""
    unit: str = ""
    """Of the value, by the schema."""
    quantiles: tuple[float, ...] | None = None
    """At 1, 25, 75 and 99 % of validation values; ``None`` where these are not numbers or not at
    hand."""

    @property
    def expected(self) -> tuple[float, float] | None:
        """Range of 98 % of the validation records."""
        return None if self.quantiles is None else (self.quantiles[0], self.quantiles[-1])

    @property
    def mistake(self) -> str:
        """The mistake of a unit or a decimal point that would explain the value; or nothing."""
        if not isinstance(self.value, float) or self.quantiles is None:
            return ""
        return unit_mistake(str(self.name), self.value, self.quantiles, self.unit)

    def __str__(self) -> str:
        text = self.name if isinstance(self.name, str) else f"column {self.name}"
        if isinstance(self.value, float):
            text += f" {self.value:.6g} {self.unit}".rstrip()
            # First, since terminals may cut what follows.
            text += f", {self.mistake}" if self.mistake else ""
            if self.expected is not None:
                text += " ({:.4g} to {:.4g} expected)".format(*self.expected)
        elif self.value:
            text += f" {self.value}"
        if self.times >= _MOST:
            return f"{text}, over a million times usual"
        return f"{text}, {self.times:,.{0 if self.times >= 10 else 1}f} times usual"


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """A record that is flagged, a copy, or of an unknown class, with the reason."""

    record: int
    """Its place."""
    identifier: str = ""
    """What the holder calls it; empty where that is not at hand."""
    score: float
    """As in the scores."""
    flagged: bool
    """As in the scores."""
    precision: float = 0.0
    """Share of records expected to be faulty among all that are as suspect or more."""
    kinds: tuple[str, ...] = ()
    """Of ``"label"``, ``"features"``, ``"copy"`` and ``"unknown label"`` those that it is listed
    for; none with the published method."""
    label: str = ""
    """Its label; empty where that is not at hand."""
    suggested: str = ""
    """The class it seems to be of, where its label is wrong or unknown."""
    columns: tuple[OddColumn, ...] = field(default=())
    """Where its features are likely faulty, those responsible, the worst first."""
    copy_of: int | None = None
    """The record it is a copy of, if any."""
    original: str = ""
    """What the holder calls the record it is a copy of."""
    nearest: int | None = None
    """Place of the nearest record of the validation data."""
    nearest_label: str = ""
    """Label of that record."""

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
    """Flagged records, copies, records of unknown classes, and the first few of the ranking."""
    contents = contents or Contents()
    contents.check(scores)
    part = scores.screening
    if part is None:
        listed = scores.flagged
    else:
        listed = scores.flagged | part.copies
        listed[scores.worst[:_LISTED]] = True
        if part.labels is not None:
            listed = listed | ~part.has_known_label
    return [suspect(scores, k, contents) for k in scores.worst.tolist() if listed[k]]


def suspect(scores: RecordScores, k: int, contents: Contents) -> Suspect:
    """Return what there is to say of a record."""
    part = scores.screening
    fields: dict[str, Any] = {
        "record": k,
        "identifier": contents.identifier(k),
        "score": float(scores.scores[k]),
        "flagged": bool(scores.flagged[k]),
    }
    if part is None:
        return Suspect(**fields)
    kinds = _kinds(part, k)
    fields |= {"kinds": kinds, "nearest": int(part.nearest[k])}
    fields["precision"] = float(part.precision[(scores.scores >= scores.scores[k]).sum() - 1])
    if part.labels is not None:
        fields["label"] = _label(contents.records, k)
        fields["nearest_label"] = _label(contents.validation, int(part.nearest[k]))
    # Who follows a suggestion must not change a label for a value that is wrong.
    is_by_label = part.labels is not None and part.labels[k] > max(part.features[k], 0.0)
    is_by_label &= "features" not in kinds
    if part.suggested is not None and (is_by_label or {"label", "unknown label"} & {*kinds}):
        fields["suggested"] = str(part.suggested[k])
    if "features" in kinds or part.features[k] > 0 or not kinds:
        fields["columns"] = _odd(part, k, contents)
    if "copy" in kinds:
        original = int(part.copy_of[k])
        fields |= {"copy_of": original, "original": contents.identifier(original)}
    return Suspect(**fields)


def _kinds(part: Screening, k: int) -> tuple[str, ...]:
    """Return what a record is listed for."""
    unknown = part.labels is not None and not part.has_known_label[k]
    kinds = (str(part.kinds[k]), "copy" * bool(part.copies[k]), "unknown label" * unknown)
    return tuple(kind for kind in kinds if kind)


def _odd(part: Screening, k: int, contents: Contents) -> tuple[OddColumn, ...]:
    pairs = zip(part.columns[k].tolist(), part.residuals[k].tolist(), strict=True)
    odd: dict[str | int, OddColumn] = {}
    for place, (name, times) in enumerate(pairs):
        column = contents.column(name)
        if column not in odd and (place == 0 or times >= _ODD):
            value = contents.value(k, name)
            quantiles = None if isinstance(value, str) else contents.expected(name)
            odd[column] = OddColumn(
                name=column, times=times, value=value, unit=contents.unit(name),
                quantiles=quantiles,
            )  # fmt: skip
    return tuple(odd.values())


def row(item: Suspect, scores: RecordScores, contents: Contents | None) -> dict[str, object]:
    """A suspect record as a row of a table; all of one result have the same keys."""
    contents, part = contents or Contents(), scores.screening
    named = contents.identifiers is not None
    screened = part is not None
    labelled = part is not None and part.labels is not None
    cells: list[tuple[str, object, bool]] = [
        ("record", item.record, True),
        ("identifier", item.identifier, named),
        ("score", round(item.score, 4), True),
        ("flagged", item.flagged, True),
        ("precision_so_far", round(item.precision, 3), screened),
        ("kind", item.kind, screened),
        ("label", item.label, labelled and contents.records is not None),
        ("suggested_label", item.suggested, labelled),
        ("columns", "; ".join(map(str, item.columns)), screened),
        ("copy_of", "" if item.copy_of is None else item.copy_of, screened),
        ("copy_of_identifier", item.original, screened and named),
        ("nearest_good", "" if item.nearest is None else item.nearest, screened),
        ("nearest_good_label", item.nearest_label, labelled and contents.validation is not None),
    ]
    return {title: value for title, value, is_shown in cells if is_shown}


Rows = tuple[list[str], list[dict[str, object]]]


def sheet_rows(
    scored: Mapping[str, RecordScores],
    contents: Mapping[str, Contents] | None = None,
    *,
    holders: bool = True,
) -> Rows:
    """Names and rows of a decision sheet: the listed records of several holders.

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
        holder = {"holder": name} if holders else {}
        rows += [holder | row(item, scores, own) for item in suspects(scores, own)]
    return list(names), rows


Places = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Estimate:
    """Estimated number of records, with a 95 % interval."""

    value: float
    """Number of records."""
    low: float
    """Lower end of the interval."""
    high: float
    """Upper end of the interval."""

    def to_dict(self) -> dict[str, float]:
        """Fields by name, ready for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True, eq=False)
class Screening:
    """Results for each of n records from validation records."""

    labels: Array | None = field(repr=False)
    """Log likelihood ratio (n,) of a wrong label against a right one; ``None`` without labels."""
    features: Array = field(repr=False)
    """Log likelihood ratio (n,) of faulty features against clean ones."""
    kinds: Texts = field(repr=False)
    """``"label"`` or ``"features"`` (n,), what a flagged record is flagged for; else ``""``."""
    suggested: npt.NDArray[Any] | None = field(repr=False)
    """The class (n,) that a record seems to be of, if not of its own; ``None`` without labels."""
    has_known_label: Flags = field(repr=False)
    """Whether the validation records have the class of the record (n,): labels of other classes are
    not judged."""
    copy_of: Places = field(repr=False)
    """The first record (n,) that a record is a copy of, exact or nearly; -1 if of none."""
    nearest: Places = field(repr=False)
    """Place (n,) of the nearest validation record, of those that were given: the nearest good
    record."""
    columns: npt.NDArray[Any] = field(repr=False)
    """The columns (n, c) that fit the others of the record least, by name where there are names."""
    residuals: Array = field(repr=False)
    """How many times what is usual their values are off (n, c)."""
    precision: Array = field(repr=False)
    """Share (n,) expected to be faulty among the first one, two and so on of ``worst``."""
    broken: Mapping[str, Estimate]
    """About how many records are faulty: ``"label"``, ``"features"`` and ``"all"``."""

    @property
    def copies(self) -> Flags:
        """Records that are copies of an earlier one (n,)."""
        return self.copy_of >= 0


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordScores(RunResult):
    """Hold how likely each record of a holder is faulty.

    Attributes
    ----------
    scores
        One number for each record (n,), higher means more suspect: the log odds that it is
        faulty; with
        the published method its calibrated gradient, in units of cost.
    flagged
        Records called faulty (n,).
    method
        ``"screening"`` or ``"published"``.
    fdr
        Share of the flagged records that may be clean; ``None`` where the method has no level.
    screening
        Parts of the scores, kinds of faults, copies; ``None`` with the published method.
    coordinator
        With the published method, gradients (n,) that the coordinator computes between the two
        interpolants; ``None`` when the holder refused to send one.
    rule
        In words, how records are flagged.
    """

    view: ClassVar = "view:records"

    name: str
    scores: Array = field(repr=False)
    flagged: Flags = field(repr=False)
    method: str
    fdr: float | None
    screening: Screening | None = field(repr=False)
    coordinator: Array | None = field(repr=False, default=None)
    rule: str
    status: str
    converged: bool
    seed: int

    @property
    def worst(self) -> npt.NDArray[np.intp]:
        """Positions of the records, the most suspect first."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def parts(self) -> Screening:
        """Parts of the scores.

        Raises
        ------
        AttributeError
            The published method has one number for each record and no parts.
        """
        if self.screening is None:
            raise AttributeError(
                "the published method has one number for each record, without parts"
            )
        return self.screening

    @property
    def summary(self) -> str:
        """How many records are flagged, for what, about how many are faulty, and copies.

        Examples
        --------
        >>> scores = np.array([3.0, -1.0, 0.5])
        >>> RecordScores(name="north", scores=scores, flagged=scores > 1, method="published",
        ...              fdr=None, screening=None, rule="score above 1", status="converged",
        ...              converged=True, seed=0).summary
        '1 of 3 flagged'
        """
        text = f"{int(self.flagged.sum()):,} of {len(self.scores):,} flagged"
        part = self.screening
        if part is None:
            return text
        if part.labels is not None and self.flagged.any():
            text += (
                f" ({int((part.kinds == 'label').sum()):,} label, "
                f"{int((part.kinds == 'features').sum()):,} features)"
            )
        estimate = part.broken["all"]
        value, low, high = (
            f"{edge:,.0f}" for edge in (estimate.value, estimate.low, estimate.high)
        )
        text += f"; about {value} {'is' if value == '1' else 'are'} faulty ({low} to {high})"
        copies = int(part.copies.sum())
        first = min(_LISTED, len(self.scores))
        expected = first * float(part.precision[first - 1])
        text += f"; of the first {first} about {expected:.0f}"
        text += f"; {count(copies, 'copy', 'copies') if copies else 'no copies'}"
        if part.labels is not None and not part.has_known_label.all():
            text += f"; {count(int((~part.has_known_label).sum()), 'unknown label')}"
        return text

    def suspects(self, contents: Contents | None = None) -> list[Suspect]:
        """Flagged records, copies, and records of classes that the validation data lack.

        Parameters
        ----------
        contents
            What the records are called and what stands in them, where that is at hand; then it
            is shown beside what the nearest good record has.

        Returns
        -------
        list of Suspect
            The most suspect first.

        Raises
        ------
        InputError
            ``records-contents``: contents of other records.
        """
        return suspects(self, contents)

    def rows(self, contents: Contents | None = None) -> list[dict[str, object]]:
        """``suspects`` as rows of a table, by names in plain words."""
        return [row(item, self, contents) for item in suspects(self, contents)]

    def to_csv(self, contents: Contents | None = None) -> str:
        """``rows`` as the text of a csv file without formulas.

        Examples
        --------
        >>> scores = np.array([3.0, -1.0, 0.5])
        >>> found = RecordScores(name="north", scores=scores, flagged=scores > 1, fdr=None,
        ...                      method="published", screening=None, rule="score above 1",
        ...                      status="converged", converged=True, seed=0)
        >>> print(found.to_csv(Contents(identifiers=["=1+1", "p2", "p3"])))
        record,identifier,score,flagged
        0,'=1+1,3.0,yes
        <BLANKLINE>
        """
        by_name = {} if contents is None else {self.name: contents}
        return "".join(csv_lines(*sheet_rows({self.name: self}, by_name, holders=False)))

    @property
    def verdict(self) -> str:
        """How many records are flagged, and how many are likely faulty."""
        return f"{self.summary}."

    @property
    def value(self) -> float:
        """Estimated number of faulty records, or of flagged ones without an estimate."""
        part = self.screening
        return float(self.flagged.sum()) if part is None else part.broken["all"].value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Within which their number lies in 95 % of cases."""
        part = self.screening
        return None if part is None else (part.broken["all"].low, part.broken["all"].high)

    def with_columns(self, trusted: Measure, *others: Measure) -> RecordScores:
        """Return the scores with columns by name, and validation records by their place.

        Names are those that one of the measures has: all are in one order.
        """
        part = self.screening
        if part is None:
            return self
        places = np.flatnonzero(trusted.weights > 0)[part.nearest]
        measures = (trusted, *others)
        names = next((measure.columns for measure in measures if measure.columns is not None), None)
        columns = part.columns if names is None else np.array(names)[part.columns]
        return replace(self, screening=replace(part, columns=columns, nearest=places))

    def to_dict(self) -> dict[str, Any]:
        part = self.screening
        return {
            "holder": self.name,
            "method": self.method,
            "records": len(self.scores),
            "flagged": np.flatnonzero(self.flagged).tolist(),
            "fdr": self.fdr,
            "rule": self.rule,
            "status": self.status,
            "converged": self.converged,
            "scores": self.scores.tolist(),
            "coordinator": None if self.coordinator is None else self.coordinator.tolist(),
            "screening": None if part is None else _parts(part),
            **self._cost_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        return f"RecordScores({self.name!r}, {self.summary})"


def _parts(part: Screening) -> dict[str, Any]:
    return {
        "labels": None if part.labels is None else part.labels.tolist(),
        "features": part.features.tolist(),
        "kinds": part.kinds.tolist(),
        "suggested": None if part.suggested is None else part.suggested.tolist(),
        "known": part.has_known_label.tolist(),
        "copy_of": part.copy_of.tolist(),
        "nearest": part.nearest.tolist(),
        "columns": part.columns.tolist(),
        "precision": part.precision.tolist(),
        "residuals": [[finite(number) for number in row] for row in part.residuals.tolist()],
        "broken": {name: estimate.to_dict() for name, estimate in part.broken.items()},
    }
