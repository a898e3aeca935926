"""Entropic transport: marginals, duality, the limit, and agreement with POT."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from silot_transport import EntropicPlan, _native, exact_plan, sinkhorn, sinkhorn_divergence
from silot_transport.errors import InputError
from tests.lazily import package
from tests.problems import (
    ORDERS,
    Array,
    Pair,
    assert_refused,
    clouds,
    direct_costs,
    draw_clouds,
    draw_weights,
    exact_cost,
    normalised,
    pairs,
    seeds,
)
from tests.tiers import examples

ot = package("ot")

orders = pytest.mark.parametrize("p", ORDERS)
# A share of the largest cost: entropic problems are as hard as this is small.
shares = st.sampled_from((0.02, 0.1, 1.0, 10.0))
SMALL = {"largest": 12, "dimensions": (1, 2, 7), "layouts": ("normal", "grid", "constant")}


def entropic(pair: Pair, **options: Any) -> EntropicPlan:
    return sinkhorn(*pair.arrays, **options)


def epsilon_of(pair: Pair, share: float, p: int) -> float:
    """A share of the largest cost between any two points, of one cloud or of both."""
    points = np.concatenate([pair.x, pair.y])
    return share * (float(direct_costs(points, points, p).max()) or 1.0)


def coupling(result: EntropicPlan, pair: Pair, p: int) -> Array:
    """The plan as the documentation defines it."""
    a, b = pair.masses
    f, g = result.potentials
    return a[:, None] * b * np.exp((f[:, None] + g - pair.costs(p)) / result.epsilon)


def entropy_to(plan: Array, a: Array, b: Array) -> float:
    """KL(P | a b^T), with 0 log 0 = 0."""
    product = a[:, None] * b
    used = plan > 0
    return float(np.sum(plan[used] * np.log(plan[used] / product[used])))


def reference_plan(matrix: Array, a: Array, b: Array, epsilon: float) -> Array:
    """The plan by POT's log-domain solver, on points that carry mass."""
    rows, cols = np.flatnonzero(a), np.flatnonzero(b)
    plan = np.zeros(matrix.shape)
    plan[np.ix_(rows, cols)] = ot.sinkhorn(
        a[rows], b[cols], matrix[np.ix_(rows, cols)], epsilon, method="sinkhorn_log",
        stopThr=1e-11, numItermax=20_000,
    )  # fmt: skip
    return plan


def reference_value(matrix: Array, a: Array, b: Array, epsilon: float) -> float:
    plan = reference_plan(matrix, a, b, epsilon)
    return float(np.sum(plan * matrix)) + epsilon * entropy_to(plan, a, b)


def drawn(n: int, m: int, d: int, kind: str, seed: int = 0) -> Pair:
    rng = np.random.default_rng(seed)
    x, y = draw_clouds(rng, "normal", n, m, d)
    return Pair("normal", x, y, draw_weights(rng, kind, n), draw_weights(rng, kind, m))


# The solution.


@orders
@given(pair=pairs(**SMALL), share=shares)
def test_the_plan_has_the_marginals_and_the_stated_error(pair: Pair, share: float, p: int) -> None:
    result = entropic(pair, p=p, epsilon=epsilon_of(pair, share, p))
    a, b = pair.masses
    plan = coupling(result, pair, p)
    assert result.converged, result.status
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=1e-9, atol=1e-15)
    error = float(np.abs(plan.sum(axis=0) - b).sum())
    assert error == pytest.approx(result.marginal_error, rel=1e-6, abs=1e-12)
    assert error < 1e-6
    moved = float(np.sum(plan * pair.costs(p)))
    assert result.transport_cost == pytest.approx(moved, rel=1e-9, abs=1e-13)


@orders
@given(pair=pairs(**SMALL), share=shares)
def test_the_value_is_the_primal_value_of_the_plan(pair: Pair, share: float, p: int) -> None:
    epsilon = epsilon_of(pair, share, p)
    result = entropic(pair, p=p, epsilon=epsilon, tolerance=1e-11, max_iterations=50_000)
    plan = coupling(result, pair, p)
    primal = result.transport_cost + epsilon * entropy_to(plan, *pair.masses)
    size = pair.largest_cost(p) + epsilon
    assert result.converged
    assert result.value == pytest.approx(primal, rel=1e-8, abs=1e-9 * size)


