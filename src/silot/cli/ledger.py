"""``silot privacy ledger``: show, verify, back up, trust, forget and separate."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..privacy.ledger import Ledger
from ..privacy.ledger_file import list_exact_answers, list_releases
from .console import OUT, format_minute, print_json, print_table, show_rows
from .generate import argument, command, flag
from .options import JsonOption

_STATES = {
    "reserve": "nothing was sent",
    "release": "computed, not sent",
    "commit": "handed over",
}

_SHOWN = ("reserve", "release", "commit", "count", "again", "refuse")

PathArgument = Annotated[Path, typer.Argument(help="A holder's ledger.")]


@command()
def show_command(path: PathArgument, json: JsonOption = False) -> None:
    """List releases, exact answers and refusals: when, to whom, and what they spend."""
    with Ledger(path, create=False, readonly=True) as ledger:
        rows, spent, head = ledger.entries(*_SHOWN), ledger.spent, ledger.head
        account = ledger.account
    releases, exact = list_releases(rows), list_exact_answers(rows)
    if json:
        body = {
            "spent_mu": spent,
            "account": {
                "spent_mu": account.spent,
                "ledgers": [{"path": name, "spent_mu": mu} for name, mu in account.ledgers],
            },
            "head": head,
            "releases": releases,
            "exact": exact,
        }
        print_json(body)
        return
    _print_answers(releases, "mechanism", "mu", "total", "state")
    _print_answers(exact, "question", "level")
    show_rows(
        {
            "releases": str(len(releases)),
            "spent": f"mu {spent:.6g}; the holder's policy decides how much is left",
            "account": account.words,
            "exact answers": str(len(exact)),
            "refusals": str(sum(row.event == "refuse" for row in rows)),
            "head": head,
        }
    )


@command()
def verify_command(
    path: PathArgument,
    head: str | None = flag("Hash of a row that was noted earlier, which must be in the chain."),
) -> None:
    """Verify the chain of hashes, and compare it with the last noted row; status 4 if broken."""
    with Ledger(path, create=False, readonly=True) as ledger:
        last = ledger.verify(head=head)
        ledger.check_place()
        rows, spent = ledger.size, ledger.spent
    noted = {"noted head": "part of the chain"} if head is not None else {}
    show_rows({"rows": f"{rows}, the chain is intact", "spent": f"mu {spent:.6g}", **noted,
               "head": last})  # fmt: skip
    if head is None:
        OUT.print(
            "The last row is the one that was noted outside the file. Somebody who can write\n"
            "both could restore older copies of both, so note the head elsewhere too, and\n"
            "compare it next time with --head.",
            highlight=False,
        )


@command()
def backup_command(
    path: PathArgument, out: Path = argument("New file for the copy, which is complete in itself.")
) -> None:
    """Copy a ledger as it is now, while a site runs or not, and verify the copy."""
    with Ledger(path, create=False, readonly=True, walk=False) as ledger:
        ledger.check_place()
        last = ledger.backup(out)
    show_rows({"written": str(out), "rows": f"{last.sequence + 1}, the chain is intact",
               "spent": f"mu {last.total:.6g}", "head": last.hash})  # fmt: skip


@command()
def trust_command(
    path: PathArgument,
    spent: float = flag(
        "Total privacy loss spent, as mu, if you know that it is more than the file says.",
        default=0.0,
        min=0.0,
    ),
) -> None:
    """Accept this file as the ledger, after it was moved or its note was lost.

    For an older copy, the privacy loss that is known to have been spent since is charged, so no
    budget is regained.
    """
    head = Ledger.trust(path, spent=spent)
    with Ledger(path, create=False, readonly=True, walk=False) as ledger:
        total = ledger.spent
    show_rows({"trusted": str(path), "spent": f"mu {total:.6g}", "head": head})


@command()
def forget_command(path: PathArgument) -> None:
    """Forget a deleted ledger, so that a new one with a new budget can be created there."""
    is_forgotten = Ledger.forget(path)
    show_rows(
        {
            "forgotten": str(path)
            if is_forgotten
            else "nothing: there was no record of a ledger there"
        }
    )


def _print_answers(answers: Iterable[Mapping[str, Any]], *columns: str) -> None:
    """Print a table of answers, if any: when and to whom, then what is special to their kind."""
    print_table(
        ("when (UTC)", "who", *columns),
        [
            (format_minute(item["time"]), item["asker"], *(_cell(item[name]) for name in columns))
            for item in answers
        ],
    )


def _cell(value: float | str) -> str:
    return _STATES.get(value, value) if isinstance(value, str) else f"{value:.4g}"


@command()
def separate_command(path: PathArgument) -> None:
    """Declare that a ledger is about other people than the ledgers that share its account.

    The ledger then has a budget of its own. If the people are the same after all, both budgets
    can be spent on them, and their privacy guarantee no longer holds.
    """
    with Ledger(path, create=False) as ledger:
        ledgers, spent = ledger.separate(), ledger.spent
    if not ledgers:
        show_rows({"separated": f"nothing: {path} has its own account"})
        return
    show_rows({"separated": str(path), "from": ", ".join(ledgers), "spent": f"mu {spent:.6g}"})
    OUT.print(
        "The ledger notes that you declared its records to be about other people. It now has\n"
        "its own budget, of which the amount above is spent.",
        highlight=False,
    )
