"""Three sites, a server and an asker on this machine, by the commands of a user, and what they ask.

Run ``make demo-sites``, or ``python -m examples.sites [FOLDER]``. All has real certificates and
goes through real connections; what is started is ended.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

import numpy as np

SITES = ("north", "south", "west")
POLICY = """\
level: record
{ask}
privacy_epsilon: 1
"""
_SILOT = str(Path(sys.executable).with_name("silot"))
# Seconds without progress after which something hangs: a machine may be busy with other work.
PATIENCE = 1800.0
# What the command line ends with where it is typed wrong: no waiting helps.
USAGE = 2
_PATHS = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])


class Desk:
    """A folder to type commands in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        # Kept beside the rest, so that all goes with the folder.
        self.environment = os.environ | {
            "SILOT_STATE": str(folder / "state"), "COLUMNS": "80", "PYTHONPATH": _PATHS,
        }  # fmt: skip

    def type(self, *words: str, status: int = 0, show: bool = True) -> str:
        """Run a command as a user would; show it and what it prints."""
        if show:
            print(f"\n$ silot {' '.join(words)}", flush=True)
        done = self._run([_SILOT, *words])
        text = done.stdout + done.stderr
        if show:
            print(text.rstrip(), flush=True)
        if done.returncode != status:
            sys.exit(f"status {done.returncode}, and {status} was expected:\n{text}")
        return done.stdout

    def ready(self, kit: str) -> None:
        """Wait until all sites answer, as long as their processes run and more of them answer."""
        words = ("project", "check", kit)
        print(f"\n$ silot {' '.join(words)}", flush=True)
        most, end = -1, time.monotonic() + PATIENCE
        while (done := self._run([_SILOT, *words])).returncode:
            if done.returncode == USAGE:
                sys.exit(done.stdout + done.stderr)
            dead = [name for name, process in self.processes.items() if process.poll() is not None]
            answers = done.stdout.count("silot ")
            if answers > most:
                most, end = answers, time.monotonic() + PATIENCE
            if dead or time.monotonic() > end:
                sys.exit(f"the sites did not come up; ended: {', '.join(dead) or 'none'}")
            time.sleep(0.2)
        print(done.stdout.rstrip(), flush=True)

    def start(self, stack: ExitStack, *words: str) -> None:
        """Start a process that stays, in a group of its own, and end it with the stack."""
        print(f"\n$ silot {' '.join(words)} &", flush=True)
        process = subprocess.Popen(
            [_SILOT, *words], cwd=self.folder, env=self.environment,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        self.processes[" ".join(words)] = process
        stack.callback(_end, process)

    def _run(self, words: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, cwd=self.folder, env=self.environment, capture_output=True, text=True,
            timeout=PATIENCE,
        )  # fmt: skip


def main(folder: Path) -> None:
    """Set up, ask, and end."""
    began = time.monotonic()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    desk = Desk(folder.resolve())
    port = _free_port()
    desk.type("project", "init", "project.yml")
    plan = folder / "project.yml"
    lines = plan.read_text().splitlines()
    fields = {"name:": "name: wards", "host:": "host: localhost", "port:": f"port: {port}"}
    plan.write_text("\n".join(fields.get(line.split(" ")[0], line) for line in lines) + "\n")
    desk.type("project", "provision", "project.yml")
    for name in SITES:
        desk.type("site", "request", name, show=name == "north")
    desk.type("site", "request", "analyst", "--asker")
    desk.type("project", "sign", "wards", *(f"{name}.request" for name in (*SITES, "analyst")))
    _write_data(folder)
    for name in SITES:
        desk.type(
            "site", "join", name, f"{name}.signed", "--data", f"{name}.npz", "--policy",
            f"{name}.yml", "--ledger", f"{name}.ledger", show=name == "north",
        )  # fmt: skip
    desk.type("site", "join", "analyst", "analyst.signed")
    with ExitStack() as stack:
        desk.start(stack, "project", "serve", "wards/server")
        for name in SITES:
            desk.start(stack, "site", "run", name)
        desk.ready("analyst")
        _ask(desk)
        print(f"\n{time.monotonic() - began:.0f} s; all is in {folder}", flush=True)


def _ask(desk: Desk) -> None:
    desk.type("site", "check", "--kit", "north")
    own = ("--validation", "mine.npz", "--public", "public.npz")
    desk.type("value", "--sites", "analyst", "--method", "sketch", *own)
    # South answers about its records only what a person there approved, and west nothing.
    desk.type("distance", "north", "west", "--sites", "analyst", "--method", "fedwad", status=7)
    desk.type("distance", "north", "south", "--sites", "analyst", status=12)
    desk.type("site", "inbox", "--kit", "south")
    (question,) = json.loads(desk.type("site", "inbox", "--kit", "south", "--json", show=False))
    desk.type("site", "approve", question["id"], "--kit", "south", "--for", "1h")
    waiting = [each for each in json.loads(desk.type("project", "runs", "--json", show=False))
               if each["state"].startswith("waiting")]  # fmt: skip
    desk.type("project", "resume", waiting[0]["run"])
    desk.type("site", "log", "--kit", "south")


def _write_data(folder: Path) -> None:
    rng = np.random.default_rng(0)
    for name, shift in zip(SITES, (0.0, 0.5, 1.5), strict=True):
        X = np.clip(rng.normal(shift, 1.0, (2500, 2)), -4, 4)
        np.savez(folder / f"{name}.npz", X=X)
    for name in ("public", "mine"):
        np.savez(folder / f"{name}.npz", X=np.clip(rng.normal(0.2, 1.0, (1000, 2)), -4, 4))
    (folder / "north.yml").write_text(POLICY.format(ask="ask: []"))
    (folder / "south.yml").write_text(POLICY.format(ask="ask: [record]"))
    (folder / "west.yml").write_text("level: private\nprivacy_epsilon: 1\n")


def _free_port() -> int:
    # Below those that outgoing connections get, which would take it from a server that starts.
    for port in range(20_000 + os.getpid() % 10_000, 32_000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise RuntimeError("no free port")


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, sign)
            process.wait(5)
        except (ProcessLookupError, subprocess.TimeoutExpired):
            continue


if __name__ == "__main__":
    # So that what was started ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "silot-sites"))
