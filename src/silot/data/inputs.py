"""Read texts or vectors with their labels: what models are trained and tested on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, MismatchError
from .container import Source
from .names import listing
from .table_files import read_table
from .tables import Table

# Stands between the texts of a pair, and nowhere else.
_BETWEEN = "\t"


@dataclass(frozen=True, eq=False)
class LabelledInputs:
    """Vectors (n, d) or n texts of a file, their labels where these were read, and their columns.

    ``labelled`` is whether the file has labels, read or not.
    """

    inputs: npt.NDArray[Any] | list[str] = field(repr=False)
    labels: Sequence[Any] | npt.NDArray[Any] = field(default=(), repr=False)
    features: tuple[str, ...] = ()
    labelled: bool = False


def read_inputs(
    file: Source, *, texts: Sequence[str] = (), features: Sequence[str] | None = None,
    label: str | None = None, with_labels: bool = False, like: Sequence[str] = (),
) -> LabelledInputs:  # fmt: skip
    """Read a table or arrays; arrays have their inputs as X and their labels as y.

    Parameters
    ----------
    file
        What is read.
    texts
        Columns of a table with texts: one, or the two of a pair. Without them inputs are vectors.
    features
        Columns of the vectors; by default all but the labels, which are those of ``like``.
    label
        Column of the labels, which are read ``with_labels``.
    like
        Columns that the vectors must have, in their order.
    """
    if not file.is_table:
        return _read_arrays(file, with_labels)
    table = read_table(file, texts=(*texts, label))
    if table.height == 0:
        raise InputError("the table has a header and no record.", code="measure-empty")
    if with_labels and label is None:
        raise InputError("there are no labels. Name their column: label_column.",
                         code="labels-absent")  # fmt: skip
    table.check_names([*texts, *([label] if with_labels and label else [])])
    names: tuple[str, ...] = ()
    if texts:
        parts = [_read_texts(table, name) for name in texts]
        inputs: Any = [_BETWEEN.join(row) for row in zip(*parts, strict=True)]
    else:
        names = _choose_features(table, features, label, like)
        inputs = np.column_stack([table.numbers(name) for name in names])
    labels: Sequence[Any] = ()
    if with_labels and label is not None:
        # Where inputs are texts, a label may be a text such as NA too.
        labels = table.texts(label) if texts else table.values(label)
        missing = labels.count(None)
        if missing:
            raise InputError(
                f"{missing} label(s) are missing. Drop those records.", code="labels-missing"
            )
    return LabelledInputs(inputs, labels, names, label in table.names)


def _read_arrays(file: Source, with_labels: bool) -> LabelledInputs:
    arrays = file.arrays()
    points, labels = arrays["X"], ()
    inputs: Any = points
    if points.ndim > 2:
        inputs = points.reshape(len(points), int(np.prod(points.shape[1:])))
    if points.dtype.kind == "U":
        inputs = [_drop_tabs(str(text)) for text in points.ravel()]
    if with_labels:
        if "y" not in arrays:
            raise InputError("there are no labels. Save them as y.", code="labels-absent")
        labels = arrays["y"]
        if labels.shape != (len(inputs),):
            raise MismatchError(
                f"labels have shape {labels.shape}. Give one for each of {len(inputs)} inputs.",
                code="labels-shape",
            )
    return LabelledInputs(inputs, labels, (), "y" in arrays)


def _read_texts(table: Table, name: str) -> list[str]:
    texts = table.texts(name)
    missing = [row for row, text in enumerate(texts) if text is None]
    if missing:
        raise InputError(
            f"{len(missing)} text(s) of column {name!r} are missing, the first in "
            f"{table.place(missing[0])}. Drop those records.",
            code="text-missing",
        )
    return [_drop_tabs(str(text)) for text in texts]


def _drop_tabs(text: str) -> str:
    return text.replace(_BETWEEN, " ")


def _choose_features(
    table: Table, features: Sequence[str] | None, label: str | None, like: Sequence[str]
) -> tuple[str, ...]:
    if features:
        chosen = tuple(features)
        table.check_names(chosen)
    else:
        chosen = tuple(name for name in table.names if name != label)
        odd = sorted(set(chosen) ^ set(like)) if like else []
        if odd:
            names = [table.called(name) if name in chosen else repr(name) for name in odd]
            raise MismatchError(
                f"its columns are not those of the transfer set: {listing(names)} in one of "
                "them only. Rename them, or name the features: feature_columns.",
                code="columns-mismatch",
            )
        chosen = tuple(like) or chosen
    if not chosen:
        raise InputError("no feature column is left.", code="measure-empty")
    cure = "Name it as the text_column or the label_column, or choose feature_columns"
    table.check_numbers(chosen, cure)
    return chosen
