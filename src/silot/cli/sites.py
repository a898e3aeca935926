"""``--sites``: the holders of a command are sites of a project in place of files."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..data.measure import Measure
from ..data.reading import Schema
from ..errors import InputError
from .console import NOTE_STEPS
from .generate import Flags, flag
from .options import Tables
from .tree import name_call

if TYPE_CHECKING:
    from ..sites.run_connection import Connection
    from ..sites.runs import Run

RESUMED: ContextVar[Run | None] = ContextVar("RESUMED", default=None)
"""The run that the command resumes."""


class Where(Flags):
    """Where holders are: in files of this machine, or sites of a project."""

    sites: Path | None = flag(
        "Kit of an asker. Holders are then names of the project's sites, not files."
    )
    _opened: list[Any] = field(init=False, default_factory=list, repr=False)
    _files: list[Path] = field(init=False, default_factory=list, repr=False)

    def __exit__(self, *error: Any) -> None:
        for connection, token in self._opened:
            NOTE_STEPS.reset(token)
            connection.__exit__(*error)

    def note_files(self, files: Iterable[Path]) -> None:
        self._files.extend(files)

    def load(
        self, tables: Tables, holders: Sequence[Path] | None, own: Path | None = None,
        *, may_share: bool = False,
    ) -> tuple[dict[str, Measure] | Connection, Measure | None]:  # fmt: skip
        """Return the holders, from files or as sites, and the coordinator's own data.

        These ``may_share`` a holder's file, where the coordinator is a holder itself.
        """
        if self.sites is None:
            files = self.named(holders)
            if may_share and own in files:
                loaded = tables.files.load(files)
                return loaded, list(loaded.values())[files.index(own)]
            loaded = tables.files.load([*files, *([] if own is None else [own])])
            return loaded, None if own is None else loaded.pop(list(loaded)[-1])
        mine = None if own is None else tables.files.load_one(own)
        return self.connected(holders, schema=tables.files.load_schema()), mine

    def named(self, holders: Sequence[Path] | None) -> list[Path]:
        """Return the files of holders, or raise where none is named."""
        if not holders:
            raise InputError(
                "no holder is given. Give a file for each, or --sites KIT.", code="holder-names"
            )
        return list(holders)

    def connected(
        self,
        holders: Sequence[str | Path] | None,
        files: Iterable[Path] = (),
        schema: Schema | None = None,
    ) -> Connection:
        """Connect to the sites of these names, or all, for a run that reads ``files`` too."""
        from ..sites.run_connection import TIMEOUT, open_connection
        from ..sites.runs import hash_files

        names = [str(name) for name in holders] if holders else None
        run = RESUMED.get()
        connection = open_connection(
            self.sites or Path(), names, timeout=TIMEOUT, run=run, schema=schema,
            computation=name_call(sys.argv[1:]), words=sys.argv[1:],
            files=None if run else hash_files([*self._files, *files]),
        )  # fmt: skip
        self._opened.append((connection, NOTE_STEPS.set(connection.note_steps)))
        return connection

    def refuse(self, **options: object) -> None:
        """Raise for options that need holders' records here, where they are elsewhere."""
        names = [name for name, value in options.items() if value not in (None, False, [])]
        if self.sites is not None and names:
            raise InputError(
                f"--{names[0].replace('_', '-')} needs the records of holders here, and with "
                "--sites they stay at the sites. Leave it out.",
                code="option-sites",
            )


def names_of(holders: Mapping[str, Measure] | Connection) -> tuple[str, ...]:
    """Return the names of holders, which are files or sites."""
    return tuple(holders) if isinstance(holders, Mapping) else holders.names
