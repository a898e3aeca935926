"""Three processes of a secure distance on this machine, linked by TLS."""

from __future__ import annotations

import socket
import sys
from importlib.util import find_spec
from pathlib import Path

from evidence.common import MissingError

ROLES = ("a", "b", "third")
COMMAND = [sys.executable, "-c", "from silot.cli import main; main()", "distance", "secure"]


def need_engine() -> None:
    """``MissingError`` outside the environment of ``make secure``."""
    if find_spec("spu") is None:
        raise MissingError("the engine of secure distances is not installed (make secure)")


def peers(place: Path) -> Path:
    """Keys and addresses of three parties, on ports that are free."""
    from silot.sites.secure import make_keys

    make_keys(place / "keys")
    path = place / "keys/peers.yml"
    text = path.read_text()
    for old, new in zip((9310, 9311, 9312), _ports(), strict=True):
        text = text.replace(str(old), str(new))
    path.write_text(text)
    return path


def _ports() -> list[int]:
    """Three that are free."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in ROLES]
    ports = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports
