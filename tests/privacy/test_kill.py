"""Killing a holder never lets what it answered exceed what its ledger says."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from silot.federation.question import encode_question
from silot.privacy import Ledger, compose

from .killing import FRAME, MU, policy, question

pytestmark = pytest.mark.all_cases

KILLS = 300
ROOT = Path(__file__).parents[2]


class Server:
    """The forking server and everything that came out of its children."""

    def __init__(self, path: Path) -> None:
        self.received: list[tuple[int, float, bytes]] = []
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.privacy.killing", str(path), str(writing)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, pass_fds=[writing], cwd=ROOT,
        )  # fmt: skip
        os.close(writing)
        self._reader = threading.Thread(target=self._read, args=(reading,))
        self._reader.start()
        assert self._line() == "ready"

    def _read(self, reading: int) -> None:
        with os.fdopen(reading, "rb") as pipe:
            while head := pipe.read(FRAME.size):
                number, charged, size = FRAME.unpack(head)
                self.received.append((number, charged, pipe.read(size)))

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def start(self, seed: int) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(f"go {seed}\n")
        self._process.stdin.flush()
        return int(self._line())

    def ended(self) -> int:
        return int(self._line())

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=600)
        self._reader.join()
        self._process.stdout.close()


def keys_of(numbers: Iterable[int]) -> set[str]:
    asked = [question(number) for number in numbers]
    return {hashlib.sha256(encode_question(each)).hexdigest() for each in asked}


@pytest.mark.slow
def test_300_kills_of_two_writers_forget_nothing_and_charge_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "holder.ledger"
    moments = random.Random(20)
    servers = [Server(path), Server(path)]
    try:
        for seed in range(KILLS // 2):
            known = sum(len(server.received) for server in servers)
            children = [server.start(2 * seed + k) for k, server in enumerate(servers)]
            # Half of the lives answer, also where starting takes longer than a life of the others.
            while seed % 2 and sum(len(server.received) for server in servers) == known:
                time.sleep(0.001)
            for child in children:
                time.sleep(moments.uniform(0.0, 0.05))
                os.kill(child, signal.SIGKILL)
            assert [server.ended() for server in servers] == [-signal.SIGKILL] * 2
    finally:
        for server in servers:
            server.close()

    answers: dict[int, set[bytes]] = {}
    charges: dict[int, list[float]] = {}
    for number, mu, told in (each for server in servers for each in server.received):
        answers.setdefault(number, set()).add(told)
        charges.setdefault(number, []).append(mu)
    # A question has one answer, whoever was killed in between, and is charged once.
    assert all(len(found) == 1 for found in answers.values())
    assert all(sum(mu > 0 for mu in each) <= 1 for each in charges.values())

    with Ledger(path) as ledger:
        ledger.verify()
        rows, spent = ledger.entries(), ledger.spent
    keys = {event: {row.key for row in rows if row.event == event}
            for event in ("reserve", "release", "commit", "count")}  # fmt: skip
    releases = [number for number in answers if number % 4 in (0, 3)]
    chosen = {number for number in answers if number % 4 == 1}
    named = keys_of(number for number in answers if number % 4 == 2)
    assert keys_of(releases) <= keys["commit"] <= keys["release"] <= keys["reserve"]
    # Every exact answer that was given is noted.
    assert keys_of(chosen) | named <= keys["count"]
    assert compose([MU] * len(releases)) <= spent * (1 + 1e-12)
    budget = policy().budget_mu
    assert budget is not None and spent <= budget * (1 + 1e-9)
    # What answers said they were charged is what was charged for them, or less.
    charged = [mu for each in charges.values() for mu in each if mu]
    assert compose(charged) <= compose([MU] * len(releases)) * (1 + 1e-12)
    # The test has teeth only where answers were interrupted, and others came through.
    assert len(answers) >= KILLS / 10 and len(chosen) >= 5
    assert keys["commit"] < keys["reserve"]


@pytest.mark.slow
def test_a_holder_that_is_left_alone_stops_at_its_budget(tmp_path: Path) -> None:
    path = tmp_path / "holder.ledger"
    budget = policy().budget_mu
    assert budget is not None
    with Ledger(path) as ledger:
        ledger.reserve("0" * 64, mu=(budget**2 - 20.5 * MU**2) ** 0.5, budget=budget, mechanism="x")
    server = Server(path)
    try:
        server.start(1)
        assert server.ended() == 0
    finally:
        server.close()
    assert len({number for number, _, _ in server.received if number % 4 in (0, 3)}) == 20
    with Ledger(path) as ledger:
        assert budget * 0.999 < ledger.spent <= budget * (1 + 1e-9)
