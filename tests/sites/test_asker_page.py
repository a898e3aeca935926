"""An asker's page: who may open it, what it starts, and what it shows of runs and sites."""

from __future__ import annotations

import base64
import html
import json
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from silot.api._methods import PAIRWISE
from silot.errors import InputError, MismatchError
from silot.options import declared, read_texts, write_flags
from silot.privacy import Ledger
from silot.sites.kit import Kit
from silot.sites.runs import Run, RunProgress, RunRequest, all_runs
from tests.tiers import examples

from .browsing import Browser, serving
from .here import project_in

pytest.importorskip("starlette", reason="the extra console is not installed")
pytest.importorskip("uvicorn", reason="the extra console is not installed")
from silot.cli.generate import taking
from silot.cli.project import console_command
from silot.sites import runs_page
from silot.sites.asker_page import AskerPage

NAMES = ("north", "south", "hospital-of-a-long-name-in-a-town-12.org")
# A silot whose sites answer in its own process.
START = """
import sys
from pathlib import Path
from silot.sites import run_connection
from tests.sites.here import wire_of
folder = Path(sys.argv.pop(1))
run_connection._wire = lambda kit: wire_of(folder)
from silot.cli.app import main
main()
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, rng = tmp_path_factory.mktemp("made"), np.random.default_rng(0)
    labels = np.array(["sick", "well"] * 75)
    project_in(folder, {name: (rng.normal(size=(150, 3)), labels) for name in NAMES})
    return folder


def facts() -> dict[str, Any]:
    """What a check of sites says, of which one is away."""
    until = (datetime.now(UTC) + timedelta(days=200, hours=1)).isoformat()
    well = {"code": "", "silot": "0.1.0", "clock": 0.1, "until": until}
    away = {"code": "holder-unreachable", "message": "it is not connected"}
    return {"sites": {NAMES[0]: well, NAMES[1]: well | {"paused": True}, NAMES[2]: away}}


CONSOLE = """
import sys
from pathlib import Path
from silot.cli import project
project.serve_page = lambda page: print(*(kind.name for kind in page._methods))
project.console_command(Path(sys.argv[1]), port=0)
"""


def test_a_fresh_console_offers_all_methods_that_compare_holders(kit: Kit) -> None:
    words = [sys.executable, "-c", CONSOLE, kit.folder]
    shown = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert shown == [kind.name for kind in PAIRWISE]
    assert {"direct", "secure", "sketch"} <= {*shown}


@pytest.fixture
def desk(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fresh copy of the project's folder, beside a state of its own."""
    folder = tmp_path / "desk"
    shutil.copytree(made, folder)
    for name in NAMES:
        file = folder / "kits" / name / "silot" / "site.json"
        file.write_text(file.read_text().replace(str(made), str(folder)))
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(
        runs_page, "silot_command",
        lambda *words: [sys.executable, "-c", START, str(folder), *words],
    )  # fmt: skip
    return folder


@pytest.fixture
def kit(desk: Path) -> Kit:
    return Kit.load(desk / "kits/asker")


@pytest.fixture
def outside(kit: Kit) -> Iterator[Browser]:
    """A browser that did not open the page yet."""
    page = AskerPage(kit, PAIRWISE)
    # A check takes a connection, which the tests of real sites have.
    page._survey.facts, page._survey.checked = facts(), datetime.now(UTC)
    with serving(page) as browser:
        yield browser
    for process in page.workers._processes.values():
        process.kill()
        process.wait()
    # Whatever was shown, no key was.
    keys = [path.read_bytes() for path in (*kit.folder.rglob("*.key"),)]
    secrets = [base64.b64encode(data).decode()[:40] for data in keys]
    secrets += [data.decode(errors="replace").strip().splitlines()[-2][:40] for data in keys
                if data.startswith(b"-----")]  # fmt: skip
    assert keys
    for answer in browser.answers:
        assert "PRIVATE KEY" not in answer.text
        assert not any(secret in answer.text for secret in secrets)


@pytest.fixture
def inside(outside: Browser) -> Browser:
    assert outside.enter().status == 303
    return outside


