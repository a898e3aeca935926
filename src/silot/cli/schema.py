"""``silot schema``: draft, check, show, diff, json and apply."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from ..api.schema import check_schema, draft_schema
from ..data.drafts.view import difference_content, schema_content
from ..data.loading import save_measure
from ..data.reading import Schema, read_by_schema, table_source
from ..data.site import Site
from .console import print_json, reading, say_where, show_blocks, tell
from .generate import command, flag, group
from .options import JsonOption, Results

TableArgument = Annotated[Path, typer.Argument(help="A table: .csv, .parquet, .xlsx, ...")]
FileArgument = Annotated[Path, typer.Argument(help="A schema: .yml or .json.")]
SchemaOption = Annotated[Path, typer.Option(help="The schema.")]
SiteOption = Annotated[Path | None, typer.Option(help="How this site writes its columns.")]

# Of a table that does not fit, and of two schemas that differ: as of data that do not fit together.
_UNFIT = 5


@group("schema")
def schema_command() -> None:
    """The public contract of a table: draft one, check a table against it, read by it."""


@command("schema draft")
def draft_command(
    table: TableArgument,
    *,
    out: Path | None = flag("Write the draft here.", "-o"),
    label: str = flag("Column with the labels.", default=""),
    weight: str = flag("Column with the weights.", default=""),
    id: list[str] | None = flag("Column with what the site calls its records."),
    name: str = flag("What the schema is to be called.", default=""),
    site: SiteOption = None,
    outputs: Results,
) -> None:
    """Propose a schema from one site's records, and say which entries tell about them."""
    with reading(table) as progress:
        draft = draft_schema(
            table, label=label, weight=weight, identifiers=id or (), site=Site.coerce(site),
            name=name, tell=progress,
        )  # fmt: skip
    if out is not None:
        draft.save(out)
    outputs.finish(draft, first={"schema": out})


@command("schema check")
def check_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    site: SiteOption = None,
    outputs: Results,
) -> None:
    """Say what of a table does not fit a schema, in counts; status 5 where it cannot be read."""
    with reading(table) as progress:
        fit = check_schema(table, Schema.load(schema), site=Site.coerce(site), tell=progress)
    outputs.finish(fit)
    if not fit.fits:
        raise typer.Exit(_UNFIT)


@command("schema show")
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
        print_json(body)
        return
    show_blocks(schema_content(loaded))


@command("schema diff")
def diff_command(first: FileArgument, second: FileArgument, *, json: JsonOption = False) -> None:
    """Say by which columns two schemas give other coordinates; status 5 where they do."""
    a, b = Schema.load(first), Schema.load(second)
    differing = a.differing(b)
    if json:
        print_json({"same": not differing, "differing": differing})
    else:
        show_blocks(difference_content(a, b, (first.name, second.name)))
    if differing:
        raise typer.Exit(_UNFIT)


@command("schema json")
def json_command() -> None:
    """Print the JSON schema of the format, for editors and other programs."""
    typer.echo(json_.dumps(Schema.model_json_schema(), indent=2))


@command("schema apply")
def apply_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    out: Path = flag("An .npz for coordinates and schema.", "-o", default=...),
    site: SiteOption = None,
    public: bool = flag("Public records: they need no labels and weights.", default=False),
) -> None:
    """Write the coordinates of a table by a schema, with the schema, to an .npz."""
    contract, way = Schema.load(schema), Site.coerce(site)
    with reading(table) as progress:
        records = read_by_schema(
            table_source(table), contract, way, complete=not public, tell=progress
        )
    for problem in records.fit.problems:
        tell(f"{table.name}: {problem.sentence}")
    save_measure(out, records.measure)
    say_where(coordinates=out)
