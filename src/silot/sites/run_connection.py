"""A run over the sites of a project: a federation that is kept on disk, to be resumed."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ..data.names import canonical
from ..data.reading import Schema
from ..errors import FileError, InputError, MismatchError, SilotError, WaitingError
from ..federation.answer import Failure
from ..federation.exchange import Limits, exchange
from ..federation.run import Clock, Reply
from .authority import Role
from .connection import PATIENCE, Carry
from .journal import Journal
from .kit import Kit
from .runs import DONE, STOPPED, Run, RunProgress, RunRequest
from .secure_sites import SecureSites

TIMEOUT = 120.0

# In the journal: what a site said of its schema.
_SCHEMA = b"schema"


def open_connection(
    kit: str | Path,
    names: Collection[str] | None = None,
    *,
    timeout: float | None = TIMEOUT,
    run: Run | None = None,
    computation: str = "python",
    words: Iterable[str] = (),
    files: Mapping[str, str] | None = None,
    schema: Schema | None = None,
) -> Connection:
    """Open a connection for a new run, of a command line or not, or resume one."""
    loaded = Kit.load(kit, Role.ASKER)
    sites = {canonical(name): name for name in loaded.project.sites}
    chosen = tuple(sites.get(canonical(name), name) for name in (sites if names is None else names))
    unknown = [name for name in chosen if name not in loaded.project.sites]
    if unknown:
        raise MismatchError(
            f"the project has no site {unknown[0][:60]!r}; its sites are "
            f"{', '.join(loaded.project.sites)}. Check the spelling.",
            code="holder-unknown",
        )
    if len(set(chosen)) < len(chosen) or not chosen:
        raise InputError("give names of sites, each once.", code="holder-names")
    if run is not None:
        run.request.check_files()
        return Connection(loaded, run.request, timeout, schema, run)
    request = RunRequest.new(computation, loaded.folder, chosen)
    more = {"words": tuple(words), "files": dict(files or {})}
    return Connection(loaded, request.model_copy(update=more), timeout, schema)


class Connection(SecureSites):
    """Sites over a project's server: a federation, and a context manager.

    Its run begins with the first question. It is done where the context is left without an error;
    otherwise it stopped, or waits, and ``silot.resume(run_id)`` continues it.
    """

    def __init__(
        self,
        kit: Kit,
        request: RunRequest,
        timeout: float | None,
        schema: Schema | None = None,
        run: Run | None = None,
    ) -> None:
        self._wire = _wire(kit)
        super().__init__(
            kit.identity(), self._wire, request.names, limits=Limits(deadline=timeout),
            # What the admin of a site sees of it.
            run=f"{request.computation}-{request.run}", kit=kit,
        )  # fmt: skip
        self._request, self._schemas = request, Schemas(schema)
        self._held: Any = None
        self._kept: Run | None = None
        self._progress, self._opened = RunProgress(), time.monotonic()
        if run is not None:
            self._keep(run)

    @property
    def run_id(self) -> str:
        """Name of the run, which begins here if it has not: it can then be resumed."""
        return self._begin().request.run

    @property
    def schema(self) -> Schema | None:
        """Schema by which the caller's data were read."""
        return self._schemas.own

    @property
    def vouched(self) -> frozenset[str]:
        """Sites that say by which schema they read their tables."""
        return self._schemas.vouched

    @property
    def folder(self) -> Path:
        """Folder of the run; reading it begins the run."""
        return self._begin().place

    def exchange(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Exchange messages as ``Sites`` does, and keep the run from its first question on.

        Raises
        ------
        MismatchError
            Sites have other schemas (``schema-mismatch``); none of them was asked.
        """
        statements = self._compare_schemas(messages, clock)
        self._begin()
        self._keep_absences()
        absent: dict[str, Reply | Failure] = {}
        for name, reply in statements.items():
            if isinstance(reply, Failure):
                absent[name] = reply
            elif self._journal is not None and isinstance(reply.payload, bytes):
                self._journal.keep(name, _SCHEMA, reply.payload)
        reachable = {name: message for name, message in messages.items() if name not in absent}
        replies = absent | dict(super().exchange(reachable, clock))
        self._note_absences(messages, absent)
        payloads = [reply.payload for reply in replies.values() if isinstance(reply, Reply)]
        received = sum(len(payload) for payload in payloads if isinstance(payload, bytes))
        before = self._progress
        self._note(
            rounds=before.rounds + 1, bytes_received=before.bytes_received + received,
            bytes_sent=before.bytes_sent + sum(map(len, messages.values())),
        )  # fmt: skip
        return {name: replies[name] for name in messages}

    def note_steps(self, done: int, total: int | None) -> None:
        """Record how many steps of a computation are done, for whoever looks at the run."""
        self._note(done=done, total=total)

    def _note(self, **changes: int | None) -> None:
        seconds = time.monotonic() - self._opened
        self._progress = self._progress.model_copy(update={**changes, "seconds": seconds})
        if self._kept is not None:
            self._kept.note(self._progress)

    def _compare_schemas(
        self, messages: Mapping[str, bytes], clock: Clock
    ) -> Mapping[str, Reply | Failure]:
        """Request the schemas of sites and compare them; failures are values.

        Who is not asked anything, for the journal has it, is not asked that either.
        """
        new = [name for name in messages if name not in self._schemas]
        for name in new:
            kept = None if self._journal is None else self._journal.find(name, _SCHEMA)
            if kept is not None:
                self._schemas.add(name, kept)

        def ask(name: str, _: bytes, seconds: float) -> bytes | Failure:
            try:
                return encode_schema(self.about(name, min(seconds, PATIENCE)).facts)
            except SilotError as error:
                return Failure(error.code, "failed", type(error).__name__)

        fresh = [
            name for name in new
            if name not in self._schemas and not self.is_kept(name, messages[name])
        ]  # fmt: skip
        statements = exchange(dict.fromkeys(fresh, b""), ask, clock, self._limits, self._cancelled)
        for name, reply in statements.items():
            if isinstance(reply, Reply) and isinstance(reply.payload, bytes):
                self._schemas.add(name, reply.payload)
        return statements

    def close(self, state: str = DONE) -> None:
        """End the run in a state."""
        if self._held is not None:
            if state == DONE:
                # The result is there, whether a later resume can repeat it or not.
                with suppress(FileError):
                    self._keep_absences()
            self._note()
            if self._kept is not None:
                self._kept.end(state)
            if self._journal is not None:
                self._journal.close()
            self._held.release()
            self._held = None
        leave = getattr(self._wire, "close", None)
        if leave is not None:
            leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        begun = self._kept is not None
        run = self._request.run
        continues = f"`silot project resume {run}` continues it." if self._request.words else (
            f"silot.resume({run!r}) continues it."
        )  # fmt: skip
        if isinstance(error, SilotError) and begun and error.code != "run-cancelled":
            error.message = f"{error.message} {continues}"
        if isinstance(error, KeyboardInterrupt) and begun and not error.args:
            error.args = (continues,)
        self.close(_state_of(error))

    def _begin(self) -> Run:
        return self._keep(Run.begin(self._request)) if self._kept is None else self._kept

    def _keep(self, run: Run) -> Run:
        """Hold the run, and read what sites replied before."""
        self._held = run.lock()
        try:
            self._journal = Journal(run.journal, self._identity.key)
        except BaseException:
            self._held.release()
            self._held = None
            raise
        self._kept, self._cancelled = run, _CancelFlag(run)
        return run


class Schemas:
    """Schemas by which sites read their tables: those of one run must be the same.

    A site without one, whose data are arrays, fits all.

    Attributes
    ----------
    own
        Of who asks, if any.
    """

    def __init__(self, own: Schema | None = None) -> None:
        self.own = own
        self._read: dict[str, tuple[str, str]] = {}
        self._own = ("", "") if own is None else (own.hash, own.name)

    def __contains__(self, name: str) -> bool:
        return name in self._read

    @property
    def vouched(self) -> frozenset[str]:
        """Sites that read their tables by one."""
        return frozenset(name for name, (digest, _) in self._read.items() if digest)

    def add(self, name: str, statement: bytes) -> None:
        """Record what a site says, in bytes of ``encode_schema``, and compare.

        Raises
        ------
        MismatchError
            ``schema-mismatch``, with the names of both.
        """
        digest, _, title = statement.decode("utf-8", "replace").partition(" ")
        for other, (hash_, called) in {"--schema": self._own, **self._read}.items():
            if digest and hash_ and digest != hash_:
                raise MismatchError(
                    f"{other!r} has the schema {called!r} ({hash_[:8]}), and {name!r} has "
                    f"{title!r} ({digest[:8]}): their numbers have different meanings, so no "
                    "question was sent. Agree on one schema, or leave one site out.",
                    code="schema-mismatch",
                )
        self._read[name] = digest, title


def encode_schema(facts: Mapping[str, Any]) -> bytes:
    """Encode what a site says of its schema, to be kept in the journal."""
    digest, title = (str(facts.get(key, ""))[:200] for key in ("schema", "schema_name"))
    return f"{digest} {title}".encode()


class _CancelFlag(threading.Event):
    """An event that this process sets, or whoever cancels the run from another."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._cancelled = run

    def is_set(self) -> bool:
        return super().is_set() or self._cancelled.cancelled


def _state_of(error: BaseException | None) -> str:
    if error is None:
        return DONE
    if isinstance(error, WaitingError):
        name = getattr(error, "holder", "")
        return f"waiting for {name}" if name else "waiting"
    return STOPPED


def _wire(kit: Kit) -> Carry:
    # Slow to import, and says which extra is missing.
    from .flare import Wire

    return Wire(kit)
