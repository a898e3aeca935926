"""Sites as processes, and who asks as another one: what it holds in memory.

``python -m tests.sites.sizing KIT ROUNDS SITE...`` asks each site for its records so many times in
one run, after a first run that has all loaded, and prints what it held and how long it took as
JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

import silot
from silot.distances.questions import Describe, Records
from silot.federation.answer import Answer
from silot.federation.disclosure import Disclosure
from silot.federation.protocol import Protocol, Steps, required

from .deployment import ASKER, Deployment


@dataclass(frozen=True)
class Told:
    """What came back in a run: bytes of arrays, and how many answers."""

    size: int
    answers: int
    cost: Any = None

    def with_run(self, run: Any) -> Self:
        return type(self)(self.size, self.answers, run)


def asking(names: tuple[str, ...], rounds: int, question: Any) -> Protocol[Told]:
    def start() -> Steps[Told]:
        size = answers = 0
        for _ in range(rounds):
            told = yield dict.fromkeys(names, question)
            for name in names:
                answer = required(told, name)
                size += sum(array.nbytes for array in answer.arrays.values())
                answers += isinstance(answer, Answer)
            del told, answer
        return Told(size, answers)

    return Protocol("asking", names, Disclosure.RECORD, start, {}, rounds)


@contextmanager
def deployed(
    sites: int, records: int, dimension: int, kinds: Mapping[str, str] | None = None,
    askers: Sequence[str] = (ASKER,),
) -> Iterator[Deployment]:  # fmt: skip
    """Sites of normal records, and a server, with components of other ``kinds``."""
    with tempfile.TemporaryDirectory() as name, _state(Path(name) / "state"):
        folder = Path(name)
        data: dict[str, Path] = {}
        policies: dict[str, Path] = {}
        for k in range(sites):
            site = f"s{k}"
            data[site], policies[site] = folder / f"{site}.npz", folder / f"{site}.json"
            np.savez(data[site], X=np.random.default_rng(k).normal(size=(records, dimension)))
            policies[site].write_text(json.dumps({"level": "record", "privacy_epsilon": 1.0}))
        there = Deployment(folder, data, policies, askers=askers)
        for kit in (there.server, *(there.kits[site] for site in data)) if kinds else ():
            file = kit.folder / "local/resources.json"
            body = json.loads(file.read_text())
            kind = (kinds or {})["server" if kit is there.server else "site"]
            body["components"][0]["path"], body["class_allow_list"] = kind, [kind]
            file.write_text(json.dumps(body))
        try:
            there.start("server", *data)
            there.ready(seconds=300.0)
            yield there
        finally:
            there.close()


@contextmanager
def _state(folder: Path) -> Iterator[None]:
    before = os.environ.get("SILOT_STATE")
    os.environ["SILOT_STATE"] = str(folder)
    try:
        yield
    finally:
        del os.environ["SILOT_STATE"]
        os.environ |= {} if before is None else {"SILOT_STATE": before}


def sized(sites: int, records: int, dimension: int, rounds: int) -> dict[str, Any]:
    """What was told in a run and how many answers, and bytes that who asked held and kept."""
    with deployed(sites, records, dimension) as there:
        return size_all(there, [ASKER], rounds)[0]


def size_all(there: Deployment, askers: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """Have askers ask at the same time, each a process; return what each printed."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.sites.sizing", str(there.kits[name].folder), str(rounds),
             *there.project.sites],
            stdout=subprocess.PIPE, text=True,
        )
        for name in askers
    ]  # fmt: skip
    texts = [process.communicate()[0] for process in processes]
    assert not any(process.returncode for process in processes)
    return [json.loads(text) for text in texts]


def memory(field: str) -> int:
    """Bytes of ``VmRSS`` or ``VmHWM``."""
    lines = Path("/proc/self/status").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"{field}:")]
    return int(line.split()[1]) * 1024


def main() -> None:
    kit, rounds, *names = sys.argv[1:]
    with silot.connect(kit, names) as sites:
        sites.run(asking(tuple(names), 50, Describe(embedding="none")))
        before = memory("VmRSS")
        # The peak counts from here.
        Path("/proc/self/clear_refs").write_text("5")
        began = time.perf_counter()
        told = sites.run(asking(tuple(names), int(rounds), Records(embedding="none")))
        seconds = time.perf_counter() - began
        peak = memory("VmHWM") - before
        kept = memory("VmRSS") - before
    body = {"size": told.size, "answers": told.answers, "peak": peak, "kept": kept}
    print(json.dumps({**body, "seconds": seconds}))


if __name__ == "__main__":
    main()
