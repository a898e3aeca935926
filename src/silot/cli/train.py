"""``silot train``."""

from __future__ import annotations

import io
import json as jsonlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, cast

import numpy as np
import typer

from ..api.train import train
from ..data.files import write_whole
from ..errors import FileError, InputError
from ..teaching.federated.federated import FederatedTraining
from ..teaching.federated.federated_result import FederatedModels
from .audit import shape_of
from .barycenter import weights_of
from .console import save_transcript, say_where, show, steps, write_report
from .generate import Flags, taking
from .options import HoldersArgument, Outputs, Tables
from .sites import Where, names_of


@dataclass(frozen=True, kw_only=True)
class Together(Flags):
    """Who trains with whom, what they count for, and which records are left out."""

    validation: Annotated[
        Path | None,
        typer.Option(
            help="Trusted labelled records, for --weights worth and --drop-flagged: 50 or more."
        ),
    ] = None
    test: Annotated[
        Path | None, typer.Option(help="Labelled records to test the models of fedavg on.")
    ] = None
    groups: Annotated[
        str | None,
        typer.Option(
            help="A model for each group: auto, a number of groups, or a file that `silot cluster "
            "--json` wrote. Default: one model."
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            help="What holders count for: worth, or numbers, comma separated. Default: their "
            "records."
        ),
    ] = None
    drop_flagged: Annotated[
        bool,
        typer.Option("--drop-flagged", help="Leave out records that `silot records` would flag."),
    ] = False

    def read(self, names: Sequence[str]) -> dict[str, Any]:
        """As ``train`` takes them."""
        weights = self.weights
        return {
            "groups": None if self.groups is None else _groups(self.groups),
            "weights": weights if weights == "worth" else weights_of(weights, list(names)),
            "drop_flagged": self.drop_flagged,
        }


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("train")(taking([FederatedTraining])(train_command))


def train_command(
    holders: HoldersArgument = None,
    *,
    together: Together,
    where: Where,
    tables: Tables,
    save: Annotated[
        Path | None, typer.Option(help="Save the models that are shared to this .npz file.")
    ] = None,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Train a model together, or one for each group of holders, and say how good it is."""
    if save is not None and save.suffix != ".npz":
        raise FileError(f"{save.name} is no .npz file. Give --save NAME.npz.", code="file-kind")
    if "shape" in options:
        options["shape"] = shape_of(options["shape"])
    # A model is of labelled records, whether or not the flag says so.
    tables = replace(tables, labels=True)
    loaded, mine = where.load(tables, holders, together.validation)
    test = None if together.test is None else next(iter(tables.load([together.test]).values()))
    options |= together.read(list(names_of(loaded)))
    with steps("train") as progress:
        result = train(loaded, mine, labels=True, test=test, progress=progress, **options)
    save_transcript(result, outputs.transcript)
    if save is not None:
        _save(result, save)
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report, models=save)


def _groups(text: str) -> str | int | dict[str, int]:
    """``auto``, a number, or the groups that a file of ``silot cluster --json`` names."""
    if text == "auto":
        return text
    if text.isascii() and text.isdecimal():
        return int(text)
    try:
        told = cast("object", jsonlib.loads(Path(text).read_text(encoding="utf-8")))
    except OSError:
        raise FileError(
            f"--groups is {text[:60]!r}: no number, not auto, and no file that can be read.",
            code="file-missing",
        ) from None
    except ValueError:
        told = None
    groups = cast("dict[str, Any]", told).get("assignment") if isinstance(told, dict) else None
    if not isinstance(groups, dict):
        raise InputError(
            f"{Path(text).name} names no groups. Write it with `silot cluster ... --json`.",
            code="option-groups",
        )
    return cast("dict[str, int]", groups)


def _save(found: FederatedModels, path: Path) -> None:
    """What is shared, by group; texts and numbers only."""
    numbers = sorted(found.parameters)
    arrays: dict[str, Any] = {
        "holders": np.array(found.names),
        "group": np.array([found.assignment[name] for name in found.names]),
        "groups": np.array(numbers),
        "classes": np.array(found.classes),
        "model": np.array(found.spec.to_text()),
        "algorithm": np.array(found.algorithm),
        "parameters": np.stack([found.parameters[number] for number in numbers]),
    }
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue(), private=True)
