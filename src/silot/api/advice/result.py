"""Advice and its evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from ...distances.result import Distance
from ...distances.worth.result import Contributions
from ...federation.result import Billed, Run, finite
from ...records.result import RecordScores
from ...teaching.federated.clustering import Clustering

Kind = Literal["pool", "group", "leave-out", "drop", "ask", "nothing"]

UNIT = "W2 of the pool to the validation records"
NOT_COMPARABLE = "not comparable"
OTHERS = "gain, where other validation records of their distribution are drawn"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A number that a piece of advice rests on.

    Attributes
    ----------
    what
        What it is, in words.
    value, lower, upper
        The number, and its bounds.
    by
        What it was measured by, and what the bounds are.
    """

    what: str
    value: float
    lower: float
    upper: float
    by: str


@dataclass(frozen=True, kw_only=True)
class Advice:
    """One piece of advice.

    Attributes
    ----------
    kind
        ``"pool"``: holders that no test tells apart. ``"group"``: holders
        to train apart. ``"leave-out"``: holders without which the pool is nearer the validation
        records. ``"drop"``: flagged records of a holder. ``"ask"``: for more records of a class.
        ``"nothing"``: nothing helps for sure.
    holders
        Whom it is about.
    text
        The advice, in a sentence or two.
    gain
        By how much following it lowers the distance of the pool to the validation records, once
        holders that are sure to be left out are (of
        ``"pool"``: below those of its holders alone, the root of their mean square); ``None``
        where it is no matter of that distance.
    lower, upper
        Certified bounds of the gain, of these records; of releases an interval of 95 %.
    unit
        What the gain is measured in, or ``"not comparable"``.
    sure
        Whether other records of the same distributions would say so too: the evidence passes a
        test, at 5 % over all pieces, and ``lower`` is above 0 where there is a gain.
    evidence
        The numbers it rests on.
    """

    kind: Kind
    holders: tuple[str, ...]
    text: str
    gain: float | None
    lower: float | None
    upper: float | None
    unit: str
    sure: bool
    evidence: tuple[Evidence, ...]

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        fields = {name: value for name, value in asdict(self).items() if name != "evidence"}
        for name in ("gain", "lower", "upper"):
            fields[name] = None if fields[name] is None else finite(fields[name])
        evidence = [
            asdict(item) | {"lower": finite(item.lower), "upper": finite(item.upper)}
            for item in self.evidence
        ]
        return fields | {"holders": list(self.holders), "evidence": evidence}


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan(Billed):
    """What would help most: pieces of advice, the most helpful first.

    Attributes
    ----------
    names
        Holders, in the order they were given.
    advice
        Sure pieces by what they gain, those without a gain after them; then the others, which
        may be chance.
    method
        ``"exact"`` or ``"sketch"``.
    distance
        From the pool of all records to the validation records.
    shares
        With labels the share of each class in the pool, and among the validation records.
    clustering
        Distances between holders and their groups; ``None`` of one holder.
    worth
        Distance of each holder to the validation records.
    records
        By holder, the scores of its records; empty where records were not scored.
    notes
        What was left out, and why.
    level
        How often any piece is sure where all records are of one distribution.
    status
        In words: how many pieces are sure, and what was left out.
    """

    view: ClassVar = "view:plan"

    names: tuple[str, ...]
    advice: tuple[Advice, ...]
    method: str
    distance: Distance
    shares: Mapping[str, tuple[float, float]]
    clustering: Clustering | None = field(repr=False)
    worth: Contributions = field(repr=False)
    records: Mapping[str, RecordScores] = field(repr=False)
    notes: tuple[str, ...]
    level: float
    status: str
    converged: bool
    seed: int

    @property
    def sure(self) -> tuple[Advice, ...]:
        """Pieces whose evidence passes its test."""
        return tuple(piece for piece in self.advice if piece.sure)

    @property
    def first(self) -> Advice:
        """What helps most."""
        return self.advice[0]

    def with_run(self, run: Run | Billed) -> Self:
        result = super().with_run(run)
        distance, worth = (part.with_run(run) for part in (result.distance, result.worth))
        return replace(result, distance=distance, worth=worth)

    def to_dict(self) -> dict[str, Any]:
        groups = self.clustering
        return {
            "names": list(self.names),
            "advice": [item.to_dict() for item in self.advice],
            "method": self.method,
            "distance": self.distance.to_dict(),
            "shares": {name: list(pair) for name, pair in self.shares.items()},
            "clustering": None if groups is None else groups.to_dict(),
            "worth": self.worth.to_dict(),
            "records": {name: _flagged(item) for name, item in self.records.items()},
            "notes": list(self.notes),
            "level": self.level,
            "status": self.status,
            "converged": self.converged,
            **self._bill_dict(),
            "seed": self.seed,
        }

    def __repr__(self) -> str:
        pieces = ", ".join(
            f"{piece.kind} {'+'.join(piece.holders)}".strip() for piece in self.advice
        )
        return f"Plan({pieces}; {len(self.sure)} sure)"


def _flagged(scores: RecordScores) -> dict[str, Any]:
    """Return flags and estimates without scores, which are too many."""
    fields = scores.to_dict()
    kept = ("records", "flagged", "fdr", "rule", "status")
    broken = {name: estimate.to_dict() for name, estimate in scores.parts.broken.items()}
    return {name: fields[name] for name in kept} | {"broken": broken}
