"""Too large for memory is said before anything is allocated, in Python and on the command line."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from silot import LocalFederation, Measure
from silot.distances.trianglewad import trianglewad
from silot.errors import HolderError, InputError, MemoryShortError
from silot_transport import cost_matrix, exact_plan, forecast, memory, sinkhorn

X = np.random.default_rng(0).normal(size=(2500, 2))


def test_a_forecast_counts_the_costs_and_what_stands_beside_them() -> None:
    found = forecast(20_000, 30_000, 64)
    assert found.cost_bytes == 8 * 20_000 * 30_000
    assert 1.2 * found.cost_bytes <= found.peak_bytes <= 1.5 * found.cost_bytes
    assert found.fits == (found.peak_bytes <= found.available_bytes)
    assert memory.available() > 0
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(InputError):
            forecast(wrong, 3, 2)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    for call in (
        lambda: exact_plan(X, X + 1),
        lambda: cost_matrix(X, X),
        lambda: sinkhorn(X, X + 1, epsilon=0.1),
    ):
        with pytest.raises(MemoryShortError, match="2500 x 2500") as caught:
            call()
        assert (caught.value.code, caught.value.exit_status) == ("memory-short", 11)
        assert isinstance(caught.value, MemoryError)
    # A holder's own lack of memory is told by code.
    fed = LocalFederation({"a": Measure(X), "b": Measure(X[:3])})
    with pytest.raises(HolderError, match="memory-short"):
        fed.run(trianglewad("a", "b", support=2500))


def test_the_command_line_says_it_in_a_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", X=rng.normal(size=(12_000, 3)))
    # In the child, not between fork and exec: other libraries of this process have threads.
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_AS, (1_000_000_000,) * 2); "
        "from silot.cli import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, "distance", "a.npz", "b.npz"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        # With compiled kernels there would be bounds.
        env=os.environ | {"SILOT_KERNELS": "pure"},
    )
    assert (done.returncode, done.stdout) == (11, "")
    assert done.stderr.startswith("error: [memory-short]")
    assert len(done.stderr.splitlines()) == 1
