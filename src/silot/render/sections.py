"""What every shown result is made of: a list of blocks, in the order they are read."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import compress
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from .words import MISSING_NUMBER, number, printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Medium: TypeAlias = Literal["terminal", "page"]
"""Where a result is shown: a terminal or a notebook, or an HTML file, which has more room."""

_FILTERED = 8


@dataclass(frozen=True)
class Name:
    """A name that somebody else chose: whatever it contains, words around it stay in place."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Words that stand out."""

    text: str


# A line, or the pieces of one.
Text: TypeAlias = str | tuple[str | Name | Strong, ...]


def plain_text(text: Text) -> str:
    """Return a line as one string."""
    pieces = (text,) if isinstance(text, str) else text
    return "".join(piece if isinstance(piece, str) else piece.text for piece in pieces)


@dataclass(frozen=True)
class Heading:
    """Begins a section, up to the next of its level or above; of level 1 it is the title.

    ``anchor`` is the address of the section in its page. One of level 2 is a line in the contents,
    unless its text holds a name.
    """

    text: Text
    anchor: str = ""
    level: Literal[1, 2, 3, 4] = 2

    @property
    def is_listed(self) -> bool:
        """Whether it is a line in the contents of a page."""
        return self.level == 2 and bool(self.anchor) and isinstance(self.text, str)


@dataclass(frozen=True)
class Paragraph:
    """Sentences; an alert is a warning that assistive software reads out at once.

    On a terminal an empty one is an empty line, and an alert begins with ``Warning:``. Leads,
    small ones and notes are of a page alone.
    """

    text: Text
    kind: Literal["", "lead", "small", "small warn", "note", "warning", "alert"] = ""


@dataclass(frozen=True)
class Private:
    """Only the user may read a page with it; what it ``shows`` of records is said on top."""

    shows: str = ""


@dataclass(frozen=True)
class Facts:
    """Terms and what is said of them; a term ``""`` says more of the one before.

    ``terminal`` and ``page`` are the rows that follow on one medium alone.
    """

    rows: Sequence[tuple[str, Text]]
    terminal: Sequence[tuple[str, Text]] = ()
    page: Sequence[tuple[str, Text]] = ()


@dataclass(frozen=True)
class Bullets:
    """Lines of a list."""

    items: Sequence[Text]


@dataclass(frozen=True)
class Column:
    """What a column of a table holds: its title, and how its values are written on each medium.

    On a terminal numbers stay in one line. Other texts may ``wrap`` between words, or ``fold``
    anywhere; they are ``cut`` at the ``width``, or at the end of the line, which they ``fill``.
    A column ``on`` one medium is not shown on the other. ``full`` is the title on a page, where
    it is another, and ``missing`` stands for a value that is ``None``, on a terminal. ``of`` is
    the value of a row's item: a function, or attributes as in ``test.p_value``, by default the one
    that is named as the title. With ``bar`` values, or the first of each, have a
    bar that says which share of it they are.
    """

    title: str
    numeric: bool = True
    wrap: Literal["words", "fold", "cut", "fill"] = "words"
    width: int | None = None
    on: Medium | None = None
    full: str = ""
    terminal: Callable[[Any], str] = str
    page: Callable[[Any], str] = str
    missing: str = ""
    of: str | Callable[[Any], Any] = ""
    bar: float = 0.0

    def value(self, item: Any) -> Any:
        """Return what the column shows of the item of a row; ``None`` of nothing."""
        if callable(self.of):
            return self.of(item)
        for name in (self.of or self.title.replace(" ", "_")).split("."):
            item = None if item is None else getattr(item, name)
        return item

    def cell(self, value: object, medium: Medium) -> Cell:
        """Return a value, or the value of a cell, as the text of a cell."""
        cell = value if isinstance(value, Cell) else Cell(value)
        first = cell.text[0] if isinstance(cell.text, tuple) else cell.text
        if first is None:
            return replace(cell, text=self.missing if medium == "terminal" else MISSING_NUMBER)
        if cell.text == "":
            return cell
        if self.bar:
            cell = replace(cell, bar=first / self.bar)
        return replace(cell, text=(self.terminal if medium == "terminal" else self.page)(cell.text))


@dataclass(frozen=True)
class Cell:
    """A cell with a bar from 0 to 1 behind it, marked as something to look at, or with a link."""

    text: Any
    bar: float | None = None
    warn: bool = False
    link: str = ""


