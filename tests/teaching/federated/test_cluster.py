"""Groups of holders: planted ones are found, and where there are none it says so."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

import silot
from silot import Clustering, DistanceMatrix, Holder, LocalFederation, Measure, Policy
from silot.distances import FedWaD
from silot.errors import HolderError, InputError, MismatchError
from silot.teaching.federated.clustering import OwnChances, chance_levels, clustering_of
from silot.teaching.federated.groups import Grouping, candidate, numbered, same_group, spectral
from silot_transport.chance import Chance
from tests.render.factory import matrix_of
from tests.tiers import examples

Array = np.ndarray
FEW = {"resamples": 10}


def planted(
    sizes: tuple[int, ...], shift: float = 4.0, records: int = 60, seed: int = 0
) -> tuple[dict[str, Array], list[int]]:
    """Holders of groups whose laws lie on corners of a cube, and the number of each one's group."""
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
@settings(max_examples=examples(8), deadline=None)
@given(st.lists(st.integers(2, 4), min_size=2, max_size=4), st.integers(0, 10_000))
def test_planted_groups_are_found_whatever_their_sizes(sizes: list[int], seed: int) -> None:
    data, group = planted(tuple(sizes), records=30, seed=seed)
    found = silot.cluster(data, **FEW)
    assert found.k == len(sizes) and rand(found, group) == 1.0
    assert found.agreement == 1.0 and set(found.stability.values()) == {1.0}


@pytest.mark.heavy
@pytest.mark.parametrize("options", [{"support": 10}, {"support": 60, "t": 0.5}, {}])
def test_planted_groups_are_found_by_fedwad(options: dict[str, Any]) -> None:
    data, group = planted((3, 4, 2), seed=1)
    found = silot.cluster(data, "fedwad", **FEW, **options)
    assert rand(found, group) == 1.0


@pytest.mark.heavy
@pytest.mark.parametrize("structure", [(3, 4, 2), (9,)])
def test_groups_of_sketches_of_epsilon_four(structure: tuple[int, ...]) -> None:
    pytest.importorskip("opendp")
    data, group = planted(structure, records=800, seed=2)
    public = np.concatenate(list(planted(structure, records=20, seed=3)[0].values()))
    found = silot.cluster(data, "sketch", public=public, privacy_epsilon=4.0, **FEW)
    assert found.k == len(structure) and rand(found, group) == 1.0
    assert found.disclosure == "private" and found.chances is None
    assert len(found.levels) == len(found.matrix.pairs)


@settings(max_examples=examples(15), deadline=None)
@given(st.integers(2, 9), st.integers(0, 10_000), st.sampled_from([12, 30, 80]))
def test_holders_of_one_law_are_no_groups(holders: int, seed: int, records: int) -> None:
    data, _ = planted((holders,), records=records, seed=seed)
    found = silot.cluster(data, **FEW)
    assert found.k == 1 and "no groups" in found.status


def test_holders_of_one_law_and_of_many_sizes_are_no_groups() -> None:
    rng = np.random.default_rng(5)
    data = {str(n): rng.normal(size=(n, 4)) for n in (15, 30, 60, 120, 240)}
    assert silot.cluster(data, **FEW).k == 1


def test_a_lone_outlier_is_a_group_of_one() -> None:
    data, group = planted((7, 1), seed=4)
    found = silot.cluster(data, **FEW)
    assert rand(found, group) == 1.0 and found.groups[1] == ("h07",)


def test_groups_stand_out_beside_an_outlier_far_away() -> None:
    data, group = planted((4, 4, 1), seed=6)
    data["h08"] = data["h08"] + 500.0
    assert rand(silot.cluster(data, **FEW), group) == 1.0


def test_holders_that_all_differ_are_no_groups() -> None:
    data, _ = planted((1,) * 8)
    found = silot.cluster(data, **FEW)
    assert found.k == 1 and "no grouping parts them" in found.status
    two = silot.cluster({name: data[name] for name in ("h00", "h01")})
    assert two.k == 1 and "two holders, further apart than chance" in two.status


