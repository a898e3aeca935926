"""What checks of tables look at, and what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from silot_transport._check import Array

# Rows of a holder that quantiles are taken of, evenly spaced.
ROWS = 4096
# Fewer records have no quantiles to speak of.
FEW = 10
_QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


@dataclass(frozen=True)
class Finding:
    """Something about a column of some holders.

    Attributes
    ----------
    column
        The column, or ``"labels"`` or ``"records"``.
    holders
        Who has it so; all of them where it is about the whole.
    kind
        What it is: ``identifier``, ``sentinel``, ``unit``, ``scale``, ``domination``, ``coding``,
        ``shift``, ``constant``, ``duplicate``, ``repeated``, ``classes``.
    sentence
        The same in words, with the column and the holders.
    flag
        Whether it puts what follows from the numbers in doubt; otherwise it is a fact.
    numbers
        The figures behind it.
    """

    column: str
    holders: tuple[str, ...]
    kind: str
    sentence: str
    flag: bool = False
    numbers: Mapping[str, float] = field(default_factory=dict[str, float])

    def to_dict(self) -> dict[str, object]:
        """Fields by name, ready for JSON."""
        return {
            "column": self.column,
            "holders": list(self.holders),
            "kind": self.kind,
            "sentence": self.sentence,
            "numbers": dict(self.numbers),
        }


@dataclass(frozen=True, eq=False)
class Looks:
    """The columns of one holder: its records, and an ordered sample of each column."""

    name: str
    records: Array = field(repr=False)
    ordered: Array = field(repr=False)
    quantiles: Array = field(repr=False)

    @classmethod
    def of(cls, name: str, points: Array, weights: Array) -> Looks:
        """Of the records (n, d) that count, some of them."""
        rows = records = points if weights.all() else points[weights > 0]
        if len(records) > ROWS:
            # With the ends of all: what is far outside may be in few rows.
            places = np.linspace(0, len(records) - 1, ROWS).astype(int)
            rows = np.vstack([records[places], records.min(axis=0), records.max(axis=0)])
        ordered = np.sort(rows, axis=0)
        places = [round(q * (len(ordered) - 1)) for q in _QUANTILES]
        return cls(name, records, ordered, ordered[places])

    @property
    def enough(self) -> bool:
        """Whether there are records enough to compare."""
        return len(self.ordered) >= FEW

    @property
    def spread(self) -> Array:
        """Interquartile ranges."""
        return self.quantiles[4] - self.quantiles[2]


def holders_in_words(names: Sequence[str]) -> str:
    """Some holders in a sentence."""
    quoted = [repr(name) for name in names[:3]]
    others = len(names) - len(quoted)
    return ", ".join(quoted) + (f" and {others} more" if others else "")
