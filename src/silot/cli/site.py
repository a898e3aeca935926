"""``silot site``: what the admin of a site does, and how an asker gets a kit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from os.path import abspath
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.files import check_whole, write_whole
from ..errors import FileError, InputError, SilotError
from ..federation.keys import read_bytes
from ..privacy.ledger import Ledger
from ..render.words import count
from ..sites.authority import (
    Role,
    describe_member,
    fingerprint_certificate,
    read_certificate,
)
from ..sites.checks import Finding, check_site, describe_status
from ..sites.configuration import SiteConfiguration
from ..sites.descriptions import count_waiting
from ..sites.kit import SITE, Kit, begin_kit, complete_kit, read_role
from ..sites.process_lock import check_unlocked
from ..sites.project import Signed
from ..sites.teacher import TeacherFiles, fit_teacher
from ..sites.trail import Trail, choose_format, export_trail, parse_day, parse_span, verify_trail
from ..sites.unit import format_unit
from .console import (
    format_minute,
    print_json,
    print_json_lines,
    print_line,
    print_table,
    progress_bar,
    say_where,
    serve_page,
    show_rows,
)
from .generate import Flags, argument, command, flag
from .options import (
    JsonOption,
    LabelColumnOption,
    PortOption,
    WeightColumnOption,
)
from .project import HealthOption, start_member

_PAGE = 40
_DECISIONS = {"approve": "approved", "deny": "denied", "allow": "level approved",
              "end": "approval ended", "pause": "paused", "resume": "resumed"}  # fmt: skip
KitArgument = Annotated[Path, typer.Argument(help="Folder that `silot site request` made.")]
KitOption = Annotated[
    Path, typer.Option("--kit", envvar="SILOT_KIT", help="The site's kit. Default: this folder.")
]
IdArgument = Annotated[str, typer.Argument(help="Id from `silot site inbox`, or its first digits.")]


@command(checked=False)
def request_command(
    name: str = argument("The member's name, as in the project's file."),
    asker: bool = flag("Make the kit of an asker, who has no data.", default=False),
    out: Path | None = flag("New folder for the kit. Default: NAME.", "-o"),
) -> None:
    """Create a kit: make its keys on this machine and a request for its certificate."""
    folder = out or Path(name)
    file = folder.parent / f"{folder.name}.request"
    if file.exists():
        raise FileError(f"{file} already exists. Move it away first.", code="file-exists")
    check_whole(file)
    write_whole(file, begin_kit(folder, name, Role.ASKER if asker else Role.SITE))
    say_where(kit=folder, request=file)
    options = "" if asker else " --data FILE --policy FILE --ledger FILE"
    print_line(
        f"next: send the request to the coordinator; then silot site join {folder} "
        f"{name}.signed{options}"
    )


class Answers(Flags):
    """What a site answers with."""

    data: Path | None = flag("The site's records: a table (.csv, .parquet, .xlsx, ...) or .npz.")
    policy: Path | None = flag("The site's policy, .yml. Default: private releases only.")
    ledger: Path | None = flag("The site's ledger, which is created if it does not exist.")
    schema: Path | None = flag("Schema by which the table is read.")
    site: Path | None = flag("Site file that says how the site writes its columns.")
    evaluation: Path | None = flag("Records with true labels, to evaluate models on.")
    teacher: Path | None = flag("Configuration of a teacher, .yml; see docs/deploy.md.")
    label_column: LabelColumnOption = None
    weight_column: WeightColumnOption = None

    def fields(self) -> dict[str, Any]:
        """Return the flags with a value by fields of ``SiteConfiguration``; paths are absolute."""
        names = {"schema": "schema_file", "site": "writing"}
        return {
            names.get(name, name): Path(abspath(value)) if isinstance(value, Path) else value  # noqa: PTH100
            for name, value in vars(self).items()
            if value is not None
        }


@command()
def join_command(
    kit: KitArgument,
    signed: Path = argument("The file that the coordinator sent back, NAME.signed."),
    *,
    answers: Answers,
) -> None:
    """Add the certificate, the data and the policy to a kit. Run it again to renew them."""
    fields = answers.fields()
    body = Signed.read(signed)
    role = read_role(kit)
    configuration = teach = None
    if role is Role.SITE and (fields or not (kit / "silot" / SITE).exists()):
        file = fields.pop("teacher", None)
        configuration = SiteConfiguration.of_flags(fields, teaches=file is not None)
        configuration.check()
        teach = None if file is None else _fit_teacher(file)
    elif role is not Role.SITE and fields:
        raise InputError("askers have no data in a kit. Leave those options out.", code="join-data")
    before = _find_data(kit) if configuration is not None else None
    member = complete_kit(kit, body)
    rows = {
        "member": f"{describe_member(member.role, member.name)} of {member.project.name}",
        "certificate": f"until {member.identity().member().until:%Y-%m-%d}",
        "server": member.project.address,
        "authority": f"{fingerprint_certificate(member.identity().root)}: must equal that of the "
        "coordinator; check it by telephone",
    }
    if configuration is not None:
        # The ledger is made now, because it records its own place.
        account = configuration.open_account()
        if teach is not None:
            configuration = configuration.model_copy(update={"teacher": teach(member)})
        configuration.save(member)
        if configuration.data is not None:
            rows["data"] = str(configuration.data)
        elif before is not None:
            rows["data"] = f"none now; before: {before}"
        if configuration.teacher is not None:
            rows["teacher"] = configuration.teacher.describe()
        rows["ledger"] = str(configuration.ledger)
        if len(account.ledgers) > 1:
            rows["account"] = account.words
    show_rows(rows)
    words = {
        Role.SITE: "site check --kit",
        Role.ASKER: "project check",
        Role.SERVER: "project serve",
    }
    print_line(f"next: silot {words[role]} {kit}")


def _find_data(kit: Path) -> Path | None:
    """Return the records that the site answered with so far, if it did."""
    with suppress(SilotError):
        return SiteConfiguration.load(Kit.load(kit)).data
    return None


def _fit_teacher(path: Path) -> Callable[[Kit], TeacherFiles]:
    """Fit the teacher that a file describes; return what writes it to a kit."""
    with progress_bar("{task.description}") as bar:
        task = bar.add_task("fitting", total=None)

        def tell(name: str, epoch: int, epochs: int, loss: float) -> None:
            text = f"fitting the {name}, loss {loss:.4f}"
            bar.update(task, description=text, completed=epoch, total=epochs)

        return fit_teacher(path, tell)


@command()
def run_command(
    kit: KitArgument,
    health: HealthOption = None,
) -> None:
    """Run the site until you stop it (Ctrl-C). It connects to the server and opens no port."""
    site = load_site(kit)
    configuration = SiteConfiguration.load(site)
    # Read before the server is waited for, so that faults show at once.
    configuration.read_policy()
    configuration.read_schema()
    configuration.open_ledger(readonly=True).close()
    start_member(site, health)


def load_site(folder: Path) -> Kit:
    """Load the kit of a site."""
    return Kit.load(folder, Role.SITE)


@command()
def unit_command(kit: KitArgument) -> None:
    """Print a systemd unit that runs the site or the server, for /etc/systemd/system."""
    typer.echo(format_unit(Kit.load(kit)), nl=False)


@command()
def check_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Check everything a site needs, and explain its policy; status 4 if something is wrong."""
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


