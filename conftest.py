"""What every test of the repository shares: the tiers, and a folder of its own for states."""

import atexit
import os
import shutil
import tempfile

pytest_plugins = ["tests.tiers"]

# Heads of the ledgers that tests write; processes that they start use the same.
os.environ["SILOT_STATE"] = tempfile.mkdtemp(prefix="silot-state-")
atexit.register(shutil.rmtree, os.environ["SILOT_STATE"], ignore_errors=True)
