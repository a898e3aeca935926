"""Report how well a table fits a schema: by column, in counts, for its own site only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from .column_kinds import Date, Feature, Label, Number, YesNo
from .coordinates import number_coordinates, stand_in
from .fields import Signs
from .names import listing
from .notation import Notation
from .schema import Contract
from .tables import Rows
from .units import suspect_unit, suspect_unit_of_few

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

# Part of the values up to which numbers out of the range are cut to it, and unreadable fields
# count as missing: beyond, the column is likely another one.
MOST_OUTSIDE = 0.05
_NAMED = 12
# Records from where on a statement about all of them is made, and a part that is reported.
_ENOUGH = 10
_MOST_OTHER = 0.25
# A stand-in for missing numbers is far from the others if it is this many interquartile ranges
# away, or this part of the column's weight.
_FAR, _NARROW = 4.0, 0.05


# Kinds of misfits that problems of other names are about.
_KINDS = {"filled": ("missing",), "sentinel": ("coded",), "outside": ("below", "above")}


_SENTENCES = {
    "fraction": "numbers are fractions, but the column must hold whole numbers.",
    "unknown": "records have a category that the schema does not have: name it in the codes of a "
    "site file, or let the schema have other: true.",
    "alike": "records have a category that differs from one of the schema in case, blanks, signs "
    "or the alphabet alone: write it alike, or name it in the codes of a site file.",
}


@dataclass(frozen=True)
class Note:
    """Something that a person should look at.

    Attributes
    ----------
    column
        Its column, empty where it is about all.
    kind
        In one word: ``"sentinel"``, ``"unit"``, ``"alike"``, ``"unread"``, ``"identifier"``.
    sentence
        What it is and what to do, without any value of the data.
    refused
        Whether the table is refused until that is corrected.
    """

    column: str
    kind: str
    sentence: str
    refused: bool = False


@dataclass(frozen=True)
class Problem(Note):
    """One thing that does not fit, and of how many fields or records."""

    count: int = 0


@dataclass(eq=False)
class ColumnFit:
    """What does not fit of a column, whose unit is stated by the site file, or notation by either.

    Attributes
    ----------
    counts, first
        By kind how many fields do not fit, and the line of the first. They are ``"missing"``,
        ``"unread"`` (of another kind; counted among the missing ones too if the schema says so),
        ``"below"`` and ``"above"`` the range, categories that are ``"unknown"``, ``"other"`` or
        ``"alike"`` to one of the schema but for case, blanks or signs, ``"fraction"``, and
        ``"coded"``: values out of the range that often stand for missing ones.
    numbers, strays
        Of a column of numbers a sample, and all out of the range, before they were cut to it.
    """

    is_stated: bool = False
    is_declared: bool = False
    counts: Counter[str] = field(default_factory=Counter[str])
    first: dict[str, int] = field(default_factory=dict[str, int])
    numbers: Array = field(default_factory=lambda: np.empty(0), repr=False)
    strays: Rows = field(default_factory=lambda: Rows(1), repr=False)
    signs: Signs = field(default_factory=Signs, repr=False)

    def add(self, misfits: Mapping[str, Bools], lines: Sequence[int]) -> None:
        """Count the fields of a block that are misfits of each kind."""
        for kind, mask in misfits.items():
            if mask.any():
                self.counts[kind] += int(mask.sum())
                self.first.setdefault(kind, lines[int(np.argmax(mask))])

    @property
    def outside(self) -> int:
        """Count the values out of the range, on either side."""
        return self.counts["below"] + self.counts["above"]

    @cached_property
    def notations(self) -> tuple[Notation, ...]:
        """Return the notations that its texts may have."""
        return self.signs.reading().notations


@dataclass(eq=False)
class Fit:
    """What does not fit of a table.

    The schema does not name the ``extra`` columns. ``repeated`` records are equal to an earlier one
    in all coordinates, label and identifiers, and ``is_dropped`` says whether they are left out;
    ``shared_identifiers`` counts those whose identifier an earlier one has. ``line`` is what the
    lines of the table are called.
    """

    schema: Contract = field(repr=False)
    columns: Mapping[str, ColumnFit]
    extra: tuple[str, ...] = ()
    records: int = 0
    repeated: int = 0
    is_dropped: bool = False
    shared_identifiers: Mapping[str, int] = field(default_factory=dict[str, int])
    line: str = "line"

    @property
    def problems(self) -> list[Problem]:
        """Return all problems, those that refuse the table first."""
        label = self.schema.label
        parts: dict[str, Feature | Label] = {**self.schema.used}
        parts |= {label.column: label} if label else {}
        problems = [
            problem for name, part in parts.items() for problem in self._of_column(name, part)
        ]
        problems += [*self._of_weights(), *self._of_records()]
        return sorted(
            (problem for problem in problems if problem.count),
            key=lambda problem: not problem.refused,
        )

    def check(self) -> None:
        """Raise if the table cannot be used: ``schema-unit`` where only units do not fit."""
        refused = [problem for problem in self.problems if problem.refused]
        if refused:
            more = f" And {len(refused) - _NAMED} more." if len(refused) > _NAMED else ""
            sentences = " ".join(problem.sentence for problem in refused[:_NAMED])
            units = all(problem.kind == "unit" for problem in refused)
            raise InputError(
                f"the table does not fit the schema. {sentences}{more}",
                code="schema-unit" if units else "schema-fit",
            )

    def _problem(
        self, name: str, kind: str, count: int, sentence: str, *, refused: bool = True
    ) -> Problem:
        first = self.columns[name].first if name in self.columns else {}
        lines = [first[kind] for kind in _KINDS.get(kind, (kind,)) if kind in first]
        place = f" The first is in {self.line} {min(lines)}." if lines else ""
        words = f"Column {name!r}: {count} of {self.records} {sentence}{place}"
        return Problem(name, kind, words, refused, count)

    def _of_column(self, name: str, part: Feature | Label) -> Iterator[Problem]:
        fit = self.columns[name]
        yield self._of_unread(name, part, fit.counts["unread"])
        is_clear = fit.is_declared or fit.counts["unread"]
        ways = () if is_clear else fit.notations
        yield self._problem(
            name, "notation", self.records if len(ways) > 1 else 0,
            "records have numbers that can be read in two ways: say which in a site file, "
            f"{self._entries(name)}.",
        )  # fmt: skip
        for kind, words in _SENTENCES.items():
            yield self._problem(name, kind, fit.counts[kind], words)
        yield self._of_others(name, fit)
        yield self._of_missing(name, part, fit.counts["missing"])
        if isinstance(part, Number | Date):
            yield from self._of_outside(name, part, fit)

    def _of_unread(self, name: str, part: Feature | Label, count: int) -> Problem:
        expected = {
            Number: "numbers",
            Date: "dates in the format of the schema or the site file",
            YesNo: "words for yes or no",
        }.get(type(part), "names")
        spared = isinstance(part, Number | Date) and part.unread == "missing"
        if spared and count <= MOST_OUTSIDE * self.records:
            words = f"fields are not {expected}, and count as missing."
            return self._problem(name, "unread", count, words, refused=False)
        words = f"fields are not {expected}: correct them, or list missing codes as sentinels."
        if isinstance(part, YesNo):
            words += " If this site has other words, list them in a site file: codes: {ja: yes}."
        if isinstance(part, Number) and (entries := self._entries(name)):
            words += f" Say how they are written in a site file: {entries}."
        return self._problem(name, "unread", count, words)

    def _entries(self, name: str) -> str:
        """Return the entries of a site file that say how numbers are written, to paste."""
        ways = self.columns[name].notations[:2]
        return " or ".join(f"columns: {{{name}: {{notation: {way}}}}}" for way in ways)

    def _of_others(self, name: str, fit: ColumnFit) -> Problem:
        present = self.records - fit.counts["missing"]
        if fit.counts["other"] == present and present >= _ENOUGH:
            words = (
                "records are other: none has a category of the schema. If they are written in "
                "other ways here, name them in the codes of a site file."
            )
            return self._problem(name, "other", fit.counts["other"], words)
        words = "records are other: do they have categories that the schema should name?"
        many = fit.counts["other"] if fit.counts["other"] > _MOST_OTHER * present else 0
        return self._problem(name, "other", many, words, refused=False)

    def _of_missing(self, name: str, part: Feature | Label, count: int) -> Problem:
        if part.missing in ("refuse", None):
            words = "let the schema have missing: indicator, or a public value."
            if isinstance(part, Label):
                words = "let the schema name a class for them, as missing: of its label."
            return self._problem(name, "missing", count, f"records have no value: {words}")
        instead = "an extra 0/1 feature says so"
        if part.missing != "indicator":
            instead = "the public value stands for it"
        if self._far_fill(name, part):
            instead += (
                ". The number in its place (the middle of the range, or the public value of the "
                "schema) is far from nearly all others, so these records count as far from all. "
                "Narrow the range, use transform: rank, or give a public value that is nearer"
            )
        words = f"records have no value: {instead}."
        return self._problem(name, "filled", count, words, refused=False)

    def _far_fill(self, name: str, part: Feature | Label) -> bool:
        """Return whether the stand-in for missing numbers is far from those of the site."""
        numbers = self.columns[name].numbers
        if not isinstance(part, Number) or part.period is not None or len(numbers) < _ENOUGH:
            return False
        places, fill = (
            number_coordinates(part, numbers),
            number_coordinates(part, [stand_in(part)])[0],
        )
        low, high = np.quantile(places, (0.25, 0.75))
        away = max(low - fill, fill - high)
        return bool(away > _FAR * max(high - low, _NARROW * part.weight))

    def _of_outside(self, name: str, part: Number | Date, fit: ColumnFit) -> Iterator[Problem]:
        what, like = (
            ("days", "1900-01-01") if isinstance(part, Date) else ("numbers", "0, all nines")
        )
        # A few numbers in another unit look like codes.
        is_coded = part.outside != "missing" and 2 * fit.counts["coded"] >= fit.outside
        coded = fit.counts["coded"] if is_coded else 0
        yield self._problem(
            name, "sentinel", coded,
            f"{what} are out of the range and look like codes for missing values "
            f"({like} and the like): name them as sentinels in the schema or the site file, or "
            "widen the range.",
        )  # fmt: skip
        unit = self._of_unit(name, part, fit) if isinstance(part, Number) else None
        if unit is not None:
            yield unit
        if coded < fit.outside and (unit is None or not unit.refused):
            yield self._of_range(name, part, fit)

    def _of_range(self, name: str, part: Number | Date, fit: ColumnFit) -> Problem:
        # Any part of the values may count as missing if the schema says so, but not all of them.
        most = 1.0 if part.outside == "missing" else MOST_OUTSIDE
        present = self._present(part, fit)
        far = part.outside == "refuse" or fit.outside > most * self.records
        far = far or (present >= _ENOUGH and fit.outside == present)
        cut = "are cut to it" if part.outside == "clip" else "count as missing"
        cure = ": is it in another unit, or are there codes for missing values?" if far else ""
        where = f"lie out of the range ({fit.counts['below']} below, {fit.counts['above']} above)"
        words = f"values {where}{cure if far else f' and {cut}.'}"
        return self._problem(name, "outside", fit.outside, words, refused=far)

    def _of_unit(self, name: str, part: Number, fit: ColumnFit) -> Problem | None:
        numbers, strays = fit.numbers, fit.strays.array[:, 0]
        if part.outside == "missing" and not part.range[0] <= 0 <= part.range[1]:
            # Zeros count as missing here, so they are in no unit.
            numbers = numbers[numbers != 0]
        if not len(numbers):
            return None
        present = self._present(part, fit)
        low, middle, high = np.quantile(numbers, (0.25, 0.5, 0.75)).tolist()
        quartiles = (low, middle, high)
        suspicion = suspect_unit(name, part, quartiles, fit.outside / present)
        if suspicion is None:
            inside = numbers[(numbers >= part.range[0]) & (numbers <= part.range[1])]
            every = np.concatenate([inside, strays])
            suspicion = suspect_unit_of_few(name, part, quartiles, every, present)
        if suspicion is None:
            return None
        strong = suspicion.strong and present >= _ENOUGH and not fit.is_stated
        words = f"Column {name!r}: {suspicion.sentence}"
        return Problem(name, "unit", words, strong, suspicion.count or present)

    def _present(self, part: Number | Date, fit: ColumnFit) -> int:
        """Count the fields with a number or a day, in the range or not."""
        unread = fit.counts["unread"] if part.unread == "refuse" else 0
        outside = fit.outside if part.outside == "missing" else 0
        return max(self.records - fit.counts["missing"] - unread + outside, 1)

    def _of_weights(self) -> Iterator[Problem]:
        if self.schema.weight is None:
            return
        name = self.schema.weight.column
        fit = self.columns[name]
        wrong = fit.counts["unread"] + fit.counts["missing"] + fit.counts["below"]
        words = f"Weight column {name!r}: {wrong} of {self.records} are not weights of 0 or more."
        yield Problem(name, "unread", words, True, wrong)
        words = (
            f"Weight column {name!r}: {fit.counts['above']} of {self.records} are above the limit "
            "and are cut to it."
        )
        yield Problem(name, "outside", words, False, fit.counts["above"])

    def _of_records(self) -> Iterator[Problem]:
        names = listing([repr(name) for name in self.extra], _NAMED)
        words = f"Left out, because the schema does not name them: {names}."
        yield Problem("", "extra", words, False, len(self.extra))
        words = f"{self.repeated} of {self.records} records are equal to an earlier one"
        cure = "; `repeats: drop` in a site file leaves them out."
        words += ", and are left out." if self.is_dropped else cure
        yield Problem("", "repeated", words, False, self.repeated)
        for name, count in self.shared_identifiers.items():
            yield self._problem(
                name, "repeated", count,
                "records have the identifier of an earlier one. A guarantee for one record "
                "does not protect a person who has several.", refused=False,
            )  # fmt: skip
