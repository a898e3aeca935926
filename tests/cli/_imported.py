"""What the process that commands are forked from has imported."""

import os

from tests.cli.running import TERMINAL

os.environ.update(TERMINAL)

from silot.cli.app import build
from tests.calibrations import share_calibrations

build("all")
share_calibrations()
