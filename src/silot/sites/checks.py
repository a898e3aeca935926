"""Checks of a site: its certificate, server, data, rules, ledger and disk, in plain sentences."""

from __future__ import annotations

import math
import os
import shutil
import socket
import ssl
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.client import HTTPConnection, HTTPException
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

from .. import __version__
from ..errors import HolderError, MismatchError, SilotError
from ..render.words import count, listed
from .configuration import SiteConfiguration
from .descriptions import count_waiting
from .kit import Kit
from .process_lock import locked_since
from .project import bracket
from .secure._engine import missing_spu
from .secure._link import listen

State = Literal["well", "warning", "wrong"]

_SOON = timedelta(days=30)
# Bytes that a ledger needs for years, and those below which they may fill the disk today.
_FREE, _LEAST_FREE = 1 << 30, 1 << 26
# Seconds to connect to the server.
_PATIENCE = 10.0
# OpenSSL's numbers of a certificate that is not valid yet, or no longer.
_EXPIRED = (9, 10)


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    """What was checked."""
    state: State
    """Whether it is well."""
    text: str
    """What was observed, and what to do."""
    code: str = ""
    """Of what is wrong."""


def check_site(kit: Kit) -> list[Finding]:
    """Check all that can be checked beside the site's process; nothing is written."""
    findings = [
        _run_check("certificate", lambda: _check_certificate(kit)),
        _run_check("server", lambda: _check_connection(kit)),
    ]
    try:
        configuration = SiteConfiguration.load(kit)
    except SilotError as error:
        return [*findings, _report("data", error)]
    data, teacher = configuration.data, configuration.teacher
    if data is not None:
        findings.append(_run_check("data", lambda: _check_data(kit, configuration, data)))
    if teacher is not None:
        findings.append(
            _run_check("teacher", lambda: Finding("teacher", "well", teacher.describe()))
        )
    return [
        *findings,
        _run_check("policy", lambda: _check_policy(configuration)),
        *_check_secure(configuration),
        _run_check("ledger", lambda: _check_ledger(configuration)),
        _check_disk({"kit": kit.folder, "ledger": configuration.ledger.parent}),
        Finding(
            "clock", "well",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; askers see how wrong it is",
        ),
    ]  # fmt: skip


def _run_check(name: str, check: Callable[[], Finding]) -> Finding:
    try:
        return check()
    except SilotError as error:
        return _report(name, error)


def _report(name: str, error: SilotError) -> Finding:
    return Finding(name, "wrong", error.message, error.code)


def _check_certificate(kit: Kit) -> Finding:
    until = kit.identity().member().until
    if until - datetime.now(UTC) < _SOON:
        text = (
            f"expires at {until:%Y-%m-%d %H:%M} UTC. Renew it: have the coordinator sign the same "
            "request again, then `silot site join`"
        )
        return Finding("certificate", "warning", text, "certificate-soon")
    return Finding("certificate", "well", f"{kit.name}, until {until:%Y-%m-%d}")


def _check_connection(kit: Kit) -> Finding:
    fault = find_server_fault(kit)
    if fault is not None:
        return _report("server", fault)
    return Finding("server", "well", f"{kit.project.address}, reached")


def _check_data(kit: Kit, configuration: SiteConfiguration, data: Path) -> Finding:
    measure = configuration.read_measure(data)
    text = f"{data.name}: {measure.size} records of {measure.dimension} features"
    if _is_changed(kit, data):
        text += (
            "; changed after the site was started: restart the site, which discloses "
            "nothing until then"
        )
        return Finding("data", "warning", text, "data-changed")
    return Finding("data", "well", text)


def _check_policy(configuration: SiteConfiguration) -> Finding:
    return Finding("policy", "well", configuration.read_policy().explain())


def _check_secure(configuration: SiteConfiguration) -> list[Finding]:
    """Check whether the site can compute with the members its policy names, if it names any."""
    name = "secure distances"
    with suppress(SilotError):
        rules = configuration.read_policy()
        if rules.secure is None:
            return []
        if find_spec("spu") is None:
            return [_report(name, missing_spu())]
        address = rules.secure.listen
        try:
            listen(address).close()
        except OSError as error:
            text = (
                f"cannot listen at {address} ({type(error).__name__}), which is normal while a "
                "distance is computed"
            )
            return [Finding(name, "warning", text, "secure-address")]
        return [Finding(name, "well", f"can listen at {address}")]
    return []


def _check_ledger(configuration: SiteConfiguration) -> Finding:
    rules = configuration.read_policy()
    with configuration.open_ledger(readonly=True) as ledger:
        ledger.verify()
        ledger.check_place()
        rows, account, is_paused = ledger.size, ledger.account, ledger.paused
        waits = sum(question.state == "waiting" for question in ledger.waiting)
    text = f"{count(rows, 'row')}, the chain is intact; spent mu {account.spent:.4g}"
    if rules.privacy_epsilon is not None and math.isfinite(rules.privacy_epsilon):
        text += f" of {rules.budget_mu:.4g} (epsilon {rules.privacy_epsilon:g})"
    others = [name for name, mu in account.ledgers[1:] if mu]
    text += f", by {listed(others, 2)} too, about the same people" if others else ""
    text += f"; {count_waiting(waits)}" if waits else ""
    if is_paused:
        text += "; paused: nothing is disclosed until `silot site resume`"
        return Finding("ledger", "warning", text, "holder-paused")
    return Finding("ledger", "well", text)


