"""``silot links``: who can teach whom."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..teaching.network import Network
from ..teaching.solve import links
from .audit import shape_of
from .console import progress_bar, say_where, show, show_blocks, write_report
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

_NETWORKS = (".json", ".yml", ".yaml")
_DATA = (".npz", ".csv", ".csv.gz", ".parquet")
# Of an adaptation: what is about its plan, and about models that this command does not tell.
_APART = ("plan", "accuracies", "accuracy", "unevaluated", "rule")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("links")(links_command)


def links_command(
    network: Annotated[
        list[Path],
        typer.Argument(help="A network (.json, .yml, .yaml), or a data file for each device."),
    ],
    objective: Annotated[
        ObjectiveChoice | None,
        typer.Option(
            help="Of data files, as in adapt. Default: coverage, or bound with --method gp or "
            "--mixing."
        ),
    ] = None,
    method: MethodOption = LinkMethod.exact,
    mixing: MixingOption = MixingChoice.none,
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
    divergence: DivergenceOption = None,
    energy: EnergyOption = None,
    report: ReportOption = None,
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Which devices train, which receive, and over which links with which weights."""
    check_outputs(report, inputs=network)
    options: dict[str, Any] = {
        "method": method.value,
        "mixing": mixing.value,
        "allow_unserved": allow_unserved,
        "time_limit": time_limit,
        "gap": gap,
        "seed": seed,
    }
    chosen = given(phi=phi, constants=None if constants is None else constants.value)
    alone = len(network) == 1 and not network[0].name.lower().endswith(_DATA)
    if alone or any(path.suffix.lower() in _NETWORKS for path in network):
        measured = (
            label_column, columns, unlabelled, shape, energy, model, divergence, objective
        )  # fmt: skip
        if len(network) > 1 or any(option is not None for option in measured):
            raise InputError(
                "a network file comes alone, and without options about data files.",
                code="option-network",
            )
        _of_network(network[0], chosen, options, report, json)
        return
    files, _ = evaluation_files(network, None)
    if len(files) < 2:
        raise InputError(
            f"{network[0].name} is one data file; give one for each device, two or more, or a "
            "network as .json, .yml or .yaml.",
            code="holder-names",
        )
    if objective is None:
        plain = method is LinkMethod.exact and mixing is MixingChoice.none
        objective = ObjectiveChoice.coverage if plain else ObjectiveChoice.bound
    # Slow to import, and not needed for a network.
    from ..teaching.view import measured_sections

    found = run_adaptation(
        files,
        label_column=label_column,
        columns=columns,
        unlabelled=unlabelled,
        network=energy,
        objective=objective.value,
        **given(
            shape=None if shape is None else shape_of(shape),
            model=None if model is None else model.value,
            divergence=None if divergence is None else divergence.value,
        ),
        **options,
        **chosen,
    )
    write_report(report, found, title="Who can teach whom")
    if json:
        told = {name: value for name, value in found.to_dict().items() if name not in _APART}
        typer.echo(jsonlib.dumps({**found.plan.to_dict(), "measured": told}, allow_nan=False))
        return
    show_blocks(measured_sections(found, assumed=energy is None))
    say_where(report=report)


def _of_network(
    path: Path,
    chosen: Mapping[str, Any],
    options: Mapping[str, Any],
    report: Path | None,
    json: bool,
) -> None:
    network = Network.load(path).model_copy(update=chosen)
    costs = network.costs()
    with progress_bar("links") as bar:
        bar.add_task("links", total=None)
        plan = links(costs, **options)
    write_report(report, plan, costs=costs, network=network)
    if json:
        typer.echo(jsonlib.dumps(plan.to_dict(), allow_nan=False))
        return
    show(plan, costs=costs, network=network)
    say_where(report=report)