@pytest.mark.heavy
def test_chance_alone_does_not_part_two_and_one() -> None:
    """The nearest two of three seem a group, unless distances are held against chance."""
    rng = np.random.default_rng(7)
    split = sum(
        silot.cluster(list(rng.normal(size=(3, 40, 2))), resamples=0).k > 1 for _ in range(30)
    )
    assert split <= 3


@pytest.mark.heavy
def test_the_distances_are_those_of_the_matrix() -> None:
    data, _ = planted((2, 2))
    for method, options in {"direct": {}, "fedwad": {"support": 10}, "trianglewad": {}}.items():
        found = silot.cluster(data, method, **FEW, **options)
        matrix = silot.distance_matrix(data, method, seed=0, **options)
        assert (found.matrix.values == matrix.values).all()
        again = silot.cluster(data, silot.METHODS[method](**options), **FEW)
        assert again.assignment == found.assignment


def test_the_order_of_holders_changes_nothing() -> None:
    data, _ = planted((2, 3, 1), shift=1.2, seed=8)
    first = silot.cluster(data, k=3, resamples=30)
    turned = silot.cluster(dict(reversed(data.items())), k=3, resamples=30)
    assert first.assignment == {name: turned.assignment[name] for name in data}
    assert first.stability == {name: turned.stability[name] for name in data}
    assert first.status == turned.status and first.agreement == turned.agreement


def test_a_federation_finds_what_its_data_find() -> None:
    data, group = planted((3, 3))
    parties = {name: Holder(Measure(x), Policy(level="record")) for name, x in data.items()}
    found = silot.cluster(LocalFederation(parties), **FEW)
    assert rand(found, group) == 1.0
    assert found.levels == silot.cluster(data, **FEW).levels


def test_with_labels_classes_count() -> None:
    rng = np.random.default_rng(9)
    data: dict[str, Measure] = {}
    for k in range(6):
        x = rng.normal(size=(80, 2))
        labels = (x[:, k % 2] > 0).astype(int)
        data[f"h{k}"] = Measure(x, labels=labels)
    assert silot.cluster(data, **FEW).k == 1
    assert rand(silot.cluster(data, labels=True, **FEW), [0, 1] * 3) == 1.0


def test_sketches_and_matrices_that_are_there_are_not_asked_again() -> None:
    data, group = planted((3, 3), records=800)
    matrix = silot.distance_matrix(data)
    found = silot.cluster(matrix, **FEW)
    assert rand(found, group) == 1.0 and found.bill == matrix.bill
    assert found.levels[("h00", "h01")] == matrix["h00", "h01"].chance
    for name, options in {"labels": {"labels": True}, "support": {"support": 3}}.items():
        with pytest.raises(InputError, match=f"option-unknown.*{name}"):
            silot.cluster(matrix, **options)
    with pytest.raises(InputError, match="option-unknown"):
        silot.cluster(matrix, "fedwad")


def test_a_holder_that_does_not_tell_what_chance_makes_is_named() -> None:
    data, group = planted((3, 3))

    class Silent(LocalFederation):
        def exchange(self, messages: Any, clock: Any) -> Any:
            replies = dict(super().exchange(messages, clock))
            if any(b"own-chance" in message for message in messages.values()):
                del replies["h00"]
            return replies

    fed = Silent({name: Holder(Measure(x), Policy(level="record")) for name, x in data.items()})
    found = silot.cluster(fed, "fedwad", support=10, **FEW)
    # It parts nobody, and joins the nearest.
    assert rand(found, group) == 1.0 and found.unknown == {"h00": "holder-silent"}
    assert found.chances is not None and found.chances.missing == {"h00": "holder-silent"}


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


def test_few_records_and_identical_data_do_not_break_it() -> None:
    x = np.random.default_rng(0).normal(size=(5, 2))
    few = silot.cluster({"a": x, "b": x + 0.1, "c": x + 9.0, "d": x + 9.1}, **FEW)
    assert few.groups == (("a", "b"), ("c", "d"))
    assert set(few.unknown) == set("abcd") and "chance makes is not known" in few.status
    single = silot.cluster({"a": x[:1], "b": x[1:3], "c": x[3:]}, **FEW)
    assert single.k == 1 and "by more than chance" not in single.status
    # As many groups as there are holders: nobody joins anybody.
    every = silot.cluster({"a": x, "b": x + 1.0}, k=2, **FEW)
    assert every.k == 2 and "nearest to it" not in every.status
    for count in (1, 40):
        same = silot.cluster({name: np.ones((count, 2)) for name in "abc"}, **FEW)
        assert same.k == 1
    one_class = Measure(np.random.default_rng(1).normal(size=(30, 2)), labels=np.zeros(30, int))
    assert silot.cluster({"a": one_class, "b": one_class, "c": one_class}, labels=True).k == 1
    parts = silot.cluster({name: np.ones((12, 2)) for name in "abcd"}, k=2, **FEW)
    assert 1 <= parts.k <= 2 and set(parts.assignment) == set("abcd")


