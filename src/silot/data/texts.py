"""Many short texts in little memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise
from typing import overload


class Texts(Sequence[str]):
    """Texts one after another in one buffer: as strings, fields of a few letters take tenfold."""

    def __init__(self) -> None:
        self._letters = bytearray()
        self._ends = array("q", [0])

    def extend(self, texts: Iterable[str]) -> None:
        """Add texts."""
        coded = [text.encode() for text in texts]
        self._ends.extend(islice(accumulate(map(len, coded), initial=self._ends[-1]), 1, None))
        self._letters += b"".join(coded)

    def __iter__(self) -> Iterator[str]:
        letters = bytes(self._letters)
        return (letters[start:end].decode() for start, end in pairwise(self._ends))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...

    @overload
    def __getitem__(self, place: slice) -> list[str]: ...

    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return [self[k] for k in range(*place.indices(len(self)))]
        k = range(len(self))[place]
        return self._letters[self._ends[k] : self._ends[k + 1]].decode()
