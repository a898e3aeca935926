"""Connect to the sites of a project as a federation, and resume their runs."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from ..data.reading import Schema
from ..sites.run_connection import TIMEOUT, Connection, open_connection
from ..sites.runs import Run


def connect(
    kit: str | Path,
    names: Collection[str] | None = None,
    *,
    timeout: float | None = TIMEOUT,
    schema: Schema | str | Path | None = None,
) -> Connection:
    """Connect to the sites of a project, as a federation for every function that takes one.

    What they reply is kept, encrypted, before it is used: a run that was cut off continues where it
    was (``resume``), and no site is asked, or charged, twice.

    Parameters
    ----------
    kit
        Folder of the asker's kit.
    names
        Of the sites that take part; by default all of the project.
    timeout
        Seconds a site has for one answer, lost messages included; ``None`` waits.
    schema
        By which data of your own were read, or its file. Sites that have a schema must have this
        one, or, where none is given, the same as each other: else a run ends before anybody is
        asked (``schema-mismatch``).

    Returns
    -------
    Connection
        A context manager: leave it, and the run is over.

    Raises
    ------
    ExtraError
        ``silot[nvflare]`` is not installed (``extra-nvflare``).
    FileError, MismatchError
        The kit is none (``kit-format``), or not of an asker (``kit-role``).
    MismatchError
        The project has no site of a name (``holder-unknown``).

    Examples
    --------
    Of a project with the sites north and south::

        with silot.connect("kit") as sites:
            print(silot.distance("north", "south", method="fedwad", federation=sites))
    """
    return open_connection(kit, names, timeout=timeout, schema=Schema.coerce(schema))


def resume(
    run: str, *, timeout: float | None = TIMEOUT, schema: Schema | str | Path | None = None
) -> Connection:
    """Resume a run that stopped, waits or is done: questions with an answer are not sent again.

    Call on it what was called before; ``silot project resume`` does so for runs of the command
    line.

    Parameters
    ----------
    run
        Its name, or the beginning of it; ``silot project runs`` lists all.
    timeout, schema
        As for ``connect``.

    Returns
    -------
    Connection

    Raises
    ------
    FileError
        There is no such run (``run-unknown``).
    MismatchError
        It was cancelled (``run-cancelled``), or a file of it changed (``run-changed``).
    InputError
        Another process runs it (``run-running``).
    """
    loaded = Run.load(run)
    kit, names, read = loaded.request.kit, loaded.request.names, Schema.coerce(schema)
    return open_connection(kit, names, timeout=timeout, run=loaded, schema=read)
