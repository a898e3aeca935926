"""A deployment of real processes on loopback: a server, sites, and an asker in this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from silot.federation.answer import Failure
from silot.federation.exchange import Limits, exchange
from silot.sites.authority import Authority, Role
from silot.sites.configuration import SiteConfiguration
from silot.sites.connection import Sites
from silot.sites.engine import build_command
from silot.sites.kit import Kit, begin_kit, complete_kit, provision
from silot.sites.project import Project, sign
from silot.sites.teacher import TeacherFiles

from ..ports import free_ports

if TYPE_CHECKING:
    from silot.sites.flare import Wire

ASKER = "uni@example.org"


@dataclass
class Deployment:
    """Kits of a project in a folder, and the processes that run with them."""

    folder: Path
    data: Mapping[str, Path]
    policies: Mapping[str, Path]
    taught: Mapping[str, Callable[[Kit], TeacherFiles]] = field(default_factory=dict)
    host: str = "localhost"
    environment: dict[str, str] = field(default_factory=dict)
    askers: Sequence[str] = (ASKER,)
    authority: Authority = field(init=False)
    project: Project = field(init=False)
    server: Kit = field(init=False)
    kits: dict[str, Kit] = field(init=False, default_factory=dict)
    processes: dict[str, subprocess.Popen[bytes]] = field(init=False, default_factory=dict)
    wires: list[Wire] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.project = Project(
            name="wards", host=self.host, port=free_ports(1)[0], sites=tuple(self.data),
            askers=tuple(self.askers),
        )  # fmt: skip
        self.authority, self.server = provision(self.project, self.folder / "coordinator")
        for name in self.data:
            self.kits[name] = self.kit(name, Role.SITE)
            joined = SiteConfiguration(
                data=self.data[name], policy=self.policies[name],
                ledger=self.folder / f"{name}.ledger",
                teacher=self.taught[name](self.kits[name]) if name in self.taught else None,
            )  # fmt: skip
            joined.save(self.kits[name])
        self.kits |= {name: self.kit(name, Role.ASKER) for name in self.askers}

    def kit(self, name: str, role: Role) -> Kit:
        asked = begin_kit(self.folder / name, name, role)
        return complete_kit(self.folder / name, sign(self.authority, self.project, asked))

    def start(self, *names: str) -> None:
        """Start the server (``"server"``) or sites."""
        for name in names:
            kit = self.server if name == "server" else self.kits[name]
            with (self.folder / f"{name}.out").open("ab") as out:
                self.processes[name] = subprocess.Popen(
                    build_command(kit.folder, kit.name, kit.role), stdout=out,
                    stderr=subprocess.STDOUT, start_new_session=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "SILOT_STATE": str(self.folder),
                         "PYTHONPATH": os.pathsep.join(map(str, sys.path)), **self.environment},
                )  # fmt: skip

    def signal(self, name: str, what: signal.Signals) -> None:
        """To a process and all that it started."""
        os.killpg(self.processes[name].pid, what)

    def kill(self, name: str) -> None:
        self.signal(name, signal.SIGKILL)
        self.processes.pop(name).wait()

    def sites(self, names: Sequence[str] = (), **options: Any) -> Sites:
        """The asker's federation, over a connection of its own."""
        from silot.sites.flare import Wire

        wire = Wire(self.kits[ASKER])
        self.wires.append(wire)
        identity = self.kits[ASKER].identity()
        return Sites(identity, wire, names or self.project.sites, **options)

    def ready(self, *names: str, seconds: float = 150.0) -> None:
        """Wait until sites answer.

        NVFlare waits up to a minute before it looks again for a server that was killed often.
        """
        # A message that comes while a site starts may be lost.
        sites = self.sites(limits=Limits(deadline=3.0))

        def ask(name: str, _: bytes, left: float) -> bytes:
            if self.processes[name].poll() is not None:
                raise RuntimeError(name)
            sites.about(name)
            return b"ready"

        limits = Limits(deadline=seconds, first_pause=0.2, longest_pause=0.5)
        wanted = names or self.project.sites
        replies = exchange(dict.fromkeys(wanted, b""), ask, lambda: 0.0, limits)
        late = {name: reply for name, reply in replies.items() if isinstance(reply, Failure)}
        running = {name: process.poll() is None for name, process in self.processes.items()}
        assert not late, (late, running, {name: self.said(name) for name in self.processes})

    def said(self, name: str) -> str:
        """What a process printed."""
        return (self.folder / f"{name}.out").read_text(errors="replace")[-3000:]

    def hang_up(self) -> None:
        """Close the asker's connections."""
        while self.wires:
            self.wires.pop().close()

    def close(self) -> None:
        self.hang_up()
        for name in list(self.processes):
            try:
                self.signal(name, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self.processes[name].wait()
