"""Ask the server and all sites of a project whether they answer, for who asks them."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ..errors import SilotError, reason
from ..federation.exchange import Limits, Unreached
from ..federation.message import VERSION
from .checks import find_server_fault
from .connection import Sites
from .kit import Kit

# Seconds to wait for a site, and sites that are asked at the same time.
_PATIENCE, _AT_ONCE = 20.0, 32


def ask_sites(kit: Kit) -> Mapping[str, dict[str, Any]]:
    """Return what each site of an asker's project says of itself, or raise why none can be asked.

    Facts have a ``code`` that says why a site does not answer, or an empty one.
    """
    # Slow to import, and says which extra is missing.
    from .flare import Wire

    fault = find_server_fault(kit)
    if fault is not None:
        raise fault
    wire, names = Wire(kit), kit.project.sites
    sites = Sites(kit.identity(), wire, names, limits=Limits(deadline=_PATIENCE))
    try:
        # All at once: each that is away takes its time.
        with ThreadPoolExecutor(min(len(names), _AT_ONCE)) as pool:
            answers = pool.map(lambda name: ask_about(sites, name), names)
            return dict(zip(names, answers, strict=True))
    finally:
        wire.close()


def ask_about(sites: Sites, name: str) -> dict[str, Any]:
    """Return what one site says of itself."""
    try:
        about = sites.about(name)
    except SilotError as error:
        return {"code": error.code, "message": error.message}
    except Unreached as error:
        code = error.code
        return {"code": code, "message": "it is not connected to the server or does not answer"}
    if about.wire != VERSION:
        return {"code": "wire-version", "message": reason("wire-version"), "silot": about.silot}
    return {
        "code": "", "silot": about.silot, "clock": round(about.clock, 3),
        "until": about.until.isoformat(), **about.facts,
    }  # fmt: skip
