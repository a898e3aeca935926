"""``silot help``: what an error code means and what to do."""

from __future__ import annotations

import json as jsonlib
from dataclasses import asdict
from typing import Annotated

import typer

from ..errors import explain
from .console import show_blocks
from .options import JsonOption


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("help")(help_command)


def help_command(
    code: Annotated[str, typer.Argument(help="Between the brackets of a message: measure-nan.")],
    json: JsonOption = False,
) -> None:
    """What an error code means, its exit status, and where the site has more."""
    from ..render import Facts

    said = explain(code.strip("[]"))
    if json:
        typer.echo(jsonlib.dumps({**asdict(said), "page": said.page}))
        return
    status = "none: a finding" if said.exit_status is None else f"{said.exit_status}"
    facts = {"code": said.code, "means": said.words, "kind": said.kind, "exit status": status}
    show_blocks([Facts([*facts.items(), ("page", said.page)])])
