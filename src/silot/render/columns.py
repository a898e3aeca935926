"""The kinds of columns that tables of results have: how the values of each are written."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .sections import Column
from .words import decimals, interval, number, percent, printable, short_bounds, short_number


def _column(
    title: str,
    options: dict[str, Any],
    terminal: Callable[[Any], str],
    page: Callable[[Any], str] | None = None,
    *,
    numeric: bool = True,
) -> Column:
    written = {"terminal": terminal, "page": page or terminal}
    return Column(title, numeric, **{**written, **options})


def names(title: str = "holder", longest: int = 80, **options: Any) -> Column:
    """Return the column of names that others chose."""
    return _column(title, options, partial(printable, longest=longest), numeric=False)


def texts(title: str, **options: Any) -> Column:
    """Return the column of words of our own."""
    return _column(title, options, str, numeric=False)


def counts(title: str, **options: Any) -> Column:
    """Return the column of whole numbers, or of estimates of such."""
    return _column(title, options, "{:.0f}".format, "{:,.0f}".format)


def numbers(title: str, **options: Any) -> Column:
    """Return the column of numbers of four digits."""
    return _column(title, options, short_number, number)


def digits(title: str, behind: int, **options: Any) -> Column:
    """Return the column of numbers with this many digits behind the point."""
    return _column(title, options, f"{{:.{behind}f}}".format, partial(decimals, digits=behind))


def intervals(title: str = "bounds", **options: Any) -> Column:
    """Return the column of pairs of ends."""
    return _column(title, options, lambda ends: short_bounds(*ends), lambda ends: interval(*ends))


def estimates(title: str, **options: Any) -> Column:
    """Return the column of numbers, each with the ends of its interval, or ``None`` for them."""

    def written(value: tuple[float, tuple[float, float] | None], number: Any, ends: Any) -> str:
        return number(value[0]) + ("" if value[1] is None else f" {ends(*value[1])}")

    return _column(
        title,
        options,
        partial(written, number=short_number, ends=short_bounds),
        partial(written, number=number, ends=interval),
    )


def shares(title: str, **options: Any) -> Column:
    """Return the column of shares of one, as percentages."""
    return _column(title, options, percent)