@orders
@settings(max_examples=examples(15))
@given(pair=pairs(**SMALL), share=st.sampled_from((0.1, 1.0)))
def test_value_and_plan_agree_with_pot(pair: Pair, share: float, p: int) -> None:
    epsilon = epsilon_of(pair, share, p)
    result = entropic(pair, p=p, epsilon=epsilon, tolerance=1e-11, max_iterations=50_000)
    a, b = pair.masses
    known = reference_plan(pair.costs(p), a, b, epsilon)
    np.testing.assert_allclose(coupling(result, pair, p), known, rtol=0, atol=1e-8)
    value = float(np.sum(known * pair.costs(p))) + epsilon * entropy_to(known, a, b)
    assert result.value == pytest.approx(value, rel=1e-8, abs=1e-9 * epsilon)


@pytest.mark.heavy
@orders
@pytest.mark.parametrize("kind", ["uniform", "random", "zeros"])
def test_larger_problems_agree_with_pot(kind: str, p: int) -> None:
    # More entries than one block of the sweep holds.
    pair = drawn(600, 700, 3, kind)
    epsilon = epsilon_of(pair, 0.05, p)
    result = entropic(pair, p=p, epsilon=epsilon, tolerance=1e-10)
    a, b = pair.masses
    value = reference_value(pair.costs(p), a, b, epsilon)
    assert result.converged
    assert result.value == pytest.approx(value, rel=1e-8)


@given(pair=pairs(**SMALL), share=st.sampled_from((0.02, 0.1)), sweeps=st.integers(20, 40))
def test_the_value_is_a_lower_bound_even_before_convergence(
    pair: Pair, share: float, sweeps: int
) -> None:
    # Annealing by halves takes some six sweeps; from then on every value is dual feasible.
    epsilon = epsilon_of(pair, share, 2)
    early = entropic(pair, epsilon=epsilon, max_iterations=sweeps, tolerance=1e-14)
    late = entropic(pair, epsilon=epsilon, max_iterations=20_000, tolerance=1e-12)
    size = pair.largest_cost(2) + epsilon
    assert early.value <= late.value + 1e-10 * size


@orders
@pytest.mark.parametrize("kind", ["uniform", "random", "zeros"])
@pytest.mark.parametrize("d", [1, 2, 7])
def test_the_value_tends_to_the_exact_cost_within_its_entropy(d: int, kind: str, p: int) -> None:
    pair = drawn(9, 12, d, kind, seed=d)
    # W <= OT_epsilon <= W + epsilon min(H(a), H(b)).
    exact, (a, b) = exact_cost(pair, p), pair.masses
    entropies = [float(-np.sum(w[w > 0] * np.log(w[w > 0]))) for w in (a, b)]
    size = pair.largest_cost(p)
    gaps = []
    for share in (1.0, 0.1, 0.01):
        epsilon = epsilon_of(pair, share, p)
        result = entropic(pair, p=p, epsilon=epsilon, tolerance=1e-9, max_iterations=20_000)
        assert result.converged, result.status
        assert result.value >= exact - 1e-8 * (size + epsilon)
        assert result.value <= exact + epsilon * min(entropies) + 1e-8 * (size + epsilon)
        assert result.transport_cost >= exact - 1e-8 * size
        gaps.append(result.value - exact)
    assert gaps[2] <= gaps[1] + 1e-8 * size <= gaps[0] + 2e-8 * size


def test_a_small_epsilon_finds_the_exact_cost() -> None:
    pair = drawn(30, 30, 2, "uniform")
    result = entropic(pair, epsilon=1e-4, tolerance=1e-5, max_iterations=100_000)
    assert result.converged
    # A permutation is as far off as a plan can be, to the last digit.
    most = 1e-4 * np.log(30) + 1e-14
    assert result.value == pytest.approx(exact_plan(pair.x, pair.y).cost, abs=most)


