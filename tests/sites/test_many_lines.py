"""A thousand idle lines, of one member or of a thousand: others are answered: `make sites-nightly`.

It prints the figures: `pytest -s`.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from silot.sites.authority import Role, create_key, encode_key, make_request

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from ..ports import free_ports
from .deployment import Deployment
from .sizing import deployed

pytestmark = pytest.mark.nightly

LINES, QUESTIONS = 1000, 20
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def there() -> Iterator[tuple[Deployment, int]]:
    (port,) = free_ports(1)
    with pytest.MonkeyPatch.context() as patch, deployed(2, 50, 2) as there:
        patch.setenv("SILOT_HEALTH", str(port))
        there.kill("server")
        there.start("server")
        patch.delenv("SILOT_HEALTH")
        there.ready()
        yield there, port


def certificates(there: Deployment, members: int) -> list[str]:
    """Of members whose keys are one: a thousand keys take minutes."""
    key, files = create_key(), [there.folder / "idle.key"]
    files[0].write_bytes(encode_key(key))
    for number in range(members):
        name = f"idle{number}"
        request = make_request(key, name, Role.ASKER)
        files.append(there.folder / f"{name}.crt")
        files[-1].write_bytes(there.authority.sign(request, [(name, Role.ASKER)]))
    return list(map(str, files))


@contextmanager
def idle(there: Deployment, kind: str, files: list[str]) -> Iterator[list[dict[str, Any]]]:
    """Open the lines; yields what their process prints, when all are open."""
    root = there.kits["s0"].files[0]
    words = [there.project.address, str(root), files[0], str(LINES), kind, *files[1:]]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.sites.idling", *words], cwd=ROOT, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin and process.stdout
        reports = [json.loads(process.stdout.readline())]
        try:
            while reports[-1]["opened"] + reports[-1]["failed"] < LINES:
                reports.append(json.loads(process.stdout.readline()))
            reader = threading.Thread(
                target=lambda: reports.extend(map(json.loads, process.stdout))
            )
            reader.start()
            yield reports
        finally:
            process.stdin.close()
            process.wait()
    reader.join()


@pytest.mark.parametrize("kind", ["stream", "bare"])
@pytest.mark.parametrize("members", [1, LINES], ids=["of one", "of many"])
def test_others_are_answered(there: tuple[Deployment, int], members: int, kind: str) -> None:
    deployment, port = there
    seconds = list[float]()
    with idle(deployment, kind, certificates(deployment, members)) as reports:
        for _ in range(QUESTIONS // 2):
            sites = deployment.sites()
            for name in deployment.project.sites:
                began = time.monotonic()
                sites.about(name)
                seconds.append(time.monotonic() - began)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
        numbers = {
            line.split("{")[0].removeprefix("silot_"): float(line.split()[-1])
            for line in lines if not line.startswith("#")
        }  # fmt: skip
        counts = {name: numbers[name] for name in ("connections", "members", "full_total")}
        deployment.hang_up()
        time.sleep(2.0)
    print(
        f"\n{LINES} {kind} lines of {members}: answers median {statistics.median(seconds):.2f} s, "
        f"longest {max(seconds):.2f} s; {reports[-1]}; {counts}"
    )
    assert statistics.median(seconds) <= 2.0
    if kind == "stream" and members == 1:
        assert reports[-1]["ends"]["RESOURCE_EXHAUSTED server-full"] >= LINES - 32
        assert counts["full_total"] >= LINES - 32
