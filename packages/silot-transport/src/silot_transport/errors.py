"""The exceptions of arrays and solvers, each with a stable code and an exit status.

::

    SilotError
    ├── InputError         exit 3   data that cannot be a measure, or an option out of range
    │   └── MismatchError  exit 5   data that are fine alone and do not fit together
    ├── SolverError        exit 8   a solver could not certify its result
    ├── ExtraError         exit 9   an optional dependency is not installed
    └── MemoryShortError   exit 11  a problem that does not fit into memory

A message says what arrived and what to do. It never quotes a value of the data: row and
column numbers only.
"""

from __future__ import annotations

from typing import Any, ClassVar


class SilotError(Exception):
    """Base of every error that is raised on purpose.

    Parameters
    ----------
    message
        What arrived and what to do about it.
    code
        Stable, machine readable name of the case, such as ``"measure-nan"``.
    """

    exit_status: ClassVar[int] = 1
    run: Any = None
    """Bill and transcript of the run it ended: what was disclosed and charged by then.

    Its ``disclosure`` is empty where nothing was."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.message = message
        self.code = code

    def __str__(self) -> str:
        return f"[{self.code}] {self.message}"

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.code))


def _rebuild(kind: type[SilotError], message: str, code: str) -> SilotError:
    return kind(message, code=code)


class InputError(SilotError):
    """Data that cannot be a measure, or an option out of its range."""

    exit_status = 3


class MismatchError(InputError):
    """Data that are fine alone and do not fit together."""

    exit_status = 5


class SolverError(SilotError):
    """A solver stopped without a result it can certify."""

    exit_status = 8


class ExtraError(SilotError):
    """An optional dependency is needed and not installed."""

    exit_status = 9


class MemoryShortError(SilotError, MemoryError):
    """A problem that does not fit into memory; nothing was allocated for it."""

    exit_status = 11
