"""Groups of holders: planted ones are seen, and where there are none it says so."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import silot
from silot import Measure, Policy
from silot.distances import DistanceMatrix
from silot.errors import HolderError, InputError, MismatchError
from silot.federation import Holder, LocalFederation
from silot.teaching import Clustering
from silot.teaching.federated.clustering import Grouping, spectral
from tests.render.factory import matrix_of
from tests.tiers import examples

Array = np.ndarray


def planted(
    sizes: tuple[int, ...], shift: float = 4.0, records: int = 60, seed: int = 0
) -> tuple[dict[str, Array], list[int]]:
    """Holders of groups on corners of a cube, and the number of each one's group."""
    rng = np.random.default_rng([91, seed])
    group = [k for k, size in enumerate(sizes) for _ in range(size)]
    corners = [np.array([k & 1, k >> 1 & 1, k >> 2 & 1], dtype=float) for k in range(8)]
    data = {
        f"h{i:02d}": rng.normal(size=(records, 3)) + shift * corners[k] for i, k in enumerate(group)
    }
    return data, group


def rand(found: Clustering, group: list[int]) -> float:
    return float(adjusted_rand_score(group, [found.assignment[name] for name in found.names]))


def given_matrix(values: Any, lower: Any = None, upper: Any = None) -> DistanceMatrix:
    """Holders ``"a"``, ``"b"`` and so on with these distances and bounds."""
    values = np.asarray(values, dtype=float)
    lower, upper = (values if each is None else each for each in (lower, upper))
    found = matrix_of("abcdefghijklmnop"[: len(values)], values)
    place = {name: k for k, name in enumerate(found.names)}
    pairs = {
        (a, b): replace(pair, lower=lower[place[a], place[b]], upper=upper[place[a], place[b]])
        for (a, b), pair in found.pairs.items()
    }
    return replace(found, pairs=pairs)


@pytest.mark.heavy
@settings(max_examples=examples(5), deadline=None)
@given(st.lists(st.integers(1, 3), min_size=2, max_size=4), st.integers(0, 10_000))
def test_groups_that_are_far_apart_are_never_joined(sizes: list[int], seed: int) -> None:
    data, group = planted(tuple(sizes), records=30, seed=seed)
    clustering = silot.cluster(data)
    # One of them may be cut, as often as the level says.
    for members in clustering.groups:
        assert len({group[int(name[1:])] for name in members}) == 1
    assert clustering.test is not None
    assert len(clustering.test.splits) == clustering.k - 1


@pytest.mark.heavy
def test_planted_groups_are_the_groups_as_often_as_the_level_says() -> None:
    exact = 0
    for seed in range(12):
        data, group = planted((2, 3, 2), records=30, seed=seed)
        exact += rand(silot.cluster(data), group) == 1.0
    # Each of three groups is cut in 5 % of cases at most, all together in 5 % at most.
    assert exact >= 9


@pytest.mark.heavy
def test_holders_of_one_distribution_are_one_group_as_often_as_the_level_says() -> None:
    alone = 0
    for seed in range(20):
        found = silot.cluster(planted((2 + seed % 3,), records=40, seed=seed)[0])
        alone += found.k == 1
        assert (found.k == 1) == found.status.startswith("one group")
    # 19 are expected; below 15 happens once in 400 times.
    assert alone >= 15


@pytest.mark.heavy
def test_a_strict_level_joins_what_a_loose_one_separates() -> None:
    # A difference of p = .085, by 199 permutations.
    data, _ = planted((3, 3), shift=0.4, records=60, seed=4)
    assert silot.cluster(data, level=0.01).k == 1 < silot.cluster(data, level=0.5).k


def test_what_drives_groups_is_named_as_its_column_is() -> None:
    data, _ = planted((2, 2))
    tables = {name: pd.DataFrame(x, columns=["age", "bmi", "dose"]) for name, x in data.items()}
    clustering = silot.cluster(tables)
    assert "driven by age" in clustering.status and "age" in str(clustering)


def test_holders_of_one_distribution_and_of_many_sizes_are_one_group() -> None:
    rng = np.random.default_rng(5)
    data = {str(n): rng.normal(size=(n, 4)) for n in (15, 30, 60, 120, 240)}
    assert silot.cluster(data).k == 1