@command()
def status_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """Show whether the site runs, which questions wait, and how much budget is spent."""
    facts = describe_status(load_site(kit))
    if json:
        print_json(facts)
        return
    began = facts["running_since"]
    answers = "under its policy"
    if facts["paused"]:
        answers = "nothing: paused; `silot site resume`"
    elif facts["data_changed"]:
        answers = "nothing: its data file changed after the site was started; start the site again"
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


@command()
def log_command(
    kit: KitOption = Path(),
    last: int | None = flag("Lines to show. Default: 40; with --json all.", min=1),
    page: int = flag(
        "Page of the log: 1 shows the newest lines, 2 the ones before, and so on.", default=1, min=1
    ),
    json: JsonOption = False,
) -> None:
    """List questions, what was disclosed (bytes, charged mu), and decisions."""
    with _open_ledger(kit, readonly=True) as ledger:
        size = last or (None if json and page == 1 else _PAGE)
        rows = ledger.read_latest(last=size, skip=(page - 1) * (size or 0))
        if json:
            print_json_lines(row.facts for row in rows)
            return
        lines = [_format_line(row.facts) for row in rows]
        questions, decisions = ledger.count_history()
    names = ("when (UTC)", "who", "question", "level", "bytes", "mu", "outcome")
    print_table(names, lines)
    is_part = len(lines) < questions + decisions
    more = f"; {len(lines)} are shown: --last, --page" if is_part else ""
    print_line(f"{count(questions, 'question')}, {count(decisions, 'decision')}{more}")


