"""The server's lines to members: those of a site whose certificate was revoked are cut.

The engine takes in whoever has a certificate of the authority, and asks nothing more while the
line lasts: who has the keys of a revoked site could stand in its place, and not answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import lru_cache
from typing import Any

from cryptography import x509

from ..errors import SilotError
from . import running
from .authority import Role, member_of
from .credential import Identity

BEAT = 1.0
"""Seconds between two looks."""

# Seconds in which a site hears why, as it says that it runs; from then on it is cut as it comes.
_GRACE = 1.5 * running.BEAT
# What the engine signs with before it has read its own key, and keeps to for ever.
_UNSIGNED = "NA"


class Lines:
    """The engine's connections at its server.

    Parameters
    ----------
    cell
        Of the server.
    server
        The engine's own.
    own
        Who the server is: whose members are valid, and who was revoked.
    """

    def __init__(
        self, cell: Any, server: Any, own: Identity, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._cell, self._server, self._own, self._clock = cell, server, own, clock
        self._seen: dict[int, float] = {}

    def look(self) -> None:
        """Cut whose line must end, and have the engine sign what it sends."""
        if self._server.my_own_token_signature == _UNSIGNED:
            # Heard before it was ready. Askers take nothing that is not signed.
            self._server.my_own_token_signature = None
        for connection, certificate in self._lines():
            if self._ends(certificate):
                connection.close()

    def watch(self) -> None:
        """Look again and again, in a thread of its own, until the process ends."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(BEAT):
            # A line may end while it is looked at.
            with suppress(Exception):
                self.look()

    def _ends(self, certificate: x509.Certificate) -> bool:
        try:
            if certificate.serial_number not in self._own.revoked:
                return False
            # Also one out of its time: a line lasts longer than a certificate.
            found = member_of(certificate, self._own.root, now=certificate.not_valid_before_utc)
            # An asker is refused at each message, with a code, and stands in nobody's place.
            if found.role is not Role.SITE:
                return False
        except SilotError:
            return False
        now = self._clock()
        return now - self._seen.setdefault(found.serial, now) >= _GRACE

    def _lines(self) -> Iterator[tuple[Any, x509.Certificate]]:
        for line in list(self._cell.core_cell.communicator.conn_manager.sfm_conns.values()):
            # Of the server's own ends, those that are closed have none.
            context = getattr(line.conn, "context", None)
            shown = () if context is None else context.auth_context().get("x509_pem_cert", ())
            for pem in shown[:1]:
                yield line.conn, _certificate(bytes(pem))


@lru_cache(maxsize=4096)
def _certificate(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


__all__ = ["Lines"]
