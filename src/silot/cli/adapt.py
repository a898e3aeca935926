"""``silot adapt``: devices teach one another."""

from __future__ import annotations

import io
import json as jsonlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..data.files import write_whole
from ..errors import FileError, InputError
from ..federation.result import Array
from ..teaching.adapt import Adapt
from ..teaching.result import Adaptation
from .console import check_outputs, save_transcript, say_where, show, write_report
from .devices import DeviceFiles, evaluation_files
from .generate import taking
from .options import JsonOption, ReportOption, TranscriptOption
from .sites import Where


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("adapt")(taking([Adapt])(adapt_command))


def adapt_command(
    devices: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Devices: .npz, .csv, .csv.gz or .parquet, see --test too; or sites, by default "
            "all."
        ),
    ] = None,
    test: Annotated[
        Path | None,
        typer.Option(
            help="Folder of evaluation records, in files named as the devices'. Default: "
            "NAME.test.npz beside NAME.npz.",
        ),
    ] = None,
    *,
    where: Where,
    files: DeviceFiles,
    save: Annotated[
        Path | None, typer.Option(help="Save the trained models and the links to this .npz file.")
    ] = None,
    report: ReportOption = None,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
    **options: Any,
) -> None:
    """Train where labels are, choose links, combine models at the targets, and evaluate them."""
    if save is not None and save.suffix != ".npz":
        raise FileError(f"{save.name} is no .npz file. Give --save NAME.npz.", code="file-kind")
    where.refuse(test=test)
    paths, tests = (devices or [], {}) if where.sites else evaluation_files(devices or [], test)
    check_outputs(report, save, transcript, inputs=tests.values())
    if len(paths) < 2 and not where.sites:
        raise InputError(
            f"{len(paths)} device(s); give a data file for each, two or more.", code="holder-names"
        )
    found = files.adapt(where, paths, tests, options)
    save_transcript(found, transcript)
    if save is not None:
        _save_models(found, save)
    write_report(report, found)
    if json:
        typer.echo(found.to_json())
        return
    show(found, assumed=files.energy is None)
    say_where(report=report, models=save)


def _save_models(found: Adaptation, path: Path) -> None:
    """Models of all sources and the weights of all links; texts and numbers only."""
    names = list(found.parameters)
    arrays: dict[str, Any] = {
        "devices": np.array(found.names),
        "classes": np.array(found.classes),
        "model": np.array(found.spec.to_text()),
        "rule": np.array(found.rule),
        "alpha": found.plan.alpha,
        "psi": found.plan.psi,
        "trained": np.array(names),
        "parameters": np.stack([found.parameters[name] for name in names]),
    }
    factors = _factors(found)
    if factors is not None:
        arrays["factors"] = factors
    laws = _densities(found)
    if laws:
        nothing = np.full(len(next(iter(laws.values()))), np.nan)
        arrays["densities"] = np.stack([laws.get(name, nothing) for name in names])
        arrays["density"] = np.array(_law(found))
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue(), private=True)


def _factors(found: Adaptation) -> Array | None:
    """What the class probabilities of every link's model are multiplied by, (N, N, C)."""
    plan = found.plan
    factors = np.ones((*plan.alpha.shape, len(found.classes)))
    adjusted = False
    for j, name in enumerate(plan.names):
        model = found.models.get(name)
        if model is not None and model.factors is not None:
            factors[plan.alpha[:, j] > 0, j] = model.factors
            adjusted = True
    return factors if adjusted else None


def _densities(found: Adaptation) -> dict[str, Array]:
    """Where the records of sources lie, by source, when models are combined by that."""
    plan = found.plan
    laws: dict[str, Array] = {}
    for j, target in enumerate(plan.names):
        model = found.models.get(target)
        if model is not None and model.densities is not None:
            senders = [plan.names[i] for i in np.flatnonzero(plan.alpha[:, j] > 0)]
            laws.update(zip(senders, model.densities, strict=True))
    return laws


def _law(found: Adaptation) -> str:
    """Description of the densities, as JSON."""
    laws = [model.density for model in found.models.values() if model.density is not None]
    return jsonlib.dumps(asdict(laws[0]), sort_keys=True)
