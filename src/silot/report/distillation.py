"""The report of a distillation: what one model learnt from many."""

from __future__ import annotations

from pathlib import Path

from ..files import write_whole
from ..results.distillation import Distillation
from ._distill_sections import parts, summary
from ._templates import template
from ._words import printable

_TITLE = "One model from many"


def render_distillation(found: Distillation, *, title: str = _TITLE) -> str:
    """Make the report of a distillation as the text of one HTML file.

    The file needs nothing beside itself: no network, no scripts, no fonts. It contains no input,
    no record and no model; the same result gives the same text.

    Parameters
    ----------
    found
        What the model learnt.
    title
        Heading of the report.

    Returns
    -------
    str
        The HTML file.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.distillation import LabelSpace
    >>> from silot.results import Distillation
    >>> options = {"loss": "sinkhorn", "weights": "uniform", "epsilon": None, "memory": False,
    ...            "epochs": 1, "rate": 0.1, "batch": 8, "temperature": 1.0, "decimals": None,
    ...            "privacy_epsilon": None, "inputs": 5, "noise": 0, "seed": 0}
    >>> found = Distillation(
    ...     model=None, space=LabelSpace([0.0, 1.0]), teachers=("north",), losses=np.ones(1),
    ...     by_teacher=np.ones((1, 1)), weights=np.ones((1, 5)), biases=None, sizes={}, noise={},
    ...     before={}, after={}, options=options, resumed=0, excluded={}, status="done",
    ...     predictor=lambda inputs: inputs)
    >>> "1 teacher (north) taught one model, from 5 inputs" in render_distillation(found)
    True
    """
    return template("distillation").render(
        title=printable(title.strip() or _TITLE, 200), summary=summary(found), parts=parts(found)
    )


def write_distillation(path: str | Path, found: Distillation, *, title: str = _TITLE) -> None:
    """Write the report of a distillation to one HTML file, whole or not at all.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    found, title
        As for ``render_distillation``.

    Raises
    ------
    FileError
        The folder is missing or not writable, or the disk is full.
    """
    write_whole(Path(path), render_distillation(found, title=title).encode())
