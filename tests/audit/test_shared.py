"""FedWaD with fewer atoms than records: which cells share records shows in their overlap."""

import numpy as np
import pytest

import silot
from silot.audit._case import Case
from silot.audit._threads import Cells, Threads, overlaps
from silot.audit.shared import cells_of, shared_cells
from silot.audit.view import View

from .data import attack, audit_of, two_sides

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(("name", "seed"), [("digits", 0), ("digits", 1), ("wine", 1)])
def test_what_is_proven_is_right(name: str, seed: int) -> None:
    x, y = two_sides(name, 80, 80, seed)
    run = silot.distance(x, y, method="fedwad", support=40)
    found = shared_cells(Case(View.of(run.transcript, "coordinator"), "x"))
    if isinstance(found, str):
        assert name == "wine"
        return
    assert found.sure is not None and not found.certified
    right = np.abs(found.rows[:, None] - x).max(axis=2).min(axis=1) < 1e-6 * np.abs(x).max()
    assert right[found.sure].all()
    assert name == "wine" or found.sure.mean() > 0.5


def test_the_audit_tells_of_pairs_that_come_apart() -> None:
    x, y = two_sides("digits", 80, 80)
    found = attack(audit_of(x, y, method="fedwad", support=40), "shared-cells")
    assert found.exact_rate is not None and 0.5 < found.exact_rate < 1.0


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
    found = audit_of(x, y, method="fedwad", support=20, rounds=1)
    assert all(one.name != "shared-cells" or not one.exact_rate for one in found.of("x"))
