"""A run on a runtime that is not the local one: the same result, cost and transcript."""

import queue
import threading
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from silot import Measure, Policy
from silot.distances.direct import direct
from silot.distances.fedwad import fedwad
from silot.distances.result import Distance
from silot.distances.trianglewad import trianglewad
from silot.errors import HolderError, InputError, MismatchError, RefusedError
from silot.federation import Failure, Holder, LocalFederation, Progress, Protocol
from silot.federation.run import RUNTIMES, Reply, Runtime, run, run_together

pytestmark = pytest.mark.all_cases

X = np.random.default_rng(0).normal(size=(30, 3))
HOLDERS = {"a": X, "b": X[:20] + 1.0}


class Queued:
    """Every party behind two queues of bytes, answering in the order it is asked."""

    def __init__(self, holders: Mapping[str, np.ndarray]) -> None:
        self._inbox: dict[str, queue.Queue[bytes]] = {}
        self._outbox: dict[str, queue.Queue[bytes]] = {}
        for name, points in holders.items():
            self._inbox[name], self._outbox[name] = queue.Queue(), queue.Queue()
            holder = Holder(Measure(points), Policy.open())
            threading.Thread(target=self._serve, args=(name, holder), daemon=True).start()

    def _serve(self, name: str, holder: Holder) -> None:
        while True:
            self._outbox[name].put(holder.reply(self._inbox[name].get()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._inbox)

    def exchange(
        self, messages: Mapping[str, bytes], clock: Callable[[], float]
    ) -> Mapping[str, Reply | Failure]:
        for name, message in messages.items():
            self._inbox[name].put(message)
        return {name: Reply(self._outbox[name].get(timeout=300), clock()) for name in messages}


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RUNTIMES, "queued", Queued)


@pytest.mark.parametrize("build", [direct, fedwad, trianglewad])
def test_another_runtime_makes_the_same_result_cost_and_transcript(
    queued: None, build: Callable[..., Protocol[Distance]]
) -> None:
    protocol = build("a", "b")
    here = LocalFederation(HOLDERS).run(protocol)
    there = run(protocol, HOLDERS, runtime="queued")
    costs = [result.to_dict() | {"seconds": 0.0} for result in (here, there)]
    assert costs[0] == costs[1]
    assert here.transcript is not None and there.transcript is not None
    messages = [
        [(entry.round, entry.holder, entry.direction, entry.payload) for entry in each.entries]
        for each in (here.transcript, there.transcript)
    ]
    assert messages[0] == messages[1]
    assert all(0 <= entry.seconds <= there.seconds for entry in there.transcript.entries)


def test_a_run_takes_parties_by_name_or_a_runtime_that_has_them() -> None:
    steps: list[Progress] = []
    first = run(direct("a", "b"), HOLDERS, progress=steps.append)
    assert [step.rounds for step in steps] == [1]
    federation = LocalFederation(HOLDERS)
    assert isinstance(federation, Runtime)
    assert run(direct("a", "b"), federation).value == first.value
    assert run(direct("a", "b"), Queued(HOLDERS)).value == first.value


def test_a_runtime_that_nobody_knows_and_a_holder_that_is_not_there() -> None:
    with pytest.raises(InputError, match="runtimes are local") as caught:
        run(direct("a", "b"), HOLDERS, runtime="pigeon")
    assert caught.value.code == "option-runtime"
    with pytest.raises(MismatchError) as other:
        run(direct("a", "c"), HOLDERS)
    assert other.value.code == "holder-unknown"


class Forgetful(Queued):
    """Leaves the reply of one party out, or says that there is none."""

    says: Failure | None = None

    def exchange(
        self, messages: Mapping[str, bytes], clock: Callable[[], float]
    ) -> Mapping[str, Reply | Failure]:
        replies = dict(super().exchange(messages, clock))
        del replies["b"]
        return replies if self.says is None else replies | {"b": self.says}


def test_an_absence_is_a_failure_never_silent() -> None:
    runtime = Forgetful(HOLDERS)
    for says, code in ((None, "holder-silent"), (Failure("holder-timeout", "timeout"),) * 2):
        runtime.says = says
        with pytest.raises(HolderError) as caught:
            run(direct("a", "b"), runtime)
        assert caught.value.code == getattr(code, "code", code)


def four() -> dict[str, np.ndarray]:
    return {name: X[: 10 + 5 * k] + 0.3 * k for k, name in enumerate("abcd")}


class Counting(Queued):
    """Counts exchanges, and parties asked in each."""

    def __init__(self, holders: Mapping[str, np.ndarray]) -> None:
        super().__init__(holders)
        self.asked: list[set[str]] = []

    def exchange(
        self, messages: Mapping[str, bytes], clock: Callable[[], float]
    ) -> Mapping[str, Reply | Failure]:
        self.asked.append(set(messages))
        return super().exchange(messages, clock)


def test_protocols_of_different_holders_share_exchanges_and_give_what_each_gives_alone() -> None:
    runtime, progress = Counting(four()), list[Progress]()
    protocols = [fedwad("a", "b", rounds=4, tol=0.0), direct("c", "d")]
    (first, second), cost = run_together(protocols, runtime, progress=progress.append)
    assert isinstance(first, Distance) and isinstance(second, Distance)
    alone = [run(protocol, Queued(four())) for protocol in protocols]
    for together, by_itself in zip((first, second), alone, strict=True):
        assert together.value == by_itself.value
        assert together.cost.rounds == by_itself.cost.rounds
        assert together.transcript is not None and by_itself.transcript is not None
        entries = zip(together.transcript.entries, by_itself.transcript.entries, strict=True)
        assert all(one.payload == other.payload for one, other in entries)
    assert cost.rounds == len(runtime.asked) == first.cost.rounds > second.cost.rounds
    assert runtime.asked[0] == {"a", "b", "c", "d"} and runtime.asked[-1] == {"a", "b"}
    assert cost.bytes_sent == sum(each.cost.bytes_sent for each in alone)
    assert len(progress) == first.cost.rounds + second.cost.rounds


def test_what_ends_one_of_several_protocols_ends_no_other() -> None:
    holders = {name: Holder(Measure(points), Policy.open()) for name, points in four().items()}
    holders["c"] = Holder(Measure(four()["c"]), Policy())
    protocols = [direct("a", "b"), direct("c", "d")]
    (first, second), cost = run_together(protocols, LocalFederation(holders))
    assert isinstance(first, Distance) and isinstance(second, RefusedError)
    assert second.run is not None and second.run.rounds == 1 and second.run.bytes_received > 0
    assert cost.bytes_received == first.bytes_received + second.run.bytes_received


def test_protocols_that_share_a_holder_are_not_run_together() -> None:
    with pytest.raises(MismatchError, match="share a holder"):
        run_together([direct("a", "b"), direct("b", "c")], LocalFederation(four()))
    with pytest.raises(MismatchError, match="there is no holder 'z'"):
        run_together([direct("a", "b"), direct("c", "z")], LocalFederation(four()))