@dataclass(frozen=True)
class Table:
    """A table of values, which its columns write; rows beyond ``fold`` are shown when asked for.

    With ``filter`` a reader can filter and sort it: then all rows are there at once, and those in
    ``flagged``, one truth value a row, can be shown alone by a box that says ``only``; and with
    ``kinds``, those a row is of, the rows of one kind. ``head`` is the column that names a row.
    With ``filled``, columns that have nothing in any row are left out; but where a column has a
    sign for what is ``missing``, that nothing is known is something.

    On a terminal there are ``most`` rows, a ``loose`` table has the caption ``loose`` on top and
    wide gaps, and at each column in ``breaks`` a table of its own begins, with the first ``keys``
    columns again.
    """

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    head: int = 0
    fold: int | None = 20
    filter: bool = False
    flagged: Sequence[bool] | None = None
    only: str = "only flagged rows"
    kinds: Sequence[Sequence[str]] | None = None
    filled: bool = False
    most: int | None = None
    loose: str | None = None
    breaks: Sequence[int] = ()
    keys: int = 0

    # Columns that a page shows at once; those that follow are among details.
    most_columns: ClassVar = 5

    @property
    def filtered(self) -> bool:
        """Whether it has controls: short tables need none."""
        return self.filter and len(self.rows) >= _FILTERED

    @property
    def choices(self) -> list[str]:
        """The kinds in use, if more than one."""
        kinds = sorted({kind for row in self.kinds or () for kind in row})
        return kinds if len(kinds) > 1 else []

    def written(self, medium: Medium) -> list[Table | Details]:
        """Return the tables of texts that a medium shows, and on a page details with the rest."""
        if medium == "page":
            tables = self._written(medium, range(len(self.columns)), self.rows)
            return [block for table in tables for block in table._folded()]
        ends = [*self.breaks, len(self.columns)]
        starts = [self.keys, *self.breaks]
        short = replace(self, filter=False, flagged=None, kinds=None)
        return [
            table
            for start, end in zip(starts, ends, strict=True)
            for table in short._written(
                medium, [*range(self.keys), *range(start, end)], self.rows[: self.most]
            )
        ]

    def _folded(self) -> list[Table | Details]:
        end, keys = len(self.columns), self.head + 1
        if end <= self.most_columns:
            return [self]
        width = self.most_columns - keys
        more = [
            replace(
                self._of([*range(keys), *range(k, min(k + width, end))]),
                filter=False,
                fold=len(self.rows),
            )
            for k in range(self.most_columns, end, width)
        ]
        return [self._of(range(self.most_columns)), Details("More columns of these rows", more)]

    def _of(self, places: Sequence[int]) -> Table:
        return replace(
            self,
            columns=[self.columns[k] for k in places],
            rows=[[row[k] for k in places] for row in self.rows],
        )

    def _written(
        self, medium: Medium, places: Sequence[int], rows: Sequence[Sequence[Any]]
    ) -> list[Table]:
        shown = [k for k in places if self.columns[k].on in (None, medium)]
        cells = [[self.columns[k].cell(row[k], medium) for k in shown] for row in rows]
        columns = [self.columns[k] for k in shown]
        if self.filled:
            nothing = ("", MISSING_NUMBER)
            kept = [
                any(row[k].text not in (nothing[: 1 if column.missing else 2]) for row in cells)
                for k, column in enumerate(columns)
            ]
            if not any(kept[self.keys :]):
                return []
            cells = [list(compress(row, kept)) for row in cells]
            columns = list(compress(columns, kept))
        plain = [
            replace(head, title=(medium == "page" and head.full) or head.title, on=None, full="",
                    terminal=str, page=str, bar=0.0)
            for head in columns
        ]  # fmt: skip
        fold = (medium == "page" and self.fold) or max(len(cells), 1)
        caption = self.caption if medium == "page" or self.loose is None else self.loose
        return [
            replace(self, caption=caption, columns=plain, rows=cells, fold=fold, filled=False,
                    breaks=())
        ]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Picture:
    """A drawing with its words, sizes in inches; it is drawn when its source is requested.

    One that is wider than a small screen is drawn twice, so ``draw`` must change nothing; the
    ``narrow`` one is of a height of its own, or as high as the other. A caption that is a function
    is called when both are drawn.
    """

    draw: Callable[[Figure], None] = field(repr=False)
    size: tuple[float, float]
    alt: str
    caption: str | Callable[[], str] = ""
    narrow_height: float | None = None

    @cached_property
    def source(self) -> str:
        """The address that holds the drawing; empty without matplotlib, which draws it."""
        # Slow to import: it draws.
        from .figure import can_draw, drawn

        return drawn(self.draw, self.size) if can_draw() else ""

    @property
    def width(self) -> int:
        """In pixels of a screen."""
        return round(96 * self.size[0])

    @property
    def height(self) -> int:
        """In pixels of a screen."""
        return round(96 * self.size[1])

    @property
    def words(self) -> str:
        """The caption as a text."""
        if isinstance(self.caption, str):
            return self.caption
        assert self.source and (self.narrow is None or self.narrow.source)
        return self.caption()

    @cached_property
    def narrow(self) -> Picture | None:
        """The same for small screens."""
        from .figure import NARROW

        if self.size[0] <= NARROW:
            return None
        return replace(self, size=(NARROW, self.narrow_height or self.size[1]))


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
class Card:
    """A decision: its subject, what to do in order, why, and the command to type next.

    ``steps`` are a kind, which gives the sign and the colour, and words; ``note`` stands at the end
    of their line.
    """

    subject: str
    steps: Sequence[tuple[Literal["use", "fix", "apart", "exclude"], str]]
    note: str
    lines: Sequence[Text]
    command: str = ""


