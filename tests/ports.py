"""Ports of this machine for processes that a test starts."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens at, below those that outgoing connections get.

    An outgoing connection would take one while a server that is started anew does not listen yet;
    NVFlare's then runs on without a port.
    """
    ports: list[int] = []
    with ExitStack() as held:
        while len(ports) < count:
            port = random.SystemRandom().randrange(20_000, 32_000)
            try:
                held.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            ports.append(port)
    return ports
