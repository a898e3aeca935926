"""Secure distances between sites: who may, what is charged, and what ends them; no engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.errors import ExtraError, HolderError, InputError, RefusedError, WaitingError
from silot.federation.exchange import Limits, Unreached
from silot.privacy.ledger import Ledger
from silot.sites import secure_holder, secure_sites
from silot.sites.configuration import SiteConfiguration, open_site
from silot.sites.journal import Journal
from silot.sites.kit import Kit
from silot.sites.secure import SecureOptions
from silot.sites.secure.distance import Outcome
from silot.sites.secure.questions import SecureDistance
from silot.sites.secure_sites import SecureSites
from silot.sites.site import Site

from .here import ASKER, project_in

pytestmark = pytest.mark.all_cases

NAMES = ("north", "south")
RNG = np.random.default_rng(0)
ROWS = {name: RNG.normal(size=(30, 24)) for name in NAMES}
PLACES = {"north": "n.example:1", "south": "s.example:2", ASKER: "u.example:3"}
RULES: dict[str, Any] = {"exact_secure": 3}


def links(own: str, *others: str) -> dict[str, Any]:
    peers = {name: PLACES[name] for name in others or PLACES if name != own}
    return {"listen": PLACES[own], "peers": peers}


class There:
    """SecureSites in this process, whose engine is a function."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        labels = np.array(["a"] * 30)
        self.kit = project_in(folder, {name: (rows, labels) for name, rows in ROWS.items()})
        self.asker_links(links(ASKER))
        self.sites: dict[str, Site] = {}
        self.journal = Journal(folder / "journal", self.kit.identity().key)
        self.played: list[str] = []
        self.work: dict[str, Callable[[Callable[[], None]], None]] = {}
        for name in NAMES:
            self.rules(name)

    def rules(self, name: str, **more: Any) -> None:
        body = {**RULES, "secure": links(name), **more}
        kit = Kit.load(self.folder / "kits" / name)
        joined = SiteConfiguration.load(kit)
        assert joined.policy is not None
        policy = joined.policy.with_suffix(".json")
        policy.write_text(silot.Policy(**body).model_dump_json())
        joined.model_copy(update={"policy": policy}).save(kit)
        self.start(name)

    def start(self, name: str) -> None:
        self.sites[name] = open_site(Kit.load(self.folder / "kits" / name))

    def asker_links(self, body: dict[str, Any] | None) -> None:
        file = self.kit.folder / "secure.yml"
        file.unlink(missing_ok=True)
        if body is not None:
            file.write_text(str(body).replace("'", '"'))

    def carry(self, name: str, data: bytes, seconds: float) -> bytes:
        return self.sites[name].handle(data)

    def asked(self, run: str = "one", **more: Any) -> SecureSites:
        limits = Limits(deadline=600.0, first_pause=0.001, longest_pause=0.01)
        given = {"limits": limits, "journal": self.journal, "run": run, "kit": self.kit, **more}
        return SecureSites(self.kit.identity(), given.pop("carry", self.carry), NAMES, **given)

    def distance(self, run: str = "one", **options: Any) -> Any:
        return silot.distance(*NAMES, method="secure", federation=self.asked(run), **options)

    def computed(
        self, role: str, links: Any, options: SecureOptions, measure: Any = None, pay: Any = None,
        *, check: Callable[[], None] = lambda: None,
    ) -> Outcome:  # fmt: skip
        name = links.names[role]
        assert set(links.addresses) == set(links.names)
        program = options.program((30, 30), 1, 24)
        self.played.append(name)
        if pay is not None:
            pay("session", program)
        self.work.get(name, lambda _: None)(check)
        opened = [4.0, 11.0] if role == options.receiver else []
        return Outcome(
            opened=opened, parts=1, sent=7, received=8, seconds=1.0, program=program,
            owners=("a", "b"),
        )  # fmt: skip

    def charges(self, name: str) -> int:
        with Ledger(self.folder / f"{name}.ledger") as ledger:
            return sum(row.event in ("count", "reserve") for row in ledger.entries())

    def refused(self, name: str) -> set[str]:
        with Ledger(self.folder / f"{name}.ledger") as ledger:
            return {row.mechanism for row in ledger.entries() if row.event == "refuse"}


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> There:
    made = There(tmp_path)
    for module in (secure_sites, secure_holder):
        monkeypatch.setattr(module, "compute_as_party", made.computed)
        monkeypatch.setattr(module, "find_spec", lambda _: True)
    return made


