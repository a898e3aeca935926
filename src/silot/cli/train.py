"""``silot train``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from ..api.train import train
from ..data.foreign import JSON_BYTES, parse_json, read_bytes
from ..data.loading import read_shape
from ..distances.methods import parse_weights
from ..errors import FileError, InputError
from ..teaching.federated.federated import FederatedTraining
from .console import ARRAYS, steps
from .generate import Flags, command, flag
from .options import HoldersArgument, Outputs, Tables
from .sites import Where, names_of


class Together(Flags):
    """Who trains with whom, what they count for, and which records are left out."""

    validation: Path | None = flag(
        "Trusted labelled records, for --weights worth and --drop-flagged: 50 or more."
    )
    test: Path | None = flag("Labelled records to test the models of fedavg on.")
    groups: str | None = flag(
        "A model for each group: auto, a number of groups, or a file that `silot distance groups "
        "--json` wrote. Default: one model."
    )
    weights: str | None = flag(
        "Weights of the holders: worth, or comma-separated numbers. Default: numbers of records."
    )
    drop_flagged: bool = flag("Leave out records that `silot records` would flag.", default=False)

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the options as ``train`` takes them."""
        weights = self.weights
        return self.values(
            validation=None,
            test=None,
            groups=None if self.groups is None else _groups(self.groups),
            weights=weights if weights == "worth" else parse_weights(weights, list(names)),
        )


@command([FederatedTraining])
def model_command(
    holders: HoldersArgument = None,
    *,
    together: Together,
    where: Where,
    tables: Tables,
    save: Path | None = flag(
        "Save the models of all holders to this .npz: `silot.teaching.federated.Model.load`.",
        endings=ARRAYS,
    ),
    checkpoint: Path | None = flag(
        "Write every round to this .npz file, and continue from it.", endings=ARRAYS
    ),
    outputs: Outputs,
    **options: Any,
) -> None:
    """Train one model together, or one for each group of holders, and evaluate it."""
    if "shape" in options:
        options["shape"] = read_shape(options["shape"])
    # A model is of labelled records, whether or not the flag says so.
    tables = replace(tables, labels=True)
    loaded, mine = where.load(tables, holders, together.validation, may_share=True)
    test = None if together.test is None else tables.files.load_one(together.test)
    options |= together.read(list(names_of(loaded)))
    with steps("train") as progress:
        result = train(
            loaded, mine, labels=True, test=test, checkpoint=checkpoint, progress=progress,
            **options,
        )  # fmt: skip
    if save is not None:
        result.save(save)
    outputs.finish(result, then={"models": save})


def _groups(text: str) -> str | int | dict[str, int]:
    """Read ``auto``, a number, or groups from a file of ``silot distance groups --json``."""
    if text == "auto":
        return text
    if text.isascii() and text.isdecimal():
        return int(text)

    def fail_open(why: str) -> FileError:
        return FileError(
            f"--groups is {text[:60]!r}, which is neither a number, nor auto, nor a file that "
            f"can be read ({why}). Write it with `silot distance groups ... --json`.",
            code="file-missing",
        )

    def fail(why: str) -> InputError:
        return InputError(
            f"{Path(text).name} names no groups ({why}). Write it with `silot distance groups "
            "... --json`.",
            code="option-groups",
        )

    body = parse_json(read_bytes(Path(text), fail_open, JSON_BYTES), fail)
    groups = cast("dict[str, Any]", body).get("assignment") if isinstance(body, dict) else None
    if not isinstance(groups, dict):
        raise fail("it has no field 'assignment'")
    return cast("dict[str, int]", groups)
