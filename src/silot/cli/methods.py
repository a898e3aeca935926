"""``silot methods``: what each method discloses, needs and guarantees."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from ..api._methods import METHODS
from .console import OUT


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("methods")(methods_command)


def methods_command(
    json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """What each method sends, needs, guarantees and discloses."""
    if json:
        typer.echo(
            jsonlib.dumps(
                [
                    {
                        "name": method.name,
                        "disclosure": str(method.disclosure),
                        "sends": method.sends,
                        "needs": method.needs,
                        "guarantees": method.guarantees,
                        "privacy": method.privacy,
                        "options": list(method.options),
                    }
                    for method in METHODS.values()
                ]
            )
        )
        return
    for method in METHODS.values():
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", min_width=10)
        table.add_column()
        table.add_row(method.name, "")
        for title in ("sends", "needs", "guarantees", "privacy"):
            table.add_row(f"  {title}", escape(str(getattr(method, title))))
        table.add_row("  discloses", str(method.disclosure))
        OUT.print(table, highlight=False)
