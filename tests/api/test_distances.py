"""What the short way says beside what protocols find."""

from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import silot
from silot import Measure
from silot.distances import direct
from silot.distances.methods import pair_rounds
from silot.distances.view import matrix_content, same_pairs
from silot.errors import InputError, RefusedError
from silot.federation import Holder, LocalFederation, Policy
from silot.privacy import Ledger


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (["I214", "I219"], "'x' and 'y' share no class: labels were compared by their records"),
        (["I21.4", "I21.9"], None),
        (["I21.4", "J45"], "only 'x' has the class I21.9; only 'y' has the class J45"),
    ],
)
def test_a_distance_of_labelled_records_says_which_classes_are_of_one_side_alone(
    other: list[str], told: str | None
) -> None:
    rng = np.random.default_rng(4)
    x, y = rng.normal(size=(40, 2)), rng.normal(size=(30, 2))
    kinds = np.arange(40) % 2
    first = Measure(x, labels=np.array(["I21.4", "I21.9"])[kinds])
    second = Measure(y, labels=np.array(other)[kinds[:30]])
    found = [silot.distance(first, second, labels=True, method=m) for m in ("direct", "fedwad")]
    found.append(silot.distance_matrix({"x": first, "y": second}, labels=True)["x", "y"])
    for result in found:
        assert (told in result.status) if told else ("class" not in result.status)
    assert "class" not in silot.distance(first, second).status


def test_classes_of_records_without_mass_are_not_counted() -> None:
    x = np.random.default_rng(0).normal(size=(6, 2))
    first = Measure(x, labels=["a", "a", "a", "b", "b", "b"])
    second = Measure(x, [1, 1, 1, 0, 0, 0], labels=["a", "a", "a", "b", "b", "b"])
    status = silot.distance(first, second, labels=True).status
    assert "only 'x' has the class b" in status


def test_a_matrix_that_ends_at_one_pair_says_what_the_pairs_before_it_told() -> None:
    rng = np.random.default_rng(0)
    shut = silot.federation.Holder(rng.normal(size=(30, 2)), Policy(), Ledger())
    holders = {"a": rng.normal(size=(30, 2)), "b": rng.normal(size=(30, 2)), "c": shut}
    with pytest.raises(RefusedError) as caught:
        silot.distance_matrix(LocalFederation(holders), method="trianglewad")
    pair = silot.distance(holders["a"], holders["b"], method="trianglewad")
    run = caught.value.run
    assert run.rounds == pair.rounds + 1 and run.bytes_received > pair.bytes_received
    assert run.disclosure == "record"
    # Of four, pairs that share no holder share the exchange that ends it: it is counted once.
    federation = LocalFederation({**holders, "c2": shut})
    for method in ("direct", "trianglewad"):
        with pytest.raises(RefusedError) as caught:
            silot.distance_matrix(federation, method=method)
        assert caught.value.run.rounds == 1 and caught.value.run.disclosure
    with pytest.raises(RefusedError) as caught:
        federation.run(direct("c", "c2"))
    assert caught.value.run.disclosure == ""


@given(count=st.integers(2, 12))
def test_every_pair_is_in_one_round_and_nobody_twice_in_any(count: int) -> None:
    names = [f"{k}" for k in range(count)]
    rounds = pair_rounds(names)
    assert len(rounds) == (count if count % 2 and count > 2 else count - 1) or count < 3
    assert sorted(pair for each in rounds for pair in each) == sorted(combinations(names, 2))
    for each in rounds:
        sides = [side for pair in each for side in pair]
        assert len(set(sides)) == len(sides)


@pytest.mark.heavy
@pytest.mark.parametrize("method", ["direct", "trianglewad"])
def test_a_matrix_asks_pairs_together_and_has_what_each_pair_gives(method: str) -> None:
    rng = np.random.default_rng(0)
    holders = {f"h{k}": rng.normal(size=(12 + k, 3)) + 0.2 * k for k in range(7)}
    found = silot.distance_matrix(holders, method=method)
    for (a, b), one in found.pairs.items():
        alone = silot.distance(holders[a], holders[b], method=method)
        assert one.value == pytest.approx(alone.value, rel=1e-12) and one.holders == (a, b)
    assert list(found.pairs) == list(combinations(found.names, 2))
    if method == "direct":
        # All records in one exchange, whatever the number of pairs.
        alone = silot.distance(holders["h0"], holders["h1"])
        assert found.cost.rounds == 1 and found.cost.bytes_received < 7 * alone.bytes_received
        # A pair says what it would have cost by itself, and has its messages.
        pair = found["h0", "h1"]
        assert pair.rounds == 1 and pair.bytes_received == alone.bytes_received
        assert pair.transcript is not None
        assert {entry.holder for entry in pair.transcript.entries} == {"h0", "h1"}
        return
    most = max(one.rounds for one in found.pairs.values())
    # Seven holders: in each of seven rounds one rests.
    assert found.cost.rounds == 7 * most
    assert found.cost.bytes_received == sum(one.bytes_received for one in found.pairs.values())


