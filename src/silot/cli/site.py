"""``silot site``: what the admin of a site does, and how an asker gets a kit."""

from __future__ import annotations

import json as json_
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.files import write_whole
from ..errors import FileError
from ..render.words import count
from ..sites import running
from ..sites.authority import Role, read_bytes
from ..sites.checks import Finding, check_site, status_of
from ..sites.joined import LOG, Joined, Log
from ..sites.kit import OWN, Kit, begin_kit
from ..sites.unit import unit
from ..sites.words import waiting
from .console import OUT, check_writable, say_where, show_rows
from .deploy import start
from .generate import taking
from .options import JsonOption
from .site_console import console_command
from .site_inbox import (
    KitOption,
    approve_command,
    deny_command,
    go_on_command,
    inbox_command,
    pause_command,
    site_of,
    table,
    time,
)
from .site_join import KitArgument, join_command

_PAGE = 40
_DECISIONS = {"approve": "approved", "deny": "denied", "allow": "level approved",
              "end": "approval ended", "pause": "paused", "go-on": "goes on"}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help=site_command.__doc__, no_args_is_help=True)
    group.callback()(site_command)
    group.command("request")(request_command)
    group.command("join")(taking()(join_command))
    group.command("run")(run_command)
    group.command("unit")(unit_command)
    group.command("check")(check_command)
    group.command("status")(status_command)
    group.command("log")(log_command)
    group.command("console")(console_command)
    group.command("inbox")(inbox_command)
    group.command("approve")(approve_command)
    group.command("deny")(deny_command)
    group.command("pause")(pause_command)
    group.command("go-on")(go_on_command)
    group.command("revoke")(revoke_command)
    group.command("leave")(leave_command)
    app.add_typer(group, name="site")


def site_command() -> None:
    """One site of a project, for who runs it; and the kit of an asker."""