def test_a_lone_outlier_is_a_group_of_one() -> None:
    data, group = planted((7, 1), seed=4)
    found = silot.cluster(data)
    assert rand(found, group) == 1.0 and found.groups[1] == ("h07",)


def test_groups_stand_out_beside_an_outlier_far_away() -> None:
    data, group = planted((4, 4, 1), seed=6)
    data["h08"] = data["h08"] + 500.0
    assert rand(silot.cluster(data), group) == 1.0


@pytest.mark.heavy
def test_the_distances_are_those_of_the_matrix() -> None:
    data, _ = planted((2, 2))
    for method, options in {"direct": {}, "fedwad": {"support": 10}, "trianglewad": {}}.items():
        found = silot.cluster(data, method, k=2, **options)
        matrix = silot.distance_matrix(data, method, seed=0, **options)
        assert (found.matrix.values == matrix.values).all()
        again = silot.cluster(data, silot.api.METHODS[method](**options), k=2)
        assert again.assignment == found.assignment


def test_a_method_that_keeps_records_apart_cannot_say_how_many_groups() -> None:
    data, group = planted((3, 4, 2), seed=1)
    with pytest.raises(InputError, match=r"option-clusters.*fedwad"):
        silot.cluster(data, "fedwad")
    with pytest.raises(InputError, match="option-clusters"):
        silot.cluster(silot.distance_matrix(data))
    found = silot.cluster(data, "fedwad", k=3, support=10)
    assert rand(found, group) == 1.0 and "not tested" in found.status


def test_renamed_classes_and_rotated_features_are_groups_of_their_own() -> None:
    rng = np.random.default_rng(2)
    renamed, rotated = {}, {}
    for k, name in enumerate("abcd"):
        x = rng.normal(size=(150, 3))
        labels = np.where((x[:, 0] > 0) ^ (k > 1), "sick", "well")
        renamed[name] = Measure(x, labels=labels)
        x = rng.normal(size=(150, 2)) * [3.0, 1.0]
        rotated[name] = x @ [[0.6, 0.8], [-0.8, 0.6]] if k > 1 else x
    groups = (("a", "b"), ("c", "d"))
    assert silot.cluster(renamed, labels=True).groups == groups
    assert silot.cluster(rotated).groups == groups
    assert silot.cluster({name: x.points for name, x in renamed.items()}).k == 1


def test_the_order_of_holders_changes_nothing() -> None:
    data, _ = planted((2, 3, 1), shift=1.2, seed=8)
    first = silot.cluster(data, k=3)
    turned = silot.cluster(dict(reversed(data.items())), k=3)
    assert first.assignment == {name: turned.assignment[name] for name in data}
    assert first.status == turned.status and first.test == turned.test


def test_a_federation_finds_what_its_data_find() -> None:
    data, group = planted((3, 3))
    parties = {name: Holder(Measure(x), Policy(level="record")) for name, x in data.items()}
    found = silot.cluster(LocalFederation(parties))
    assert rand(found, group) == 1.0
    assert found.test == silot.cluster(data).test and found.disclosure == "record"


def test_a_failed_holder_ends_it_as_it_ends_a_matrix() -> None:
    data, _ = planted((2, 2))

    class Broken(Holder):
        def reply(self, payload: bytes) -> bytes:
            raise OSError

    parties: dict[str, Any] = {name: Holder(Measure(x)) for name, x in data.items()}
    parties["h01"] = Broken(Measure(data["h01"]))
    errors = []
    for call in (silot.cluster, silot.distance_matrix):
        with pytest.raises(HolderError) as caught:
            call(LocalFederation(parties))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


