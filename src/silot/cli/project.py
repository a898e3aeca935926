"""``silot project``: its server and certificates, for the coordinator, and runs, for who asks."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from .. import __version__
from ..data.files import check_whole
from ..errors import FileError, InputError
from ..federation.keys import read_bytes
from ..sites.authority import Role, describe_member
from ..sites.deployment import Deployment, Issued, check_port, write_template
from ..sites.descriptions import describe_site, warn_of_end
from ..sites.engine import become, build_command
from ..sites.health import VARIABLE
from ..sites.kit import Kit
from ..sites.project import Project
from ..sites.runs import Run, all_runs
from .console import (
    OUT,
    print_json,
    print_line,
    print_table,
    say_where,
    serve_page,
    show_rows,
    tell,
)
from .generate import argument, command, flag
from .options import JsonOption, Outputs, PortOption
from .sites import RESUMED

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
        check_whole(file)
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
    start_member(server, health, lambda: check_port(server.project.port))


def start_member(kit: Kit, health: int | None, check: Callable[[], None] = lambda: None) -> None:
    """Become the process of a site or the server, once what can be checked beforehand is well."""
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
    become(words, {} if health is None else {VARIABLE: str(health)})


@command()
def check_command(kit: Path = argument("An asker's kit."), json: JsonOption = False) -> None:
    """Check whether the server and each site can be reached; status 6 if not."""
    from ..sites.statements import ask_sites

    asker = Kit.load(kit, Role.ASKER)
    until, statements = asker.identity().member().until, ask_sites(asker)
    body = {
        "server": asker.project.address, "asker": asker.name,
        "until": until.isoformat(), "silot": __version__, "sites": statements,
    }  # fmt: skip
    if json:
        print_json(body)
    else:
        valid = f"certificate until {until:%Y-%m-%d}{warn_of_end(until)}"
        rows = {
            "server": f"{body['server']}, reached",
            "asker": f"{asker.name}; silot {__version__}; {valid}",
        }
        show_rows(rows | {name: describe_site(facts) for name, facts in statements.items()})
    if any(facts["code"] or facts.get("stopped") for facts in statements.values()):
        raise typer.Exit(6)


def _print_issued(issued: Issued, file: Path) -> None:
    print_line(f"{describe_member(issued.role, issued.name)} until {issued.until:%Y-%m-%d}: {file}")


def _print_next(*lines: str) -> None:
    print_line("next:")
    for line in lines:
        print_line(f"  {line}")


RunArgument = Annotated[str, typer.Argument(help="Name of the run, or its first letters.")]


@command()
def runs_command(json: JsonOption = False) -> None:
    """List runs over sites: their sites, start and progress."""
    rows: list[dict[str, Any]] = [
        {
            "run": run.request.run,
            "computation": run.request.computation,
            "sites": list(run.request.names),
            "began": run.request.began.isoformat(timespec="seconds"),
            "state": run.state,
        }
        for run in all_runs()
    ]
    if json:
        print_json(rows)
        return
    if not rows:
        tell("there are no runs over sites")
        return
    shown = [{**row, "sites": ", ".join(row["sites"]), "began": row["began"][:16]} for row in rows]
    print_table(list(rows[0]), [list(row.values()) for row in shown])


@command()
def resume_command(run: RunArgument, *, outputs: Outputs) -> None:
    """Resume a run where it stopped, up to its result; no site answers a question twice."""
    loaded = Run.load(run)
    words = list(loaded.request.words)
    if not words:
        name = loaded.request.run
        raise InputError(
            f"the run {name} is of Python: silot.resume({name!r}) continues it.", code="run-python"
        )
    for word, path in (("--report", outputs.report), ("--transcript", outputs.transcript)):
        words += [] if path is None else [word, str(path.absolute())]
    words += ["--json"] if outputs.json and "--json" not in words else []
    loaded.request.check_files()
    # As it was called: files that it names lie there.
    try:
        os.chdir(loaded.request.folder)
    except OSError:
        raise FileError(
            f"{loaded.request.folder}, where the run began, is gone. Restore it, or start again.",
            code="run-folder",
        ) from None
    RESUMED.set(loaded)
    from .app import build

    build(*words)(words, standalone_mode=False)


@command()
def cancel_command(run: RunArgument) -> None:
    """Cancel a run: it sends no more questions, and cannot be resumed."""
    loaded = Run.load(run)
    if loaded.cancel():
        tell(f"{loaded.request.run} is cancelled")
    else:
        tell(f"{loaded.request.run} is done")


@command()
def console_command(
    kit: Path = argument("An asker's kit. Default: this folder.", default=Path(),
                         envvar="SILOT_KIT"),
    *,
    port: PortOption = 0,
) -> None:  # fmt: skip
    """Show sites, runs and results in a browser on this machine, and start comparisons there."""
    # Methods have their names once their modules are imported.
    from ..api._methods import PAIRWISE
    from ..sites.asker_page import AskerPage

    serve_page(AskerPage(Kit.load(kit, Role.ASKER), PAIRWISE, port=port))
