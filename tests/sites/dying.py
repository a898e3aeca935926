"""Who asks as a process of its own, which kills itself at a message of its run.

``python -m tests.sites.dying KIT COMPUTATION SEED INDEX before|after`` prints the name of the run.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from itertools import count
from typing import Any

import silot
from silot.sites.flare import Wire


def main() -> None:
    from .test_faults import NAMES, RUNS

    kit, name, seed, index, point = sys.argv[1:]
    through, sent, lock = Wire.__call__, count(1), threading.Lock()

    def carried(self: Wire, *message: Any) -> bytes:
        with lock:
            dies = next(sent) == int(index)
        if dies and point == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        reply = through(self, *message)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return reply

    Wire.__call__ = carried
    with silot.connect(kit, NAMES) as sites:
        print(sites.run_id, flush=True)
        RUNS[name](sites, int(seed))


if __name__ == "__main__":
    main()
