"""``silot barycenter``."""

from __future__ import annotations

import io
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..api.value import barycenter
from ..data.files import write_whole
from ..distances.worth.fedbary import FedBary
from ..distances.worth.result import Barycenter
from ..errors import FileError, InputError
from .console import (
    check_figure,
    save_figure,
    save_transcript,
    say_where,
    show,
    steps,
    write_report,
)
from .generate import Flags, taking
from .options import HoldersArgument, Outputs, Release, Tables
from .sites import Where, names_of


class BarycenterMethod(StrEnum):
    """How the barycenter is found."""

    fedbary = "fedbary"
    sketch = "sketch"


@dataclass(frozen=True, kw_only=True)
class Atoms(Flags):
    """Files of what was found itself."""

    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Save the atoms to this .npz file.")
    ] = None
    plot: Annotated[Path | None, typer.Option(help="Draw the objective by round to this file.")] = (
        None
    )

    def check(self) -> None:
        """Raise where a file has a name of another kind."""
        if self.out is not None and self.out.suffix != ".npz":
            raise FileError(
                f"{self.out.name} is no .npz file. Give --out NAME.npz.", code="file-kind"
            )
        if self.plot is not None:
            check_figure(self.plot)

    def save(self, result: Barycenter) -> None:
        """Write what was asked for."""
        if self.out is not None:
            _save_atoms(result, self.out)
        if self.plot is not None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(6, 4), layout="constrained")
            result.plot(figure.add_subplot())
            save_figure(figure, self.plot)


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("barycenter")(taking([FedBary])(barycenter_command))


def barycenter_command(
    holders: HoldersArgument = None,
    *,
    method: Annotated[
        BarycenterMethod, typer.Option("--method", "-m", help="FedBary, or private sketches.")
    ] = BarycenterMethod.fedbary,
    weights: Annotated[
        str | None,
        typer.Option(help="Weight of each holder, comma separated, in their order."),
    ] = None,
    where: Where,
    tables: Tables,
    release: Release,
    atoms: Atoms,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Barycenter of the holders, and how far each of them is from it."""
    atoms.check()
    loaded, _ = where.load(tables, holders)
    options |= release.read(tables)
    with steps("barycenter") as progress:
        result = barycenter(
            loaded,
            method=method.value,
            labels=tables.labels,
            weights=weights_of(weights, list(names_of(loaded))),
            progress=progress,
            **options,
        )
    save_transcript(result, outputs.transcript)
    atoms.save(result)
    write_report(outputs.report, result)
    if outputs.json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=outputs.report)


def weights_of(text: str | None, names: list[str]) -> dict[str, float] | None:
    """Weights by the holders' names, of a flag."""
    if text is None:
        return None
    try:
        values = [float(part) for part in text.split(",")]
    except ValueError:
        values = []
    if len(values) != len(names):
        raise InputError(
            f"--weights is {text!r}; {len(names)} numbers with commas between are needed.",
            code="option-weights",
        )
    return dict(zip(names, values, strict=True))


def _save_atoms(result: Barycenter, path: Path) -> None:
    arrays: dict[str, Any] = {"X": result.points, "w": result.weights}
    if result.labels is not None:
        arrays["y"] = result.labels
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue())
