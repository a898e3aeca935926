"""Read tables by a schema, a few thousand records at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ..errors import FileError, InputError
from .column_kinds import Label, Number, Weight
from .container import Source, recognise, stem_of
from .coordinates import encode
from .fields import ALIKE, EMPTY, UNREAD, Fields, Sample, as_codes, as_numbers, hashes
from .fit import ColumnFit, Fit
from .label_names import label_name
from .measure import Measure
from .names import listing, similar
from .notation import PLAIN, Notation
from .schema import Contract
from .site import Site, SiteColumn, writing_of
from .table_files import Block, frame_block, read_blocks, read_names
from .tables import Rows, frame_table

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame


Array = npt.NDArray[np.float64]

# Numbers of a column from which its unit is judged.
_SAMPLE = 1 << 15


def _row_hashes(columns: Sequence[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return a number for each row, which others than equal rows share once in 2^64."""
    odd = np.random.default_rng(0).integers(0, 1 << 63, len(columns), dtype=np.uint64) | 1
    hashes = np.zeros(len(columns[0]), dtype=np.uint64)
    for column, factor in zip(columns, odd, strict=True):
        # Adding zero turns -0.0 into 0.0.
        bits = (column + 0).view(np.uint64)
        hashes = (hashes ^ (bits ^ (bits >> np.uint64(29)))) * factor
    return hashes


def _find_repeated(blocks: list[npt.NDArray[Any]]) -> npt.NDArray[np.bool_]:
    """Return which hashes an earlier one is equal to."""
    hashes = np.concatenate(blocks)
    is_repeated = np.ones(len(hashes), dtype=bool)
    is_repeated[np.unique(hashes, return_index=True)[1]] = False
    return is_repeated


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
        Columns that are not features.
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
        return read_by_schema(data, self, Site.coerce(site)).measure


@dataclass(frozen=True)
class TableSource:
    """A table in a file or in memory: what it is called in sentences and as a site, its columns.

    ``blocks`` reads the records of some columns.
    """

    title: str
    name: str
    names: Sequence[str]
    blocks: Callable[[Collection[str]], Iterable[Block]]
    naming: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(cls, data: Any, site: Site | None = None, name: str = "") -> Self:
        """Open a file, or take a data frame, which gets a ``name``."""
        if isinstance(data, str | Path):
            name, data = stem_of(Path(data)), recognise(data)
        if isinstance(data, Source):
            if not data.is_table:
                raise FileError(
                    f"{data.name} has no columns, and a schema reads columns by their names. Give "
                    "a table.",
                    code="schema-columns",
                )
            dialect = (site or Site()).file
            with data.naming():
                names = read_names(data, dialect)
            return cls(data.name, name, names,
                       lambda wanted: read_blocks(data, wanted, dialect), data.naming)  # fmt: skip
        table = frame_table(data)
        if table is None:
            raise InputError(
                f"a schema reads columns by their names, and a {type(data).__name__} has none. "
                "Give a data frame or a table.",
                code="schema-columns",
            )
        return cls(name or "the data", name or "table1", table.names,
                   lambda _: [frame_block(table)])  # fmt: skip


def read_by_schema(
    data: Any,
    schema: Contract,
    site: Site | None = None,
    *,
    complete: bool = True,
    tell: Tell | None = None,
    check: bool = True,
) -> Reading:
    """Read a table, in a file or a data frame, by a schema.

    Public records need not be ``complete``: weights are left out, and labels where there are none.
    Without a ``check`` a table that does not fit is not refused: its coordinates mean nothing, and
    ``fit`` says why.
    """
    table = data if isinstance(data, TableSource) else TableSource.of(data, site)
    with table.naming():
        reader = _Reader(schema, site or Site(), table.names, complete=complete)
        return reader.read(table.blocks(reader.wanted), tell, check=check)


