"""Sites behind NVFlare: a round trip next to the engine's own, a second run, large answers, many.

Needs ``silot[nvflare]``.
"""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

from nvflare.fuel.f3.cellnet.utils import new_cell_message

import silot
from evidence.common import Context
from evidence.speed._timing import show
from silot.distances.questions.distances import Describe, Records
from silot.render.words import format_bytes
from silot.sites.engine import CHANNEL
from silot.sites.flare import Wire
from tests.sites.deployment import ASKER, Deployment
from tests.sites.sizing import asking, deployed, sized

from ._echo import TIME

ROUNDS, BLOCKS = 20, 7
KINDS = {"server": "evidence.speed._echo.EchoAtServer", "site": "evidence.speed._echo.EchoAtSite"}


def run(context: Context) -> None:
    """Print the tables."""
    del context
    with deployed(3, 5000, 5, KINDS) as there:
        _round_trips(there)
    rows = [
        ("100 MB", *_row(1, 125_000, 100, 1)),
        ("20 x 1000 answers", *_row(20, 50, 2, 1000)),
    ]
    show("memory of who asks", ("", "answers", "arrays", "peak", "kept", "s"), rows)


def _round_trips(there: Deployment) -> None:
    names = there.project.sites
    with silot.connect(there.kits[ASKER].folder) as sites:
        wire: Any = sites._wire
        assert isinstance(wire, Wire)
        body = json.dumps({"names": names, "size": 200_000, "rounds": ROUNDS}).encode()
        bare: list[float] = []
        ours: list[float] = []
        sites.run(asking(names, ROUNDS, Records(embedding="none")))
        # In turns: what else the machine does meets both.
        for _ in range(BLOCKS):
            reply = wire.connect(10.0).send_request(
                channel=CHANNEL, topic=TIME, target="server", timeout=120.0,
                request=new_cell_message({}, body),
            )  # fmt: skip
            bare += json.loads(bytes(reply.payload))
            began = time.perf_counter()
            sites.run(asking(names, ROUNDS, Records(embedding="none")))
            ours.append((time.perf_counter() - began) / ROUNDS)
    ratio = statistics.median(ours) / statistics.median(bare)
    rows = [
        ("NVFlare alone, server to sites", f"{1e3 * statistics.median(bare):.1f}", "1"),
        ("silot, asker to sites", f"{1e3 * statistics.median(ours):.1f}", f"{ratio:.2f}"),
    ]
    show("200 kB from each of 3 sites", ("", "ms", "ratio"), rows)
    starts: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        with silot.connect(there.kits[ASKER].folder) as sites:
            sites.run(asking(names, 1, Describe(embedding="none")))
            starts.append(time.perf_counter() - began)
    show(
        "a run until its first answers",
        ("", "s"),
        [("median of 5", f"{statistics.median(starts):.2f}")],
    )


def _row(sites: int, records: int, dimension: int, rounds: int) -> tuple[str, ...]:
    began = time.perf_counter()
    told = sized(sites, records, dimension, rounds)
    sizes = [format_bytes(told[key]) for key in ("size", "peak", "kept")]
    return (str(told["answers"]), *sizes, f"{time.perf_counter() - began:.0f}")