@dataclass(frozen=True)
class Bar:
    """A row of a chart: a value with the interval that it lies in, beside a level of noise.

    Where no interval is known its ends are the value; ``None`` stands for a level that nobody
    knows.
    """

    name: str
    value: float
    low: float
    high: float
    noise: float | None
    words: str


@dataclass(frozen=True)
class Intervals:
    """A chart of values with their intervals on one axis, each beside its noise band.

    The axis begins at 0, or below it where an interval does, and ends at ``limit`` at most.
    """

    caption: str
    unit: str
    bars: Sequence[Bar]
    limit: float = math.inf

    # The axis ends this many times beyond the farthest interval.
    margin: ClassVar = 1.05

    @property
    def start(self) -> float:
        """The start of the axis."""
        return min([0.0, *(bar.low for bar in self.bars)])

    @property
    def end(self) -> float:
        """The end of the axis."""
        # Of an interval without an end the value is shown, and of a level far beyond a part.
        highs = [bar.high if math.isfinite(bar.high) else bar.value for bar in self.bars]
        ends = [
            max(high, min(bar.noise or 0.0, 4 * high))
            for bar, high in zip(self.bars, highs, strict=True)
        ]
        return min(self.margin * (max(ends, default=1.0) or 1.0), self.limit)

    def place(self, value: float) -> float:
        """The place of a value on the axis, from 0 to 1."""
        return min(max((value - self.start) / (self.end - self.start), 0.0), 1.0)


# Of a longer list a chart has the first: all are in a table.
_CHARTED = 20
# A name, its value, the ends of its interval, and a level of noise.
Row: TypeAlias = tuple[str, float | None, tuple[float, float] | None, float | None]


def chart(
    caption: str,
    rows: Iterable[Row],
    *,
    unit: str = "",
    write: Callable[[float], str] = number,
    limit: float = math.inf,
) -> Intervals | None:
    """Return a chart of what is known of rows; shares, of the unit ``%``, as percentages."""
    scale, shown = (100.0 if unit == "%" else 1.0), [row for row in rows if row[1] is not None]
    bars: list[Bar] = []
    for name, value, ends, noise in shown[:_CHARTED]:
        at, low, high = (scale * x for x in (value or 0.0, *(ends or [value or 0.0] * 2)))
        words = write(at) + (f" [{write(low)}, {write(high)}]" if ends else "")
        level = None if noise is None else scale * noise
        bars.append(Bar(printable(name, 200), at, low, high, level, words))
    if any(math.isinf(bar.high) for bar in bars):
        caption += " An arrow marks an end that is not known."
    if len(shown) > len(bars):
        caption += f" These are {len(bars)} of {len(shown):,}: the table has all."
    return Intervals(caption, unit, bars, limit) if bars else None


share_chart = partial(chart, unit="%", write="{:.1f}".format, limit=100.0)


@dataclass(frozen=True)
class Details:
    """Blocks that are shown when asked for."""

    summary: Text
    blocks: Sequence[Block]


Block: TypeAlias = (
    Heading
    | Paragraph
    | Private
    | Facts
    | Bullets
    | Table
    | Picture
    | Gallery
    | Card
    | Intervals
    | Details
)


def table(
    caption: str, items: Iterable[Any], *columns: Column | Literal[False], **options: Any
) -> Table:
    """Return a table with a row for each item, whose values the columns read, but for ``False``."""
    shown = [column for column in columns if column]
    rows = [[column.value(item) for column in shown] for item in items]
    return Table(caption, shown, rows, **options)


def plain_table(columns: Sequence[Column], rows: Sequence[Sequence[Any]]) -> Table:
    """Return a table of which all rows are shown at once."""
    return Table("", columns, rows, fold=None)
