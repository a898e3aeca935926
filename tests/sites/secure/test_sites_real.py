"""A secure distance between sites behind NVFlare, by the command of all distances."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from silot.privacy.ledger import Ledger
from silot_transport import exact_plan

from .needs import needs_spu

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from ...ports import free_ports
from ..deployment import ASKER, Deployment

pytestmark = [needs_spu, pytest.mark.real]

RNG = np.random.default_rng(0)
ROWS = {"north": RNG.normal(size=(60, 30)), "south": RNG.normal(size=(50, 30)) + 1.0}
EXACT = exact_plan(*ROWS.values()).upper


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("wards")
    ports = free_ports(3)
    places = {name: f"127.0.0.1:{port}" for name, port in zip((*ROWS, ASKER), ports, strict=True)}

    def links(own: str) -> dict[str, object]:
        peers = {name: at for name, at in places.items() if name != own}
        return {"listen": places[own], "peers": peers}

    data, policies = {}, {}
    for name, rows in ROWS.items():
        data[name], policies[name] = folder / f"{name}.npz", folder / f"{name}.json"
        np.savez(data[name], X=rows)
        ask = ["statistics"] if name == "south" else []
        rules = {"exact_secure": 2, "ask": ask, "secure": links(name)}
        policies[name].write_text(json.dumps(rules))
    with pytest.MonkeyPatch.context() as patch:
        # Where a site's engine has its sockets.
        (folder / "t").mkdir()
        patch.setenv("TMPDIR", str(folder / "t"))
        made = Deployment(folder, data, policies)
        (made.kits[ASKER].folder / "secure.yml").write_text(json.dumps(links(ASKER)))
        try:
            made.start("server", *ROWS)
            made.ready()
            yield made
        finally:
            made.close()


def silot(there: Deployment, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", "from silot.cli import main; main()", *words],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=there.folder,
        env={**os.environ, "SILOT_STATE": str(there.folder / "asker"),
             "PYTHONPATH": os.pathsep.join(map(str, sys.path))},
    )  # fmt: skip


def ended(process: subprocess.Popen[str], status: int) -> str:
    out, errors = process.communicate(timeout=600)
    assert process.returncode == status, (out, errors)
    return out if status == 0 else errors


def charges(there: Deployment, name: str) -> int:
    with Ledger(there.folder / f"{name}.ledger", readonly=True, state=there.folder) as ledger:
        return sum(row.event == "count" for row in ledger.entries())


def approve(there: Deployment) -> None:
    with Ledger(there.folder / "south.ledger", state=there.folder) as ledger:
        (held,) = [each for each in ledger.waiting if each.state == "waiting"]
        assert (held.question, held.asker) == ("secure-distance", ASKER)
        ledger.decide(held.id, approved=True)


def within(seconds: float, true: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        threading.Event().wait(0.05)
    return true()


def engines(there: Deployment) -> list[str]:
    """Children of sites that compute, by their command lines."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "secure._worker" in words and str(there.folder / "t") in words:
            found.append(words)
    return found


def test_the_command_waits_for_a_person_and_then_tells_the_distance(there: Deployment) -> None:
    kit = str(there.kits[ASKER].folder)
    command = ("distance", "north", "south", "--sites", kit, "--method", "secure", "--json")
    errors = ended(silot(there, *command), 12)
    assert "'south' waiting" in errors
    run = errors.split("silot project resume ")[1].split("`")[0]
    assert (charges(there, "north"), charges(there, "south"), engines(there)) == (0, 0, [])
    approve(there)
    found = json.loads(ended(silot(there, "project", "resume", run), 0))
    assert found["lower"] <= EXACT <= found["upper"]
    assert abs(found["value"] / EXACT - 1.0) < 0.01
    assert (charges(there, "north"), charges(there, "south")) == (1, 1)
    # It is done: told again, and nobody asked.
    assert json.loads(ended(silot(there, "project", "resume", run), 0))["value"] == found["value"]
    assert (charges(there, "north"), charges(there, "south")) == (1, 1)
    assert within(300.0, lambda: not engines(there))


def test_a_site_that_is_killed_ends_the_run_and_the_next_attempt_is_another(
    there: Deployment,
) -> None:
    kit = str(there.kits[ASKER].folder)
    command = ("distance", "north", "south", "--sites", kit, "--method", "secure", "--json")
    run = ended(silot(there, *command), 12).split("silot project resume ")[1].split("`")[0]
    approve(there)
    before = charges(there, "north"), charges(there, "south")
    begun = silot(there, "project", "resume", run)
    # Both agreed, and shares are about to be sent.
    assert within(300.0, lambda: charges(there, "north") > before[0])
    assert within(300.0, lambda: charges(there, "south") > before[1])
    there.kill("north")
    errors = ended(begun, 6)
    assert "[secure-" in errors or "[holder-" in errors
    assert within(300.0, lambda: not engines(there))
    there.start("north")
    there.ready("north")
    # What was charged was charged; another attempt waits for its own approval.
    ended(silot(there, "project", "resume", run), 12)
    approve(there)
    found = json.loads(ended(silot(there, "project", "resume", run), 0))
    assert found["lower"] <= EXACT <= found["upper"]
    assert charges(there, "north") == before[0] + 2