@orders
@given(cloud=clouds(largest=8), epsilon=st.sampled_from((0.1, 1.0, 10.0)))
def test_one_point_has_one_coupling_and_no_entropy(
    cloud: tuple[Array, Array | None], epsilon: float, p: int
) -> None:
    points, weights = cloud
    point = np.full((1, points.shape[1]), 0.25)
    costs = direct_costs(point, points, p)[0]
    cost = float(costs @ normalised(weights, len(points)))
    # Exponents of costs over epsilon have an absolute error: no tolerance below it is reached.
    epsilon *= max(1.0, float(costs.max()) / 1e3)
    for result in (
        sinkhorn(point, points, None, weights, epsilon=epsilon, p=p, tolerance=1e-10),
        sinkhorn(points, point, weights, None, epsilon=epsilon, p=p, tolerance=1e-10),
    ):
        assert result.converged
        assert result.value == pytest.approx(cost, rel=1e-9)
        assert result.transport_cost == pytest.approx(cost, rel=1e-9)


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5.0])
def test_two_points_against_themselves_in_closed_form(epsilon: float) -> None:
    # By symmetry P = [[q, 1/2 - q], [1/2 - q, q]] with odds exp(1 / epsilon).
    q = 0.5 / (1.0 + np.exp(-1.0 / epsilon))
    result = sinkhorn([[0.0], [1.0]], [[0.0], [1.0]], epsilon=epsilon, tolerance=1e-13)
    plan = np.array([q, q, 0.5 - q, 0.5 - q])
    value = (1 - 2 * q) + epsilon * float(np.sum(plan * np.log(4 * plan)))
    assert result.transport_cost == pytest.approx(1 - 2 * q, rel=1e-9)
    assert result.value == pytest.approx(value, rel=1e-9)


@given(pair=pairs(largest=10, weights=("zeros",), layouts=("normal",)), share=shares)
def test_points_without_mass_change_nothing_and_get_potentials(pair: Pair, share: float) -> None:
    assert pair.a is not None and pair.b is not None
    rows, cols = pair.a > 0, pair.b > 0
    epsilon = epsilon_of(pair, share, 2)
    whole = entropic(pair, epsilon=epsilon)
    part = sinkhorn(pair.x[rows], pair.y[cols], pair.a[rows], pair.b[cols], epsilon=epsilon)
    assert whole.value == pytest.approx(part.value, rel=1e-9, abs=1e-12)
    assert whole.iterations == part.iterations
    f, g = whole.potentials
    assert np.isfinite(f).all() and np.isfinite(g).all()
    # An idle point's potential is the soft minimum over the masses of the other side.
    costs, (a, b) = pair.costs(2), pair.masses
    soft_f = -epsilon * np.log(np.exp((g - costs) / epsilon) @ b)
    np.testing.assert_allclose(f[~rows], soft_f[~rows], rtol=1e-8, atol=1e-8 * epsilon)
    soft_g = -epsilon * np.log(a @ np.exp((f[:, None] - costs) / epsilon))
    np.testing.assert_allclose(g[~cols], soft_g[~cols], rtol=1e-8, atol=1e-8 * epsilon)


# Settings and status.


def test_the_default_epsilon_is_a_twentieth_of_the_mean_cost() -> None:
    pair = drawn(10, 12, 3, "random")
    a, b = pair.masses
    assert entropic(pair).epsilon == pytest.approx(0.05 * float(a @ pair.costs(2) @ b))
    assert sinkhorn([[1.0]], [[1.0]]).epsilon > 0


def test_a_solve_stopped_early_says_what_was_reached_and_what_to_change() -> None:
    result = entropic(drawn(40, 40, 2, "uniform"), epsilon=1e-3, max_iterations=30)
    assert not result.converged
    assert result.iterations == 30
    assert result.marginal_error > 1e-6
    assert "30 sweeps" in result.status
    assert "raise max_iterations" in result.status


@pytest.mark.parametrize("sweeps", [1, 2, 5])
def test_the_sweeps_are_counted(sweeps: int) -> None:
    result = entropic(drawn(20, 20, 2, "uniform"), epsilon=1e-3, max_iterations=sweeps)
    assert result.iterations == sweeps
    assert not result.converged


def test_a_solve_stopped_while_annealing_states_the_epsilon_of_its_potentials() -> None:
    pair = drawn(20, 20, 2, "uniform")
    early = entropic(pair, epsilon=1e-3, max_iterations=3)
    plan = coupling(early, pair, 2)
    np.testing.assert_allclose(plan.sum(axis=1), pair.masses[0], rtol=1e-9)
    late = entropic(pair, epsilon=early.epsilon, max_iterations=50_000)
    assert early.value <= late.value + 1e-9


