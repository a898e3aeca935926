"""A project's folder made by commands in this process, with keys that are made once."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from silot.cli.app import build
from silot.errors import SilotError
from silot.sites import kit as module
from silot.sites.authority import Authority

from ..sites.project import authority, private

PLAN = "name: wards\nhost: localhost\nport: {port}\nsites: [north, south]\naskers: [uni@x.org]\n"


def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are slow to make."""
    made = count()
    monkeypatch.setattr(module, "create_key", lambda: private(f"kit{next(made)}"))
    monkeypatch.setattr(Authority, "new", lambda project: authority())


def silot(*words: object, status: int = 0) -> str:
    """What a command prints; its error instead, if it ends in one."""
    texts = [str(word) for word in words]
    done = CliRunner().invoke(build(*texts), texts, env={"COLUMNS": "80"})
    if isinstance(done.exception, SilotError):
        assert done.exception.exit_status == status, str(done.exception)
        return str(done.exception)
    assert done.exit_code == status, (done.output, done.exception)
    return done.stdout


def provisioned(folder: Path, port: int = 9000) -> Path:
    (folder / "project.yml").write_text(PLAN.format(port=port))
    silot("project", "provision", folder / "project.yml", "-o", folder / "wards")
    return folder / "wards"


def signed(folder: Path, name: str, *options: str) -> Path:
    """A kit, and its certificate beside it."""
    silot("site", "request", name, *options, "-o", folder / name)
    silot("project", "sign", folder / "wards", folder / f"{name}.request")
    return folder / name


def joined(
    folder: Path, name: str = "north", policy: str = "level: record\nask: [record]\n"
) -> Path:
    rng = np.random.default_rng(0)
    np.savez(folder / f"{name}.npz", X=rng.normal(size=(60, 3)))
    (folder / "policy.yml").write_text("level: record\nask: [record]\n")
    kit = signed(folder, name)
    silot("site", "join", kit, folder / f"{name}.signed", *answers(folder, name))
    return kit


def answers(folder: Path, name: str = "north") -> list[object]:
    return ["--data", folder / f"{name}.npz", "--policy", folder / "policy.yml",
            "--ledger", folder / f"{name}.ledger"]  # fmt: skip
