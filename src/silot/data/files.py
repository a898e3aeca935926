"""Files: written whole or not at all, and what reading a damaged archive raises."""

from __future__ import annotations

import os
import tempfile
import zipfile
import zlib
from pathlib import Path

from ..errors import FileError

# What numpy's reader raises on files that are damaged, encrypted, or claim absurd sizes;
# NotImplementedError is zipfile's, for a compression or a version it does not know.
DAMAGED_ARCHIVE = (
    OSError,
    ValueError,
    EOFError,
    zipfile.BadZipFile,
    zlib.error,
    NotImplementedError,
    RuntimeError,
    AttributeError,
    TypeError,
    KeyError,
    MemoryError,
)


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
    partial: Path | None = None
    try:
        handle, partial = _partial(path)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        if not private:
            partial.chmod(0o644)
        partial.replace(path)
    except OSError as error:
        if partial is not None:
            partial.unlink(missing_ok=True)
        raise _unwritable(path, error) from None


def check_whole(path: Path) -> None:
    """Raise where ``write_whole`` would; nothing is left there.

    Raises
    ------
    FileError
        As ``write_whole``.
    """
    path = path.resolve()
    try:
        handle, partial = _partial(path)
        os.close(handle)
        partial.unlink()
    except OSError as error:
        raise _unwritable(path, error) from None


def _partial(path: Path) -> tuple[int, Path]:
    """A new file beside the one that is to be, which must not be a folder or the like."""
    if path.exists() and not path.is_file():
        raise FileError(f"{path} is there and is no ordinary file.", code="file-unwritable")
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    return handle, Path(name)


def _unwritable(path: Path, error: OSError) -> FileError:
    return FileError(
        f"{path} cannot be written ({type(error).__name__}). Check the folder and its rights.",
        code="file-unwritable",
    )
