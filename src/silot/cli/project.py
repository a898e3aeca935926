"""``silot project``: its server and certificates, for the coordinator."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import InputError, SilotError, reason
from ..federation.keys import read_bytes
from ..federation.message import VERSION
from ..sites.authority import Role, describe_member
from ..sites.deployment import Deployment, Issued, check_port, write_template
from ..sites.health import VARIABLE
from ..sites.kit import Kit
from ..sites.project import Project
from .console import OUT, check_writable, print_json, print_line, say_where, show_rows
from .generate import argument, command, flag
from .options import JsonOption

_SOON = timedelta(days=30)
# Seconds that a site's clock may be off, and seconds to wait for a site.
_SKEW, _PATIENCE = 60.0, 20.0
# Sites that are asked at the same time.
_AT_ONCE = 32

HealthOption = Annotated[
    int | None,
    typer.Option(
        help="Port on 127.0.0.1 for /health, /ready and /metrics.",
        envvar=VARIABLE, min=1, max=65535,
    ),
]  # fmt: skip
FolderArgument = Annotated[Path, typer.Argument(help="Folder that `silot project provision` made.")]


@command()
def init_command(
    project: Path = argument("File to write, .yml."),
) -> None:
    """Write a project file with comments, which you then complete."""
    write_template(project)
    say_where(project=project)
    _print_next(f"edit it, then: silot project provision {project}")


@command(checked=False)
def provision_command(
    project: Path = argument("The project's file."),
    out: Path | None = flag("New folder. Default: the project's name.", "-o"),
) -> None:
    """Create the project's certificate authority and its server's kit in a new folder."""
    folder = out or Path(Project.load(project).name)
    deployment = Deployment.new(project, folder)
    plan = deployment.project
    show_rows(
        {
            "project": plan.name,
            "server": f"{plan.address}, its kit in {folder}/server",
            "authority": f"{folder}/authority; keep rootCA.key offline: it creates members",
            "fingerprint": f"{deployment.authority.fingerprint}: read it to members by telephone",
        }
    )
    _print_next(
        f"on the server: silot project serve {folder}/server",
        *(f"at {name}: silot site request {name}" for name in plan.sites),
        *(f"{name}: silot site request {name} --asker" for name in plan.askers),
        f"for each: silot project sign {folder} NAME.request, and send NAME.signed back",
    )


@command(checked=False)
def sign_command(
    folder: FolderArgument,
    requests: list[Path] = argument("Requests, NAME.request."),
    out: Path | None = flag("File to write, for a single request. Default: NAME.signed.", "-o"),
) -> None:
    """Sign the certificates of members. Send the result back to them; it is not secret."""
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


@command()
def renew_command(folder: FolderArgument) -> None:
    """Renew the server's certificate, and read the members from the project's file again."""
    deployment = Deployment.load(folder)
    file, issued = deployment.renew()
    _print_issued(issued, file)
    has_kit = deployment.server is not None
    put = "it has it; " if has_kit else f"silot site join KIT {file.name}, and "
    _print_next(f"at the server: {put}start it again")


@command()
def revoke_command(
    folder: FolderArgument,
    names: list[str] = argument("Members whose certificates are revoked."),
) -> None:
    """Revoke the certificates of members. Send the new list to all other members."""
    deployment = Deployment.load(folder)
    file, fresh = deployment.revoke(names)
    for item in fresh:
        print_line(f"revoked: {describe_member(item.role, item.name)}, certificate {item.serial}")
    if not fresh:
        print_line("they were already revoked; the list was written again")
    say_where(list=file)
    has_kit = deployment.server is not None
    whose = "at every site and asker" if has_kit else "at the server, sites, askers"
    _print_next(f"{whose}: silot site revoke KIT {file}")


@command()
def serve_command(
    kit: Path = argument("The server's kit: FOLDER/server."),
    health: HealthOption = None,
) -> None:
    """Run the server until you stop it (Ctrl-C). It forwards messages that it cannot read."""
    server = Kit.load(kit, Role.SERVER)
    start_engine(server, lambda: check_port(server.project.port), health=health)


def start_engine(
    kit: Kit, check: Callable[[], None] = lambda: None, *, health: int | None = None
) -> None:
    """Become NVFlare's process, once everything that can be checked beforehand is well."""
    from ..sites.engine import build_command, set_grpc_environment
    from ..sites.process_lock import check_unlocked

    words = build_command(kit.folder, kit.name, kit.role)
    check_unlocked(kit)
    kit.identity().member()
    check()
    print_line(
        f"{describe_member(kit.role, kit.name)} of {kit.project.name}, {kit.project.address}; "
        "Ctrl-C ends it"
    )
    OUT.file.flush()
    set_grpc_environment()
    if health is not None:
        os.environ[VARIABLE] = str(health)
    os.execv(words[0], words)


