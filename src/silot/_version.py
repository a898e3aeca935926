"""The version of this copy of silot: its release, and the commit where it is not a tagged release.

hatchling runs this file to name what it builds. A wheel has the version in its metadata, and a
source distribution in its ``PKG-INFO``, so neither needs git.
"""

import re
import subprocess
from importlib.metadata import distributions
from pathlib import Path

RELEASE = "0.1.0"


def read_version() -> str:
    """Return the version: ``0.1.0`` at the tag ``v0.1.0``, else such as ``0.1.0+g2ee8071``.

    ``.dirty`` at the end means files that differ from the commit, and ``+unknown`` sources that are
    neither installed nor in a clone of git.
    """
    root = Path(__file__).parents[2]
    # Of an installed copy this folder may be in a clone of something else.
    if (root / ".git").exists() and (root / "packages" / "silot-transport").exists():
        return _describe_clone(root)
    # Another copy may be installed elsewhere.
    installed = [*distributions(name="silot", path=[str(Path(__file__).parents[1])])]
    return installed[0].version if installed else f"{RELEASE}+unknown"


def _describe_clone(root: Path) -> str:
    describe = f"describe --tags --match v{RELEASE} --always --long --abbrev=7 --dirty=.dirty"
    try:
        # Named in full, as a hook of git has another clone's in its environment.
        run = subprocess.run(
            ["git", f"--git-dir={root / '.git'}", f"--work-tree={root}", *describe.split()],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except OSError:
        return f"{RELEASE}+unknown"
    parts = re.fullmatch(r"(?:v.*-(\d+)-g)?([0-9a-f]+)(\.dirty)?", run.stdout.strip())
    if parts is None:
        return f"{RELEASE}+unknown"
    commits, commit, dirty = parts.groups("")
    return RELEASE if commits == "0" and not dirty else f"{RELEASE}+g{commit}{dirty}"


__version__ = read_version()
