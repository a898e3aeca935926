"""Whether every party of a secure distance ends, undisturbed and with one party killed.

Runs three processes over and over on a machine that other work keeps busy: undisturbed, and with a
party killed at a random moment. Prints how long after the result, or after the death, the last
party was gone, with what status, and what was left behind. Needs the environment of ``make
secure``.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from evidence.common import Context
from evidence.speed._parties import COMMAND, ROLES, need_engine, peers
from evidence.speed._timing import show

RUNS = 50
_BURN = "while True: pass"


@dataclass(frozen=True)
class Ended:
    """How one run ended."""

    seconds: float
    after: float
    codes: tuple[int, ...]
    orphans: int
    left: int


QUICK = {"RUNS": 1}


def run(context: Context) -> None:
    need_engine()
    rng = random.Random(0)
    rows: list[tuple[str, ...]] = []
    with tempfile.TemporaryDirectory() as name, busy(2):
        folder = Path(name)
        rng_data = np.random.default_rng(0)
        np.savez(folder / "a.npz", X=rng_data.normal(size=(40, 4)))
        np.savez(folder / "b.npz", X=rng_data.normal(size=(50, 4)) + 0.5)
        usual = [_said(_once(folder, None, rng)) for _ in range(RUNS)]
        rows.append(_row("undisturbed", usual))
        longest = float(np.median([each.seconds for each in usual]))
        killed = [_said(_once(folder, longest, rng)) for _ in range(RUNS)]
        rows.append(_row("one killed", killed))
    columns = ("runs", "ended", "after, s", "statuses", "orphans", "files left")
    show(f"40 x 50 records, load of the machine {os.getloadavg()[0]:.1f}", columns, rows)


def _said(ended: Ended) -> Ended:
    """Progress, for a look at a run of twenty minutes."""
    print(f"{ended.seconds:.1f} s, {ended.after:.2f} s after, {ended.codes}", file=sys.stderr)
    return ended


def _row(name: str, ended: list[Ended]) -> tuple[str, ...]:
    good = sum(each.after <= 5.0 for each in ended)
    codes = Counter(each.codes for each in ended)
    words = ", ".join(f"{count} x {code}" for code, count in codes.most_common())
    late = f"{np.median([e.after for e in ended]):.2f}, most {max(e.after for e in ended):.2f}"
    orphans, left = sum(each.orphans for each in ended), sum(each.left for each in ended)
    return name, f"{good} of {len(ended)} in 5 s", late, words, str(orphans), str(left)


def _once(folder: Path, longest: float | None, rng: random.Random) -> Ended:
    """Run three parties once; kill one at a random moment after they met, if asked to."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        place = Path(name)
        addresses = str(peers(place))
        temporary = place / "tmp"
        temporary.mkdir()
        began = time.monotonic()
        parties: dict[str, subprocess.Popen[str]] = {}
        for role in ROLES:
            data = [] if role == "third" else ["--data", str(folder / f"{role}.npz")]
            role_of = ["--role", role, "--peers", addresses]
            parties[role] = subprocess.Popen(
                [*COMMAND, *role_of, *data, "--timeout", "600"],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "TMPDIR": str(temporary)},
            )
        if longest is not None:
            # One says what the run will take once all have met.
            errors = parties["a"].stderr
            assert errors is not None
            errors.readline()
            workers = {child for each in parties.values() for child in _children(each.pid)}
            time.sleep(rng.random() * 0.6 * longest)
            parties[rng.choice(ROLES)].kill()
        else:
            workers = set()
        reference = time.monotonic() if longest is not None else None
        ends: dict[str, float] = {}
        while len(ends) < len(parties):
            for role, party in parties.items():
                if longest is None and role == "third" and role not in ends:
                    workers |= set(_children(party.pid))
                if role not in ends and party.poll() is not None:
                    ends[role] = time.monotonic()
            time.sleep(0.02)
        last = max(ends.values())
        # The first to end has, or knows of, the result.
        after = last - (min(ends.values()) if reference is None else min(reference, last))
        for party in parties.values():
            party.communicate()
        time.sleep(0.5)
        orphans = sum(_alive(worker) for worker in workers)
        left = len([path for path in temporary.iterdir() if path.name.startswith("silot-")])
        codes = tuple(party.returncode for party in parties.values())
        return Ended(last - began, after, codes, orphans, left)


def _children(pid: int) -> list[int]:
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(word) for word in text.split()]


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Keep processors busy with other work."""
    burning = [subprocess.Popen([sys.executable, "-c", _BURN]) for _ in range(count)]
    try:
        yield
    finally:
        for each in burning:
            each.kill()
            each.wait()
