"""Distances of problems that do not fit into memory: bounds with kernels, else one coded line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import silot
from silot import Measure
from silot.distances.trianglewad import trianglewad
from silot.errors import HolderError, MemoryShortError
from silot.federation import LocalFederation
from silot_transport import _native, memory


@pytest.mark.skipif(_native.kernels is None, reason="the kernels are not compiled")
def test_distances_beyond_memory_are_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = (np.random.default_rng(seed).normal(size=(2100, 8)) for seed in (1, 2))
    exact = silot.distance(x, y, method="direct")
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    found = silot.distance(x, y, method="direct")
    assert found.lower <= exact.value <= found.upper <= 1.01 * found.lower
    assert found.status.startswith(("certified: within", "converged"))
    assert found.converged
    monkeypatch.setattr(_native, "kernels", None)
    with pytest.raises(MemoryShortError):
        silot.distance(x, y, method="direct")


def test_lack_of_memory_at_a_holder_is_reported_by_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    x = np.random.default_rng(0).normal(size=(2500, 2))
    fed = LocalFederation({"a": Measure(x), "b": Measure(x[:3])})
    with pytest.raises(HolderError, match="memory-short"):
        fed.run(trianglewad("a", "b", support=2500))


@pytest.mark.heavy
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
