"""What holders are worth: distances, bounds and shares against exact oracles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import silot
from silot import Measure, Policy
from silot.distances.result import Distance
from silot.distances.worth.contributions import contributions
from silot.distances.worth.result import Contributions
from silot.errors import InputError, RefusedError, SilotError
from silot.federation import Answer, Disclosure, Failure, Holder, LocalFederation, Own, Question
from silot.federation.protocol import COORDINATOR
from silot.federation.question import question_kinds
from silot.federation.result import Run
from silot.privacy import Ledger
from silot.sites.secure.distance import Simulation
from tests.problems import (
    assert_refused,
    cost_of_matrix,
    draw_clouds,
    draw_weights,
    linear_program_cost,
    seeds,
)
from tests.saying import Saying
from tests.tiers import examples

OPEN = Policy.open()
# The questions of method "target", which are all of level statistics.
EXACT = Policy(
    level="statistics",
    questions=frozenset(
        name for name, kind in question_kinds().items() if kind.level == Disclosure.STATISTICS
    ),
)
RNG = np.random.default_rng(2024)
X = RNG.normal(size=(40, 3))
KINDS = np.array(["a", "b", "c", "b"] * 10)
VALIDATION = Measure(RNG.normal(size=(36, 3)), labels=np.array(["a", "b", "c"] * 12))
MARKET = {
    "near": Measure(X, labels=KINDS),
    "off": Measure(X[:20] + 1.0, labels=KINDS[:20]),
    "far": Measure(X[:13] * 3 + 5.0, RNG.random(13), labels=KINDS[:13]),
}
LARGE = {
    name: Measure(RNG.normal(size=(200, 3)) * scale, labels=np.repeat(["a", "b", "c", "b"], 50))
    for name, scale in (("near", 1.0), ("off", 1.5), ("far", 3.0))
}


def distance(x: Measure, y: Measure) -> float:
    """``W_2`` by POT."""
    matrix = cdist(x.points, y.points, "sqeuclidean")
    return max(cost_of_matrix(matrix, x.weights, y.weights), 0.0) ** 0.5


def part(x: Measure, kind: str) -> Measure:
    own = (x.labels == kind) & (x.weights > 0)
    return Measure(x.points[own], x.weights[own])


def labelled_distance(x: Measure, y: Measure, weight: float = 1.0) -> float:
    """The class-wise metric, by definition: labels a holder has alone go through the nearest."""
    used = x.weights > 0
    kinds = [str(kind) for kind in np.unique(y.labels[y.weights > 0])]
    between = np.array([[distance(part(y, k), part(y, l)) for l in kinds] for k in kinds])
    rows = {kind: between[i] for i, kind in enumerate(kinds)}
    for kind in set(np.unique(x.labels[used]).tolist()) - set(kinds):
        reach = np.array([distance(part(x, kind), part(y, l)) for l in kinds])
        rows[kind] = (reach[:, None] + between).min(axis=0)
    other = y.weights > 0
    columns = [kinds.index(str(kind)) for kind in y.labels[other]]
    label_cost = np.stack([rows[str(kind)][columns] for kind in x.labels[used]])
    cost = cdist(x.points[used], y.points[other], "sqeuclidean") + weight * label_cost**2
    return linear_program_cost(cost, x.weights[used], y.weights[other]) ** 0.5


def draw_market(seed: int, labels: bool = False) -> tuple[dict[str, Measure], Measure]:
    """Holders and validation data: any layout, sizes, weights, and labels of up to 4 classes."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 5, 30]))
    layout = str(rng.choice(["normal", "grid", "clusters", "constant", "uneven", "outlier"]))
    found: list[Measure] = []
    for _ in range(int(rng.integers(2, 5))):
        n = int(rng.integers(1, 12))
        kind = str(rng.choice(["uniform", "integer", "random", "zeros"]))
        points, _ = draw_clouds(rng, layout, n, 1, d)
        kinds = rng.choice(["p", "q", "r", "s"], n) if labels else None
        found.append(Measure(points + rng.normal(), draw_weights(rng, kind, n), kinds))
    return {f"h{k}": measure for k, measure in enumerate(found[1:])}, found[0]


@given(seeds)
@settings(max_examples=examples(60))
def test_distances_are_exact_wasserstein_distances_to_the_validation_data(seed: int) -> None:
    holders, validation = draw_market(seed)
    result = silot.value_holders(holders, validation)
    for item in result.holders:
        known = distance(holders[item.holder], validation)
        scale = float(cdist(holders[item.holder].points, validation.points).max())
        assert item.distance.value == pytest.approx(known, rel=1e-9, abs=1e-7 * scale)
        assert item.distance.lower <= known + 1e-9 * scale
        assert known <= item.distance.upper + 1e-9 * scale
        assert 0 <= item.distance.lower <= item.distance.value <= item.distance.upper
        assert item.records == int((holders[item.holder].weights > 0).sum())


