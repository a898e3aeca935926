"""A site whose registration fails tries again, and ends with a code where that lasts."""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from silot.errors import TEMPORARY
from silot.federation.exchange import Unreached

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from silot.sites.flare import retry_registration

from .deployment import Deployment
from .refusing import VARIABLE, Impatient


class Ended(BaseException):
    """In place of the end of the process."""


def registering(
    failures: int, tries: int, folder: Path, *, late: float = 0.0
) -> tuple[Callable[[], Any], list[float], list[float]]:
    """A registration that fails so often, or where the wait is too short; its waits and pauses."""
    waits, pauses = list[float](), list[float]()

    def register() -> str:
        waits.append(communicator.maint_msg_timeout)
        if len(waits) <= failures or waits[-1] < late:
            raise RuntimeError("timeout")
        return "token"

    communicator = SimpleNamespace(client_registration=register, maint_msg_timeout=7.0, cell=None)
    retry_registration(communicator, folder, tries, pauses.append)

    def run() -> Any:
        try:
            return communicator.client_registration()
        finally:
            assert communicator.maint_msg_timeout == 7.0

    return run, waits, pauses


def test_a_refusal_that_passes_ends_in_a_registration(tmp_path: Path) -> None:
    run, waits, pauses = registering(5, 8, tmp_path)
    assert run() == "token"
    assert len(waits) == 6
    # A random part of seconds that double.
    assert all(0.5 * 2.0**at <= pause <= 2.0**at for at, pause in enumerate(pauses))


def test_a_slow_server_gets_more_time_at_each_try(tmp_path: Path) -> None:
    run, waits, _ = registering(0, 8, tmp_path, late=100.0)
    assert run() == "token"
    assert waits == [30.0, 60.0, 120.0]


def test_a_refusal_that_lasts_ends_the_process_with_a_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, policy = tmp_path / "north.npz", tmp_path / "north.json"
    np.savez(data, X=np.zeros((3, 2)))
    policy.write_text(json.dumps({"level": "record"}))
    kits = Deployment(tmp_path, {"north": data}, {"north": policy}).kits
    ends: list[int] = []

    def end(status: int) -> None:
        ends.append(status)
        raise Ended

    monkeypatch.setattr("os._exit", end)
    run, waits, pauses = registering(99, 8, kits["north"].folder)
    with pytest.raises(Ended):
        run()
    # Nothing listens there, which passes: who supervises the process starts it again.
    assert (len(waits), len(pauses), ends) == (8, 7, [TEMPORARY])
    assert max(pauses) <= 30.0
    assert "server-unreachable" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.parametrize(("refusals", "registers"), [(2, True), (99, False)])
def test_refusals_of_a_running_server(tmp_path: Path, refusals: int, registers: bool) -> None:
    data, policy = tmp_path / "north.npz", tmp_path / "north.json"
    np.savez(data, X=np.random.default_rng(0).normal(size=(300, 2)))
    policy.write_text(json.dumps({"level": "record"}))
    there = Deployment(
        tmp_path, {"north": data}, {"north": policy}, environment={VARIABLE: str(refusals)}
    )
    for kit, kind in ((there.server, "Refusing"), (there.kits["north"], "Impatient")):
        file = kit.folder / "local/resources.json"
        body = json.loads(file.read_text())
        name = f"tests.sites.refusing.{kind}"
        body["components"][0]["path"], body["class_allow_list"] = name, [name]
        file.write_text(json.dumps(body))
    try:
        there.start("server", "north")
        if registers:
            there.ready()
            assert there.said("server").count("refused") == refusals
        else:
            assert there.processes["north"].wait(150.0) == TEMPORARY
            assert "server-unreachable" in there.said("north")
            assert there.said("server").count("refused") == Impatient.registration_tries
    finally:
        there.close()


def test_who_waited_for_a_failed_connection_learns_why(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("silot.sites.flare")
    wire = object.__new__(module.Wire)
    wire._kit, wire._cell, wire._lock, wire._last_failure = None, None, threading.Lock(), ""
    joining, refused = threading.Event(), list[str]()

    def join(kit: Any, seconds: float) -> Any:
        joining.set()
        # As long as the other thread has time for.
        time.sleep(0.6)
        raise Unreached("server-full")

    monkeypatch.setattr(module, "_join_server", join)
    monkeypatch.setattr(module, "check_server", lambda kit, seconds: None)

    def connect(seconds: float) -> None:
        with pytest.raises(Unreached) as caught:
            wire.connect(seconds)
        refused.append(caught.value.code)

    first = threading.Thread(target=connect, args=(5.0,))
    first.start()
    joining.wait(10)
    connect(0.8)
    first.join(10)
    assert refused == ["server-full", "server-full"]
