"""How fine the things are that a party reveals."""

from __future__ import annotations

from enum import IntEnum


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
