"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import FileError


def write_whole(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file so that a reader sees all of it, or the file as it was.

    A ``FileError`` says that the folder is missing or not writable, or the disk full.
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
    """Raise if ``write_whole`` would; no file remains."""
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
