"""What the previous tagged version wrote is read, and its sites are answered or refused by a code.

The version is built from its tag. A clone without tags skips these tests.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from silot import Schema
from silot._version import RELEASE
from silot.errors import MismatchError, SilotError
from silot.federation import Transcript
from silot.federation.question import decode_question
from silot.privacy import Ledger
from silot.sites.credential import check_version

pytestmark = [pytest.mark.nightly]

ROOT = Path(__file__).parents[1]
# What the previous version writes into a folder.
WRITE = """\
from pathlib import Path
import numpy as np
import silot
from silot.distances.questions import Moments
from silot.federation import question
from silot.privacy import Ledger

schema = silot.Schema.of({"columns": {"age": {"kind": "number", "range": [0, 100]}}})
Path("schema.yml").write_text(schema.text())
Path("question").write_bytes(question.encode_question(Moments()))
points = np.random.default_rng(0).normal(size=(40, 2))
silot.distance(points, points + 1.0, method="direct").transcript.save("run.transcript")
Ledger("north.ledger", state="state").close()
print(silot.__version__)
"""


def git(*words: str) -> bytes:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False).stdout


def find_previous() -> str:
    """Return the newest tag of a release before this commit's own; empty if there is none."""
    tags = git("tag", "--list", "v*", "--merged", "HEAD", "--sort=-version:refname")
    return next((tag for tag in tags.decode().split() if tag != f"v{RELEASE}"), "")


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """Build the previous version, have it write its files, and return its version and them."""
    tag = find_previous()
    if not tag:
        pytest.skip("no earlier version has a tag")
    folder = tmp_path_factory.mktemp("previous")
    source, built = folder / "source", folder / "built"
    git("clone", "--quiet", "--depth", "1", "--branch", tag, f"file://{ROOT}", str(source))
    parts = [str(source / "packages" / "silot-transport"), str(source)]
    install = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", str(built))
    subprocess.run([sys.executable, *install, *parts], check=True)
    environment = os.environ | {"PYTHONPATH": str(built)}
    done = subprocess.run(
        [sys.executable, "-c", WRITE], cwd=folder, env=environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), folder


def test_the_version_is_that_of_the_tag(previous: tuple[str, Path]) -> None:
    assert previous[0].partition("+")[0] == find_previous().removeprefix("v")


@pytest.mark.parametrize(
    ("name", "read", "code"),
    [
        ("schema.yml", Schema.load, "schema-invalid"),
        ("question", lambda path: decode_question(path.read_bytes()), "wire-version"),
        ("run.transcript", Transcript.load, "file-version"),
    ],
)
def test_what_it_wrote_is_read_or_refused_by_the_code_of_its_format(
    previous: tuple[str, Path], name: str, read: Callable[[Path], object], code: str
) -> None:
    try:
        read(previous[1] / name)
    except SilotError as error:
        assert error.code == code


def test_its_ledger_is_read(previous: tuple[str, Path]) -> None:
    Ledger(previous[1] / "north.ledger", state=previous[1] / "state").close()


def test_its_sites_are_answered_where_release_and_minor_version_agree(
    previous: tuple[str, Path],
) -> None:
    if previous[0].split(".")[:2] == RELEASE.split(".")[:2]:
        check_version(previous[0])
    else:
        with pytest.raises(MismatchError, match="silot-version"):
            check_version(previous[0])
