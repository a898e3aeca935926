"""The sketch from question to result: what it spends, what it tells, and how near it comes."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from scipy.stats import spearmanr

import silot
from silot import Measure, Policy
from silot.distances.sketches.decoded import DecodedSketches
from silot.distances.sketches.release_options import read_public_points
from silot.distances.sketches.result import Sketches
from silot.distances.sketches.sketch import sketch, sketches
from silot.errors import HolderError, InputError, MismatchError, RefusedError
from silot.federation import Answer, Holder, LocalFederation, Own
from silot.federation.answer import decode_reply, encode_reply
from silot.federation.question import decode_question
from silot.privacy import Ledger, mu_of
from tests.problems import assert_refused

D = 6
RNG = np.random.default_rng(0)
CENTRES = 3.0 * RNG.normal(size=(4, D))


def draw(rng: np.random.Generator, n: int, shares: object = None) -> tuple[np.ndarray, np.ndarray]:
    codes = rng.choice(4, n, p=shares)
    return CENTRES[codes] + rng.normal(size=(n, D)), codes


PUBLIC, PUBLIC_CODES = draw(RNG, 240)
SHARES = [[0.25] * 4, [0.55, 0.15, 0.15, 0.15], [0.1, 0.1, 0.4, 0.4], [0.0, 0.0, 0.1, 0.9]]
DRAWN = {f"h{k}": draw(RNG, 2000, share) for k, share in enumerate(SHARES)}
DATA = {name: points for name, (points, _) in DRAWN.items()}
LABELLED = {name: Measure(points, labels=codes) for name, (points, codes) in DRAWN.items()}
VALIDATION = draw(RNG, 300, SHARES[2])[0]


def exact(x: np.ndarray, y: np.ndarray) -> float:
    cost = cdist(x, y) ** 2
    return float(cost[linear_sum_assignment(cost)].mean()) ** 0.5


def holders(
    epsilon: float | None = 1.0, data: dict[str, object] | None = None
) -> dict[str, Holder]:
    policy = Policy(privacy_epsilon=epsilon)
    return {
        name: Holder(points, policy, Ledger(None))  # type: ignore[arg-type]
        for name, points in (data or DATA).items()
    }


@pytest.fixture(scope="module")
def found() -> Sketches:
    return silot.api.sketches(DATA, VALIDATION, public=PUBLIC)


# What is asked, told and spent.


@pytest.mark.heavy
def test_one_run_spends_exactly_the_budget_and_the_next_nothing() -> None:
    parties = holders()
    fed = LocalFederation(parties)
    first = fed.run(sketches(list(DATA), public=PUBLIC))
    assert first.privacy_mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)
    assert first.spent_mu == mu_of(1.0, 1e-5)
    again = fed.run(sketches(list(DATA)[::-1], public=PUBLIC))
    assert again.privacy_mu == 0
    for a, b in combinations(DATA, 2):
        assert again.distance(b, a).value == first.distance(a, b).value
        assert again.distance(a, b).interval == first.distance(a, b).interval
    assert again.records == first.records
    with pytest.raises(RefusedError) as caught:
        fed.run(sketches(list(DATA), public=PUBLIC, seed=1))
    assert caught.value.code == "ledger-budget"


def test_a_public_size_saves_the_count_and_still_spends_the_budget() -> None:
    fed = LocalFederation(holders())
    result = fed.run(sketches(list(DATA), public=PUBLIC, size=2000))
    assert result.rounds == 1
    assert result.privacy_mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-9)


def test_a_holder_without_a_budget_refuses() -> None:
    fed = LocalFederation(holders(None))
    with pytest.raises(RefusedError) as caught:
        fed.run(sketches(list(DATA), public=PUBLIC))
    assert caught.value.code == "policy-budget"


def test_no_record_and_no_label_of_a_holder_is_in_the_messages() -> None:
    secret = {
        name: Measure(points, labels=[f"secret-{code}" for code in codes])
        for name, (points, codes) in DRAWN.items()
    }
    public = Measure(PUBLIC, labels=PUBLIC_CODES)
    result = silot.api.sketches(secret, public=public, labels=True)
    assert result.transcript is not None
    kinds = set()
    for entry in result.transcript.entries:
        assert b"secret" not in entry.payload
        for points, _ in DRAWN.values():
            assert not any(value.tobytes() in entry.payload for value in points[:50].ravel())
        if entry.direction == "sent":
            kinds.add(decode_question(entry.payload).kind)
    assert kinds == {"count-records", "sketch-records"}
    # All labels are unknown: what they are counted as is one class of no name.
    assert set(np.unique(result.measures["h0"].labels)) >= {"other"}
    assert result.disclosure == "private"


@pytest.mark.heavy
def test_two_runs_differ_whatever_the_seed() -> None:
    first, second = (silot.distance(DATA["h0"], DATA["h1"], method="sketch", public=PUBLIC, seed=0)
                     for _ in range(2))  # fmt: skip
    assert first.value != second.value


@pytest.mark.parametrize(("n", "epsilon", "small"), [(150, 1.0, True), (150, 4.0, False)])
def test_too_few_records_are_refused_and_told_what_would_do(
    n: int, epsilon: float, small: bool
) -> None:
    few = {name: points[:n] for name, points in DATA.items()}
    if not small:
        assert silot.api.sketches(few, public=PUBLIC, privacy_epsilon=epsilon).nu > 50
        return
    parties = holders(epsilon, few)  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        LocalFederation(parties).run(sketches(list(few), public=PUBLIC, size=n))
    assert caught.value.code == "sketch-small"
    assert "records would be enough" in caught.value.message
    assert "privacy_epsilon of" in caught.value.message


# How near it comes.


@pytest.mark.slow
@pytest.mark.parametrize("d", [10, 50])
def test_ten_holders_keep_their_distances_and_their_order(d: int) -> None:
    # As much to tell, next to the noise, as 2000 records at epsilon 1.
    rng = np.random.default_rng(d)
    centres = 6.0 / d**0.5 * rng.normal(size=(8, d))

    def sample(n: int, shares: np.ndarray) -> np.ndarray:
        return centres[rng.choice(8, n, p=shares)] + 0.7 * rng.normal(size=(n, d))

    data = {f"h{k}": sample(600, rng.dirichlet(np.full(8, 0.5))) for k in range(10)}
    public = sample(400, np.full(8, 1 / 8))
    epsilon = 3.6
    assert 600 * mu_of(epsilon, 1e-5) < 2000 * mu_of(1.0, 1e-5)
    result = silot.distance_matrix(data, method="sketch", public=public, privacy_epsilon=epsilon)
    pairs = list(combinations(data, 2))
    true = np.array([exact(data[a], data[b]) for a, b in pairs])
    values = np.array([result[pair].value for pair in pairs])
    assert np.mean(np.abs(values / true - 1)) < 0.12
    assert spearmanr(values, true)[0] > 0.9


@pytest.mark.heavy
def test_a_matrix_is_one_run_and_its_pairs_have_intervals(found: Sketches) -> None:
    matrix = found.matrix()
    assert matrix.cost.rounds == found.rounds == 2
    assert matrix.cost.bytes_sent == found.bytes_sent
    assert matrix.disclosure == "private"
    for pair in matrix.pairs.values():
        low, high = pair.interval or (0.0, 0.0)
        assert 0 <= low < pair.value < high
        assert pair.bounds == (0.0, np.inf)
        assert "not certified" in pair.status
    assert json.loads(matrix.to_json())["pairs"][0]["interval"] is not None


@pytest.mark.heavy
def test_values_follow_the_distance_to_validation_data(found: Sketches) -> None:
    values = found.values()
    truth = {name: exact(points[:300], VALIDATION) for name, points in DATA.items()}
    assert values.ranking[0].holder == min(truth, key=truth.__getitem__) == "h2"
    assert values.target == "validation" and values.rounds == found.rounds
    assert sum(values.shares.values()) == pytest.approx(1.0)
    direct = silot.value_holders(DATA, VALIDATION, method="direct")
    assert values.spread == pytest.approx(direct.spread, rel=0.1)
    assert found.values("barycenter").barycenter is not None


def test_the_barycenter_of_translates_lies_between_them() -> None:
    rng = np.random.default_rng(5)
    data = {"a": rng.normal(size=(3000, 2)), "b": rng.normal([4.0, 0.0], 1.0, (3000, 2))}
    public = rng.normal(size=(600, 2)) + np.array([4.0, 0.0]) * rng.integers(2, size=(600, 1))
    result = silot.barycenter(data, method="sketch", public=public)
    np.testing.assert_allclose(result.weights @ result.points, [2.0, 0.0], atol=0.3)
    assert result.objective == pytest.approx(4.0, rel=0.15)
    objectives = [entry["objective"] for entry in result.history]
    # At a fixed point the last steps differ by rounding alone.
    assert all(b <= a * (1 + 1e-12) for a, b in pairwise(objectives))
    heavy = silot.barycenter(
        data, method="sketch", public=public, weights={"a": 3, "b": 1}, support=10
    )
    assert len(heavy.weights) <= 10
    np.testing.assert_allclose(heavy.weights @ heavy.points, [1.0, 0.0], atol=0.3)


@pytest.mark.heavy
def test_labelled_distances_are_those_of_label_vectors() -> None:
    public = Measure(PUBLIC, labels=PUBLIC_CODES)
    result = silot.api.sketches(LABELLED, public=public, labels=True, privacy_epsilon=4.0)
    for a, b in (("h0", "h1"), ("h0", "h3")):
        small = [Measure(DRAWN[k][0][:600], labels=DRAWN[k][1][:600]) for k in (a, b)]
        direct = silot.distance(*small, labels=True)
        assert result.distance(a, b).value == pytest.approx(direct.value, rel=0.2)


def test_weighted_records_count_for_their_share_of_the_limit() -> None:
    rng = np.random.default_rng(2)
    weights = rng.choice([1.0, 3.0], 2000)
    weighted = {"a": Measure(DATA["h0"], weights=weights), "b": DATA["h1"]}
    assert_refused(
        lambda: silot.api.sketches(weighted, public=PUBLIC), InputError, "sketch-weights"
    )
    assert_refused(
        lambda: silot.api.sketches(weighted, public=PUBLIC, mass_limit=2.0),
        InputError,
        "sketch-weights",
    )
    result = silot.api.sketches(
        {"a": weighted["a"]}, public=PUBLIC, mass_limit=3.0, privacy_epsilon=8.0
    )
    assert result.records["a"] == pytest.approx(weights.sum() / 3.0, rel=0.1)


def test_the_coordinators_own_measure_is_a_side() -> None:
    fed = LocalFederation({"h2": DATA["h2"]})
    own = Own(Measure(VALIDATION))
    near = fed.run(sketch("h2", own=own, public=PUBLIC, privacy_epsilon=4.0))
    assert near.holders == ("h2", "coordinator")
    true = exact(DATA["h2"][:300], VALIDATION)
    assert near.value == pytest.approx(true, rel=0.2)
    assert near.interval is not None and near.interval[0] < near.value < near.interval[1]


@pytest.mark.parametrize("d", [2, 3])
def test_a_public_mean_and_scale_do_without_a_sample(d: int) -> None:
    rng = np.random.default_rng(4)
    data = {"a": rng.normal(size=(2000, d)), "b": rng.normal(size=(2000, d)) + 1.0}
    result = silot.api.sketches(data, public_mean=np.full(d, 0.5), public_scale=1.2)
    assert result.distance("a", "b").value == pytest.approx(d**0.5, rel=0.25)
    assert "assumed normal distribution" in result.status
    assert result.distance("a", "b").interval is None and "no interval" in result.status


def test_what_nothing_public_can_judge_has_no_interval() -> None:
    few = silot.api.sketches(DATA, public=PUBLIC[:99])
    assert few.distance("h0", "h3").interval is None
    assert "100 records or more" in few.status
    unnamed = silot.api.sketches(
        LABELLED, public=PUBLIC, labels=True, classes=range(4), privacy_epsilon=4.0
    )
    assert unnamed.distance("h0", "h3").interval is None
    assert "labels" in unnamed.status


def test_heavy_tails_of_the_public_records_are_told() -> None:
    rng = np.random.default_rng(43)
    public, x = (rng.standard_t(1.5, size=(n, 2)) for n in (300, 1500))
    assert "heavy tails" in silot.api.sketches({"a": x}, public=public, size=1500).status
    assert (
        "heavy tails" not in silot.api.sketches({"a": DATA["h0"]}, public=PUBLIC, size=2000).status
    )


def test_holders_of_about_one_size_need_one_simulation(found: Sketches) -> None:
    found.matrix()
    book = found.book
    assert isinstance(book, DecodedSketches) and book.calibration is not None
    noisy = [key for key in book.calibration._fits if all(side.noisy for side in key)]
    assert len(noisy) == 1


# What is wrong is said, in time.


@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        ({}, InputError, "public-absent"),
        ({"public": PUBLIC, "public_mean": 0.0}, InputError, "option-public"),
        ({"public": PUBLIC[:10]}, InputError, "public-few"),
        ({"public": PUBLIC, "p": 1}, InputError, "option-p"),
        ({"public": PUBLIC, "seed": -1}, InputError, "option-seed"),
        ({"public": PUBLIC, "size": 0}, InputError, "option-size"),
        ({"public": PUBLIC, "cells": 1}, InputError, "option-cells"),
        ({"public": PUBLIC, "mass_limit": 0}, InputError, "option-mass-limit"),
        ({"public": PUBLIC, "support": 5}, InputError, "option-unknown"),
        ({"public": PUBLIC[:, :3]}, MismatchError, "dimension-mismatch"),
    ],
)
def test_options_that_cannot_be_are_refused(
    options: dict[str, object], kind: type[silot.errors.SilotError], code: str
) -> None:
    with pytest.raises(silot.errors.SilotError) as caught:
        silot.distance(DATA["h0"], DATA["h1"], method="sketch", **options)  # type: ignore[arg-type]
    assert isinstance(caught.value, kind)
    assert caught.value.code == code


def test_labels_need_public_classes() -> None:
    assert_refused(
        lambda: silot.api.sketches(LABELLED, public=PUBLIC, labels=True),
        InputError,
        "sketch-classes",
    )
    named = silot.api.sketches(
        LABELLED, public=PUBLIC, labels=True, classes=[0.0, 1, 2], privacy_epsilon=4.0
    )
    told = named.measures["h0"]
    masses = {name: told.weights[told.labels == name].sum() for name in np.unique(told.labels)}
    # The fourth class is not among those named.
    assert masses["other"] == pytest.approx(0.25, abs=0.08)
    assert masses["1"] == pytest.approx(0.25, abs=0.08)


def test_holders_of_other_features_are_told_apart_before_anything_is_asked() -> None:
    assert_refused(
        lambda: silot.api.sketches({"a": DATA["h0"], "b": DATA["h0"][:, :2]}, public=PUBLIC),
        MismatchError,
        "dimension-mismatch",
    )


def test_a_name_without_a_sketch_and_one_given_twice_are_refused(found: Sketches) -> None:
    assert_refused(lambda: found.distance("h0", "nobody"), InputError, "holder-unknown")
    assert_refused(lambda: found.distance("h0", "h0"), InputError, "holder-names")
    assert_refused(lambda: found.values("elsewhere"), InputError, "option-target")  # type: ignore[arg-type]


@pytest.mark.heavy
def test_a_sketch_that_noise_outweighs_says_so() -> None:
    few = {name: points[:60] for name, points in DATA.items()}
    result = silot.api.sketches(few, public=PUBLIC, cells=8)
    pair = result.distance("h0", "h3")
    assert not pair.converged and pair.status.startswith("the noise is too large")
    assert np.isfinite(pair.value)


def test_own_records_of_very_unlike_weights_all_count() -> None:
    rng = np.random.default_rng(41)
    public, x = rng.normal(size=(400, 3)), rng.normal(size=(1500, 3))
    y, weights = rng.normal(size=(4000, 3)) + 0.5, np.full(4000, 0.9)
    # In units of a thousandth of the heaviest, all others would be rounded away.
    y[0], weights[0] = 0.5, 1000.0
    target = silot.Measure(y, weights)
    found = silot.api.sketches({"a": x}, target, public=public, privacy_epsilon=20.0)
    heaviest = found.book.pages["coordinator"].decoded.weights.max()
    assert heaviest < 1000.0 / target.masses.sum() + 0.2


@pytest.mark.parametrize("names", [["0", "1"], ["one/a", "two/a"]])
def test_a_ledger_is_never_found_by_a_name_that_is_no_holders_own(
    names: list[str], tmp_path
) -> None:
    x = np.random.default_rng(3).normal(size=(1500, 2))
    holders = dict(zip(names, (x, x + 1.0), strict=True))
    with pytest.raises(silot.errors.InputError) as caught:
        silot.api.sketches(holders, public=x[:400] + 0.1, ledgers=tmp_path)
    assert caught.value.code == "option-ledgers"
    with pytest.raises(silot.errors.InputError) as caught:
        silot.distance(x, x, method="sketch", public=x[:400], ledgers=tmp_path)
    assert caught.value.code == "option-ledgers"


class Odd(Holder):
    """A holder that changes its answers."""

    def __init__(self, change: Callable[[np.ndarray], np.ndarray]) -> None:
        super().__init__(DATA["h0"], Policy(privacy_epsilon=1.0), Ledger(None))
        self.change = change

    def reply(self, message: bytes, asker: str = "coordinator") -> bytes:
        found = decode_reply(super().reply(message, asker))
        assert isinstance(found, Answer)
        return encode_reply(
            Answer({k: self.change(told) for k, told in found.arrays.items()}, found.scalars)
        )


@pytest.mark.parametrize("size", [None, 2000])
@pytest.mark.parametrize(
    "change",
    [
        lambda told: np.tile(told, 2),
        lambda told: told.astype(float),
        lambda told: told * 0 + np.iinfo(np.int64).min,
        lambda told: told * 0 + np.iinfo(np.int64).max,
    ],
)
def test_a_holder_whose_sketch_is_none_is_named(
    size: int | None, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    parties = holders() | {"odd": Odd(change)}
    with pytest.raises(HolderError, match="'odd'") as caught:
        LocalFederation(parties).run(sketches(list(parties), public=PUBLIC, size=size))
    assert caught.value.code == "answer-malformed"


def test_a_public_measure_serves_as_well_as_its_records() -> None:
    records = np.random.default_rng(0).normal(size=(300, 4))
    labelled = Measure(records, labels=np.arange(300) % 3)
    np.testing.assert_array_equal(read_public_points(labelled), read_public_points(records))
