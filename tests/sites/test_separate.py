"""Machines that see one another by the network alone: the commands of docs/deploy.md, as typed.

A coordinator, a server, three sites and an analyst have each a user and a folder that no other user
can read, and all but the coordinator a network namespace. Sites reach the server and nobody else.
`make sites-nightly`; without the right to make namespaces it is skipped.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from ..ports import free_ports

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

pytestmark = pytest.mark.nightly

PAGE = Path(__file__).parents[2] / "docs/deploy.md"
SILOT = Path(sys.executable).with_name("silot")
SITES = ("north", "south", "west")
HOST = "server.wards.example"
SCHEMA = """\
silot: schema
version: 1
name: ward
columns:
  age: {kind: integer, range: [0, 120]}
  glucose: {kind: number, range: [0, 30]}
"""


def typed() -> list[str]:
    """Commands of the page from nothing to three machines, without remarks and pipes."""
    text = PAGE.read_text()
    part = text[text.index("## From nothing to three machines") : text.index("## A site that")]
    lines = re.findall(
        r"^ *(silot .*)$|`(silot (?:project sign|site join|project check) [^`]*)`",
        part,
        re.MULTILINE,
    )
    return [re.split(r" +#| \|", block or inline)[0].strip() for block, inline in lines]


def policy() -> str:
    part = PAGE.read_text()
    return dedent(re.findall(r"```yaml\n( *level:.*?)```", part, re.DOTALL)[0])


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@dataclass
class Machine:
    """A namespace with a folder and a user."""

    name: str
    place: int
    folder: Path
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def space(self) -> str:
        return f"silot{os.getpid()}-{self.name}"

    def set_up(self, server: Machine | None) -> None:
        """Link it with the server, which has an address that all reach."""
        self.folder.mkdir(mode=0o700)
        ip("netns", "add", self.space)
        ip("-n", self.space, "link", "set", "lo", "up")
        hosts = Path("/etc/netns") / self.space
        hosts.mkdir(parents=True)
        (hosts / "hosts").write_text(f"127.0.0.1 localhost\n10.99.0.1 {HOST}\n")
        if server is None:
            ip("-n", self.space, "address", "add", "10.99.0.1/32", "dev", "lo")
            return
        here, there = f"10.99.{self.place}.2", f"10.99.{self.place}.1"
        ends = f"s{os.getpid()}a{self.place}", f"s{os.getpid()}b{self.place}"
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for end, space, address in ((ends[0], self.space, here), (ends[1], server.space, there)):
            ip("link", "set", end, "netns", space)
            ip("-n", space, "address", "add", f"{address}/30", "dev", end)
            ip("-n", space, "link", "set", end, "up")
        ip("-n", self.space, "route", "add", "default", "via", there)

    def tear_down(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        subprocess.run(["ip", "netns", "del", self.space], capture_output=True, check=False)
        shutil.rmtree(Path("/etc/netns") / self.space, ignore_errors=True)

    def words(self, command: str) -> list[str]:
        """Return what runs a command here as the machine's user."""
        user = str(40000 + self.place)
        for path in (self.folder, *self.folder.rglob("*")):
            os.chown(path, int(user), int(user))
        line = command.replace("silot ", f"{SILOT} ", 1)
        become = f'{open_python()}exec setpriv --reuid={user} --regid={user} --clear-groups "$@"'
        return ["ip", "netns", "exec", self.space, "sh", "-c", become, "sh", "bash", "-c", line]

    @property
    def environment(self) -> dict[str, str]:
        paths = {"PYTHONPATH": os.pathsep.join(sys.path), "SILOT_STATE": str(self.folder / "state"),
                 "HOME": str(self.folder), "OMP_NUM_THREADS": "1", "COLUMNS": "80"}  # fmt: skip
        return {"PATH": os.environ["PATH"], **paths}

    def type(self, command: str, status: int = 0) -> str:
        done = subprocess.run(
            self.words(command), cwd=self.folder, env=self.environment, capture_output=True,
            text=True, check=False,
        )  # fmt: skip
        assert done.returncode == status, (self.name, command, done.stdout, done.stderr)
        return done.stdout

    def start(self, command: str) -> None:
        with (self.folder / "out").open("ab") as out:
            process = subprocess.Popen(
                self.words(command), cwd=self.folder, env=self.environment, stdout=out, stderr=out
            )
        self.processes.append(process)


@cache
def open_python() -> str:
    """Return commands after which any user can run this Python, wherever its folders are.

    A folder that only root may enter, such as /root, is covered in the mounts of one process by an
    empty one, in which what Python needs is shown again.
    """
    needed = {sys.base_prefix, sys.prefix, *filter(os.path.isdir, sys.path)}
    closed = {path: [p for p in Path(path).parents if not p.stat().st_mode & 1] for path in needed}
    closed = {path: parents[-1] for path, parents in closed.items() if parents}
    lines = ["mount -t tmpfs none /mnt"]
    for number, path in enumerate(closed):
        lines += [f"mkdir /mnt/{number}", f"mount --bind {path} /mnt/{number}"]
    lines += [f"mount -t tmpfs -o mode=755 none {top}" for top in set(closed.values())]
    for number, path in enumerate(closed):
        lines += [f"mkdir -p {path}", f"mount --bind /mnt/{number} {path}"]
    return "".join(f"{line} && " for line in lines) if closed else ""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def machines(place: Path) -> Iterator[dict[str, Machine]]:
    names = ("server", *SITES, "analyst")
    made = {name: Machine(name, number, place / name) for number, name in enumerate(names)}
    with ExitStack() as stack:
        for name, machine in made.items():
            stack.callback(machine.tear_down)
            try:
                machine.set_up(None if name == "server" else made["server"])
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"network namespaces cannot be made here ({error})")
        yield made