def test_a_solve_stopped_while_annealing_gives_the_true_reason() -> None:
    result = sinkhorn(
        [[0.0, 0.0], [1.0, 1.0]], [[0.0, 1.0], [1.0, 1.0]], epsilon=1e-3, max_iterations=3
    )
    assert result.converged == (result.marginal_error < 1e-6)
    assert result.converged or "above" in result.status


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 0.0},
        {"epsilon": -1.0},
        {"epsilon": np.nan},
        {"tolerance": 0.0},
        {"tolerance": np.nan},
        {"max_iterations": 0},
    ],
)
@pytest.mark.parametrize("function", [sinkhorn, sinkhorn_divergence])
def test_options_that_are_not_positive_are_refused(
    function: Callable[..., object], options: dict[str, Any]
) -> None:
    assert_refused(lambda: function([[0.0]], [[1.0]], **options), InputError, "option-epsilon")


@pytest.mark.parametrize("options", [{"epsilon": "small"}, {"max_iterations": 2.5}])
def test_options_of_another_type_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        sinkhorn([[0.0], [1.0]], [[1.0], [3.0]], **options)


def test_the_smallest_epsilon_is_refused_or_solved() -> None:
    x, y = np.array([[0.0], [1.0]]), np.array([[1.0], [3.0]])
    try:
        result = sinkhorn(x, y, epsilon=1e-310)
    except InputError:
        return
    assert np.isfinite(result.value)


def test_a_single_sweep_is_at_the_stated_epsilon() -> None:
    pair = drawn(20, 20, 2, "uniform")
    result = entropic(pair, epsilon=0.1, max_iterations=1)
    plan = coupling(result, pair, 2)
    np.testing.assert_allclose(plan.sum(axis=1), pair.masses[0], rtol=1e-9)
    assert sinkhorn([[0.0]], [[1.0]], max_iterations=1).converged


def test_an_infinite_epsilon_is_refused() -> None:
    assert_refused(
        lambda: sinkhorn([[0.0], [1.0]], [[1.0], [3.0]], epsilon=np.inf),
        InputError,
        "option-epsilon",
    )


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 1e3, 1e6])
def test_units_scale_the_value(scale: float) -> None:
    pair = drawn(15, 17, 3, "random")
    base = entropic(pair)
    for p in ORDERS:
        base = entropic(pair, p=p)
        scaled = sinkhorn(scale * pair.x, scale * pair.y, pair.a, pair.b, p=p)
        assert scaled.value == pytest.approx(scale**p * base.value, rel=1e-9)
        assert scaled.iterations == base.iterations


def test_the_same_arguments_give_the_same_bits() -> None:
    pair = drawn(50, 60, 3, "zeros")
    assert entropic(pair).value == entropic(pair).value


# The debiased divergence.


@orders
@given(cloud=clouds(), share=shares)
def test_a_cloud_is_at_no_divergence_from_itself(
    cloud: tuple[Array, Array | None], share: float, p: int
) -> None:
    points, weights = cloud
    epsilon = share * (float(direct_costs(points, points, p).max()) or 1.0)
    # Zero even when stopped early: the three problems are one.
    for options in ({"epsilon": epsilon}, {}):
        result = sinkhorn_divergence(
            points, points, weights, weights, p=p, max_iterations=100, **options
        )
        assert result.value == 0.0


@orders
@given(cloud=clouds(largest=12), share=st.sampled_from((0.1, 1.0)), seed=seeds)
def test_the_order_of_records_is_no_divergence(
    cloud: tuple[Array, Array | None], share: float, seed: int, p: int
) -> None:
    points, weights = cloud
    order = np.random.default_rng(seed).permutation(len(points))
    largest = float(direct_costs(points, points, p).max()) or 1.0
    result = sinkhorn_divergence(
        points, points[order], weights, None if weights is None else weights[order],
        epsilon=share * largest, p=p, tolerance=1e-10, max_iterations=50_000,
    )  # fmt: skip
    # Sinkhorn may need exp(largest / epsilon) sweeps: what says that it stopped tells nothing.
    assume(result.converged)
    assert 0.0 <= result.value <= 1e-8 * largest


