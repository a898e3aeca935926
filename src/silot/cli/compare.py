"""``silot compare``: from files to a decision for each site."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..api.compare import Comparing, compare
from ..data.files import make_folder
from ..errors import InputError
from .console import OUT, print_line, show, steps, write_report
from .generate import Flags, command, flag
from .options import HoldersArgument, JsonOption, Release, Tables
from .sites import Where


class Compared(Flags):
    """What is compared, and where results go."""

    validation: Path | None = flag("Trusted data to compare the sites with.")
    label_column: str | None = flag("Column of the tables that holds the labels.")
    schema: Path | None = flag("Schema by which tables are read. Default: one is drafted.")
    site: list[str] | None = flag("Site file that says how a site writes its table, as NAME=FILE.")
    out: Path = flag("Folder for the report and all files.", "-o", default=Path("compare"))
    json: JsonOption = False

    def site_files(self) -> dict[str, Path]:
        """Return site files by the name of the site."""
        pairs = [text.partition("=") for text in self.site or ()]
        wrong = [name for name, sign, _ in pairs if not sign]
        if wrong:
            raise InputError(
                f"--site {wrong[0][:60]}: the name of its site is missing. Give --site NAME=FILE.",
                code="schema-options",
            )
        return {name: Path(file) for name, _, file in pairs}


@command(
    [Comparing],
    checked=False,
    calls=(
        "silot compare north.csv south.csv --validation mine.csv",
        "silot compare --sites KIT --validation mine.csv --schema schema.yml",
    ),
)
def compare_command(
    files: HoldersArgument = None,
    *,
    compared: Compared,
    where: Where,
    release: Release,
    **options: Any,
) -> None:
    """Decide for each site: use it, convert, clean, request more, keep apart, or exclude it.

    Read tables as they are, compare each with trusted data, and write a report.
    """
    labels: bool | str = compared.label_column or False
    column = None if compared.schema else compared.label_column
    tables = Tables(schema=compared.schema, label_column=column)
    own: Any = None if compared.validation is None else str(compared.validation)
    if where.sites is None:
        sites: Any = [str(path) for path in where.named(files)]
        how = {"schema": compared.schema, "site_files": compared.site_files()}
    else:
        contract, how = tables.files.load_schema(), {}
        sites = where.connected(files, schema=contract)
        labels = bool(labels or (contract and contract.label))
        own = None if own is None else tables.files.load_one(Path(own))
    # A folder that cannot be made ends it before a long computation.
    make_folder(compared.out, "Give another --out.")
    options |= release.read(tables) | {"labels": labels, **how}
    with steps("compare") as progress:
        result = compare(sites, own, progress=progress, **options)
    written = result.save(compared.out)
    report = compared.out / "report.html"
    write_report(report, result, folder=compared.out)
    if compared.json:
        print_line(result.to_json())
        return
    show(result, folder=compared.out)
    names = ", ".join(path.name for path in [report, *written.values()])
    OUT.print(f"written in {compared.out}: {names}", highlight=False, markup=False)
