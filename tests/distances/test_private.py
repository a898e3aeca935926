"""``PrivateDistance``: near the exact distance without noise, never above it, charged once."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import silot
from silot import Measure, Policy
from silot.distances.private import PrivateDistance, private
from silot.errors import InputError, RefusedError
from silot.federation import Holder, LocalFederation, Own
from silot.federation.protocol import COORDINATOR
from silot.privacy import Ledger
from silot.privacy.accounting import mu_of
from silot_transport.classwise import class_distances

pytest.importorskip("opendp")

RNG = np.random.default_rng(17)
TARGET = RNG.normal(size=(60, 2))
RECORDS = RNG.normal(size=(300, 2))
# So little noise that only the grid and the cut are left of the error.
LOUD = 30_000.0


def shifted(shift: float) -> np.ndarray:
    return RECORDS + np.array([shift, 0.0])


def exact(points: np.ndarray, reach: float = np.inf, apart: np.ndarray | float = 0.0) -> float:
    """W2 to the target in the cut metric; every atom of the target counts as five records."""
    squares = np.minimum(cdist(points, TARGET, "sqeuclidean") + apart, reach**2)
    cost = np.repeat(squares, len(points) // len(TARGET), axis=1)
    return float(cost[linear_sum_assignment(cost)].mean()) ** 0.5


def run(points: np.ndarray | Measure, own: Measure | None = None, **options: object):
    target = Own(own or Measure(TARGET))
    options = {"privacy_epsilon": LOUD, **options}
    return LocalFederation({"a": points}).run(private("a", own=target, **options))  # type: ignore[arg-type]


def test_the_value_is_near_the_exact_distance_with_little_noise_and_a_long_reach() -> None:
    for shift in (0.5, 2.0):
        moved = shifted(shift)
        found = run(moved, reach=12.0)
        assert exact(moved, 12.0) == exact(moved)
        assert found.value == pytest.approx(exact(moved), rel=0.03)
        assert found.interval is not None and found.interval[0] <= found.value <= found.interval[1]
        assert (found.lower, found.upper) == (0.0, np.inf)
        assert found.disclosure == "private"
        assert found.history[0]["records"] == pytest.approx(300, abs=2)


@pytest.mark.parametrize("shift", [0.0, 1.0, 3.0, 9.0])
def test_the_cut_never_puts_a_distance_above_the_exact_one(shift: float) -> None:
    moved = shifted(shift)
    found = run(moved, reach=2.0)
    assert found.value == pytest.approx(exact(moved, 2.0), rel=0.03)
    assert found.value <= min(exact(moved), 2.0) * 1.03
    assert "farther away than 2 counts" in found.status


def test_holders_beyond_the_short_reach_are_told_apart_by_the_long_one() -> None:
    # Both reaches follow from the target alone, and the short one is full for the last two.
    # A cut takes at most a quarter of a distance away.
    shifts = (0.0, 1.0, 3.0, 6.0, 9.0)
    values = [run(shifted(shift)).value for shift in shifts]
    assert values == sorted(values)
    for shift, value in zip(shifts[1:], values[1:], strict=True):
        assert exact(shifted(shift)) / 1.25 <= value <= 1.03 * exact(shifted(shift))


def test_the_holder_is_named_before_the_coordinator() -> None:
    found = run(RECORDS)
    assert found.holders == ("a", COORDINATOR) and found.method == "private"


def test_noise_widens_the_interval_and_the_status_says_what_would_help() -> None:
    moved = shifted(1.0)
    narrow, wide = (run(moved, privacy_epsilon=each) for each in (LOUD, 0.2))
    assert narrow.interval is not None and wide.interval is not None
    assert np.diff(wide.interval)[0] > np.diff(narrow.interval)[0]
    # The noise may hide the value altogether, and then nothing says how much would be enough.
    assert "epsilon" in wide.status and "epsilon" not in narrow.status


def test_a_class_the_target_lacks_is_as_far_as_its_furthest_classes() -> None:
    points = shifted(0.5)
    labels = np.array(["u", "v", "w"])[np.arange(300) % 3]
    names = np.array(["u", "v"])[np.arange(60) % 2]
    found = run(
        Measure(points, labels=labels), Measure(TARGET, labels=names), reach=12.0, embedding="full"
    )
    codes = (names == "v").astype(np.int64)
    table = class_distances(TARGET, np.full(60, 1 / 60), codes, 2)
    rows = np.vstack([table, np.full(2, table.max())])
    apart = rows[np.searchsorted(["u", "v", "w"], labels)][:, codes] ** 2
    assert found.value == pytest.approx(exact(points, 12.0, apart), rel=0.03)
    assert found.value > exact(points)


def test_without_labels_of_the_holder_a_labelled_target_is_refused() -> None:
    own = Measure(TARGET, labels=np.arange(60) % 2)
    with pytest.raises(silot.errors.SilotError) as caught:
        run(RECORDS, own, embedding="full")
    assert caught.value.code == "labels-absent"


def test_holders_are_not_compared_with_one_another() -> None:
    fed = LocalFederation({"a": RECORDS, "b": RECORDS})
    with pytest.raises(InputError) as caught:
        fed.run(private("a", "b"))
    assert caught.value.code == "option-method"


def test_a_release_is_charged_once_and_told_again_for_nothing() -> None:
    ledger, own = Ledger(), Own(Measure(TARGET))
    fed = LocalFederation({"a": Holder(Measure(RECORDS), Policy(), ledger)})
    first, again = (fed.run(PrivateDistance().between("a", own=own)) for _ in range(2))
    assert ledger.spent == pytest.approx(mu_of(1.0, 1e-5))
    assert (first.value, first.interval) == (again.value, again.interval)
    # The budget is spent: another reach is another release.
    with pytest.raises(RefusedError) as caught:
        fed.run(PrivateDistance(reach=3.0).between("a", own=own))
    assert caught.value.code == "ledger-budget"
    assert ledger.spent == pytest.approx(mu_of(1.0, 1e-5))


def test_worth_by_private_distances_ranks_holders_as_exact_ones_do() -> None:
    holders = {name: shifted(shift) for name, shift in (("c", 2.0), ("a", 0.2), ("b", 6.0))}
    found = silot.value_holders(holders, TARGET, method="private", privacy_epsilon=LOUD)
    known = silot.value_holders(holders, TARGET, method="direct")
    assert [item.holder for item in found.holders] == [item.holder for item in known.holders]
    assert found.disclosure == "private"
    for item in known.holders:
        assert found[item.holder].distance.value == pytest.approx(item.distance.value, rel=0.1)


def test_a_target_without_a_scale_is_refused() -> None:
    for target in (np.ones((5, 2)), np.ones((1, 2)), np.zeros((9, 2)) + 1e-300):
        with pytest.raises(silot.errors.SilotError) as caught:
            silot.value_holders({"a": np.zeros((40, 2)) + 2}, target, method="private")
        assert caught.value.code == "public-constant"