def carry(source: Path, *targets: Path) -> None:
    for target in targets:
        if source.is_dir():
            shutil.move(source, target)
        else:
            shutil.copy(source, target)


def test_the_commands_of_the_page_on_machines_apart(
    machines: dict[str, Machine], place: Path
) -> None:
    lines = typed()
    for word in ("project init", "project provision", "site request north", "project sign",
                 "site join north", "site check", "site join analyst",
                 "project check"):  # fmt: skip
        assert any(word in line for line in lines), word
    (port,), rng = free_ports(1), np.random.default_rng(0)
    desk = Machine("server", 9, place / "coordinator")
    desk.folder.mkdir(mode=0o700)
    plan = desk.folder / "project.yml"
    for site, shift in zip(SITES, (0.0, 5.0, 20.0), strict=True):
        folder = machines[site].folder
        table = np.column_stack((rng.normal(40 + shift, 10, 800), rng.uniform(3, 9, 800)))
        np.savetxt(folder / f"{site}.csv", table, "%.0f,%.2f", header="AGE,glucose", comments="")
        (folder / "schema.yml").write_text(SCHEMA)
        (folder / f"{site}-site.yml").write_text("columns: {age: {from: AGE}}\n")
        (folder / "policy.yml").write_text(policy())
    analyst = machines["analyst"]
    for line in lines:
        words = line.split()
        if "project" in words and "check" not in words:
            # `silot project sign wards north.request`, and so of the others.
            for name in (*SITES, "analyst") if "sign" in words else ("north",):
                if "sign" in words:
                    carry(machines[name].folder / f"{name}.request", desk.folder)
                desk.type(line.replace("north", name))
                if "sign" in words:
                    carry(desk.folder / f"{name}.signed", machines[name].folder)
            if "init" in words:
                text = plan.read_text()
                for key, value in {"name": "wards", "host": HOST, "port": port}.items():
                    text = re.sub(rf"^{key}: .*$", f"{key}: {value}", text, flags=re.MULTILINE)
                plan.write_text(text)
            if "provision" in words:
                (machines["server"].folder / "wards").mkdir()
                carry(desk.folder / "wards/server", machines["server"].folder / "wards/server")
                machines["server"].start("silot project serve wards/server")
                wait_for(machines, "server", port)
        elif "analyst" in words:
            if "check" in words:
                for site in SITES:
                    machines[site].start(f"silot site run {site}")
                ready(machines, line)
            else:
                analyst.type(line)
        else:
            for site in SITES:
                machines[site].type(line.replace("north", site))
    # Users read their own files alone: nothing but messages goes from one to another.
    everybody = {**machines, "coordinator": desk}
    for machine in everybody.values():
        assert machine.type("id -u") == f"{40000 + machine.place}\n"
        for other in everybody.values():
            machine.type(f"ls {other.folder} > /dev/null 2>&1", 0 if other is machine else 2)
    # Members see the server alone.
    for number in (1, 2, 3):
        reach = analyst.words(f"timeout 3 bash -c 'exec 3<>/dev/tcp/10.99.{number}.2/1'")
        result = subprocess.run(reach, capture_output=True, text=True)
        assert result.returncode and "refused" not in result.stderr, result.stderr
    question = "silot distance north south --sites analyst --method direct"
    analyst.type(question, 12)
    for site in ("north", "south"):
        kit = f"--kit {site}"
        (held,) = json.loads(machines[site].type(f"silot site inbox {kit} --json"))
        machines[site].type(f"silot site approve {held['id']} {kit} --for 1h --asker analyst")
    assert json.loads(analyst.type(f"{question} --json"))["value"] > 0
    for site in SITES:
        assert not list(analyst.folder.rglob(f"{site}.csv"))


def wait_for(machines: dict[str, Machine], name: str, port: int) -> None:
    reach = f"exec 3<>/dev/tcp/{HOST}/{port}"
    words = machines["north"].words(reach)
    while subprocess.run(words, capture_output=True, check=False).returncode:
        assert all(process.poll() is None for process in machines[name].processes), (
            machines[name].folder / "out"
        ).read_text()
        time.sleep(0.2)


def ready(machines: dict[str, Machine], command: str) -> None:
    analyst, end = machines["analyst"], time.monotonic() + 300
    words = analyst.words(command)
    while (
        done := subprocess.run(
            words, cwd=analyst.folder, env=analyst.environment, capture_output=True, text=True
        )
    ).returncode:
        assert time.monotonic() < end, (done.stdout, done.stderr)
