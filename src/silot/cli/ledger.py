"""``silot ledger show`` and ``silot ledger verify``."""

from __future__ import annotations

import json as json_
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from ..privacy.ledger import Ledger, Row
from .console import OUT, show_rows
from .options import JsonOption

_STATES = {
    "reserve": "nothing was handed over",
    "release": "drawn, not handed over",
    "commit": "handed over",
}

PathArgument = Annotated[Path, typer.Argument(help="A holder's ledger.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(
        help="What a holder has released, and what that has spent.", no_args_is_help=True
    )
    group.command("show")(show_command)
    group.command("verify")(verify_command)
    app.add_typer(group, name="ledger")


def show_command(path: PathArgument, json: JsonOption = False) -> None:
    """List releases: when, to whom, by what mechanism, and what they spend."""
    with Ledger(path, create=False, readonly=True) as ledger:
        rows, spent, head = ledger.entries(), ledger.spent, ledger.head
    releases = _releases(rows)
    if json:
        typer.echo(json_.dumps({"spent_mu": spent, "head": head, "releases": releases}))
        return
    table = Table(box=None, title_justify="left", expand=False)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("who", overflow="fold", max_width=14)
    table.add_column("mechanism", overflow="fold", max_width=20)
    table.add_column("mu", justify="right", no_wrap=True)
    table.add_column("total", justify="right", no_wrap=True)
    table.add_column("state", overflow="fold")
    for release in releases:
        table.add_row(
            Text(release["time"][:16].replace("T", " ")),
            Text(release["asker"]),
            Text(release["mechanism"]),
            f"{release['mu']:.4g}",
            f"{release['total']:.4g}",
            _STATES[release["state"]],
        )
    if releases:
        OUT.print(table, highlight=False)
    show_rows(
        {
            "releases": str(len(releases)),
            "spent": f"mu {spent:.6g}; how much is left, the holder's policy says",
            "head": head,
        }
    )


def verify_command(
    path: PathArgument,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier, which must be in the chain.")
    ] = None,
) -> None:
    """Walk the chain of hashes; exit status 4 if it is broken."""
    with Ledger(path, create=False, readonly=True) as ledger:
        found = ledger.verify(head=head)
        rows, spent = ledger.entries(), ledger.spent
    held = {"noted head": "part of the chain"} if head is not None else {}
    show_rows({"rows": f"{len(rows)}, all fit together", "spent": f"mu {spent:.6g}", **held,
               "head": found})  # fmt: skip
    if head is None:
        OUT.print(
            "Rows cut off at the end, or an older copy put back, do not show in the chain.\n"
            "Note the head elsewhere and compare next time with --head.",
            highlight=False,
        )


def _releases(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One release each, with how far it came."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.event == "reserve":
            found[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "mechanism": row.mechanism,
                "parameters": json_.loads(row.parameters),
                "mu": row.mu,
                "total": row.total,
                "key": row.key,
                "state": "reserve",
            }
        elif row.key in found:
            found[row.key]["state"] = row.event
    return list(found.values())
