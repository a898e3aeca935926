"""Which records of a holder are suspect."""

from __future__ import annotations

import csv
import html
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ._run import Array, Billed, finite

Flags = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
Texts = npt.NDArray[np.str_]


@dataclass(frozen=True)
class Estimate:
    """About how many records, with a 95 % interval.

    Attributes
    ----------
    value, low, high
        Numbers of records.
    """

    value: float
    low: float
    high: float

    def to_dict(self) -> dict[str, float]:
        """Fields by name, ready for JSON."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, kw_only=True, eq=False)
class Screening:
    """What validation records say of each of n records.

    Attributes
    ----------
    labels
        Log likelihood ratio (n,) of a wrong label against a right one; ``None`` without labels.
    features
        Log likelihood ratio (n,) of broken features against sound ones.
    kinds
        ``"label"`` or ``"features"`` (n,), what a flagged record is flagged for; else ``""``.
    suggested
        The class (n,) that a record seems to be of, if not of its own; ``None`` without labels.
    known
        Whether the validation records have the class of the record (n,): labels of other classes
        are not judged.
    copy_of
        The first record (n,) that a record is a copy of, exact or nearly; -1 if of none.
    nearest
        Place (n,) of the nearest validation record.
    columns, residuals
        The columns (n, c) that fit the others of the record least, by name where there are names,
        and by how many times what is usual.
    broken
        About how many records are broken: ``"label"``, ``"features"`` and ``"all"``.
    """

    labels: Array | None = field(repr=False)
    features: Array = field(repr=False)
    kinds: Texts = field(repr=False)
    suggested: npt.NDArray[Any] | None = field(repr=False)
    known: Flags = field(repr=False)
    copy_of: Places = field(repr=False)
    nearest: Places = field(repr=False)
    columns: npt.NDArray[Any] = field(repr=False)
    residuals: Array = field(repr=False)
    broken: Mapping[str, Estimate]

    @property
    def copies(self) -> Flags:
        """Records that are copies of an earlier one (n,)."""
        return self.copy_of >= 0


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordScores(Billed):
    """How suspect each record of a holder is.

    Attributes
    ----------
    scores
        One number a record (n,), higher means more suspect: the log odds that it is broken; with
        the published method its calibrated gradient, in units of cost.
    flagged
        Records called broken (n,).
    method
        ``"screening"`` or ``"published"``.
    fdr
        Share of the flagged records that may be sound; ``None`` where the method has no level.
    screening
        Parts of the scores, kinds of faults, copies; ``None`` with the published method.
    coordinator
        With the published method, gradients (n,) that the coordinator computes between the two
        interpolants; ``None`` when the holder refused to send one.
    rule
        In words, how records are flagged.
    """

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
            The published method has one number a record and no parts.
        """
        if self.screening is None:
            raise AttributeError("the published method has one number a record, and no parts")
        return self.screening

    def rows(self, identifiers: Sequence[object] | None = None) -> list[dict[str, object]]:
        """Flagged records and copies as rows of a table, the most suspect first.

        Parameters
        ----------
        identifiers
            What the holder calls its records (n,); by default only their places are told.
        """
        part = self.screening
        told = self.flagged if part is None else self.flagged | part.copies
        return [self._row(k, identifiers) for k in self.worst.tolist() if told[k]]

    def _row(self, k: int, identifiers: Sequence[object] | None) -> dict[str, object]:
        row: dict[str, object] = {"record": k}
        if identifiers is not None:
            row["identifier"] = identifiers[k]
        row |= {"flagged": bool(self.flagged[k]), "score": round(float(self.scores[k]), 4)}
        part = self.screening
        if part is None:
            return row
        row["kind"] = str(part.kinds[k])
        if part.labels is not None and part.suggested is not None:
            row["label_score"] = round(float(part.labels[k]), 4)
            row["suggested_label"] = part.suggested[k] if part.kinds[k] == "label" else ""
        row["features_score"] = round(float(part.features[k]), 4)
        row["columns"] = " ".join(map(str, part.columns[k].tolist()))
        row["times_usual"] = " ".join(f"{each:.2g}" for each in part.residuals[k].tolist())
        row["copy_of"] = int(part.copy_of[k]) if part.copy_of[k] >= 0 else ""
        row["nearest_validation_record"] = int(part.nearest[k])
        return row

    def to_csv(self, identifiers: Sequence[object] | None = None) -> str:
        """``rows`` as the text of a csv file."""
        text = io.StringIO()
        # The first record has the same columns, flagged or not.
        writer = csv.DictWriter(text, list(self._row(0, identifiers)), lineterminator="\n")
        writer.writeheader()
        for row in self.rows(identifiers):
            writer.writerow({name: _cell(value) for name, value in row.items()})
        return text.getvalue()

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
            **self._bill_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        return (
            f"RecordScores({self.name!r}, {len(self.scores)} records, "
            f"{int(self.flagged.sum())} flagged)"
        )

    def _repr_html_(self) -> str:
        rows = self.rows()[:20]
        names = list(rows[0]) if rows else []
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        body = "".join(
            "<tr>" + "".join(f"<td>{html.escape(str(row[name]))}</td>" for name in names) + "</tr>"
            for row in rows
        )
        return (
            f"<table><caption>{html.escape(repr(self))}: {html.escape(self.status)}</caption>"
            f"<tr>{head}</tr>{body}</table>"
        )


def _cell(value: object) -> object:
    """A value no spreadsheet takes for a formula."""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return f"'{value}"
    return value


def _parts(part: Screening) -> dict[str, Any]:
    return {
        "labels": None if part.labels is None else part.labels.tolist(),
        "features": part.features.tolist(),
        "kinds": part.kinds.tolist(),
        "suggested": None if part.suggested is None else part.suggested.tolist(),
        "known": part.known.tolist(),
        "copy_of": part.copy_of.tolist(),
        "nearest": part.nearest.tolist(),
        "columns": part.columns.tolist(),
        "residuals": [[finite(each) for each in row] for row in part.residuals.tolist()],
        "broken": {name: each.to_dict() for name, each in part.broken.items()},
    }
