"""Names that differ in how they are written alone: in case, blanks, signs, or zeros in front."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .tables import number_of


class Alike:
    """Whether a text is like one of some names, and none of them.

    Examples
    --------
    >>> alike = Alike(["type 2", "1"])
    >>> alike("Type-2"), alike("01"), alike("-1"), alike("type 2"), alike("type 3")
    (True, True, False, False, False)
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(names)
        self._plain = {plain(name) for name in self._names}

    def __call__(self, text: str) -> bool:
        return text not in self._names and plain(text) in self._plain


def plain(text: str) -> str | float:
    """What is left of a name without case, blanks, signs and zeros in front.

    Numbers are what they are: -1 is not 1, and <5 is not >5.
    """
    number = number_of(text)
    if number is not None and number == number:
        return number
    return re.sub(r"[\s_.,;:/'\"()-]+", "", text.casefold()) or text
