"""FedWaD with fewer atoms than records: which cells share records shows in their overlap."""

import numpy as np
import pytest

import silot
from evidence.attacks import audit, shares_determined
from evidence.attacks.places import balanced, places
from evidence.attacks.rounds import Round, averages, tied_shares
from evidence.attacks.shared_cells import cells_of, shared_cells
from evidence.attacks.threads import Cells, Threads, overlaps
from silot.audits.case import Case, View

from ..audits.data import attack, two_sides
from .data import deep_audit

RNG = np.random.default_rng(0)


def gaussian(d: int, n: int, seed: int) -> np.ndarray:
    """Records of unlike spread in turned directions."""
    rng = np.random.default_rng([seed, d])
    turn = np.linalg.qr(rng.normal(size=(d, d)))[0]
    return rng.normal(size=(n, d)) @ (turn * np.geomspace(1.0, 0.2, d)).T


@pytest.mark.slow
@pytest.mark.parametrize(("d", "seed"), [(3, 0), (4, 1)])
def test_pairs_of_few_features_come_apart_by_where_they_can_lie(d: int, seed: int) -> None:
    x, y = np.split(gaussian(d, 80, seed), 2)
    run = silot.distance(x, y, method="fedwad", interpolation="barycentric", support=20)
    found = shared_cells(Case(View.of(run.transcript, "coordinator"), "x"))
    assert not isinstance(found, str) and found.proven is not None
    near = np.abs(found.rows[:, None] - x).max(axis=2) < 1e-6 * np.abs(x).max()
    tied, _ = tied_shares(x, rounds_of(run), moments=True)
    assert tied > 0.1
    assert near.any(axis=0).mean() >= 0.9 * tied
    assert near.any(axis=1)[found.proven].all()


def rounds_of(run) -> list[Round]:
    cells = Case(View.of(run.transcript, "coordinator"), "x").cells
    return [Round.of(one) for one in cells]


@pytest.mark.slow
def test_what_is_proven_is_right_and_shares_are_told() -> None:
    x, y = two_sides("digits", 80, 80)
    run = silot.distance(x, y, method="fedwad", interpolation="barycentric", support=40)
    found = shared_cells(Case(View.of(run.transcript, "coordinator"), "x"))
    assert not isinstance(found, str) and found.proven is not None and not found.certified
    right = np.abs(found.rows[:, None] - x).max(axis=2).min(axis=1) < 1e-6 * np.abs(x).max()
    assert right[found.proven].all() and found.proven.mean() > 0.5
    audited = audit(run.transcript, truth={"x": x})
    determined, _ = shares_determined(run.transcript, "x", x)
    assert 0.5 < attack(audited, "shared-cells").exact_rate <= determined < 1.0
    assert "evidence/attacks" not in " ".join(audited.not_tried)


def test_groups_of_cells_with_one_total_are_found() -> None:
    x = RNG.normal(size=(14, 3))
    before = x.reshape(7, 2, 3).sum(axis=1)
    ways = [(0, 2), (1, 3), (4, 7), (5, 8), (6, 9), (10, 12), (11, 13)]
    after = np.array([x[a] + x[b] for a, b in ways])
    groups = [(set(one), set(two)) for one, two in balanced(before, after)]
    assert groups == [({0, 1}, {0, 1}), ({5, 6}, {5, 6}), ({2, 3, 4}, {2, 3, 4})]


def test_every_record_lies_where_its_cell_allows() -> None:
    x, y = np.split(gaussian(3, 60, 5), 2)
    run = silot.distance(x, y, method="fedwad", interpolation="barycentric", support=15)
    told = rounds_of(run)
    cells = cells_of([one.means for one in told], 2)
    regions = places(cells, [one.reference for one in told], np.random.default_rng(0))
    outside = 0
    for k, one in enumerate(told):
        plan = averages(x, one)
        for atom, record in zip(*np.nonzero(plan), strict=True):
            (cell,) = np.flatnonzero(cells.where[:, k] == atom)
            assert regions[cell].inside(x[record][None])[0]
            outside += not regions[cell].inside(x[record][None] + 10.0)[0]
    assert outside > 0


def test_overlap_of_independent_records_counts_those_two_cells_share() -> None:
    x = RNG.normal(size=(12, 20))
    x -= x.mean(axis=0)
    lifted = np.column_stack([x, np.ones(12)])
    told = [x[RNG.permutation(12)].reshape(6, 2, 20).mean(axis=1) for _ in range(3)]
    cells = cells_of(told, 2)
    overlap, rank = overlaps(cells, lifted.T @ lifted)
    assert rank == 12
    assert np.allclose(overlap, np.rint(overlap), atol=1e-8)
    assert np.allclose(np.diag(overlap), 2.0)


def test_threads_follow_records_through_rounds() -> None:
    x = RNG.normal(size=(16, 24))
    lifted = np.column_stack([x, np.ones(16)])
    orders = [RNG.permutation(16) for _ in range(4)]
    cells: Cells = cells_of([x[k].reshape(8, 2, 24).mean(axis=1) for k in orders], 2)
    threads = Threads(cells, *overlaps(cells, lifted.T @ lifted))
    likely = threads.paths[threads.mass > 0.9]
    truth = {tuple(int(np.flatnonzero(one == v)[0]) // 2 for one in orders) for v in range(16)}
    assert {tuple(cells.where[path].max(axis=0).tolist()) for path in likely} == truth


def test_one_plan_for_all_rounds_says_nothing() -> None:
    x, y = two_sides("digits", 40, 40)
    found = deep_audit(x, y, method="fedwad", interpolation="barycentric", support=20, rounds=1)
    assert all(one.name != "shared-cells" or not one.exact_rate for one in found.of("x"))
