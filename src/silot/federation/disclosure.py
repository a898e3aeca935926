"""How detailed the values are that a party discloses."""

from __future__ import annotations

from enum import IntEnum


class Disclosure(IntEnum):
    """Levels of disclosure, in order; a run is as disclosing as its most detailed answer.

    ``PUBLIC``: no record was needed. ``PRIVATE``: differentially private releases.
    ``STATISTICS``: exact statistics, the number of records among them; whoever reads them can test
    who is in the data. ``RECORD``: every record can be reconstructed.

    Examples
    --------
    >>> Disclosure.PRIVATE < Disclosure.STATISTICS, str(Disclosure.RECORD)
    (True, 'record')
    """

    PUBLIC = 0
    PRIVATE = 1
    STATISTICS = 2
    RECORD = 3

    def __str__(self) -> str:
        return self.name.lower()
