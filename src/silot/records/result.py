"""Which records of a holder are suspect."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from ..federation.result import Array, Billed, finite
from ..render.words import count
from .contents import Contents, Suspect, records_csv, row, suspects

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
        Place (n,) of the nearest validation record, of those that were given: the nearest good
        record.
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
            The published method has one number a record and no parts.
        """
        if self.screening is None:
            raise AttributeError("the published method has one number a record, and no parts")
        return self.screening

    @property
    def summary(self) -> str:
        """How many records are flagged, for what, about how many are broken, and copies.

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
        each = part.broken["all"]
        value, low, high = (f"{edge:,.0f}" for edge in (each.value, each.low, each.high))
        text += f"; about {value} {'is' if value == '1' else 'are'} broken ({low} to {high})"
        copies = int(part.copies.sum())
        text += f"; {count(copies, 'copy', 'copies') if copies else 'no copies'}"
        if part.labels is not None and not part.known.all():
            text += f"; {count(int((~part.known).sum()), 'unknown label')}"
        return text

    def suspects(self, contents: Contents | None = None) -> list[Suspect]:
        """Flagged records, copies, and records of classes that the validation data lack.

        Parameters
        ----------
        contents
            What the records are called and what stands in them, where that is at hand; then it
            is told beside what the nearest good record has.

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
        return [row(each, self, contents) for each in suspects(self, contents)]

    def to_csv(self, contents: Contents | None = None) -> str:
        """``rows`` as the text of a csv file, no cell of which is a formula.

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
        given = {} if contents is None else {self.name: contents}
        return records_csv({self.name: self}, given, holders=False)

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
        return f"RecordScores({self.name!r}, {self.summary})"


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
