"""What every shown result is made of: a list of blocks, in the order they are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from typing import ClassVar, Literal, TypeAlias

from .words import MISSING_NUMBER

_FILTERED = 8


@dataclass(frozen=True)
class Name:
    """A name of somebody else's choice: however it is written, words around it stay in place."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


# A line, or the pieces of one.
Text: TypeAlias = str | tuple[str | Name | Strong, ...]


@dataclass(frozen=True)
class Heading:
    """Begins a section, up to the next of its level or above; of level 1 it is the title.

    ``anchor`` is the address of the section in its page, and ``link`` its line in the contents;
    a section without a line is not listed there.
    """

    text: Text
    anchor: str = ""
    link: str = ""
    level: Literal[1, 2, 3, 4] = 2


@dataclass(frozen=True)
class Paragraph:
    """Sentences; an alert is a warning that assistive software reads out at once.

    On a terminal an empty one is an empty line.
    """

    text: Text
    kind: Literal["", "lead", "small", "small warn", "note", "warning", "alert"] = ""


@dataclass(frozen=True)
class Private:
    """Only the user may read a page with it; what it ``shows`` of records is said on top."""

    shows: str = ""


@dataclass(frozen=True)
class Facts:
    """Terms and what is said of them; a term ``""`` says more of the one before."""

    rows: Sequence[tuple[str, Text]]


@dataclass(frozen=True)
class Bullets:
    """Lines of a list."""

    items: Sequence[Text]


@dataclass(frozen=True)
class Column:
    """Head of a column.

    On a terminal numbers stay in one line. Other texts may ``wrap`` between words, or ``fold``
    anywhere; they are ``cut`` at the ``width``, or at the end of the line, which they ``fill``.
    """

    title: str
    numeric: bool = True
    wrap: Literal["words", "fold", "cut", "fill"] = "words"
    width: int | None = None


@dataclass(frozen=True)
class Cell:
    """A cell with a bar from 0 to 1 behind it, or marked as something to look at."""

    text: str
    bar: float | None = None
    warn: bool = False


@dataclass(frozen=True)
class Table:
    """A table; rows beyond ``fold`` are shown when asked for.

    With ``filter`` a reader can filter and sort it: then all rows are there at once, and those in
    ``flagged``, one truth value a row, can be shown alone by a box that says ``only``; and with
    ``kinds``, those a row is of, the rows of one kind. On a terminal a ``loose`` one has its
    caption on top and wide gaps.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    head: int = 0
    fold: int = 20
    filter: bool = False
    flagged: Sequence[bool] | None = None
    only: str = "only flagged rows"
    kinds: Sequence[Sequence[str]] | None = None
    loose: bool = False

    # Rows on paper; the style sheet has the same number.
    printed: ClassVar = 200

    @property
    def filtered(self) -> bool:
        """Whether it has controls: short tables need none."""
        return self.filter and len(self.rows) >= _FILTERED

    @property
    def filled(self) -> Table:
        """The same without columns that have nothing in any row."""
        nothing = ("", MISSING_NUMBER)
        kept = [any(row[k].text not in nothing for row in self.rows)
                for k in range(len(self.columns))]  # fmt: skip
        rows = [list(compress(row, kept)) for row in self.rows]
        return replace(self, columns=list(compress(self.columns, kept)), rows=rows)

    @property
    def choices(self) -> list[str]:
        """Kinds that there are, if more than one."""
        found = sorted({kind for row in self.kinds or () for kind in row})
        return found if len(found) > 1 else []


@dataclass(frozen=True)
class Picture:
    """An image with its words; sizes in pixels of a screen. ``narrow`` is for small screens."""

    source: str = field(repr=False)
    width: int
    height: int
    alt: str
    caption: str = ""
    narrow: Picture | None = None


@dataclass(frozen=True)
class Tile:
    """Small images side by side, each its address and words for those who do not see it."""

    images: Sequence[tuple[str, str]] = field(repr=False)
    words: str
    strong: str = ""


@dataclass(frozen=True)
class Gallery:
    """Tiles in rows."""

    tiles: Sequence[Tile]


@dataclass(frozen=True)
class Details:
    """Blocks that are shown when asked for."""

    summary: Text
    blocks: Sequence[Block]


Block: TypeAlias = (
    Heading | Paragraph | Private | Facts | Bullets | Table | Picture | Gallery | Details
)


def plain_table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], caption: str = "", loose: bool = False
) -> Table:
    """A table of texts, all of them shown at once."""
    cells = [[Cell(text) for text in row] for row in rows]
    return Table(caption, columns, cells, fold=max(len(cells), 1), loose=loose)


def textual(title: str, wrap: Literal["words", "fold", "cut", "fill"] = "words") -> Column:
    """Head of a column of texts."""
    return Column(title, numeric=False, wrap=wrap)
