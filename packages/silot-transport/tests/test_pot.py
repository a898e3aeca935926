"""POT where it is installed: its compiled solver alone, while all else of POT stays its user's.

Without it answers are the same: the shipping kernel takes all masses, and HiGHS where no kernels
are compiled.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from silot_transport import ExactPlan, _native, _pot, exact_plan, plan_from_cost
from tests.problems import (
    Problem,
    assert_certified,
    assert_cost,
    integer_cost,
    known_problems,
    seeds,
)


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_solver_alone_says_what_pot_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random(rng.integers(1, 40)) + 0.01, rng.random(rng.integers(1, 40)) + 0.01
    a, b = a / a.sum(), b / b.sum()
    cost = rng.random((len(a), len(b)))
    assert _pot._simplex() is not _pot._solve_by_all_of_pot
    for matrix in (cost, sparse.coo_matrix(cost)):
        plan, f, g, code = _pot.network_simplex(a, b, matrix, 10**9)
        by_pot, f_pot, g_pot, code_pot = _pot._solve_by_all_of_pot(a, b, matrix, 10**9)
        assert code == code_pot == _pot.OPTIMAL
        difference = abs(plan - by_pot)
        assert difference.max() == 0.0
        np.testing.assert_allclose((*f, *g), (*f_pot, *g_pot), rtol=0, atol=1e-15)


def run(lines: str) -> str:
    """What a process prints that solves without compiled kernels."""
    done = subprocess.run(
        [sys.executable, "-c", lines],
        capture_output=True, text=True, timeout=1200, env={**os.environ, "SILOT_KERNELS": "pure"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


SOLVE = """
import sys
import numpy as np
from silot_transport import exact_plan
x = np.random.default_rng(0).normal(size=(7, 2))
assert exact_plan(x, x[:5]).cost > 0
"""


@pytest.mark.heavy
def test_another_version_of_pot_is_called_as_a_package() -> None:
    run(
        "from silot_transport import _pot\n"
        "_pot._COMPILED = 'ot.lp.moved'\n" + SOLVE + "assert 'ot' in sys.modules"
    )


@pytest.mark.heavy
def test_pot_takes_tensors_after_its_solver_was_loaded_alone() -> None:
    pytest.importorskip("torch")
    run(
        SOLVE + "assert not {'ot', 'torch'} & set(sys.modules)\n"
        "import ot, torch\n"
        "half = torch.full((2,), 0.5, dtype=torch.float64)\n"
        "cost = torch.tensor([[0.0, 2.0], [2.0, 1.0]], dtype=torch.float64, requires_grad=True)\n"
        "ot.emd2(half, half, cost).backward()\n"
        "assert cost.grad.tolist() == [[0.5, 0.0], [0.0, 0.5]]\n"
        "line = torch.arange(3.0)\n"
        "assert ot.emd2_1d(line, line + 2, metric='euclidean') == 2\n"
        "assert exact_plan(x, x[:5]).cost > 0"
    )


@pytest.mark.heavy
def test_its_solver_works_after_pot_was_loaded() -> None:
    run("import ot\n" + SOLVE)


_AT_ONCE = """
import sys, threading
import numpy as np
from silot_transport import exact_plan
from silot_transport._pot import importing
x = np.random.default_rng(0).normal(size=(20, 2))
start = threading.Barrier(8)
def solve():
    start.wait()
    exact_plan(x, x[:13] + 1.0)