def keep(owner: Kit, k: int = 1, *, state: str | None = None, **changed: Any) -> Run:
    """A run of the kit on the disk."""
    fields: dict[str, Any] = {
        "run": f"{k:012x}", "computation": "distance", "folder": owner.folder.parent,
        "words": ("distance", "north", "south", f"--sites={owner.folder}", "--method=direct"),
        "kit": owner.folder, "names": NAMES[:2], "began": datetime.now(UTC),
    }  # fmt: skip
    run = Run.begin(RunRequest(**fields | changed))
    if state is not None:
        run.end(state)
    return run


def chosen(method: str = "direct", *sites: str, **texts: str) -> dict[str, str]:
    names = sites or NAMES[:2]
    return {"method": method, **{f"site-{name}": "yes" for name in names}, **texts}


def hidden(page: Any) -> dict[str, str]:
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in found}


def filled(browser: Browser, form: dict[str, str]) -> dict[str, str]:
    """A form as a browser sends it: with its hidden fields and what was filled in."""
    query = "&".join(f"{name}={value}" for name, value in form.items() if name != "token")
    page = browser.get(f"/compare?{query}")
    assert page.status == 200, page.text
    return hidden(page) | form


def text_of(page: Any) -> str:
    """What is shown of a page."""
    body = page.text.partition("</style>")[2]
    return html.unescape(re.sub(r"<[^>]+>", "", body))


def wait_for(browser: Browser, name: str, words: str) -> Any:
    end = time.monotonic() + 120
    while words not in (page := browser.get(f"/run/{name}")).text:
        has_ended = "It stopped" in page.text or "It is done" in page.text
        assert not has_ended and time.monotonic() < end, text_of(page)
        time.sleep(0.2)
    return page


def start(browser: Browser, form: dict[str, str]) -> str:
    answer = browser.post("/compare", **filled(browser, form))
    assert answer.status == 303, text_of(answer)
    name = answer.headers["location"].rsplit("/", 1)[1].removesuffix("?watch=1")
    assert re.fullmatch("[0-9a-f]{12}", name)
    return name


PATHS = ("/", "/compare", "/check", "/run/{id}", "/run/{id}/report", "/run/{id}/resume",
         "/run/{id}/cancel")  # fmt: skip


@pytest.mark.all_cases
@pytest.mark.parametrize("path", PATHS)
def test_without_cookie_host_origin_and_token_there_is_nothing(
    inside: Browser, kit: Kit, path: str
) -> None:
    run = keep(kit, state="stopped")
    place = path.format(id=run.request.run)
    form = filled(inside, chosen()) | {"decision": place.rsplit("/", 1)[1]}
    cookie, inside.cookie = inside.cookie, "silot=x"
    assert inside.get(place).status == 403
    assert inside.post(place, **form).status in (403, 404)
    inside.cookie = cookie
    assert inside.get(place, host="evil.example").status == 421
    for origin in ("http://evil.example", "null", None):
        assert inside.send("POST", inside.base + place, form, origin=origin).status == 421
    for token in ("", "x"):
        assert inside.post(place, **form | {"token": token}).status in (403, 404)
    assert [each.request.run for each in all_runs()] == [run.request.run]
    assert run.state == "stopped" and not inside.console.workers._processes  # type: ignore[attr-defined]


def test_looking_starts_and_ends_nothing(inside: Browser, kit: Kit) -> None:
    run = keep(kit, state="stopped")
    form = filled(inside, chosen()) | {"decision": "cancel"}
    query = "&".join(f"{name}={value}" for name, value in form.items())
    for path in PATHS:
        inside.get(f"{path.format(id=run.request.run)}?{query}")
    assert run.state == "stopped" and len(all_runs()) == 1


def test_sites_and_runs_are_listed(inside: Browser, kit: Kit, desk: Path) -> None:
    run = keep(kit, 1, state="done")
    run.note(RunProgress(done=3, total=8, rounds=5, bytes_sent=12, bytes_received=2000, seconds=7))
    keep(kit, 2, state=f"waiting for {NAMES[2]}")
    keep(kit, 3, words=(), computation="python", state="stopped")
    other = keep(kit, 4, kit=desk / "kits/other")
    page = inside.get()
    words = re.sub(r"\s+", " ", text_of(page))
    assert "(1 waiting)" in page.text and "1 of 3 sites answered" in words
    assert "paused" in words and "[holder-unreachable] it is not connected" in words
    assert "in 200 days" in words and "0.1.0" in words
    assert "7 s5 exchanges, 12 B sent, 2 kB received" in words
    assert f"A person at {NAMES[2]} must decide first" in words
    assert "waiting for" in words and "can be resumed" in words
    assert f'/run/{run.request.run}"' in page.text and other.request.run not in page.text
    assert inside.get(f"/run/{other.request.run}").status == 404
    assert "3 of 8 done" in inside.get("/run/000000000001").text
    page = inside.get("/run/000000000003")
    assert "silot.resume continues it" in page.text and "/resume" not in page.text