@given(seeds, st.sampled_from([0.0, 0.3, 1.0, 4.0]))
@settings(max_examples=examples(60))
def test_labelled_distances_are_those_of_the_class_metric(seed: int, label_weight: float) -> None:
    holders, validation = draw_market(seed, labels=True)
    assert validation.labels is not None
    shared = set(validation.labels[validation.weights > 0].tolist())
    holders = {
        name: each
        for name, each in holders.items()
        if each.labels is not None and shared & set(each.labels[each.weights > 0].tolist())
    }
    assume(len(holders) > 0)
    result = silot.value_holders(
        holders, validation, labels=True, class_tolerance=0.0, label_weight=label_weight
    )
    for item in result.holders:
        known = labelled_distance(holders[item.holder], validation, label_weight)
        scale = float(cdist(holders[item.holder].points, validation.points).max())
        assert item.distance.value == pytest.approx(known, rel=1e-7, abs=1e-6 * scale)
        assert item.distance.lower <= item.distance.value <= item.distance.upper


@pytest.mark.heavy
@given(seeds)
@settings(max_examples=examples(30))
def test_class_tolerance_only_lowers_distances_and_a_matching_mix_is_left_alone(seed: int) -> None:
    rng = np.random.default_rng(seed)
    labels = np.repeat(["a", "b"], 10)
    centres = np.where(labels == "a", 0.0, 8.0)[:, None]
    validation = Measure(centres + rng.normal(size=(20, 2)), labels=labels)
    count = int(rng.integers(1, 20))
    chosen = np.array(["a"] * count + ["b"] * (20 - count))
    points = np.where(chosen == "a", 0.0, 8.0)[:, None] + rng.normal(size=(20, 2))
    holder = {"h": Measure(points, labels=chosen)}
    told = [
        silot.value_holders(holder, validation, labels=True, class_tolerance=c)["h"].distance.value
        for c in (0.0, 1.0, 2.0, 50.0)
    ]
    # Classes lie far apart: the nearer the proportions, the shorter the way.
    assert all(now <= before * (1 + 1e-9) for before, now in pairwise(told))
    if count == 10:
        assert told[-1] == pytest.approx(told[0], rel=1e-9)
    # With all the room there is, the target has the holder's own proportions.
    known = sum(
        share * distance(part(holder["h"], kind), part(validation, kind)) ** 2
        for kind, share in (("a", count / 20), ("b", 1 - count / 20))
    )
    assert told[-1] == pytest.approx(known**0.5, rel=1e-6)


@given(st.integers(1, 29), st.integers(1, 19), st.sampled_from([0.0, 0.5, 1.0, 2.0]))
def test_class_tolerance_forgives_so_many_standard_errors(n: int, m: int, tolerance: float) -> None:
    """Two classes that are points 8 apart: what is not forgiven goes 8 in features and labels."""

    def dirac(count: int, size: int) -> Measure:
        labels = np.array(["a"] * count + ["b"] * (size - count))
        return Measure(np.where(labels == "a", 0.0, 8.0)[:, None], labels=labels)

    result = silot.value_holders(
        {"h": dirac(n, 30)}, dirac(m, 20), labels=True, class_tolerance=tolerance
    )
    shared = (n + m) / 50
    error = (shared * (1 - shared) * (1 / 30 + 1 / 20)) ** 0.5
    excess = max(abs(n / 30 - m / 20) - tolerance * error, 0.0)
    assert result["h"].distance.value ** 2 == pytest.approx(128 * excess, rel=1e-9, abs=1e-11)


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("validated", [False, True])
def test_shares_sum_to_one_and_follow_from_the_distances(labels: bool, validated: bool) -> None:
    validation = VALIDATION if validated else None
    result = silot.value_holders(
        MARKET, validation, labels=labels, support=12, rounds=6, intervals=False, faults=False
    )
    values = np.array([item.distance.value for item in result.holders])
    np.testing.assert_allclose(
        [item.share for item in result.holders], (1 / values) / (1 / values).sum()
    )
    assert sum(result.shares.values()) == pytest.approx(1.0)
    assert sum(item.fedbary_share for item in result.holders) == pytest.approx(1.0)
    parts = np.maximum(1 - (values / result.spread) ** 2, 0)
    np.testing.assert_allclose([item.explained for item in result.holders], parts, atol=1e-12)
    ranks = {item.holder: item.rank for item in result.holders}
    assert sorted(ranks, key=ranks.__getitem__) == [item.holder for item in result.ranking]
    order = np.argsort(values)
    assert [result.holders[k].rank for k in order] == [1, 2, 3]


def test_spread_is_the_distance_of_the_validation_data_to_its_mean() -> None:
    mean = Measure((VALIDATION.weights @ VALIDATION.points)[None])
    result = silot.value_holders(MARKET, VALIDATION)
    assert result.spread == pytest.approx(distance(VALIDATION, mean))


