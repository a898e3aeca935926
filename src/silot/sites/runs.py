"""Runs over sites: a folder for each, with what was requested and what sites replied.

::

    STATE/runs/ID/   run.json  journal  progress.json  lock  ended  cancelled

``STATE`` is the folder of ``SILOT_STATE``, or the user's own for state.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import Field

from ..data.files import write_whole
from ..errors import FileError, InputError, MismatchError
from ..privacy.ledger_head import state_folder
from .project import StoredModel

_RUN, _JOURNAL, _LOCK, _ENDED, _CANCELLED = "run.json", "journal", "lock", "ended", "cancelled"
_PROGRESS = "progress.json"

# Seconds in which a process that looks up the state of a run lets go of its lock.
_LOOK = 0.5

DONE, STOPPED, RUNNING, CANCELLED = "done", "stopped", "running", "cancelled"


class RunRequest(StoredModel):
    """What is kept of a run beside its journal: enough to run it again from its start.

    Attributes
    ----------
    run
        Its name.
    computation
        What was requested; of a command its first word.
    words
        The command line, without the program; empty for a run of Python.
    folder
        Where the command ran.
    kit
        Asker.
    names
        Of the sites.
    files
        SHA-256 of the files that the command line names, by absolute path.
    began
        When.
    """

    run: str
    computation: str
    words: tuple[str, ...] = ()
    folder: Path
    kit: Path
    names: tuple[str, ...]
    files: dict[str, str] = Field(default_factory=dict)
    began: datetime

    @classmethod
    def new(cls, computation: str, kit: Path, names: Iterable[str]) -> RunRequest:
        """Return the request of a run that begins now, here."""
        return cls(
            run=os.urandom(6).hex(), computation=computation, folder=Path.cwd(), kit=kit,
            names=tuple(names), began=datetime.now(UTC),
        )  # fmt: skip

    def check_files(self) -> None:
        """Raise where a file is not what it was (a ``MismatchError``, ``run-changed``)."""
        for file, digest in self.files.items():
            if hash_files([Path(file)]).get(file) != digest:
                raise MismatchError(
                    f"{file} changed after the run started, and its answers depend on it. Restore "
                    "it, or start a new run.",
                    code="run-changed",
                )


class RunProgress(StoredModel):
    """How far a run is, and what it took so far in the process that runs it, or ran it last.

    Attributes
    ----------
    done, total
        Steps of the computation, where it counts them.
    rounds
        Exchanges with sites.
    bytes_sent, bytes_received
        In messages, those of the journal included.
    seconds
        Since the process began.
    """

    done: int = 0
    total: int | None = None
    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class Run:
    """A run and its folder."""

    place: Path
    request: RunRequest

    @classmethod
    def begin(cls, request: RunRequest) -> Run:
        """Make the folder of a run."""
        place = _runs_folder() / request.run
        try:
            place.mkdir(mode=0o700, parents=True)
        except OSError as error:
            raise FileError(
                f"{place} cannot be made ({type(error).__name__}), and a run must be saved so "
                "that it can continue after a crash. Name another folder with SILOT_STATE.",
                code="file-unwritable",
            ) from None
        request.write(place / _RUN, private=True)
        return cls(place, request)

    @classmethod
    def load(cls, name: str) -> Run:
        """Read the run of a name, or of the beginning of one.

        Raises a ``FileError`` if there is none, if there are several (``run-unknown``), or if its
        file is broken.
        """
        is_name = re.fullmatch(r"[0-9a-f]{1,32}", name) is not None
        files = sorted(_runs_folder().glob(f"{name}*/{_RUN}")) if is_name else []
        if len(files) != 1:
            what = "several runs begin" if files else "no run is called"
            raise FileError(
                f"{what} {name[:40]!r}. `silot project runs` lists all.", code="run-unknown"
            )
        return cls._read(files[0])

    @classmethod
    def _read(cls, file: Path) -> Run:
        return cls(file.parent, RunRequest.read(file))

    @property
    def journal(self) -> Path:
        """File of replies."""
        return self.place / _JOURNAL

    @property
    def progress(self) -> RunProgress:
        """How far it is."""
        with suppress(FileError, InputError):
            return RunProgress.read(self.place / _PROGRESS)
        return RunProgress()

    def note(self, progress: RunProgress) -> None:
        """Record how far it is, for whoever looks at it from another process."""
        with suppress(OSError, FileError):
            progress.write(self.place / _PROGRESS, private=True)

    @property
    def cancelled(self) -> bool:
        """Whether somebody cancelled it."""
        return (self.place / _CANCELLED).exists()

    @property
    def state(self) -> str:
        """``done``, ``running``, ``waiting for`` a site, ``stopped`` or ``cancelled``."""
        if self.cancelled:
            return CANCELLED
        lock = self._try_lock()
        if lock is None:
            return RUNNING
        lock.release()
        with suppress(OSError):
            return (self.place / _ENDED).read_text(encoding="utf-8")
        return STOPPED

    def lock(self) -> FileLock:
        """Reserve the run for this process, until the lock is released.

        Raises a ``MismatchError`` if it was cancelled (``run-cancelled``), and an ``InputError`` if
        another process runs it (``run-running``).
        """
        if self.cancelled:
            raise MismatchError(
                f"the run {self.request.run} was cancelled. Start a new one.", code="run-cancelled"
            )
        end = time.monotonic() + _LOOK
        while (lock := self._try_lock()) is None and time.monotonic() < end:
            # A process that looks up the state holds the lock for a moment.
            time.sleep(_LOOK / 20)
        if lock is None:
            raise InputError(
                f"the run {self.request.run} is active in another process. Wait for it, or "
                f"`silot project cancel {self.request.run}`.",
                code="run-running",
            )
        (self.place / _ENDED).unlink(missing_ok=True)
        return lock

    def end(self, state: str) -> None:
        """Record how the run ended; without a record it counts as stopped."""
        with suppress(OSError, FileError):
            write_whole(self.place / _ENDED, state.encode(), private=True)

    def cancel(self) -> bool:
        """Cancel the run, in whatever process it runs; return ``False`` where it is done."""
        if self.state == DONE:
            return False
        (self.place / _CANCELLED).touch(mode=0o600)
        return True

    def _try_lock(self) -> FileLock | None:
        """Return the lock if no process runs it; that of a killed process is free."""
        lock = FileLock(self.place / _LOCK, mode=0o600)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        return lock


def all_runs() -> list[Run]:
    """Return all runs of the user that can be read, the latest last."""
    runs: list[Run] = []
    for file in _runs_folder().glob(f"*/{_RUN}"):
        with suppress(FileError, InputError):
            runs.append(Run._read(file))
    return sorted(runs, key=lambda run: (run.request.began, run.request.run))


def hash_files(files: Iterable[Path]) -> dict[str, str]:
    """Return the SHA-256 of those that are files, by absolute path."""
    digests: dict[str, str] = {}
    for file in files:
        with suppress(OSError, ValueError):
            if file.is_file():
                with file.open("rb") as handle:
                    digest = hashlib.file_digest(handle, "sha256").hexdigest()
                digests[str(file.absolute())] = digest
    return digests


def _runs_folder() -> Path:
    return state_folder() / "runs"