def test_a_matrix_that_a_holder_refuses_says_what_others_told() -> None:
    rng = np.random.default_rng(1)
    parties = {f"h{k}": Holder(rng.normal(size=(12, 2)), Policy.open()) for k in range(4)}
    parties["h3"] = Holder(rng.normal(size=(12, 2)), Policy())
    with pytest.raises(RefusedError) as refused:
        silot.distance_matrix(silot.federation.LocalFederation(parties))
    run = refused.value.run
    # The first round: h3 was asked with one, and the two others told all.
    assert run is not None and run.disclosure == "record" and run.bytes_received > 2 * 12 * 2 * 8


def test_names_and_paths_are_no_data_and_a_misspelt_option_is_told_first() -> None:
    for text in ("a.csv", Path("a.csv")):
        with pytest.raises(InputError, match="load_measure") as caught:
            silot.distance(text, np.zeros((2, 1)))  # type: ignore[arg-type]
        assert caught.value.code == "measure-dtype"
    with pytest.raises(InputError, match="'label_column'") as caught:
        silot.distance([["a"]], [["b"]], label_column="x")
    assert caught.value.code == "option-unknown"


@pytest.mark.parametrize("count", [6, pytest.param(24, marks=pytest.mark.heavy)])
def test_one_holder_that_differs_is_told_from_all_others_however_many_they_are(count: int) -> None:
    rng = np.random.default_rng(count)
    data = {f"h{k:02d}": rng.normal(size=(40, 2)) + 3.0 * (k == 1) for k in range(count)}
    p_values = silot.distance_matrix(data).p_values
    apart = {pair for pair, p in p_values.items() if p <= 0.05}
    odd = {pair for pair in p_values if "h01" in pair}
    assert odd <= apart and len(apart - odd) <= 0.1 * len(apart)


@pytest.mark.heavy
def test_pairs_of_one_distribution_are_rarely_told_apart() -> None:
    alarms = 0
    for seed in range(40):
        rng = np.random.default_rng([seed, 5])
        matrix = silot.distance_matrix({name: rng.normal(size=(30, 2)) for name in "abcd"})
        alarms += min(matrix.p_values.values()) <= 0.05
    # In 5 % of matrices at most any pair is: 2 are expected, 7 once in 300 times.
    assert alarms <= 6


def test_a_matrix_counts_pairs_that_cannot_be_tested_as_neither() -> None:
    rng = np.random.default_rng(0)
    data = {"a": rng.normal(size=(40, 2)), "b": rng.normal(size=(40, 2)), "few": np.zeros((3, 2))}
    matrix = silot.distance_matrix(data)
    assert set(matrix.p_values) == {("a", "b")}
    assert "Of 1 pair a test distinguishes 0; 2 cannot be tested" in str(matrix_content(matrix)[0])
    assert same_pairs(matrix).tolist() == [[False, True, False], [True, False, False], [False] * 3]


def test_method_private_compares_the_callers_own_data_with_one_holder() -> None:
    rng = np.random.default_rng(0)
    mine, theirs = rng.normal(size=(100, 2)), rng.normal(size=(1000, 2)) + 2.0
    named = LocalFederation({"north": Holder(Measure(theirs), Policy(), Ledger())})
    for found in (
        silot.distance(mine, theirs, method="private", privacy_epsilon=1.0),
        silot.distance(mine, "north", method="private", privacy_epsilon=1.0, federation=named),
    ):
        assert found.interval is not None and 1.0 < found.interval[0] < found.interval[1] < 6.0
        assert found.disclosure == "private" and found.in_memory
    with pytest.raises(InputError, match="not two holders"):
        silot.distance_matrix({"a": mine, "b": theirs}, "private")
