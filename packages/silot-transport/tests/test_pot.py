"""POT's compiled solver alone: the answers of all of POT, whose user keeps what POT does."""

import os
import subprocess
import sys

import numpy as np
import pytest
from scipy import sparse

from silot_transport import _pot


@pytest.mark.parametrize("seed", range(20))
def test_the_compiled_solver_alone_says_what_pot_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    a, b = rng.random(rng.integers(1, 40)) + 0.01, rng.random(rng.integers(1, 40)) + 0.01
    a, b = a / a.sum(), b / b.sum()
    cost = rng.random((len(a), len(b)))
    assert _pot._simplex() is not _pot._whole
    for given in (cost, sparse.coo_matrix(cost)):
        plan, f, g, code = _pot.network_simplex(a, b, given, 10**9)
        whole, f_whole, g_whole, code_whole = _pot._whole(a, b, given, 10**9)
        assert code == code_whole == _pot.OPTIMAL
        difference = abs(plan - whole)
        assert difference.max() == 0.0
        np.testing.assert_allclose((*f, *g), (*f_whole, *g_whole), rtol=0, atol=1e-15)


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
import silot
x = np.random.default_rng(0).normal(size=(7, 2))
assert silot.distance(x, x[:5]).value > 0
"""


def test_another_version_of_pot_is_asked_as_a_whole() -> None:
    run(
        "from silot_transport import _pot\n"
        "_pot._COMPILED = 'ot.lp.moved'\n" + SOLVE + "assert 'ot' in sys.modules"
    )


def test_pot_takes_tensors_after_silot_solved() -> None:
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
        "assert silot.distance(x, x[:5]).value > 0"
    )


def test_silot_solves_after_pot_was_loaded() -> None:
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
