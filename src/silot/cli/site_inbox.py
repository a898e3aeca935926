"""``silot site inbox`` and what a person decides: approve, deny, pause, go on."""

from __future__ import annotations

import json as json_
import re
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ..errors import InputError
from ..sites.authority import Role
from ..sites.joined import Joined
from ..sites.kit import Kit
from ..sites.words import waiting
from .console import OUT, show_rows
from .options import JsonOption

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=366)

KitOption = Annotated[
    Path, typer.Option("--kit", envvar="SILOT_KIT", help="The site's kit. Default: this folder.")
]
IdArgument = Annotated[str, typer.Argument(help="Id of `silot site inbox`, or its first digits.")]


def inbox_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Questions that wait for a decision, and approvals that stand for a time."""
    with Joined.load(site_of(kit)).account(readonly=True, walk=False) as ledger:
        waits = [each for each in ledger.waiting if each.state == "waiting"]
        allowed = ledger.allowed
    if json:
        typer.echo(json_.dumps([vars(each) for each in waits], default=datetime.isoformat))
        return
    rows = [
        (each.id, each.asker, f"{each.question} of {each.run}" if each.run else each.question,
         each.level, time(each.since.isoformat())[5:], f"{each.until:%m-%d}")
        for each in waits
    ]  # fmt: skip
    table(("id", "who", "question", "level", "since (UTC)", "lapses"), rows)
    OUT.print(waiting(len(rows)), highlight=False)
    for each in allowed:
        OUT.print(
            f"{each.id}: level {each.level} of {each.asker} is approved until "
            f"{each.until:%Y-%m-%d %H:%M} UTC, by {each.by}; silot site deny {each.id} ends that",
            highlight=False, markup=False, soft_wrap=True,
        )  # fmt: skip


def approve_command(
    id: IdArgument,
    kit: KitOption = Path(),
    span: Annotated[
        str | None,
        typer.Option("--for", help="And all questions of that level for so long: 30m, 1h, 2d."),
    ] = None,
    asker: Annotated[
        str | None, typer.Option(help="With --for: of this asker. Default: who asked.")
    ] = None,
) -> None:
    """Let a question be answered; it is once it is asked again."""
    if asker is not None and span is None:
        raise InputError("--asker goes with --for.", code="approval-options")
    long = None if span is None else _span(span)
    found = site_of(kit)
    if asker is not None and asker not in found.project.askers:
        names = ", ".join(found.project.askers)
        raise InputError(
            f"{asker[:60]!r} is no asker of {found.project.name}, whose askers are {names}.",
            code="approval-asker",
        )
    with Joined.load(found).account(walk=False) as ledger:
        found = ledger.decide(id, approved=True, span=long, asker=asker)
    rows = {"approved": f"{found.id}: {found.question} (level {found.level}), {found.asker}"}
    if span is not None:
        rows["also"] = f"all of level {found.level} that {asker or found.asker} asks, for {span}"
    show_rows(rows)


def deny_command(id: IdArgument, kit: KitOption = Path()) -> None:
    """Refuse a question for good; or end an approval for a time, by its id."""
    with Joined.load(site_of(kit)).account(walk=False) as ledger:
        ended = ledger.end(id)
        if ended is not None:
            show_rows({"ended": f"{ended.id}: level {ended.level}, {ended.asker}"})
            return
        found = ledger.decide(id, approved=False)
    show_rows({"denied": f"{found.id}: {found.question} (level {found.level}), {found.asker}"})


def pause_command(kit: KitOption = Path()) -> None:
    """Tell nothing from now on, until `silot site go-on`; the site may run or not."""
    _pause(kit, True)


def go_on_command(kit: KitOption = Path()) -> None:
    """Answer again."""
    _pause(kit, False)


def site_of(folder: Path) -> Kit:
    """The kit of a site."""
    return Kit.load(folder, Role.SITE)


def _pause(folder: Path, wanted: bool) -> None:
    kit = site_of(folder)
    with Joined.load(kit).account(walk=False) as ledger:
        ledger.pause(wanted)
    show_rows({kit.name: "tells nothing until `silot site go-on`" if wanted else "answers"})


def _span(text: str) -> timedelta:
    found = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text.strip())
    span = timedelta(**{_UNITS[found[2]]: int(found[1])}) if found else _LONGEST * 2
    if span > _LONGEST:
        raise InputError(
            f"--for is {text[:20]!r}; minutes, hours or days are needed, 30m, 1h or 2d, a year at "
            "most.",
            code="approval-span",
        )
    return span


def time(text: str) -> str:
    """A time to the minute."""
    return text[:16].replace("T", " ")


def table(names: tuple[str, ...], rows: list[tuple[str, ...]], right: str = "") -> None:
    """Print lines under names."""
    if not rows:
        return
    shown = Table(box=None, expand=False)
    for name in names:
        fixed = name not in ("who", "question", "outcome")
        shown.add_column(
            name, no_wrap=fixed, overflow="fold",
            justify="right" if name in right.split() else "left",
        )  # fmt: skip
    for row in rows:
        shown.add_row(*map(Text, row))
    OUT.print(shown, highlight=False)
