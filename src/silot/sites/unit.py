"""A unit of systemd that runs a site or the server of a project."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ..errors import TEMPORARY, InputError, explanations
from ..privacy.ledger_head import state_folder
from .authority import Role, describe_member
from .configuration import SiteConfiguration
from .health import VARIABLE
from .kit import Kit
from .process_lock import PLACE

# Variables that hold for the process of a unit as for the command that printed it.
_SETTINGS = ("SILOT_STATE", "XDG_STATE_HOME", VARIABLE, PLACE)
_UNIT = """\
[Unit]
Description={title}
Wants=network-online.target
After=network-online.target
RequiresMountsFor={mounts}
# A fault that passes by itself may last a night: restarts never end, but get rarer.
StartLimitIntervalSec=0

[Service]
User={owner}
{settings}ExecStart={command}
Restart=on-failure
RestartSec=15
RestartSteps=8
RestartMaxDelaySec=10min
# Faults that a restart does not cure (they last, or wait for a person): see `silot doctor CODE`.
RestartPreventExitStatus={lasting}
# Faults that pass by themselves: a lock, a full disk, a port, a server that is away.
RestartForceExitStatus={temporary}
UMask=0077
NoNewPrivileges=yes
PrivateTmp=yes
ProtectSystem=strict
{writes}
[Install]
WantedBy=multi-user.target
"""


def format_unit(kit: Kit) -> str:
    """Write a unit of systemd that runs the kit's process, as the owner of its folder."""
    silot = Path(sys.executable).with_name("silot")
    if sys.platform == "win32":
        raise InputError(
            "units are for systemd, which Windows does not have. Run the command that "
            "`silot site run` is as a service, with a tool of your choice.",
            code="unit-owner",
        )
    owner = _owner_of(kit.folder)
    if kit.folder.stat().st_uid != os.getuid():
        # The unit names the user's folder of state, which would be another user's.
        raise InputError(
            f"the kit is of {owner!r}, who must print its unit: sudo -u {owner} {silot} site unit "
            f"{kit.folder}.",
            code="unit-owner",
        )
    words = "project serve" if kit.role is Role.SERVER else "site run"
    writes = [str(kit.folder)]
    settings = {name: os.environ[name] for name in _SETTINGS if os.environ.get(name)}
    if kit.role is Role.SITE:
        writes += [str(SiteConfiguration.load(kit).ledger.parent), str(state_folder())]
    # The words on the command line are wrong, or a code that is not ``TEMPORARY`` ended it.
    lasting = {2, *(said.exit_status for said in explanations().values() if said.exit_status)}
    return _UNIT.format(
        title=f"silot {describe_member(kit.role, kit.name)} of {kit.project.name}",
        owner=owner,
        lasting=" ".join(map(str, sorted(lasting))),
        temporary=TEMPORARY,
        settings="".join(f'Environment="{k}={_escape(value)}"\n' for k, value in settings.items()),
        command=f'"{_escape(str(silot))}" {words} "{_escape(str(kit.folder))}"',
        mounts=" ".join(f'"{_escape(path)}"' for path in dict.fromkeys(writes)),
        writes="".join(f'ReadWritePaths="{_escape(path)}"\n' for path in dict.fromkeys(writes)),
    )


def _owner_of(folder: Path) -> str:
    """Return the name of a folder's owner, or the number where the user has no name."""
    try:
        return folder.owner()
    except KeyError:
        return str(folder.stat().st_uid)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
