"""Texts or vectors with their labels, from the files that ``silot train distill`` is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ..data.container import Source, recognise
from ..data.names import listing
from ..data.table_files import read_table
from ..data.tables import Table
from ..distillation import LabelCodes, LabelSpace
from ..distillation.questions import Inputs, check_inputs
from ..distillation.text import PAIR
from ..errors import InputError, MismatchError
from .distill_config import Columns, FileSource

_INPUT_COLUMNS = ("text_column", "premise_column", "hypothesis_column", "feature_columns")


@dataclass(frozen=True, eq=False)
class Records:
    """What a file holds.

    Attributes
    ----------
    inputs
        Records (n, d), or n texts.
    codes
        Their labels, where they were read.
    features
        Columns of a table that the records are of.
    labelled
        Whether the file has labels, read or not.
    """

    inputs: Inputs = field(repr=False)
    codes: LabelCodes | None = field(default=None, repr=False)
    features: tuple[str, ...] = ()
    labelled: bool = False

    @property
    def truth(self) -> LabelCodes:
        """Labels of a file that was read with them."""
        assert self.codes is not None
        return self.codes


def read(
    folder: Path,
    source: FileSource,
    defaults: Columns,
    space: LabelSpace | None = None,
    like: Records | None = None,
) -> Records:
    """Read a file; with ``space`` its labels too. ``like`` says what the inputs have to be."""
    columns = _choose_columns(source, defaults)
    file = recognise(folder / source.file)
    with file.naming():
        if file.is_table:
            records = _read_table(file, columns, space, like)
        else:
            records = _read_arrays(file, space)
        if like is not None:
            _check_alike(records.inputs, like.inputs)
    return records


def _choose_columns(source: FileSource, defaults: Columns) -> Columns:
    """Choose the columns of a file: its own where it names any that inputs come from."""
    own = source if any(getattr(source, name) for name in _INPUT_COLUMNS) else defaults
    columns = Columns(
        **{name: getattr(own, name) for name in _INPUT_COLUMNS},
        label_column=source.label_column or defaults.label_column,
    )
    if (columns.premise_column is None) != (columns.hypothesis_column is None):
        raise InputError(
            "a pair of texts has premise_column and hypothesis_column; one of them is given.",
            code="option-columns",
        )
    ways = (columns.text_column, columns.premise_column, columns.feature_columns)
    if sum(way is not None for way in ways) > 1:
        raise InputError(
            "inputs come from text_column, from premise_column and hypothesis_column, or from "
            "feature_columns. Give one of these.",
            code="option-columns",
        )
    return columns


def _read_arrays(file: Source, space: LabelSpace | None) -> Records:
    arrays = file.arrays()
    points = arrays["X"]
    if points.dtype.kind == "U":
        inputs = check_inputs([_drop_tabs(str(text)) for text in points.ravel()])
    else:
        if points.ndim > 2:
            points = points.reshape(len(points), int(np.prod(points.shape[1:])))
        inputs = check_inputs(points)
    codes = None
    if space is not None:
        if "y" not in arrays:
            raise InputError("there are no labels. Save them as y.", code="labels-absent")
        labels = arrays["y"]
        if labels.shape != (len(inputs),):
            raise MismatchError(
                f"labels have shape {labels.shape}. Give one for each of {len(inputs)} inputs.",
                code="labels-shape",
            )
        codes = space.codes(labels)
    return Records(inputs, codes, (), "y" in arrays)


def _read_table(
    file: Source, columns: Columns, space: LabelSpace | None, like: Records | None
) -> Records:
    pair = (columns.premise_column, columns.hypothesis_column)
    texts = [name for name in (columns.text_column, *pair) if name]
    label = columns.label_column
    table = read_table(file, texts=(*texts, label))
    if table.height == 0:
        raise InputError("the table has a header and no record.", code="measure-empty")
    if space is not None and label is None:
        raise InputError("there are no labels. Name their column: label_column.",
                         code="labels-absent")  # fmt: skip
    table.check_names([*texts, *([label] if space is not None and label else [])])
    features: tuple[str, ...] = ()
    if texts:
        parts = [_read_texts(table, name) for name in texts]
        inputs = check_inputs([PAIR.join(row) for row in zip(*parts, strict=True)])
    else:
        features = _choose_features(table, columns, label, like)
        inputs = check_inputs(np.column_stack([table.numbers(name) for name in features]))
    codes = None
    if space is not None and label is not None:
        # Where inputs are texts, a label may be a text such as NA too.
        labels = table.texts(label) if texts else table.values(label)
        missing = labels.count(None)
        if missing:
            raise InputError(
                f"{missing} label(s) are missing. Drop those records.",
                code="labels-missing",
            )
        codes = space.codes(labels)
    return Records(inputs, codes, features, label in table.names)


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
    # A tab stands between the texts of a pair, and nowhere else.
    return text.replace(PAIR, " ")


def _choose_features(
    table: Table, columns: Columns, label: str | None, like: Records | None
) -> tuple[str, ...]:
    if columns.feature_columns:
        chosen = columns.feature_columns
        table.check_names(chosen)
    else:
        chosen = tuple(name for name in table.names if name != label)
        if like is not None and like.features:
            odd = sorted(set(chosen) ^ set(like.features))
            if odd:
                names = [table.called(name) if name in chosen else repr(name) for name in odd]
                raise MismatchError(
                    f"its columns are not those of the transfer set: {listing(names)} in one of "
                    "them only. Rename them, or name the features: feature_columns.",
                    code="columns-mismatch",
                )
            chosen = like.features
    if not chosen:
        raise InputError("no feature column is left.", code="measure-empty")
    cure = "Name it as the text_column or the label_column, or choose feature_columns"
    table.check_numbers(chosen, cure)
    return chosen


def _check_alike(inputs: Inputs, others: Inputs) -> None:
    """Raise where inputs are of another kind than those of the transfer set."""
    kind, other = _describe(inputs), _describe(others)
    if kind != other:
        is_kind = isinstance(inputs, list) or isinstance(others, list)
        raise MismatchError(
            f"these are {kind} and the transfer set is of {other}.",
            code="inputs-kind" if is_kind else "input-dimension",
        )


def _describe(inputs: Inputs) -> str:
    if isinstance(inputs, list):
        return "pairs of texts" if PAIR in inputs[0] else "texts"
    return f"vectors of {inputs.shape[1]} numbers"
