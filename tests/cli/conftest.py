"""A command line in this process, as a run over sites keeps it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from silot.cli import app as application
from silot.cli.sites import RESUMED

Silot = Callable[..., str]


@pytest.fixture
def silot_(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Silot:
    def run(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["silot", *words])
        token = RESUMED.set(None)
        capsys.readouterr()
        try:
            application.build(*words)(list(words), standalone_mode=False)
        finally:
            RESUMED.reset(token)
        return capsys.readouterr().out

    return run