@orders
@settings(max_examples=examples(15))
@given(pair=pairs(**SMALL), share=st.sampled_from((0.2, 1.0)))
def test_the_divergence_is_that_of_pot(pair: Pair, share: float, p: int) -> None:
    epsilon, (a, b) = epsilon_of(pair, share, p), pair.masses
    result = sinkhorn_divergence(
        *pair.arrays, epsilon=epsilon, p=p, tolerance=1e-11, max_iterations=50_000
    )
    known = (
        reference_value(pair.costs(p), a, b, epsilon)
        - 0.5 * reference_value(direct_costs(pair.x, pair.x, p), a, a, epsilon)
        - 0.5 * reference_value(direct_costs(pair.y, pair.y, p), b, b, epsilon)
    )
    assert result.converged
    assert known >= -1e-9 * epsilon
    assert result.value == pytest.approx(known, rel=1e-7, abs=1e-7 * epsilon)


@orders
@given(pair=pairs(**SMALL), share=st.sampled_from((0.2, 1.0, 10.0)))
def test_the_divergence_is_symmetric_and_not_negative(pair: Pair, share: float, p: int) -> None:
    options: dict[str, Any] = {
        "epsilon": epsilon_of(pair, share, p), "p": p, "tolerance": 1e-11,
        "max_iterations": 50_000,
    }  # fmt: skip
    one_way = sinkhorn_divergence(*pair.arrays, **options)
    other_way = sinkhorn_divergence(*pair.swapped().arrays, **options)
    assert one_way.converged and other_way.converged
    assert one_way.value >= 0.0
    size = pair.largest_cost(p) + options["epsilon"]
    assert one_way.value == pytest.approx(other_way.value, rel=1e-7, abs=1e-8 * size)


@given(cloud=clouds(largest=12), share=st.sampled_from((0.1, 1.0, 10.0)), seed=seeds)
def test_a_translation_diverges_by_its_square_at_every_epsilon(
    cloud: tuple[Array, Array | None], share: float, seed: int
) -> None:
    points, weights = cloud
    shift = np.random.default_rng(seed).standard_normal(points.shape[1])
    largest = float(direct_costs(points, points + shift, 2).max())
    result = sinkhorn_divergence(
        points, points + shift, weights, weights, epsilon=share * largest, tolerance=1e-11,
        max_iterations=50_000,
    )  # fmt: skip
    assume(result.converged)  # as above
    assert result.value == pytest.approx(float(shift @ shift), rel=1e-7, abs=1e-8 * largest)


@orders
@given(seed=seeds, d=st.sampled_from((1, 3)), epsilon=st.sampled_from((1e-3, 1.0, 1e3)))
def test_two_points_diverge_by_their_cost(seed: int, d: int, epsilon: float, p: int) -> None:
    x, y = np.random.default_rng(seed).standard_normal((2, 1, d))
    result = sinkhorn_divergence(x, y, epsilon=epsilon, p=p)
    assert result.value == pytest.approx(float(direct_costs(x, y, p)[0, 0]), rel=1e-9)


@orders
def test_the_divergence_tends_to_the_exact_cost(p: int) -> None:
    pair = drawn(20, 25, 2, "random")
    exact, size = exact_cost(pair, p), pair.largest_cost(p)
    errors = []
    for share in (1.0, 0.2, 0.04):
        result = sinkhorn_divergence(
            *pair.arrays, epsilon=share * size, p=p, tolerance=1e-6, max_iterations=20_000
        )
        assert result.converged, result.status
        assert result.epsilon == share * size
        errors.append(abs(result.value - exact))
    assert errors[2] < errors[1] < errors[0]
    assert errors[2] <= 0.04 * size * np.log(25)


@pytest.mark.parametrize("d", [2, 10])
def test_a_divergence_converges_with_default_settings(d: int) -> None:
    for seed in range(3):
        pair = drawn(20, 20, d, "uniform", seed=seed)
        assert sinkhorn_divergence(*pair.arrays).converged


def test_a_divergence_stopped_early_says_so() -> None:
    pair = drawn(40, 40, 2, "uniform")
    result = sinkhorn_divergence(*pair.arrays, epsilon=1e-3, max_iterations=30)
    assert not result.converged
    assert "raise max_iterations" in result.status