@pytest.mark.parametrize("name", ["0" * 12, "0000", "x", "..%2f..", "%00", "*"])
def test_a_run_that_is_none(inside: Browser, kit: Kit, name: str) -> None:
    keep(kit)
    for what in ("", "/report", "/resume", "/cancel"):
        assert inside.get(f"/run/{name}{what}").status == 404


@pytest.mark.parametrize("method", [kind.name for kind in PAIRWISE])
def test_the_form_has_every_option_that_the_method_declares(inside: Browser, method: str) -> None:
    assert f'value="{method}" required' in inside.get("/compare").text
    query = "&".join(f"{k}={v}" for k, v in chosen(method).items())
    page = inside.get(f"/compare?{query}").text
    (kind,) = (kind for kind in PAIRWISE if kind.name == method)
    names = {item.name for item in declared(kind) if item.flag}
    files = {"schema", "public"} if method == "sketch" else {"schema"}
    fields = set(re.findall(r'id="field-([a-z_]+)"', page))
    assert fields == names | files | {"labels"}


def test_what_was_chosen_stays(inside: Browser) -> None:
    def checked(page: Any) -> list[str]:
        return re.findall(r'id="([^"]+)"[^>]* checked', page.text)

    assert checked(inside.get("/compare")) == []
    alone = inside.get("/compare?method=fedwad&site-north=yes")
    assert checked(alone) == ["field-site-north", "choice-fedwad"] and alone.status == 400
    options = inside.get("/compare?method=fedwad&site-north=yes&site-south=yes")
    (again,) = re.findall(r'href="[^"]+(/compare\?[^"]+)"', options.text)
    assert checked(inside.get(html.unescape(again))) == ["field-site-north", "field-site-south"]


VALUES = {
    int: st.just("2"), float: st.sampled_from(["0.25", "0.5", ".125", "1e-3"]),
    bool: st.just("yes"),
}  # fmt: skip


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_a_form_says_what_a_command_line_says(data: st.DataObject) -> None:
    """The words of a command line that is written for a form are read as the same options."""
    kind = data.draw(st.sampled_from(list(PAIRWISE)))
    items = [item for item in declared(kind) if item.flag]
    texts = {
        item.name: data.draw(
            st.sampled_from(item.check.kind) if isinstance(item.check.kind, tuple)
            else VALUES.get(item.check.kind, st.sampled_from(["0.5", "uniform"]))  # type: ignore[call-overload]
        )
        for item in data.draw(st.lists(st.sampled_from(items), unique_by=lambda item: item.name))
    }  # fmt: skip
    options = read_texts(kind, texts)
    received: list[dict[str, Any]] = []

    def command(**options: Any) -> None:
        received.append(options)

    app = typer.Typer()
    app.command()(taking([kind])(command))
    done = CliRunner().invoke(app, write_flags(options))
    assert done.exit_code == 0, done.output
    assert received == [options]


@pytest.mark.parametrize(
    ("method", "options", "code"),
    [
        ("fedwad", {"support": "-1"}, "option-support"),
        ("fedwad", {"support": "many"}, "option-support"),
        ("fedwad", {"t": "2"}, "option-t"),
        ("fedwad", {"tol": "1e999"}, "option-tol"),
        ("secure", {"two_party": "yes", "privacy_epsilon": "-1"}, "option-"),
        ("sketch", {"privacy_epsilon": "0"}, "public-absent"),
        ("sketch", {"public": "/nowhere/public.csv"}, "file-missing"),
        ("direct", {"schema": "/nowhere/<b>.yml"}, "file-missing"),
        ("direct", {"schema": "schema.yml"}, "file-missing"),
    ],
)
def test_a_wrong_option_is_refused_in_the_words_of_the_command(
    inside: Browser, method: str, options: dict[str, str], code: str
) -> None:
    form = filled(inside, chosen(method))
    page = inside.post("/compare", **form, **options)
    assert page.status == 400 and f"[{code}" in page.text
    # What was filled in is still there, and is refused by the command too.
    for name, value in options.items():
        assert name == "two_party" or f'value="{html.escape(value)}"' in page.text
    assert hidden(page)["run"] == form["run"] and all_runs() == []
    (kind,) = (kind for kind in PAIRWISE if kind.name == method)
    if not {"schema", "public"} & set(options):
        with pytest.raises(InputError) as error:
            kind(**read_texts(kind, options))
        assert text_of(page).count(error.value.message) == 1