@command()
def check_command(kit: Path = argument("An asker's kit."), json: JsonOption = False) -> None:
    """Check whether the server and each site can be reached; status 6 if not."""
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
        # All at once: each that is away takes its time.
        with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as pool:
            answers = pool.map(lambda name: _ask_about(sites, name), names)
            statements = dict(zip(names, answers, strict=True))
    finally:
        wire.close()
    body = {
        "server": asker.project.address, "asker": asker.name,
        "until": until.isoformat(), "silot": __version__, "sites": statements,
    }  # fmt: skip
    if json:
        print_json(body)
    else:
        valid = f"certificate until {until:%Y-%m-%d}{_warn(until)}"
        rows = {
            "server": f"{body['server']}, reached",
            "asker": f"{asker.name}; silot {__version__}; {valid}",
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
        return {"code": code, "message": "it is not connected to the server or does not answer"}
    if about.wire != VERSION:
        return {"code": "wire-version", "message": reason("wire-version"), "silot": about.silot}
    return {
        "code": "", "silot": about.silot, "clock": round(about.clock, 3),
        "until": about.until.isoformat(), **about.facts,
    }  # fmt: skip


def _describe(facts: dict[str, Any]) -> str:
    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    until = datetime.fromisoformat(facts["until"])
    # Numbers of two commits may differ, as of two releases, though each reads the other's messages.
    mixed = "" if facts["silot"] == __version__ else f" (warning: this machine has {__version__})"
    parts = [f"silot {facts['silot']}{mixed}", f"certificate until {until:%Y-%m-%d}{_warn(until)}"]
    if clock := describe_clock(facts):
        parts.append(f"its clock is {clock}")
    if schema := describe_schema(facts):
        parts.append(f"schema {schema}")
    return "; ".join([*parts, describe_state(facts)])


def describe_state(facts: dict[str, Any]) -> str:
    """Say whether a site answers, by what a check of it returned."""
    if facts["code"]:
        return f"[{facts['code']}] {facts['message']}"
    if facts.get("stopped"):
        return f"answers nothing: {reason(facts['stopped'])} ({facts['stopped']})"
    return "paused" if facts.get("paused") else "answers"


def describe_clock(facts: dict[str, Any]) -> str:
    """Say by how much the clock of a site is off, if it matters."""
    return f"{facts['clock']:+.0f} s off" if abs(facts["clock"]) > _SKEW else ""


def describe_schema(facts: dict[str, Any]) -> str:
    """Return name and hash of the schema by which a site reads its table, if by one."""
    schema = facts.get("schema")
    return f"{facts.get('schema_name') or ''} {schema[:8]}".strip() if schema else ""


def _warn(until: datetime) -> str:
    return " (soon: renew it)" if is_soon(until) else ""


def is_soon(until: datetime) -> bool:
    """Return whether a certificate that ends then is to be renewed."""
    return until - datetime.now(UTC) < _SOON


def _print_issued(issued: Issued, file: Path) -> None:
    print_line(f"{describe_member(issued.role, issued.name)} until {issued.until:%Y-%m-%d}: {file}")


def _print_next(*lines: str) -> None:
    """Print what is to be done now."""
    print_line("next:")
    for line in lines:
        print_line(f"  {line}")