def _format_line(line: Mapping[str, Any]) -> tuple[str, ...]:
    cells = [format_minute(line["time"])[5:], line["asker"], line.get("question", ""),
             line["level"]]  # fmt: skip
    if line["event"] in _DECISIONS:
        until = f" until {format_minute(line['until'])}" if "until" in line else ""
        return (*cells, "", "", f"{_DECISIONS[line['event']]}{until} by {line['by']}")
    outcome = line.get("code") or line.get("refused") or "answered"
    return (*cells, str(line.get("bytes", 0)), f"{line.get('mu', 0.0):.3g}", outcome)


@command()
def export_command(
    out: Path = argument("File to write: .json, signed by the site; .csv or .xlsx, to be read."),
    kit: KitOption = Path(),
    since: str | None = flag(
        "First date, such as 2026-01-01 (UTC). Default: the first in the ledger.", "--from"
    ),
    until: str | None = flag("Last date. Default: the last in the ledger.", "--to"),
    format: str | None = flag("json, csv or xlsx. Default: by the ending of OUT."),
) -> None:
    """Export the audit trail: questions, outcomes, decisions and charges.

    The file contains no answers. Whoever receives the .json can verify it with `silot site
    verify`, on any machine.
    """
    member, kind = load_site(kit), choose_format(out, format)
    with _open_ledger(kit, readonly=True) as ledger:
        start = "" if since is None else parse_day(since).isoformat()
        end = "" if until is None else (parse_day(until) + timedelta(days=1)).isoformat()
        span = ledger.find_span(start, end)
        with progress_bar("writing {task.description}") as bar:
            bar.add_task(out.name, total=None)
            trail = export_trail(ledger, member, out, kind, *span)
    show_rows({"written": str(out), **trail.summary})


@command()
def rotate_command(
    out: Path = argument("New file, .json, for the rows that are moved. Keep it."),
    kit: KitOption = Path(),
    until: str = flag(
        "Last date of the rows that are moved, such as 2025-12-31 (UTC).", default=...
    ),
) -> None:
    """Move old questions from the ledger to a signed file; budgets do not change.

    Charges, answers and decisions also stay in the ledger.
    """
    member = load_site(kit)
    if out.exists():
        raise FileError(f"{out} already exists. Give another name.", code="file-exists")
    before = (parse_day(until) + timedelta(days=1)).isoformat()
    trails: list[Trail] = []

    def archive(first: int, last: int) -> None:
        trails.append(export_trail(ledger, member, out, "json", first, last))
        verify_trail(out, member.identity().root)

    with _open_ledger(kit) as ledger:
        rotation = ledger.rotate(before, archive)
    show_rows({
        "written": str(out), **trails[0].summary,
        "moved away": f"{count(rotation.rows, 'question')}, since the ledger began",
    })  # fmt: skip


@command()
def verify_command(
    file: Path = argument("A .json file that `silot site export` or `silot site rotate` wrote."),
    root: Path | None = flag("Certificate of the project's authority, rootCA.pem."),
) -> None:
    """Verify an exported audit trail on any machine; status 4 if a row was changed."""
    certificate = None if root is None else read_certificate(root)
    trail, authority = verify_trail(file, certificate)
    whose = "" if root is not None else "; it is in the file itself: compare it, or give --root"
    show_rows({
        "signed by": f"site {trail.site} of {trail.project}, {trail.written}",
        "authority": f"{authority}{whose}",
        **trail.summary,
    })  # fmt: skip


