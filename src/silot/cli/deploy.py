"""``silot deploy``: init, provision, sign, renew, revoke, run, check, for the coordinator."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, SilotError, reason
from ..federation.keys import read_bytes
from ..sites.authority import Role
from ..sites.deployment import Deployment, Issued, check_port, write_template
from ..sites.kit import Kit
from ..sites.project import Project
from .console import OUT, check_writable, print_json, print_line, say_where, show_rows
from .generate import argument, command, flag, group
from .options import JsonOption

_SOON = timedelta(days=30)
# Seconds that a site's clock may be off, and seconds to wait for a site.
_SKEW, _PATIENCE = 60.0, 20.0

FolderArgument = Annotated[Path, typer.Argument(help="Folder of `silot deploy provision`.")]


@group("deploy")
def deploy_command() -> None:
    """A project of real sites: its server and certificates, for its coordinator."""


@command("deploy init")
def init_command(
    project: Path = argument("File to write, .yml."),
) -> None:
    """Write a project's file with comments, to fill in."""
    write_template(project)
    say_where(project=project)
    _print_next(f"edit it, then: silot deploy provision {project}")


@command("deploy provision", checked=False)
def provision_command(
    project: Path = argument("The project's file."),
    out: Path | None = flag("New folder. Default: the project's name.", "-o"),
) -> None:
    """Make the project's authority and the kit of its server, in a new folder."""
    folder = out or Path(Project.load(project).name)
    deployment = Deployment.new(project, folder)
    plan = deployment.project
    show_rows(
        {
            "project": plan.name,
            "server": f"{plan.host}:{plan.port}, its kit in {folder}/server",
            "authority": f"{folder}/authority; who has rootCA.key makes members: keep it offline",
            "fingerprint": f"{deployment.authority.fingerprint}: tell it by telephone",
        }
    )
    _print_next(
        f"on the server: silot deploy run {folder}/server",
        *(f"at {name}: silot site request {name}" for name in plan.sites),
        *(f"{name}: silot site request {name} --asker" for name in plan.askers),
        f"for each: silot deploy sign {folder} NAME.request, and send NAME.signed back",
    )


@command("deploy sign", checked=False)
def sign_command(
    folder: FolderArgument,
    requests: list[Path] = argument("Requests, NAME.request."),
    out: Path | None = flag("File to write, of one request. Default: NAME.signed.", "-o"),
) -> None:
    """Certify members: what comes out is sent back, and is not secret."""
    if out is not None and len(requests) > 1:
        raise InputError("--out is for one request. Leave it out.", code="option-out")
    deployment = Deployment.load(folder)
    # All are read before the first is signed, so that a wrong path leaves nothing half done.
    contents = [read_bytes(path) for path in requests]
    for path, data in zip(requests, contents, strict=True):
        file = out or path.with_suffix(".signed")
        check_writable(file)
        signed, issued = deployment.sign(data)
        signed.write(file)
        _print_issued(issued, file)


@command("deploy renew")
def renew_command(folder: FolderArgument) -> None:
    """Certify the server anew, for the key it has; its members are those of the project's file."""
    deployment = Deployment.load(folder)
    file, issued = deployment.renew()
    _print_issued(issued, file)
    has_kit = deployment.server is not None
    put = "it has it; " if has_kit else f"silot site join KIT {file.name}, and "
    _print_next(f"at the server: {put}start it anew")


@command("deploy revoke")
def revoke_command(
    folder: FolderArgument,
    names: list[str] = argument("Members whose certificates end."),
) -> None:
    """End the certificates of members. All who remain must be given the list."""
    deployment = Deployment.load(folder)
    file, fresh = deployment.revoke(names)
    for item in fresh:
        print_line(f"revoked: {item.role} {item.name}, certificate {item.serial}")
    if not fresh:
        print_line("they were revoked before; the list is written anew")
    say_where(list=file)
    has_kit = deployment.server is not None
    whose = "at every site and asker" if has_kit else "at the server, sites, askers"
    _print_next(f"{whose}: silot site revoke KIT {file}")


@command("deploy run")
def run_command(
    kit: Path = argument("The server's kit: FOLDER/server."),
) -> None:
    """Run the server until it is ended (Ctrl-C). It passes on messages that it cannot read."""
    server = Kit.load(kit, Role.SERVER)
    start_engine(server, lambda: check_port(server.project.port))


def start_engine(kit: Kit, check: Callable[[], None] = lambda: None) -> None:
    """Become NVFlare's process, once everything that can be checked beforehand is well."""
    from ..sites.engine import build_command
    from ..sites.process_lock import check_unlocked

    words = build_command(kit.folder, kit.name, kit.role)
    check_unlocked(kit)
    kit.identity().member()
    check()
    print_line(
        f"{kit.role} {kit.name} of {kit.project.name}, {kit.project.host}:{kit.project.port}; "
        "Ctrl-C ends it"
    )
    OUT.file.flush()
    os.execv(words[0], words)


@command("deploy check")
def check_command(kit: Path = argument("An asker's kit."), json: JsonOption = False) -> None:
    """Whether the server and each site can be reached, and what they are; status 6 if not."""
    from ..federation.exchange import Limits
    from ..sites.checks import find_server_fault
    from ..sites.connection import Sites
    from ..sites.flare import Wire

    asker = Kit.load(kit, Role.ASKER)
    until = asker.identity().member().until
    fault = find_server_fault(asker)
    if fault is not None:
        raise fault
    wire = Wire(asker)
    names = asker.project.sites
    sites = Sites(asker.identity(), wire, names, limits=Limits(deadline=_PATIENCE))
    try:
        statements = {name: _ask_about(sites, name) for name in names}
    finally:
        wire.close()
    body = {
        "server": f"{asker.project.host}:{asker.project.port}", "asker": asker.name,
        "until": until.isoformat(), "sites": statements,
    }  # fmt: skip
    if json:
        print_json(body)
    else:
        rows = {
            "server": f"{body['server']}, reached",
            "asker": f"{asker.name}, certificate until {until:%Y-%m-%d}{_warn(until)}",
        }
        show_rows(rows | {name: _describe(facts) for name, facts in statements.items()})
    if any(facts["code"] or facts.get("stopped") for facts in statements.values()):
        raise typer.Exit(6)


def _ask_about(sites: Any, name: str) -> dict[str, Any]:
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


def _describe(facts: dict[str, Any]) -> str:
    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    until = datetime.fromisoformat(facts["until"])
    parts = [f"silot {facts['silot']}", f"certificate until {until:%Y-%m-%d}{_warn(until)}"]
    if abs(facts["clock"]) > _SKEW:
        parts.append(f"its clock is {facts['clock']:+.0f} s off")
    if facts.get("schema"):
        parts.append(f"schema {facts.get('schema_name') or ''} {facts['schema'][:8]}")
    if facts.get("stopped"):
        parts.append(f"answers nothing: {reason(facts['stopped'])} ({facts['stopped']})")
    else:
        parts.append("paused" if facts.get("paused") else "answers")
    return "; ".join(parts)


def _warn(until: datetime) -> str:
    return " (soon: renew it)" if until - datetime.now(UTC) < _SOON else ""


def _print_issued(issued: Issued, file: Path) -> None:
    print_line(f"{issued.role} {issued.name} until {issued.until:%Y-%m-%d}: {file}")


def _print_next(*lines: str) -> None:
    """Print what is to be done now."""
    print_line("next:")
    for line in lines:
        print_line(f"  {line}")
