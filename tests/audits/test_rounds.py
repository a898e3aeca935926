"""FedWaD and FedBary at ordinary settings: one round, or all means, give every record."""

import numpy as np
import pytest

import silot
from silot import Measure
from silot.distances.worth.fedbary import fedbary
from silot.federation import LocalFederation

from .data import attack, audit_of, two_sides

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
@pytest.mark.parametrize(("n", "support"), [(50, 50), (50, 100)])
def test_fedwad_gives_every_record_to_the_coordinator(name: str, n: int, support: int) -> None:
    x, y = two_sides(name, n, n)
    found = audit_of(x, y, method="fedwad", interpolation="barycentric", support=support)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}
    assert attack(found, "cell-means").certified


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
@pytest.mark.parametrize("method", ["fedwad", "trianglewad"])
@pytest.mark.parametrize(("n", "m"), [(40, 40), (50, 35)])
def test_published_methods_as_they_stand_give_every_record(
    name: str, method: str, n: int, m: int
) -> None:
    x, y = two_sides(name, n, m)
    assert audit_of(x, y, method=method).exact_rates == {"x": 1.0, "y": 1.0}


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
def test_fedbary_gives_every_record_where_atoms_are_as_many(name: str) -> None:
    holders = dict(zip("xy", two_sides(name, 50, 50), strict=True))
    run = LocalFederation(holders).run(fedbary(["x", "y"], support=50))
    found = silot.audit(run.transcript, truth=holders)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


@pytest.mark.parametrize("name", ["digits", "wine", "cancer"])
def test_fedbary_as_it_stands_gives_nearly_every_record_of_small_holders(name: str) -> None:
    holders = dict(zip("xy", two_sides(name, 60, 60), strict=True))
    run = LocalFederation(holders).run(fedbary(["x", "y"]))
    found = silot.audit(run.transcript, truth=holders)
    assert min(found.exact_rates.values()) >= 0.95


def test_exact_interpolation_gives_every_record_whatever_the_support() -> None:
    x, y = two_sides("digits", 50, 70)
    found = audit_of(x, y, method="fedwad", support=40, interpolation="exact", rounds=3)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


def test_means_of_many_records_are_told_not_to_be_recovered() -> None:
    x, y = RNG.normal(size=(100, 5)), RNG.normal(size=(100, 5))
    found = audit_of(x, y, method="fedwad", interpolation="barycentric", support=10, rounds=3)
    assert found.exact_rates["x"] == 0.0
    assert "not recovered by these attacks" in found.verdict
    assert "treat the records as disclosed" in found.verdict
    assert "long searches for records behind means of several" in found.verdict


def test_without_the_truth_whole_records_are_proven_by_the_messages() -> None:
    x, y = two_sides("digits", 40, 40)
    run = silot.distance(x, y, method="fedwad", interpolation="barycentric", support=40)
    found = silot.audit(run.transcript)
    assert found.exact_rates == {"x": None, "y": None}
    best = found.best("x")
    assert best is not None and best.certified
    assert np.abs(best.recovered[:, None] - x[None]).max(axis=2).min(axis=0).max() < 1e-9
    assert "proven by the messages" in found.verdict


@pytest.mark.parametrize("viewpoint", ["x", "y"])
def test_a_side_of_fedwad_is_warned_of_longer_searches(viewpoint: str) -> None:
    x, y = two_sides("digits", 40, 40)
    found = audit_of(x, y, viewpoint, method="fedwad")
    (target,) = found.targets
    assert found.exact_rates[target] is None
    for text in (
        "undecided",
        "treat the records as disclosed",
        "longer searches may recover them",
    ):
        assert text in found.verdict


def test_fedbary_gives_every_record_class_by_class() -> None:
    x, y = two_sides("wine", 45, 60)
    classes = np.repeat(["a", "b"], [15, 30])
    holders = {"x": Measure(x, labels=classes), "y": Measure(y, labels=np.repeat("b", 60))}
    run = LocalFederation(holders).run(fedbary(["x", "y"], support=180, labels=True))
    found = silot.audit(run.transcript, truth=holders)
    assert found.exact_rates["x"] == 1.0
