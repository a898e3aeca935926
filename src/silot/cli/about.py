"""``silot methods``, ``silot doctor`` and ``silot help``: about silot itself."""

from __future__ import annotations

from dataclasses import asdict

from rich.markup import escape
from rich.table import Table

from ..errors import explain
from .console import OUT, print_json, show_blocks
from .generate import argument, command, flag
from .options import JsonOption


@command("methods")
def methods_command(json: JsonOption = False) -> None:
    """What each method sends, needs, guarantees and discloses."""
    from ..api._methods import METHODS

    titles = ("sends", "needs", "guarantees", "privacy")
    if json:
        print_json(
            [
                {
                    "name": method.name,
                    "disclosure": str(method.disclosure),
                    **{title: getattr(method, title) for title in titles},
                    "options": list(method.options),
                }
                for method in METHODS.values()
            ]
        )
        return
    for method in METHODS.values():
        table = Table.grid(padding=(0, 2))
        table.add_column(style="bold", min_width=10)
        table.add_column()
        table.add_row(method.name, "")
        for title in titles:
            table.add_row(f"  {title}", escape(str(getattr(method, title))))
        table.add_row("  discloses", str(method.disclosure))
        OUT.print(table, highlight=False)


@command("doctor")
def doctor_command(
    *,
    n: int | None = flag("Records of one holder."),
    m: int | None = flag("Of the other; default: as many."),
    dim: int = flag("Features.", default=64),
    json: JsonOption = False,
) -> None:
    """Which kernels, libraries and extras are here, and what a problem would take."""
    from ..api.doctor import checkup

    result = checkup(n, m, dim)
    if json:
        print_json(result.to_dict())
    else:
        show_blocks(result.sections())


@command("help")
def help_command(
    code: str = argument("Between the brackets of a message: measure-nan."),
    json: JsonOption = False,
) -> None:
    """What an error code means, its exit status, and where the site has more."""
    from ..render import Facts

    entry = explain(code.strip("[]"))
    if json:
        print_json({**asdict(entry), "page": entry.page})
        return
    status = "none: a finding" if entry.exit_status is None else f"{entry.exit_status}"
    facts = {"code": entry.code, "means": entry.words, "kind": entry.kind, "exit status": status}
    show_blocks([Facts([*facts.items(), ("page", entry.page)])])
