"""``silot deploy``: init, provision, sign, renew, revoke, run, check, for the coordinator."""

from __future__ import annotations

import json as json_
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, SilotError, reason
from ..sites.authority import Role, read_bytes
from ..sites.deployment import Deployment, Issued, check_port, write_template
from ..sites.kit import Kit
from .console import OUT, check_writable, say_where, show_rows
from .options import JsonOption

_SOON = timedelta(days=30)
_SKEW = 60.0
_PATIENCE = 20.0

FolderArgument = Annotated[Path, typer.Argument(help="Folder of `silot deploy provision`.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(help=deploy_command.__doc__, no_args_is_help=True)
    group.callback()(deploy_command)
    group.command("init")(init_command)
    group.command("provision")(provision_command)
    group.command("sign")(sign_command)
    group.command("renew")(renew_command)
    group.command("revoke")(revoke_command)
    group.command("run")(run_command)
    group.command("check")(check_command)
    app.add_typer(group, name="deploy")


def deploy_command() -> None:
    """A project of real sites: its server and certificates, for its coordinator."""


def init_command(
    project: Annotated[Path, typer.Argument(help="File to write, .yml.")],
) -> None:
    """Write a project's file with comments, to fill in."""
    write_template(project)
    say_where(project=project)
    _next(f"edit it, then: silot deploy provision {project}")


def provision_command(
    project: Annotated[Path, typer.Argument(help="The project's file.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="New folder. Default: the project's name.")
    ] = None,
) -> None:
    """Make the project's authority and the kit of its server, in a new folder."""
    folder = out or _named(project)
    made = Deployment.new(project, folder)
    plan = made.project
    show_rows(
        {
            "project": plan.name,
            "server": f"{plan.host}:{plan.port}, its kit in {folder}/server",
            "authority": f"{folder}/authority; who has rootCA.key makes members: keep it offline",
            "fingerprint": f"{made.authority.fingerprint}: tell it by telephone",
        }
    )
    _next(
        f"on the server: silot deploy run {folder}/server",
        *(f"at {name}: silot site request {name}" for name in plan.sites),
        *(f"{name}: silot site request {name} --asker" for name in plan.askers),
        f"for each: silot deploy sign {folder} NAME.request, and send NAME.signed back",
    )


def sign_command(
    folder: FolderArgument,
    requests: Annotated[list[Path], typer.Argument(help="Requests, NAME.request.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="File to write, of one request. Default: NAME.signed."),
    ] = None,
) -> None:
    """Certify members: what comes out is sent back, and is not secret."""
    if out is not None and len(requests) > 1:
        raise InputError("--out is for one request. Leave it out.", code="option-out")
    made = Deployment.load(folder)
    # All are read before the first is signed.
    read = [read_bytes(path) for path in requests]
    for path, data in zip(requests, read, strict=True):
        file = out or path.with_suffix(".signed")
        check_writable(file)
        signed, issued = made.sign(data)
        signed.save(file)
        _say_issued(issued, file)


def renew_command(folder: FolderArgument) -> None:
    """Certify the server anew, for the key it has; its members are those of the project's file."""
    made = Deployment.load(folder)
    file, issued = made.renew()
    _say_issued(issued, file)
    here = made.server is not None
    put = "it has it; " if here else f"silot site join KIT {file.name}, and "
    _next(f"at the server: {put}start it anew")


def revoke_command(
    folder: FolderArgument,
    names: Annotated[list[str], typer.Argument(help="Members whose certificates end.")],
) -> None:
    """End the certificates of members. All who remain must be given the list."""
    made = Deployment.load(folder)
    file, fresh = made.revoke(names)
    for each in fresh:
        OUT.print(f"revoked: {each.role} {each.name}, certificate {each.serial}",
                  highlight=False, markup=False, soft_wrap=True)  # fmt: skip
    if not fresh:
        OUT.print("they were revoked before; the list is written anew", highlight=False)
    say_where(list=file)
    whose = "at every site and asker" if made.server is not None else "at the server, sites, askers"
    _next(f"{whose}: silot site revoke KIT {file}")


def run_command(
    kit: Annotated[Path, typer.Argument(help="The server's kit: FOLDER/server.")],
) -> None:
    """Run the server until it is ended (Ctrl-C). It passes on messages that it cannot read."""
    found = Kit.load(kit, Role.SERVER)
    start(found, lambda: check_port(found.project.port))


def start(kit: Kit, check: Any = lambda: None) -> None:
    """Become the engine's process, once what can be seen beforehand is well."""
    from ..sites.engine import command
    from ..sites.running import check_free

    words = command(kit)
    check_free(kit)
    kit.identity().member()
    check()
    OUT.print(
        f"{kit.role} {kit.name} of {kit.project.name}, {kit.project.host}:{kit.project.port}; "
        "Ctrl-C ends it",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip
    OUT.file.flush()
    os.execv(words[0], words)


def check_command(
    kit: Annotated[Path, typer.Argument(help="An asker's kit.")], json: JsonOption = False
) -> None:
    """Whether the server and each site can be reached, and what they are; status 6 if not."""
    from ..federation.exchange import Limits
    from ..sites.connection import Sites
    from ..sites.flare import Wire
    from ..sites.reach import reach

    found = Kit.load(kit, Role.ASKER)
    until = found.identity().member().until
    wrong = reach(found)
    if wrong is not None:
        raise wrong
    wire = Wire(found)
    names = found.project.sites
    sites = Sites(found.identity(), wire, names, limits=Limits(deadline=_PATIENCE))
    try:
        told = {name: _about(sites, name) for name in names}
    finally:
        wire.close()
    body = {
        "server": f"{found.project.host}:{found.project.port}", "asker": found.name,
        "until": until.isoformat(), "sites": told,
    }  # fmt: skip
    if json:
        typer.echo(json_.dumps(body))
    else:
        rows = {
            "server": f"{body['server']}, reached",
            "asker": f"{found.name}, certificate until {until:%Y-%m-%d}{_soon(until)}",
        }
        show_rows(rows | {name: _sentence(facts) for name, facts in told.items()})
    if any(facts["code"] or facts.get("stopped") for facts in told.values()):
        raise typer.Exit(6)


def _about(sites: Any, name: str) -> dict[str, Any]:
    from ..federation.exchange import Unreached

    try:
        about = sites.about(name)
    except SilotError as error:
        return {"code": error.code, "message": error.message}
    except Unreached as error:
        code = error.code
        return {"code": code, "message": "it is not connected to the server, or does not answer"}
    return {
        "code": "", "silot": about.silot, "clock": round(about.clock, 3),
        "until": about.until.isoformat(), **about.facts,
    }  # fmt: skip


def _sentence(facts: dict[str, Any]) -> str:
    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    until = datetime.fromisoformat(facts["until"])
    parts = [f"silot {facts['silot']}", f"certificate until {until:%Y-%m-%d}{_soon(until)}"]
    if abs(facts["clock"]) > _SKEW:
        parts.append(f"its clock is {facts['clock']:+.0f} s off")
    if facts.get("schema"):
        parts.append(f"schema {facts.get('schema_name') or ''} {facts['schema'][:8]}")
    if facts.get("stopped"):
        parts.append(f"answers nothing: {reason(facts['stopped'])} ({facts['stopped']})")
    else:
        parts.append("paused" if facts.get("paused") else "answers")
    return "; ".join(parts)


def _soon(until: datetime) -> str:
    return " (soon: renew it)" if until - datetime.now(UTC) < _SOON else ""


def _named(plan: Path) -> Path:
    from ..sites.kit import Project

    return Path(Project.load(plan).name)


def _say_issued(issued: Issued, file: Path) -> None:
    OUT.print(
        f"{issued.role} {issued.name} until {issued.until:%Y-%m-%d}: {file}",
        highlight=False, markup=False, soft_wrap=True,
    )  # fmt: skip


def _next(*lines: str) -> None:
    """What is to be done now."""
    OUT.print("next:", highlight=False)
    for line in lines:
        OUT.print(f"  {line}", highlight=False, markup=False, soft_wrap=True)