# Unbalanced transport.


@orders
@settings(max_examples=examples(15))
@given(
    pair=pairs(**SMALL, weights=("uniform", "random")),
    share=st.sampled_from((0.1, 1.0)),
    penalty=st.sampled_from((0.05, 1.0, 20.0)),
)
def test_the_unbalanced_plan_is_that_of_pot(
    pair: Pair, share: float, penalty: float, p: int
) -> None:
    epsilon, (a, b), costs = epsilon_of(pair, share, p), pair.masses, pair.costs(p)
    rho = penalty * epsilon / share
    result = entropic(
        pair, p=p, epsilon=epsilon, marginal_penalty=rho, tolerance=1e-11, max_iterations=50_000
    )
    assert result.converged, result.status
    f, g = result.potentials
    plan = coupling(result, pair, p)
    known = ot.unbalanced.sinkhorn_unbalanced(
        a, b, costs, epsilon, rho, method="sinkhorn_stabilized", numItermax=100_000, stopThr=1e-13,
        reg_type="kl",
    )  # fmt: skip
    np.testing.assert_allclose(plan, known, rtol=0, atol=1e-7)
    np.testing.assert_allclose(plan.sum(axis=1), a * np.exp(-f / rho), rtol=1e-8, atol=1e-12)
    assert float(np.abs(plan.sum(axis=0) - b * np.exp(-g / rho)).sum()) < 1e-10
    # The primal value, with the masses that KL compares.
    primal = result.transport_cost + epsilon * divergence(plan, a[:, None] * b)
    primal += rho * (divergence(plan.sum(axis=1), a) + divergence(plan.sum(axis=0), b))
    assert result.value == pytest.approx(primal, rel=1e-8, abs=1e-9 * (epsilon + rho))


def divergence(one: Array, other: Array) -> float:
    """KL of masses of any sum."""
    used = one > 0
    logs = float(np.sum(one[used] * np.log(one[used] / other[used])))
    return logs - float(one.sum()) + float(other.sum())


def test_a_large_penalty_keeps_the_marginals_and_a_small_one_moves_nothing() -> None:
    pair = drawn(20, 25, 2, "zeros")
    kept = entropic(pair, epsilon=0.3)
    assert entropic(pair, epsilon=0.3, marginal_penalty=1e7).value == pytest.approx(kept.value)
    loose = entropic(pair, epsilon=0.3, marginal_penalty=1e-3)
    assert coupling(loose, pair, 2).sum() < 0.5
    assert loose.value < kept.value
    f, g = loose.potentials
    assert np.isfinite(f).all() and np.isfinite(g).all()


def test_a_penalty_that_is_not_positive_is_refused() -> None:
    for penalty in (0.0, -1.0, np.nan, np.inf):
        assert_refused(
            lambda penalty=penalty: sinkhorn([[0.0]], [[1.0]], marginal_penalty=penalty),
            InputError,
            "option-epsilon",
        )


# Both paths: compiled kernels and numpy.


@orders
@given(pair=pairs(**SMALL), share=shares)
def test_the_pure_path_gives_the_same_plan(pair: Pair, share: float, p: int) -> None:
    options: dict[str, Any] = {"p": p, "epsilon": epsilon_of(pair, share, p), "tolerance": 1e-9}
    fast = entropic(pair, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_native, "kernels", None)
        pure = entropic(pair, **options)
    assert fast.converged == pure.converged
    size = pair.largest_cost(p) + fast.epsilon
    assert fast.value == pytest.approx(pure.value, rel=1e-9, abs=1e-8 * size)
    np.testing.assert_allclose(coupling(fast, pair, p), coupling(pure, pair, p), rtol=0, atol=1e-7)


@pytest.mark.parametrize("share", [1e-4, 1e-2, 1.0])
def test_a_start_in_single_precision_ends_in_double(share: float) -> None:
    pair = drawn(300, 320, 2, "random")
    epsilon = epsilon_of(pair, share, 2)
    result = entropic(pair, epsilon=epsilon, tolerance=1e-10, max_iterations=2000)
    a, b = pair.masses
    plan = coupling(result, pair, 2)
    error = float(np.abs(plan.sum(axis=0) - b).sum())
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=1e-9)
    # The exponents of a small epsilon have rounding of their own.
    assert error == pytest.approx(result.marginal_error, rel=1e-3, abs=1e-14 / share)
    assert result.converged == (result.marginal_error < 1e-10)
    assert result.converged or share == 1e-4


