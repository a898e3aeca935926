"""Runs over sites: a folder for each, with what was asked for and what sites replied.

::

    STATE/runs/ID/   run.json  journal  lock  ended  cancelled

``STATE`` is the folder of ``SILOT_STATE``, or the user's own for state.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

from pydantic import BaseModel, ConfigDict

from ..data.files import write_whole
from ..errors import FileError, InputError, MismatchError
from ..privacy._ledger_head import state_folder
from .kit import _checked, _json

_RUN, _JOURNAL, _LOCK, _ENDED, _CANCELLED = "run.json", "journal", "lock", "ended", "cancelled"

# Seconds in which whoever looks at a run has looked.
_LOOK = 0.5

DONE, STOPPED, RUNNING, CANCELLED = "done", "stopped", "running", "cancelled"


class Begun(BaseModel):
    """What is kept of a run beside its journal: enough to run it again from its start.

    Attributes
    ----------
    run
        Its name.
    computation
        What was asked for; of a command its first word.
    words
        The command line, without the program; empty for a run of Python.
    folder
        Where the command ran.
    kit
        Who asks.
    names
        Of the sites.
    files
        SHA-256 of the files that the command line names, by absolute path.
    began
        When.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    run: str
    computation: str
    words: tuple[str, ...] = ()
    folder: Path
    kit: Path
    names: tuple[str, ...]
    files: dict[str, str] = {}
    began: datetime

    def check_files(self) -> None:
        """Raise where a file is not what it was.

        Raises
        ------
        MismatchError
            ``run-changed``.
        """
        for file, digest in self.files.items():
            if digests_of([Path(file)]).get(file) != digest:
                raise MismatchError(
                    f"{file} changed since the run began, and answers were to questions that "
                    "follow from it. Put it back, or begin anew.",
                    code="run-changed",
                )


@dataclass(frozen=True)
class Run:
    """A run and its folder."""

    place: Path
    begun: Begun

    @classmethod
    def begin(cls, begun: Begun) -> Run:
        """Make the folder of a run."""
        place = _folder() / begun.run
        try:
            place.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FileError(
                f"{place} cannot be made ({type(error).__name__}), and a run must be kept to go on "
                "after a crash. Name another folder with SILOT_STATE.",
                code="file-unwritable",
            ) from None
        write_whole(place / _RUN, f"{begun.model_dump_json(indent=2)}\n".encode(), private=True)
        return cls(place, begun)

    @classmethod
    def load(cls, name: str) -> Run:
        """The run of a name, or of the beginning of one.

        Raises
        ------
        FileError
            There is none, or there are several (``run-unknown``), or its file is broken.
        """
        fits = re.fullmatch(r"[0-9a-f]{1,32}", name) is not None
        found = sorted(_folder().glob(f"{name}*/{_RUN}")) if fits else []
        if len(found) != 1:
            what = "several runs begin" if found else "no run is called"
            raise FileError(f"{what} {name[:40]!r}. `silot runs` lists all.", code="run-unknown")
        return cls._read(found[0])

    @classmethod
    def _read(cls, file: Path) -> Run:
        return cls(file.parent, _checked(Begun, _json(file), file))

    @property
    def journal(self) -> Path:
        """File of replies."""
        return self.place / _JOURNAL

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled it."""
        return (self.place / _CANCELLED).exists()

    @property
    def state(self) -> str:
        """``done``, ``running``, ``waiting for`` a site, ``stopped`` or ``cancelled``."""
        if self.cancelled:
            return CANCELLED
        held = self._locked(fcntl.LOCK_SH)
        if held is None:
            return RUNNING
        held.close()
        with suppress(OSError):
            return (self.place / _ENDED).read_text(encoding="utf-8")
        return STOPPED

    def hold(self) -> IO[bytes]:
        """Have this process be the one that runs it, until what is returned is closed.

        Raises
        ------
        MismatchError
            It was cancelled (``run-cancelled``).
        InputError
            Another process runs it (``run-running``).
        """
        if self.cancelled:
            raise MismatchError(
                f"the run {self.begun.run} was cancelled. Begin anew.", code="run-cancelled"
            )
        end = time.monotonic() + _LOOK
        while (held := self._locked(fcntl.LOCK_EX)) is None and time.monotonic() < end:
            # Somebody may be looking, for a moment.
            time.sleep(_LOOK / 20)
        if held is None:
            raise InputError(
                f"the run {self.begun.run} is running in another process. Wait for it, or "
                f"`silot cancel {self.begun.run}`.",
                code="run-running",
            )
        (self.place / _ENDED).unlink(missing_ok=True)
        return held

    def end(self, state: str) -> None:
        """Keep how it ended; a run that says nothing stopped."""
        with suppress(OSError, FileError):
            write_whole(self.place / _ENDED, state.encode(), private=True)

    def cancel(self) -> bool:
        """Have it ask nobody any more, in whatever process it runs; not where it is done."""
        if self.state == DONE:
            return False
        (self.place / _CANCELLED).touch(mode=0o600)
        return True

    def _locked(self, kind: int) -> IO[bytes] | None:
        """The lock, to run or to look, if no process runs it; of a killed one it is free."""
        handle = os.open(self.place / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        held = os.fdopen(handle, "r+b")
        try:
            fcntl.flock(held, kind | fcntl.LOCK_NB)
        except OSError:
            held.close()
            return None
        return held


def all_runs() -> list[Run]:
    """All runs of the user that can be read, the latest last."""
    found: list[Run] = []
    for file in _folder().glob(f"*/{_RUN}"):
        with suppress(FileError, InputError):
            found.append(Run._read(file))
    return sorted(found, key=lambda each: (each.begun.began, each.begun.run))


def begun_now(computation: str, kit: Path, names: Iterable[str]) -> Begun:
    """A run that begins now, here."""
    return Begun(
        run=os.urandom(6).hex(), computation=computation, folder=Path.cwd(), kit=kit,
        names=tuple(names), began=datetime.now(UTC),
    )  # fmt: skip


def digests_of(files: Iterable[Path]) -> dict[str, str]:
    """SHA-256 of those that are files, by absolute path."""
    found: dict[str, str] = {}
    for file in files:
        with suppress(OSError, ValueError):
            if file.is_file():
                with file.open("rb") as handle:
                    digest = hashlib.file_digest(handle, "sha256").hexdigest()
                found[str(file.absolute())] = digest
    return found


def _folder() -> Path:
    return state_folder() / "runs"


__all__ = ["Begun", "Run", "all_runs", "begun_now", "digests_of"]
