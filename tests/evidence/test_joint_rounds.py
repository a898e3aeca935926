"""FedWaD and FedBary: means of few records come apart when rounds are put together."""

import numpy as np
import pytest

import silot
from evidence.attacks import SEARCHES, audit
from evidence.attacks.cover import distinct_rows, mixtures_among
from evidence.attacks.rounds import completed_by_moments
from silot import Measure
from silot.audits import result
from silot.distances.worth.fedbary import fedbary
from silot.federation import LocalFederation

from ..audits.data import DIGITS, attack, two_sides
from .data import deep_audit

RNG = np.random.default_rng(0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
@pytest.mark.parametrize(("n", "support"), [(50, 50), (50, 100), (60, 90)])
def test_fedwad_gives_every_record_to_the_coordinator(name: str, n: int, support: int) -> None:
    x, y = two_sides(name, n, n)
    found = deep_audit(x, y, method="fedwad", interpolation="barycentric", support=support)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}
    assert attack(found, "joint-rounds").certified


def test_one_feature_comes_apart_by_sorting() -> None:
    x, y = RNG.normal(size=(40, 1)), RNG.normal(size=(50, 1))
    found = deep_audit(x, y, method="fedwad", interpolation="barycentric", support=60, rounds=2)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


def test_means_of_many_records_are_told_not_to_be_recovered() -> None:
    x, y = RNG.normal(size=(100, 5)), RNG.normal(size=(100, 5))
    found = deep_audit(x, y, method="fedwad", interpolation="barycentric", support=10, rounds=3)
    assert found.exact_rates["x"] == 0.0
    assert "not recovered by these attacks" in found.verdict
    assert not attack(found, "joint-rounds").certified


@pytest.mark.heavy
def test_without_the_truth_whole_records_are_proven_by_the_messages() -> None:
    x, y = two_sides("digits", 40, 40)
    run = silot.distance(x, y, method="fedwad", interpolation="barycentric", support=60)
    found = audit(run.transcript)
    assert found.exact_rates == {"x": None, "y": None}
    best = found.best("x")
    assert best is not None and best.certified
    assert np.abs(best.recovered[:, None] - x[None]).max(axis=2).min(axis=0).max() < 1e-9
    assert "proven by the messages" in found.verdict


def test_fedbary_gives_every_record_class_by_class() -> None:
    x, y = two_sides("wine", 45, 60)
    classes = np.repeat(["a", "b"], [15, 30])
    holders = {"x": Measure(x, labels=classes), "y": Measure(y, labels=np.repeat("b", 60))}
    run = LocalFederation(holders).run(fedbary(["x", "y"], support=180, labels=True))
    found = audit(run.transcript, truth=holders)
    assert found.exact_rates["x"] == 1.0


def test_points_between_two_others_are_found_with_their_share() -> None:
    ends = RNG.normal(size=(12, 3))
    mixed = 0.25 * ends[3] + 0.75 * ends[7]
    found = mixtures_among(np.vstack([ends, mixed]))
    assert found.point.tolist() == [12]
    share = dict(
        zip((found.first[0], found.second[0]), (1 - found.share[0], found.share[0]), strict=True)
    )
    assert share[3] == pytest.approx(0.25) and share[7] == pytest.approx(0.75)


def test_rows_that_differ_by_rounding_are_one() -> None:
    rows = RNG.normal(size=(20, 4))
    kept, label = distinct_rows(np.vstack([rows, rows * (1 + 1e-15), rows[:3]]))
    assert len(kept) == 20
    assert np.array_equal(label[:20], label[20:40])


def test_two_missing_records_follow_from_mean_and_covariance() -> None:
    x = DIGITS[:30]
    mean, covariance = x.mean(axis=0), np.cov(x.T, bias=True)
    wrong = np.vstack([x[:28], RNG.normal(size=(2, 64))])
    found = completed_by_moments(wrong, 26, 30, mean, covariance, x[:0])
    assert found is not None
    assert np.abs(found[:, None] - x[None]).max(axis=2).min(axis=0).max() < 1e-7
    wrong[0] += 1.0
    assert completed_by_moments(wrong, 26, 30, mean, covariance, x[:0]) is None


def test_audits_that_are_shipped_name_every_search_that_is_not() -> None:
    assert set(SEARCHES) == set(result.SEARCHES)
