"""Damaged inputs of every reader: read, or refused with a code. `SILOT_MUTATIONS` of them each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="what sites read needs silot[nvflare]")
pytestmark = pytest.mark.slow


def test_nothing_that_is_read_fails_without_a_code() -> None:
    """In a process of its own: native code may end it, or ask for all memory."""
    count = os.environ.get("SILOT_MUTATIONS", "150")
    words = [sys.executable, "-m", "tests.mutating", count, os.environ.get("SILOT_SEED", "7")]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[1]
    )
    assert done.returncode == 0, done.stderr[-3000:]
    report = json.loads(done.stdout)
    faults = {name: entry["faults"] for name, entry in report.items() if entry["faults"]}
    assert not faults, (faults, done.stderr[-3000:])
    # Some damage cannot be seen, most can, and readers say what they see.
    codes = Counter[str]()
    for entry in report.values():
        codes.update(entry["codes"])
    assert 0 < codes["read"] < 0.5 * codes.total() and len(codes) > 20