def request_command(
    name: Annotated[str, typer.Argument(help="The member's name, as in the project's file.")],
    asker: Annotated[bool, typer.Option("--asker", help="Of one who asks, and has no data.")] = (
        False
    ),
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder for the kit. Default: NAME.")
    ] = None,
) -> None:
    """Make the keys of a kit, here, and a request for its certificate."""
    folder = out or Path(name)
    file = folder.parent / f"{folder.name}.request"
    if file.exists():
        raise FileError(f"{file} is there. Move it away first.", code="file-exists")
    check_writable(file)
    asked = begin_kit(folder, name, Role.ASKER if asker else Role.SITE)
    write_whole(file, asked)
    say_where(kit=folder, request=file)
    rest = "" if asker else " --data FILE --policy FILE --ledger FILE"
    OUT.print(
        f"next: send the request to the coordinator; then silot site join {folder} "
        f"{name}.signed{rest}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def run_command(kit: KitArgument) -> None:
    """Run the site until it is ended (Ctrl-C). It connects to the server, and opens no port."""
    found = site_of(kit)
    joined = Joined.load(found)
    # Before the server is waited for.
    joined.rules()
    joined.contract()
    joined.account(readonly=True).close()
    start(found)


def unit_command(kit: KitArgument) -> None:
    """Print a unit of systemd that runs the site, or the server: for /etc/systemd/system."""
    typer.echo(unit(Kit.load(kit)), nl=False)


def check_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Look at all a site needs, and read its policy back; status 4 where something is wrong."""
    found = check_site(site_of(kit))
    if json:
        typer.echo(json_.dumps([vars(each) for each in found]))
    else:
        show_rows({each.name: _said(each) for each in found})
    if any(each.state == "wrong" for each in found):
        raise typer.Exit(4)


def status_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Whether the site runs, what waits, and what is spent."""
    facts = status_of(site_of(kit))
    if json:
        typer.echo(json_.dumps(facts))
        return
    began = facts["running_since"]
    show_rows(
        {
            "site": f"{facts['name']} of {facts['project']}, {facts['server']}",
            "process": "none: `silot site run`" if began is None else f"since {time(began)} UTC",
            "answers": _answers(facts),
            "inbox": f"{waiting(facts['waiting'])}; "
            f"{count(len(facts['allowed']), 'approval')} for a time",
            "spent": f"mu {facts['spent_mu']:.4g}",
            "asked": count(facts["questions"], "question")
            + (f", the last at {time(facts['last'])} UTC" if facts["last"] else ""),
        }
    )


def _answers(facts: Mapping[str, Any]) -> str:
    if facts["paused"]:
        return "nothing: paused; `silot site go-on`"
    if facts["data_changed"]:
        return "nothing: its data file was changed since it was started; start it anew"
    return "under its policy"


def log_command(
    kit: KitOption = Path(),
    last: Annotated[
        int | None,
        typer.Option(min=1, help="Lines to show. Default: 40; with --json all."),
    ] = None,
    page: Annotated[int, typer.Option(min=1, help="2 for the lines before those, and so on.")] = 1,
    json: JsonOption = False,
) -> None:
    """Who asked what, what left (bytes, and mu that was charged), and who decided what."""
    found = site_of(kit)
    asked = Log(found.folder / OWN / LOG).lines()
    with Joined.load(found).account(readonly=True, walk=False) as ledger:
        decided = [vars(each) for each in ledger.decisions]
    lines = sorted([*asked, *decided], key=lambda line: str(line.get("time")))
    size = last or (len(lines) if json else _PAGE)
    shown = lines[max(len(lines) - page * size, 0) : max(len(lines) - (page - 1) * size, 0)]
    if json:
        typer.echo(json_.dumps(shown))
        return
    names = ("when (UTC)", "who", "question", "level", "bytes", "mu", "outcome")
    table(names, [_row(line) for line in shown], "bytes mu")
    rest = f"; {len(shown)} are shown: --last, --page" if len(shown) < len(lines) else ""
    OUT.print(
        f"{count(len(asked), 'question')}, {count(len(decided), 'decision')}{rest}", highlight=False
    )


def _row(line: Mapping[str, Any]) -> tuple[str, ...]:
    """A line of the log, whatever stands in it."""
    what = [time(str(line.get("time", "")))[5:], str(line.get("asker") or ""),
            str(line.get("question", "")), str(line.get("level", ""))]  # fmt: skip
    if "decision" in line:
        until = f" until {time(line['until'])}" if line["until"] else ""
        return (*what, "", "", f"{_DECISIONS[line['decision']]}{until} by {line['by']}")
    mu = line.get("mu", 0.0)
    outcome = str(line.get("code") or line.get("refused") or "told")
    size = f"{mu:.3g}" if isinstance(mu, float | int) else "?"
    return (*what, str(line.get("bytes", 0)), size, outcome)


def revoke_command(
    kit: KitArgument,
    list: Annotated[Path, typer.Argument(help="The coordinator's list, revoked.crl.")],
) -> None:
    """Take over the list of certificates that are no longer valid; it holds at once."""
    numbers = Kit.load(kit).revoke(read_bytes(list))
    show_rows({"revoked": f"{len(numbers)} certificates in all"})


def leave_command(kit: KitOption = Path()) -> None:
    """Destroy the keys of a kit. Data, ledger and log stay; the coordinator is to revoke it."""
    found = Kit.load(kit)
    running.check_free(found)
    found.destroy()
    show_rows(
        {
            "left": f"{found.project.name}: the keys of {found.name} are destroyed",
            "kept": f"data, ledger, and the log in {found.folder / OWN}",
            "next": f"the coordinator: silot deploy revoke FOLDER {found.name}",
        }
    )


def _said(finding: Finding) -> str:
    word = {"well": "", "warning": "warning: ", "wrong": "wrong: "}[finding.state]
    code = f"[{finding.code}] " if finding.code else ""
    return f"{word}{code}{finding.text}"
