"""``silot policy explain``, and what ``silot audit --policy`` prints."""

from __future__ import annotations

import json as json_
from pathlib import Path
from typing import Annotated

import typer

from ..audits.policy import audit_policy
from ..data.measure import Measure
from ..federation import Holder, Policy
from .console import OUT, progress_bar, show, write_report
from .generate import taking
from .options import Columns, JsonOption


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help=policy_command.__doc__, no_args_is_help=True)
    group.callback()(policy_command)
    group.command("explain")(taking()(explain_command))
    app.add_typer(group, name="policy")


def policy_command() -> None:
    """A holder's rules."""


def explain_command(
    policy: Annotated[
        Path | None, typer.Argument(help="Rules, .yml or .json; without it the default ones.")
    ] = None,
    *,
    data: Annotated[
        Path | None, typer.Option(help="The records they are meant for: figures, not only rules.")
    ] = None,
    columns: Columns,
    json: JsonOption = False,
) -> None:
    """What askers could learn at most under a policy, in plain sentences."""
    rules = Policy() if policy is None else Policy.load(policy)
    limits = None
    if data is not None:
        measure = columns.measure(data)
        limits = Holder(measure, rules).limits
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


def show_policy_audit(
    policy: Path | None,
    data: Measure,
    *,
    questions: int,
    seed: int,
    report: Path | None,
    json: bool,
) -> None:
    """Play a malicious coordinator against a policy, and print what it got."""
    rules = Policy() if policy is None else Policy.load(policy)
    with progress_bar("audit") as bar:
        task = bar.add_task("strategies")
        found = audit_policy(
            rules, data, questions=questions, seed=seed,
            progress=lambda done, of: bar.update(task, completed=done, total=of),
        )  # fmt: skip
    write_report(report, found)
    if json:
        OUT.print(found.to_json(), markup=False, highlight=False, soft_wrap=True)
        return
    show(found)
