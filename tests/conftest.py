"""No test measures time, for a busy machine must not fail one; the same examples every time."""

import atexit
import os
import shutil
import tempfile

from hypothesis import settings

settings.register_profile("silot", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("silot")

# Heads of the ledgers that tests make; processes that they start use the same.
os.environ["SILOT_STATE"] = tempfile.mkdtemp(prefix="silot-state-")
atexit.register(shutil.rmtree, os.environ["SILOT_STATE"], ignore_errors=True)
