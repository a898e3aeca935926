"""Commands as processes of their own, forked from one that has imported silot before."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

# Read when silot is imported: a terminal of 80 columns, without colours or a window.
TERMINAL = {"COLUMNS": "80", "NO_COLOR": "1", "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"}
_SERVER = "tests.cli._imported"
# Nobody waits so long: it ends a command that hangs, however busy the machine is.
_LIMIT = 1200

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload([_SERVER])


def silot(*words: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``silot WORDS`` prints on its two streams, and its exit status."""
    command = ["silot", *map(str, words)]
    with tempfile.TemporaryDirectory() as folder:
        streams = [Path(folder, name) for name in ("out", "err")]
        process = _context.Process(
            target=_run, args=(command, cwd or Path.cwd(), dict(os.environ), streams)
        )
        process.start()
        process.join(_LIMIT)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, _LIMIT)
        out, err = (
            stream.read_text(encoding="utf-8") if stream.exists() else "" for stream in streams
        )
    return subprocess.CompletedProcess[str](command, process.exitcode, out, err)


def within(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    """The same in a folder."""
    return silot(*words, cwd=folder)


def _run(command: list[str], cwd: Path, environment: dict[str, str], streams: list[Path]) -> None:
    """In the child: its streams are files, and all else as a shell would have it."""
    for target, path in enumerate(streams, start=1):
        opened = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(opened, target)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.environ.clear()
    os.environ.update(environment | TERMINAL)
    os.chdir(cwd)
    sys.argv = command
    sys.stdin, sys.stdout, sys.stderr = (
        open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115
        for number, mode in enumerate(("r", "w", "w"))
    )
    _leave(_status())


def _status() -> Any:
    from silot.cli import main

    try:
        main()
    except SystemExit as ended:
        return ended.code
    except BaseException:  # noqa: BLE001  (as the interpreter ends)
        traceback.print_exc()
        return 1
    return 0


def _leave(code: Any) -> None:
    if isinstance(code, str):
        print(code, file=sys.stderr)
        code = 1
    # What is registered for the end of a process runs, as it would.
    sys.exit(code or 0)
