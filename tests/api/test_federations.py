"""Public functions on a federation: holders see to their own data, nothing is checked of these."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.federation import Failure, Holder, LocalFederation, Progress
from silot.federation.run import Reply
from silot.privacy import Ledger

RNG = np.random.default_rng(0)
DATA = {name: RNG.normal(size=(60, 2)) + k for k, name in enumerate("abc")}
VALIDATION = RNG.normal(size=(80, 2))


class Toy:
    """A runtime that asks one holder after the other, through bytes."""

    def __init__(self) -> None:
        self._holders = {name: Holder(Measure(x), Policy.open()) for name, x in DATA.items()}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._holders)

    def exchange(
        self, messages: Mapping[str, bytes], clock: Callable[[], float]
    ) -> Mapping[str, Reply | Failure]:
        return {name: Reply(self._holders[name].reply(m), clock()) for name, m in messages.items()}


class Own:
    """Names, and a way of its own to run: what ``distill`` takes too."""

    def __init__(self) -> None:
        self._inner = LocalFederation(DATA)
        self.names = self._inner.names

    def run(self, protocol: Any, *, progress: Callable[[Progress], None] | None = None) -> Any:
        return self._inner.run(protocol, progress=progress)


def strict(*questions: str, size: int = 1) -> LocalFederation:
    """Holders under policies, with ledgers: of releases, or of some exact statistics too."""
    level, kinds = ("statistics", frozenset(questions)) if questions else ("private", None)
    policy = Policy(level=level, questions=kinds, privacy_epsilon=4.0)  # type: ignore[arg-type]
    return LocalFederation(
        {name: Holder(Measure(np.tile(x, (size, 1))), policy, Ledger()) for name, x in DATA.items()}
    )


CALLS: dict[str, Callable[[Any], Any]] = {
    "matrix": lambda holders: silot.distance_matrix(holders, "fedwad", support=5, rounds=2),
    "barycenter": lambda holders: silot.barycenter(holders, support=5),
    "worth": lambda holders: silot.value_holders(holders, VALIDATION),
    "worth of a barycenter": lambda holders: silot.value_holders(holders, support=5),
    "worth and a map": lambda holders: silot.value_holders(holders, VALIDATION, map="direct"),
    "pooled": lambda holders: silot.pooled_distance(holders, VALIDATION),
}


def plain(result: Any) -> Any:
    """All of a result but its seconds, and what is seen only of data the caller owns."""
    fields = result.to_dict()
    left = ("seconds", "preflight")

    def without(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: without(v) for k, v in value.items() if k not in left}
        return [without(item) for item in value] if isinstance(value, list) else value

    return without(fields)


@pytest.mark.parametrize(
    "make", [Toy, Own, lambda: LocalFederation(DATA)], ids=["toy", "own", "local"]
)
@pytest.mark.parametrize("name", CALLS)
def test_a_federation_of_the_same_data_gives_the_same(name: str, make: Callable[[], Any]) -> None:
    assert plain(CALLS[name](make())) == plain(CALLS[name](DATA))


def test_two_holders_of_a_federation_are_compared_by_their_names() -> None:
    inside = silot.distance("a", "c", federation=Toy())
    assert inside.value == silot.distance(DATA["a"], DATA["c"]).value
    assert inside.holders == ("a", "c")


def test_records_of_one_holder_are_scored() -> None:
    scores = silot.value_records(Toy(), VALIDATION, name="b")
    alone = silot.value_records(DATA["b"], VALIDATION, name="b")
    np.testing.assert_array_equal(scores.scores, alone.scores)


def test_devices_of_a_federation_learn() -> None:
    y = np.where(DATA["a"][:, 0] > 0, "right", "left")
    policy = Policy.open()
    held = {
        "a": Holder(Measure(DATA["a"], labels=y), policy, Ledger()),
        "b": Holder(Measure(DATA["a"]), policy, Ledger(), evaluation=Measure(DATA["a"], labels=y)),
    }
    found = silot.adapt(LocalFederation(held), model="logistic")
    assert found.plan.links == (("a", "b", 1.0),) and found.accuracy > 0.9


def test_rules_of_holders_decide() -> None:
    with pytest.raises(silot.errors.SilotError) as caught:
        silot.distance_matrix(strict())
    assert caught.value.code == "policy-level"
    with pytest.raises(silot.errors.SilotError) as caught:
        silot.value_holders(strict(), VALIDATION)
    assert caught.value.code == "policy-level"
    named = strict("distance-with-error")
    assert silot.value_holders(named, VALIDATION).disclosure == "statistics"
    with pytest.raises(silot.errors.SilotError) as caught:
        silot.value_holders(strict("moments"), VALIDATION)
    assert caught.value.code == "policy-question"


def test_holders_answer_a_private_distance_under_the_default_policy() -> None:
    pytest.importorskip("opendp")
    holders = {name: Holder(Measure(x), Policy(), Ledger()) for name, x in DATA.items()}
    found = silot.value_holders(LocalFederation(holders), VALIDATION, method="private")
    assert found.disclosure == "private" and set(found.names) == set(DATA)
    with pytest.raises(silot.errors.SilotError) as caught:
        silot.distance("a", "b", "private", federation=LocalFederation(holders))
    # It measures how far a holder is from data of one's own.
    assert caught.value.code == "measure-dtype"


@pytest.mark.heavy
def test_releases_are_charged_to_ledgers_of_the_holders() -> None:
    pytest.importorskip("opendp")
    federation = strict(size=30)
    public = RNG.normal(size=(400, 2)) + 1.0
    first = silot.api.sketches(federation, VALIDATION, public=public, privacy_epsilon=2.0)
    again = silot.distance_matrix(federation, "sketch", public=public, privacy_epsilon=2.0)
    assert first.privacy_mu > 0 and again.cost.privacy_mu == 0
    assert (again.values == first.matrix().values).all()
    one = silot.distance("a", "b", "sketch", federation=federation, public=public,
                         privacy_epsilon=2.0)  # fmt: skip
    assert one.holders == ("a", "b") and one.privacy_mu == 0
    counts = silot.count_broken(strict(), public=public, privacy_epsilon=4.0)
    assert set(counts.holders) == set(DATA)


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda fed: silot.distance_matrix(fed, labels="kind"), "option-labels"),
        (lambda fed: silot.barycenter(fed, labels="kind"), "option-labels"),
        (lambda fed: silot.distance_matrix(fed, "secure"), "method-secure"),
        (lambda fed: silot.pooled_distance(fed, VALIDATION, method="secure"), "method-secure"),
        (lambda fed: silot.pooled_distance(fed, VALIDATION, shares="weights"), "option-shares"),
        (lambda fed: silot.api.sketches(fed, public=VALIDATION, ledgers="x"), "option-ledgers"),
        (lambda fed: silot.count_broken(fed, public=VALIDATION, ledgers="x"), "option-ledgers"),
        (lambda fed: silot.distance(DATA["a"], "b", federation=fed), "holder-names"),
        (lambda fed: silot.distance("a", "nobody", federation=fed), "holder-unknown"),
        (lambda fed: silot.value_records(fed, VALIDATION), "holder-unknown"),
        (lambda fed: silot.adapt(fed, evaluation={"a": VALIDATION}), "option-evaluation"),
        (lambda fed: silot.adapt(fed, labels="kind"), "option-labels"),
    ],
)
def test_what_takes_data_is_refused(call: Callable[[Any], Any], code: str) -> None:
    for federation in (Toy(), LocalFederation(DATA)):
        with pytest.raises(silot.errors.SilotError) as caught:
            call(federation)
        assert caught.value.code == code
