"""Coresets: known answers, couplings of holders that are not asked, classes, and what they tell."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise, permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.neighbors import KNeighborsClassifier

import silot
from silot import Measure, Policy
from silot.api.report import render
from silot.distances.methods import Turns
from silot.errors import InputError, MismatchError, RefusedError, SilotError
from silot.federation import Answer, Failure, Holder, LocalFederation, Question
from silot.federation.question import decode_question
from silot.privacy import Ledger
from silot.teaching.federated import NearestNeighbour
from silot.teaching.federated.coreset import Condensing, Coreset
from tests.problems import Array, cost_of_matrix, draw_weights, seeds
from tests.saying import Saying
from tests.tiers import examples

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 2))
KINDS = np.where(X[:, 0] > 0, "sick", "well")


def squared(x: Measure, y: Measure) -> float:
    """``W_2^2`` by POT."""
    return cost_of_matrix(cdist(x.points, y.points, "sqeuclidean"), x.weights, y.weights)


def drawn(seed: int, *, labels: bool = False) -> dict[str, Measure]:
    """Holders of unequal sizes, weighted or not, of one to three classes."""
    rng = np.random.default_rng(seed)
    d, found = int(rng.choice([1, 2, 5])), {}
    for k in range(int(rng.integers(1, 5))):
        n = int(rng.integers(1, 16))
        kind = str(rng.choice(["uniform", "integer", "random", "zeros", "dominant"]))
        names = rng.choice(["a", "b", "c"][: int(rng.integers(1, 4))], n) if labels else None
        points = rng.normal(size=(n, d)) + k
        found[f"h{k}"] = Measure(points, draw_weights(rng, kind, n), names)
    return found


# Known answers.


@given(seeds)
@settings(max_examples=examples(30))
def test_one_point_is_the_weighted_mean_of_means(seed: int) -> None:
    holders = drawn(seed)
    shares = {name: float(k + 1) for k, name in enumerate(holders)}
    found = silot.coreset(holders, 1, weights=shares)
    means = [shares[name] * (x.weights @ x.points) for name, x in holders.items()]
    np.testing.assert_allclose(found.points[0], sum(means) / sum(shares.values()), atol=1e-9)


@given(seeds, st.integers(1, 12))
@settings(max_examples=examples(30))
def test_as_many_points_as_one_holder_has_records_are_its_records(seed: int, n: int) -> None:
    x = np.random.default_rng(seed).normal(size=(n, 3))
    found = silot.coreset([x], n, seed=seed)
    rows, columns = linear_sum_assignment(cdist(x, found.points))
    np.testing.assert_allclose(found.points[columns], x[rows], atol=1e-9)
    assert found.objective == pytest.approx(0.0, abs=1e-12)
    assert found.distances["0"].upper == pytest.approx(0.0, abs=1e-6)


def test_planted_clusters_are_found_whoever_holds_them() -> None:
    centres = np.array([[0.0, 0.0], [50.0, 0.0], [0.0, 50.0], [50.0, 50.0]])
    rng = np.random.default_rng(3)
    holders = [np.repeat(centres, 10, axis=0) + 0.1 * rng.normal(size=(40, 2)) for _ in range(5)]
    found = silot.coreset(holders, 4, active=2)
    apart = cdist(centres, found.points)
    assert apart.min(axis=1).max() < 0.1
    assert sorted(apart.argmin(axis=1)) == [0, 1, 2, 3]


def test_points_of_a_line_are_the_means_of_its_quantiles() -> None:
    x = np.sort(np.random.default_rng(4).normal(size=60))
    found = silot.coreset([x[:, None]], 6, tol=0.0, rounds=50)
    np.testing.assert_allclose(
        np.sort(found.points[:, 0]), x.reshape(6, 10).mean(axis=1), atol=1e-9
    )


def test_the_best_of_a_few_points_is_reached() -> None:
    """All ways to part six records into three pairs, against the best of some seeds."""
    x = np.random.default_rng(5).normal(size=(6, 2))
    best = min(
        sum(np.sum((x[list(p[k : k + 2])] - x[list(p[k : k + 2])].mean(axis=0)) ** 2)
            for k in (0, 2, 4)) / 6
        for p in permutations(range(6))
    )  # fmt: skip
    assert min(silot.coreset([x], 3, seed=seed).objective for seed in range(12)) == pytest.approx(
        best
    )


@given(seeds, st.integers(1, 20), st.sampled_from([None, 1, 2]))
@settings(max_examples=examples(40))
def test_distances_and_the_objective_are_those_of_the_points(
    seed: int, size: int, active: int | None
) -> None:
    holders = drawn(seed)
    found = silot.coreset(holders, size, active=active, rounds=12, seed=seed % 7)
    assert found.points.shape == (size, next(iter(holders.values())).dimension)
    np.testing.assert_allclose(found.weights, 1.0 / size)
    exact = {name: squared(x, found.measure) for name, x in holders.items()}
    for name, item in found.distances.items():
        assert item.lower**2 <= exact[name] * (1 + 1e-9) + 1e-12
        assert item.upper**2 >= exact[name] * (1 - 1e-9) - 1e-12
    total = sum(found.shares[name] * exact[name] for name in holders)
    assert found.objective == pytest.approx(total, rel=1e-9, abs=1e-12)
    assert found.lower <= total * (1 + 1e-9) + 1e-12


# Holders that are not asked every round.


@given(seeds, st.integers(1, 3))
@settings(max_examples=examples(40))
def test_the_objective_never_rises_once_all_were_asked(seed: int, active: int) -> None:
    holders = drawn(seed)
    found = silot.coreset(holders, 4, active=active, rounds=15, tol=0.0, seed=seed % 7)
    told = [e["objective"] for e in found.history if e["holders"] == len(holders)]
    assert told and all(now <= before * (1 + 1e-12) for before, now in pairwise(told))


def test_asking_a_few_comes_as_near_as_asking_all() -> None:
    rng = np.random.default_rng(6)
    holders = [rng.normal(size=(40, 3)) + rng.normal(size=3) for _ in range(12)]
    all_of_them = silot.coreset(holders, 8, rounds=60)
    few = silot.coreset(holders, 8, active=3, rounds=200)
    assert few.converged and "turn of all holders" in few.status
    assert few.objective == pytest.approx(all_of_them.objective, rel=0.05)
    # Sizes and distances are asked of all.
    assert [len(each) for each in asked(few)] == [12, *[3] * (few.rounds - 2), 12]


def asked(found: Coreset) -> list[list[str]]:
    """Kinds of the questions of every round."""
    assert found.transcript is not None
    rounds: list[list[str]] = [[] for _ in range(found.rounds)]
    for entry in found.transcript.entries:
        if entry.direction == "sent":
            rounds[entry.round].append(decode_question(entry.payload).kind)
    return rounds


@given(st.integers(1, 9), st.integers(1, 9), seeds)
def test_everybody_is_asked_once_a_turn(holders: int, active: int, seed: int) -> None:
    names = [f"h{k}" for k in range(holders)]
    turns, backwards = Turns(active, seed), Turns(active, seed)
    for _ in range(3):
        asked: list[str] = []
        while not asked or not turns.is_over:
            some = turns.next_holders(names)
            assert some == backwards.next_holders(names[::-1]) and len(some) <= active
            asked += some
        assert sorted(asked) == names


def test_who_left_is_not_asked() -> None:
    turns = Turns(1, 0)
    first = turns.next_holders(["a", "b", "c"])
    left = sorted({"a", "b", "c"} - set(first))[:1]
    assert turns.next_holders(left) == tuple(left) and turns.is_over


def test_rounds_must_reach_every_holder() -> None:
    with pytest.raises(InputError, match="option-rounds") as caught:
        silot.coreset([X] * 7, 3, active=2, rounds=3)
    assert "takes 4 to ask 7 holders" in str(caught.value)


def test_the_same_seed_gives_the_same_points_whatever_the_order_of_holders() -> None:
    holders = {"a": X[:9], "b": X[9:14], "c": X[14:]}
    turned = {name: holders[name] for name in ("c", "a", "b")}
    for options in ({}, {"active": 1}, {"active": 2, "seed": 5}):
        here, there = (silot.coreset(each, 5, **options) for each in (holders, turned))
        assert np.array_equal(here.points, there.points)
        assert here.objective == there.objective


class Flaky(Saying):
    """A holder that fails from one of its questions on."""

    def __init__(self, points: Array, after: int) -> None:
        super().__init__(Measure(points), Policy.open())
        self._left, self._guard = after, threading.Lock()

    def says(self, question: Question) -> Answer | Failure:
        with self._guard:
            self._left -= 1
        return Failure("holder-raised") if self._left < 0 else self.answer(question)


@pytest.mark.parametrize("active", [None, 1, 2])
@pytest.mark.parametrize("after", [0, 1, 2, 4])
def test_a_holder_that_fails_is_dropped_where_a_quorum_is_left(
    after: int, active: int | None
) -> None:
    federation = LocalFederation({"a": X, "b": Flaky(X + 40.0, after), "c": X * 2})
    options: dict[str, Any] = {"active": active, "rounds": 12, "tol": 0.0}
    found = silot.coreset(federation, 4, quorum=2, **options)
    assert found.missing == {"b": "holder-raised"} and "b (holder-raised)" in found.status
    assert set(found.distances) == set(found.shares) == {"a", "c"}
    total = 0.5 * sum(squared(Measure(x), found.measure) for x in (X, X * 2))
    assert found.objective == pytest.approx(total, rel=1e-9)
    federation = LocalFederation({"a": X, "b": Flaky(X, after), "c": X})
    with pytest.raises(SilotError, match="holder-raised"):
        federation.run(Condensing(size=4, **options).among("abc"))


# Classes, and the classifier.


@given(seeds, st.integers(3, 15))
@settings(max_examples=examples(30))
def test_every_class_has_points_and_is_fitted_apart(seed: int, size: int) -> None:
    holders = drawn(seed, labels=True)
    kinds = {str(k) for x in holders.values() for k in x.names[x.weights > 0]}  # type: ignore[index]
    found = silot.coreset(holders, size, labels=True, rounds=8)
    assert found.size == size == sum(found.sizes.values()) and set(found.sizes) == kinds
    masses = sum(
        found.shares[name] * np.array([x.weights[x.names == kind].sum() for kind in sorted(kinds)])
        for name, x in holders.items()
    )
    own = [found.weights[found.labels == kind].sum() for kind in sorted(kinds)]
    np.testing.assert_allclose(own, masses, atol=1e-12)
    # A class is the coreset of those that have it, as one of its own.
    for kind, count in found.sizes.items():
        if count == 1:
            held = {name: x.weights[x.names == kind] for name, x in holders.items()}
            mass = sum(found.shares[name] * w.sum() for name, w in held.items())
            mean = sum(
                found.shares[name] * (w @ holders[name].points[holders[name].names == kind])
                for name, w in held.items()
            )
            np.testing.assert_allclose(
                found.points[found.labels == kind][0], mean / mass, atol=1e-9
            )


def test_holders_of_one_class_each_keep_their_modes() -> None:
    """Without labels the objective averages them: that is what it is."""
    rng = np.random.default_rng(8)
    holders = {
        name: Measure(rng.normal(size=(20, 2)) + place, labels=[name] * 20)
        for name, place in {"left": -30.0, "right": 30.0}.items()
    }
    found = silot.coreset(holders, 4, labels=True)
    assert found.sizes == {"left": 2, "right": 2}
    assert found.classifier.predict([[-25.0, -25.0], [25.0, 25.0]]).tolist() == ["left", "right"]
    assert np.abs(silot.coreset(holders, 4).points).max() < 10.0


@pytest.mark.parametrize("kinds", [[0, 1], [True, False], ["x y", "ä"], [1.5, 2.5], [-1, 10**9]])
def test_labels_of_any_type_are_compared_by_their_names(kinds: list[Any]) -> None:
    labels = np.array(kinds)[(X[:, 0] > 0).astype(int)]
    x = Measure(X, labels=labels)
    found = silot.coreset({"a": x, "b": x}, 10, labels=True, test=x)
    assert found.accuracy is not None and found.accuracy > 0.8 and found.tests == 30


def test_the_classifier_is_that_of_scikit_learn() -> None:
    found = silot.coreset({"a": Measure(X, labels=KINDS)}, 9, labels=True)
    new = RNG.normal(size=(300, 2))
    other = KNeighborsClassifier(1).fit(found.points, found.labels).predict(new)
    assert np.array_equal(found.classifier.predict(new), other)
    truth = Measure(new, RNG.random(300), np.where(new[:, 0] > 0, "sick", "well"))
    right = other == truth.names
    assert found.classifier.accuracy(truth) == pytest.approx(truth.weights @ right)


def test_coresets_of_several_holders_are_one_classifier_together() -> None:
    a = silot.coreset([Measure(X, labels=KINDS)], 4, labels=True)
    b = silot.coreset([Measure(X + 50.0, labels=["far"] * 30)], 2, labels=True)
    both = NearestNeighbour.of(a.measure, b.measure)
    assert len(both.points) == 6 and both.predict([[50.0, 50.0]]).tolist() == ["far"]


# Data that are odd.


def test_identical_data_constant_columns_and_one_record_are_no_trouble() -> None:
    same = np.ones((5, 2))
    for holders in ([same, same], [same], [[[1.0, 1.0]]]):
        found = silot.coreset(holders, 3)
        np.testing.assert_allclose(found.points, 1.0)
        assert found.objective == pytest.approx(0.0, abs=1e-12) and found.converged


def test_more_points_than_records_stand_for_parts_of_them() -> None:
    found = silot.coreset([X[:3]], 9)
    assert found.size == 9
    assert cdist(found.points, X[:3]).min(axis=1).max() == pytest.approx(0.0, abs=1e-9)
    assert found.objective == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("holders", "options", "code"),
    [
        ({"a": X, "b": X[:, :1]}, {}, "dimension-mismatch"),
        ({"a": [[np.nan, 1.0]]}, {}, "measure-nan"),
        ({}, {}, "holder-names"),
        ({"a": X}, {"size": 0}, "option-size"),
        ({"a": X}, {"size": 2.5}, "option-size"),
        ({"a": X}, {"active": 0}, "option-active"),
        ({"a": X}, {"seed": -1}, "option-seed"),
        ({"a": X}, {"method": "nope"}, "option-method"),
        ({"a": X}, {"nope": 1}, "option-unknown"),
        ({"a": X}, {"quorum": 2}, "option-quorum"),
        ({"a": X}, {"weights": {"b": 1.0}}, "option-weights"),
        ({"a": X}, {"labels": True}, "labels-absent"),
        ({"a": X}, {"test": Measure(X, labels=KINDS)}, "labels-absent"),
        ({"a": Measure(X, labels=KINDS)}, {"labels": True, "size": 1}, "option-support"),
        ({"a": Measure(X, labels=KINDS)}, {"labels": True, "test": X}, "labels-absent"),
        ({"a": X}, {"method": "sketch"}, "public-absent"),
        ({"a": X}, {"method": "sketch", "quorum": 1}, "option-unknown"),
        ({"a": X}, {"method": "sketch", "rounds": 0}, "option-rounds"),
    ],
)
def test_what_cannot_be_is_refused_with_a_code(
    holders: Mapping[str, Any], options: dict[str, Any], code: str
) -> None:
    with pytest.raises(SilotError) as caught:
        silot.coreset(holders, **({"size": 4} | options))
    assert caught.value.code == code


def test_names_of_a_federation_are_some_of_its_holders() -> None:
    federation = LocalFederation({"a": X, "b": X + 1.0, "c": X + 90.0})
    found = silot.coreset(["a", "b"], 5, federation=federation)
    there = silot.coreset({"a": X, "b": X + 1.0}, 5)
    assert np.array_equal(found.points, there.points) and set(found.shares) == {"a", "b"}
    with pytest.raises(MismatchError, match="holder-unknown"):
        silot.coreset(["a", "z"], 5, federation=federation)


def test_the_classifier_says_what_it_cannot_do() -> None:
    near = NearestNeighbour.of(Measure(X, labels=KINDS))
    cases = [
        ("dimension-mismatch", lambda: near.predict([[1.0]])),
        ("measure-nan", lambda: near.predict([[np.nan, 0.0]])),
        ("labels-absent", lambda: near.accuracy(Measure(X))),
        ("labels-absent", lambda: NearestNeighbour.of(Measure(X))),
        ("labels-absent", NearestNeighbour.of),
        ("labels-absent", lambda: silot.coreset([X], 3).classifier),
    ]
    for code, call in cases:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == code


# What is disclosed.


def test_the_level_is_record_and_a_policy_below_it_refuses() -> None:
    assert silot.coreset([X], 3).disclosure == "record"
    federation = LocalFederation({"a": Holder(Measure(X), Policy())})
    with pytest.raises(RefusedError, match="policy-level"):
        silot.coreset(federation, 3)


@pytest.mark.parametrize("size", [30, 60])
def test_an_audit_gets_every_record_where_points_are_as_many(size: int) -> None:
    data = {"a": X, "b": X * 2 + 1}
    found = silot.coreset(data, size)
    assert found.transcript is not None
    assert silot.audit(found.transcript, truth=data).exact_rates == {"a": 1.0, "b": 1.0}


def test_an_audit_gets_the_one_record_of_a_class() -> None:
    rare = np.where(np.arange(30) == 7, "rare", KINDS)
    found = silot.coreset({"a": Measure(X, labels=rare)}, 6, labels=True)
    np.testing.assert_allclose(found.points[found.labels == "rare"], X[7:8], atol=1e-9)
    assert found.transcript is not None
    rate = silot.audit(found.transcript, truth={"a": X}).exact_rates["a"]
    assert rate is not None and rate >= 1 / 30


def test_fewer_points_than_records_are_no_promise() -> None:
    found = silot.coreset({"a": X}, 5)
    assert found.transcript is not None and found.disclosure == "record"
    audit = silot.audit(found.transcript, truth={"a": X})
    assert "treat the records as disclosed" in audit.verdict


def private(size: int = 12, **options: Any) -> Coreset:
    rng = np.random.default_rng(9)
    centres = np.array([[-4.0, 0.0], [4.0, 0.0], [0.0, 6.0]])

    def cloud(n: int) -> Measure:
        codes = rng.integers(0, 3, n)
        points = centres[codes] + rng.normal(size=(n, 2))
        return Measure(points, labels=np.array(["a", "b", "c"])[codes])

    holders = {name: cloud(3000) for name in ("north", "south")}
    given = {"method": "sketch", "public": cloud(600), "labels": True, "test": cloud(500)}
    return silot.coreset(holders, size, **(given | options))


def test_the_private_one_is_made_of_one_release_and_of_nothing_else() -> None:
    pytest.importorskip("opendp")
    found = private()
    assert found.disclosure == "private" and found.privacy_mu > 0 and found.method == "sketch"
    assert asked(found) == [["count-records"] * 2, ["sketch-records"] * 2]
    assert found.transcript is not None
    assert set(silot.audit(found.transcript).exact_rates.values()) == {None}
    assert found.size == 12 and set(found.sizes) == {"a", "b", "c"}
    assert found.accuracy is not None and found.accuracy > 0.95
    assert found.lower == 0.0 and "not certified" in found.status
    assert all(np.isinf(item.upper) and item.lower == 0.0 for item in found.distances.values())


@pytest.mark.heavy
def test_the_private_one_says_where_labelled_public_records_would_do() -> None:
    pytest.importorskip("opendp")
    found = private()
    assert found.public_accuracy is not None and found.public_accuracy > 0.9
    assert "the labelled public records alone classify" in found.status
    better = found.public_accuracy >= (found.accuracy or 0.0)
    assert better == ("use them" in found.status)
    # Public records whose labels are wrong are no better, and those without are no classifier.
    x = np.random.default_rng(12).normal(size=(600, 2))
    wrong = Measure(4.0 * x, labels=["a", "b", "c"] * 200)
    told = private(public=wrong)
    assert told.public_accuracy is not None and told.public_accuracy < (told.accuracy or 0.0)
    assert "alone classify" in told.status and "use them" not in told.status
    silent = private(public=x, classes=["a", "b", "c"])
    assert silent.public_accuracy is None and "public records" not in silent.status
    assert "public records" not in private(test=None).status


def test_estimates_of_the_private_one_are_near_the_truth() -> None:
    pytest.importorskip("opendp")
    x = np.random.default_rng(10).normal(size=(9000, 2))
    holders = {"a": x[:4000], "b": x[4000:8000]}
    found = silot.coreset(holders, 8, method="sketch", public=x[8000:], privacy_epsilon=8.0)
    for name, item in found.distances.items():
        exact = silot.distance(holders[name], found.measure).value
        assert item.value == pytest.approx(exact, rel=0.15)


def test_records_of_classes_that_are_not_public_are_no_class_of_the_private_one() -> None:
    pytest.importorskip("opendp")
    found = private(classes=["a", "b"])
    assert set(found.sizes) == {"a", "b"}
    assert "% of the records belong to no public class, and are left out" in found.status
    assert "no public class" not in private().status
    with pytest.raises(MismatchError, match="labels-disjoint"):
        private(classes=["u", "v"])


def test_no_release_is_spent_on_fewer_points_than_classes() -> None:
    pytest.importorskip("opendp")
    many, kinds = np.random.default_rng(11).normal(size=(600, 2)), ["a", "b", "c"] * 200
    public, ledger = Measure(many, labels=kinds), Ledger()
    rules = Policy(privacy_epsilon=1.0)
    federation = LocalFederation({"a": Holder(public, rules, ledger)})
    with pytest.raises(InputError, match="option-support"):
        silot.coreset(federation, 2, labels=True, method="sketch", public=public)
    assert ledger.spent == 0.0


def test_records_to_test_on_are_sent_to_nobody() -> None:
    x = Measure(X, labels=KINDS)
    sent = [
        [entry.payload for entry in found.transcript.entries]
        for found in (silot.coreset({"a": x}, 4, labels=True, **more) for more in ({}, {"test": x}))
        if found.transcript is not None
    ]
    assert len(sent) == 2 and sent[0] == sent[1]


# How it is shown.


def test_what_is_shown_says_what_the_points_are() -> None:
    found = silot.coreset({"a": Measure(X, labels=KINDS)}, 7, labels=True, test=Measure(
        X, labels=KINDS))  # fmt: skip
    page = render(found)
    for words in ("A coreset of the holders", "that record", "1-NN accuracy", "The cost"):
        assert words in page
    told = found.to_dict()
    assert (told["size"], told["method"], told["tests"]) == (7, "fedbary", 30)
    assert len(told["points"]) == 7 and sum(told["sizes"].values()) == 7
    assert "Coreset(7 points, 1 holders" in repr(found)
