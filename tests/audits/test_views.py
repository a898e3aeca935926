"""Whose eyes: holders with a hidden t, parties that put together what they saw, eavesdroppers."""

import numpy as np
import pytest

import silot
from silot import Measure
from silot.audits.case import View
from silot.distances.pooled import pooled
from silot.errors import InputError
from silot.federation import LocalFederation, Own

from .data import attack, audit_of, two_sides

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("method", ["fedwad", "trianglewad"])
def test_a_hidden_t_does_not_protect_from_the_coordinator(method: str) -> None:
    x, y = two_sides("wine", 40, 40)
    found = audit_of(x, y, hide_t=True, method=method, support=40)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


@pytest.fixture(scope="module")
def three():
    sellers = {"a": Measure(RNG.normal(size=(30, 3))), "b": Measure(RNG.normal(size=(25, 3)))}
    sellers["c"] = Measure(RNG.normal(size=(20, 3)))
    buyer = RNG.normal(size=(40, 3))
    run = LocalFederation(sellers).run(pooled(list(sellers), own=Own(Measure(buyer)), seed=2))
    return run, sellers, buyer


def test_parties_put_together_what_they_saw(three) -> None:
    run, sellers, buyer = three
    both = View.of(run.transcript, "a,b")
    holders = {item.holder for item in both.exchanges}
    assert holders == {"a", "b"} and both.targets == ("c", "coordinator")
    found = silot.audit(run.transcript, "a, b", {"coordinator": buyer})
    assert found.exact_rates["coordinator"] == 1.0
    # The coordinator and a seller know what the coordinator knows; the seller is no target.
    joint = silot.audit(run.transcript, "coordinator,a", sellers)
    assert joint.targets == ("b", "c")
    assert joint.exact_rates == {"b": 1.0, "c": 1.0}


def test_who_is_not_in_the_run_is_refused(three) -> None:
    for viewpoint in ("a,nobody", "", "a,eavesdropper", ","):
        with pytest.raises(InputError) as error:
            silot.audit(three[0].transcript, viewpoint)
        assert error.value.code == "audit-viewpoint"


def test_an_eavesdropper_reads_sizes_and_no_content() -> None:
    x, y = RNG.normal(size=(30, 7)), RNG.normal(size=(44, 7))
    run = silot.distance(x, y, method="fedwad", support=33, rounds=3)
    view = View.of(run.transcript, "eavesdropper")
    assert view.exchanges == () and view.targets == ("x", "y") and not view.parameters
    found = silot.audit(run.transcript, "eavesdropper", truth={"x": x})
    text = attack(found, "traffic").note
    assert "records have 7 features" in text and "references have 33 atoms" in text
    assert found.exact_rates == {"x": None, "y": None}
    assert "no proof of safety" in found.verdict


def test_the_size_of_pooled_records_tells_how_many_there_are() -> None:
    run = silot.distance(RNG.normal(size=(30, 4)), RNG.normal(size=(20, 4)))
    found = silot.audit(run.transcript, "eavesdropper")
    assert "about 150 numbers" in attack(found, "traffic", "x").note
    assert "about 100 numbers" in attack(found, "traffic", "y").note


def test_sizes_that_depend_on_data_are_named() -> None:
    x, y = RNG.normal(size=(12, 2)), RNG.normal(size=(17, 2))
    run = silot.distance(x, y, method="fedwad", interpolation="exact", support=9, rounds=2)
    assert "bytes" in attack(silot.audit(run.transcript, "eavesdropper"), "traffic").note
