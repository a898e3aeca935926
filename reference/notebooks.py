"""Notebooks kept as text: run, linked to pages, and with words for their pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

_SAME_SITE = re.compile(r'href="(?![a-z]+:|#|/)([^"#]+\.(?:md|py))(#[^"]*)?"')
_ALT = re.compile(r'^# %% alt="([^"]+)"', re.MULTILINE)
# What nbconvert writes where nobody said what a picture shows.
_NOBODY = "No description has been provided for this image"
_SECONDS = 300


def led(html: str, address: Callable[[str], str]) -> str:
    """Links to sources, such as ``../value.md``, lead to where ``address`` says that its page is.

    Markdown of other pages is mkdocs' to link; that of notebooks becomes HTML before it sees it.
    """
    return _SAME_SITE.sub(lambda found: f'href="{address(found[1])}{found[2] or ""}"', html)


def described(html: str, source: str) -> str:
    """Pictures of a notebook get the alt texts of the cells that draw them, in their order.

    Raises
    ------
    ValueError
        There are more pictures than texts, or fewer.
    """
    texts = _ALT.findall(source)
    parts = html.split(f'alt="{_NOBODY}"')
    if len(parts) != len(texts) + 1:
        raise ValueError(f"{len(parts) - 1} pictures have {len(texts)} alt texts.")
    shown = [f'alt="{escape(text)}"{part}' for text, part in zip(texts, parts[1:], strict=True)]
    return parts[0] + "".join(shown)


def run(source: Path, target: Path) -> None:
    """Run a script of cells, and keep it with what it printed and drew; an error is one."""
    # They are of `make docs`; tests of what else is here do without.
    import jupytext
    import nbformat
    from jupyter_client import AsyncKernelManager
    from nbclient import NotebookClient

    notebook: Any = jupytext.read(source)
    folder = {"metadata": {"path": str(source.parent)}}
    # Spoken to by sockets of this machine, each kernel by its own, and not by ports.
    with TemporaryDirectory() as sockets:
        kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=f"{sockets}/kernel")
        client = NotebookClient(
            notebook, km=kernel, timeout=_SECONDS, startup_timeout=_SECONDS, resources=folder
        )
        # It ends with the run, as those do that the client makes itself.
        client.owns_km = True
        client.execute()
    target.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, target)


class Runs:
    """Notebooks that run, a core each, until somebody needs them."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0))))
        self._runs: dict[Path, Future[None]] = {}

    def start(self, source: Path, target: Path) -> None:
        """Run one, when a core is free."""
        self._runs[target] = self._pool.submit(run, source, target)

    def finish(self, target: Path) -> None:
        """Wait for one, and raise what it raised."""
        if target in self._runs:
            self._runs[target].result()
