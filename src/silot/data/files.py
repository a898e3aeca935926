"""Files: written whole or not at all, known by their endings, and archives of arrays (.npz)."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from ..errors import FileError, SilotError
from .foreign import read_npz

_KINDS = (".npz", ".csv", ".csv.gz", ".parquet")


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file so that a reader sees all of it, or the file as it was.

    Parameters
    ----------
    path
        Where to write.
    data
        What to write.
    private
        Whether only the user may read it.

    Raises
    ------
    FileError
        The folder is missing or not writable, or the disk is full.
    """
    path = path.resolve()
    with _writing(path):
        handle, partial = _open_beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
            if not private:
                partial.chmod(0o644)
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def check_whole(path: Path) -> None:
    """Raise if ``write_whole`` would; no file remains.

    Raises
    ------
    FileError
        As ``write_whole``.
    """
    path = path.resolve()
    with _writing(path):
        handle, partial = _open_beside(path)
        os.close(handle)
        partial.unlink()


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise FileError(
            f"{path} cannot be written ({type(error).__name__}). Check the folder and its rights.",
            code="file-unwritable",
        ) from None


def _open_beside(path: Path) -> tuple[int, Path]:
    """Open a new file beside a path, which must not be a folder or the like."""
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is there and is no ordinary file.", code="file-unwritable")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    return handle, Path(name)


def known_file(path: str | Path) -> tuple[Path, str]:
    """Return a file that exists and is not empty, and its kind, which is its ending."""
    file = Path(path)
    if not os.path.isfile(file):  # noqa: PTH113 - unlike Path, no error for an overlong name
        raise FileError(
            f"{file} does not exist or is no file. Check the path.", code="file-missing"
        )
    kind = next((end for end in _KINDS if file.name.lower().endswith(end)), None)
    if kind is None:
        raise FileError(
            f"{file.name} is of no kind silot reads. Give .npz, .csv, .csv.gz or .parquet.",
            code="file-kind",
        )
    if file.stat().st_size == 0:
        raise FileError(f"{file.name} is empty (0 bytes).", code="file-empty")
    return file, kind


@contextmanager
def naming_file(file: Path) -> Iterator[None]:
    """Put the name of a file in front of an error that does not have it."""
    try:
        yield
    except SilotError as error:
        if file.name in error.message:
            raise
        raise type(error)(f"{file.name}: {error.message}", code=error.code) from None


def read_arrays(file: Path) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of an archive that has records ``X``."""
    arrays = read_npz(
        file,
        lambda why: FileError(
            f"{file.name} cannot be read as .npz ({why}). Write it with "
            "numpy.savez(path, X=..., y=..., w=...), without object arrays.",
            code="file-unreadable",
        ),
    )
    if "X" not in arrays:
        names = ", ".join(sorted(arrays)) or "nothing"
        raise FileError(
            f"{file.name} holds {names}; an array named X is needed (and y, w if any).",
            code="file-columns",
        )
    return arrays
