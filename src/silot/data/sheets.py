"""Lists of rows as spreadsheets read them: csv and .xlsx, without formulas."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from tempfile import SpooledTemporaryFile
from typing import IO, Any

from ..errors import ExtraError, InputError

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
# Rows of a sheet below the names, as the format limits them.
_MOST_ROWS = (1 << 20) - 1
# Bytes of a workbook that are kept in memory while it is written.
_IN_MEMORY = 1 << 24


def csv_lines(names: Sequence[str], rows: Iterable[Mapping[str, object]]) -> Iterator[str]:
    """Yield the lines of a csv file, of which no spreadsheet takes a cell for a formula."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(names), restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: _format_cell(value) for name, value in row.items()})
        yield text.getvalue()
        text.seek(0)
        text.truncate()
    yield text.getvalue()


def write_workbook(
    file: IO[bytes],
    title: str,
    names: Sequence[str],
    rows: Iterable[Mapping[str, object]],
    *,
    is_long: bool = False,
) -> None:
    """Write rows as a workbook (.xlsx) of one sheet, without formulas.

    Parameters
    ----------
    file
        Where to.
    title
        Of the sheet.
    names, rows
        The columns, and their values.
    is_long
        Keep few rows in memory; columns then have one width.

    Raises
    ------
    ExtraError
        ``silot[excel]`` is not installed.
    InputError
        A sheet has no room for this many rows (``sheet-long``).
    """
    try:
        import xlsxwriter
    except ImportError:
        raise ExtraError(
            "a workbook needs xlsxwriter. Run: pip install 'silot[excel]', or name a .csv.",
            code="extra-excel",
        ) from None
    options = {
        "strings_to_formulas": False, "strings_to_urls": False,
        "constant_memory" if is_long else "in_memory": True,
    }  # fmt: skip
    # Written beside: one that a full disk cut off would complain once more when it is collected.
    with SpooledTemporaryFile(_IN_MEMORY) as beside:
        with xlsxwriter.Workbook(beside, options) as book:
            _fill_sheet(book, title, names, rows, is_long)
        beside.seek(0)
        shutil.copyfileobj(beside, file)


def _fill_sheet(
    book: Any, title: str, names: Sequence[str], rows: Iterable[Mapping[str, object]], is_long: bool
) -> None:
    sheet = book.add_worksheet(title)
    sheet.write_row(0, 0, names, book.add_format({"bold": True}))
    number = 0
    for number, item in enumerate(rows, start=1):
        if number > _MOST_ROWS:
            raise InputError(
                f"a workbook has room for {_MOST_ROWS} rows. Name a .csv, or fewer rows.",
                code="sheet-long",
            )
        cells = [item.get(name, "") for name in names]
        sheet.write_row(
            number, 0, ["yes" if v is True else "no" if v is False else v for v in cells]
        )
    sheet.autofilter(0, 0, max(number, 1), len(names) - 1)
    sheet.freeze_panes(1, 0)
    if not is_long:
        sheet.autofit()


def _format_cell(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    if isinstance(value, str) and value.startswith(_FORMULA) and not _NUMBER.fullmatch(value):
        return f"'{value}"
    return value
