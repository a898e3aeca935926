"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import re
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from ..errors import FileError


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file so that a reader sees all of it, or the file as it was.

    A ``FileError`` says that the folder is missing or not writable, or the disk full.
    """
    with open_whole(path, private=private) as file:
        file.write(data)


@contextmanager
def open_whole(path: Path, *, private: bool = False) -> Iterator[IO[bytes]]:
    """Open a file to be written in parts, which appears as ``write_whole`` has it."""
    if not path.parent.is_dir():
        raise FileError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it first.",
            code="file-unwritable",
        )
    path = path.resolve()
    with _writing(path):
        handle, partial = _open_beside(path)
        try:
            with os.fdopen(handle, "wb") as file:
                yield file
            if not private:
                partial.chmod(0o644)
            partial.replace(path)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def as_file_name(name: str) -> str:
    """Return a name as a part of a file's: letters, digits, hyphens, dots and underscores.

    Examples
    --------
    >>> as_file_name("north"), as_file_name("../north 1")
    ('north', 'north_1-1f81c28d')
    """
    plain = re.sub(r"[^\w.-]+", "_", name).strip("._")[:60]
    # Names that become alike are kept apart by a check sum.
    return plain if plain == name else f"{plain}-{zlib.crc32(name.encode()):08x}"


def check_whole(path: Path) -> None:
    """Raise if ``write_whole`` would; no file remains."""
    if not path.parent.is_dir():
        raise FileError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it first.",
            code="file-unwritable",
        )
    path = path.resolve()
    with _writing(path):
        handle, partial = _open_beside(path)
        os.close(handle)
        partial.unlink()


def make_folder(path: Path, cure: str, mode: int = 0o777) -> Path:
    """Make a folder and those above it where they are absent; ``cure`` is what to do if not."""
    try:
        path.mkdir(mode=mode, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{path} cannot be made a folder ({type(error).__name__}). {cure}",
            code="file-unwritable",
        ) from None
    return path


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
        raise FileError(f"{path} exists and is not an ordinary file.", code="file-unwritable")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    return handle, Path(name)
