"""What every test of the repository shares: the tiers, and a folder of its own for states."""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

import pytest

pytest_plugins = ["tests.tiers"]

# Heads of the ledgers that tests write; processes that they start use the same.
os.environ["SILOT_STATE"] = tempfile.mkdtemp(prefix="silot-state-")
atexit.register(shutil.rmtree, os.environ["SILOT_STATE"], ignore_errors=True)


@pytest.fixture(autouse=True)
def _forget_people() -> None:
    """Forget whose records earlier tests registered: they use the same tables again and again."""
    for name in ("people.sqlite", "people.sqlite-wal", "people.sqlite-shm"):
        Path(os.environ["SILOT_STATE"], name).unlink(missing_ok=True)
