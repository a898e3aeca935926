"""The unit file by which systemd runs a site, or a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from ..errors import InputError
from ..privacy._ledger_head import state_folder
from .authority import Role
from .joined import Joined
from .kit import Kit


def unit(kit: Kit) -> str:
    """Lines of a unit that runs the kit's process, as the owner of its folder."""
    silot = Path(sys.executable).with_name("silot")
    owner = kit.folder.owner()
    if kit.folder.stat().st_uid != os.getuid():
        # The folder of state would be another's.
        raise InputError(
            f"the kit is of {owner!r}, who must print its unit: sudo -u {owner} {silot} site unit "
            f"{kit.folder}.",
            code="unit-owner",
        )
    group = "deploy" if kit.role is Role.SERVER else "site"
    writes = [str(kit.folder)]
    settings: Mapping[str, str] = {
        name: os.environ[name] for name in ("SILOT_STATE", "XDG_STATE_HOME") if os.environ.get(name)
    }
    if kit.role is Role.SITE:
        writes += [str(Joined.load(kit).ledger.parent), str(state_folder())]
    lines = [
        "[Unit]",
        f"Description=silot {kit.role} {kit.name} of {kit.project.name}",
        "Wants=network-online.target",
        "After=network-online.target",
        "",
        "[Service]",
        f"User={owner}",
        *(f'Environment="{name}={_escaped(value)}"' for name, value in settings.items()),
        f'ExecStart="{_escaped(str(silot))}" {group} run "{_escaped(str(kit.folder))}"',
        "Restart=on-failure",
        "RestartSec=5",
        "# What a restart does not cure: files, rules, packages.",
        "RestartPreventExitStatus=2 3 4 9",
        "UMask=0077",
        "NoNewPrivileges=yes",
        "PrivateTmp=yes",
        "ProtectSystem=strict",
        *(f'ReadWritePaths="{_escaped(path)}"' for path in dict.fromkeys(writes)),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return "\n".join(lines)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")


__all__ = ["unit"]
