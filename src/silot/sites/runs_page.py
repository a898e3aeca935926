"""An asker's page of sites and runs, for a browser on the machine of the asker alone.

The page computes nothing itself. What it starts is a command of its own, which continues when the
page is closed; a run that it starts is one of ``silot project runs``, as if a terminal had begun
it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from markupsafe import Markup

from ..errors import FileError, InputError, explanations
from ..render import Block, Cell, Facts, Heading, Name, Paragraph
from ..render.html import environment, fragment
from ..render.words import count, format_bytes, listed
from .descriptions import describe_clock, describe_schema, describe_state, is_soon
from .kit import Kit
from .overview import build_table, format_time
from .page import Answer, Card, Cards, Form, Page, View, read_decision
from .runs import CANCELLED, DONE, RUNNING, Run, all_runs

if TYPE_CHECKING:
    from starlette.requests import Request

# Runs that are shown, and characters of what a command printed.
_MOST_RUNS, _MOST_TEXT = 60, 20_000
# Seconds after which a page reads itself anew: while something is on its way, and if wanted.
_SOON, _LATER = 3, 60
# Seconds for which a check of the sites holds, and after which it is given up.
_FRESH, _PATIENCE = 300.0, 120.0
BACK = ("", "Back to all runs")
_STARTING = "starting"
# What a run that the page started leaves in its folder.
_REPORT, _RESULT, _ERRORS = "report.html", "result.txt", "errors.txt"
# What a person confirms: the title of the page, and what follows.
_ACTIONS = {
    "resume": (
        "Resume the run",
        "The run continues where it stopped. Questions that sites have answered are "
        "not sent again, and nothing is charged twice.",
    ),
    "cancel": (
        "Cancel the run",
        "No more questions are sent, and the run cannot be resumed. Earlier answers "
        "stay disclosed and charged.",
    ),
}


def silot_command(*words: str) -> list[str]:
    """Return the command line of another silot of this environment."""
    return [sys.executable, "-P", "-c", "from silot.cli.app import main; main()", *words]


@dataclass
class Survey:
    """What the server and the sites of a project say of themselves, asked by another process."""

    kit: Kit
    facts: Mapping[str, Any] | None = None
    """What ``silot project check --json`` printed last."""
    fault: str = ""
    """Why it printed nothing."""
    checked: datetime | None = None
    """When that was."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_running(self) -> bool:
        """Whether sites are asked now."""
        return self._lock.locked()

    def start(self, *, fresh: float = 0.0) -> None:
        """Ask all, unless that is on its way or was done in the last ``fresh`` seconds."""
        age = self.checked and (datetime.now(UTC) - self.checked).total_seconds()
        if (age is None or age >= fresh) and self._lock.acquire(blocking=False):
            threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        try:
            done = subprocess.run(
                silot_command("project", "check", str(self.kit.folder), "--json"),
                capture_output=True, text=True, errors="replace", timeout=_PATIENCE, check=False,
                stdin=subprocess.DEVNULL,
            )  # fmt: skip
            self.facts = json.loads(done.stdout) if done.stdout.strip() else None
            self.fault = "" if self.facts else _find_error(done.stderr)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            self.facts, self.fault = None, f"The check failed ({type(error).__name__})."
        finally:
            self.checked = datetime.now(UTC)
            self._lock.release()


@dataclass
class Workers:
    """Processes that run what the page started, by the names of runs."""

    _processes: dict[str, subprocess.Popen[bytes]] = field(
        default_factory=dict[str, "subprocess.Popen[bytes]"]
    )

    def start(self, run: Run) -> None:
        """Resume a run in a process that outlives the page.

        Raises as ``Run.lock`` where it cannot be resumed.
        """
        name = run.request.run
        if self.has(name):
            return
        run.lock().release()
        settings = {"COLUMNS": "80", "NO_COLOR": "1"}
        with (run.place / _RESULT).open("wb") as out, (run.place / _ERRORS).open("wb") as errors:
            self._processes[name] = subprocess.Popen(
                silot_command("project", "resume", name, f"--report={run.place / _REPORT}"),
                stdin=subprocess.DEVNULL, stdout=out, stderr=errors, start_new_session=True,
                env={**os.environ, **settings},
            )  # fmt: skip

    def has(self, name: str) -> bool:
        """Return whether a process of the page runs it."""
        process = self._processes.get(name)
        return process is not None and process.poll() is None

    def state(self, run: Run) -> str:
        """Return the state of a run, which is starting until its process holds it."""
        state = run.state
        is_coming = self.has(run.request.run) and state not in (DONE, RUNNING, CANCELLED)
        return _STARTING if is_coming else state


