"""Sites behind NVFlare: a round trip next to the engine's own, analysts at once, large answers.

Needs ``silot[nvflare]``.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from nvflare.fuel.f3.cellnet.utils import new_cell_message

import silot
from evidence.common import Context
from evidence.speed._timing import show
from silot.distances.questions import Describe, Records
from silot.render.words import format_bytes
from silot.sites.engine import CHANNEL
from silot.sites.flare import Wire
from tests.sites.deployment import ASKER, Deployment
from tests.sites.sizing import asking, deployed, size_all, sized

from ._echo import RELAY, TIME

ROUNDS, BLOCKS = 20, 7
ANALYSTS = (ASKER, *(f"a{number}@example.org" for number in range(1, 5)))
KINDS = {"server": "evidence.speed._echo.EchoAtServer", "site": "evidence.speed._echo.EchoAtSite"}
PARTS = ("asker", "server", "sites")
QUICK = {"ROUNDS": 2, "BLOCKS": 1}


def run(context: Context) -> None:
    del context
    with deployed(3, 5000, 5, KINDS, ANALYSTS) as there:
        _round_trips(there, 200_000, ROUNDS, BLOCKS)
        _starts(there)
        _analysts(there)
    with deployed(1, 125_000, 100, KINDS) as there:
        _round_trips(there, 100_000_000, 2, BLOCKS)
    rows = [("100 MB", *_row(1, 125_000, 100, 1)), ("20 x 1000 answers", *_row(20, 50, 2, 1000))]
    show("memory of who asks", ("", "answers", "arrays", "peak", "kept", "s", "s with start"), rows)


def _round_trips(there: Deployment, size: int, rounds: int, blocks: int) -> None:
    """Compare rounds of silot with the engine's own messages from the server, and the asker."""
    names = there.project.sites
    processes = {"asker": os.getpid(), **{name: p.pid for name, p in there.processes.items()}}
    with silot.connect(there.kits[ASKER].folder) as sites, ThreadPoolExecutor(len(names)) as pool:
        wire: Any = sites._wire
        assert isinstance(wire, Wire)
        cell = wire.connect(10.0)

        def send(topic: str, body: Mapping[str, Any]) -> bytes:
            reply = cell.send_request(
                channel=CHANNEL, topic=topic, target="server", timeout=300.0,
                request=new_cell_message({}, json.dumps(body).encode()),
            )  # fmt: skip
            return bytes(reply.payload)

        def hop() -> list[float]:
            return json.loads(send(TIME, {"names": names, "size": size, "rounds": rounds}))

        def relay(name: str) -> int:
            return len(send(RELAY, {"name": name, "size": size}))

        def way() -> list[float]:
            seconds: list[float] = []
            for _ in range(rounds):
                began = time.perf_counter()
                assert set(pool.map(relay, names)) == {size}
                seconds.append(time.perf_counter() - began)
            return seconds

        def ours() -> list[float]:
            began = time.perf_counter()
            sites.run(asking(names, rounds, Records(embedding="none")))
            return [(time.perf_counter() - began) / rounds]

        kinds = {
            "NVFlare alone, server to sites": hop,
            "NVFlare alone, asker to sites": way,
            "silot, asker to sites": ours,
        }
        walls = {kind: list[float]() for kind in kinds}
        spent = {kind: dict.fromkeys(PARTS, 0.0) for kind in kinds}
        ours()
        # In turns: what else the machine does meets all.
        for _ in range(blocks):
            for kind, work in kinds.items():
                before = {name: _cpu_seconds(pid) for name, pid in processes.items()}
                walls[kind] += work()
                for name, pid in processes.items():
                    part = name if name in ("asker", "server") else "sites"
                    spent[kind][part] += _cpu_seconds(pid) - before[name]
    medians = {kind: statistics.median(seconds) for kind, seconds in walls.items()}
    rows = [
        (
            kind, f"{1e3 * medians[kind]:.1f}",
            *(f"{medians[kind] / medians[bare]:.2f}" for bare in list(kinds)[:2]),
            *(f"{1e3 * spent[kind][part] / (rounds * blocks):.1f}" for part in PARTS),
        )
        for kind in kinds
    ]  # fmt: skip
    show(
        f"{format_bytes(size)} from each of {len(names)} sites, load {os.getloadavg()[0]:.1f}",
        ("", "ms", "to server alone", "to asker alone", *(f"ms CPU {part}" for part in PARTS)),
        rows,
    )


def _cpu_seconds(process: int) -> float:
    """Return the seconds that a process computed, in its own code and in the kernel."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")


def _starts(there: Deployment) -> None:
    starts: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        with silot.connect(there.kits[ASKER].folder) as sites:
            sites.run(asking(there.project.sites, 1, Describe(embedding="none")))
            starts.append(time.perf_counter() - began)
    median = ("median of 5", f"{statistics.median(starts):.2f}")
    show("a run until its first answers", ("", "s"), [median])


def _analysts(there: Deployment) -> None:
    rows = list[tuple[str, str, str]]()
    for askers in (ANALYSTS[:1], ANALYSTS):
        seconds = [each["seconds"] for each in size_all(there, askers, 5 * ROUNDS)]
        total = len(askers) * 5 * ROUNDS / max(seconds)
        each = statistics.median(seconds) / (5 * ROUNDS)
        rows.append((str(len(askers)), f"{1e3 * each:.1f}", f"{total:.1f}"))
    show("analysts at once, 200 kB from each of 3 sites", ("", "ms a round", "rounds a s"), rows)


def _row(sites: int, records: int, dimension: int, rounds: int) -> tuple[str, ...]:
    began = time.perf_counter()
    told = sized(sites, records, dimension, rounds)
    sizes = [format_bytes(told[key]) for key in ("size", "peak", "kept")]
    whole = time.perf_counter() - began
    return (str(told["answers"]), *sizes, f"{told['seconds']:.1f}", f"{whole:.0f}")
