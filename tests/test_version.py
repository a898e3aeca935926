"""The version names the commit in a clone, and is frozen in whatever is built from one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from silot._version import RELEASE

ROOT = Path(__file__).parents[1]


def git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    return subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    ).stdout.strip()


def read(root: Path) -> str:
    """Return the version that the copy of silot below a folder says it has."""
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['__version__'])"
    words = [sys.executable, "-c", code, str(root / "src" / "silot" / "_version.py")]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone with one commit, and what makes a folder one of silot's."""
    for path in ("src/silot/_version.py", "packages/silot-transport/README.md"):
        (tmp_path / path).parent.mkdir(parents=True)
        (tmp_path / path).write_bytes((ROOT / path).read_bytes())
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "one")
    return tmp_path


def test_a_clone_without_tags_has_the_release_and_the_commit(clone: Path) -> None:
    commit = git(clone, "rev-parse", "--short=7", "HEAD")
    assert read(clone) == f"{RELEASE}+g{commit}"
    (clone / "packages/silot-transport/README.md").write_text("changed")
    assert read(clone) == f"{RELEASE}+g{commit}.dirty"


def test_a_tagged_release_has_no_commit_and_the_commits_after_it_have(clone: Path) -> None:
    git(clone, "tag", f"v{RELEASE}")
    assert read(clone) == RELEASE
    git(clone, "commit", "--quiet", "--allow-empty", "--message", "two")
    assert read(clone) == f"{RELEASE}+g{git(clone, 'rev-parse', '--short=7', 'HEAD')}"


def test_a_hook_of_another_clone_does_not_name_its_commit(
    clone: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(ROOT))
    version = read(clone)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert version == read(clone)


def test_sources_without_git_do_not_pretend_to_know_the_commit(clone: Path) -> None:
    (clone / ".git").rename(clone / "other")
    assert read(clone) == f"{RELEASE}+unknown"


def test_an_installed_copy_has_the_version_in_its_metadata(clone: Path) -> None:
    # As `pip install --target` puts it, in a clone of something else.
    (clone / "packages").rename(clone / "other")
    (clone / "src" / "silot-0.1.0+g1234567.dist-info").mkdir()
    (clone / "src" / "silot-0.1.0+g1234567.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.4\nName: silot\nVersion: 0.1.0+g1234567\n"
    )
    assert read(clone) == "0.1.0+g1234567"


def test_git_that_fails_is_no_version_of_anything(clone: Path) -> None:
    (clone / ".git" / "HEAD").write_text("nonsense")
    assert read(clone) == f"{RELEASE}+unknown"