def test_extrapolation_saves_most_of_the_sweeps() -> None:
    # Plain sweeps need 1,500 here and more: the rate is that of the second largest eigenvalue.
    # Whether an extrapolation is given up hangs on the last digit of a sum: hence the median.
    sweeps = []
    for size in range(190, 226, 4):
        pair = drawn(size, size + 10, 2, "random")
        result = entropic(pair, epsilon=0.005 * float(pair.costs(2).mean()))
        assert result.converged
        sweeps.append(result.iterations)
    assert np.median(sweeps) <= 200


def hard(kind: str, weighted: bool, n: int = 300) -> Pair:
    """Clouds whose plain sweeps take tens of thousands: far values, or clusters of unlike mass."""
    rng = np.random.default_rng(3)
    if kind == "heavy":
        x, y = rng.standard_t(1.5, size=(n, 2)), rng.standard_t(1.5, size=(n + 7, 2)) + 0.5
    else:
        centres = 8.0 * rng.normal(size=(8, 16))
        x, y = (
            centres[rng.integers(8, size=k)] + 0.3 * rng.normal(size=(k, 16)) for k in (n, n + 7)
        )
    a, b = (rng.random(k) + 0.1 if weighted else None for k in (n, n + 7))
    return Pair(kind, x, y, a, b)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("kind", ["heavy", "clusters"])
@pytest.mark.parametrize("share", [0.02, 0.001])
def test_hard_problems_converge_in_few_passes(kind: str, share: float, weighted: bool) -> None:
    pair = hard(kind, weighted)
    a, b = pair.masses
    epsilon = share * float(a @ pair.costs(2) @ b)
    # Without kernels there is no start from exact transport.
    most = 50_000 if _native.kernels is None else 5000
    result = entropic(pair, epsilon=epsilon, max_iterations=most)
    assert result.converged
    if _native.kernels is not None:
        assert result.iterations < 2000
    plan = coupling(result, pair, 2)
    np.testing.assert_allclose(plan.sum(axis=1), a, rtol=1e-6)
    assert np.abs(plan.sum(axis=0) - b).sum() < 2e-6
    assert result.transport_cost >= exact_plan(*pair.arrays).cost * (1.0 - 1e-6)


@pytest.mark.parametrize("kind", ["heavy", "clusters"])
def test_newton_steps_solve_penalised_marginals_too(kind: str) -> None:
    pair = hard(kind, True)
    a, b = pair.masses
    mean = float(a @ pair.costs(2) @ b)
    result = entropic(pair, epsilon=0.002 * mean, marginal_penalty=5.0 * mean, tolerance=1e-9)
    assert result.converged
    f, g = result.potentials
    plan = coupling(result, pair, 2)
    # Optimality: each marginal is what its penalty asks for at these potentials.
    np.testing.assert_allclose(plan.sum(axis=1), a * np.exp(-f / (5.0 * mean)), rtol=1e-6)
    np.testing.assert_allclose(plan.sum(axis=0), b * np.exp(-g / (5.0 * mean)), atol=1e-8)


@pytest.mark.parametrize("most", [64, 80, 101, 150])
def test_newton_steps_keep_within_the_passes(most: int) -> None:
    pair = hard("clusters", True, 120)
    a, b = pair.masses
    epsilon = 0.002 * float(a @ pair.costs(2) @ b)
    assert entropic(pair, epsilon=epsilon, tolerance=1e-12, max_iterations=most).iterations <= most


@pytest.mark.parametrize("scale", [1e-100, 1e80, 1e140])
def test_costs_near_the_ends_of_the_range_are_scaled(scale: float) -> None:
    pair = hard("heavy", True, 60)
    epsilon = 0.01 * float(pair.costs(2).mean())
    plain = entropic(pair, epsilon=epsilon)
    scaled = sinkhorn(scale * pair.x, scale * pair.y, *pair.masses, epsilon=epsilon * scale**2)
    assert scaled.value / scale**2 == pytest.approx(plain.value, rel=1e-5)
