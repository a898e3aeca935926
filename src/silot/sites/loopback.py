"""A server for one browser on this machine: what is asked of requests, and said in answers."""

from __future__ import annotations

import base64
import hashlib
import secrets
import socket
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from ..errors import ExtraError, FileError

if TYPE_CHECKING:
    from starlette.requests import Request

HOST = "127.0.0.1"
_LONGEST_FORM = 4096


async def read_form(request: Request) -> dict[str, str]:
    """Fields of a form; none where it is too long, or no form."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > _LONGEST_FORM:
            return {}
    try:
        return dict(parse_qsl(body.decode("ascii"), max_num_fields=10))
    except ValueError:
        return {}


def same(one: str, other: str) -> bool:
    """Whether two secrets are the same, in a time that tells nothing."""
    return secrets.compare_digest(one.encode("utf-8", "replace"), other.encode())


def plain(status: int, text: str) -> Any:
    """An answer of one line."""
    from starlette.responses import PlainTextResponse

    return PlainTextResponse(text, status_code=status)


def headers(style: str) -> tuple[tuple[bytes, bytes], ...]:
    """What every answer says to the browser: no script, no frame, no copy, nothing from elsewhere.

    A page without a referrer would have no origin either: forms must tell theirs.
    """
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; form-action 'self'; "
        "base-uri 'none'; frame-ancestors 'none'"
    )
    return (
        (b"content-security-policy", policy.encode()),
        (b"cache-control", b"no-store"),
        (b"referrer-policy", b"same-origin"),
        (b"x-content-type-options", b"nosniff"),
        (b"x-frame-options", b"DENY"),
        (b"cross-origin-opener-policy", b"same-origin"),
        (b"cross-origin-resource-policy", b"same-origin"),
    )


def bound(port: int) -> socket.socket:
    """A socket of this machine alone; 0 takes any port that is free.

    Raises
    ------
    FileError
        ``port-taken``.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
        # Whoever comes before the server runs waits for it.
        made.listen()
    except (OSError, OverflowError):
        made.close()
        raise FileError(
            f"port {port} of this machine is taken, or not free to use. Give another with --port, "
            "or none.",
            code="port-taken",
        ) from None
    return made


def load() -> Any:
    """The server's package, or say which extra to install."""
    try:
        import uvicorn
    except ModuleNotFoundError:
        raise absent() from None
    return uvicorn


def absent() -> ExtraError:
    """The error where the extra is not installed."""
    return ExtraError(
        "a site's page needs starlette and uvicorn. Run: pip install 'silot[console]'.",
        code="extra-console",
    )


__all__ = ["HOST", "absent", "bound", "headers", "load", "plain", "read_form", "same"]
