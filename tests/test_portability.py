"""Wheels of Windows: without the modules that only POSIX has, everything but sites works."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# A sitecustomize of this text hides them from the program and all that it starts.
HIDE = """\
import sys

HIDDEN = {"_posixsubprocess", "fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}


class Hider:
    def find_spec(self, name, path=None, target=None):
        if name in HIDDEN and by_silot(sys._getframe(1)):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def by_silot(frame):
    # The standard library and others choose by os.name, which is still posix here.
    while frame is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
        frame = frame.f_back
    return frame is not None and "silot" in frame.f_globals.get("__name__", "")


for name in HIDDEN & set(sys.modules):
    sys.modules["_kept_" + name] = sys.modules.pop(name)
sys.meta_path.insert(0, Hider())
"""

IMPORT_ALL = """\
import pkgutil, sys
from importlib import import_module
import silot, silot_transport

names = []
for package in (silot_transport, silot):
    for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=print):
        try:
            import_module(info.name)
        except ModuleNotFoundError as error:
            # An extra that is not installed here is none of POSIX's.
            if error.name in HIDDEN:
                raise
        except silot.errors.SilotError as error:
            if not error.code.startswith("extra-"):
                raise
        names.append(info.name)
print(len(names))
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "sitecustomize.py").write_text(HIDE)
    paths = [str(tmp_path / "hidden"), *filter(None, sys.path)]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "COLUMNS": "80"}


def run(environment: dict[str, str], *words: str, cwd: Path | None = None) -> str:
    done = subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, check=False,
        cwd=cwd,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_module_that_needs_posix_is_noticed(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "hidden" / "silot_needs.py").write_text("import fcntl\n")
    with pytest.raises(AssertionError, match="No module named 'fcntl'"):
        run(environment, "-c", "import silot_needs")


@pytest.mark.heavy
def test_every_module_is_imported_without_posix(environment: dict[str, str]) -> None:
    code = f"from sitecustomize import HIDDEN\n{IMPORT_ALL}"
    assert int(run(environment, "-c", code)) > 200


@pytest.mark.slow
def test_commands_of_one_machine_run_without_posix(
    environment: dict[str, str], tmp_path: Path
) -> None:
    def silot(*words: str) -> str:
        code = "from silot.cli import main; main()"
        return run(environment, "-c", code, *words, cwd=tmp_path)

    for name, shift in (("a", 0), ("b", 1), ("public", 0)):
        rows = "".join(f"{i % 17 + shift},{i * 7 % 23 + shift}\n" for i in range(60))
        (tmp_path / f"{name}.csv").write_text(f"x,y\n{rows}")
    assert silot("--version").startswith("silot ")
    assert "trianglewad" in silot("privacy", "methods")
    far = json.loads(silot("distance", "a.csv", "b.csv", "--method", "direct", "--json"))
    assert far["lower"] <= far["value"] <= far["upper"] and far["value"] > 0.0
    silot("value", "a.csv", "b.csv", "--validation", "public.csv")
    code = "from silot.privacy import Ledger; Ledger('a.ledger').close()"
    run(environment, "-c", code, cwd=tmp_path)
    assert "mu" in silot("privacy", "ledger", "show", "a.ledger")
    silot("doctor")
    assert "kit-elsewhere" in silot("doctor", "kit-elsewhere")
