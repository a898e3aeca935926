"""An exchange: few at a time, lost messages again, nobody waited for past the deadline."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot.distances import direct
from silot.errors import HolderError, InputError
from silot.federation import LocalFederation
from silot.federation.answer import Failure
from silot.federation.exchange import LARGEST_FLIGHT, Limits, Unreached, exchange
from silot.federation.run import Reply

pytestmark = pytest.mark.all_cases

QUICK = Limits(deadline=60.0, first_pause=0.001, longest_pause=0.004)


def clock() -> float:
    return 0.0


def bodies(names: int) -> dict[str, bytes]:
    return {f"site{k}": str(k).encode() for k in range(names)}


@given(st.dictionaries(st.integers(0, 9), st.integers(0, 4), min_size=1))
def test_what_is_lost_is_asked_again_until_it_comes(losses: dict[int, int]) -> None:
    messages = bodies(10)
    tries = Counter[str]()
    lock = threading.Lock()

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        with lock:
            tries[name] += 1
            lost = tries[name] <= losses.get(int(message), 0)
        if lost:
            raise Unreached
        return name.encode() + message

    replies = exchange(messages, ask, clock, QUICK)
    assert replies == {n: Reply(n.encode() + m, 0.0) for n, m in messages.items()}
    assert tries == {n: 1 + losses.get(int(m), 0) for n, m in messages.items()}


def test_who_is_never_reached_fails_by_the_deadline() -> None:
    def ask(name: str, message: bytes, seconds: float) -> bytes:
        if name == "site0":
            raise Unreached("holder-apart")
        if name == "site1":
            raise ValueError("a record: 42")
        return message

    replies = exchange(bodies(3), ask, clock, Limits(deadline=2.0, first_pause=0.01))
    assert replies["site0"] == Failure("holder-apart", "timeout")
    assert replies["site1"] == Failure("holder-raised")
    assert replies["site2"] == Reply(b"2", 0.0)


def test_a_party_is_told_how_long_it_has() -> None:
    seen: list[float] = []

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        seen.append(seconds)
        if len(seen) < 3:
            raise Unreached
        return message

    exchange(bodies(1), ask, clock, QUICK)
    assert 60.0 >= seen[0] > seen[1] > seen[2] > 0


@pytest.mark.parametrize("names", [1, LARGEST_FLIGHT, 3 * LARGEST_FLIGHT + 5])
def test_parties_that_hang_are_given_up_and_keep_few_threads(names: int) -> None:
    going_on = threading.Event()
    before = threading.active_count()

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        going_on.wait()
        return message

    replies = exchange(bodies(names), ask, clock, Limits(deadline=0.1))
    assert set(replies.values()) == {Failure("holder-timeout", "timeout")}
    assert threading.active_count() - before <= 2 * LARGEST_FLIGHT
    going_on.set()


def test_one_that_hangs_keeps_no_other_waiting() -> None:
    going_on = threading.Event()

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        if name != "site7":
            return message
        going_on.wait()
        return b"too late"

    limits = Limits(deadline=2.0, in_flight=1)
    replies = exchange(bodies(9), ask, clock, limits)
    assert replies.pop("site7") == Failure("holder-timeout", "timeout")
    assert all(isinstance(reply, Reply) for reply in replies.values())
    going_on.set()


def test_a_run_can_be_cancelled() -> None:
    cancelled, going_on = threading.Event(), threading.Event()

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        if name == "site0":
            return message
        cancelled.set()
        going_on.wait()
        return message

    replies = exchange(bodies(2), ask, clock, Limits(deadline=None, in_flight=1), cancelled)
    assert replies["site1"] == Failure("run-cancelled", "timeout")
    going_on.set()


def test_an_interruption_ends_the_asking(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()
    first = threading.Event()

    def ask(name: str, message: bytes, seconds: float) -> bytes:
        asked.append(name)
        first.set()
        raise Unreached

    def interrupted(self: object, cancelled: object) -> dict[str, Reply | Failure]:
        first.wait()
        raise KeyboardInterrupt

    from silot.federation import exchange as module

    monkeypatch.setattr(module._Work, "collect", interrupted)
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt):
        exchange(bodies(3), ask, clock, QUICK)
    waited(lambda: threading.active_count() <= before)


def waited(fits: Callable[[], bool]) -> None:
    end = time.monotonic() + 300
    while not fits():
        assert time.monotonic() < end
        threading.Event().wait(0.01)


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_thousand_parties_take_few_threads(timeout: float | None) -> None:
    most = 0

    class Party:
        def reply(self, message: bytes) -> bytes:
            nonlocal most
            most = max(most, threading.active_count())
            return b"no reply"

    before = threading.active_count()
    names = [f"site{k}" for k in range(1000)]
    federation = LocalFederation({name: Party() for name in names}, timeout=timeout)
    with pytest.raises(HolderError):
        federation.run(direct(names[0], names[1]))
    federation.exchange(dict.fromkeys(names, b""), clock)
    assert most - before <= 64


@pytest.mark.parametrize("options", [{"deadline": 0}, {"in_flight": 0}, {"in_flight": 33}])
def test_limits_that_are_none(options: dict[str, int]) -> None:
    with pytest.raises(InputError, match="option-"):
        Limits(**options)