@pytest.mark.parametrize("affinity", ["rescaled", "neighbours"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_as_many_groups_as_asked_for(k: int, affinity: str) -> None:
    data, _ = planted((1,) * 6, shift=3.0)
    found = silot.cluster(data, k=k, affinity=affinity)
    assert found.k <= k and (affinity == "neighbours" or found.k == k)
    assert found.status.startswith(f"{found.k} group(s)")
    assert sorted(set(found.assignment.values())) == list(range(found.k))


@pytest.mark.heavy
def test_the_graph_of_nearest_holders_finds_groups_as_well() -> None:
    data, group = planted((4, 4, 4), records=20)
    for neighbours in (3, 5):
        found = silot.cluster(data, k=3, affinity="neighbours", neighbours=neighbours)
        assert rand(found, group) == 1.0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"k": 5}, "option-clusters"),
        ({"k": 0}, "option-clusters"),
        ({"k": 2.5}, "option-clusters"),
        ({"k": "two"}, "option-clusters"),
        ({"affinity": "rbf"}, "option-affinity"),
        ({"neighbours": 1}, "option-neighbours"),
        ({"level": 1.5}, "option-level"),
        ({"method": "fedwad"}, "option-clusters"),
        ({"seed": -1}, "option-seed"),
        ({"method": "nope"}, "option-method"),
        ({"support": 3}, "option-unknown"),
    ],
)
def test_options_out_of_range_are_refused_before_anybody_is_asked(
    options: dict[str, Any], code: str
) -> None:
    asked: list[str] = []

    class Watched(LocalFederation):
        def exchange(self, messages: Any, clock: Any) -> Any:
            asked.extend(messages)
            return super().exchange(messages, clock)

    with pytest.raises(InputError, match=code):
        silot.cluster(Watched(planted((2, 2))[0]), **options)
    assert asked == []


def test_data_that_are_none_are_refused() -> None:
    x = np.zeros((3, 2))
    for holders, kind, code in (
        ({"a": x}, InputError, "holder-names"),
        ({}, InputError, "holder-names"),
        ({"a": x, "b": x[:, :1]}, MismatchError, "dimension-mismatch"),
        ({"a": x, "b": np.full((3, 2), np.nan)}, InputError, "measure-nan"),
    ):
        with pytest.raises(kind, match=code):
            silot.cluster(holders)


def test_a_matrix_that_lacks_a_distance_is_refused() -> None:
    whole = given_matrix([[0, 1, 2], [1, 0, 2], [2, 2, 0]])
    pairs = dict(whole.pairs)
    lone = replace(whole, pairs={pair: pairs[pair] for pair in list(pairs)[:2]})
    pair = next(iter(pairs))
    broken = [replace(whole, pairs={**pairs, pair: replace(pairs[pair], value=value)})
              for value in (np.nan, np.inf)]  # fmt: skip
    for matrix in (lone, *broken):
        with pytest.raises(InputError, match="distances-absent"):
            silot.cluster(matrix)


def test_releases_are_grouped_by_their_counts() -> None:
    data, group = planted((3, 3), records=2000)
    public = np.concatenate([*planted((3, 3), seed=1)[0].values()])
    sketches = silot.api.sketches(data, public=public, privacy_epsilon=4.0)
    found = silot.cluster(sketches)
    assert rand(found, group) == 1.0 and found.cost == sketches.cost
    for options in ({"labels": True}, {"support": 3}):
        with pytest.raises(InputError, match="option-unknown"):
            silot.cluster(sketches, **options)


def test_few_records_cannot_be_tested() -> None:
    found = silot.cluster({"a": np.zeros((3, 2)), "b": np.ones((20, 2))})
    assert found.k == 1 and "cannot be tested: a sample has 3 records" in found.status


def test_identical_data_are_one_group() -> None:
    x = planted((1,))[0]["h00"]
    assert silot.cluster({"a": x, "b": x, "c": x}).k == 1


def test_spectral_clustering_of_blocks_is_exact() -> None:
    blocks = np.kron(1.0 - np.eye(3), np.ones((2, 2)))
    assert spectral(blocks, 3, Grouping()).tolist() == [0, 0, 1, 1, 2, 2]


def test_the_result_is_json_and_counts_the_whole_cost() -> None:
    data, _ = planted((2, 2))
    found = silot.cluster(data)
    body = json.loads(found.to_json())
    assert body["assignment"] == dict(found.assignment)
    assert body["groups"] == [["h00", "h01"], ["h02", "h03"]]
    # Distances and the test are of the same answers: each holder is asked once.
    assert body["rounds"] == found.cost.rounds == 1
    assert body["test"]["groups"] == [0, 0, 1, 1]
    assert [name.get_text() for name in found.plot().get_xticklabels()] == list(
        found.groups[0] + found.groups[1]
    )
