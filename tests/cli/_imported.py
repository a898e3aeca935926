"""What the process that commands are forked from has imported."""

import os
from contextlib import suppress
from importlib import import_module

from tests.cli.running import TERMINAL

os.environ.update(TERMINAL)

from silot.cli.app import build
from tests.calibrations import share_calibrations

build()
share_calibrations()
# Commands import these when they need them, which takes one to four seconds in each process.
# polars, and opendp with it, start threads of their own, which a fork would lose.
for name in (
    "matplotlib.backends.backend_svg",
    "matplotlib.figure",
    "scipy.stats",
    "sklearn.ensemble",
    "sklearn.linear_model",
    "torch._dynamo",
):
    with suppress(ImportError):
        import_module(name)
