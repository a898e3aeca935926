"""The compiled kernels by themselves, against scipy, POT and the pure path."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from silot_transport import _native, _sweep
from tests.lazily import package
from tests.tiers import examples

ot = package("ot")

Array = npt.NDArray[np.float64]


def chosen() -> ModuleType | None:
    """The kernels of this installation, or those that ``make sanitize`` names."""
    path = os.environ.get("SILOT_SANITIZED")
    if path is None:
        return _native.kernels
    spec = spec_from_file_location("_kernels", path)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


kernels: Any = chosen()
pytestmark = pytest.mark.skipif(kernels is None, reason="no compiled kernels here")

seeds = st.integers(0, 2**32 - 1)
KINDS = ("random", "points", "ties", "constant", "zero")
SCALES = (1e-12, 1.0, 1e12)
sizes = st.one_of(st.integers(1, 12), st.sampled_from((31, 64, 65, 127, 300)))


@pytest.fixture(params=[] if kernels is None else kernels.sets(), autouse=True, scope="module")
def instructions(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run everything on each instruction set of this processor."""
    before = kernels.used()
    kernels.use(request.param)
    yield
    kernels.use(before)


def costs(n: int, m: int, kind: str, scale: float, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    if kind == "points":
        x, y = rng.normal(size=(n, 1, 2)), rng.normal(size=(1, m, 2))
        return scale * ((x - y) ** 2).sum(axis=2)
    if kind == "ties":
        return scale * rng.integers(0, 3, (n, m)).astype(float)
    if kind == "random":
        return scale * rng.random((n, m))
    return np.full((n, m), scale if kind == "constant" else 0.0)


def masses(n: int, total: int, seed: int) -> npt.NDArray[np.int64]:
    """Some are zero; more than there are points, so that ties of sums come up too."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(total, rng.dirichlet(np.full(n, 0.5))).astype(np.int64)


def assert_feasible(cost: Array, u: Array, v: Array, room: float) -> None:
    assert (u[:, None] + v - cost).max() <= room


problems = {"kind": st.sampled_from(KINDS), "scale": st.sampled_from(SCALES), "seed": seeds}


@settings(max_examples=examples(40), deadline=None)
@given(n=sizes, warm=st.booleans(), **problems)
def test_assignments_are_optimal_with_tight_potentials(
    n: int, warm: bool, kind: str, scale: float, seed: int
) -> None:
    cost = costs(n, n, kind, scale, seed)
    u, v, column = np.empty(n), np.zeros(n), np.empty(n, np.int32)
    if warm:
        v = scale * np.random.default_rng(seed).normal(size=n)
    kernels.assign(cost, n, u, v, column)
    assert sorted(column) == [*range(n)]
    best = cost[linear_sum_assignment(cost)].sum()
    room = 1e-12 * n * (scale + abs(v).max())
    assert cost[np.arange(n), column].sum() == pytest.approx(best, rel=1e-12, abs=room)
    assert_feasible(cost, u, v, 1e-14 * (scale + abs(v).max()))
    np.testing.assert_allclose(u + v[column], cost[np.arange(n), column], rtol=0, atol=room)


@settings(max_examples=examples(60), deadline=None)
@given(n=sizes, cells=st.integers(1, 12), warm=st.booleans(), **problems)
def test_assignments_by_few_cells_of_each_row_are_optimal_or_given_up(
    n: int, cells: int, warm: bool, kind: str, scale: float, seed: int
) -> None:
    cost = costs(n, n, kind, scale, seed)
    start = scale * np.random.default_rng(seed).normal(size=n) if warm else cost.min(axis=0)
    u, v, column = np.empty(n), start.copy(), np.empty(n, np.int32)
    if kernels.assign_listed(cost, cells, u, v, column) is None:
        np.testing.assert_array_equal(v, start)
        return
    assert sorted(column) == [*range(n)]
    best = cost[linear_sum_assignment(cost)].sum()
    room = 1e-12 * n * (scale + abs(v).max())
    assert cost[np.arange(n), column].sum() == pytest.approx(best, rel=1e-12, abs=room)
    assert_feasible(cost, u, v, 1e-14 * (scale + abs(v).max()))
    np.testing.assert_allclose(u + v[column], cost[np.arange(n), column], rtol=0, atol=room)


def test_few_cells_of_each_row_are_enough_where_potentials_are_near() -> None:
    cost = costs(300, 300, "points", 1.0, 0)
    u, v, column = np.empty(300), np.zeros(300), np.empty(300, np.int32)
    kernels.assign(cost, 300, u, v, column)
    again = np.empty(300, np.int32)
    near = v + 1e-3 * np.random.default_rng(0).normal(size=300)
    scans, left = kernels.assign_listed(cost, 8, u, near, again)
    np.testing.assert_array_equal(again, column)
    # Rows of the matrix are read to list and to check, and none for paths.
    assert left < 300 / 10
    assert scans <= 10 * 300


def test_lists_are_given_up_where_paths_on_them_are_long_or_lead_nowhere() -> None:
    i = np.arange(1.0, 401.0)
    halves = np.kron([[0.0, 9.0], [9.0, 0.0]], np.ones((200, 200)))
    halves[190:200, 200:] = 5.0
    for cost, cells in ((np.outer(i, i), 8), (halves[:, 20:] + 1.0 / i[:, None], 8)):
        cost = np.ascontiguousarray(cost[: cost.shape[1]])
        n = len(cost)
        start = cost.min(axis=0)
        u, v, column = np.empty(n), start.copy(), np.empty(n, np.int32)
        assert kernels.assign_listed(cost, cells, u, v, column) is None
        np.testing.assert_array_equal(v, start)


def test_only_the_first_passes_are_done_where_they_leave_more_rows_than_allowed() -> None:
    line = np.sort(np.random.default_rng(0).normal(size=(2, 200)))
    cost = (line[0][:, None] - line[1] - 0.5) ** 2
    u, v, column = np.empty(200), cost.min(axis=0), np.empty(200, np.int32)
    left = kernels.assign(cost, 0, u, v, column)[1]
    assert left > 0
    assert (column < 0).sum() == left
    # What they made of the potentials is where another search begins.
    assert kernels.assign_mixed(cost, u, v, column)[1] <= left
    np.testing.assert_array_equal(column, np.arange(200))


@pytest.mark.parametrize("values", [2, 10, 100])
def test_rows_that_find_several_columns_alike_take_one_that_is_free(values: int) -> None:
    cost = np.random.default_rng(0).integers(0, values, (300, 300)) + 0.0
    u, v, column = np.empty(300), cost.min(axis=0), np.empty(300, np.int32)
    scans, left = kernels.assign(cost, 300, u, v, column)
    assert left < 300 / 5
    assert scans < 300 * 10
    assert cost[np.arange(300), column].sum() == cost[linear_sum_assignment(cost)].sum()


@settings(max_examples=examples(25), deadline=None)
@given(n=sizes, warm=st.booleans(), **problems)
def test_assignments_searched_in_single_precision_are_optimal(
    n: int, warm: bool, kind: str, scale: float, seed: int
) -> None:
    cost = costs(n, n, kind, scale, seed)
    start = scale * np.random.default_rng(seed).normal(size=n) if warm else cost.min(axis=0)
    u, v, column = np.empty(n), start, np.empty(n, np.int32)
    kernels.assign_mixed(cost, u, v, column)
    assert sorted(column) == [*range(n)]
    best = cost[linear_sum_assignment(cost)].sum()
    room = 1e-12 * n * (scale + abs(v).max())
    assert cost[np.arange(n), column].sum() == pytest.approx(best, rel=1e-12, abs=room)
    assert_feasible(cost, u, v, 1e-14 * (scale + abs(v).max()))


@settings(max_examples=examples(25), deadline=None)
@given(n=sizes, swap=st.booleans(), **problems)
def test_potentials_settle_on_the_best_assignment_and_on_no_other(
    n: int, swap: bool, kind: str, scale: float, seed: int
) -> None:
    cost = costs(n, n, kind, scale, seed)
    column = linear_sum_assignment(cost)[1].astype(np.int32)
    best = cost[np.arange(n), column].sum()
    if swap and n > 1:
        column[:2] = column[1::-1]
    worse = cost[np.arange(n), column].sum() > best + 1e-9 * n * scale
    u, v = np.empty(n), np.zeros(n)
    if kernels.settle(cost, u, v, column):
        room = 1e-11 * n * (scale + abs(v).max())
        assert not worse
        assert_feasible(cost, u, v, 1e-14 * (scale + abs(v).max()))
        np.testing.assert_allclose(u + v[column], cost[np.arange(n), column], rtol=0, atol=room)
    else:
        # Paths are long where ties are many: only then it may give up on the best.
        assert worse or n > 64 or kind == "random" or kind == "points"


@settings(max_examples=examples(40), deadline=None)
@given(n=sizes, m=sizes, near=st.booleans(), **problems)
def test_masses_are_moved_at_the_least_cost(
    n: int, m: int, near: bool, kind: str, scale: float, seed: int
) -> None:
    cost, total = costs(n, m, kind, scale, seed), 4 * (n + m)
    a, b = masses(n, total, seed), masses(m, total, seed + 1)
    u, v = np.empty(n), cost.min(axis=0)
    rows, cols = np.empty((2, n + m - 1), np.int32)
    moved = np.empty(n + m - 1, np.int64)
    count = kernels.transport(cost, a, b, near, u, v, rows, cols, moved)
    assert 0 < count <= n + m - 1
    rows, cols, moved = rows[:count], cols[:count], moved[:count]
    assert (moved > 0).all()
    np.testing.assert_array_equal(np.bincount(rows, moved, n), a)
    np.testing.assert_array_equal(np.bincount(cols, moved, m), b)
    paid = float(moved @ cost[rows, cols])
    # POT's own tolerance is no share of the costs.
    best = scale * total * ot.emd2(a / total, b / total, cost / scale, numItermax=10**8)
    room = 1e-12 * (n + m) * (scale + abs(v).max())
    assert paid == pytest.approx(best, rel=1e-9, abs=room * total)
    assert_feasible(cost, u, v, 1e-14 * (scale + abs(v).max()))
    np.testing.assert_allclose(u[rows] + v[cols], cost[rows, cols], rtol=0, atol=room)


sweeps: dict[str, Any] = {
    "n": sizes,
    "m": sizes,
    "share": st.sampled_from((1e-3, 0.05, 10.0)),
    "penalty": st.sampled_from((np.inf, 1.0)),
    "known": st.booleans(),
    **problems,
}


@settings(max_examples=examples(40), deadline=None)
@given(**sweeps)
def test_a_sweep_is_that_of_the_pure_path(
    n: int, m: int, share: float, penalty: float, known: bool, kind: str, scale: float, seed: int
) -> None:
    cost, rng = costs(n, m, kind, scale, seed), np.random.default_rng(seed)
    a, h = rng.dirichlet(np.ones(n)), rng.normal(size=m) / share + np.log(1 / m)
    damp = 1.0 / (1.0 + share / penalty)
    # Guesses far off must do no harm.
    guess = rng.normal(size=n) * 10.0 ** rng.integers(-3, 6, n)

    def run(function: Any, matrix: Any) -> tuple[float, Array, Array]:
        levels, columns = guess.copy(), np.empty(m)
        scale_ = 1.0 / (share * scale)
        return function(matrix, a, h, scale_, damp, known, True, levels, columns), levels, columns

    moved, levels, columns = run(kernels.sweep, cost)
    wanted, known_levels, known_columns = run(_sweep._sweep_rows, cost)
    size = float(abs(h).max() + cost.max() / (share * scale) + 1.0)
    close = 1e-14 * size
    np.testing.assert_allclose(levels, known_levels, rtol=0, atol=close)
    room = {"rtol": 20 * close, "atol": 20 * close * known_columns.sum()}
    np.testing.assert_allclose(columns, known_columns, **room)
    assert moved == pytest.approx(wanted, rel=20 * close, abs=20 * close * scale)
    _, levels, columns = run(kernels.sweep, cost.astype(np.float32))
    close = 1e-6 * size
    np.testing.assert_allclose(levels, known_levels, rtol=0, atol=close)
    if 2 * close < 0.1:
        room = 4 * close * known_columns.sum()
        np.testing.assert_allclose(columns, known_columns, rtol=4 * close, atol=room)


@settings(max_examples=examples(40), deadline=None)
@given(
    size=st.one_of(st.integers(1, 12), st.sampled_from((31, 64, 100))),
    scale=st.sampled_from((1e-9, 1.0, 1e9)),
    kind=st.sampled_from(("points", "line", "equal")),
    sparse=st.booleans(),
    seed=seeds,
)
def test_transport_between_labels_is_that_of_pot(
    size: int, scale: float, kind: str, sparse: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(size, 3)) if kind == "points" else np.arange(size)[:, None]
    unit = np.abs(points[:, None] - points).sum(axis=2) if kind != "equal" else 1 - np.eye(size)
    cost = scale * unit
    p, q = rng.multinomial(9, np.ones(size) / size, (2, 5)) / 9
    if not sparse:
        p, q = rng.dirichlet(np.ones(size), (2, 5))
    q[0] = p[0]
    f, paid = np.empty((5, size)), np.empty(5)
    kernels.labels(cost, p - q, f, paid)
    assert (f[:, :, None] - f[:, None] - cost).max() <= 1e-13 * size * scale
    mass = np.maximum(p - q, 0).sum(axis=1)
    values = [scale * ot.emd2(one, other, unit) for one, other in zip(p, q, strict=True)]
    room = 1e-13 * size * scale
    np.testing.assert_allclose((f * (p - q)).sum(axis=1), values, rtol=1e-9, atol=room)
    np.testing.assert_allclose(paid * mass, values, rtol=1e-9, atol=room)


@settings(max_examples=examples(20), deadline=None)
@given(n=sizes, d=st.integers(1, 20), ties=st.booleans(), seed=seeds)
def test_clouds_are_matched_at_the_least_cost(n: int, d: int, ties: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = (rng.integers(0, 2, (2, 3, n, d)) if ties else rng.normal(size=(2, 3, n, d))) + 0.0
    mean = np.empty(3)
    kernels.clouds(x, y, mean)
    for one, other, found in zip(x, y, mean, strict=True):
        cost = ((one[:, None] - other) ** 2).sum(axis=2)
        best = cost[linear_sum_assignment(cost)].mean()
        np.testing.assert_allclose(found, best, rtol=1e-12, atol=1e-14)


def test_arrays_that_do_not_fit_are_refused() -> None:
    n, cost = 3, np.ones((3, 3))
    u, v, column = np.empty(n), np.zeros(n), np.zeros(n, np.int32)
    ones, cells = np.ones(n, np.int64), (column, column, np.zeros(n, np.int64))
    room = (*np.zeros((2, 2 * n - 1), np.int32), np.zeros(2 * n - 1, np.int64))
    calls: list[tuple[Any, ...]] = [
        (kernels.assign, cost[:2].copy(), n, u, v, column),
        (kernels.assign, cost, n, u[:2], v, column),
        (kernels.assign, cost, -1, u, v, column),
        (kernels.assign, np.empty((0, 0)), n, u[:0], v[:0], column[:0]),
        (kernels.settle, cost, u, v, column),
        (kernels.settle, cost, u, v, column - 1),
        (kernels.settle, cost, u, v, column + 3),
        (kernels.transport, cost, ones, ones, True, u, v, *cells),
        (kernels.transport, cost, ones, 2 * ones, True, u, v, *room),
        (kernels.transport, cost, ones, -ones, True, u, v, *room),
        (kernels.transport, cost, 0 * ones, 0 * ones, True, u, v, *room),
        (kernels.transport, cost, ones[:2], ones, True, u, v, *room),
        (kernels.transport, cost, ones, ones, True, u, np.full(n, np.nan), *room),
        (kernels.near_potentials, cost, ones, ones[:2], u, v),
        (kernels.sweep, cost, u, v[:2], 1.0, 1.0, False, False, u, v),
        (kernels.labels, cost[:2].copy(), cost, cost, u),
        (kernels.labels, cost, cost, cost, u[:2]),
        (kernels.clouds, np.ones((2, 3, 2)), np.ones((2, 3, 1)), np.empty(2)),
        (kernels.clouds, np.ones((2, 3, 2)), np.ones((2, 3, 2)), np.empty(3)),
        (kernels.clouds, np.ones((2, 0, 2)), np.ones((2, 0, 2)), np.empty(2)),
        (kernels.use, "no such set"),
    ]
    for function, *arguments in calls:
        with pytest.raises(ValueError):
            function(*arguments)


def test_arrays_of_another_type_are_refused_and_not_copied() -> None:
    cost, vector, column = np.ones((3, 3)), np.zeros(3), np.zeros(3, np.int32)
    for arguments in (
        (cost, 3, vector.astype(np.float32), vector, column),
        (cost, 3, vector, vector, column.astype(np.int64)),
        (np.ones((6, 6))[::2, ::2], 3, vector, vector, column),
        (cost.astype(np.int64), 3, vector, vector, column),
    ):
        with pytest.raises(TypeError):
            kernels.assign(*arguments)


@settings(max_examples=examples(30))
@given(seeds, sizes, sizes, st.integers(1, 9), st.sampled_from((1, 2)), st.sampled_from((1, 3)))
def test_a_tree_finds_the_least_costs(
    seed: int, n: int, m: int, d: int, order: int, threads: int
) -> None:
    rng = np.random.default_rng(seed)
    # Rounded: many points coincide, and many values tie.
    x, y = (np.round(3.0 * rng.normal(size=(k, d)), int(rng.integers(3))) for k in (n, m))
    price = np.round(rng.normal(size=m), 1)
    values = cdist(x, y, "sqeuclidean" if order == 2 else "euclidean") + price
    least = np.empty(n)
    kernels.least_costs(x, y, price, order, threads, least)
    np.testing.assert_allclose(least, values.min(axis=1), rtol=1e-12, atol=1e-12)
    k, shift = int(rng.integers(1, m + 1)), rng.normal(size=d)
    a, b = np.full(n, m, np.int64), np.full(m, n, np.int64)
    listed = kernels.Listed(x, y - shift, shift, a, b, price, k, order)
    rows = rng.permutation(n).astype(np.int32)
    looked = listed.scan_tree(rows, price, threads)
    assert n * min(k, m) <= looked <= n * m
    floors = np.empty(n)
    listed.least(floors)
    # The least of a list, and a floor that is the value of its last column.
    np.testing.assert_allclose(floors, values.min(axis=1), rtol=1e-9, atol=1e-9)
