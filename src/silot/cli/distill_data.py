"""Texts or vectors with their labels, from the files that ``silot train distill`` is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ..data.container import recognise
from ..data.inputs import read_inputs
from ..distillation import LabelCodes, LabelSpace
from ..distillation.questions import Inputs, check_inputs
from ..distillation.text import PAIR
from ..errors import InputError, MismatchError
from .distill_config import Columns, FileSource

_INPUT_COLUMNS = ("text_column", "premise_column", "hypothesis_column", "feature_columns")


@dataclass(frozen=True, eq=False)
class Records:
    """Records (n, d) or n texts of a file, their labels where these were read, and their columns.

    ``labelled`` is whether the file has labels, read or not.
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
    pair = (columns.premise_column, columns.hypothesis_column)
    file = recognise(folder / source.file)
    with file.naming():
        content = read_inputs(
            file,
            texts=[name for name in (columns.text_column, *pair) if name],
            features=columns.feature_columns,
            label=columns.label_column,
            with_labels=space is not None,
            like=like.features if like else (),
        )
        inputs = check_inputs(content.inputs)
        if like is not None:
            _check_alike(inputs, like.inputs)
        codes = None if space is None else space.codes(content.labels)
    return Records(inputs, codes, content.features, content.labelled)


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