@pytest.mark.parametrize("affinity", ["rescaled", "neighbours"])
@pytest.mark.parametrize("k", [1, 2, 3, 4, 5, 6])
def test_as_many_groups_as_asked_for(k: int, affinity: str) -> None:
    data, _ = planted((1,) * 6, shift=3.0)
    found = silot.cluster(data, k=k, affinity=affinity, **FEW)
    assert found.k <= k and (affinity == "neighbours" or found.k == k)
    assert found.status.startswith(f"{found.k} group(s)")
    assert sorted(set(found.assignment.values())) == list(range(found.k))


def test_a_number_of_groups_is_found_also_below_what_chance_makes() -> None:
    group = np.array([0, 0, 1, 1, 2, 2])
    near = np.where(group[:, None] == group, 1.0, 1.1)
    near[(group[:, None] == 2) != (group == 2)] = 3.0
    laws = dict.fromkeys("abcdef", Chance(1.0, 0.1, 0.02, 23))
    matrix = given_matrix(near - np.diag(np.diag(near)))
    assert clustering_of(matrix, Grouping(**FEW), laws).k == 2
    found = clustering_of(matrix, Grouping(k=3, **FEW), laws)
    assert found.groups == (("a", "b"), ("c", "d"), ("e", "f"))
    assert "not all of them are further apart than chance" in found.status


@pytest.mark.heavy
def test_the_graph_of_nearest_holders_finds_groups_as_well() -> None:
    data, group = planted((4, 4, 4))
    for neighbours in (3, 5):
        found = silot.cluster(data, affinity="neighbours", neighbours=neighbours, **FEW)
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
        ({"resamples": -1}, "option-resamples"),
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


@pytest.mark.heavy
def test_a_bound_that_leaves_chance_open_parts_nobody() -> None:
    laws = {name: Chance(1.0, 0.01, 0.0, 23) for name in "abcd"}
    values = np.array([[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]], dtype=float)
    sure = clustering_of(given_matrix(values, lower=values, upper=values), Grouping(), laws)
    assert sure.k == 2 and sure.agreement == 1.0
    loose = given_matrix(values, lower=0.4 * values, upper=values)
    found = clustering_of(loose, Grouping(), laws)
    assert found.k == 1 and "no distance is certified to be more than chance" in found.status


def test_resamples_within_wide_bounds_say_that_groups_are_not_sure() -> None:
    laws = {name: Chance(1.0, 0.01, 0.0, 23) for name in "abcd"}
    values = np.array([[0, 1, 2, 2], [1, 0, 2, 2], [2, 2, 0, 1], [2, 2, 1, 0]], dtype=float)
    upper = np.where(values == 1.0, 4.0, values)
    found = clustering_of(given_matrix(values, lower=values, upper=upper), Grouping(), laws)
    assert found.k == 2 and found.agreement is not None and found.agreement < 0.7
    assert min(found.stability.values()) < 0.7


@settings(max_examples=examples(30), deadline=None)
@given(st.integers(0, 10_000), st.integers(3, 9), st.integers(2, 4))
def test_silhouettes_are_as_defined(seed: int, size: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size, 2))
    away = np.linalg.norm(points[:, None] - points[None], axis=2)
    codes = numbered(rng.integers(0, k, size))
    widths = []
    for i in range(size):
        mates = [j for j in range(size) if codes[j] == codes[i] and j != i]
        others = [away[i, codes == g].mean() for g in set(codes.tolist()) - {codes[i]}]
        if not mates or not others:
            widths.append(0.0)
            continue
        a, b = away[i, mates].mean(), min(others)
        widths.append((b - a) / max(a, b))
    known = candidate(away, np.ones((size, size)), codes)
    if 1 < len(set(codes.tolist())) < size:
        assert known.silhouette == pytest.approx(np.mean(widths))


