"""``silot ledger``: show, verify, trust and forget."""

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
    group = typer.Typer(help=ledger_command.__doc__, no_args_is_help=True)
    group.callback()(ledger_command)
    group.command("show")(show_command)
    group.command("verify")(verify_command)
    group.command("trust")(trust_command)
    group.command("forget")(forget_command)
    app.add_typer(group, name="ledger")


def ledger_command() -> None:
    """What a holder has told and released, and what that has spent."""


def show_command(path: PathArgument, json: JsonOption = False) -> None:
    """List releases, exact answers and refusals: when, to whom, and what they spend."""
    with Ledger(path, create=False, readonly=True) as ledger:
        rows, spent, head, told = ledger.entries(), ledger.spent, ledger.head, ledger.tally
    releases, exact = _releases(rows), _exact(rows)
    if json:
        body = {
            "spent_mu": spent,
            "head": head,
            "chosen_numbers": dict(told.numbers),
            "named_numbers": told.named,
            "releases": releases,
            "exact": exact,
        }
        typer.echo(json_.dumps(body))
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
    if exact:
        OUT.print(_exact_table(exact), highlight=False)
    by = ", ".join(f"{count} to {name}" for name, count in told.numbers.items())
    show_rows(
        {
            "releases": str(len(releases)),
            "spent": f"mu {spent:.6g}; how much is left, the holder's policy says",
            "chosen numbers": f"{told.total}{f' ({by})' if by else ''}",
            "named numbers": str(told.named),
            "refusals": str(sum(row.event == "refuse" for row in rows)),
            "head": head,
        }
    )


def verify_command(
    path: PathArgument,
    head: Annotated[
        str | None, typer.Option(help="A head noted earlier, which must be in the chain.")
    ] = None,
) -> None:
    """Walk the chain of hashes, and compare with the row noted last; status 4 if broken."""
    with Ledger(path, create=False, readonly=True) as ledger:
        found = ledger.verify(head=head)
        ledger.check_place()
        rows, spent = ledger.entries(), ledger.spent
    held = {"noted head": "part of the chain"} if head is not None else {}
    show_rows({"rows": f"{len(rows)}, all fit together", "spent": f"mu {spent:.6g}", **held,
               "head": found})  # fmt: skip
    if head is None:
        OUT.print(
            "The last row is the one that was noted outside the file. Whoever can write both\n"
            "can put both back: note the head elsewhere too, compare next time with --head.",
            highlight=False,
        )


def trust_command(path: PathArgument) -> None:
    """Take the file for the ledger at its place: after a move, or when its note was lost."""
    head = Ledger.trust(path)
    show_rows({"trusted": str(path), "head": head})


def forget_command(path: PathArgument) -> None:
    """Forget a ledger that is gone, so that a new one (a fresh budget) may be made there."""
    done = Ledger.forget(path)
    show_rows({"forgotten": str(path) if done else "nothing: no ledger was known there"})


def _exact(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """One exact answer or refusal each."""
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        exact = row.event in ("count", "again", "refuse")
        parameters = json_.loads(row.parameters) if exact else {}
        if row.event == "count":
            found[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "question": parameters["question"],
                "account": row.mechanism,
                "numbers": parameters["numbers"],
                "told": row.mechanism == "record",
            }
        elif row.event == "told":
            found[row.key]["told"] = True
        elif row.event == "again":
            found[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "question": parameters["question"],
                "account": f"{row.mechanism}, told before",
                "numbers": parameters["numbers"],
                "told": True,
            }
        elif row.event == "refuse":
            found[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "question": parameters["question"],
                "account": f"refused: {parameters['code']}",
                "numbers": 0,
                "told": False,
            }
    return list(found.values())


def _exact_table(exact: list[dict[str, Any]]) -> Table:
    table = Table(box=None, title_justify="left", expand=False)
    table.add_column("when (UTC)", no_wrap=True)
    table.add_column("who", overflow="fold", max_width=14)
    table.add_column("question", overflow="fold", max_width=20)
    table.add_column("numbers", justify="right", no_wrap=True)
    table.add_column("as", overflow="fold")
    for each in exact:
        table.add_row(
            Text(each["time"][:16].replace("T", " ")),
            Text(each["asker"]),
            Text(each["question"]),
            str(each["numbers"]),
            Text(each["account"]),
        )
    return table


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