@command()
def console_command(
    kit: Path = argument(
        "The site's kit. Default: this folder.", default=Path(), envvar="SILOT_KIT"
    ),
    *,
    port: PortOption = 0,
) -> None:
    """Show questions and answers in a browser on this machine, and decide about those that wait."""
    from ..sites.console import Console

    serve_page(Console(load_site(kit), port=port))


@command()
def inbox_command(kit: KitOption = Path(), json: JsonOption = False) -> None:
    """List questions that wait for a decision, and approvals that are valid for a time."""
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
    print_table(("id", "who", "question", "level", "since (UTC)", "lapses"), rows)
    print_line(count_waiting(len(rows)))
    for item in approvals:
        print_line(
            f"{item.id}: level {item.level} of {item.asker} is approved until "
            f"{item.until:%Y-%m-%d %H:%M} UTC, by {item.by}; silot site deny {item.id} ends that"
        )


@command()
def approve_command(
    id: IdArgument,
    kit: KitOption = Path(),
    span: str | None = flag(
        "Also approve all questions of that level for this time: 30m, 1h, 2d.", "--for"
    ),
    asker: str | None = flag(
        "With --for: the asker who is approved. Default: the asker of the question."
    ),
) -> None:
    """Approve a question: the site answers it when the asker repeats it."""
    if asker is not None and span is None:
        raise InputError("--asker goes with --for.", code="approval-options")
    long = None if span is None else parse_span(span)
    project = load_site(kit).project
    if asker is not None and asker not in project.askers:
        names = ", ".join(project.askers)
        raise InputError(
            f"{asker[:60]!r} is not an asker of {project.name}; its askers are {names}.",
            code="approval-asker",
        )
    with _open_ledger(kit) as ledger:
        item = ledger.decide(id, approved=True, span=long, asker=asker)
    rows = {"approved": f"{item.id}: {item.question} (level {item.level}), {item.asker}"}
    if span is not None:
        rows["also"] = f"all of level {item.level} from {asker or item.asker}, for {span}"
    show_rows(rows)


@command()
def deny_command(id: IdArgument, kit: KitOption = Path()) -> None:
    """Deny a question finally, or end an approval that is valid for a time."""
    with _open_ledger(kit) as ledger:
        ended = ledger.end(id)
        if ended is not None:
            show_rows({"ended": f"{ended.id}: level {ended.level}, {ended.asker}"})
            return
        item = ledger.decide(id, approved=False)
    show_rows({"denied": f"{item.id}: {item.question} (level {item.level}), {item.asker}"})


@command()
def pause_command(kit: KitOption = Path()) -> None:
    """Disclose nothing until `silot site resume`, whether or not the site is running."""
    with _open_ledger(kit) as ledger:
        ledger.pause(True)
    show_rows({load_site(kit).name: "discloses nothing until `silot site resume`"})


@command()
def resume_command(kit: KitOption = Path()) -> None:
    """Answer questions again after `silot site pause`."""
    with _open_ledger(kit) as ledger:
        ledger.pause(False)
    show_rows({load_site(kit).name: "answers"})


def _open_ledger(kit: Path, *, readonly: bool = False) -> Ledger:
    configuration = SiteConfiguration.load(load_site(kit))
    return configuration.open_ledger(readonly=readonly, walk=False)


@command()
def revoke_command(
    kit: KitArgument,
    list: Path = argument("The coordinator's list, revoked.crl."),
) -> None:
    """Install the list of revoked certificates; it is valid at once."""
    numbers = Kit.load(kit).revoke(read_bytes(list))
    show_rows({"revoked": f"{len(numbers)} certificates in all"})


@command()
def leave_command(kit: KitOption = Path()) -> None:
    """Delete the keys of a kit. Data and ledger stay; the coordinator should revoke it."""
    member = Kit.load(kit)
    check_unlocked(member)
    member.destroy()
    show_rows(
        {
            "left": f"{member.project.name}: the keys of {member.name} are deleted",
            "kept": "the data, and the ledger with all questions",
            "next": f"the coordinator: silot project revoke FOLDER {member.name}",
        }
    )