@pytest.mark.parametrize(
    ("options", "teller"),
    [({}, ASKER), ({"receiver": "b"}, "south"), ({"two_party": True}, "north")],
    ids=["third", "site", "two"],
)
def test_all_parties_take_part_and_one_is_told(
    there: There, options: dict[str, Any], teller: str
) -> None:
    found = there.distance(**options)
    assert found.value == 2.0
    members = {*NAMES} if options.get("two_party") else {*NAMES, ASKER}
    assert (set(there.played), len(there.played)) == (members, len(members))
    assert [each["bytes_sent"] for each in found.history] == [7.0] * len(members)
    assert ("sent it to the asker" in found.status) == (teller != ASKER)
    assert [there.charges(name) for name in NAMES] == [1, 1]
    # A run that is done is not computed again, nor asked for.
    there.carry = unreached  # type: ignore[method-assign]
    assert there.distance(**options).value == 2.0
    assert len(there.played) == len(members)


def unreached(name: str, data: bytes, seconds: float) -> bytes:
    raise Unreached


def test_the_matrix_is_made_pair_after_pair(there: There) -> None:
    found = silot.distance_matrix(there.asked(), method="secure")
    assert found.values[0, 1] == 2.0


def test_the_same_pair_twice_is_two_runs(there: There) -> None:
    sites = there.asked()
    for _ in range(2):
        silot.distance(*NAMES, method="secure", federation=sites)
    assert [there.charges(name) for name in NAMES] == [2, 2]


@pytest.mark.parametrize(
    ("rules", "code"),
    [
        ({"secure": None}, "secure-addresses"),
        ({"secure": links("south", "north")}, "secure-peer"),
        ({"questions": ["describe"]}, "policy-question"),
        ({"exact_secure": 0}, "policy-exact"),
    ],
)
def test_a_site_takes_part_under_its_own_rules_alone(
    there: There, rules: dict[str, Any], code: str
) -> None:
    there.rules("south", **rules)
    with pytest.raises(RefusedError) as caught:
        there.distance()
    assert caught.value.code == code
    assert (there.played, there.charges("north"), there.charges("south")) == ([], 0, 0)
    assert there.refused("south") == {code}


def test_a_policy_may_name_the_question(there: There) -> None:
    there.rules("south", questions=["secure-distance"])
    assert there.distance().value == 2.0


def test_exact_distances_are_opened_as_often_as_the_policy_says(there: There) -> None:
    there.rules("south", exact_secure=1)
    assert there.distance("one").value == 2.0
    with pytest.raises(RefusedError) as caught:
        there.distance("two")
    assert caught.value.code == "policy-exact"
    assert [there.charges(name) for name in NAMES] == [1, 1]
    assert there.refused("south") == {"policy-exact"}


def test_an_asker_needs_addresses_of_its_own_unless_it_is_no_party(there: There) -> None:
    there.asker_links(None)
    with pytest.raises(InputError, match=r"secure\.yml needs listen") as caught:
        there.distance()
    assert caught.value.code == "secure-addresses"
    there.asker_links({"listen": "u.example:3", "peers": {"north": "n.example:1"}})
    with pytest.raises(InputError, match="'south'") as caught:
        there.distance()
    assert caught.value.code == "secure-peer"
    there.asker_links({"listen": "nowhere"})
    with pytest.raises(InputError, match="host:port"):
        there.distance()
    assert there.distance(two_party=True).value == 2.0


def test_an_engine_that_is_absent_is_said(there: There, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_holder, "find_spec", lambda _: None)
    with pytest.raises(HolderError, match=r"silot\[secure\] is not installed there") as caught:
        there.distance()
    assert caught.value.code == "extra-secure"
    monkeypatch.setattr(secure_sites, "find_spec", lambda _: None)
    with pytest.raises(ExtraError, match="pip install"):
        there.distance()


def test_a_run_waits_for_a_person_and_is_approved_once(there: There) -> None:
    there.rules("north", ask=["statistics"])
    for _ in range(2):
        with pytest.raises(WaitingError, match="'north' waiting"):
            there.distance()
    assert there.played == []
    with Ledger(there.folder / "north.ledger") as ledger:
        (held,) = ledger.waiting
        assert (held.question, held.level, held.asker) == ("secure-distance", "statistics", ASKER)
        ledger.decide(held.id, approved=True)
    assert there.distance().value == 2.0
    with pytest.raises(WaitingError):
        there.distance("another run")


def lost(_: Callable[[], None]) -> None:
    raise HolderError("gone.", code="secure-lost")


def test_a_run_that_broke_off_is_charged_and_the_next_is_another(there: There) -> None:
    there.work = {"north": lost, ASKER: lost}
    with pytest.raises(HolderError) as caught:
        there.distance()
    assert caught.value.run.transcript.entries
    assert [there.charges(name) for name in NAMES] == [1, 1]
    there.work = {}
    assert there.distance().value == 2.0
    assert [there.charges(name) for name in NAMES] == [2, 2]


