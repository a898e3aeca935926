"""Health and numbers of a member's process, on loopback, for whoever supervises it.

``/health`` answers while the process runs. ``/ready`` answers 200 where it can do its work, else
503 and the codes of why not. ``/metrics`` has numbers in the text format of Prometheus. Nothing of
the data is in them, and no name but those of the project and the member.
"""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from .. import __version__
from ..errors import SilotError, nature_of
from ..privacy.accounting import epsilon_of
from .authority import Role
from .checks import describe_status
from .configuration import SiteConfiguration
from .deployment import port_taken
from .kit import Kit

VARIABLE = "SILOT_HEALTH"
"""Names the port in the environment of the process."""

_DAY = 86400.0
_LEAST_FREE = 1 << 26
_HELP = {
    "up": "1 while the process runs",
    "ready": "1 if it can do its work",
    "connected": "1 if the server answered the site's last message, or the server listens",
    "certificate_days": "Days until the certificate expires",
    "disk_free_bytes": "Free bytes of the disk with the kit",
    "paused": "1 while a person keeps the site from answering",
    "data_changed": "1 if the data file changed since the start",
    "waiting_questions": "Questions that wait for a person",
    "questions_total": "Questions that reached the site",
    "answered_total": "Questions that were answered, since the process began",
    "refused_total": "Questions that were refused, since the process began",
    "waiting_total": "Questions that had to wait for a person, since the process began",
    "failed_total": "Questions that failed, since the process began",
    "rejected_total": "Messages that were not accepted, since the process began",
    "privacy_mu_spent": "Privacy loss charged to the ledger, as mu of Gaussian privacy",
    "privacy_mu_left": "Privacy loss that the policy still allows, as mu; infinite without a limit",
    "privacy_epsilon_spent": "Privacy loss charged to the ledger, as epsilon at the policy's delta",
    "privacy_epsilon_left": "The policy's epsilon minus what was spent; infinite without a limit",
    "ledger_bytes": "Size of the ledger",
    "connections": "Connections of members with the server",
    "members": "Members with a connection",
    "full": "1 if the server accepts no more connections of the site",
    "full_total": "Connections refused or ended because there were too many, of their member "
    "or in total",
    "relayed_total": "Questions forwarded to sites",
}


def read_numbers(kit: Kit) -> tuple[dict[str, float], list[str]]:
    """Return the numbers of a member, and the codes of why it is not ready."""
    codes: list[str] = []
    numbers: dict[str, float] = {"up": 1.0}
    try:
        until = kit.identity().member().until
        numbers["certificate_days"] = (until - datetime.now(UTC)).total_seconds() / _DAY
    except SilotError as error:
        codes.append(error.code)
    places = [kit.folder]
    if kit.role is Role.SITE:
        try:
            configuration = SiteConfiguration.load(kit)
            places.append(configuration.ledger.parent)
            numbers |= _of_site(kit, configuration, codes)
        except SilotError as error:
            codes.append(error.code)
    # Of the fullest disk, where the ledger has another one than the kit.
    with suppress(OSError):
        numbers["disk_free_bytes"] = float(min(shutil.disk_usage(item).free for item in places))
    if numbers.get("disk_free_bytes", 0.0) < _LEAST_FREE:
        codes.append("disk-full")
    return numbers, codes


def _of_site(kit: Kit, configuration: SiteConfiguration, codes: list[str]) -> dict[str, float]:
    status = describe_status(kit)
    rules = configuration.read_policy()
    if status["paused"]:
        codes.append("holder-paused")
    if status["data_changed"]:
        codes.append("data-changed")
    # Without a budget no release is allowed.
    # By squares, as they add up.
    remaining = max((rules.budget_mu or 0.0) ** 2 - status["spent_mu"] ** 2, 0.0) ** 0.5
    spent = epsilon_of(status["spent_mu"], rules.privacy_delta) if status["spent_mu"] else 0.0
    return {
        "paused": float(status["paused"]),
        "data_changed": float(status["data_changed"]),
        "waiting_questions": float(status["waiting"]),
        "questions_total": float(status["questions"]),
        "privacy_mu_spent": float(status["spent_mu"]),
        "privacy_mu_left": remaining,
        "privacy_epsilon_spent": spent,
        "privacy_epsilon_left": max((rules.privacy_epsilon or 0.0) - spent, 0.0),
        "ledger_bytes": float(configuration.ledger.stat().st_size),
    }


def _find_connection_faults(numbers: Mapping[str, float]) -> list[str]:
    if numbers.get("full"):
        return ["server-full"]
    return ["server-unreachable"] if numbers.get("connected") == 0.0 else []


def _format_labels(**labels: str) -> str:
    return ",".join(f'{name}="{value}"' for name, value in labels.items())


def format_metrics(kit: Kit, numbers: Mapping[str, float], codes: Collection[str] = ()) -> str:
    """Write numbers in the text format of Prometheus, and each fault with its nature."""
    labels = _format_labels(project=kit.project.name, member=kit.name, role=kit.role)
    faults = [_format_labels(code=code, nature=nature_of(code)) for code in dict.fromkeys(codes)]
    lines = [
        "# HELP silot_info Version of silot",
        "# TYPE silot_info gauge",
        f"silot_info{{{labels},{_format_labels(version=__version__)}}} 1",
        "# HELP silot_fault Why it is not ready, and whether that ends by itself",
        "# TYPE silot_fault gauge",
        *(f"silot_fault{{{labels},{fault}}} 1" for fault in faults),
    ]
    for name, value in numbers.items():
        kind = "counter" if name.endswith("_total") else "gauge"
        lines += [
            f"# HELP silot_{name} {_HELP[name]}",
            f"# TYPE silot_{name} {kind}",
            f"silot_{name}{{{labels}}} {'NaN' if math.isnan(value) else repr(float(value))}",
        ]
    return "\n".join(lines) + "\n"


def serve_health(kit: Kit, port: int, more: Callable[[], Mapping[str, float]]) -> int:
    """Answer on 127.0.0.1 in a thread of its own, until the process ends; return the port.

    ``more`` are numbers that only the process has; ``connected`` of 0 is not ready.

    Raises
    ------
    FileError
        ``port-taken``: another process has the port.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.headers.get("Host", "").split(":")[0] not in ("127.0.0.1", "localhost"):
                # A page of the web may give its own name to this address.
                self._send(403, "ask for 127.0.0.1\n")
                return
            path = self.path.split("?")[0]
            if path == "/health":
                # Reads no file: a disk that hangs must not look like a process that does.
                self._send(200, "ok\n")
                return
            if path not in ("/ready", "/metrics"):
                self._send(404, "health, ready or metrics\n")
                return
            numbers, codes = read_numbers(kit)
            numbers |= more()
            codes += _find_connection_faults(numbers)
            numbers["ready"] = float(not codes)
            if path == "/ready":
                self._send(503 if codes else 200, "".join(f"{c}\n" for c in codes) or "ready\n")
            else:
                self._send(200, format_metrics(kit, numbers, codes), "text/plain; version=0.0.4")

        def _send(self, status: int, text: str, kind: str = "text/plain") -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", f"{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Nothing: whoever supervises asks every few seconds."""

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError:
        raise port_taken(port) from None
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port
