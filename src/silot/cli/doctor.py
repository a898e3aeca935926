"""``silot doctor``: what this installation computes with, and what a problem would take."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated

import typer

from .console import show_blocks
from .options import JsonOption


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("doctor")(doctor_command)


def doctor_command(
    *,
    n: Annotated[int | None, typer.Option("--n", help="Records of one holder.")] = None,
    m: Annotated[int | None, typer.Option("--m", help="Of the other; default: as many.")] = None,
    dim: Annotated[int, typer.Option("--dim", help="Features.")] = 64,
    json: JsonOption = False,
) -> None:
    """Which kernels, libraries and extras are here, and what a problem would take."""
    from ..api.doctor import checkup

    found = checkup(n, m, dim)
    if json:
        typer.echo(jsonlib.dumps(found.to_dict()))
    else:
        show_blocks(found.sections())
