"""``silot site``: what the admin of a site does, and how an asker gets a kit."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.files import write_whole
from ..errors import FileError, InputError, SilotError
from ..federation.keys import read_bytes
from ..privacy.ledger import Ledger
from ..privacy.ledger_head import state_folder
from ..render.words import count
from ..sites.authority import Role, fingerprint_certificate
from ..sites.checks import Finding, check_site, describe_status
from ..sites.configuration import LOG, QuestionLog, SiteConfiguration
from ..sites.descriptions import count_waiting
from ..sites.kit import SITE, Kit, begin_kit, complete_kit, read_role
from ..sites.process_lock import check_unlocked
from ..sites.project import Signed
from ..sites.teacher import TeacherFiles, save_teacher
from .console import (
    check_writable,
    print_json,
    print_line,
    print_table,
    progress_bar,
    say_where,
    show_rows,
)
from .deploy import start_engine
from .generate import Flags, argument, command, flag, group
from .options import JsonOption, LabelColumnOption, WeightColumnOption

_PAGE = 40
_DECISIONS = {"approve": "approved", "deny": "denied", "allow": "level approved",
              "end": "approval ended", "pause": "paused", "go-on": "goes on"}  # fmt: skip
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST = timedelta(days=366)
_UNIT = """\
[Unit]
Description={title}
Wants=network-online.target
After=network-online.target

