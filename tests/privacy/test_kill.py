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
from pathlib import Path

import pytest

from silot.federation.question import encode_question
from silot.privacy import Ledger, compose

from .killing import FRAME, MU, policy, question

KILLS = 200
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
        self._process.wait(timeout=60)
        self._reader.join()
        self._process.stdout.close()


@pytest.mark.slow
def test_200_kills_around_releases_never_let_answers_exceed_the_ledger(tmp_path: Path) -> None:
    path = tmp_path / "holder.ledger"
    moments = random.Random(20)
    server = Server(path)
    try:
        for seed in range(KILLS):
            known = len(server.received)
            child = server.start(seed)
            # Half of the lives answer, also where starting takes longer than a life of the others.
            while seed % 2 and len(server.received) == known:
                time.sleep(0.001)
            time.sleep(moments.uniform(0.0, 0.15))
            os.kill(child, signal.SIGKILL)
            assert server.ended() == -signal.SIGKILL
    finally:
        server.close()

    answers: dict[int, set[bytes]] = {}
    for number, _, counts in server.received:
        answers.setdefault(number, set()).add(counts)
    # A question has one answer, whoever was killed in between.
    assert all(len(found) == 1 for found in answers.values())

    with Ledger(path) as ledger:
        ledger.verify()
        rows = ledger.entries()
        spent = ledger.spent
    keys = {event: {row.key for row in rows if row.event == event}
            for event in ("reserve", "release", "commit")}  # fmt: skip
    asked = {hashlib.sha256(encode_question(question(number))).hexdigest() for number in answers}
    assert asked <= keys["commit"] <= keys["release"] <= keys["reserve"]
    assert compose([MU] * len(answers)) <= spent * (1 + 1e-12)
    budget = policy().budget_mu
    assert budget is not None and spent <= budget * (1 + 1e-9)
    # What answers said they were charged is what was charged for them, or less.
    charged = [mu for _, mu, _ in server.received if mu]
    assert compose(charged) <= compose([MU] * len(answers)) * (1 + 1e-12)
    # The test has teeth only where releases were interrupted, and others came through.
    assert len(answers) >= KILLS / 2
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
    assert len({number for number, _, _ in server.received}) == 20
    with Ledger(path) as ledger:
        assert budget * 0.999 < ledger.spent <= budget * (1 + 1e-9)
