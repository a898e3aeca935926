"""``silot adapt``: devices teach one another."""

from __future__ import annotations

import io
import json as jsonlib
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..data.files import write_whole
from ..errors import FileError, InputError
from ..federation.result import Array
from ..teaching.result import Adaptation
from .audit import shape_of
from .console import save_transcript, say_where, show, write_report
from .devices import (
    DivergenceOption,
    EnergyOption,
    ModelOption,
    ShapeOption,
    UnlabelledOption,
    evaluation_files,
    run_adaptation,
)
from .options import (
    ColumnsOption,
    JsonOption,
    LabelColumnOption,
    ReportOption,
    SeedOption,
    TranscriptOption,
    check_outputs,
    given,
)
from .plans import (
    ConstantsOption,
    GapOption,
    LinkMethod,
    MethodOption,
    MixingChoice,
    MixingOption,
    ObjectiveChoice,
    PhiOption,
    TimeOption,
    UnservedOption,
)


class RuleChoice(StrEnum):
    """How targets combine models."""

    output = "output"
    parameter = "parameter"
    density = "density"


class PriorChoice(StrEnum):
    """Class proportions that models at a target are adjusted to."""

    auto = "auto"
    matched = "matched"
    source = "source"


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("adapt")(adapt_command)


def adapt_command(
    devices: Annotated[
        list[Path],
        typer.Argument(help="Devices: .npz, .csv, .csv.gz or .parquet; see --test too."),
    ],
    test: Annotated[
        Path | None,
        typer.Option(
            help="Folder of evaluation records, in files named as the devices'. Default: "
            "NAME.test.npz beside NAME.npz.",
        ),
    ] = None,
    objective: Annotated[
        ObjectiveChoice | None,
        typer.Option(
            help="Every class of a target taught, errors matched, or the paper's bound. Default: "
            "coverage, or bound with --method st-lf."
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(
            help="For coverage: share of the energy of all links. Default: 0.275, or two links a "
            "target where three devices or fewer have labels."
        ),
    ] = None,
    method: MethodOption = LinkMethod.exact,
    mixing: MixingOption = MixingChoice.none,
    rule: Annotated[
        RuleChoice | None,
        typer.Option(
            help="How a target combines models. Default: output, or parameter with --method st-lf."
        ),
    ] = None,
    prior: Annotated[
        PriorChoice | None,
        typer.Option(
            help="Adjust models to the class shares a target seems to have (matched), leave them "
            "(source), or adjust where shares are what differs (auto). Default: auto where they "
            "are estimated."
        ),
    ] = None,
    phi: PhiOption = None,
    constants: ConstantsOption = None,
    allow_unserved: UnservedOption = None,
    time_limit: TimeOption = 60.0,
    gap: GapOption = 0.0,
    label_column: LabelColumnOption = None,
    columns: ColumnsOption = None,
    unlabelled: UnlabelledOption = None,
    model: ModelOption = None,
    shape: ShapeOption = None,
    iterations: Annotated[
        int | None, typer.Option(min=1, help="Steps of training at a device. Default: 300.")
    ] = None,
    divergence: DivergenceOption = None,
    energy: EnergyOption = None,
    report: ReportOption = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the trained models and the links to this .npz file.")
    ] = None,
    seed: SeedOption = 0,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Train where labels are, choose links, combine models at the targets, and evaluate them."""
    check_outputs(report, save, transcript, inputs=devices)
    if save is not None and save.suffix != ".npz":
        raise FileError(f"{save.name} is no .npz file. Give --save NAME.npz.", code="file-kind")
    files, tests = evaluation_files(devices, test)
    if len(files) < 2:
        raise InputError(
            f"{len(files)} device(s); give a data file for each, two or more.", code="holder-names"
        )
    found = run_adaptation(
        files,
        label_column=label_column,
        columns=columns,
        unlabelled=unlabelled,
        network=energy,
        tests=tests,
        mixing=mixing.value,
        method=method.value,
        allow_unserved=allow_unserved,
        time_limit=time_limit,
        gap=gap,
        seed=seed,
        **given(
            phi=phi,
            model=None if model is None else model.value,
            divergence=None if divergence is None else divergence.value,
            prior=None if prior is None else prior.value,
            objective=None if objective is None else objective.value,
            rule=None if rule is None else rule.value,
            budget=budget,
            iterations=iterations,
            constants=None if constants is None else constants.value,
            shape=None if shape is None else shape_of(shape),
        ),
    )
    save_transcript(found, transcript)
    if save is not None:
        _save_models(found, save)
    write_report(report, found)
    if json:
        typer.echo(found.to_json())
        return
    show(found, assumed=energy is None)
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
