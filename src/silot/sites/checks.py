"""What the admin of a site is to know of it: whether all is well, in plain sentences."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from .. import __version__
from ..errors import SilotError
from ..federation.party import Holder
from . import running
from .joined import LOG, Joined, Log
from .kit import OWN, Kit
from .reach import reach
from .secure._engine import absent
from .secure._link import listening
from .words import waiting

State = Literal["well", "warning", "wrong"]

_SOON = timedelta(days=30)
# Bytes that a ledger and a log need for a long while.
_FREE = 1 << 30
_LEAST_FREE = 1 << 26


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    name
        What.
    state
        Whether it is well.
    text
        What was seen, and what to do.
    code
        Of what is wrong.
    """

    name: str
    state: State
    text: str
    code: str = ""


def check_site(kit: Kit) -> list[Finding]:
    """All that can be looked at beside the site's process; nothing is written."""
    found = [_tried("certificate", lambda: _certificate(kit))]
    found.append(_tried("server", lambda: _server(kit)))
    try:
        joined = Joined.load(kit)
    except SilotError as error:
        return [*found, _wrong("data", error)]
    data, taught = joined.data, joined.teacher
    found += [] if data is None else [_tried("data", lambda: _data(kit, joined, data))]
    if taught is not None:
        found.append(_tried("teacher", lambda: Finding("teacher", "well", taught.sentence())))
    found += [
        _tried("policy", lambda: _policy(joined)),
        *_secure(joined),
        _tried("ledger", lambda: _ledger(joined)),
        _disk({"kit": kit.folder, "ledger": joined.ledger.parent}),
        Finding(
            "clock", "well",
            f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC; askers see how far it is off",
        ),
    ]  # fmt: skip
    return found


def _tried(name: str, look: Callable[[], Finding]) -> Finding:
    try:
        return look()
    except SilotError as error:
        return _wrong(name, error)


def _wrong(name: str, error: SilotError) -> Finding:
    return Finding(name, "wrong", error.message, error.code)


def _certificate(kit: Kit) -> Finding:
    until = kit.identity().member().until
    if until - datetime.now(UTC) < _SOON:
        text = (
            f"expires at {until:%Y-%m-%d %H:%M} UTC. Renew it: have the coordinator sign the same "
            "request again, then `silot site join`"
        )
        return Finding("certificate", "warning", text, "certificate-soon")
    return Finding("certificate", "well", f"{kit.name}, until {until:%Y-%m-%d}")


def _server(kit: Kit) -> Finding:
    wrong = reach(kit)
    where = f"{kit.project.host}:{kit.project.port}"
    return (
        Finding("server", "well", f"{where}, reached") if wrong is None else _wrong("server", wrong)
    )


def _data(kit: Kit, joined: Joined, data: Path) -> Finding:
    measure = joined.measure(data)
    text = f"{data.name}: {measure.size} records of {measure.dimension} features"
    if _changed(kit, data):
        text += "; changed since the site was started: start it anew, it tells nothing until then"
        return Finding("data", "warning", text, "data-changed")
    with joined.account(readonly=True) as ledger:
        told = ledger.tally.data
    if told and told != Holder(measure).version:
        text += "; not those that exact numbers were told of: no more of them are told"
        return Finding("data", "warning", text, "policy-version")
    return Finding("data", "well", text)


def _policy(joined: Joined) -> Finding:
    rules, limits = joined.rules(), None
    if joined.data is not None:
        # What is wrong with the data is said of those.
        with suppress(SilotError):
            limits = Holder(joined.measure(joined.data), rules).limits
    return Finding("policy", "well", rules.explain(limits))


def _secure(joined: Joined) -> list[Finding]:
    """Whether the site can compute with those its policy names, where it names any."""
    with suppress(SilotError):
        rules = joined.rules()
        if rules.secure is None:
            return []
        if find_spec("spu") is None:
            return [_wrong("secure distances", absent())]
        at = rules.secure.listen
        try:
            listening(at).close()
        except OSError as error:
            text = f"cannot listen at {at} ({type(error).__name__}); well while one is computed"
            return [Finding("secure distances", "warning", text, "secure-address")]
        return [Finding("secure distances", "well", f"can listen at {at}")]
    return []


def _ledger(joined: Joined) -> Finding:
    rules = joined.rules()
    with joined.account(readonly=True) as ledger:
        ledger.verify()
        ledger.check_place()
        rows, spent, paused = len(ledger.entries()), ledger.spent, ledger.paused
        waits = sum(each.state == "waiting" for each in ledger.waiting)
    text = f"{rows} rows, all fit together; spent mu {spent:.4g}"
    if rules.privacy_epsilon is not None and math.isfinite(rules.privacy_epsilon):
        text += f" of {rules.budget_mu:.4g} (epsilon {rules.privacy_epsilon:g})"
    text += f"; {waiting(waits)}" if waits else ""
    if paused:
        text += "; paused: nothing is told until `silot site go-on`"
        return Finding("ledger", "warning", text, "holder-paused")
    return Finding("ledger", "well", text)


def _disk(places: dict[str, Path]) -> Finding:
    free = {name: shutil.disk_usage(place).free for name, place in places.items()}
    text = ", ".join(f"{size / 1e9:.1f} GB free for the {name}" for name, size in free.items())
    if min(free.values()) < _LEAST_FREE:
        return Finding("disk", "wrong", f"{text}. Nothing is told once it is full", "disk-full")
    if min(free.values()) < _FREE:
        return Finding("disk", "warning", f"{text}. Nothing is told once it is full", "disk-low")
    return Finding("disk", "well", text)


def _changed(kit: Kit, data: Path) -> bool:
    """Whether data were changed, moved or replaced since the site was started, if it runs."""
    began = running.since(kit)
    try:
        return began is not None and data.stat().st_ctime > began
    except OSError:
        return True


def status_of(kit: Kit) -> dict[str, Any]:
    """What a site does now, in facts."""
    joined, began = Joined.load(kit), running.since(kit)
    with joined.account(readonly=True, walk=False) as ledger:
        waits = sum(each.state == "waiting" for each in ledger.waiting)
        paused, spent, allowed = ledger.paused, ledger.spent, ledger.allowed
    lines = Log(kit.folder / OWN / LOG).lines()
    changed = joined.data is not None and _changed(kit, joined.data)
    return {
        "name": kit.name, "project": kit.project.name, "silot": __version__,
        "server": f"{kit.project.host}:{kit.project.port}",
        "running_since": None if began is None else datetime.fromtimestamp(began, UTC).isoformat(
            timespec="seconds"
        ),
        "paused": paused, "data_changed": changed, "waiting": waits, "spent_mu": spent,
        "questions": len(lines),
        "allowed": [
            vars(each) | {"since": each.since.isoformat(), "until": each.until.isoformat()}
            for each in allowed
        ],
        "last": lines[-1].get("time") if lines else None,
    }  # fmt: skip


__all__ = ["Finding", "check_site", "status_of"]
