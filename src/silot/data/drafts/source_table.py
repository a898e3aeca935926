"""A table that is read several times: for its notations, its columns, and by a schema."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ..container import stem_of
from ..coordinates import Writing
from ..fields import Signs
from ..label_names import label_name
from ..notation import PLAIN
from ..reading import Reading, Schema, read_by_schema, read_frame, table_source
from ..site import Site, SiteColumn
from ..table_files import Block, frame_block, read_blocks, read_names
from ..tables import frame_table
from .profile import ColumnProfile, TableProfile
from .proposals import UNKNOWN

Tell = Callable[[float], None]


@dataclass(frozen=True)
class SourceTable:
    """A table in a file or in memory: what it is called in sentences and as a site, its columns.

    ``blocks`` reads the records of some columns, and ``read`` all by a schema, whether or not they
    fit.
    """

    title: str
    name: str
    names: Sequence[str]
    blocks: Callable[[Collection[str]], Iterable[Block]]
    read: Callable[[Schema, Site], Reading]
    naming: Callable[[], AbstractContextManager[None]] = nullcontext

    @classmethod
    def of(
        cls, data: Any, name: str = "", tell: Tell | None = None, site: Site | None = None
    ) -> SourceTable:
        """Open a file, or take a data frame, which gets a ``name``."""
        if isinstance(data, str | Path):
            source, dialect = table_source(data), (site or Site()).file
            with source.naming():
                names = read_names(source, dialect)
            return cls(
                source.name, stem_of(Path(data)), names,
                lambda wanted: read_blocks(source, wanted, dialect),
                lambda schema, site: read_by_schema(source, schema, site, tell=tell, check=False),
                source.naming,
            )  # fmt: skip
        table = frame_table(data)
        if table is None:
            raise InputError(
                f"a schema describes columns by their names, and a {type(data).__name__} has none. "
                "Give a data frame or a table.",
                code="schema-columns",
            )
        return cls(
            name or "the data", name or "table1", table.names, lambda _: [frame_block(table)],
            lambda schema, site: read_frame(data, schema, site, check=False),
        )  # fmt: skip

    def profile(
        self, columns: Mapping[str, str], site: Site, tell: Tell | None = None
    ) -> TableProfile:
        """Read the table twice: for its notations, and with them for all else.

        ``columns`` has the names in the table by those of the profile.
        """
        entries = {name: site.columns.get(name, SiteColumn()) for name in columns}
        stated = {name: entry.notation or site.notation for name, entry in entries.items()}
        signs = {name: Signs() for name in columns if stated[name] is None}
        for block in self.blocks(set(columns.values())):
            for name, column in signs.items():
                column.add(block.columns[columns[name]])
            if tell is not None:
                tell(0.5 * min(block.share, 1.0))

        def profile(name: str) -> ColumnProfile:
            entry, reading = entries[name], signs[name].reading(UNKNOWN) if name in signs else None
            # Units are those of the site.
            writing = Writing(
                codes={label_name(text): label_name(value) for text, value in entry.codes.items()},
                format=entry.format,
                sentinels=tuple(map(label_name, entry.sentinels)),
                notation=stated[name] or next(iter(reading.notations if reading else ()), PLAIN),
            )
            return ColumnProfile(writing, reading, signs.get(name))

        gathered = TableProfile({name: profile(name) for name in columns})
        for block in self.blocks(set(columns.values())):
            if not gathered.rows:
                gathered.named = block.named
            gathered.add({n: block.columns[s] for n, s in columns.items()}, block.height)
            if tell is not None:
                tell(0.5 + 0.5 * min(block.share, 1.0))
        if not gathered.rows:
            raise InputError("the table has names of columns and no record.", code="measure-empty")
        return gathered
