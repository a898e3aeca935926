"""``silot cluster``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..api._methods import METHODS
from ..api.cluster import cluster
from ..api.combine import combine, read_releases
from ..errors import InputError
from ..teaching.federated.clustering import Clustering
from .console import (
    OUT,
    check_figure,
    progress_bar,
    save_figure,
    say_where,
    show,
    steps,
    write_report,
)
from .generate import Flags, taking
from .options import HoldersArgument, JsonOption, LabelledTables, ReportOption, Spending
from .release import Trust, records_of
from .sites import Where

_RELEASE = ".release"


class AffinityName(StrEnum):
    """What spectral clustering is given."""

    rescaled = "rescaled"
    neighbours = "neighbours"


@dataclass(frozen=True, kw_only=True)
class Groups(Flags):
    """How holders are grouped."""

    k: Annotated[str, typer.Option("--groups", "-k", metavar="N|auto", help="How many groups.")] = (
        "auto"
    )
    affinity: Annotated[
        AffinityName,
        typer.Option(help="Similarities of all pairs, or a graph of the nearest holders."),
    ] = AffinityName.rescaled
    neighbours: Annotated[
        int, typer.Option(min=2, help="Nearest holders in the graph, each itself among them.")
    ] = 3
    resamples: Annotated[
        int, typer.Option(min=0, help="Matrices drawn to say how sure the groups are.")
    ] = 100

    def read(self) -> dict[str, Any]:
        """As ``cluster`` takes them."""
        if self.k != "auto" and not (self.k.isascii() and self.k.isdecimal()):
            raise InputError(
                f"--groups is {self.k[:40]!r}; give a number of groups, or auto.",
                code="option-clusters",
            )
        return {
            "k": "auto" if self.k == "auto" else int(self.k),
            "affinity": self.affinity.value,
            "neighbours": self.neighbours,
            "resamples": self.resamples,
        }


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("cluster")(taking(METHODS.values(), choose="direct")(cluster_command))


def cluster_command(
    holders: HoldersArgument = None,
    *,
    method: str,
    groups: Groups,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    trust: Trust,
    plot: Annotated[
        Path | None, typer.Option(help="Draw a heat map in the order of the groups to this file.")
    ] = None,
    report: ReportOption = None,
    json: JsonOption = False,
    **options: Any,
) -> None:
    """Groups of holders whose data are alike, if there are any. Also of releases."""
    if plot is not None:
        check_figure(plot)
    asked = groups.read()
    files = [] if where.sites is not None else list(holders or ())
    if any(path.suffix == _RELEASE for path in files):
        _check_releases(files, method, tables, options)
        result = _of_releases(files, tables, spending, trust, asked | options)
    else:
        if trust.keys is not None or trust.key is not None:
            raise InputError(
                "--keys and --key are for releases. Leave them out.", code="option-unknown"
            )
        loaded, _ = where.load(tables, holders)
        options |= spending.read(tables)
        with progress_bar("cluster") as bar:
            task = bar.add_task("pairs", total=None)
            result = cluster(
                loaded,
                method=method,
                labels=tables.labels,
                covariance=tables.covariance.value,
                progress=lambda done, of: bar.update(task, completed=done, total=of),
                **asked,
                **options,
            )
    if plot is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 5), layout="constrained")
        result.plot(figure.add_subplot())
        save_figure(figure, plot)
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    if plot is not None:
        OUT.print(f"heat map in {plot}", highlight=False)
    say_where(report=report)


def _check_releases(
    files: Sequence[Path], method: str, tables: LabelledTables, options: Collection[str]
) -> None:
    """Raise where releases stand beside data, or what they say is said again."""
    others = [path.name for path in files if path.suffix != _RELEASE]
    if others:
        raise InputError(
            f"{others[0]} is no release, and others are: distances are of one kind. Give a "
            "release of every holder.",
            code="release-beside",
        )
    if method not in ("direct", "sketch"):
        raise InputError(
            f"method is {method!r}, and releases are sketches. Leave --method out.",
            code="option-method",
        )
    said = [*(["labels"] if tables.labels else []), *sorted(set(options) - {"seed"})]
    if said:
        raise InputError(
            f"a release says how it was made. Leave --{said[0].replace('_', '-')} out.",
            code="option-unknown",
        )


def _of_releases(
    files: Sequence[Path],
    tables: LabelledTables,
    spending: Spending,
    trust: Trust,
    asked: dict[str, Any],
) -> Clustering:
    read = read_releases(files, keys=trust.keys, key=trust.key)
    public = records_of(tables, spending.public, read[0].schema, whole=False)
    with steps("combine") as progress:
        found = combine(read, public, progress=progress)
    return cluster(found, **asked)
