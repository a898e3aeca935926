"""``silot links``: who can teach whom."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError
from ..teaching.adapt import Adapt
from ..teaching.network import Network
from ..teaching.solve import Links, links
from .console import progress_bar, say_where, show, show_blocks, write_report
from .devices import DeviceFiles, evaluation_files
from .generate import taking
from .options import JsonOption, ReportOption
from .sites import Where

_NETWORKS = (".json", ".yml", ".yaml")
_DATA = (".npz", ".csv", ".csv.gz", ".parquet")
# Options of an adaptation that it does not offer, and those of a network.
_UNUSED = ("budget", "rule", "prior", "iterations")
_FIELDS = ("phi", "constants")
_OF_NETWORKS = {*_FIELDS, *Links.options}
# Of an adaptation: what is about its plan, and about models that this command does not tell.
_APART = ("plan", "accuracies", "accuracy", "unevaluated", "rule")


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    of_data = (
        "Of data files, as in adapt. Default: coverage, or bound with --method gp or --mixing."
    )
    made = taking([Adapt], without=_UNUSED, help={"objective": of_data})(links_command)
    app.command("links")(made)


def links_command(
    network: Annotated[
        list[Path] | None,
        typer.Argument(
            help="A network (.json, .yml, .yaml), or a data file for each device; or sites, by "
            "default all."
        ),
    ] = None,
    *,
    where: Where,
    files: DeviceFiles,
    report: ReportOption = None,
    json: JsonOption = False,
    **options: Any,
) -> None:
    """Which devices train, which receive, and over which links with which weights."""
    if where.sites is None and _is_network(network := where.named(network)):
        if len(network) > 1 or options.keys() - _OF_NETWORKS or files != DeviceFiles():
            raise InputError(
                "a network file comes alone, and without options about data files.",
                code="option-network",
            )
        _of_network(network[0], options, report, json)
        return
    paths = (network or []) if where.sites else evaluation_files(network or [], None)[0]
    if len(paths) < 2 and not where.sites:
        raise InputError(
            f"{len(paths)} data file is given; give one for each device, two or more, or a network "
            "as .json, .yml or .yaml.",
            code="holder-names",
        )
    plain = options.get("method", "exact") == "exact" and options.get("mixing", "none") == "none"
    # Slow to import, and not needed for a network.
    from ..teaching.view import measured_sections

    found = files.adapt(where, paths, {}, {"objective": "coverage" if plain else "bound"} | options)
    write_report(report, found, title="Who can teach whom")
    if json:
        told = {name: value for name, value in found.to_dict().items() if name not in _APART}
        typer.echo(jsonlib.dumps({**found.plan.to_dict(), "measured": told}, allow_nan=False))
        return
    show_blocks(measured_sections(found, assumed=files.energy is None))
    say_where(report=report)


def _is_network(paths: list[Path]) -> bool:
    alone = len(paths) == 1 and not paths[0].name.lower().endswith(_DATA)
    return alone or any(path.suffix.lower() in _NETWORKS for path in paths)


def _of_network(path: Path, options: dict[str, Any], report: Path | None, json: bool) -> None:
    own = {name: options.pop(name) for name in _FIELDS if name in options}
    network = Network.load(path).model_copy(update=own)
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
