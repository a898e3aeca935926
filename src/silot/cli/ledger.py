"""``silot ledger``: show, verify, trust, forget and separate."""

from __future__ import annotations

import json as json_
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from ..privacy.ledger import Account, Ledger, Row
from .console import OUT, print_json, print_table, show_rows
from .generate import command, flag, group
from .options import JsonOption

_STATES = {
    "reserve": "nothing was handed over",
    "release": "drawn, not handed over",
    "commit": "handed over",
}

PathArgument = Annotated[Path, typer.Argument(help="A holder's ledger.")]


_FOLDED = {"overflow": "fold"}
# How the columns of both tables are laid out.
_LAYOUT: dict[str, dict[str, Any]] = {
    "when (UTC)": {"no_wrap": True},
    "who": {**_FOLDED, "max_width": 14},
    "mechanism": {**_FOLDED, "max_width": 20},
    "question": {**_FOLDED, "max_width": 20},
    "mu": {"justify": "right", "no_wrap": True},
    "total": {"justify": "right", "no_wrap": True},
    "level": _FOLDED,
    "state": _FOLDED,
}


@group("ledger")
def ledger_command() -> None:
    """What a holder has told and released, and what that has spent."""


@command("ledger show")
def show_command(path: PathArgument, json: JsonOption = False) -> None:
    """List releases, exact answers and refusals: when, to whom, and what they spend."""
    with Ledger(path, create=False, readonly=True) as ledger:
        rows, spent, head = ledger.entries(), ledger.spent, ledger.head
        account = ledger.account
    releases, exact = _releases(rows), _exact(rows)
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
    _print_answers(
        releases,
        ("mechanism", "mu", "total", "state"),
        lambda item: (
            item["mechanism"], f"{item['mu']:.4g}", f"{item['total']:.4g}", _STATES[item["state"]],
        ),
    )  # fmt: skip
    _print_answers(exact, ("question", "level"), lambda item: (item["question"], item["level"]))
    show_rows(
        {
            "releases": str(len(releases)),
            "spent": f"mu {spent:.6g}; how much is left, the holder's policy says",
            "account": _describe_account(account),
            "exact answers": str(len(exact)),
            "refusals": str(sum(row.event == "refuse" for row in rows)),
            "head": head,
        }
    )


@command("ledger verify")
def verify_command(
    path: PathArgument,
    head: str | None = flag("A head noted earlier, which must be in the chain."),
) -> None:
    """Walk the chain of hashes, and compare with the row noted last; status 4 if broken."""
    with Ledger(path, create=False, readonly=True) as ledger:
        last = ledger.verify(head=head)
        ledger.check_place()
        rows, spent = ledger.entries(), ledger.spent
    noted = {"noted head": "part of the chain"} if head is not None else {}
    show_rows({"rows": f"{len(rows)}, all fit together", "spent": f"mu {spent:.6g}", **noted,
               "head": last})  # fmt: skip
    if head is None:
        OUT.print(
            "The last row is the one that was noted outside the file. Whoever can write both\n"
            "can put both back: note the head elsewhere too, compare next time with --head.",
            highlight=False,
        )


@command("ledger trust")
def trust_command(path: PathArgument) -> None:
    """Take the file for the ledger at its place: after a move, or when its note was lost."""
    head = Ledger.trust(path)
    show_rows({"trusted": str(path), "head": head})


@command("ledger forget")
def forget_command(path: PathArgument) -> None:
    """Forget a ledger that is gone, so that a new one (a fresh budget) may be made there."""
    is_forgotten = Ledger.forget(path)
    show_rows({"forgotten": str(path) if is_forgotten else "nothing: no ledger was known there"})


def _print_answers(
    answers: list[dict[str, Any]],
    columns: tuple[str, ...],
    cells: Callable[[dict[str, Any]], tuple[str, ...]],
) -> None:
    """Print a table of answers, if any: when and to whom, then what is special to their kind."""
    if answers:
        layout = {name: _LAYOUT[name] for name in ("when (UTC)", "who", *columns)}
        rows = [
            (item["time"][:16].replace("T", " "), item["asker"], *cells(item)) for item in answers
        ]
        print_table(layout, rows)


@command("ledger separate")
def separate_command(path: PathArgument) -> None:
    """Declare that a ledger is about other people than the ledgers that share its account.

    It has a budget of its own from then on. If they are the same people after all, both budgets
    can be spent on them, and what they are promised no longer holds.
    """
    with Ledger(path, create=False) as ledger:
        ledgers, spent = ledger.separate(), ledger.spent
    if not ledgers:
        show_rows({"separated": f"nothing: {path} has an account of its own"})
        return
    show_rows({"separated": str(path), "from": ", ".join(ledgers), "spent": f"mu {spent:.6g}"})
    OUT.print(
        "The ledger notes that you declared its records to be of other people. From now on\n"
        "it has a budget of its own: of that it spent what is above.",
        highlight=False,
    )


def _describe_account(account: Account) -> str:
    """Say which ledgers are about the same people, and what all of them spent."""
    others = account.ledgers[1:]
    if not others:
        return "its own"
    spent = ", ".join(f"{name} (mu {mu:.6g})" for name, mu in others)
    return f"mu {account.spent:.6g}, shared with {spent}"


def _exact(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """List exact answers and refusals."""
    answers: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.event not in ("count", "again", "refuse"):
            continue
        parameters = json_.loads(row.parameters)
        level = {
            "count": row.mechanism,
            "again": f"{row.mechanism}, sent before",
            "refuse": f"refused: {parameters.get('code')}",
        }
        answers[row.key] = {
            "time": row.time,
            "asker": row.asker,
            "question": parameters["question"],
            "level": level[row.event],
        }
    return list(answers.values())


def _releases(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """List releases, with how far each came."""
    releases: dict[str, dict[str, Any]] = {}
    for row in rows:
        if row.event == "reserve":
            releases[row.key] = {
                "time": row.time,
                "asker": row.asker,
                "mechanism": row.mechanism,
                "parameters": json_.loads(row.parameters),
                "mu": row.mu,
                "total": row.total,
                "key": row.key,
                "state": "reserve",
            }
        elif row.key in releases:
            releases[row.key]["state"] = row.event
    return list(releases.values())
