"""Checkpoints and models as files: arrays and one JSON document in an ``.npz``, written whole."""

from __future__ import annotations

import hashlib
import io
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import FileError, MismatchError
from . import files
from .files import write_whole
from .foreign import guard, parse_json, read_npz

Arrays = dict[str, npt.NDArray[Any]]

_VERSION = 1


def write_arrays(
    path: str | os.PathLike[str],
    arrays: Mapping[str, npt.NDArray[Any]],
    prefix: str,
    name: str,
    document: object,
) -> None:
    """Write arrays, their names prefixed, and a JSON document, whole and for their owner alone."""
    # A prefix, for numpy takes names as keywords of its own.
    named: dict[str, Any] = {prefix + key: array for key, array in arrays.items()}
    named[name] = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    file = io.BytesIO()
    np.savez(file, **named)
    write_whole(Path(path), file.getvalue(), private=True)


def read_arrays(
    path: str | os.PathLike[str], prefix: str, name: str
) -> tuple[dict[str, Any], Arrays]:
    """Read the document and the arrays that ``write_arrays`` wrote, a model's.

    Raises
    ------
    FileError
        ``file-unreadable``: the file is missing, damaged, or another one.
    """

    def fail(why: str) -> FileError:
        return FileError(
            f"{Path(path).name} cannot be read as a model ({why}). Give a file that silot saved.",
            code="file-unreadable",
        )

    arrays = read_npz(Path(path), fail)
    if name not in arrays:
        raise fail("it does not say what model it is")
    with guard(fail):
        document = dict(parse_json(arrays.pop(name).tobytes(), fail))
    return document, {key.removeprefix(prefix): array for key, array in arrays.items()}


def fingerprint(**parts: Any) -> str:
    """Compute the SHA-256 of options and data: arrays by dtype, shape and bytes, others as JSON.

    Examples
    --------
    >>> fingerprint(rate=0.1, data=np.zeros(3)) == fingerprint(data=np.zeros(3), rate=0.1)
    True
    >>> fingerprint(rate=0.1) == fingerprint(rate=0.2)
    False
    """
    digest = hashlib.sha256()
    for name in sorted(parts):
        value = parts[name]
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(value)
            digest.update(f"{name}:{array.dtype.str}:{array.shape}:".encode())
            digest.update(array.tobytes())
        else:
            text = json.dumps(value, sort_keys=True)
            digest.update(f"{name}:{len(text)}:{text}".encode())
    return digest.hexdigest()


def make_folder(path: str | Path) -> Path:
    """Make the folder of checkpoints where it is absent; raise ``file-unwritable`` if it cannot."""
    return files.make_folder(Path(path), "Give a folder for checkpoints.", 0o700)


def save(
    path: Path, kind: str, mark: str, values: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write a checkpoint: its kind, the ``fingerprint`` of what it belongs to, values, arrays."""
    meta = {"version": _VERSION, "kind": kind, "mark": mark, "values": dict(values)}
    write_arrays(path, arrays, "array.", "meta", meta)


def load(path: Path, kind: str, mark: str) -> tuple[dict[str, Any], Arrays] | None:
    """Read the values and arrays of a checkpoint; ``None`` where there is none.

    Raises
    ------
    FileError
        The file is cut off, damaged, or no checkpoint (code ``"checkpoint-broken"``).
    MismatchError
        It belongs to other options or data (code ``"checkpoint-mismatch"``).
    """
    if not path.exists():
        return None

    def fail(why: str) -> FileError:
        return FileError(
            f"{path} is not a checkpoint, or is damaged ({why}). Remove it to start again.",
            code="checkpoint-broken",
        )

    arrays = read_npz(path, fail)
    with guard(fail):
        meta = parse_json(arrays.pop("meta").tobytes(), fail)
        fits = meta["version"] == _VERSION and meta["kind"] == kind and meta["mark"] == mark
        values = dict(meta["values"])
    if not fits:
        raise MismatchError(
            f"{path} belongs to other options, another model or other data. Give those of before, "
            "or another folder.",
            code="checkpoint-mismatch",
        )
    return values, {name.removeprefix("array."): array for name, array in arrays.items()}
