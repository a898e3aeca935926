"""``silot policy explain``."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from ..federation.policy import Limits, Policy
from ..loading import load_measure
from .console import OUT
from .options import ColumnsOption, JsonOption, LabelColumnOption, WeightColumnOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help="A holder's rules.", no_args_is_help=True)
    group.callback()(lambda: None)
    group.command("explain")(explain_command)
    app.add_typer(group, name="policy")


def explain_command(
    policy: Annotated[
        Path | None, typer.Argument(help="Rules, .yml or .json; without it the default ones.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="The records they are meant for: figures, not only rules.")
    ] = None,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    json: JsonOption = False,
) -> None:
    """What askers could learn at most under a policy, in plain sentences."""
    rules = Policy() if policy is None else Policy.load(policy)
    limits = None
    if data is not None:
        table = not data.name.lower().endswith(".npz")
        measure = load_measure(
            data,
            label_column=label_column if table else None,
            weight_column=weight_column if table else None,
            columns=[name.strip() for name in columns.split(",")] if table and columns else None,
        )
        limits = Limits.of(*measure.arrays())
    text = rules.explain(limits)
    if json:
        body = {
            "policy": json_.loads(rules.model_dump_json()),
            "numbers": None if limits is None else rules.chosen(limits),
            "explanation": text.split("\n"),
        }
        typer.echo(json_.dumps(body))
        return
    for line in text.split("\n"):
        OUT.print(f"- {line}", markup=False, highlight=False)
