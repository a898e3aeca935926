"""A small disk that a test fills: a tmpfs, where it may be mounted."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Disk:
    """A disk with nothing but what a test puts there."""

    folder: Path

    def fill(self) -> None:
        """Leave no room, not for a byte in a file that there is."""
        with suppress(OSError), (self.folder / "ballast").open("wb", 0) as file:
            while True:
                file.write(bytes(4096))

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()

    @contextmanager
    def full(self) -> Iterator[None]:
        self.fill()
        try:
            yield
        finally:
            self.make_room()


@contextmanager
def small_disk(folder: Path) -> Iterator[Disk]:
    """Mount a disk of 32 MB at a new folder; skip the test where that is not permitted."""
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=32m", "silot", str(folder)]
    try:
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    except OSError as error:
        pytest.skip(f"no disk can be mounted here ({error})")
    if done.returncode:
        pytest.skip(f"no disk can be mounted here ({done.stderr.strip()})")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
