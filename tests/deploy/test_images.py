"""The image that `deploy/build` makes, as a server, three sites and an asker of the compose file.

Containers run in a network namespace of their own, so that nothing of their network stays.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import silot
from silot._version import read_version

pytestmark = [pytest.mark.nightly, pytest.mark.real]

ROOT = Path(__file__).parents[2]
IMAGE = "localhost/silot"
# A user whom no image knows.
USER = "4711:4712"
SITES = ("north", "south", "west")
PATIENCE = 300.0
# A container may open fewer files and start fewer processes than this machine allows by default.
SETTINGS = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
"""
LOCKED = ("--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs",
          "/tmp", "--network", "none")  # fmt: skip


class Machine:
    """Containers in a network namespace, and the folders of a project's members."""

    def __init__(self, folder: Path, namespace: int) -> None:
        self.folder = folder
        self._enter = ("nsenter", "--target", str(namespace), "--net", "--mount", "--")
        settings = folder / "containers.conf"
        settings.write_text(SETTINGS)
        self._environment = os.environ | {
            "CONTAINERS_CONF": str(settings), "SILOT_FOLDER": str(folder), "SILOT_USER": USER,
            "SILOT_IMAGE": IMAGE,
        }  # fmt: skip

    def run(self, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [*self._enter, *words], env=self._environment, capture_output=True, text=True,
            timeout=PATIENCE, check=False, cwd=self.folder,
        )  # fmt: skip
        assert done.returncode == status, f"{words}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def silot(self, *words: str, user: str = USER, status: int = 0) -> str:
        """Run silot in a container with this folder, as the page has a coordinator do it."""
        return self.run(
            "podman", "run", "--rm", *LOCKED, "--user", user, "--volume", f"{self.folder}:/srv",
            IMAGE, *words, status=status,
        )  # fmt: skip

    def compose(self, *words: str, status: int = 0) -> str:
        file = str(ROOT / "deploy" / "compose.yaml")
        return self.run("podman-compose", "--profile", "ask", "--file", file, *words, status=status)

    def ask(self, *words: str, status: int = 0) -> str:
        return self.compose("run", "--rm", "-T", "analyst", *words, status=status)

    def wait(self, container: str, what: str) -> None:
        """Wait until a probe in a container is content."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                self.run("podman", "exec", container, "silot-probe", what)
                return
            except AssertionError as error:
                if time.monotonic() > end:
                    logs = self.run("podman", "logs", container)
                    raise AssertionError(f"{error}\n{logs}") from None
                time.sleep(1.0)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    for tool in ("podman", "podman-compose", "nsenter"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed: make images")
    if os.geteuid() != 0:
        pytest.skip("a network namespace for containers needs root")
    if subprocess.run(["podman", "image", "exists", IMAGE], check=False).returncode:
        pytest.skip(f"there is no image {IMAGE}: make images")
    folder = tmp_path_factory.mktemp("machine")
    for place in (folder, *folder.parents[:1]):
        place.chmod(0o755)
    os.chown(folder, *map(int, USER.split(":")))
    holder = subprocess.Popen(
        ["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up && echo up && exec cat"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert holder.stdout is not None and holder.stdout.readline() == b"up\n"
    there = Machine(folder, holder.pid)
    try:
        yield there
    finally:
        there.compose("down", "--timeout", "20")
        holder.communicate()


@pytest.mark.parametrize("user", ["65532:65532", USER, "1:1"])
def test_any_user_reads_the_version_of_the_commit(machine: Machine, user: str) -> None:
    assert machine.silot("--version", user=user) == f"silot {read_version()}\n".replace(
        ".dirty", ""
    )


def test_the_image_computes_without_rights_and_without_a_network(machine: Machine) -> None:
    # It writes a report into its working folder, and nothing else anywhere.
    machine.silot("demo")
    assert "compiled" in machine.silot("doctor") or "avx" in machine.silot("doctor")


def test_a_root_file_system_that_can_be_written_is_not_needed(machine: Machine) -> None:
    machine.run(
        "podman", "run", "--rm", *LOCKED, "--user", USER, "--entrypoint", "sh", IMAGE, "-c",
        "! touch /opt/silot/x && ! touch /srv/x && ! command -v pip && ! command -v g++",
    )  # fmt: skip


@pytest.fixture(scope="module")
def project(machine: Machine) -> Machine:
    """Make the kits of a server, three sites and an asker, as docs/deploy.md says."""
    folder, owner = machine.folder, [int(number) for number in USER.split(":")]
    rng = np.random.default_rng(0)
    for name in ("server", *SITES, "analyst"):
        for part in ("member", "records", "state"):
            (folder / name / part).mkdir(parents=True)
            os.chown(folder / name / part, *owner)
    for shift, name in enumerate(SITES):
        rows = rng.normal(size=(600, 2)) + shift
        text = "age,weight\n" + "".join(f"{a!r},{b!r}\n" for a, b in rows.tolist())
        (folder / name / "records" / "records.csv").write_text(text)
        level = "private" if name == "west" else "record"
        policy = f"level: {level}\nprivacy_epsilon: 1\n"
        (folder / name / "records" / "policy.yml").write_text(policy)
    sites = ", ".join(SITES)
    (folder / "project.yml").write_text(
        f"name: wards\nhost: silot-server\nport: 8102\nsites: [{sites}]\naskers: [analyst]\n"
    )
    machine.silot("project", "provision", "project.yml")
    shutil.move(folder / "wards" / "server", folder / "server" / "member" / "kit")
    for name in (*SITES, "analyst"):
        asks = ["--asker"] if name == "analyst" else []
        machine.compose(
            "run", "--rm", "-T", name, "site", "request", name, "--out", "/srv/member/kit", *asks
        )
        machine.silot("project", "sign", "wards", f"{name}/member/kit.request")
        answers = [] if asks else [
            "--data", "/srv/records/records.csv", "--policy", "/srv/records/policy.yml",
            "--ledger", "/srv/member/site.ledger",
        ]  # fmt: skip
        signed = "/srv/member/kit.signed"
        machine.compose(
            "run", "--rm", "-T", name, "site", "join", "/srv/member/kit", signed, *answers
        )
    machine.compose("up", "--detach", "server", *SITES)
    for name in ("server", *SITES):
        machine.wait(f"silot_{name}_1", "health")
        machine.wait(f"silot_{name}_1", "ready")
    return machine


def test_an_asker_in_a_container_has_a_distance_between_two_sites(project: Machine) -> None:
    words = ("distance", "north", "south", "--sites", "/srv/member/kit", "--method", "direct")
    x, y = (
        silot.load_measure(project.folder / name / "records" / "records.csv")
        for name in ("north", "south")
    )
    expected = silot.distance(x, y, method="direct").value
    text = project.ask(*words, "--json")
    assert json.loads(text[text.index("{") :])["value"] == pytest.approx(expected)
    # At a site that discloses no records the same question is refused.
    project.ask(*words[:2], "west", *words[3:], status=7)
    version = json.loads(project.ask("project", "check", "/srv/member/kit", "--json"))["silot"]
    assert version == read_version().replace(".dirty", "")


def test_a_site_that_starts_anew_is_the_same_copy_with_the_same_ledger(project: Machine) -> None:
    status = ("podman", "exec", "silot_north_1", "silot", "site", "status", "--json")
    before = json.loads(project.run(*status))
    project.run("podman", "stop", "--time", "60", "silot_north_1")
    state = project.run("podman", "inspect", "--format", "{{.State.ExitCode}}", "silot_north_1")
    # It ends when it is told to: a process that is killed has status 137.
    assert state.strip() != "137"
    project.run("podman", "start", "silot_north_1")
    project.wait("silot_north_1", "ready")
    after = json.loads(project.run(*status))
    assert after["questions"] == before["questions"] > 0
    # A pod, too, is removed and made anew, with another address.
    project.run("podman", "rm", "--force", "--time", "60", "silot_south_1")
    project.compose("up", "--detach", "south")
    project.wait("silot_south_1", "ready")
    project.ask("distance", "north", "south", "--sites", "/srv/member/kit", "--method", "direct")


def test_the_supervisor_of_a_container_learns_what_is_wrong(project: Machine) -> None:
    project.run("podman", "healthcheck", "run", "silot_west_1")
    project.run("podman", "exec", "silot_west_1", "silot", "site", "pause")
    probe = ("podman", "exec", "silot_west_1", "silot-probe")
    assert project.run(*probe, "ready", status=1) == "holder-paused\n"
    assert project.run(*probe, "health") == "ok\n"
    project.run("podman", "exec", "silot_west_1", "silot", "site", "resume")
