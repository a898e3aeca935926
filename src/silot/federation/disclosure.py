"""How fine the things are that a party reveals."""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Disclosure(IntEnum):
    """Levels of disclosure, coarse to fine; a run is as disclosing as its finest answer.

    ``SCALAR``: numbers about a whole measure. ``SKETCH``: a differentially private summary.
    ``AGGREGATE``: statistics of many records, such as means. ``RECORD``: something every
    record can be recovered from.

    Examples
    --------
    >>> Disclosure.SCALAR < Disclosure.RECORD, str(Disclosure.RECORD)
    (True, 'record')
    """

    SCALAR = 1
    SKETCH = 2
    AGGREGATE = 3
    RECORD = 4

    def __str__(self) -> str:
        return self.name.lower()


class Account(StrEnum):
    """How an answer is accounted for by a holder that does not give its records away.

    ``PUBLIC``: of no record, told at every level. ``FREE``: sizes and kinds, told to whoever may
    ask for exact numbers at all. ``RELEASE``: noise, charged to the budget of epsilon. ``NAMED``:
    exact statistics that the asker names and does not choose; each kind once. ``CHOSEN``: exact
    numbers about inputs that the asker chose; every number counts. ``RECORD``: may give records
    back; only a policy of that level tells it.
    """

    PUBLIC = "public"
    FREE = "free"
    RELEASE = "release"
    NAMED = "named"
    CHOSEN = "chosen"
    RECORD = "record"
