"""Sites over a wire that loses messages, beside processes that die: results as of a local run."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.distances import direct
from silot.errors import (
    FileError,
    HolderError,
    MismatchError,
    WaitingError,
    WireError,
    nature_of,
    said_of_holder,
)
from silot.federation import Holder, LocalFederation
from silot.federation.answer import Failure, encode_reply
from silot.federation.exchange import Limits, Unreached
from silot.federation.message import pack, unpack
from silot.federation.sealed import Sealed
from silot.privacy import Ledger
from silot.sites import checks, credential, statements
from silot.sites import site as module
from silot.sites.authority import Role, verify_member
from silot.sites.connection import Carry, Sites
from silot.sites.credential import read_presence, write_presence
from silot.sites.descriptions import describe_site
from silot.sites.journal import Journal
from silot.sites.site import Site

from .project import ASKER, asker, authority, carry, identity, revoking, sites

pytestmark = pytest.mark.all_cases

NAMES = ["north", "south", "west"]
QUICK = Limits(deadline=60.0, first_pause=0.001, longest_pause=0.002)


def rows(name: str) -> Measure:
    rng = np.random.default_rng(NAMES.index(name))
    # Enough for a sketch, whatever the noise of the count.
    count = 510 + 5 * NAMES.index(name)
    return Measure(
        rng.normal(size=(count, 3)) + NAMES.index(name), weights=rng.uniform(0.5, 2, count)
    )


def party(name: str, folder: Path, rules: Policy | None = None) -> Holder:
    """As a process of the site makes it, again and again, from what is on its disk."""
    rules = rules or Policy(level="record", privacy_epsilon=1.0)
    return Holder(rows(name), rules, Ledger(folder / f"{name}.ledger", state=folder))


COMPUTATIONS: dict[str, Callable[[Any], Any]] = {
    "direct": lambda fed: silot.distance("north", "south", federation=fed),
    "fedwad": lambda fed: silot.distance(
        "north", "south", method="fedwad", support=10, rounds=4, federation=fed
    ),
    "trianglewad": lambda fed: silot.distance(
        "north", "south", method="trianglewad", support=12, federation=fed
    ),
    "matrix": lambda fed: silot.distance_matrix(fed),
    "barycenter": lambda fed: silot.barycenter(fed, support=8, rounds=3),
}


def plain(result: Any) -> dict[str, Any]:
    """What a result says, but for clocks."""

    def timeless(body: Any) -> Any:
        if isinstance(body, dict):
            return {key: timeless(value) for key, value in body.items() if key != "seconds"}
        return [timeless(value) for value in body] if isinstance(body, list) else body

    return timeless(result.to_dict())


@pytest.fixture
def local(tmp_path: Path) -> LocalFederation:
    folder = tmp_path / "local"
    folder.mkdir()
    return LocalFederation({name: party(name, folder) for name in NAMES}, asker=ASKER)


@pytest.mark.heavy
@pytest.mark.parametrize("name", COMPUTATIONS)
def test_results_are_those_of_a_local_run(
    name: str, tmp_path: Path, local: LocalFederation
) -> None:
    there = Sites(asker(), carry(sites({n: party(n, tmp_path) for n in NAMES})), NAMES)
    assert plain(COMPUTATIONS[name](there)) == plain(COMPUTATIONS[name](local))


class Failing(Holder):
    """Fails so many times with a code before it answers."""

    code, times = "ledger-locked", 2

    def reply(self, message: bytes, *words: Any) -> bytes:
        if self.times > 0:
            self.times -= 1
            return encode_reply(Failure(self.code))
        return super().reply(message, *words)


@pytest.mark.parametrize("code", ["ledger-locked", "ledger-full", "data-changed", "holder-raised"])
def test_a_fault_that_passes_is_tried_again_and_no_other(tmp_path: Path, code: str) -> None:
    north = Failing(rows("north"), Policy(level="record"), Ledger())
    north.code = code
    there = Sites(
        asker(), carry(sites({"north": north, "south": party("south", tmp_path)})), NAMES[:2],
        limits=QUICK,
    )  # fmt: skip
    if nature_of(code) == "passes":
        assert silot.distance("north", "south", federation=there).converged
        # For good: the deadline ends it, and its own code is given.
        north.times = 10**9
        there = Sites(
            asker(), carry(sites({"north": north, "south": party("south", tmp_path)})), NAMES[:2],
            limits=replace(QUICK, deadline=0.5),
        )  # fmt: skip
    with pytest.raises(HolderError) as caught:
        silot.distance("north", "south", federation=there)
    assert caught.value.code == code


class Faults:
    """A wire to sites that die at one message: before it, or after they answered it."""

    def __init__(self, folder: Path, at: int, after: bool) -> None:
        self.folder, self.at, self.after = folder, at, after
        self.sent = 0
        self.sites = {name: self.started(name) for name in NAMES}

    def started(self, name: str) -> Site:
        return Site(party(name, self.folder), identity(name))

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        self.sent += 1
        dies = self.sent == self.at
        if dies and not self.after:
            self.sites[name] = self.started(name)
            raise Unreached
        reply = self.sites[name].handle(data)
        if dies:
            self.sites[name] = self.started(name)
            raise Unreached
        return reply


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
def test_a_site_that_dies_at_any_message_changes_nothing(
    tmp_path: Path, local: LocalFederation, after: bool
) -> None:
    expected = plain(COMPUTATIONS["fedwad"](local))
    at, done = 1, False
    while not done:
        folder = tmp_path / f"{at}"
        folder.mkdir()
        wire = Faults(folder, at, after)
        found = Sites(asker(), wire, NAMES, limits=replace(QUICK, in_flight=1))
        assert plain(COMPUTATIONS["fedwad"](found)) == expected
        done, at = wire.sent < at, at + 1
    assert at > 12


@pytest.mark.heavy
@pytest.mark.parametrize("at", range(2, 7))
def test_a_release_is_charged_once_and_says_so(tmp_path: Path, at: int) -> None:
    """Whether the question was lost, or the answer, after the charge."""
    for after in (False, True):
        folder = tmp_path / f"{after}"
        folder.mkdir()
        wire = Faults(folder, at, after)
        found = Sites(asker(), wire, NAMES, limits=replace(QUICK, in_flight=1))
        public = np.random.default_rng(7).normal(size=(200, 3))
        result = silot.distance("north", "south", method="sketch", public=public, federation=found)
        with Ledger(folder / "north.ledger", state=folder) as ledger:
            # How many records there are, and the sketch.
            assert sum(row.event == "reserve" for row in ledger.entries()) == 2
            assert result.cost.privacy_mu == pytest.approx(ledger.spent)


@pytest.mark.heavy
@pytest.mark.parametrize("at", range(1, 9))
def test_a_coordinator_that_dies_goes_on_from_its_journal(
    tmp_path: Path, local: LocalFederation, at: int
) -> None:
    expected = plain(COMPUTATIONS["fedwad"](local))
    there = {name: party(name, tmp_path) for name in NAMES}
    through, sent = carry(sites(there)), 0

    def dying(name: str, data: bytes, seconds: float) -> bytes:
        nonlocal sent
        sent += 1
        if sent > at:
            raise SystemExit
        return through(name, data, seconds)

    path, limits = tmp_path / "run.journal", replace(QUICK, in_flight=1)
    journal = Journal(path, asker().key)
    with pytest.raises(HolderError):
        COMPUTATIONS["fedwad"](
            Sites(asker(), dying, NAMES, limits=limits, journal=journal, run="one")
        )
    kept = len(journal)
    journal.close()
    # Cut off in the middle of a reply, as a crash leaves it.
    with path.open("ab") as handle:
        handle.write((1 << 40).to_bytes(8, "big") + b"half")
    again = Journal(path, asker().key)
    assert len(again) == kept
    counted: list[str] = []

    def counting(name: str, data: bytes, seconds: float) -> bytes:
        counted.append(name)
        return through(name, data, seconds)

    found = Sites(asker(), counting, NAMES, journal=again, run="one")
    assert plain(COMPUTATIONS["fedwad"](found)) == expected
    total = len(again)
    # What was told before was not asked again; a hello for each site at most.
    assert len(counted) <= total - kept + 2
    done = Sites(asker(), lambda *_: b"", NAMES, journal=again, run="one")
    assert plain(COMPUTATIONS["fedwad"](done)) == expected


def test_a_journal_hides_what_it_holds(tmp_path: Path) -> None:
    key = asker().key
    journal = Journal(tmp_path / "a.journal", key)
    journal.keep("north", b"question", b"a secret reply")
    assert journal.find("north", b"question") == b"a secret reply"
    assert journal.find("south", b"question") is None
    journal.close()
    body = (tmp_path / "a.journal").read_bytes()
    assert b"secret" not in body
    assert b"north" not in body
    with pytest.raises(FileError, match="journal-format"):
        Journal(tmp_path / "a.journal", identity("north").key)
    (tmp_path / "b.journal").write_bytes(body[:40] + bytes([body[40] ^ 1]) + body[41:])
    with pytest.raises(FileError, match="journal-format"):
        Journal(tmp_path / "b.journal", key)
    (tmp_path / "c.journal").write_text("something else entirely")
    with pytest.raises(FileError, match="journal-format"):
        Journal(tmp_path / "c.journal", key)
    assert (tmp_path / "c.journal").read_text() == "something else entirely"


def test_replies_of_a_journal_stay_where_they_were_written(tmp_path: Path) -> None:
    key, path = asker().key, tmp_path / "a.journal"
    sizes = [0]
    with closing(Journal(path, key)) as journal:
        sizes[0] = path.stat().st_size
        for name in ("north", "south"):
            journal.keep(name, b"question", b"reply of the site")
            sizes.append(path.stat().st_size)
    body = path.read_bytes()
    head, first, second = (body[begin:end] for begin, end in zip([0, *sizes], sizes, strict=False))
    for moved in (head + second + first, head + second, head + first + first):
        path.write_bytes(moved)
        with pytest.raises(FileError, match="journal-format"):
            Journal(path, key)
    path.write_bytes(head + first + second[:-1])
    with closing(Journal(path, key)) as journal:
        assert len(journal) == 1


def test_a_reply_of_a_journal_stays_with_its_note(tmp_path: Path) -> None:
    """Two journals of one salt have at the same place a reply each: neither goes with the other."""
    key, bodies = asker().key, list[bytes]()
    start, kept = tmp_path / "start", [b"one reply", b"another 1"]
    Journal(start, key).close()
    for place, reply in zip(("a", "b"), kept, strict=True):
        (tmp_path / place).write_bytes(start.read_bytes())
        with closing(Journal(tmp_path / place, key)) as journal:
            journal.keep("north", b"question", reply)
            assert journal.find("north", b"question") == reply
        bodies.append((tmp_path / place).read_bytes())
    locked = len(kept[0]) + 12 + 16
    (tmp_path / "c").write_bytes(bodies[0][:-locked] + bodies[1][-locked:])
    error = pytest.raises(FileError, match="journal-format")
    with closing(Journal(tmp_path / "c", key)) as journal, error:
        journal.find("north", b"question")


def test_a_journal_that_cannot_be_written_stops_the_run(tmp_path: Path) -> None:
    class Full(Journal):
        def keep(self, name: str, message: bytes, reply: bytes, again: int = 0) -> None:
            raise self._unwritable(OSError())

    there = sites({name: party(name, tmp_path) for name in NAMES})
    found = Sites(asker(), carry(there), NAMES, journal=Full(tmp_path / "j", asker().key))
    with pytest.raises(FileError, match="journal-unwritable"):
        found.run(direct("north", "south"))


def test_a_question_waits_and_the_run_goes_on(tmp_path: Path, local: LocalFederation) -> None:
    rules = Policy(level="record", ask=["record"])
    there = sites({"north": party("north", tmp_path, rules), "south": party("south", tmp_path)})
    journal = Journal(tmp_path / "run.journal", asker().key)
    for _ in range(2):
        with pytest.raises(WaitingError, match="'north' waiting"):
            Sites(asker(), carry(there), NAMES, journal=journal).run(direct("north", "south"))
    with Ledger(tmp_path / "north.ledger", state=tmp_path) as ledger:
        (held,) = ledger.waiting
        assert held.asker == ASKER
        ledger.decide(held.id, approved=True)
    found = Sites(asker(), carry(there), NAMES, journal=journal).run(direct("north", "south"))
    assert plain(found) == plain(local.run(direct("north", "south")))


def test_whatever_keeps_a_site_from_answering_has_a_cure() -> None:
    """Of codes alone nobody knows what to do."""
    codes = set[str]()
    for source in (module, credential, checks):
        codes |= set(re.findall(r'code="([a-z-]+)"', inspect.getsource(source)))
    codes |= set(re.findall(r'"(certificate-[a-z]+)"', inspect.getsource(verify_member)))
    assert {"certificate-revoked", "server-expired", "silot-version", "question-site"} <= codes
    assert {code for code in codes if said_of_holder(code) == said_of_holder("")} == set()


def failed(wire: Carry, code: str, who: Any = None, kind: type[Exception] = HolderError) -> None:
    limits = Limits(deadline=2.0, first_pause=0.01)
    with pytest.raises(kind) as caught:
        Sites(who or asker(), wire, NAMES, limits=limits).run(direct("north", "south"))
    assert getattr(caught.value, "code", "") == code


def test_who_is_nobody_of_the_project_is_refused(tmp_path: Path) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})
    stranger = identity(ASKER, Role.ASKER, "other")
    # Of another project, and knowing this project's root.
    failed(carry(there), "certificate-authority", stranger)
    failed(
        carry(there), "certificate-authority",
        replace(stranger, root=authority().certificate), MismatchError,
    )  # fmt: skip
    # A site's certificate does not ask.
    failed(carry(there), "certificate-role", identity("east"))
    gone = {n: Site(party(n, tmp_path), revoking(identity(n), asker())) for n in NAMES}
    failed(carry(gone), "certificate-revoked")


def test_a_site_signs_where_it_runs() -> None:
    north, south = identity("north"), identity("south")
    said = write_presence(north, b"here")
    assert read_presence(said, south) == ("north", b"here")
    elsewhere = pack(unpack(said) | {"place": b"there"})
    borrowed = pack(unpack(said) | {"credential": south.credential.pack()})
    for data in (elsewhere, borrowed, write_presence(asker(), b"here")):
        with pytest.raises(MismatchError) as caught:
            read_presence(data, south)
        assert caught.value.code == "certificate-role"
    with pytest.raises(MismatchError) as caught:
        read_presence(said, revoking(south, north))
    assert caught.value.code == "certificate-revoked"
    with pytest.raises(MismatchError) as caught:
        read_presence(write_presence(identity("north", project="other"), b"here"), south)
    assert caught.value.code == "certificate-authority"
    for data in (b"", b"garbage", pack({"place": b"x"}), pack(unpack(said) | {"proof": 1})):
        with pytest.raises(WireError):
            read_presence(data, south)


@pytest.mark.heavy
def test_sites_that_are_not_who_they_should_be(tmp_path: Path) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})
    # South answers in the name of north.
    failed(carry({**there, "north": there["south"]}), "certificate-name")
    failed(
        carry({**there, "north": Site(party("north", tmp_path), identity("north", project="o"))}),
        "certificate-authority",
    )
    failed(carry(there), "certificate-revoked", revoking(asker(), identity("north")))
    failed(carry({"south": there["south"]}), "holder-unreachable")


@pytest.mark.parametrize("side", ["certificate-early", "certificate-expired"])
def test_clocks_and_certificates_that_are_over(
    tmp_path: Path, side: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})
    days = -2 if side == "certificate-early" else 400

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> datetime:
            return datetime.now(UTC) + timedelta(days=days)

    from silot.sites import authority as dated

    who = asker()
    found = Sites(who, carry(there), NAMES, limits=QUICK)
    monkeypatch.setattr(dated, "datetime", Clock)
    with pytest.raises(HolderError, match=side):
        found.run(direct("north", "south"))


def test_another_silot_is_refused_at_both_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})

    def older(name: str, data: bytes, seconds: float) -> bytes:
        body = unpack(data)
        assert isinstance(body, dict)
        return there[name].handle(data if "hello" in body else pack({**body, "silot": "9.0.1"}))

    failed(older, "silot-version")
    monkeypatch.setattr(module, "__version__", "9.0.1")
    failed(carry(there), "silot-version")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("__version__", "0.1.0+g1234567", "silot 0.1.0+g1234567 (warning: this machine has "),
        ("__version__", "0.2.0", "[silot-version] "),
        ("VERSION", 2, "[wire-version] it reads another version of the message format"),
    ],
)
def test_a_check_says_which_site_runs_another_commit_or_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: object, expected: str
) -> None:
    sites_ = Sites(asker(), carry(sites({"north": party("north", tmp_path)})), ["north"])
    assert "warning" not in describe_site(statements.ask_about(sites_, "north"))
    # Of what the site writes alone: the asker reads the constants of other modules.
    monkeypatch.setattr(module, name, value)
    sites_ = Sites(asker(), carry(sites({"north": party("north", tmp_path)})), ["north"])
    assert expected in describe_site(statements.ask_about(sites_, "north"))


def test_replies_of_other_runs_and_questions_are_refused(tmp_path: Path) -> None:
    through = carry(sites({name: party(name, tmp_path) for name in NAMES}))
    kept: list[bytes] = []

    def replaying(name: str, data: bytes, seconds: float) -> bytes:
        reply = through(name, data, seconds)
        if len(data) > 500 and name == "north":
            kept.append(reply)
            return kept[0]
        return reply

    Sites(asker(), replaying, NAMES).run(direct("north", "south"))
    failed(replaying, "answer-question")


@pytest.mark.parametrize("at", [0, 40, 300, 2000, -1])
def test_messages_that_were_changed_on_their_way(tmp_path: Path, at: int) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})

    def changing(to: bool) -> Carry:
        def changed(name: str, data: bytes, seconds: float) -> bytes:
            if to and len(data) > 500:
                data = flipped(data, at)
            reply = there[name].handle(data)
            return reply if to or len(data) < 500 else flipped(bytes(reply), at)

        return changed

    for to in (True, False):
        with pytest.raises((HolderError, MismatchError)) as caught:
            Sites(asker(), changing(to), NAMES, limits=QUICK).run(direct("north", "south"))
        assert getattr(caught.value, "code", "holder-raised") != "holder-raised"


def flipped(data: bytes, at: int) -> bytes:
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]


@pytest.mark.parametrize("data", [b"", b"\x00" * 64, b"x" * (1 << 20), pack({"hello": True}) * 2])
def test_garbage_is_refused_in_few_bytes(tmp_path: Path, data: bytes) -> None:
    noted: list[Any] = []
    there = Site(party("north", tmp_path), identity("north"), note=noted.append)
    assert module.read_refusal(there.handle(data)) in ("wire-format", "site-raised")
    assert len(there.handle(data)) < 200
    assert set(noted[0]) <= {"refused", "error", "message"}


def test_a_site_says_what_it_is_and_notes_who_asked(tmp_path: Path) -> None:
    noted: list[Any] = []
    facts = {"schema": "5fd8"}
    there = Site(
        party("north", tmp_path), identity("north"), note=noted.append, facts=lambda: facts
    )
    found = Sites(asker(), carry({"north": there}), ["north"]).about("north")
    assert found.name == "north"
    assert found.silot == silot.__version__
    assert abs(found.clock) < 5
    assert found.facts == facts
    assert found.until > datetime.now(UTC) + timedelta(days=300)
    assert noted == []


def test_nothing_is_told_of_data_that_changed(tmp_path: Path) -> None:
    there = sites({name: party(name, tmp_path) for name in NAMES})
    there["north"] = Site(party("north", tmp_path), identity("north"), fresh=lambda: "data-changed")
    failed(carry(there), "data-changed")


def test_what_a_party_raises_stays_at_its_site(tmp_path: Path) -> None:
    class Broken(Holder):
        def reply(self, message: bytes, asker: str = "", run: str = "") -> bytes:
            raise ValueError("record 17: Smith, 42")

    there = sites({name: party(name, tmp_path) for name in NAMES})
    there["north"] = Site(Broken(rows("north")), identity("north"))
    failed(carry(there), "holder-raised")


def test_a_sealed_question_names_its_site(tmp_path: Path) -> None:
    there = Site(party("north", tmp_path), identity("north"))
    question = Sealed(
        kind="question", author=ASKER, question=b"", facts={"holder": "south"}, run="r"
    )
    data = asker().write(question, identity("north").credential.key)
    assert module.read_refusal(there.handle(data)) == "question-site"


def test_asked_again_while_it_computes_a_site_computes_once(tmp_path: Path) -> None:
    computed: list[int] = []

    class Counting(Holder):
        def reply(self, message: bytes, asker: str = "", run: str = "") -> bytes:
            computed.append(len(message))
            return super().reply(message, asker, run)

    rules = Policy(level="record")
    there = {
        name: Site(Counting(rows(name), rules, Ledger(tmp_path / name)), identity(name))
        for name in NAMES
    }
    lost = dict.fromkeys(NAMES, 3)

    def losing(name: str, data: bytes, seconds: float) -> bytes:
        reply = there[name].handle(data)
        if len(data) > 500 and lost[name]:
            lost[name] -= 1
            raise Unreached
        return reply

    Sites(asker(), losing, NAMES, limits=QUICK).run(direct("north", "south"))
    assert len(computed) == 2
