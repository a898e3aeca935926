"""Secure commands of README and docs, where their engine is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.test_pages import LISTS, at_desk, desk

from .needs import needs_spu

pytestmark = [needs_spu, pytest.mark.slow]
__all__ = ["desk"]

COMMANDS = [command for _, command in LISTS if "--method secure" in command]


@pytest.mark.parametrize("command", COMMANDS)
def test_secure_commands_end_well(command: str, desk: Path) -> None:
    done = at_desk(desk, command)
    assert done.returncode == 0, done.stdout + done.stderr


def test_there_is_one() -> None:
    assert COMMANDS
