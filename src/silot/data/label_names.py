"""Name labels by texts that do not depend on their type, so that holders agree on classes."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from ..errors import InputError
from .names import canonical


def label_name(label: object) -> str:
    r"""Return the name of a label: the text by which holders agree on a class.

    It follows from the label alone, and not from the common type of its column: a label has one
    name as an integer, as a float among fractions, and as the text that Python, numpy or polars
    write for it if one label of the column is a text.

    Parameters
    ----------
    label
        A number that is whole is written without a point, a fraction as Python writes it, and
        truth values are 1 and 0. Bytes are UTF-8 text. Texts that look the same are one
        (``names.canonical``); one that Python, numpy or polars write for a float or a truth value
        is that number.

    Raises
    ------
    InputError
        ``labels-inexact``: a float so large that it may stand for several whole numbers, or a
        fraction of fewer digits than float64, which texts and float64 write in different ways.
        ``labels-dtype``: dates, decimals (their text depends on their column) and anything else.

    Examples
    --------
    >>> [label_name(label) for label in (3, 3.0, "3", "3.0", "3e+00", True, "false", 2.5, "2.5")]
    ['3', '3', '3', '3', '3', '1', '0', '2.5', '2.5']
    >>> [label_name(label) for label in ("007", "1e3", "250.00", "+1", " covid\u201319")]
    ['007', '1e3', '250.00', '+1', 'covid-19']
    """
    if isinstance(label, bytes):
        label = label.decode(errors="backslashreplace")
    if isinstance(label, str):
        return _text_name(canonical(label))
    if isinstance(label, Integral | np.bool_):
        return str(int(label))
    if not isinstance(label, float | np.floating):
        raise InputError(
            f"a label is of type {type(label).__name__}; labels are texts, numbers or truth "
            "values. Write it as a text.",
            code="labels-dtype",
        )
    value = float(label)
    double = not isinstance(label, np.floating) or isinstance(label, np.float64)
    digits = 53 if double else min(np.finfo(type(label)).nmant + 1, 53)
    if not abs(value) < 2.0**digits or not (double or value.is_integer()):
        raise InputError(
            "a label is a float that has no exact text: a fraction in a type other than float64, "
            "or beyond the whole numbers of its type. Write labels as integers or texts.",
            code="labels-inexact",
        )
    return _float_name(value)


def _text_name(text: str) -> str:
    flag = text.lower()
    if flag in ("true", "false"):
        return str(int(flag == "true"))
    try:
        value = float(text)
    except ValueError:
        return text
    # Whole numbers without a point are their own names.
    if not abs(value) < 2.0**53:
        return text
    ways = (
        repr(value),
        np.format_float_scientific(value, trim="-"),
        # Polars: without an exponent, or with one that is not padded.
        np.format_float_positional(value, trim="0"),
        repr(value).replace("e-0", "e-"),
    )
    return _float_name(value) if text in ways else text


def _float_name(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)