[Service]
User={owner}
{settings}ExecStart={command}
Restart=on-failure
RestartSec=5
# What a restart does not cure: files, rules, packages.
RestartPreventExitStatus=2 3 4 9
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
{writes}
[Install]
WantedBy=multi-user.target
"""

KitArgument = Annotated[Path, typer.Argument(help="Folder of `silot site request`.")]
KitOption = Annotated[
    Path, typer.Option("--kit", envvar="SILOT_KIT", help="The site's kit. Default: this folder.")
]
IdArgument = Annotated[str, typer.Argument(help="Id of `silot site inbox`, or its first digits.")]


@group("site")
def site_command() -> None:
    """One site of a project, for who runs it; and the kit of an asker."""


@command("site request", checked=False)
def request_command(
    name: str = argument("The member's name, as in the project's file."),
    asker: bool = flag("Of one who asks, and has no data.", default=False),
    out: Path | None = flag("New folder for the kit. Default: NAME.", "-o"),
) -> None:
    """Make the keys of a kit, here, and a request for its certificate."""
    folder = out or Path(name)
    file = folder.parent / f"{folder.name}.request"
    if file.exists():
        raise FileError(f"{file} is there. Move it away first.", code="file-exists")
    check_writable(file)
    write_whole(file, begin_kit(folder, name, Role.ASKER if asker else Role.SITE))
    say_where(kit=folder, request=file)
    options = "" if asker else " --data FILE --policy FILE --ledger FILE"
    print_line(
        f"next: send the request to the coordinator; then silot site join {folder} "
        f"{name}.signed{options}"
    )


class Answers(Flags):
    """What a site answers with."""

    data: Path | None = flag("Its records: a table (.csv, .parquet, .xlsx, ...) or .npz.")
    policy: Path | None = flag("Its rules, .yml. Default: no records.")
    ledger: Path | None = flag("Its account, made when absent.")
    schema: Path | None = flag("Schema by which the table is read.")
    site: Path | None = flag("How the site writes its columns.")
    evaluation: Path | None = flag("Records with true labels, to evaluate models on.")
    teacher: Path | None = flag("What it teaches with, .yml; see docs/deploy.md.")
    label_column: LabelColumnOption = None
    weight_column: WeightColumnOption = None

    def fields(self) -> dict[str, Any]:
        """Return the flags with a value by fields of ``SiteConfiguration``; paths are absolute."""
        names = {"schema": "schema_file", "site": "writing"}
        return {
            names.get(name, name): value.absolute() if isinstance(value, Path) else value
            for name, value in vars(self).items()
            if value is not None
        }


@command("site join")
def join_command(
    kit: KitArgument,
    signed: Path = argument("What the coordinator sent back, NAME.signed."),
    *,
    answers: Answers,
) -> None:
    """Put the certificate into a kit, and say what the site answers with. Again: renews it."""
    fields = answers.fields()
    body = Signed.read(signed)
    role = read_role(kit)
    configuration = teach = None
    if role is Role.SITE and (fields or not (kit / "silot" / SITE).exists()):
        file = fields.pop("teacher", None)
        configuration = _configure(fields, file is not None)
        _check_all(configuration)
        teach = None if file is None else _fit_teacher(file)
    elif role is not Role.SITE and fields:
        raise InputError("askers have no data in a kit. Leave those options out.", code="join-data")
    before = _find_data(kit) if configuration is not None else None
    member = complete_kit(kit, body)
    rows = {
        "member": f"{member.role} {member.name} of {member.project.name}",
        "certificate": f"until {member.identity().member().until:%Y-%m-%d}",
        "server": f"{member.project.host}:{member.project.port}",
        "authority": f"{fingerprint_certificate(member.identity().root)}: is it the coordinator's?",
    }
    if configuration is not None:
        # The ledger is made now, because it records its own place.
        configuration.open_ledger().close()
        if teach is not None:
            configuration = configuration.model_copy(update={"teacher": teach(member)})
        configuration.save(member)
        if configuration.data is not None:
            rows["data"] = str(configuration.data)
        elif before is not None:
            rows["data"] = f"none any more; before: {before}"
        if configuration.teacher is not None:
            rows["teacher"] = configuration.teacher.describe()
        rows["ledger"] = str(configuration.ledger)
    show_rows(rows)
    words = {Role.SITE: "site check --kit", Role.ASKER: "deploy check", Role.SERVER: "deploy run"}
    print_line(f"next: silot {words[role]} {kit}")


def _find_data(kit: Path) -> Path | None:
    """Return the records that the site answered with so far, if it did."""
    with suppress(SilotError):
        return SiteConfiguration.load(Kit.load(kit)).data
    return None


def _configure(fields: dict[str, Any], teaches: bool) -> SiteConfiguration:
    missing = [f"--{name}" for name in ("data", "ledger") if name not in fields]
    if missing and not (teaches and missing == ["--data"]):
        raise InputError(
            f"a site answers with data, and keeps account. Give {' and '.join(missing)}.",
            code="join-data",
        )
    columns = {"label_column", "weight_column"} & set(fields)
    if "schema_file" in fields and columns:
        raise InputError(
            "a schema names features, labels and weights. Leave the column options out.",
            code="schema-options",
        )
    if "writing" in fields and "schema_file" not in fields:
        raise InputError("--site goes with --schema.", code="schema-options")
    return SiteConfiguration(**fields)


def _check_all(configuration: SiteConfiguration) -> None:
    """Load everything as the site will; nothing is written."""
    if not configuration.ledger.exists():
        check_writable(configuration.ledger)
        ledger = Ledger()
    else:
        # Opened for writing, so that read-only files and broken chains show now.
        ledger = configuration.open_ledger()
    try:
        holder = configuration.build_holder(ledger)
        _ = configuration.read_policy() if holder is None else holder.policy
    finally:
        ledger.close()


def _fit_teacher(path: Path) -> Callable[[Kit], TeacherFiles]:
    """Fit the teacher that a file describes; return what writes it to a kit."""
    # Slow to import.
    from .distill_config import Fitted, SiteTeacher, name_field
    from .distill_data import read

    config, home = SiteTeacher.load(path), path.parent
    with name_field(path, "labels"):
        space = config.labels.space()
    transfer = data = None
    if config.transfer is not None:
        with name_field(path, "transfer"):
            transfer = read(home, config.transfer, config)
    if config.train is not None:
        with name_field(path, "train"):
            data = read(home, config.train, config, space, transfer)
    # Slow to import; the first says which extra is missing.
    from ..distillation import train  # noqa: F401
    from .distill_models import Workshop, count_records

    with progress_bar("{task.description}") as bar, name_field(path, "model"):
        task = bar.add_task("fitting", total=None)

        def tell(name: str, epoch: int, epochs: int, loss: float) -> None:
            text = f"fitting the {name}, loss {loss:.4f}"
            bar.update(task, description=text, completed=epoch, total=epochs)

        how = config.fit or Fitted()
        workshop = Workshop(home, space, transfer, how, config.seed, None, tell)
        models = workshop.models("teacher", config, data)
    inputs = None if transfer is None else transfer.inputs
    size, askers = count_records(config, data), config.askers
    return lambda kit: save_teacher(kit.own, models, inputs=inputs, size=size, askers=askers)


@command("site run")
def run_command(kit: KitArgument) -> None:
    """Run the site until it is ended (Ctrl-C). It connects to the server, and opens no port."""
    site = load_site(kit)
    configuration = SiteConfiguration.load(site)
    # Read before the server is waited for, so that faults show at once.
    configuration.read_policy()
    configuration.read_schema()
    configuration.open_ledger(readonly=True).close()
    start_engine(site)


def load_site(folder: Path) -> Kit:
    """Load the kit of a site."""
    return Kit.load(folder, Role.SITE)


@command("site unit")
def unit_command(kit: KitArgument) -> None:
    """Print a unit of systemd that runs the site, or the server: for /etc/systemd/system."""
    typer.echo(format_unit(Kit.load(kit)), nl=False)


def format_unit(kit: Kit) -> str:
    """Write a unit of systemd that runs the kit's process, as the owner of its folder."""
    silot = Path(sys.executable).with_name("silot")
    owner = kit.folder.owner()
    if kit.folder.stat().st_uid != os.getuid():
        # The unit names the user's folder of state, which would be another user's.
        raise InputError(
            f"the kit is of {owner!r}, who must print its unit: sudo -u {owner} {silot} site unit "
            f"{kit.folder}.",
            code="unit-owner",
        )
    group = "deploy" if kit.role is Role.SERVER else "site"
    writes = [str(kit.folder)]
    settings: Mapping[str, str] = {
        name: os.environ[name] for name in ("SILOT_STATE", "XDG_STATE_HOME") if os.environ.get(name)
    }
    if kit.role is Role.SITE:
        writes += [str(SiteConfiguration.load(kit).ledger.parent), str(state_folder())]
    return _UNIT.format(
        title=f"silot {kit.role} {kit.name} of {kit.project.name}",
        owner=owner,
        settings="".join(f'Environment="{k}={_escape(value)}"\n' for k, value in settings.items()),
        command=f'"{_escape(str(silot))}" {group} run "{_escape(str(kit.folder))}"',
        writes="".join(f'ReadWritePaths="{_escape(path)}"\n' for path in dict.fromkeys(writes)),
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


@command("site check")
def check_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Look at all a site needs, and read its policy back; status 4 where something is wrong."""
    findings = check_site(load_site(kit))
    if json:
        print_json([vars(finding) for finding in findings])
    else:
        show_rows({finding.name: _format_finding(finding) for finding in findings})
    if any(finding.state == "wrong" for finding in findings):
        raise typer.Exit(4)


def _format_finding(finding: Finding) -> str:
    word = {"well": "", "warning": "warning: ", "wrong": "wrong: "}[finding.state]
    code = f"[{finding.code}] " if finding.code else ""
    return f"{word}{code}{finding.text}"


@command("site status")
def status_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Whether the site runs, what waits, and what is spent."""
    facts = describe_status(load_site(kit))
    if json:
        print_json(facts)
        return
    began = facts["running_since"]
    answers = "under its policy"
    if facts["paused"]:
        answers = "nothing: paused; `silot site go-on`"
    elif facts["data_changed"]:
        answers = "nothing: its data file was changed since it was started; start it anew"
    show_rows(
        {
            "site": f"{facts['name']} of {facts['project']}, {facts['server']}",
            "process": "none: `silot site run`" if began is None
            else f"since {format_minute(began)} UTC",
            "answers": answers,
            "inbox": f"{count_waiting(facts['waiting'])}; "
            f"{count(len(facts['allowed']), 'approval')} for a time",
            "spent": f"mu {facts['spent_mu']:.4g}",
            "asked": count(facts["questions"], "question")
            + (f", the last at {format_minute(facts['last'])} UTC" if facts["last"] else ""),
        }
    )  # fmt: skip


@command("site log")
def log_command(
    kit: KitOption = Path(),
    last: int | None = flag("Lines to show. Default: 40; with --json all.", min=1),
    page: int = flag("2 for the lines before those, and so on.", default=1, min=1),
    json: JsonOption = False,
) -> None:
    """Who asked what, what left (bytes, and mu that was charged), and who decided what."""
    site = load_site(kit)
    questions = QuestionLog(site.own / LOG).read_lines()
    with SiteConfiguration.load(site).open_ledger(readonly=True, walk=False) as ledger:
        decisions = [vars(decision) for decision in ledger.decisions]
    lines = sorted([*questions, *decisions], key=lambda line: str(line.get("time")))
    size = last or (len(lines) if json else _PAGE)
    shown = lines[max(len(lines) - page * size, 0) : max(len(lines) - (page - 1) * size, 0)]
    if json:
        print_json(shown)
        return
    names = ("when (UTC)", "who", "question", "level", "bytes", "mu", "outcome")
    print_table(_lay_out(names, ("bytes", "mu")), [_format_line(line) for line in shown])
    more = f"; {len(shown)} are shown: --last, --page" if len(shown) < len(lines) else ""
    print_line(f"{count(len(questions), 'question')}, {count(len(decisions), 'decision')}{more}")


def _format_line(line: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the cells of a line of the log, whatever stands in it."""
    cells = [format_minute(str(line.get("time", "")))[5:], str(line.get("asker") or ""),
             str(line.get("question", "")), str(line.get("level", ""))]  # fmt: skip
    if "decision" in line:
        until = f" until {format_minute(line['until'])}" if line["until"] else ""
        return (*cells, "", "", f"{_DECISIONS[line['decision']]}{until} by {line['by']}")
    mu = line.get("mu", 0.0)
    outcome = str(line.get("code") or line.get("refused") or "told")
    size = f"{mu:.3g}" if isinstance(mu, float | int) else "?"
    return (*cells, str(line.get("bytes", 0)), size, outcome)


@command("site console")
def console_command(
    kit: Path = argument(
        "The site's kit. Default: this folder.", default=Path(), envvar="SILOT_KIT"
    ),
    *,
    port: int = flag("Port on 127.0.0.1; 0 for any that is free.", default=0, min=0, max=65535),
) -> None:
    """Show what was asked and told in a browser of this machine, and decide on what waits."""
    from ..sites.console import Console

    page = Console(load_site(kit), port=port)
    print_line(
        f"Open this link in a browser on this machine. It works once:\n\n  {page.url}\n\n"
        "The page is there until you press Ctrl-C here."
    )
    try:
        page.serve()
    except KeyboardInterrupt:
        print_line("closed")


@command("site inbox")
def inbox_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Questions that wait for a decision, and approvals that stand for a time."""
    with _open_ledger(kit, readonly=True) as ledger:
        waiting = [question for question in ledger.waiting if question.state == "waiting"]
        approvals = ledger.allowed
    if json:
        print_json(
            [
                {
                    name: value.isoformat() if isinstance(value, datetime) else value
                    for name, value in vars(question).items()
                }
                for question in waiting
            ]
        )
        return
    rows = [
        (item.id, item.asker, f"{item.question} of {item.run}" if item.run else item.question,
         item.level, format_minute(item.since.isoformat())[5:], f"{item.until:%m-%d}")
        for item in waiting
    ]  # fmt: skip
    print_table(_lay_out(("id", "who", "question", "level", "since (UTC)", "lapses")), rows)
    print_line(count_waiting(len(rows)))
    for item in approvals:
        print_line(
            f"{item.id}: level {item.level} of {item.asker} is approved until "
            f"{item.until:%Y-%m-%d %H:%M} UTC, by {item.by}; silot site deny {item.id} ends that"
        )


@command("site approve")
def approve_command(
    id: IdArgument,
    kit: KitOption = Path(),
    span: str | None = flag("And all questions of that level for so long: 30m, 1h, 2d.", "--for"),
    asker: str | None = flag("With --for: of this asker. Default: who asked."),
) -> None:
    """Let a question be answered; it is once it is asked again."""
    if asker is not None and span is None:
        raise InputError("--asker goes with --for.", code="approval-options")
    long = None if span is None else _parse_span(span)
    project = load_site(kit).project
    if asker is not None and asker not in project.askers:
        names = ", ".join(project.askers)
        raise InputError(
            f"{asker[:60]!r} is no asker of {project.name}, whose askers are {names}.",
            code="approval-asker",
        )
    with _open_ledger(kit) as ledger:
        item = ledger.decide(id, approved=True, span=long, asker=asker)
    rows = {"approved": f"{item.id}: {item.question} (level {item.level}), {item.asker}"}
    if span is not None:
        rows["also"] = f"all of level {item.level} that {asker or item.asker} asks, for {span}"
    show_rows(rows)


@command("site deny")
def deny_command(id: IdArgument, kit: KitOption = Path()) -> None:
    """Refuse a question for good; or end an approval for a time, by its id."""
    with _open_ledger(kit) as ledger:
        ended = ledger.end(id)
        if ended is not None:
            show_rows({"ended": f"{ended.id}: level {ended.level}, {ended.asker}"})
            return
        item = ledger.decide(id, approved=False)
    show_rows({"denied": f"{item.id}: {item.question} (level {item.level}), {item.asker}"})


@command("site pause")
def pause_command(kit: KitOption = Path()) -> None:
    """Tell nothing from now on, until `silot site go-on`; the site may run or not."""
    with _open_ledger(kit) as ledger:
        ledger.pause(True)
    show_rows({load_site(kit).name: "tells nothing until `silot site go-on`"})


@command("site go-on")
def go_on_command(kit: KitOption = Path()) -> None:
    """Answer again."""
    with _open_ledger(kit) as ledger:
        ledger.pause(False)
    show_rows({load_site(kit).name: "answers"})


def _open_ledger(kit: Path, *, readonly: bool = False) -> Ledger:
    configuration = SiteConfiguration.load(load_site(kit))
    return configuration.open_ledger(readonly=readonly, walk=False)


def _parse_span(text: str) -> timedelta:
    match = re.fullmatch(r"([1-9][0-9]{0,4})([mhd])", text.strip())
    span = timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else _LONGEST * 2
    if span > _LONGEST:
        raise InputError(
            f"--for is {text[:20]!r}; minutes, hours or days are needed, 30m, 1h or 2d, a year at "
            "most.",
            code="approval-span",
        )
    return span


@command("site revoke")
def revoke_command(
    kit: KitArgument,
    list: Path = argument("The coordinator's list, revoked.crl."),
) -> None:
    """Take over the list of certificates that are no longer valid; it holds at once."""
    numbers = Kit.load(kit).revoke(read_bytes(list))
    show_rows({"revoked": f"{len(numbers)} certificates in all"})


@command("site leave")
def leave_command(kit: KitOption = Path()) -> None:
    """Destroy the keys of a kit. Data, ledger and log stay; the coordinator is to revoke it."""
    member = Kit.load(kit)
    check_unlocked(member)
    member.destroy()
    show_rows(
        {
            "left": f"{member.project.name}: the keys of {member.name} are destroyed",
            "kept": f"data, ledger, and the log in {member.own}",
            "next": f"the coordinator: silot deploy revoke FOLDER {member.name}",
        }
    )


def format_minute(text: str) -> str:
    """Format a time to the minute."""
    return text[:16].replace("T", " ")


def _lay_out(names: Sequence[str], right: Sequence[str] = ()) -> dict[str, dict[str, Any]]:
    """Lay out columns: long ones are folded, and those in ``right`` aligned to the right."""
    return {
        name: {
            "no_wrap": name not in ("who", "question", "outcome"),
            "overflow": "fold",
            "justify": "right" if name in right else "left",
        }
        for name in names
    }