def test_what_ended_a_run_is_told_rather_than_that_it_ended(there: There) -> None:
    def fails(_: Callable[[], None]) -> None:
        raise InputError("too far.", code="secure-scale")

    def goes_on(check: Callable[[], None]) -> None:
        for _ in range(600):
            check()
            threading.Event().wait(0.1)

    there.work = {"south": fails, ASKER: goes_on}
    with pytest.raises(HolderError, match=r"'south'.*public scale") as caught:
        there.distance()
    assert caught.value.code == "secure-scale"


def test_a_cancelled_run_ends(there: There) -> None:
    sites = there.asked()

    def goes_on(check: Callable[[], None]) -> None:
        sites.cancel()
        for _ in range(600):
            check()
            threading.Event().wait(0.1)

    there.work = {ASKER: goes_on}
    with pytest.raises(HolderError) as caught:
        silot.distance(*NAMES, method="secure", federation=sites)
    assert caught.value.code == "run-cancelled"


class Lossy:
    """A wire that brings the message that begins a run again and again, before it is answered."""

    def __init__(self, there: There) -> None:
        self.there, self.begun = there, dict[str, bytes]()
        self.sent = dict.fromkeys(NAMES, 0)
        self.replies: list[bytes] = []
        self.threads: list[threading.Thread] = []

    def __call__(self, name: str, data: bytes, seconds: float) -> bytes:
        self.sent[name] += 1
        if self.sent[name] == 3:
            self.begun[name] = data
            self.threads.append(threading.Thread(target=self.lost, args=(name, data)))
            self.threads[-1].start()
            raise Unreached
        return self.there.carry(name, data, seconds)

    def lost(self, name: str, data: bytes) -> None:
        self.replies.append(self.there.carry(name, data, 0.0))


def test_a_message_that_comes_twice_begins_one_run(there: There) -> None:
    wire, meeting = Lossy(there), threading.Barrier(3)
    there.work = dict.fromkeys((*NAMES, ASKER), lambda _: meeting.wait(30.0) and None)
    federation = there.asked(carry=wire)
    assert silot.distance(*NAMES, method="secure", federation=federation).value == 2.0
    for thread in wire.threads:
        thread.join()
    assert len(there.played) == 3
    assert [there.charges(name) for name in NAMES] == [1, 1]
    # Replayed, also to a process that was started anew: the reply that is in the ledger.
    for name in NAMES:
        there.start(name)
        assert there.carry(name, wire.begun[name], 0.0)
    assert len(there.played) == 3
    assert [there.charges(name) for name in NAMES] == [1, 1]


def test_a_run_that_was_charged_is_not_begun_by_a_replay(there: There) -> None:
    wire = Lossy(there)
    there.work = {"north": lost, ASKER: lost}
    with pytest.raises(HolderError):
        silot.distance(*NAMES, method="secure", federation=there.asked(carry=wire))
    for thread in wire.threads:
        thread.join()
    there.start("north")
    there.carry("north", wire.begun["north"], 0.0)
    assert there.played.count("north") == 1
    assert there.refused("north") == {"secure-again"}


def test_a_site_computes_one_at_a_time_and_answers_others_meanwhile(there: There) -> None:
    for name in NAMES:
        there.rules(name, level="record")
    began, go_on = threading.Event(), threading.Event()

    def holds(_: Callable[[], None]) -> None:
        began.set()
        assert go_on.wait(60.0)

    there.work = {"north": holds}
    first = threading.Thread(target=there.distance)
    first.start()
    try:
        assert began.wait(60.0)
        sites = there.asked("three", journal=None)
        assert silot.distance(*NAMES, federation=sites).converged
        # That a site is busy passes by itself: it is asked again until it is not.
        threading.Timer(1.0, go_on.set).start()
        assert there.distance("two").value == 2.0
        assert there.played.count("north") == 2
    finally:
        go_on.set()
        first.join()
    assert there.distance("four").value == 2.0


def test_a_site_is_no_party_of_a_run_that_is_not_its_or_the_asker_s(there: There) -> None:
    members = {"a": "north", "b": "south", "third": ASKER}
    options = SecureOptions()
    for wrong in (
        {**members, "third": "west"}, {**members, "a": "west"}, {**members, "b": "north"},
        {"a": "north", "b": "south"}, {**members, "a": ASKER, "third": "north"},
    ):  # fmt: skip
        question = SecureDistance.of(options, wrong, "session")  # type: ignore[arg-type]
        for each in (question, replace(question, go=True)):
            said = there.sites["north"]._party.answer(each, ASKER)
            assert said.code == "secure-members"
    assert there.played == []


def test_sites_compute_in_pairs(there: There) -> None:
    rows = np.ones((3, 24))
    with pytest.raises(InputError) as caught:
        silot.pooled_distance(there.asked(), rows, method="secure")
    assert caught.value.code == "method-secure"
