"""Tables read by a schema, a few thousand records at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import FileError, InputError
from .column_kinds import Feature, Label, Number, Weight
from .coordinates import Misfits, Writing, encode
from .fields import Alike, Fields, as_names, as_numbers, hashes
from .files import known_file
from .fit import Fit
from .label_names import label_name
from .measure import Measure
from .names import listing
from .schema import Contract
from .site import Site, SiteColumn, writing_of
from .table_files import Block, frame_block, read_blocks, read_names
from .tables import MISSING, check_marks, frame_table

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


Array = npt.NDArray[np.float64]

# Numbers of a column by which its unit is judged.
_SAMPLE = 1 << 15


class Gathered:
    """What has been read so far."""

    def __init__(self, schema: Contract) -> None:
        self.rows = _Rows(len(schema.features))
        self.masses = _Rows(1)
        self.labels: list[str] = []
        described = [*schema.used, *(part.column for part in (schema.label, schema.weight) if part)]
        self._misfits = {name: Misfits() for name in described}
        self._samples: dict[str, _Sample] = {}
        self._strays: dict[str, _Rows] = {}
        self._identifiers: dict[str, list[npt.NDArray[np.int64]]] = {}

    def count(self, name: str, misfits: Misfits) -> None:
        self._misfits[name] += misfits

    def sample(self, name: str, numbers: Array, limits: tuple[float, float]) -> None:
        """Some numbers of a column, and all of those out of its range, however few they are."""
        self._samples.setdefault(name, _Sample()).add(numbers)
        outside = numbers[(numbers < limits[0]) | (numbers > limits[1])]
        self._strays.setdefault(name, _Rows(1)).add(outside[:, None])

    def identify(self, name: str, column: Fields) -> None:
        self._identifiers.setdefault(name, []).append(hashes(column))

    def fit(self, schema: Contract, extra: tuple[str, ...]) -> Fit:
        shared = {name: _repeated(np.concatenate(all_)) for name, all_ in self._identifiers.items()}
        return Fit(
            schema,
            self.rows.size,
            self._misfits,
            extra,
            {name: sample.numbers for name, sample in self._samples.items()},
            {name: strays.array[:, 0] for name, strays in self._strays.items()},
            _repeated(_row_hashes(self.rows.array)),
            shared,
        )

    def measure(self, schema: Contract) -> Measure:
        return Measure(
            self.rows.array,
            self.masses.array[:, 0] if self.masses.size else None,
            self.labels or None,
            schema.features,
            copy=False,
            schema=schema,
        )


class _Rows:
    """Rows of an array that grows in place."""

    def __init__(self, width: int) -> None:
        self._held = np.empty((0, width))
        self.size = 0

    def add(self, rows: Array) -> None:
        size = self.size + len(rows)
        if size > len(self._held):
            wanted = max(size, len(self._held) + len(self._held) // 2)
            # Nothing else looks at it; a copy would take the memory twice.
            self._held.resize((wanted, self._held.shape[1]), refcheck=False)
        self._held[self.size : size] = rows
        self.size = size

    @property
    def array(self) -> Array:
        return self._held[: self.size]


class _Sample:
    """Numbers of a column, evenly over its records."""

    def __init__(self) -> None:
        self._kept = np.empty(0)
        self._step, self._next = 1, 0

    def add(self, numbers: Array) -> None:
        chosen = numbers[self._next :: self._step]
        self._next += len(chosen) * self._step - len(numbers)
        self._kept = np.concatenate([self._kept, chosen])
        while len(self._kept) > _SAMPLE:
            # Every other one from now on, and of those that are kept.
            self._next += self._step * (len(self._kept) % 2)
            self._kept, self._step = self._kept[::2], 2 * self._step

    @property
    def numbers(self) -> Array:
        """Those that are there."""
        return self._kept[np.isfinite(self._kept)]


def _row_hashes(points: Array) -> npt.NDArray[np.uint64]:
    """A number for each row that equal rows share, and others but for one in 2^64 do not."""
    odd = np.random.default_rng(0).integers(0, 1 << 63, points.shape[1], dtype=np.uint64) | 1
    # Adding zero makes one of the two zeros.
    hashes = np.zeros(len(points), dtype=np.uint64)
    for column, factor in enumerate(odd):
        bits = (points[:, column] + 0.0).view(np.uint64)
        hashes = (hashes ^ (bits ^ (bits >> np.uint64(29)))) * factor
    return hashes


def _repeated(hashes: npt.NDArray[Any]) -> int:
    return len(hashes) - len(np.unique(hashes))


Array = npt.NDArray[np.float64]
Tell = Callable[[float], None]
"""Called with the share that is done."""


@dataclass(frozen=True)
class Reading:
    """A table in the coordinates of its schema, and how well it fits."""

    measure: Measure
    fit: Fit


class Schema(Contract):
    """The public contract of a table, and how its records are read by it.

    It maps a record to coordinates by that record alone. Coordinates are in schema units: 1 is a
    column's public range (or spread), the way between two categories, or all the way from the
    first to the last of an order.

    Attributes
    ----------
    columns
        By name, in the order of the coordinates.
    label, weight
        Columns that are no features.
    read_off
        Entries that were read off the data of a site, as ``"age.range"``. Until a person has
        replaced or confirmed them they may tell about that site's records, and every use says so.
    confirmed_by
        Who says that all entries are public knowledge.

    Examples
    --------
    >>> schema = Schema.of({"columns": {"age": {"kind": "number", "range": [0, 100]},
    ...                                 "sex": {"kind": "category", "categories": ["f", "m"]}}})
    >>> schema.features
    ('age', 'sex=f', 'sex=m')
    """

    def measure(self, data: IntoDataFrame, site: Any = None) -> Measure:
        """Records of a data frame as a measure in the coordinates of the schema.

        Parameters
        ----------
        data
            A frame of pandas, polars, pyarrow or another library that narwhals knows; its
            columns are taken by name, whatever their order.
        site
            How this site writes its columns: a ``Site``, or a file with one.

        Raises
        ------
        InputError
            ``schema-columns`` for columns that are absent, ``schema-fit`` for records that do not
            fit, ``schema-unit`` for a column that seems to be in another unit.

        Examples
        --------
        >>> import polars
        >>> schema = Schema.of({"columns": {"age": {"kind": "number", "range": [0, 100]},
        ...                                 "ill": {"kind": "yes/no"}}})
        >>> schema.measure(polars.DataFrame({"ill": ["yes", "no"], "age": [70, 50]}))
        Measure(2 records, 2 features)
        """
        return read_frame(data, self, Site.coerce(site)).measure


def read_frame(
    data: Any, schema: Contract, site: Site | None = None, *, check: bool = True
) -> Reading:
    """A data frame in the coordinates of the schema, and how well it fits."""
    table = frame_table(data)
    if table is None:
        raise InputError(
            f"a schema reads columns by their names, and a {type(data).__name__} has none. Give a "
            "data frame or a table.",
            code="schema-columns",
        )
    reader = _Reader(schema, site or Site(), table.names)
    return reader.read([frame_block(table)], check=check)


def read_by_schema(
    path: str | Path,
    schema: Contract,
    site: Site | None = None,
    *,
    complete: bool = True,
    tell: Tell | None = None,
    check: bool = True,
) -> Reading:
    """Read a table by a schema.

    Parameters
    ----------
    path
        A .csv, .csv.gz or .parquet.
    schema, site
        The contract, and how this site writes its columns.
    complete
        Whether labels and weights that the schema names must be there. Without, weights are left
        out, and labels where the table has none: public records.
    tell
        Called with the share of the file that has been read.
    check
        Whether a table that does not fit is refused; without, its coordinates mean nothing and
        ``fit`` says why.
    """
    file, kind = known_file(path)
    if kind == ".npz":
        raise FileError(
            f"{file.name} has no columns, and a schema reads columns by their names. Give a table.",
            code="schema-columns",
        )
    try:
        reader = _Reader(schema, site or Site(), read_names(file, kind), complete=complete)
        return reader.read(read_blocks(file, kind, reader.wanted), tell, check=check)
    except InputError as error:
        if file.name in error.message:
            raise
        raise type(error)(f"{file.name}: {error.message}", code=error.code) from None


@dataclass(frozen=True)
class _Way:
    """A column: what it is called in the schema and here, and how it is read."""

    name: str
    source: str
    column: Feature = field(repr=False)
    writing: Writing = field(repr=False)


class _Reader:
    """Reads the records of one table, block by block."""

    def __init__(
        self, schema: Contract, site: Site, names: Sequence[str], *, complete: bool = True
    ) -> None:
        self._schema = schema
        self._site = site
        self._check_site()
        self._sources = {
            name: site.columns[name].source or name if name in site.columns else name
            for name in _described(schema)
        }
        self._weight = schema.weight if complete else None
        self._label = schema.label
        if self._label and not complete and self._sources[self._label.column] not in names:
            self._label = None
        self._check_there(names)
        self._ways = [
            _Way(name, self._sources[name], column, writing_of(name, column, site))
            for name, column in schema.used.items()
        ]
        self._identifiers = [
            name
            for name, column in schema.columns.items()
            if column.kind == "identifier" and self._sources[name] in names
        ]
        used = {self._sources[name] for name in (*self._needed, *self._identifiers)}
        self.wanted = used & set(names)
        sources = set(self._sources.values())
        self._extra = tuple(name for name in names if name not in sources)

    @property
    def _needed(self) -> list[str]:
        """Columns without which no record can be read."""
        others = (self._label, self._weight)
        return [*self._schema.used, *(part.column for part in others if part)]

    def _check_site(self) -> None:
        odd = [name for name in self._site.columns if name not in _described(self._schema)]
        if odd:
            raise InputError(
                f"the site file describes {odd[0]!r}, and the schema has no such column. Its "
                "names are those of the schema; 'from' says what a column is called here.",
                code="site-invalid",
            )

    def _check_there(self, names: Sequence[str]) -> None:
        absent = [self._sources[name] for name in self._needed if self._sources[name] not in names]
        if absent:
            raise InputError(
                "the schema needs columns that the table has not: "
                f"{listing([repr(name) for name in absent])}. Say what they are called here in a "
                "site file (columns: NAME: from: ...).",
                code="schema-columns",
            )

    def read(
        self, blocks: Iterable[Block], tell: Tell | None = None, *, check: bool = True
    ) -> Reading:
        """All blocks, one after another."""
        gathered = Gathered(self._schema)
        for block in blocks:
            self._read_block(block, gathered)
            if tell is not None:
                tell(min(block.share, 1.0))
        if gathered.rows.size == 0:
            raise InputError("the table has names of columns and no record.", code="measure-empty")
        stated = frozenset(name for name, column in self._site.columns.items() if column.unit)
        fit = replace(gathered.fit(self._schema, self._extra), stated=stated)
        if check:
            fit.check()
        return Reading(gathered.measure(self._schema), fit)

    def _read_block(self, block: Block, gathered: Gathered) -> None:
        comma = block.comma or self._site.decimal == ","
        numbers = [way.source for way in self._ways if isinstance(way.column, Number)]
        check_marks(block.columns, numbers, comma, gathered.rows.size)
        parts: list[Array] = []
        for way in self._ways:
            writing = replace(way.writing, comma=comma)
            encoded = encode(way.column, block.columns[way.source], writing)
            gathered.count(way.name, encoded.misfits)
            if encoded.numbers is not None and isinstance(way.column, Number):
                gathered.sample(way.name, encoded.numbers, way.column.range)
            parts.append(encoded.coordinates)
        gathered.rows.add(np.hstack(parts))
        label, weight = self._label, self._weight
        if label is not None:
            column = block.columns[self._sources[label.column]]
            texts, misfits = _labels(column, label, self._site.columns.get(label.column))
            gathered.labels += texts
            gathered.count(label.column, misfits)
        if weight is not None:
            masses, misfits = _masses(block.columns[self._sources[weight.column]], weight, comma)
            gathered.masses.add(masses[:, None])
            gathered.count(weight.column, misfits)
        for name in self._identifiers:
            gathered.identify(name, block.columns[self._sources[name]])


def _described(schema: Contract) -> list[str]:
    """All columns a schema speaks of."""
    return [*schema.columns, *(part.column for part in (schema.label, schema.weight) if part)]


def _labels(column: Fields, label: Label, site: SiteColumn | None) -> tuple[list[str], Misfits]:
    """Labels of records by the public classes."""
    codes = {} if site is None else {label_name(k): label_name(v) for k, v in site.codes.items()}
    sentinels = () if site is None else tuple(label_name(value) for value in site.sentinels)
    classes = {name: name for name in label.classes}
    names = as_names(column, (*MISSING, *sentinels))
    absent = sum(name is None for name in names)
    fallback = label.missing or ""
    texts: list[str] = []
    alike, odd = Alike({*classes, *codes}), Counter[str]()
    for name in names:
        label_text = fallback if name is None else classes.get(codes.get(name, name))
        if label_text is None:
            odd[name or ""] += 1
            label_text = "other"
        texts.append(label_text)
    like = sum(count for name, count in odd.items() if alike(name))
    unlike = odd.total() - like
    if label.other:
        return texts, Misfits(missing=absent, other=unlike, alike=like)
    return texts, Misfits(missing=absent, unknown=unlike, alike=like)


def _masses(column: Fields, weight: Weight, comma: bool) -> tuple[Array, Misfits]:
    """Weights, cut to their public limit."""
    read = as_numbers(column, comma=comma)
    values = read.values
    misfits = Misfits(
        missing=int((np.isnan(values) & ~read.unread).sum()),
        unread=int(read.unread.sum()),
        below=int((values < 0).sum()),
        above=int((values > weight.limit).sum()),
    )
    return np.clip(np.nan_to_num(values), 0.0, weight.limit), misfits
