"""A site's page: who may open it, what it changes and what it shows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from silot.errors import FileError
from silot.federation.question import question_kinds
from silot.privacy import ledger as waits
from silot.privacy.accounting import epsilon_of
from silot.privacy.ledger import Ledger
from silot.sites import kit as kits
from silot.sites.authority import Role
from silot.sites.configuration import SiteConfiguration
from silot.sites.descriptions import KINDS, LEVELS
from silot.sites.kit import Kit, begin_kit, complete_kit
from silot.sites.project import Project, sign
from tests.tiers import examples

from .browsing import Browser, serving
from .project import authority, private

pytest.importorskip("starlette", reason="the extra console is not installed")
pytest.importorskip("uvicorn", reason="the extra console is not installed")
from silot.sites.console import Console

PROJECT = Project(name="wards", host="localhost", port=9000, sites=["north", "south"])
RULES = (
    "level: statistics\nquestions: [moments]\nask: [statistics, record]\nprivacy_epsilon: 1.0\n"
    "exact_secure: 3\n"
)


def key(k: int) -> str:
    return f"{k:064x}"


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    """A site that joined, with an empty ledger."""
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    monkeypatch.setattr(kits, "create_key", lambda: private("console"))
    asked = begin_kit(tmp_path / "north", "north", Role.SITE)
    made = complete_kit(tmp_path / "north", sign(authority(), PROJECT, asked))
    policy, ledger = tmp_path / "policy.yml", tmp_path / "north.ledger"
    policy.write_text(RULES)
    # There are no data: the page must do without.
    SiteConfiguration(data=tmp_path / "none.npz", ledger=ledger, policy=policy).save(made)
    Ledger(ledger).close()
    return made


@pytest.fixture
def ledger(kit: Kit) -> Iterator[Ledger]:
    with Ledger(SiteConfiguration.load(kit).ledger) as opened:
        yield opened


@pytest.fixture
def outside(kit: Kit) -> Iterator[Browser]:
    """A browser that did not open the page yet."""
    with serving(Console(kit)) as browser:
        yield browser


@pytest.fixture
def inside(outside: Browser) -> Browser:
    assert outside.enter().status == 303
    return outside


def decide(browser: Browser, id: str, decision: str) -> Any:
    return browser.post(f"/question/{id}", token=browser.token(), decision=decision)


def wait(ledger: Ledger, k: int = 1, **changed: str) -> waits.Waiting:
    facts = {"question": "moments", "level": "statistics", "asker": "uni"} | changed
    ledger.hold(key(k), **facts)
    return next(each for each in ledger.waiting if each.key == key(k))


def elsewhere(ledger: Ledger) -> dict[str, Any]:
    """The ledger, as another process sees it."""
    code = (
        "import json, sys; from silot.privacy.ledger import Ledger; l = Ledger(sys.argv[1], "
        "create=False); l.verify(); print(json.dumps({'paused': l.paused, 'states': [w.state for w "
        "in l.waiting], 'allowed': [[a.asker, a.level, str(a.until)] for a in l.allowed], 'rows': "
        "len(l.entries())}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(ledger.path)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


def test_the_link_opens_the_page_once(outside: Browser) -> None:
    assert outside.get().status == 403
    # A program that looks behind links uses none up.
    for _ in range(3):
        page = outside.send("GET", urlsplit(outside.console.url).path)
        assert page.status == 200 and "Open the page" in page.text
    link = outside.console.url.rsplit("/", 1)[1]
    entered = outside.enter()
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie
    assert f"path={outside.base}/" in cookie
    assert outside.get().status == 200
    kept, outside.cookie = outside.cookie, ""
    posted = [outside.post("/enter", **form) for form in ({"link": link}, {"link": ""}, {})]
    for again in (*posted, outside.get(f"/enter/{link}"), outside.get()):
        assert again.status == 403 and "set-cookie" not in again.headers
        assert "Questions to" not in again.text
    outside.cookie = kept
    assert outside.get().status == 200


@pytest.mark.parametrize("link", ["", "x", "é" * 43, "A" * 5000])
def test_a_wrong_link_opens_nothing(outside: Browser, link: str) -> None:
    assert outside.post("/enter", link=link).status == 403
    assert outside.enter().status == 303


@pytest.mark.parametrize("cookie", ["", "silot=", "silot=x", "silot=%00\xe9", "other=1"])
def test_without_the_cookie_there_is_nothing(inside: Browser, ledger: Ledger, cookie: str) -> None:
    asked, token = wait(ledger), inside.token()
    inside.cookie = cookie
    before = ledger.entries()
    for path in ("/", "/pause", f"/question/{asked.id}"):
        page = inside.get(path)
        assert page.status == 403 and "uni" not in page.text
        assert inside.post(path, token=token, decision="once").status in (403, 404)
    assert ledger.entries() == before


@pytest.mark.parametrize("host", ["localhost", "evil.example", "127.0.0.1", "", None, "[::1]"])
def test_another_host_gets_nothing(inside: Browser, ledger: Ledger, host: str | None) -> None:
    before = ledger.entries()
    port = inside.console.host.split(":")[1]
    for name in {host, f"{host}:{port}" if host not in (None, "127.0.0.1") else host}:
        page = inside.get(host=name)
        assert page.status in (400, 421) and "north" not in page.text
    assert ledger.entries() == before


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1", "", None])
def test_a_form_of_another_origin_changes_nothing(
    inside: Browser, ledger: Ledger, origin: str | None
) -> None:
    form = {"token": inside.token(), "decision": "pause"}
    page = inside.send("POST", f"{inside.base}/pause", form, origin=origin)
    assert page.status == 421
    assert not ledger.paused


@pytest.mark.parametrize("token", [None, "", "x", "é", "a" * 43])
def test_a_form_without_its_token_changes_nothing(
    inside: Browser, ledger: Ledger, token: str | None
) -> None:
    asked, held = wait(ledger), {} if token is None else {"token": token}
    before = ledger.entries()
    assert inside.post("/pause", decision="pause", **held).status == 403
    assert inside.post(f"/question/{asked.id}", decision="once", **held).status == 403
    assert ledger.entries() == before


def test_bodies_that_are_no_forms_change_nothing(inside: Browser, ledger: Ledger) -> None:
    token = inside.token()
    for body in (b"", b"\xff\x00", b"a" * 100_000, b"&" * 2000,
                 b"&".join(b"a=1" for _ in range(50)), f"token={token}".encode() + b"&x=" * 3000,
                 json.dumps({"token": token, "decision": "pause"}).encode()):  # fmt: skip
        assert inside.send("POST", f"{inside.base}/pause", body).status == 403
    assert inside.post("/pause", token=token).status == 400
    assert inside.post("/pause", token=token, decision="stop").status == 400
    assert not ledger.paused


def test_looking_never_changes_anything(inside: Browser, ledger: Ledger) -> None:
    asked, token = wait(ledger), inside.token()
    before = ledger.entries()
    query = urlencode({"token": token, "decision": "once"})
    for path in ("/", "/?watch=1", "/pause", f"/pause?{query}", f"/question/{asked.id}",
                 f"/question/{asked.id}?{query}", "/enter", "/enter/x"):  # fmt: skip
        inside.get(path)
        inside.send("HEAD", inside.base + path)
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS"):
            sent = inside.send(method, inside.base + path, {"token": token, "decision": "once"})
            assert sent.status == 404
    assert ledger.entries() == before


def test_a_question_is_approved(inside: Browser, ledger: Ledger) -> None:
    first, second = wait(ledger), wait(ledger, 2)
    page = inside.get()
    assert "(2 waiting)" in page.text and first.id in page.text and second.id in page.text
    done = decide(inside, first.id, "once")
    assert done.status == 303 and done.headers["location"].endswith(f"/question/{first.id}")
    seen = elsewhere(ledger)
    assert seen["states"] == ["approved", "waiting"] and seen["allowed"] == []
    assert "It was approved" in inside.get(f"/question/{first.id}").text
    assert "(1 waiting)" in inside.get().text


def test_a_question_is_denied(inside: Browser, ledger: Ledger) -> None:
    asked = wait(ledger)
    assert decide(inside, asked.id, "deny").status == 303
    assert elsewhere(ledger)["states"] == ["denied"]
    page = inside.get(f"/question/{asked.id}")
    assert "It was finally denied" in page.text and "<form" not in page.text


@pytest.mark.heavy
@pytest.mark.parametrize(("decision", "hours"), [("hour", 1), ("day", 24)])
def test_a_level_of_an_asker_is_approved_for_a_while(
    inside: Browser, ledger: Ledger, decision: str, hours: int
) -> None:
    asked = wait(ledger)
    wait(ledger, 2, asker="bank")
    before = waits.utc()
    assert decide(inside, asked.id, decision).status == 303
    (allowed,) = ledger.allowed
    assert (allowed.asker, allowed.level) == ("uni", "statistics")
    span = timedelta(hours=hours)
    assert before + span - timedelta(seconds=1) <= allowed.until <= waits.utc() + span
    assert elsewhere(ledger)["states"] == ["approved", "waiting"]
    page = inside.get().text
    assert "Answered without your decision" in page and f"approval/{allowed.id}" in page
    # The same form, sent again, does not begin anew.
    rows = len(ledger.entries())
    assert decide(inside, asked.id, decision).status == 303
    assert len(ledger.entries()) == rows


def test_an_approval_for_a_while_is_ended(inside: Browser, ledger: Ledger) -> None:
    decide(inside, wait(ledger).id, "day")
    (allowed,) = ledger.allowed
    target = f"/approval/{allowed.id}"
    assert "End it now" in inside.get(target).text and ledger.allowed == (allowed,)
    assert inside.post(target, token=inside.token()).status == 400
    assert inside.post(target, decision="end").status == 403
    assert ledger.allowed == (allowed,)
    assert inside.post(target, token=inside.token(), decision="end").status == 303
    assert elsewhere(ledger)["allowed"] == []
    assert wait(ledger, 2).state == "waiting"
    assert inside.get(target).status == 404
    assert inside.post(target, token=inside.token(), decision="end").status == 404


def test_who_decided_is_shown(inside: Browser, ledger: Ledger, monkeypatch: Any) -> None:
    monkeypatch.setenv("SUDO_USER", "anna<b>")
    asked = wait(ledger)
    decide(inside, asked.id, "hour")
    (allowed,) = ledger.allowed
    assert allowed.by.startswith("anna<b> as ")
    for path in ("/", f"/question/{asked.id}", f"/approval/{allowed.id}"):
        text = inside.get(path).text
        assert "anna&lt;b&gt; as " in text and "anna<b>" not in text


@pytest.mark.heavy
def test_pause_and_resume(inside: Browser, ledger: Ledger) -> None:
    assert inside.post("/pause", token=inside.token(), decision="pause").status == 303
    assert elsewhere(ledger)["paused"]
    assert "Paused: nothing is disclosed" in inside.get().text
    assert inside.post("/pause", token=inside.token(), decision="resume").status == 303
    assert not elsewhere(ledger)["paused"]
    assert "Not paused" in inside.get().text


def test_what_another_process_decided_is_seen(inside: Browser, ledger: Ledger) -> None:
    asked = wait(ledger)
    assert "Save the decision" in inside.get(f"/question/{asked.id}").text
    ledger.decide(asked.id, approved=False)
    late = decide(inside, asked.id, "once")
    assert late.status == 409 and "approval-decided" in late.text
    assert decide(inside, asked.id, "hour").status == 303 and ledger.allowed == ()
    assert "It was finally denied" in inside.get(f"/question/{asked.id}").text


def test_a_question_that_lapsed_says_so(
    inside: Browser, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = wait(ledger)
    later = waits.utc() + timedelta(days=15)
    monkeypatch.setattr(waits, "utc", lambda: later)
    page = inside.get(f"/question/{asked.id}")
    assert "It expired" in page.text and "<form" not in page.text
    late = decide(inside, asked.id, "once")
    assert late.status == 409 and "approval-expired" in late.text
    assert "expired: no decision" in inside.get().text
    assert elsewhere(ledger)["states"] == ["waiting"]  # by the true clock


@pytest.mark.parametrize("id", ["000000000000", "0000", "x", "..%2f..", "%00", "*"])
def test_a_question_that_is_none(inside: Browser, ledger: Ledger, id: str) -> None:
    wait(ledger)
    assert inside.get(f"/question/{id}").status == 404
    assert decide(inside, id, "once").status == 404
    assert ledger.waiting[0].state == "waiting"


def test_what_was_told_and_what_is_left(kit: Kit, inside: Browser, ledger: Ledger) -> None:
    ledger.reserve(key(4), mu=0.1, budget=1, mechanism="discrete Gaussian, sketch", asker="uni")
    ledger.commit(key(4), b"SECRET-ANSWER")
    ledger.note(key(5), level="record", question="interpolate", asker="uni")
    ledger.note(key(6), level="statistics", question="secure-distance", asker="bank", most=3)
    ledger.store_answer(key(6), b"SECRET-ANSWER")
    ledger.refuse("records", "policy-level", "bank")
    ledger.log_question(
        {"asker": "uni", "run": "r", "round": 1, "question": "interpolate", "level": "record",
         "bytes": 1234, "mu": 0.0}
    )  # fmt: skip
    text = unescape(re.sub(r"<[^>]+>", "", inside.get().text))
    assert "Records were disclosed." in text and "the answers to uni (1 answer)" in text
    spent = f"epsilon {epsilon_of(0.1, 1e-5):.3g} (mu 0.1)"
    assert f"1 answer, {spent}" in text
    assert f"{spent.capitalize()} of 1 spent" in text
    assert "1 of 3 computed, 2 left" in text
    assert "To every asker, without limit: the averages of all columns" in text
    assert "its policy does not allow this disclosure level (policy-level)" in text
    assert "answered, 1,234 bytes" in text
    assert "SECRET" not in text


ODD = st.text(st.characters(exclude_categories=["Cs"]), max_size=220)
PLANTED = st.sampled_from(
    ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "{{ 7 * 7 }}", "&amp;",
     "\u202eevil", "\x1b[31m", "x" * 200, "מרכז רפואי", "' or 1=1 --", "\x00", "</style>"]
)  # fmt: skip


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(asker=PLANTED | ODD, kind=PLANTED | ODD, code=PLANTED | ODD)
def test_texts_of_others_are_texts(
    kit: Kit, inside: Browser, ledger: Ledger, asker: str, kind: str, code: str
) -> None:
    asked = len(ledger.entries()) + 1
    waiting = wait(ledger, asked, asker=asker, question=kind)
    ledger.refuse(kind, code, asker)
    ledger.note(key(asked), level="record", question=kind, asker=asker)
    log = {"asker": asker, "question": kind, "level": code, "code": code, "bytes": kind}
    ledger.log_question(log)
    for page in (inside.get(), inside.get(f"/question/{waiting.id}")):
        assert page.status == 200
        for tag in ("<script", "<img", "</style>\n</style", "onerror=alert(1)>\n"):
            assert tag not in page.text
        shown = re.sub(r"\s", " ", page.text).replace("\u2068", "").replace("\u2069", "")
        assert shown.isprintable() or not [c for c in shown if not c.isprintable()]
        assert page.text.count("<style>") == 1 and page.text.count("<form") <= 1


def test_a_ledger_that_went_is_said_and_comes_back(inside: Browser, ledger: Ledger) -> None:
    path = Path(str(ledger.path))
    away = path.with_suffix(".away")
    ledger.pause()
    ledger.close()
    assert inside.get().status == 200
    path.rename(away)
    page = inside.get()
    assert page.status == 503 and "ledger-gone" in page.text
    away.rename(path)
    assert inside.get().status == 200


def test_a_policy_that_is_none_is_said(kit: Kit, inside: Browser) -> None:
    policy = SiteConfiguration.load(kit).policy
    assert policy is not None
    policy.write_text("levle: record\n")
    page = inside.get()
    assert page.status == 503 and "policy-field" in page.text
    policy.write_text(RULES)
    assert inside.get().status == 200


def test_a_port_that_is_taken_and_a_site_that_did_not_join(kit: Kit) -> None:
    console = Console(kit)
    try:
        with pytest.raises(FileError, match="port-taken"):
            Console(kit, port=int(console.host.split(":")[1]))
    finally:
        console.close()
    (kit.folder / "silot" / "site.json").unlink()
    with pytest.raises(FileError, match="kit-format"):
        Console(kit)


def test_it_is_on_this_machine_alone(kit: Kit) -> None:
    console = Console(kit)
    try:
        assert console._socket.getsockname()[0] == "127.0.0.1"
        assert console.url.startswith("http://127.0.0.1:")
    finally:
        console.close()


def test_every_kind_of_question_and_level_has_its_words() -> None:
    assert set(KINDS) == set(question_kinds())
    assert {str(each.level) for each in question_kinds().values()} <= set(LEVELS)


def test_the_command_prints_the_link_and_ends_well(
    kit: Kit, monkeypatch: pytest.MonkeyPatch
) -> None:
    from silot.cli.app import build

    def interrupted(console: Console) -> None:
        console.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(Console, "serve", interrupted)
    done = CliRunner().invoke(build("site", "console"), ["site", "console", str(kit.folder)])
    assert done.exit_code == 0
    assert re.search(r"http://127\.0\.0\.1:\d+/\w+/enter/\S+\n", done.stdout)
    assert done.stdout.endswith("closed\n")