def test_chance_levels_of_pairs_have_their_formula() -> None:
    matrix = given_matrix([[0, 1, 2], [1, 0, 2], [2, 2, 0]])
    laws = {"a": Chance(3.0, 0.3, 0.1, 23), "b": Chance(4.0, 0.4, 0.2, 23)}
    found = chance_levels("abc", laws, matrix)
    from scipy.stats import t

    def rms(x: float, y: float) -> float:
        return float(np.sqrt((x**2 + y**2) / 2))

    quantile = t.ppf(1 - 0.05 / 3, 23)
    assert found.level[0, 1] == pytest.approx(
        rms(3.0, 4.0) + 2 * rms(0.1, 0.2) + quantile * rms(0.3, 0.4)
    )
    # The law of one of two says nothing of the size of the other.
    assert found.level[0, 2] == 0.0 and not found.has_level[0, 2] and found.has_level[0, 1]
    assert found.aside.tolist() == [False, False, True]
    assert (found.level == found.level.T).all() and (found.has_level == found.has_level.T).all()
    assert not chance_levels("abc", {}, matrix).aside.any()


@pytest.mark.heavy
def test_holders_of_few_records_part_nobody_and_join_the_nearest() -> None:
    parted = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        sizes = {"a": 5, "b": 9, "c": 60, "d": 60, "e": 60, "f": 60}
        one = {name: rng.normal(size=(size, 2)) for name, size in sizes.items()}
        found = silot.cluster(one, resamples=0)
        parted += found.k > 1
        assert set(found.unknown) == {"a", "b"} and "nearest to it" in found.status
        two = {name: x + 3.0 * (name in "bdf") for name, x in one.items()}
        assert silot.cluster(two, **FEW).groups == (("a", "c", "e"), ("b", "d", "f"))
    assert parted == 0


def test_what_holders_tell_of_chance_is_what_two_samples_show() -> None:
    rng = np.random.default_rng(11)
    draws = rng.normal(size=(12, 90, 3))
    told = LocalFederation(dict(zip("abcdefghijkl", draws, strict=True))).run(
        OwnChances().among("abcdefghijkl")
    )
    seen = [silot.distance(x, y).value for x, y in combinations(draws, 2)]
    means = [law.mean for law in told.laws.values()]
    assert np.mean(means) == pytest.approx(np.mean(seen), rel=0.05)
    assert told.disclosure == "statistics" and told.missing == {}


def test_groups_are_matched_before_they_are_compared() -> None:
    codes = np.array([0, 0, 0, 1, 1])
    assert same_group(codes, np.array([1, 1, 1, 0, 0])).tolist() == [1.0] * 5
    assert same_group(codes, np.array([0, 0, 1, 1, 1])).tolist() == [1, 1, 0, 1, 1]
    assert same_group(codes, np.zeros(5, dtype=int)).tolist() == [1, 1, 1, 0, 0]


def test_spectral_clustering_of_blocks_is_exact() -> None:
    blocks = 1.0 - np.kron(np.eye(3), np.ones((4, 4)))
    for affinity in ("rescaled", "neighbours"):
        codes = spectral(blocks, blocks, 3, Grouping(affinity=affinity))
        assert codes.tolist() == [0] * 4 + [1] * 4 + [2] * 4


def test_the_result_is_json_and_counts_the_whole_bill() -> None:
    data, _ = planted((2, 2))
    found = silot.cluster(data, FedWaD(support=10), **FEW)
    body = json.loads(found.to_json())
    assert body["assignment"] == dict(found.assignment)
    assert body["groups"] == [["h00", "h01"], ["h02", "h03"]]
    assert found.chances is not None
    assert found.bill.rounds == found.matrix.bill.rounds + found.chances.rounds
    assert len(body["levels"]) == 6 and body["agreement"] == 1.0
    assert [name.get_text() for name in found.plot().get_xticklabels()] == list(
        found.groups[0] + found.groups[1]
    )