def _check_disk(places: dict[str, Path]) -> Finding:
    free = {name: shutil.disk_usage(place).free for name, place in places.items()}
    text = ", ".join(f"{size / 1e9:.1f} GB free for the {name}" for name, size in free.items())
    if min(free.values()) < _LEAST_FREE:
        return Finding("disk", "wrong", f"{text}. If full, nothing is disclosed", "disk-full")
    if min(free.values()) < _FREE:
        return Finding("disk", "warning", f"{text}. If full, nothing is disclosed", "disk-low")
    return Finding("disk", "well", text)


def _is_changed(kit: Kit, data: Path) -> bool:
    """Return whether data were changed, moved or replaced since the site was started."""
    began = locked_since(kit)
    try:
        return began is not None and data.stat().st_ctime > began
    except OSError:
        return True


def describe_status(kit: Kit) -> dict[str, Any]:
    """Return what a site does now, in facts."""
    configuration, began = SiteConfiguration.load(kit), locked_since(kit)
    with configuration.open_ledger(readonly=True, walk=False) as ledger:
        waits = sum(question.state == "waiting" for question in ledger.waiting)
        is_paused, spent, allowed = ledger.paused, ledger.account.spent, ledger.allowed
        questions, _ = ledger.count_history()
        latest = list(ledger.read_latest("question", last=1))
    is_changed = configuration.data is not None and _is_changed(kit, configuration.data)
    return {
        "name": kit.name, "project": kit.project.name, "silot": __version__,
        "server": kit.project.address,
        "running_since": None if began is None else datetime.fromtimestamp(began, UTC).isoformat(
            timespec="seconds"
        ),
        "paused": is_paused, "data_changed": is_changed, "waiting": waits, "spent_mu": spent,
        "questions": questions,
        "allowed": [
            vars(span) | {"since": span.since.isoformat(), "until": span.until.isoformat()}
            for span in allowed
        ],
        "last": latest[0].time if latest else None,
    }  # fmt: skip


def find_server_fault(kit: Kit, patience: float = _PATIENCE) -> SilotError | None:
    """Return why the server cannot be used from this machine; ``None`` if it can.

    The connection is made with the certificates of both ends, and closed again; ``patience`` is
    the seconds of each of its steps.
    """
    project, (root, certificate, key) = kit.project, kit.files
    where = project.address
    try:
        context = ssl.create_default_context(cafile=str(root))
        context.load_cert_chain(certificate, key)
        context.set_alpn_protocols(["h2"])
        with _open_line(project.host, project.port, patience) as plain:
            plain.settimeout(patience)
            with context.wrap_socket(plain, server_hostname=project.host) as secure:
                # Under TLS 1.3 a server refuses a certificate after the handshake: that shows
                # instead of the first bytes it sends, which are the settings of HTTP/2.
                if not secure.recv(1):
                    raise ssl.SSLError("closed")
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _EXPIRED:
            return MismatchError(
                f"the certificate of the server at {where} is not valid now "
                f"({error.verify_message}). Correct this machine's clock, or have the "
                "coordinator renew it: `silot project renew`.",
                code="server-expired",
            )
        return MismatchError(
            f"the program that listens at {where} has no certificate of this project for "
            f"{project.host} ({error.verify_message}). Check the address, and whose kit this is.",
            code="server-certificate",
        )
    except ssl.SSLError:
        return MismatchError(
            f"the server at {where} does not accept the certificate of {kit.name!r}. It may have "
            "expired, or be of another project: `silot site check`.",
            code="server-refuses",
        )
    except socket.gaierror:
        return HolderError(
            f"the name {project.host!r} cannot be resolved here. Check DNS, or /etc/hosts.",
            code="server-name",
        )
    except OSError as error:
        return HolderError(
            f"nothing answers at {where} ({type(error).__name__}). Check that "
            "`silot project serve` runs there, and the firewall in between.",
            code="server-unreachable",
        )
    return None


def _open_line(host: str, port: int, patience: float = _PATIENCE) -> socket.socket:
    """Connect as the engine does: through a proxy where the environment names one."""
    proxy = _setting("grpc_proxy", "https_proxy", "http_proxy")
    past = [item.strip().lstrip(".") for item in _setting("no_grpc_proxy", "no_proxy").split(",")]
    if not proxy or any(name and f".{host}".endswith(f".{name}") for name in past):
        return socket.create_connection((host, port), patience)
    place = urlsplit(proxy if "//" in proxy else f"http://{proxy}")
    line = HTTPConnection(place.hostname or "", place.port or 80, timeout=patience)
    headers = {}
    if place.username:
        pair = f"{unquote(place.username)}:{unquote(place.password or '')}".encode()
        headers["Proxy-Authorization"] = f"Basic {b64encode(pair).decode()}"
    line.set_tunnel(bracket(host), port, headers)
    try:
        line.connect()
    except (HTTPException, OSError) as error:
        line.close()
        if isinstance(error, OSError):
            raise
        raise OSError from error
    return line.sock


def _setting(*names: str) -> str:
    """Return the first of these variables that is set."""
    return next((os.environ[name] for name in names if os.environ.get(name)), "")


def check_server(kit: Kit, patience: float) -> None:
    """Raise where another server listens than the project's: to try again would not help.

    Raises a ``MismatchError`` (``server-certificate`` or ``server-expired``).
    """
    fault = find_server_fault(kit, patience)
    if fault is not None and fault.code in ("server-certificate", "server-expired"):
        raise fault
