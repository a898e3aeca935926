"""Transport without a matrix of costs: its bounds are checked against the exact solver's."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot_transport import (
    ExactPlan,
    _native,
    bounded,
    bounded_plan,
    cost_matrix,
    exact_plan,
)
from silot_transport._native import kernels
from silot_transport.errors import ExtraError, InputError
from tests.tiers import examples

pytestmark = pytest.mark.skipif(kernels is None, reason="the kernels are not compiled")

Array = npt.NDArray[np.float64]
Cloud = Callable[[np.random.Generator, int, int], Array]


@pytest.fixture(autouse=True)
def _levels(monkeypatch: pytest.MonkeyPatch) -> None:
    # Small problems go the way of large ones: levels, short lists, and several tiles a row.
    monkeypatch.setattr(bounded, "_SMALL", 0)
    monkeypatch.setattr(bounded, "_COARSEST", 40)
    monkeypatch.setattr(bounded, "_LONGEST", 8)
    monkeypatch.setattr(bounded, "_SHORTEST", 8)


def gaussian(rng: np.random.Generator, size: int, d: int) -> Array:
    return rng.normal(size=(size, d))


def clustered(rng: np.random.Generator, size: int, d: int) -> Array:
    centres = 30.0 * np.random.default_rng(3).normal(size=(4, d))
    return centres[rng.choice(4, size, p=rng.dirichlet(np.ones(4)))] + gaussian(rng, size, d)


def duplicated(rng: np.random.Generator, size: int, d: int) -> Array:
    return gaussian(rng, 1 + size // 9, d)[rng.integers(0, 1 + size // 9, size)]


def tied(rng: np.random.Generator, size: int, d: int) -> Array:
    return rng.integers(0, 4, (size, d)).astype(float)


def far(rng: np.random.Generator, size: int, d: int) -> Array:
    return gaussian(rng, size, d) + 1e5 * rng.normal(size=d)


def outlying(rng: np.random.Generator, size: int, d: int) -> Array:
    points = gaussian(rng, size, d)
    points[0] *= 1e4
    return points


KINDS = (gaussian, clustered, duplicated, tied, far, outlying)


def weights(rng: np.random.Generator, kind: str, size: int) -> Array | None:
    if kind == "uniform":
        return None
    found = rng.exponential(size=size)
    if kind == "some zero":
        found[rng.random(size) < 0.2] = 0.0
        found[0] = 1.0
    return found / found.sum()


def check(plan: ExactPlan, x: Array, y: Array, a: Array | None, b: Array | None, p: int) -> None:
    """A coupling above, feasible potentials below, and the optimum between."""
    a = np.full(len(x), 1.0 / len(x)) if a is None else a
    b = np.full(len(y), 1.0 / len(y)) if b is None else b
    coupling = plan.plan
    assert np.abs(coupling.sum(axis=1) - a).max() <= 1e-12
    assert np.abs(coupling.sum(axis=0) - b).max() <= 1e-12
    assert (plan.mass > 0.0).all()
    cost = cost_matrix(x, y, p=p)
    assert plan.cost == pytest.approx(float(plan.mass @ cost[plan.rows, plan.cols]), rel=1e-9)
    f, g = plan.potentials
    assert (cost - f[:, None] - g).min() >= -1e-10 * cost.max()
    bound = max(float(a @ f + b @ g), 0.0)
    assert bound == pytest.approx(plan.lower_cost, abs=1e-9 * cost.max())
    optimum = exact_plan(x, y, a, b, p=p)
    assert plan.lower_cost <= optimum.upper_cost
    assert optimum.lower_cost <= plan.upper_cost


@settings(max_examples=examples(40), deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.tuples(st.sampled_from(KINDS), st.sampled_from(KINDS)),
    masses=st.tuples(*2 * [st.sampled_from(["uniform", "any", "some zero"])]),
    sizes=st.tuples(st.integers(2, 260), st.integers(2, 260)),
    d=st.integers(2, 12),
    p=st.sampled_from([1, 2]),
    gap=st.sampled_from([0.0, 0.01, 0.1]),
)
def test_bounds_hold_the_optimum_and_are_as_close_as_asked(
    seed: int,
    kinds: tuple[Cloud, Cloud],
    masses: tuple[str, str],
    sizes: tuple[int, int],
    d: int,
    p: int,
    gap: float,
) -> None:
    rng = np.random.default_rng(seed)
    x, y = (kind(rng, size, d) for kind, size in zip(kinds, sizes, strict=True))
    a, b = (weights(rng, kind, size) for kind, size in zip(masses, sizes, strict=True))
    plan = bounded_plan(x, y, a, b, p=p, gap=gap)
    check(plan, x, y, a, b, p)
    part = (plan.upper_cost - plan.lower_cost) / plan.upper_cost if plan.upper_cost else 0.0
    assert plan.optimal or plan.status.startswith("within")
    if plan.optimal or "was asked for" in plan.status:
        assert part <= max(gap, 1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [gaussian, clustered])
@pytest.mark.parametrize("mass", ["uniform", "any"])
def test_no_gap_is_the_optimum_of_the_exact_solver(kind: Cloud, mass: str) -> None:
    rng = np.random.default_rng(5)
    x, y = kind(rng, 700, 8), kind(rng, 500, 8)
    a, b = weights(rng, mass, 700), weights(rng, mass, 500)
    plan = bounded_plan(x, y, a, b, gap=0.0)
    assert plan.optimal
    assert plan.cost == pytest.approx(exact_plan(x, y, a, b).cost, rel=1e-9)


@pytest.mark.heavy
@pytest.mark.parametrize("kind", [gaussian, clustered, duplicated])
def test_a_wider_gap_is_kept_and_the_same_each_time(kind: Cloud) -> None:
    x, y = (kind(np.random.default_rng(seed), 900, 8) for seed in (1, 2))
    first, again = bounded_plan(x, y, gap=0.05), bounded_plan(x, y, gap=0.05)
    assert 0.0 < first.upper_cost - first.lower_cost <= 0.05 * first.upper_cost or first.optimal
    assert (first.cost, first.lower_cost) == (again.cost, again.lower_cost)
    assert np.array_equal(first.mass, again.mass)


@settings(max_examples=examples(30), deadline=None)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(KINDS), d=st.integers(1, 9))
def test_no_column_of_a_ball_is_nearer_than_its_edge(seed: int, kind: Cloud, d: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = kind(rng, 30, d), kind(rng, 60, d)
    blocks = np.sort(rng.integers(0, 7, 60))
    edges = bounded.Balls(y, blocks).edges(x, np.einsum("ij,ij->i", x, x))
    assert edges.shape == (30, len(np.unique(blocks)))
    nearest = [cost_matrix(x, y[blocks == k], p=1).min(axis=1) for k in np.unique(blocks)]
    room = 1e-7 * (1.0 + np.abs(np.concatenate([x, y])).max())
    assert (edges <= np.column_stack(nearest) + room).all()


@pytest.mark.heavy
def test_far_clusters_are_passed_over_and_near_points_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(7)
    read: list[int] = []
    whole: list[int] = []
    plain = bounded.Tiles._pass_over

    def counted(self: bounded.Tiles, *given: object) -> None:
        *rest, tile = given

        def count(which: np.ndarray, start: int, end: int) -> None:
            read.append(len(which) * (end - start))
            tile(which, start, end)  # type: ignore[operator]

        plain(self, *rest, count)  # type: ignore[arg-type]
        whole.append(len(rest[1]) * len(self.of_columns))  # type: ignore[arg-type]

    monkeypatch.setattr(bounded.Tiles, "_pass_over", counted)
    x, y = clustered(rng, 2000, 8), clustered(rng, 2000, 8)
    plan = bounded_plan(x, y)
    check(plan, x, y, None, None, 2)
    assert 0 < sum(read) < 0.7 * sum(whole)
    read.clear()
    bounded_plan(gaussian(rng, 800, 8), gaussian(rng, 800, 8))
    assert not read


@pytest.mark.parametrize("scale", [1e-120, 1e-30, 1e30, 1e120])
def test_bounds_scale_with_the_points(scale: float) -> None:
    x, y = (gaussian(np.random.default_rng(seed), 200, 4) for seed in (1, 2))
    plan = bounded_plan(scale * x, scale * y)
    assert plan.lower <= exact_plan(x, y).distance * scale * (1 + 1e-9)
    assert plan.upper >= exact_plan(x, y).distance * scale * (1 - 1e-9)
    assert plan.upper_cost - plan.lower_cost <= 0.01 * plan.upper_cost


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("unit", [2.0**-40, 2.0**-46, 2.0**-50])
def test_a_common_offset_does_not_hide_how_small_distances_are(unit: float, p: int) -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.integers(0, 1000, (300, 2)).astype(float) for _ in range(2))
    y += 800.0 * rng.integers(0, 2, (300, 1))
    known, scale = exact_plan(x, y, p=p), 2.0**-39
    plan = bounded_plan(scale * (1.0 + unit * x), scale * (1.0 + unit * y), p=p)
    one = (scale * unit) ** p
    assert plan.lower_cost <= known.upper_cost * one
    assert known.lower_cost * one <= plan.upper_cost


def test_a_moved_copy_is_found_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    scans = 0
    plain = bounded.Run.scan

    def counted(self: bounded.Run, *, improve: bool = False) -> None:
        nonlocal scans
        scans += 1
        plain(self, improve=improve)

    monkeypatch.setattr(bounded.Run, "scan", counted)
    rng = np.random.default_rng(0)
    x = gaussian(rng, 600, 3)
    plan = bounded_plan(x, x[rng.permutation(600)] + [5.0, 0.3, 0.7])
    assert plan.upper_cost - plan.lower_cost <= 0.01 * plan.upper_cost
    assert scans <= 12


def test_the_same_measure_is_at_distance_zero() -> None:
    rng = np.random.default_rng(0)
    x, order = gaussian(rng, 300, 6), rng.permutation(300)
    plan = bounded_plan(x, x[order])
    assert (plan.lower_cost, plan.cost, plan.upper_cost) == (0.0, 0.0, 0.0)


def test_one_point_and_few_points_against_many() -> None:
    rng = np.random.default_rng(0)
    y = gaussian(rng, 900, 3)
    for size in (1, 2, 3):
        x = gaussian(rng, size, 3)
        check(bounded_plan(x, y), x, y, None, None, 2)
        check(bounded_plan(y, x), y, x, None, None, 2)


@pytest.mark.parametrize("gap", [-0.1, 1.0, float("nan"), "0.1"])
def test_a_gap_is_a_part(gap: object) -> None:
    with pytest.raises(InputError) as caught:
        bounded_plan([[0.0]], [[1.0]], gap=gap)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "option-gap"


@pytest.mark.parametrize("limit", [0.0, -1.0, float("nan"), "1"])
def test_a_time_limit_is_a_number_of_seconds(limit: object) -> None:
    with pytest.raises(InputError) as caught:
        bounded_plan([[0.0]], [[1.0]], time_limit=limit)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == "option-gap"


def test_bounds_of_no_time_at_all_hold() -> None:
    rng = np.random.default_rng(0)
    x, y, b = gaussian(rng, 900, 4), gaussian(rng, 800, 4), weights(rng, "any", 800)
    plan = bounded_plan(x, y, None, b, gap=0.0, time_limit=1e-9)
    check(plan, x, y, None, b, 2)
    assert not plan.optimal and "time limit" in plan.status
    assert bounded_plan(x, y, None, b, gap=0.0, time_limit=60.0).optimal


def test_the_status_of_merged_points_is_that_of_their_bounds() -> None:
    z = np.random.default_rng(0).normal(size=(2000, 3))
    found = bounded_plan(np.repeat(z, 2, axis=0), z)
    assert found.lower_cost == 0.0 and found.upper_cost < 1e-8
    assert not (found.optimal and found.upper_cost > found.lower_cost + 1e-12 * found.upper_cost)


def test_without_kernels_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native, "kernels", None)
    x = gaussian(np.random.default_rng(0), 20, 2)
    with pytest.raises(ExtraError) as caught:
        bounded_plan(x, x + x**2)
    assert caught.value.code == "kernels-missing"


@pytest.mark.heavy
def test_memory_stays_far_below_the_matrix() -> None:
    code = (
        "import resource, numpy as np\n"
        "from silot_transport import bounded_plan\n"
        "rng = np.random.default_rng(0)\n"
        "bounded_plan(rng.normal(size=(1300, 4)), rng.normal(size=(1300, 4)), gap=.1)\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "plan = bounded_plan(rng.normal(size=(8000, 8)), rng.normal(size=(8000, 8)), gap=.05)\n"
        "assert plan.upper_cost - plan.lower_cost <= .05 * plan.upper_cost\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    unit = 1024 if sys.platform != "darwin" else 1
    assert int(done.stdout) * unit <= 8 * 8000**2 / 5


@pytest.mark.heavy
@pytest.mark.parametrize("p", [1, 2])
def test_a_distance_of_many_records_is_the_optimum_without_their_matrix(
    monkeypatch: pytest.MonkeyPatch, p: int
) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(1300, 5)), rng.normal(size=(1300, 5)) + 0.2
    a = b = np.full(1300, 1 / 1300)
    exact = exact_plan(x, y, a, b, p=p)
    monkeypatch.setattr(bounded, "_LARGE", 0)
    plan = bounded.fitting_plan(x, y, a, b, p)
    assert plan.solver == "listed simplex" and plan.optimal
    assert plan.cost == pytest.approx(exact.cost, rel=1e-9)
    # Where lists end far from the optimum, and costs fit, their matrix is solved.
    loose = bounded_plan(x, y, a, b, p=p, gap=0.3)
    monkeypatch.setattr(bounded, "bounded_plan", lambda *_, **__: replace(loose, status="within"))
    assert bounded.fitting_plan(x, y, a, b, p).cost == exact.cost
    # Where they do not fit, bounds are what there is.
    monkeypatch.setattr(bounded, "fits", lambda *_: False)
    assert bounded.fitting_plan(x, y, a, b, p).status == "within"
