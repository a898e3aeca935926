"""Files of columns that have a type: parquet, folders of it, and Arrow, all read by polars."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Collection, Sequence
from glob import escape
from pathlib import Path
from typing import Any

from ..errors import ExtraError
from .container import Source
from .foreign import UnfitError, check_unpacked


def scan_columns(
    source: Source, wanted: Collection[str] | None = None, step: int | None = None
) -> tuple[Any, list[str], int]:
    """Return the query of a file for the wanted columns, their names, and how many rows.

    Without ``step``, the number of rows that are read at a time, all must fit into memory. What
    they take is computed from the file's own description of them.
    """
    polars = _polars(source)
    lazy = _scan(polars, source, source.files)
    kinds = lazy.collect_schema()
    schema = {name: kinds[name] for name in kinds if wanted is None or name in wanted}
    rows = int(lazy.select(polars.len()).collect().item())
    size = rows * sum(map(_width, schema.values()))
    check_unpacked(size, _size(source), is_held=step is None)
    flat = [name for name in schema if not schema[name].is_nested()]
    _try(source, flat, rows, step)
    # Lists and structures are no fields of a record, and the description does not say how long
    # they are. A short list stands for each, so that the column is refused where it is used.
    columns = [
        polars.col(name) if name in flat else polars.lit(polars.Series(name, [[0]])).first()
        for name in schema
    ]
    return lazy.select(columns), list(schema), rows


def collect_columns(query: Any, source: Source) -> Any:
    """Read a query of ``scan_columns``, if its texts fit the file.

    The letters of a text that is repeated are in memory once, until they are texts of Python.
    """
    polars = _polars(source)
    frame = query.collect()
    kinds, size = (polars.String, polars.Categorical, polars.Enum), 0
    length = polars.col("text").cast(polars.String).str.len_bytes().cast(polars.UInt64)
    for name in (name for name, kind in frame.schema.items() if isinstance(kind, kinds)):
        # Each once: a category that is cast is in memory as often as it is named.
        texts = frame.select(text=name).group_by("text").len("times")
        size += texts.select((length * polars.col("times")).sum()).item()
    check_unpacked(size, _size(source))
    return frame


def names_of_columns(source: Source) -> list[str]:
    """Return the names of the columns, which are those of every file of a folder."""
    polars = _polars(source)
    try:
        schemas = [_scan(polars, source, [file]).collect_schema() for file in source.files]
    except polars.exceptions.DuplicateError:
        raise UnfitError("two columns have the same name") from None
    for file, schema in zip(source.files, schemas, strict=True):
        if schema != schemas[0]:
            raise UnfitError(f"{file.name} has other columns or types than {source.files[0].name}")
    return list(schemas[0])


def _size(source: Source) -> int:
    return sum(file.stat().st_size for file in source.files)


# Frames are dropped, and so are exceptions: this process meets them again.
_TRIAL = """
import json, sys
path, scan, files, names, rows, step = json.load(sys.stdin)
sys.path[:] = path
try:
    import polars
    lazy = getattr(polars, scan)(files).select(names)
    for start in range(0, rows, step):
        lazy.slice(start, step).collect()
except BaseException as error:
    # A panic writes its stack to stderr: one is enough, and this process has none.
    sys.exit(type(error).__name__ == "PanicException")
"""
_FORMS = {"arrow": "ipc", "parquet": "parquet"}
_trials: set[tuple[object, ...]] = set()


def _scan(polars: Any, source: Source, files: list[Path]) -> Any:
    return getattr(polars, f"scan_{_FORMS[source.kind]}")(_patterns(files))


def _patterns(files: list[Path]) -> list[str]:
    """Return what matches the files alone: polars takes names for patterns."""
    return [escape(str(file)) for file in files]


def _try(source: Source, names: Sequence[str], rows: int, step: int | None) -> None:
    """Decode a file in another process first, for polars ends its process on some damaged ones.

    Where a page claims more values than memory holds, Rust calls ``abort``, and nothing can be
    caught. It takes half a second, most of it to import polars, so files that stay as they are
    are tried once.
    """
    states = [(file.resolve(), file.stat()) for file in source.files]
    marks = [(path, s.st_ino, s.st_mtime_ns, s.st_size) for path, s in states]
    key = (*marks, step, *names)
    if key in _trials or not sys.executable:
        return
    files, scan = _patterns([path for path, _ in states]), f"scan_{_FORMS[source.kind]}"
    order = json.dumps([sys.path, scan, files, names, rows, step or max(rows, 1)])
    command = [sys.executable, "-P", "-c", _TRIAL]
    none = subprocess.DEVNULL
    trial = subprocess.run(command, input=order.encode(), stdout=none, stderr=none, check=False)
    if trial.returncode != 0:
        raise UnfitError("a page is damaged: polars ends its process over it")
    _trials.add(key)


def _polars(source: Source) -> Any:
    """Return what reads columns of a type; a csv does without."""
    try:
        import polars
    except ImportError:
        raise ExtraError(
            f"{source.name} is read with polars. Run: pip install 'silot[parquet]', or give a csv.",
            code="extra-parquet",
        ) from None
    return polars


def _width(kind: object) -> int:
    """Return the bytes of a value: those of a number are in its name, and no other has more."""
    bits = re.search(r"\d+$", str(kind))
    return int(bits[0]) // 8 if bits else 16
