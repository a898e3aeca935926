"""``silot schema``: draft, check, show, diff, json and apply."""

from __future__ import annotations

import json as json_
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from ..api.schema import check_schema, draft_schema
from ..data.drafts.view import difference_content, schema_content
from ..data.loading import save_measure
from ..data.reading import Schema, read_by_schema
from ..data.site import Site
from .console import progress_bar, say_where, show, show_blocks, tell, write_report
from .generate import taking
from .options import JsonOption, ReportOption

TableArgument = Annotated[Path, typer.Argument(help="A table: .csv, .csv.gz or .parquet.")]
FileArgument = Annotated[Path, typer.Argument(help="A schema: .yml or .json.")]
SchemaOption = Annotated[Path, typer.Option(help="The schema.")]
SiteOption = Annotated[Path | None, typer.Option(help="How this site writes its columns.")]

# Of a table that does not fit, and of two schemas that differ: as of data that do not fit together.
_UNFIT = 5


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help=schema_command.__doc__, no_args_is_help=True)
    group.callback()(schema_command)
    group.command("draft")(taking()(draft_command))
    group.command("check")(taking()(check_command))
    group.command("show")(show_command)
    group.command("diff")(diff_command)
    group.command("json")(json_command)
    group.command("apply")(taking()(apply_command))
    app.add_typer(group, name="schema")


def schema_command() -> None:
    """The public contract of a table: draft one, check a table against it, read by it."""


@contextmanager
def _reading(path: Path) -> Iterator[Callable[[float], None]]:
    """A progress bar over a file."""
    with progress_bar(f"reading {path.name}") as bar:
        task = bar.add_task("read", total=100)
        yield lambda share: bar.update(task, completed=round(100 * share))


def draft_command(
    table: TableArgument,
    *,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the draft here.")] = None,
    label: Annotated[str, typer.Option(help="Column with the labels.")] = "",
    weight: Annotated[str, typer.Option(help="Column with the weights.")] = "",
    id: Annotated[
        list[str] | None, typer.Option(help="Column with what the site calls its records.")
    ] = None,
    name: Annotated[str, typer.Option(help="What the schema is to be called.")] = "",
    site: SiteOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Propose a schema from one site's records, and say which entries tell about them."""
    way = None if site is None else Site.load(site)
    with _reading(table) as step:
        draft = draft_schema(
            table, label=label, weight=weight, identifiers=id or (), site=way, name=name,
            tell=step,
        )  # fmt: skip
    if out is not None:
        draft.save(out)
    write_report(report, draft)
    if json:
        typer.echo(draft.to_json())
        return
    show(draft)
    say_where(schema=out, report=report)


def check_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    site: SiteOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Say what of a table does not fit a schema, in counts; status 5 where it cannot be read."""
    way = None if site is None else Site.load(site)
    with _reading(table) as step:
        found = check_schema(
            table, Schema.load(schema), site=way,
            tell=step,
        )  # fmt: skip
    write_report(report, found)
    if json:
        typer.echo(found.to_json())
    else:
        show(found)
        say_where(report=report)
    if not found.fits:
        raise typer.Exit(_UNFIT)


def show_command(schema: FileArgument, *, json: JsonOption = False) -> None:
    """Show a schema: columns, coordinates, radius, hash, and who confirmed it."""
    loaded = Schema.load(schema)
    if json:
        body = {
            "schema": loaded.body(),
            "hash": loaded.hash,
            "features": list(loaded.features),
            "radius": loaded.radius,
            "warning": loaded.warning,
        }
        typer.echo(json_.dumps(body))
        return
    show_blocks(schema_content(loaded))


def diff_command(first: FileArgument, second: FileArgument, *, json: JsonOption = False) -> None:
    """Say by which columns two schemas give other coordinates; status 5 where they do."""
    a, b = Schema.load(first), Schema.load(second)
    differing = a.differing(b)
    if json:
        typer.echo(json_.dumps({"same": not differing, "differing": differing}))
    else:
        show_blocks(difference_content(a, b, (first.name, second.name)))
    if differing:
        raise typer.Exit(_UNFIT)


def json_command() -> None:
    """Print the JSON schema of the format, for editors and other programs."""
    typer.echo(json_.dumps(Schema.model_json_schema(), indent=2))


def apply_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    out: Annotated[Path, typer.Option("--out", "-o", help="An .npz for coordinates and schema.")],
    site: SiteOption = None,
    public: Annotated[
        bool, typer.Option("--public", help="Public records: they need no labels and weights.")
    ] = False,
) -> None:
    """Write the coordinates of a table by a schema, with the schema, to an .npz."""
    way, contract = None if site is None else Site.load(site), Schema.load(schema)
    with _reading(table) as step:
        found = read_by_schema(
            table, contract, way, complete=not public,
            tell=step,
        )  # fmt: skip
    for problem in found.fit.problems:
        tell(f"{table.name}: {problem.sentence}")
    save_measure(out, found.measure)
    say_where(coordinates=out)