threads = [threading.Thread(target=solve) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(importing), "torch" in sys.modules)
"""


def test_threads_that_solve_first_load_one_solver_and_count_its_time_once() -> None:
    assert run(_AT_ONCE).split() == ["1", "False"]


# Without POT.


@pytest.fixture(params=["kernels", "highs"], scope="module")
def without_pot(request: pytest.FixtureRequest) -> Iterator[str]:
    """POT is not installed; with kernels, and without."""
    if request.param == "kernels" and _native.kernels is None:
        pytest.skip(f"no compiled kernels: {_native.missing}")
    with pytest.MonkeyPatch.context() as patch:
        # As an installation without POT answers, for every name of it.
        for name in ("ot", _pot._COMPILED):
            patch.setitem(sys.modules, name, None)
        patch.setattr(_pot, "find_spec", lambda name: None)
        _pot._load.cache_clear()
        _pot.is_installed.cache_clear()
        if request.param == "highs":
            patch.setattr(_native, "kernels", None)
        yield request.param
    _pot._load.cache_clear()
    _pot.is_installed.cache_clear()


@settings(max_examples=100)
@given(problem=known_problems())
def test_known_distances_need_no_pot(without_pot: str, problem: Problem) -> None:
    result = exact_plan(*problem.arrays, p=problem.p)
    assert_certified(result, problem, problem.p)
    assert_cost(result.cost, problem.cost, problem.largest_cost(problem.p))


@given(n=st.integers(2, 12), m=st.integers(2, 12), seed=seeds, ties=st.booleans())
def test_any_costs_and_masses_need_no_pot(
    without_pot: str, n: int, m: int, seed: int, ties: bool
) -> None:
    # Sums of integers are exact, and so is a division by 256: the oracle rounds nothing.
    rng = np.random.default_rng(seed)
    k, l = (1 + rng.multinomial(256 - size, rng.dirichlet(np.ones(size))) for size in (n, m))
    cost = rng.integers(0, 3 if ties else 1000, (n, m)).astype(float)
    result = plan_from_cost(cost, k / 256, l / 256)
    exact = integer_cost(cost, k, l)
    assert result.optimal
    assert result.cost == pytest.approx(exact, rel=1e-10, abs=1e-10)
    assert result.lower_cost <= exact * (1 + 1e-12) and exact <= result.upper_cost * (1 + 1e-12)


def _blocks(n: int, m: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, float]:
    """Clouds around the corners of a large simplex: the optimum is that of each corner, on a line.

    Corners have one mass on both sides, and a corner's records differ in one coordinate, where
    sorting is exact.
    """
    rng = np.random.default_rng(n)
    corners = 3
    labels = [np.sort(rng.integers(0, corners, size)) for size in (n, m)]
    weights = []
    for own in labels:
        w = rng.random(len(own)) + 0.1
        weights.append(w / np.bincount(own, w)[own] / corners)
    places = [rng.normal(size=len(own)) for own in labels]
    clouds = [np.hstack([place[:, None], 1e3 * np.eye(corners)[own]])
              for place, own in zip(places, labels, strict=True)]  # fmt: skip
    cost = sum(
        exact_plan(*(p[own == corner][:, None] for p, own in zip(places, labels, strict=True)),
                   *(w[own == corner] for w, own in zip(weights, labels, strict=True))).cost
        for corner in range(corners)
    ) / corners  # fmt: skip
    return *clouds, *weights, float(cost)


@pytest.mark.heavy
def test_masses_that_pot_would_take_are_solved_without_it(without_pot: str) -> None:
    # More points than the shipping kernel takes where POT is installed.
    n, m = (1100, 1050) if without_pot == "kernels" else (110, 105)
    x, y, a, b, cost = _blocks(n, m)
    plan = exact_plan(x, y, a, b)
    assert plan.optimal
    assert plan.solver == ("shortest paths" if without_pot == "kernels" else "network simplex")
    assert plan.cost == pytest.approx(cost, rel=1e-7)
    assert plan.lower_cost <= cost * (1 + 1e-9) and cost <= plan.upper_cost * (1 + 1e-9)


def test_a_solver_that_stops_early_is_not_called_optimal(without_pot: str) -> None:
    rng = np.random.default_rng(0)
    a, b = rng.dirichlet(np.ones(12)), rng.dirichlet(np.ones(13))
    cost = rng.random((12, 13))
    for matrix in (cost, sparse.coo_matrix(cost)):
        plan, _, _, code = _pot._solve_by_highs(a, b, matrix, 1)
        assert code != _pot.OPTIMAL
        assert plan.shape == cost.shape and abs(plan).sum() == 0.0


def test_the_fixture_hides_pot(without_pot: str) -> None:
    assert not _pot.is_installed()
    assert _pot._simplex() is _pot._solve_by_highs
    with pytest.raises(ImportError):
        import ot  # noqa: F401
    assert isinstance(exact_plan([[0.0, 1.0]], [[2.0, 1.0]]), ExactPlan)
