"""A holder of FedWaD undoes merges, and finds the records of the other side."""

import numpy as np
import pytest

from evidence.attacks import audit
from silot import Measure
from silot.distances.fedwad import fedwad
from silot.federation import LocalFederation, Own

from ..audits.data import attack, two_sides
from .data import deep_audit

RNG = np.random.default_rng(8)


@pytest.mark.parametrize("viewpoint", ["x", "y"])
@pytest.mark.parametrize("options", [{}, {"t": 0.5}, {"interpolation": "exact", "rounds": 4}])
def test_either_side_of_fedwad_finds_the_other(viewpoint: str, options: dict) -> None:
    x, y = two_sides("digits", 50, 50)
    found = deep_audit(x, y, viewpoint, method="fedwad", support=50, **options)
    (target,) = found.targets
    assert target != viewpoint
    assert found.exact_rates[target] == 1.0


def test_a_holder_finds_the_coordinators_own_records() -> None:
    x, own = two_sides("wine", 40, 40)
    federation = LocalFederation({"seller": x})
    run = federation.run(fedwad("seller", own=Own(Measure(own)), support=40))
    found = audit(run.transcript, "seller", truth={"coordinator": own})
    assert found.exact_rates == {"coordinator": 1.0}


@pytest.mark.parametrize("name", ["digits", "wine"])
@pytest.mark.parametrize("viewpoint", ["x", "y"])
@pytest.mark.parametrize("options", [{}, {"t": 0.5}, {"moments": False}])
def test_a_hidden_t_does_not_protect_a_side_of_fedwad_from_the_other(
    name: str, viewpoint: str, options: dict
) -> None:
    x, y = two_sides(name, 40, 40)
    found = deep_audit(x, y, viewpoint, hide_t=True, method="fedwad", support=40, **options)
    (target,) = found.targets
    assert found.exact_rates[target] == 1.0
    assert attack(found, "undone-merges", target).exact_rate == 1.0


def test_continuous_records_fall_to_the_other_side_as_well() -> None:
    x, y = RNG.normal(size=(30, 4)), RNG.normal(size=(30, 4)) + 0.5
    assert deep_audit(x, y, "x", hide_t=True, method="fedwad", support=30).exact_rates["y"] == 1.0
