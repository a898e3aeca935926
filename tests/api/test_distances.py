"""What the short way says beside what protocols find."""

import numpy as np
import pytest

import silot
from silot import Measure
from silot.distances import direct
from silot.errors import RefusedError
from silot.federation import LocalFederation, Policy
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
    shut = silot.Holder(rng.normal(size=(30, 2)), Policy(level="scalar"), Ledger())
    holders = {"a": rng.normal(size=(30, 2)), "b": rng.normal(size=(30, 2)), "c": shut, "c2": shut}
    federation = LocalFederation(holders)
    with pytest.raises(RefusedError) as caught:
        silot.distance_matrix(federation)
    pair = silot.distance(holders["a"], holders["b"])
    run = caught.value.run
    assert run.rounds > pair.rounds and run.bytes_received > pair.bytes_received
    assert run.disclosure == "record"
    with pytest.raises(RefusedError) as caught:
        federation.run(direct("c", "c2"))
    assert caught.value.run.disclosure == ""
