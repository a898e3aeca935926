"""``silot schema``: draft, confirm, check, show, diff, json and apply."""

from __future__ import annotations

import json as json_
import shlex
from pathlib import Path
from typing import Annotated

import typer

from ..api.schema import check_schema, draft_schema
from ..data.documents import read_fields
from ..data.drafts.view import difference_content, schema_content
from ..data.files import write_whole
from ..data.loading import save_measure
from ..data.reading import Schema, read_by_schema
from ..data.site import Site
from ..render.words import printable
from .console import print_json, print_line, reading, say_where, show_blocks, tell
from .generate import argument, command, flag
from .options import JsonOption, Results

TablesArgument = Annotated[
    list[Path],
    typer.Argument(help="Tables. The first defines the schema; the others get site files."),
]
TableArgument = Annotated[Path, typer.Argument(help="A table: .csv, .parquet, .xlsx, ...")]
FileArgument = Annotated[Path, typer.Argument(help="A schema: .yml or .json.")]
SchemaOption = Annotated[Path, typer.Option(help="The schema.")]
SiteOption = Annotated[
    Path | None, typer.Option(help="Site file that says how this site writes its columns.")
]

# Of a table that does not fit, and of two schemas that differ: as of data that do not fit together.
_UNFIT = 5


@command()
def draft_command(
    tables: TablesArgument,
    *,
    out: Path | None = flag("Write the schema here, and site files beside it.", "-o"),
    label: str = flag("Column with the labels.", default=""),
    weight: str = flag("Column with the weights.", default=""),
    id: list[str] | None = flag("Column with identifiers of records."),
    name: str = flag("Name of the schema.", default=""),
    site: SiteOption = None,
    outputs: Results,
) -> None:
    """Draft a schema from one site's records, and site files for the tables of other sites."""
    with reading(tables[0]) as progress:
        draft = draft_schema(
            *tables, label=label, weight=weight, identifiers=id or (), site=Site.coerce(site),
            name=name, tell=progress,
        )  # fmt: skip
    files = {} if out is None else draft.save(out)
    places = {f"site file of {printable(name)}": path for name, path in files.items()}
    outputs.finish(draft, first={"schema": out, **places})
    if files and not outputs.json:
        sites = shlex.join(w for name, path in files.items() for w in ("--site", f"{name}={path}"))
        method = "distance" if len(tables) == 2 else "distance matrix"
        print_line("Check each entry of these files, correct what is wrong, then type")
        confirmed = shlex.join(map(str, (out, *files.values())))
        print_line(f'  silot schema confirm {confirmed} --by "YOUR NAME"')
        read = f"{shlex.join(map(str, tables))} --schema {shlex.quote(str(out))} {sites}"
        print_line(f"  silot {method} {read}")


@command()
def confirm_command(
    files: list[Path] = argument("A schema, site files, or both."),
    *,
    by: str = flag("Name of the person who has checked each entry.", default=...),
) -> None:
    """Confirm drafted files: write the name of the person who has checked each entry."""
    kinds = {path: Site if read_fields(path).get("silot") == "site" else Schema for path in files}
    texts = {path: kind.confirmed(path, by) for path, kind in kinds.items()}
    for path, text in texts.items():
        write_whole(path, text.encode())
        print_line(f"{path.name} confirmed by {by}")


@command()
def check_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    site: SiteOption = None,
    outputs: Results,
) -> None:
    """Count the values of a table that do not fit a schema; status 5 if it cannot be read."""
    with reading(table) as progress:
        fit = check_schema(table, Schema.load(schema), site=Site.coerce(site), tell=progress)
    outputs.finish(fit)
    if fit.cures and not outputs.json:
        print_line(f"\nTo paste into a site file after you have checked each entry:\n\n{fit.cure}")
    if not fit.fits:
        raise typer.Exit(_UNFIT)


@command()
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


@command()
def diff_command(first: FileArgument, second: FileArgument, *, json: JsonOption = False) -> None:
    """Show which columns two schemas read differently; status 5 if there are any."""
    a, b = Schema.load(first), Schema.load(second)
    differing = a.differing(b)
    if json:
        print_json({"same": not differing, "differing": differing})
    else:
        show_blocks(difference_content(a, b, (first.name, second.name)))
    if differing:
        raise typer.Exit(_UNFIT)


@command()
def json_command() -> None:
    """Print the JSON schema of the format, for editors and other programs."""
    typer.echo(json_.dumps(Schema.model_json_schema(), indent=2))


@command()
def apply_command(
    table: TableArgument,
    *,
    schema: SchemaOption,
    out: Path = flag("The .npz file to write.", "-o", default=...),
    site: SiteOption = None,
    public: bool = flag("Public records: they need no labels and weights.", default=False),
) -> None:
    """Convert a table to numbers by a schema, and save them with the schema as an .npz."""
    contract, way = Schema.load(schema), Site.coerce(site)
    with reading(table) as progress:
        records = read_by_schema(table, contract, way, complete=not public, tell=progress)
    for problem in records.fit.problems:
        tell(f"{table.name}: {problem.sentence}")
    save_measure(out, records.measure)
    say_where(coordinates=out)
