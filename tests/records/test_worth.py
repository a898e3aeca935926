"""Utility of holders' records, from what each holder says of its own."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure
from silot.api.report import render
from silot.distances.worth.result import Contributions
from silot.errors import WireError
from silot.federation import Answer, Own
from silot.federation.message import Scalar
from silot.records.questions.judge import JudgeRecords
from silot.records.validation import fitted
from silot.records.worth import read_utility

Array = np.ndarray
NOISE = {"none": 0.0, "little": 0.1, "much": 0.25, "most": 0.4}


def draw(seed: int, size: int, noise: float = 0.0) -> Measure:
    """Two classes apart in two of four features, with labels of which a share is wrong."""
    rng = np.random.default_rng([39, seed])
    codes = rng.integers(0, 2, size)
    x = rng.normal(size=(size, 4))
    x[:, :2] += 1.5 * codes[:, None]
    wrong = rng.permutation(size) < round(noise * size)
    return Measure(x, labels=np.where(wrong, 1 - codes, codes).astype(str))


VALIDATION = draw(0, 150)


def value(holders: dict[str, Measure], **options: Any) -> Contributions:
    return silot.value_holders(holders, VALIDATION, labels=True, **options)


@pytest.fixture(scope="module")
def worth() -> Contributions:
    return value({name: draw(k + 1, 150, noise) for k, (name, noise) in enumerate(NOISE.items())})


def test_ranks_and_shares_follow_planted_wrong_labels(worth: Contributions) -> None:
    assert [item.holder for item in worth.ranking] == list(NOISE)
    shares = [worth.shares[name] for name in NOISE]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1.0)
    for name, noise in NOISE.items():
        utility = worth[name].utility
        assert utility is not None
        _, low, high = utility.faulty["label"]
        assert low <= noise <= high
    assert "ranks and shares are by utility" in worth.status
    assert worth.disclosure == "statistics"


def test_published_shares_are_of_distances_as_they_are(worth: Contributions) -> None:
    inverse = np.array([1.0 / item.distance.value for item in worth.holders])
    published = [item.fedbary_share for item in worth.holders]
    np.testing.assert_allclose(published, inverse / inverse.sum())


def test_labels_of_pure_noise_have_no_utility() -> None:
    rng = np.random.default_rng(40)
    noise = Measure(draw(9, 150).points, labels=rng.integers(0, 2, 150).astype(str))
    result = value({"noise": noise, "clean": draw(10, 150)})
    of_noise, of_clean = result["noise"].utility, result["clean"].utility
    assert of_noise is not None and of_clean is not None
    assert abs(of_noise.value) < 0.1 * of_clean.value
    assert result.shares["clean"] > 0.9


def test_the_order_of_holders_and_of_records_changes_nothing(worth: Contributions) -> None:
    holders = {name: draw(k + 1, 150, noise) for k, (name, noise) in enumerate(NOISE.items())}
    order = np.random.default_rng(1).permutation(150)
    turned = {
        name: Measure(data.points[order], labels=np.asarray(data.labels)[order])
        for name, data in reversed(holders.items())
    }
    again = value(turned)
    for name in NOISE:
        one, other = worth[name], again[name]
        assert one.utility is not None and other.utility is not None
        assert other.utility.value == pytest.approx(one.utility.value, rel=1e-6)
        assert (other.rank, other.ranks) == (one.rank, one.ranks)
        assert other.share == pytest.approx(one.share, rel=1e-6)


def test_without_labels_or_where_not_asked_ranks_are_by_distance() -> None:
    holders = {"a": draw(11, 60), "b": draw(12, 60)}
    plain = silot.value_holders({k: v.points for k, v in holders.items()}, VALIDATION.points)
    for result in (plain, value(holders, faults=False)):
        assert all(item.utility is None for item in result.holders)
        assert "utility" not in result.status


def test_a_holder_that_refuses_leaves_ranks_to_distances() -> None:
    """Its utility is not known, so no order by utility is."""
    kinds = frozenset({"describe", "class-sizes", "labelled-distance-with-error"})
    policy, open_policy = (
        silot.Policy(level="statistics", questions=questions)
        for questions in (kinds, kinds | {"judge-records"})
    )
    fed = silot.federation.LocalFederation(
        {
            "shut": silot.federation.Holder(draw(13, 80), policy),
            "open": silot.federation.Holder(draw(14, 80), open_policy),
        }
    )
    result = silot.value_holders(fed, VALIDATION, labels=True)
    assert result["shut"].utility is None and result["open"].utility is not None
    assert "no utility of shut" in result.status
    expected = silot.value_holders(fed, VALIDATION, labels=True, faults=False)
    assert [item.rank for item in result.holders] == [item.rank for item in expected.holders]


def test_few_validation_records_leave_utility_out() -> None:
    few = draw(15, 8)
    result = silot.value_holders({"a": draw(16, 40), "b": draw(17, 40)}, few, labels=True)
    assert "no utility" in result.status and result.holders[0].utility is None


def test_the_answer_has_no_number_about_one_record() -> None:
    screen, _, classes = fitted(Own(VALIDATION), labels=True, seed=0)
    question = JudgeRecords.of(screen, classes, fdr=0.1, seed=0)
    answer = Own(draw(18, 60)).answer(question)
    assert isinstance(answer, Answer)
    assert {name: array.shape for name, array in answer.arrays.items()} == {
        "shares": (3, 3), "gain": (2,),
    }  # fmt: skip
    assert not answer.scalars


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("shares", np.full((3, 3), 0.5) + np.array([0.3, 0.0, 0.0])),
        ("shares", np.full((3, 3), 1.5)),
        ("shares", np.full((2, 3), 0.5)),
        ("gain", np.array([0.1, -0.1])),
        ("gain", np.array([1e3, 0.1])),
        ("gain", np.array([0.1, 0.1, 0.1])),
    ],
)
def test_answers_that_are_none_are_refused(name: str, array: Array) -> None:
    screen, _, _ = fitted(Own(VALIDATION), labels=True, seed=0)
    good: dict[str, Array] = {"shares": np.full((3, 3), 0.1), "gain": np.array([0.2, 0.05])}
    scalars: dict[str, Scalar] = {}
    assert read_utility(Answer(good, scalars), screen).value > 0
    with pytest.raises(WireError):
        read_utility(Answer({**good, name: array}, scalars), screen)


def test_json_and_views_have_the_utility(worth: Contributions) -> None:
    body = json.loads(json.dumps(worth.to_dict(), allow_nan=False))
    utility = body["holders"][0]["utility"]
    assert set(utility) == {"value", "error", "gain", "faulty"}
    assert set(utility["faulty"]) == {"label", "features", "all"}
    page = render(worth)
    assert "most useful to predict labels" in page and "FedBary share" in page
