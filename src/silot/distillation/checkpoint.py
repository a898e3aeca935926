"""Checkpoints: arrays and plain values in one file, written whole, read only where they fit."""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..data.files import DAMAGED_ARCHIVE, write_whole
from ..errors import FileError, MismatchError

_VERSION = 1
_META = "meta"


def fingerprint(**parts: Any) -> str:
    """SHA-256 of options and data: arrays by dtype, shape and bytes, the rest as JSON.

    Examples
    --------
    >>> fingerprint(rate=0.1, data=np.zeros(3)) == fingerprint(data=np.zeros(3), rate=0.1)
    True
    >>> fingerprint(rate=0.1) == fingerprint(rate=0.2)
    False
    """
    found = hashlib.sha256()
    for name in sorted(parts):
        value = parts[name]
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            found.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
            found.update(array.tobytes())
        else:
            text = json.dumps(value, sort_keys=True)
            found.update(f"{name}:{len(text)}:{text}".encode())
    return found.hexdigest()


def folder(path: str | Path) -> Path:
    """The folder of checkpoints, made when absent.

    Raises
    ------
    FileError
        It cannot be made, or is no folder.
    """
    place = Path(path)
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(
            f"{place} cannot be made ({type(error).__name__}). Give a folder for checkpoints.",
            code="file-unwritable",
        ) from None
    return place


def save(
    path: Path,
    kind: str,
    mark: str,
    values: Mapping[str, Any],
    arrays: Mapping[str, npt.NDArray[Any]],
) -> None:
    """Write a checkpoint, whole or not at all, for its owner's eyes only.

    Parameters
    ----------
    path
        The file.
    kind, mark
        What it is, and the ``fingerprint`` of what it belongs to.
    values, arrays
        What goes into JSON, and what does not.

    Raises
    ------
    FileError
        It cannot be written.
    """
    meta = {"version": _VERSION, "kind": kind, "mark": mark, "values": dict(values)}
    file = io.BytesIO()
    # A prefix, for numpy takes names as keywords of its own.
    named: dict[str, Any] = {f"array.{name}": array for name, array in arrays.items()}
    named[_META] = np.frombuffer(json.dumps(meta).encode(), dtype=np.uint8)
    np.savez(file, **named)
    write_whole(path, file.getvalue(), private=True)


def load(
    path: Path, kind: str, mark: str
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]] | None:
    """Read a checkpoint; ``None`` where there is none.

    Raises
    ------
    FileError
        The file is cut off, damaged, or no checkpoint (code ``"checkpoint-broken"``).
    MismatchError
        It belongs to other options or data (code ``"checkpoint-mismatch"``).
    """
    if not path.exists():
        return None
    try:
        # From memory: numpy leaves files open that turn out to be none.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop(_META).tobytes().decode())
        fits = meta["version"] == _VERSION and meta["kind"] == kind and meta["mark"] == mark
        values = dict(meta["values"])
    except DAMAGED_ARCHIVE as error:
        raise FileError(
            f"{path} is no checkpoint, or is damaged ({type(error).__name__}). Remove it to begin "
            "anew.",
            code="checkpoint-broken",
        ) from None
    if not fits:
        raise MismatchError(
            f"{path} belongs to other options, another model or other data. Give those of before, "
            "or another folder.",
            code="checkpoint-mismatch",
        )
    return values, {name.removeprefix("array."): array for name, array in arrays.items()}