class RunsPage(Page):
    """The page of an asker: what sites and runs of a project say of themselves."""

    back = BACK[1]
    statuses: ClassVar = {code: 400 for code, entry in explanations().items()
                          if entry.kind == "InputError"} | {"run-unknown": 404}  # fmt: skip
    longest_form = 1 << 16
    most_fields = 1000
    first_links: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Links of the overview before its own."""

    def __init__(self, kit: Kit, *, port: int = 0) -> None:
        self._survey, self.workers = Survey(kit), Workers()
        self.starting = threading.Lock()
        super().__init__(kit, port=port)

    def pages(self) -> Mapping[str, Callable[[Request], Answer]]:
        """Return what shows a page, by its path."""
        return {
            "/": self._show_overview,
            "/check": self._show_check,
            "/run/{id}": self._show_run,
            "/run/{id}/report": self._show_report,
            "/run/{id}/resume": partial(self._confirm, "resume"),
            "/run/{id}/cancel": partial(self._confirm, "cancel"),
        }

    def actions(self) -> Mapping[str, Callable[[Request, Mapping[str, str]], str | View]]:
        """Return by path what does as a form says, and returns the next page or its path."""
        return {
            "/check": self._check,
            "/run/{id}/resume": self._resume,
            "/run/{id}/cancel": self._cancel,
        }

    def _show_overview(self, request: Request) -> View:
        self._survey.start(fresh=_FRESH)
        is_asking, refreshes = self._survey.is_running, request.query_params.get("watch") == "1"
        runs = [(run, self.workers.state(run)) for run in self._runs()]
        waiting = tuple(_card(run, state) for run, state in runs if state.startswith("waiting"))
        sections = (
            Cards(anchor="waiting", title="Runs that wait for a person at a site", cards=waiting),
        )
        watch = ("", "Stop refreshing") if refreshes else ("?watch=1", "Refresh every minute")
        again = "?watch=1" if refreshes else ""
        # Until the first answers are there, the page has nothing to say about sites.
        soon = _SOON if is_asking and self._survey.checked is None else 0
        return View(
            title="Sites, runs and results", state=self._describe_sites(), waiting=len(waiting),
            sections=sections,
            content=Markup(fragment([*self._list_sites(), *self._list_runs(runs)])),
            links=(*self.first_links, (f"{again}#sites", "Sites"),
                   (f"{again}#runs", "Runs"), ("check", "Check the sites now"), watch),
            refresh=soon or (_LATER if refreshes else 0),
        )  # fmt: skip

    def _describe_sites(self) -> str:
        survey = self._survey
        if survey.checked is None:
            return "The sites are being checked."
        when = f"At {format_time(survey.checked)}"
        if survey.facts is None:
            return f"{when} the sites could not be reached. {survey.fault}"
        sites = survey.facts["sites"].values()
        answering = sum(not (site["code"] or site.get("stopped") or site.get("paused"))
                        for site in sites)  # fmt: skip
        return f"{when} the server was reached, and {answering} of {count(len(sites), 'site')} " \
               "answered."  # fmt: skip

    def _list_sites(self) -> list[Block]:
        facts = (self._survey.facts or {}).get("sites", {})
        rows = [_site_row(name, facts.get(name)) for name in self._kit.project.sites]
        until = self._kit.identity().member().until
        server = f"{self._kit.project.host}:{self._kit.project.port}"
        titles = ("Site", "State", "silot", "Certificate", "Schema", "Clock")
        return [
            Heading("Sites", "sites"),
            Paragraph(f"The sites are reached over the server {server}. Your own certificate ends "
                      f"{_describe_until(until)}."),
            build_table("What each site reports about itself. Sites do not report here how many "
                   "records they have.", titles, rows),
        ]  # fmt: skip

    def _list_runs(self, runs: Sequence[tuple[Run, str]]) -> list[Block]:
        heading = Heading("Runs", "runs")
        if not runs:
            return [
                heading,
                Paragraph("None so far. The link on top to compare sites starts one."),
            ]
        rows = [
            [Cell(run.request.run, link=f"{self._base}/run/{run.request.run}"),
             state + (", can be resumed" if _is_resumable(run, state) else ""),
             _describe_request(run), listed(run.request.names), format_time(run.request.began),
             *_describe_cost(run)]
            for run, state in runs[:_MOST_RUNS]
        ]  # fmt: skip
        more = len(runs) - _MOST_RUNS
        older = f" {count(more, 'older one')} are in `silot project runs`." if more > 0 else ""
        titles = ("Run", "State", "What", "Sites", "Began", "Took", "Cost")
        return [heading, build_table(
            f"Runs of {self._kit.name} that began on this machine, the newest first.{older}",
            titles, rows,
        )]  # fmt: skip

    def _runs(self) -> list[Run]:
        """Return the runs of the kit, the newest first."""
        return [run for run in reversed(all_runs()) if run.request.kit == self._kit.folder]

    def _find_run(self, request: Request) -> Run:
        name = request.path_params["id"]
        run = Run.load(name) if re.fullmatch("[0-9a-f]{12}", name) else None
        if run is None or run.request.kit != self._kit.folder:
            raise FileError("there is no such run of this kit.", code="run-unknown")
        return run

    def _show_run(self, request: Request) -> View:
        run = self._find_run(request)
        state, name = self.workers.state(run), run.request.run
        is_active = state in (RUNNING, _STARTING)
        errors = _read(run.place / _ERRORS)
        blocks: list[Block] = []
        if state not in (DONE, CANCELLED) and not is_active and "error:" in errors:
            blocks.append(Paragraph(_find_error(errors), "warning"))
        progress = run.progress
        took, cost = _describe_cost(run)
        blocks.append(Facts([
            ("What", _describe_request(run)),
            ("Sites", ", ".join(run.request.names)),
            ("Began", format_time(run.request.began)),
            *([("Steps", f"{progress.done} of {progress.total} done")] if progress.total else []),
            *([("Took", took), ("Cost", cost)] if cost else []),
            ("Command", " ".join(["silot", *run.request.words]) if run.request.words
             else "a run of Python"),
        ]))  # fmt: skip
        cards = ()
        if (run.place / _REPORT).exists():
            cards = (Card(id="report", title="The report is written",
                          lines=("Charts, bounds, verdict, cost and what was disclosed.",),
                          button="Open the report", target=f"run/{name}/report"),)  # fmt: skip
        refreshes = is_active and request.query_params.get("watch") == "1"
        watch = (f"run/{name}", "Stop refreshing") if refreshes else (
            f"run/{name}?watch=1", "Refresh while it runs"
        )  # fmt: skip
        result = "" if is_active or state == CANCELLED else _read(run.place / _RESULT)
        return View(
            title=f"Run {name}", state=self._explain_state(run, state),
            sections=(Cards(anchor="result", title="Result", cards=cards),) if cards else (),
            content=Markup(fragment(blocks)), text=result, refresh=_SOON if refreshes else 0,
            links=(BACK, *([watch] if is_active else []), *(
                (f"run/{name}/{what}", words) for what, words in _offers(run, state)
            )),
        )  # fmt: skip

    def _explain_state(self, run: Run, state: str) -> str:
        if state.startswith("waiting"):
            return f"{_explain_waiting(state)} Resume the run after the decision."
        words = {
            DONE: "It is done.",
            CANCELLED: "It was cancelled. No more questions are sent.",
            RUNNING: "It is running.",
            _STARTING: "It is starting.",
        }
        stopped = "It stopped before its end. It can be resumed there."
        if not run.request.words:
            stopped = "It is not running. It is a run of Python: silot.resume continues it."
        return words.get(state, stopped)

    def _show_report(self, request: Request) -> Answer:
        from starlette.responses import HTMLResponse

        run = self._find_run(request)
        try:
            page = (run.place / _REPORT).read_bytes()
        except OSError:
            raise FileError("this run has no report.", code="file-missing") from None
        # Names in it are other people's: it gets none of the session of the page, and of scripts
        # the one that sorts tables.
        script = environment().globals["table_digest"]
        policy = (
            f"sandbox allow-scripts; default-src 'none'; script-src '{script}'; "
            "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
            "frame-ancestors 'none'"
        )
        return HTMLResponse(page, headers={"content-security-policy": policy})

    def _confirm(self, what: str, request: Request) -> View:
        run, (title, words) = self._find_run(request), _ACTIONS[what]
        name, offers = run.request.run, dict(_offers(run, self.workers.state(run)))
        is_offered = what in offers
        form = Form(target=f"run/{name}/{what}", hidden=(self.secret,), value=what,
                    button=offers.get(what, title))  # fmt: skip
        return View(
            title=title, content=Markup(fragment([
                Facts([("Run", name), ("What", _describe_request(run)),
                       ("Sites", ", ".join(run.request.names))]),
                Paragraph(words if is_offered else "The state of the run does not allow this."),
            ])),
            form=form if is_offered else None, links=((f"run/{name}", "Back to the run"),),
        )  # fmt: skip

    def _resume(self, request: Request, form: Mapping[str, str]) -> str:
        run = self._find_run(request)
        read_decision(form, "resume")
        if not run.request.words:
            name = run.request.run
            raise InputError(
                f"the run {name} is of Python: silot.resume({name!r}) continues it.",
                code="run-python",
            )
        with self.starting:
            self.workers.start(run)
        return f"run/{run.request.run}?watch=1"

    def _cancel(self, request: Request, form: Mapping[str, str]) -> str:
        run = self._find_run(request)
        read_decision(form, "cancel")
        run.cancel()
        return f"run/{run.request.run}"

    def _show_check(self, request: Request) -> View:
        words = "Each site is asked only whether it answers, not about its records."
        return View(
            title="Check the sites", content=Markup(fragment([Paragraph(words)])), links=(BACK,),
            form=Form(target="check", hidden=(self.secret,), value="check", button="Check now"),
        )  # fmt: skip

    def _check(self, request: Request, form: Mapping[str, str]) -> str:
        read_decision(form, "check")
        self._survey.checked = None
        self._survey.start()
        return ""


def _offers(run: Run, state: str) -> list[tuple[str, str]]:
    """Return what can be done with a run in a state, and the words of it."""
    offers: list[tuple[str, str]] = []
    if _is_resumable(run, state):
        offers.append(("resume", "Resume the run"))
    elif state == DONE and run.request.words and not (run.place / _REPORT).exists():
        offers.append(("resume", "Write its report"))
    if state not in (DONE, CANCELLED):
        offers.append(("cancel", "Cancel the run"))
    return offers


def _is_resumable(run: Run, state: str) -> bool:
    return bool(run.request.words) and state not in (RUNNING, _STARTING, CANCELLED, DONE)


def _card(run: Run, state: str) -> Card:
    name = run.request.run
    return Card(
        id=name, title=(Name(_describe_request(run)), " of ", Name(listed(run.request.names))),
        lines=(_explain_waiting(state), f"Began {format_time(run.request.began)}.",
               ("Sites see it as ", Name(f"{run.request.computation}-{name}"), ".")),
        button="Open the run", target=f"run/{name}",
    )  # fmt: skip


def _explain_waiting(state: str) -> str:
    site = state.removeprefix("waiting").removeprefix(" for ")
    return f"A person at {site or 'a site'} must decide first, on the site's page or by " \
           "`silot site inbox`, or must resume the site if it is paused."  # fmt: skip


def _site_row(name: str, facts: Mapping[str, Any] | None) -> list[Cell | str]:
    if facts is None:
        return [name, "not asked yet", "", "", "", ""]
    state = Cell(describe_state({**facts}), warn=describe_state({**facts}) != "answers")
    if facts["code"]:
        return [name, state, "", "", "", ""]
    until = datetime.fromisoformat(facts["until"])
    return [
        name, state, str(facts["silot"]), Cell(_describe_until(until), warn=is_soon(until)),
        describe_schema({**facts}), Cell(describe_clock({**facts}), warn=True),
    ]  # fmt: skip


def _describe_until(until: datetime) -> str:
    days = max((until - datetime.now(UTC)).days, 0)
    renew = ": renew it" if is_soon(until) else ""
    return f"in {count(days, 'day')} ({until:%Y-%m-%d}){renew}"


def _describe_request(run: Run) -> str:
    """Return the computation of a run, and its method where the command line names one."""
    words = run.request.words
    named = [word.partition("=")[2] for word in words if word.startswith("--method=")]
    named += [after for word, after in pairwise(words)
              if word in ("--method", "-m")]  # fmt: skip
    return f"{run.request.computation} ({named[-1]})" if named else run.request.computation


def _describe_cost(run: Run) -> tuple[str, str]:
    progress = run.progress
    if not progress.rounds:
        return "", ""
    return f"{progress.seconds:.3g} s", (
        f"{count(progress.rounds, 'exchange')}, {format_bytes(progress.bytes_sent)} sent, "
        f"{format_bytes(progress.bytes_received)} received"
    )


def _find_error(text: str) -> str:
    """Return the last error that a command printed."""
    lines = [line for line in text.splitlines() if line.startswith("error: ")]
    return (
        lines[-1].removeprefix("error: ")[:2000]
        if lines
        else "The command ended without a message."
    )


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(encoding="utf-8", errors="replace")[-_MOST_TEXT:]
    return ""