def test_a_copy_of_the_validation_data_is_at_distance_zero_and_takes_all() -> None:
    market = {**MARKET, "copy": Measure(VALIDATION.points[::-1], labels=VALIDATION.labels[::-1])}
    for options in ({}, {"labels": True}, {"labels": True, "label_metric": "vectors"}):
        result = silot.value_holders(market, VALIDATION, faults=False, **options)
        item = result["copy"]
        # A mass known to 1e-16 moves by 1e-16, the root of which is told.
        assert item.distance.value == pytest.approx(0.0, abs=1e-6)
        assert item.rank == 1 and item.explained == pytest.approx(1.0)
        assert item.share == pytest.approx(1.0, abs=1e-5)
        assert all(np.isfinite(list(result.shares.values())))


def test_equal_holders_share_a_rank_and_equal_parts() -> None:
    market = {"p": X, "q": X[::-1], "r": np.repeat(X, 2, axis=0), "s": X + 4.0}
    result = silot.value_holders(market, VALIDATION)
    assert [result[name].rank for name in "pqrs"] == [1, 1, 1, 4]
    assert result.shares["p"] == pytest.approx(result.shares["q"], rel=1e-9)
    assert result.shares["p"] == pytest.approx(result.shares["r"], rel=1e-9)


@pytest.mark.parametrize("labels", [False, True])
def test_duplicating_a_holders_records_changes_nothing(labels: bool) -> None:
    """Not even with class tolerance, which looks at how many records there are."""
    twice = Measure(np.tile(X, (2, 1)), labels=np.tile(KINDS, 2))
    options = {"labels": labels, "faults": False}
    first = silot.value_holders(MARKET, VALIDATION, **options)
    second = silot.value_holders({**MARKET, "near": twice}, VALIDATION, **options)
    for name in MARKET:
        value = first[name].distance.value
        assert second[name].distance.value == pytest.approx(value, rel=0.01)
        assert second.shares[name] == pytest.approx(first.shares[name], rel=0.01)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"labels": True},
        {"labels": True, "label_metric": "vectors"},
        {"method": "fedbary", "support": 20, "rounds": 5},
        {"map": "direct"},
        {"shapley": True},
        {"validation": None, "support": 10, "rounds": 6, "labels": True},
    ],
    ids=str,
)
def test_order_of_holders_changes_nothing(options: dict[str, object]) -> None:
    options = {"validation": VALIDATION, **options}
    turned = dict(reversed(list(MARKET.items())))
    first = silot.value_holders(MARKET, **options)  # type: ignore[arg-type]
    second = silot.value_holders(turned, **options)  # type: ignore[arg-type]
    assert second.names == tuple(reversed(first.names))
    assert first.spread == pytest.approx(second.spread, rel=1e-10)
    for name in MARKET:
        assert second[name].rank == first[name].rank
        assert second[name].distance.bounds == pytest.approx(first[name].distance.bounds, rel=1e-9)
        assert second[name].share == pytest.approx(first[name].share, rel=1e-9)
    if first.between is not None and second.between is not None:
        for pair in first.between.pairs:
            known = first.between[pair].value
            assert second.between[pair].value == pytest.approx(known, rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("labels", [False, True])
def test_methods_agree_within_their_bounds(seed: int, labels: bool) -> None:
    rng = np.random.default_rng(seed)
    market = {
        name: Measure(rng.normal(size=(n, 2)) * scale + scale, labels=rng.choice(["u", "v"], n))
        for name, n, scale in (("a", 25, 1.0), ("b", 40, 1.5), ("c", 30, 3.0))
    }
    validation = Measure(rng.normal(size=(30, 2)), labels=rng.choice(["u", "v"], 30))
    options = {"labels": labels, "label_metric": "vectors", "seed": seed, "class_tolerance": 0.0,
               "faults": False}  # fmt: skip
    exact = silot.value_holders(market, validation, method="direct", **options)
    for method in ("target", "fedbary", "trianglewad"):
        result = silot.value_holders(market, validation, method=method, support=60, **options)
        assert result.method == method
        assert result.disclosure == ("statistics" if method == "target" else "record")
        for name in market:
            known, found = exact[name].distance, result[name].distance
            assert found.lower <= known.upper * (1 + 1e-9)
            assert known.lower <= found.upper * (1 + 1e-9)
            assert found.lower <= found.value <= found.upper
            assert found.holders == (name, "validation")
            if method == "target":
                assert found.value == pytest.approx(known.value, rel=1e-8)
            if method == "fedbary":
                assert found.value == pytest.approx(known.value, rel=0.05)
        assert [item.holder for item in result.ranking] == [item.holder for item in exact.ranking]


def test_without_validation_data_the_target_is_the_barycenter() -> None:
    result = silot.value_holders(MARKET, support=15, rounds=10, weights=dict.fromkeys(MARKET, 2.0))
    assert result.target == "barycenter" and result.barycenter is not None
    middle = Measure(result.barycenter.points, result.barycenter.weights)
    for item in result.holders:
        known = distance(MARKET[item.holder], middle)
        assert item.distance.value == pytest.approx(known, rel=1e-9)
    same = silot.barycenter(MARKET, support=15, rounds=10)
    np.testing.assert_allclose(same.points, middle.points, atol=1e-12)
    # Distance of all records to the best single point.
    mean = Measure((middle.weights @ middle.points)[None])
    known = sum(distance(holder, mean) ** 2 for holder in MARKET.values()) / 3
    assert result.spread == pytest.approx(known**0.5, rel=1e-6)


# The map.


@given(seeds, st.booleans(), st.sampled_from(["classes", "vectors"]))
@settings(max_examples=examples(40))
def test_the_map_is_the_matrix_of_holders_and_target(seed: int, labels: bool, metric: str) -> None:
    holders, validation = draw_market(seed)
    if labels and not all(item.labelled for item in (*holders.values(), validation)):
        return
    result = silot.value_holders(
        holders, validation, map="direct", seed=seed % 5, labels=labels, label_metric=metric
    )
    if len(result.holders) == 1:
        assert result.between is None and "no map of holders: two holders" in result.status
        return
    assert result.between is not None
    every = {**{name: holders[name] for name in result.names}, "validation": validation}
    known = silot.distance_matrix(every, labels=labels)
    assert result.between.names == (*result.names, COORDINATOR)
    scale = 1e-9 * float(known.values.max()) + 1e-12
    np.testing.assert_allclose(result.between.values, known.values, rtol=1e-9, atol=scale)
    assert (result.between.lower <= result.between.values).all()
    assert (result.between.values <= result.between.upper).all()
    assert result.disclosure == result.between.disclosure == "record"


@pytest.mark.parametrize("labels", [False, True])
def test_the_map_of_a_barycenter_has_it_as_its_target(labels: bool) -> None:
    result = silot.value_holders(MARKET, support=12, rounds=6, labels=labels, map="direct")
    assert result.barycenter is not None and result.between is not None
    middle = result.barycenter.measure
    assert middle.labelled == labels
    known = silot.distance_matrix({**MARKET, "middle": middle}, labels=labels)
    np.testing.assert_allclose(result.between.values, known.values, rtol=1e-9)
    if not labels:
        told = [item.distance.value for item in result.holders]
        np.testing.assert_allclose(result.between.values[:-1, -1], told, rtol=1e-9)


def test_map_of_translated_copies_has_their_distances_and_equal_holders_are_at_0() -> None:
    shifts = np.array([[0.0, 0.0, 0.0], [3.0, 4.0, 0.0], [0.0, 0.0, -2.0], [3.0, 4.0, 0.0]])
    result = silot.value_holders([X + s for s in shifts], VALIDATION, map="direct")
    assert result.between is not None
    np.testing.assert_allclose(result.between.values[:-1, :-1], cdist(shifts, shifts), atol=1e-7)
    assert result.between["1", "3"].value == 0.0


def test_a_map_changes_nothing_else_and_has_the_cost_of_its_run() -> None:
    plain = silot.value_holders(MARKET, VALIDATION)
    mapped = silot.value_holders(MARKET, VALIDATION, map="direct")
    assert [item.to_dict() for item in mapped.holders] == [item.to_dict() for item in plain.holders]
    assert mapped.between is not None and mapped.between.cost == mapped.cost
    assert mapped.rounds == plain.rounds + 1
    assert "for the map of holders all sent their records" in mapped.status
    assert plain.between is None and plain.disclosure == "statistics"


@pytest.mark.parametrize("method", ["target", "direct"])
def test_shapley_values_divide_what_the_best_mixture_of_all_explains(method: str) -> None:
    records = VALIDATION.points
    halves = {"low": records[records[:, 0] < 0], "high": records[records[:, 0] >= 0]}
    holders = {**halves, "far": records + 50.0}
    plain = silot.value_holders(holders, VALIDATION, method=method)
    found = silot.value_holders(holders, VALIDATION, method=method, shapley=True)
    values = {item.holder: item.shapley for item in found.holders}
    assert values["far"] == 0.0 and found["far"].shapley_share == 0.0
    assert values["low"] + values["high"] == pytest.approx(1.0, abs=0.005)
    assert sum(item.shapley_share for item in found.holders) == pytest.approx(1.0)
    assert found.shares == plain.shares and found.disclosure == "record"
    assert found.rounds == plain.rounds + 1
    assert "Shapley values exact: all 8 coalitions" in found.status
    assert plain["low"].shapley is None and found.to_dict()["holders"][0]["shapley"] is not None


def test_map_and_shapley_values_take_one_question() -> None:
    one = silot.value_holders(MARKET, VALIDATION, map="direct")
    both = silot.value_holders(MARKET, VALIDATION, map="direct", shapley=True)
    assert both.rounds == one.rounds and both.bytes_sent == one.bytes_sent
    assert both.between is not None and one.between is not None
    assert both.between.values.tolist() == one.between.values.tolist()


def test_a_holder_that_refuses_leaves_shapley_values_out() -> None:
    holders = {"a": X, "b": Holder(Measure(X + 1.0), EXACT, Ledger())}
    found = LocalFederation(holders).run(contributions("ab", own=Own(VALIDATION), shapley=True))
    assert [item.shapley for item in found.holders] == [None, None]
    assert "no Shapley values: b (policy-question)" in found.status
    lonely = silot.value_holders({"a": X}, VALIDATION, shapley=True)
    assert lonely["a"].shapley is None and "no Shapley values: two holders" in lonely.status


@pytest.mark.heavy
@pytest.mark.parametrize("aim", ["validation", "barycenter"])
def test_shapley_values_of_sketches_disclose_nothing_more(aim: str) -> None:
    rng = np.random.default_rng(3)
    public = rng.normal(size=(150, 2))
    holders = {"a": rng.normal(size=(3000, 2)), "b": rng.normal(size=(3000, 2)) + 4.0}
    validation = rng.normal(size=(300, 2)) if aim == "validation" else None
    plain, found = (
        silot.value_holders(holders, validation, method="sketch", public=public, shapley=each)
        for each in (False, True)
    )
    assert found.disclosure == plain.disclosure == "private" and found.rounds == plain.rounds
    assert found.privacy_mu == plain.privacy_mu
    values = [item.shapley or 0.0 for item in found.holders]
    assert min(values) >= 0.0
    if aim == "validation":
        assert values[0] > 0.7 > 0.1 > values[1]


def test_a_holder_that_refuses_the_map_leaves_it_out_and_is_named() -> None:
    one = {"a": X, "b": Holder(Measure(X + 1.0), EXACT, Ledger())}
    protocol = contributions("ab", own=Own(VALIDATION), map="direct")
    result = LocalFederation(one).run(protocol)
    assert result.between is None and len(result.holders) == 2
    assert "no map of holders: b (policy-question)" in result.status
    two = {"a": X, "b": Holder(Measure(X + 1.0), EXACT, Ledger())}
    plain = LocalFederation(two).run(contributions("ab", own=Own(VALIDATION)))
    assert [item.to_dict() for item in result.holders] == [item.to_dict() for item in plain.holders]


@pytest.mark.heavy
def test_a_map_from_sketches_counts_both_runs_and_stands_apart_from_the_worth() -> None:
    pytest.importorskip("opendp")
    rng = np.random.default_rng(0)
    holders = {name: rng.normal(k, 1.0, size=(400, 2)) for k, name in enumerate("abc")}
    validation, public = rng.normal(size=(200, 2)), rng.normal(1.0, 1.5, size=(150, 2))
    plain = silot.value_holders(holders, validation)
    mapped = silot.value_holders(
        holders, validation, map="sketch", map_options={"public": public, "privacy_epsilon": 2.0}
    )
    assert mapped.between is not None and mapped.between.names == ("a", "b", "c", COORDINATOR)
    assert mapped.shares == plain.shares and mapped.disclosure == "statistics"
    assert mapped.rounds == plain.rounds + mapped.between.cost.rounds
    assert mapped.privacy_mu == mapped.between.cost.privacy_mu > 0
    alone = silot.value_holders(
        holders, validation, method="sketch", map="sketch", public=public, privacy_epsilon=2.0
    )
    # One set of sketches tells both, so they agree.
    assert alone.between is not None
    for item in alone.holders:
        assert alone.between[item.holder, COORDINATOR].value == item.distance.value
    assert alone.between.cost == alone.cost


@pytest.mark.heavy
@pytest.mark.parametrize("validation", [VALIDATION, None])
@pytest.mark.parametrize("labels", [False, True])
def test_a_map_by_secure_distances_asks_for_every_pair_and_the_target(
    validation: Measure | None, labels: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked_for: list[tuple[str, str, str]] = []

    def told(engine: Simulation, parties: dict[str, Measure], tell: None) -> tuple[Distance, Run]:
        assert engine.options.scale == 4.0
        own = {} if engine.own is None else {COORDINATOR: engine.own.measure}  # type: ignore[attr-defined]
        (a,), (b,) = engine.first, engine.second
        embedding = engine.options.embedding
        asked_for.append((a, b, embedding))
        pair = {**parties, **own}
        found = silot.distance(pair[a], pair[b], labels=embedding != "none")
        cost = Run(found.rounds, 1, 1, 0.0, "statistics", found.transcript, None, 0.0)  # type: ignore[arg-type]
        return replace(found, method="secure", holders=(a, b)), cost

    # The engine is heavy and not everywhere; what it is asked is the same.
    monkeypatch.setattr(Simulation, "__call__", told)
    monkeypatch.setattr("silot.api.value.find_spec", lambda name: name)
    options: dict[str, Any] = {"labels": labels, "support": 12, "rounds": 4}
    plain = silot.value_holders(MARKET, validation, **options)
    found = silot.value_holders(
        MARKET, validation, map="secure", map_options={"scale": 4.0}, **options
    )
    names = (*MARKET, COORDINATOR)
    kind = "diagonal" if labels else "none"
    assert asked_for == [(a, b, kind) for a, b in combinations(names, 2)]
    assert found.between is not None and found.between.names == names
    assert found.between.method == "secure" and found.disclosure == plain.disclosure
    assert found.rounds == plain.rounds + found.between.cost.rounds
    target = validation
    if target is None:
        assert found.barycenter is not None
        target = found.barycenter.measure
    known = silot.distance_matrix({**MARKET, "target": target}, labels=labels)
    np.testing.assert_allclose(found.between.values, known.values, rtol=1e-9)


def test_a_map_whose_runs_fail_is_left_out_and_nothing_else_is_lost() -> None:
    pytest.importorskip("opendp")
    rng = np.random.default_rng(0)
    holders = {name: rng.normal(k, 1.0, size=(20, 2)) for k, name in enumerate("abc")}
    public = rng.normal(size=(150, 2))
    found = silot.value_holders(holders, public[:50], map="sketch", map_options={"public": public})
    assert found.between is None and len(found.holders) == 3
    assert "; no map of holders: " in found.status and "(sketch-small)" in found.status
    # Their counts were told and charged before there was no map.
    plain = silot.value_holders(holders, public[:50])
    assert plain.privacy_mu == 0 and 0 < found.privacy_mu < 0.1
    assert plain.disclosure == found.disclosure == "statistics"
    assert found.rounds > plain.rounds and found.bytes_received > plain.bytes_received


# Policies and disclosure.


@pytest.mark.parametrize("labels", ["none", "classes", "vectors"])
def test_target_method_works_where_a_policy_names_its_questions(labels: str) -> None:
    federation = LocalFederation({name: Holder(x, EXACT, Ledger()) for name, x in LARGE.items()})
    result = federation.run(
        contributions(list(LARGE), own=Own(VALIDATION), labels=labels)  # type: ignore[arg-type]
    )
    assert len(result.holders) == 3 and result.missing == {}
    assert "every holder saw the validation records" in result.status


def asked(result: Contributions) -> set[str]:
    assert result.transcript is not None
    return {
        entry.open().kind  # type: ignore[union-attr]
        for entry in result.transcript.entries
        if entry.direction == "sent"
    }


@pytest.mark.parametrize(
    ("labels", "tolerance"),
    [
        ("none", 2.0),
        ("classes", 0.0),
        ("classes", 2.0),
        ("vectors", 2.0),
    ],
)  # fmt: skip
def test_target_method_says_the_finest_thing_it_discloses(labels: str, tolerance: float) -> None:
    protocol = contributions(
        list(MARKET),
        own=Own(VALIDATION),
        labels=labels,  # type: ignore[arg-type]
        class_tolerance=tolerance,
    )
    result = LocalFederation(MARKET).run(protocol)
    finest = max(question_kinds()[kind].level for kind in asked(result))
    assert result.disclosure == str(finest)
    assert protocol.disclosure == finest
    assert finest == Disclosure.STATISTICS
    LocalFederation({k: Holder(x, EXACT, Ledger()) for k, x in LARGE.items()}).run(protocol)


def test_without_labels_numbers_are_all_a_holder_tells() -> None:
    protocol = contributions(list(MARKET), own=Own(VALIDATION))
    assert protocol.disclosure is Disclosure.STATISTICS
    federation = LocalFederation({k: Holder(x, EXACT, Ledger()) for k, x in LARGE.items()})
    result = federation.run(protocol)
    assert result.transcript is not None
    for entry in result.transcript.entries:
        reply = entry.open()
        if entry.direction == "received":
            # A verdict has numbers of each column, and none of a record.
            assert isinstance(reply, Answer) and set(reply.arrays) <= {"verdict", "changes"}
    assert result.rounds <= protocol.expected_rounds


@pytest.mark.parametrize("method", ["fedbary", "trianglewad", "direct"])
def test_record_methods_are_refused_by_the_default_policy(method: str) -> None:
    federation = LocalFederation({"a": X, "b": Holder(Measure(X), Policy())})
    with pytest.raises(RefusedError) as caught:
        federation.run(contributions("ab", own=Own(VALIDATION), method=method))  # type: ignore[arg-type]
    code = "policy-level"
    assert caught.value.code == code
    result = federation.run(
        contributions("ab", own=Own(VALIDATION), method=method, quorum=1)  # type: ignore[arg-type]
    )
    assert result.missing == {"b": code} and result.names == ("a",)
    assert result.shares == {"a": 1.0}
    assert f"without b ({code})" in result.status


class Broken(Saying):
    """A holder that fails whatever it is asked."""

    def says(self, question: Question) -> Answer | Failure:
        raise RuntimeError("record 8675309.25")


@pytest.mark.parametrize(
    "method",
    [
        "target",
        *(name for name in ("fedbary", "trianglewad", "direct")),
    ],
)
def test_two_of_four_holders_are_a_quorum_of_two_whenever_the_others_drop_out(method: str) -> None:
    quiet = Policy(level="record", questions=frozenset({"describe"}))
    federation = LocalFederation(
        {
            "broken": Broken(Measure(X), OPEN),
            "quiet": Holder(Measure(X), quiet),
            "a": X,
            "b": X + 1.0,
        }
    )
    result = federation.run(
        contributions(
            federation.names,
            own=Own(VALIDATION),
            method=method,  # type: ignore[arg-type]
            quorum=2,
            rounds=3,
        )
    )
    assert result.names == ("a", "b")
    assert result.missing == {"broken": "holder-raised", "quiet": "policy-question"}


def test_a_missing_quorum_raises_what_went_wrong_without_its_text() -> None:
    federation = LocalFederation({"a": X, "broken": Broken(Measure(X), OPEN)})
    with pytest.raises(SilotError) as caught:
        federation.run(contributions(federation.names, own=Own(VALIDATION)))
    assert caught.value.code == "holder-raised"
    assert "8675309" not in str(caught.value)


# Edge cases: a finite value, or a coded error; numpy warnings are errors here.

RECORDS = np.random.default_rng(7).normal(size=(30, 2))
CYCLE = np.array(["a", "b", "c"] * 10)
CASES: dict[str, Callable[[], Measure]] = {
    "one class": lambda: Measure(RECORDS[:9], labels=["a"] * 9),
    "one record": lambda: Measure(RECORDS[:1], labels=["b"]),
    "an unseen label": lambda: Measure(RECORDS[:9], labels=[*"abcabcab", "new"]),
    "all labels unseen": lambda: Measure(RECORDS[:9], labels=[*"xyxyxyxyx"]),
    "an unseen label without mass": lambda: Measure(RECORDS[:3], [1, 1, 0], [*"ab", "new"]),
    "one constant feature": lambda: Measure(RECORDS * [1.0, 0.0], labels=CYCLE),
    "constant features": lambda: Measure(np.ones((30, 2)), labels=CYCLE),
    "one record has all mass": lambda: Measure(RECORDS, [1e15, *[1.0] * 29], labels=CYCLE),
    "huge offset": lambda: Measure(RECORDS + 1e8, labels=CYCLE),
    "huge": lambda: Measure(RECORDS * 1e140, labels=CYCLE),
    "tiny": lambda: Measure(RECORDS * 1e-150, labels=CYCLE),
    "plain": lambda: Measure(RECORDS, labels=CYCLE),
}
WAYS: dict[str, dict[str, object]] = {
    "plain": {},
    "classes": {"labels": True},
    "vectors": {"labels": True, "label_metric": "vectors"},
    "fedbary": {"method": "fedbary"},
    "trianglewad": {"method": "trianglewad"},
    "map": {"map": "direct"},
    "shapley": {"shapley": True},
}


@pytest.mark.heavy
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("side", ["holder", "validation", "both"])
def test_odd_data_give_a_finite_value_or_a_coded_error(side: str, case: str, way: str) -> None:
    odd, plain = CASES[case](), CASES["plain"]()
    holder, validation = (
        odd if side in (this, "both") else plain for this in ("holder", "validation")
    )
    try:
        result = silot.value_holders(
            {"odd": holder, "plain": plain},
            validation,
            support=7,
            rounds=3,
            **WAYS[way],  # type: ignore[arg-type]
        )
    except SilotError as error:
        assert error.code != "holder-raised", error
        assert case == "huge" or (error.code, case) == ("labels-disjoint", "all labels unseen")
        return
    for item in result.holders:
        assert 0 <= item.distance.lower <= item.distance.value <= item.distance.upper < np.inf
        assert np.isfinite([item.share, item.explained, item.fedbary_share]).all()
    assert sum(result.shares.values()) == pytest.approx(1.0)
    assert np.isfinite(result.spread)


@pytest.mark.parametrize("case", [case for case in CASES if case != "huge"])
def test_barycenters_of_odd_data_give_finite_values(case: str) -> None:
    holders = {"odd": CASES[case](), "plain": CASES["plain"]()}
    result = silot.value_holders(holders, support=9, rounds=4, labels=True)
    assert all(np.isfinite(item.distance.value) for item in result.holders)
    assert result.barycenter is not None
    assert np.isfinite(result.barycenter.points).all()
    assert result.barycenter.lower <= result.barycenter.objective


@pytest.mark.parametrize("offset", [0.0, 1e8])
@pytest.mark.parametrize("labels", [False, True])
def test_distances_on_the_line_are_those_of_sorted_records(offset: float, labels: bool) -> None:
    rng = np.random.default_rng(3)
    x, y = np.round(rng.normal(size=(2, 20)) * 64) / 64 + offset
    known = float(np.mean((np.sort(x) - np.sort(y)) ** 2)) ** 0.5
    one = ["k"] * 20
    result = silot.value_holders(
        {"h": Measure(x[:, None], labels=one)}, Measure(y[:, None], labels=one), labels=labels
    )
    assert result["h"].distance.value == pytest.approx(known, rel=1e-9)


def test_validation_data_of_one_record_value_by_second_moments() -> None:
    result = silot.value_holders({"a": [[1.0], [3.0]], "b": [[5.0]]}, [[0.0]])
    assert result["a"].distance.value == pytest.approx(5.0**0.5)
    assert result["b"].distance.value == pytest.approx(5.0)
    assert result.spread == 0.0
    assert [item.explained for item in result.holders] == [0.0, 0.0]


def test_same_seed_gives_the_same_result() -> None:
    first, second = (
        silot.value_holders(MARKET, seed=4, support=9, rounds=4, labels=True) for _ in range(2)
    )
    assert first.shares == second.shares
    assert first.barycenter is not None and second.barycenter is not None
    np.testing.assert_array_equal(first.barycenter.points, second.barycenter.points)


# Answers that do not fit.


class Lying(Saying):
    """A holder whose answers of one kind are replaced."""

    def __init__(self, measure: Measure, kind: str, reply: Answer) -> None:
        super().__init__(measure, OPEN)
        self._kind, self._answer = kind, reply

    def says(self, question: Question) -> Answer | Failure:
        return self._answer if question.kind == self._kind else self.answer(question)


def told(**scalars: object) -> Answer:
    return Answer(scalars={"distance": 1.0, "distance_lower": 1.0, "optimal": True} | scalars)  # type: ignore[arg-type]


LABELLED = Measure(X, labels=KINDS)


@pytest.mark.parametrize(
    ("kind", "reply"),
    [
        ("labelled-distance-with-error", told(distance=float("nan"))),
        ("labelled-distance-with-error", told(distance=float("inf"))),
        ("labelled-distance-with-error", told(distance=-1.0)),
        ("labelled-distance-with-error", told(distance="near")),
        ("labelled-distance-with-error", told(distance_lower=2.0)),
        ("labelled-distance-with-error", told(optimal=0)),
        ("labelled-distance-with-error", Answer()),
        ("labelled-distance-with-error", told(corrected=1e300, margin=1.0)),
        ("labelled-distance-with-error", told(corrected=1.0, margin=-1.0)),
        ("labelled-distance-with-error", told(corrected=float("nan"))),
        ("class-sizes", Answer({"masses": np.array([np.nan, 0.5, 0.5])})),
        ("class-sizes", Answer({"masses": np.array([[1.0]])})),
        ("class-sizes", Answer()),
        *(
            ("class-sizes", Answer({"masses": np.array(masses)}))
            for masses in ([1.0], [-0.5, 0.5, 1.0], [5.0, 5.0, 5.0])
        ),
        ("describe", Answer(scalars={"records": 0, "dimension": 3, "uniform": True})),
    ],
)
def test_an_answer_that_does_not_fit_is_a_coded_error(kind: str, reply: Answer) -> None:
    federation = LocalFederation({"a": Lying(LABELLED, kind, reply), "b": LABELLED})
    with pytest.raises(SilotError) as caught:
        federation.run(contributions("ab", own=Own(VALIDATION), labels="classes"))
    assert caught.value.code == "answer-malformed"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"method": "magic"}, "option-method"),
        ({"labels": "maybe"}, "option-labels"),
        ({"labels": "classes", "method": "fedbary"}, "option-labels"),
        ({"class_tolerance": -1.0}, "option-class-tolerance"),
        ({"class_tolerance": float("nan")}, "option-class-tolerance"),
        ({"label_weight": -1.0}, "option-label-weight"),
        ({"support": 0}, "option-support"),
        ({"rounds": 0}, "option-rounds"),
        ({"seed": -1}, "option-seed"),
        ({"quorum": 9}, "option-quorum"),
        ({"map": 1}, "option-map"),
        ({"shapley": 1}, "option-shapley"),
        ({"map": "sketch"}, "option-map"),
        ({"intervals": 1}, "option-intervals"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], code: str) -> None:
    assert_refused(
        lambda: contributions("ab", own=Own(VALIDATION), **options),  # type: ignore[arg-type]
        InputError,
        code,
    )