class _Reader:
    """Reads the records of one table, block by block."""

    def __init__(
        self, schema: Contract, site: Site, names: Sequence[str], *, complete: bool = True
    ) -> None:
        self._schema, self._site = schema, site
        self._sources = self._find_sources()
        self._weight = schema.weight if complete else None
        self._label = schema.label
        if self._label and not complete and self._sources[self._label.column] not in names:
            self._label = None
        needed = [*schema.used, *(part.column for part in (self._label, self._weight) if part)]
        absent = [self._sources[name] for name in needed if self._sources[name] not in names]
        if absent:
            near = {name: similar(name, names) for name in absent}
            texts = [repr(n) + f" (there is {hint})" * bool(hint) for n, hint in near.items()]
            raise InputError(
                f"the schema needs columns that the table does not have: {listing(texts)}. Say "
                "what they are called here in a site file (columns: NAME: from: ...).",
                code="schema-columns",
            )
        self._writings = {
            name: writing_of(name, column, site) for name, column in schema.used.items()
        }
        identifiers = [
            name
            for name, column in schema.columns.items()
            if column.kind == "identifier" and self._sources[name] in names
        ]
        self.wanted = {self._sources[name] for name in (*needed, *identifiers)}
        sources = set(self._sources.values())
        fits = {part.column: ColumnFit() for part in schema.roles.values()}
        for name, writing in self._writings.items():
            fits[name] = ColumnFit(bool(site.entry(name).unit), writing.notation is not None)
        self._fit = Fit(schema, fits, tuple(name for name in names if name not in sources))
        self._rows, self._masses = Rows(len(schema.features)), Rows(1)
        self._labels: list[str] = []
        self._samples = {name: Sample(_SAMPLE) for name in schema.used}
        self._records: list[npt.NDArray[Any]] = []
        self._hashes: dict[str, list[npt.NDArray[np.int64]]] = {name: [] for name in identifiers}

    def _find_sources(self) -> dict[str, str]:
        """Return what the site calls each column of the schema."""
        roles = self._schema.roles.values()
        names = [*self._schema.columns, *(part.column for part in roles)]
        odd = [name for name in self._site.columns if name not in names]
        if odd:
            raise InputError(
                f"the site file describes {odd[0]!r}, and the schema has no such column. Its "
                "names are those of the schema; 'from' says what a column is called here.",
                code="site-invalid",
            )
        return {name: self._site.entry(name).source or name for name in names}

    def read(
        self, blocks: Iterable[Block], tell: Tell | None = None, *, check: bool = True
    ) -> Reading:
        """Read all blocks, one after another."""
        if check and self._site.unconfirmed:
            raise InputError(self._site.unconfirmed, code="site-unconfirmed")
        for block in blocks:
            self._fit.line = block.line
            self._add(block)
            if tell is not None:
                tell(min(block.share, 1.0))
        points, fit = self._rows.array, self._fit
        if not len(points):
            raise InputError("the table has names of columns and no record.", code="measure-empty")
        is_repeated = _find_repeated(self._records)
        fit.records, fit.repeated = len(points), int(is_repeated.sum())
        fit.is_dropped = self._site.repeats == "drop"
        fit.shared_identifiers = {
            name: int(_find_repeated(parts).sum()) for name, parts in self._hashes.items()
        }
        self._records.clear()
        if check:
            fit.check()
        # Weights that cannot be read are said to be so, and not that they are 0.
        is_weighted = self._masses.size and (check or not fit.problems)
        masses = self._masses.array[:, 0] if is_weighted else None
        if fit.is_dropped and fit.repeated:
            # Rows keep their numbers.
            masses = np.where(is_repeated, 0.0, 1.0 if masses is None else masses)
        measure = Measure(
            points,
            masses,
            self._labels or None,
            self._schema.features,
            copy=False,
            schema=self._schema,
        )
        return Reading(measure, fit)

    def _add(self, block: Block) -> None:
        columns = {
            name: block.columns[source]
            for name, source in self._sources.items()
            if source in block.columns
        }
        parts: list[Array] = []
        for name, column in self._schema.used.items():
            encoded = encode(column, columns[name], self._writings[name])
            fit, numbers = self._fit.columns[name], encoded.numbers
            fit.add(encoded.misfits, block.lines)
            if numbers is not None and isinstance(column, Number):
                unread = encoded.misfits["unread"]
                if not fit.is_declared or unread.any():
                    fit.signs.add(columns[name], unread)
                sample = self._samples[name]
                kept = sample.add(len(numbers), numbers[sample.rows()])[0]
                fit.numbers = kept[np.isfinite(kept)]
                low, high = column.range
                # All of them, since few in another unit may be in no sample.
                fit.strays.add(numbers[(numbers < low) | (numbers > high), None])
            parts.append(encoded.coordinates)
        rows = np.hstack(parts)
        self._rows.add(rows, block.share)
        keys = {name: hashes(columns[name]) for name in self._hashes}
        # Records of two identifiers, or labels, are two.
        parts_of_key = [*rows.T, *keys.values()]
        if self._label is not None:
            name = self._label.column
            texts, misfits = _labels(columns[name], self._label, self._site.entry(name))
            parts_of_key.append(np.fromiter(map(hash, texts), np.int64, len(texts)))
            self._labels += texts
            self._fit.columns[name].add(misfits, block.lines)
        if self._weight is not None:
            name = self._weight.column
            masses, misfits = _masses(columns[name], self._weight, self._site.notation or PLAIN)
            self._masses.add(masses[:, None], block.share)
            self._fit.columns[name].add(misfits, block.lines)
        for name, key in keys.items():
            self._hashes[name].append(key[key != -1])
        self._records.append(_row_hashes(parts_of_key))


def _labels(column: Fields, label: Label, written: SiteColumn) -> tuple[list[str], dict[str, Any]]:
    """Return labels among the public classes, and what does not fit."""
    classes = {name: place for place, name in enumerate(label.classes)}
    own = {code: classes.get(label_name(name), UNREAD) for code, name in written.codes.items()}
    codes = as_codes(column, classes | own, written.sentinels)
    other = "other" if label.other else "unknown"
    misfits = {"missing": codes == EMPTY, "alike": codes == ALIKE, other: codes == UNREAD}
    # Negative codes count from the end.
    texts = (*label.classes, "other", "other", label.missing or "")
    return [texts[code] for code in codes], misfits


def _masses(column: Fields, weight: Weight, notation: Notation) -> tuple[Array, dict[str, Any]]:
    """Return weights cut to their public limit, and what does not fit."""
    read = as_numbers(column, notation=notation)
    values = read.values
    missing = np.isnan(values) & ~read.unread
    misfits = {"missing": missing, "unread": read.unread}
    misfits |= {"below": values < 0, "above": values > weight.limit}
    return np.clip(np.nan_to_num(values), 0.0, weight.limit), misfits