@pytest.mark.parametrize(
    ("form", "code"),
    [
        ({"method": "direct", "site-north": "yes"}, "holder-names"),
        ({"method": "direct", "site-north": "yes", "site-<b>": "yes"}, "holder-unknown"),
        (chosen("nothing"), "option-method"),
        (chosen("private"), "option-method"),
        (chosen(""), "option-method"),
    ],
)
def test_wrong_sites_and_methods_are_refused(
    inside: Browser, form: dict[str, str], code: str
) -> None:
    sent = filled(inside, chosen())
    base = {name: sent[name] for name in ("token", "run")}
    page = inside.post("/compare", **base, **form)
    assert page.status in (400, 503) and f"[{code}]" in page.text
    assert "<b>" not in page.text.replace('name="site-<b>"', "?") and all_runs() == []
    assert inside.post("/compare", **chosen(), token=sent["token"], run="../x").status == 400


@pytest.mark.heavy
@pytest.mark.parametrize("sites", [NAMES[:2], NAMES], ids=["two", "three"])
def test_a_comparison_is_started_and_its_result_and_report_are_shown(
    inside: Browser, kit: Kit, sites: tuple[str, ...]
) -> None:
    form = filled(inside, chosen("direct", *sites, p="1"))
    name = start(inside, form)
    # Sent twice, the form starts nothing more.
    assert inside.post("/compare", **form).status == 303
    page = wait_for(inside, name, "It is done.")
    assert len(all_runs()) == 1
    (run,) = all_runs()
    assert run.request.words[:2] == ("distance", "pair" if len(sites) == 2 else "matrix")
    assert "W1" in page.text and f"/run/{name}/report" in page.text
    progress = run.progress
    assert progress.rounds >= 1 and progress.bytes_received > 0 and progress.seconds > 0
    assert progress.done == progress.total == (1 if len(sites) == 2 else 3)
    report = inside.get(f"/run/{name}/report")
    assert report.status == 200 and "<html" in report.text
    assert report.headers["content-security-policy"].startswith("sandbox allow-scripts;")
    # What the site of the run says of its asker is that of a command.
    assert "resume" not in re.findall(rf"/run/{name}/(\w+)", page.text)


@pytest.mark.heavy
def test_a_sketch_is_started_with_public_records(inside: Browser, desk: Path) -> None:
    np.savez(desk / "public.npz", X=np.random.default_rng(5).normal(size=(150, 3)))
    public = str(desk / "public.npz")
    form = filled(inside, chosen("sketch")) | {"public": public}
    page = inside.post("/compare", **form, privacy_epsilon="0")
    assert page.status == 400 and "[option-epsilon]" in page.text
    assert inside.post("/compare", **form, privacy_epsilon="2").status == 303
    page = wait_for(inside, form["run"], "It is done.")
    (run,) = all_runs()
    assert "--epsilon=2.0" in run.request.words and list(run.request.files) == [public]


@pytest.mark.heavy
def test_a_run_that_waits_is_resumed_once_a_person_decided(
    inside: Browser, kit: Kit, desk: Path
) -> None:
    (desk / "north.yml").write_text("level: record\nask: [record]\n")
    name = start(inside, chosen())
    page = wait_for(inside, name, "A person at north must decide first")
    assert "question-waits" in page.text
    assert "Runs that wait for a person" in inside.get().text
    assert f'href="{inside.base}/run/{name}"' in inside.get().text
    with Ledger(desk / "north.ledger") as ledger:
        (question,) = ledger.waiting
        assert question.run == f"distance-{name}"
        ledger.decide(question.id, approved=True)
    form = hidden(inside.get(f"/run/{name}/resume"))
    assert inside.post(f"/run/{name}/resume", **form).status == 400
    assert inside.post(f"/run/{name}/resume", **form, decision="resume").status == 303
    page = wait_for(inside, name, "It is done.")
    assert "W2" in page.text and f"/run/{name}/report" in page.text


@pytest.mark.heavy
def test_a_run_that_failed_says_why_and_is_cancelled(inside: Browser, desk: Path) -> None:
    (desk / "south.yml").write_text("level: private\n")
    name = start(inside, chosen())
    page = wait_for(inside, name, "It stopped before its end.")
    assert "policy-level" in page.text and "can be resumed" in inside.get().text
    form = hidden(inside.get(f"/run/{name}/cancel"))
    assert inside.post(f"/run/{name}/cancel", **form, decision="cancel").status == 303
    page = inside.get(f"/run/{name}")
    assert "It was cancelled." in page.text and Run.load(name).cancelled
    assert re.findall(rf"/run/{name}/(\w+)", page.text) == []
    # It cannot be resumed by a form that was open before either.
    late = inside.post(f"/run/{name}/resume", **form, decision="resume")
    assert late.status == 503 and "run-cancelled" in late.text


@pytest.mark.heavy
def test_the_report_of_a_run_of_a_terminal_is_written_later(inside: Browser, kit: Kit) -> None:
    run = keep(kit, state="done")
    page = inside.get(f"/run/{run.request.run}")
    assert (
        "Write its report" in page.text
        and inside.get(f"/run/{run.request.run}/report").status == 503
    )
    form = hidden(inside.get(f"/run/{run.request.run}/resume"))
    assert inside.post(f"/run/{run.request.run}/resume", **form, decision="resume").status == 303
    wait_for(inside, run.request.run, "Open the report")


def test_a_run_of_another_process_is_not_started_beside_it(inside: Browser, kit: Kit) -> None:
    run = keep(kit)
    form = hidden(inside.get(f"/run/{run.request.run}/resume"))
    lock = run.lock()
    try:
        assert "It is running." in inside.get(f"/run/{run.request.run}").text
        late = inside.post(f"/run/{run.request.run}/resume", **form, decision="resume")
        assert late.status == 400 and "run-running" in late.text
    finally:
        lock.release()


ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=120)
PLANTED = st.sampled_from(
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "\u202eevil",
     "\x1b[31m", "x" * 200, "\x00", "</pre><b>", "error: [x] <b>"]
)  # fmt: skip


@given(text=PLANTED | ODD)
@settings(
    max_examples=examples(25), deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)  # fmt: skip
def test_texts_of_others_are_texts(inside: Browser, kit: Kit, text: str) -> None:
    """Words of a run, of a site, and what a command printed."""
    k = len(all_runs()) + 1
    run = keep(kit, k, words=("distance", text, f"--method={text}"), names=(text,), state="stopped")
    (run.place / "errors.txt").write_text(f"error: {text}")
    (run.place / "result.txt").write_text(text)
    body = facts()
    body["sites"][NAMES[0]] |= {"silot": text, "schema": text, "schema_name": text}
    inside.console._survey.facts = body  # type: ignore[attr-defined]
    for path in ("/", f"/run/{k:012x}", f"/run/{k:012x}/cancel"):
        page = inside.get(path)
        assert page.status == 200
        assert "<script" not in page.text and "<img" not in page.text and "<b>" not in page.text
        assert "\u202e" not in page.text and "\x1b" not in page.text


def test_the_kit_of_a_site_is_refused(desk: Path) -> None:
    with pytest.raises(MismatchError, match="kit of site 'north'"):
        console_command(desk / "kits/north", port=0)


def test_what_a_check_says_is_shown(kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(code: str) -> runs_page.Survey:
        monkeypatch.setattr(runs_page, "silot_command", lambda *_: [sys.executable, "-c", code])
        survey = runs_page.Survey(kit)
        survey.start()
        survey.start()
        while survey.is_running:
            time.sleep(0.05)
        assert survey.checked is not None
        return survey

    body = facts()
    assert ask(f"print({json.dumps(body)!r}); raise SystemExit(6)").facts == body
    away = ask("import sys; sys.exit('error: [server-unreachable] nothing answers')")
    assert away.facts is None and away.fault == "[server-unreachable] nothing answers"
    assert ask("print('{broken')").fault == "The check failed (JSONDecodeError)."
