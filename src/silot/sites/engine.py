"""NVFlare's configuration in a kit, which shuts everything but carrying bytes, and its command."""

from __future__ import annotations

import ipaddress
import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import quote

from ..errors import ExtraError
from .authority import ROOT, Role
from .project import SERVER, Project, bracket

CHANNEL = "silot"

_COMPONENTS = {
    Role.SITE: "silot.sites.flare.SiteComponent",
    Role.SERVER: "silot.sites.flare.ServerComponent",
}
_USER_ROLES = ("project_admin", "org_admin", "lead", "member")
_RIGHTS = ("submit_job", "clone_job", "manage_job", "download_job", "view", "operate",
           "shell_commands", "byoc")  # fmt: skip


def set_grpc_environment() -> None:
    """Set what gRPC reads once, when it is loaded."""
    # Its remarks are of no use to an asker: what fails has a code of ours.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    # Names as the machine resolves them. gRPC's own resolver asks the name server for an address
    # of IPv6 even of a name in /etc/hosts, and where none answers, waits for it.
    os.environ.setdefault("GRPC_DNS_RESOLVER", "native")


def name_certificate(role: Role) -> str:
    """Return the name of a role's certificate and key files, without their endings."""
    return "server" if role is Role.SERVER else "client"


def name_startup(role: Role) -> str:
    """Return the name of the file from which NVFlare starts in a role."""
    words = {Role.SERVER: "server", Role.SITE: "client", Role.ASKER: "admin"}
    return f"fed_{words[role]}.json"


def make_target(project: Project) -> str:
    """Return where the server is, as NVFlare reads it.

    NVFlare cuts an address at its colons; what follows a question mark it takes as it is.
    """
    if ":" not in project.host:
        return project.address
    return f"{SERVER}:{project.port}?host={quote(bracket(project.host))}"


def choose_listening_host(project: Project) -> str:
    """Return the address at which the server listens: loopback where it is reached there alone."""
    if project.host == "localhost":
        return "127.0.0.1"
    with suppress(ValueError):
        if ipaddress.ip_address(project.host).is_loopback:
            return bracket(project.host)
    # gRPC takes this for every address of IPv4 and IPv6.
    return "0.0.0.0"


def configure_startup(project: Project, name: str, role: Role) -> dict[str, Any]:
    """Return how NVFlare connects."""
    service = {"target": make_target(project), "scheme": "grpc"}
    if role is Role.SERVER:
        # Where it listens is in the settings of its connections: NVFlare knows IPv4 alone.
        server = {
            "name": project.name, "service": {"target": f"localhost:{project.port}",
            "scheme": "grpc"}, "admin_server": "localhost",
            "admin_port": project.port, "ssl_private_key": "server.key", "ssl_cert": "server.crt",
            "ssl_root_cert": ROOT, "connection_security": "mtls",
        }  # fmt: skip
        return {"format_version": 2, "servers": [server]}
    if role is Role.SITE:
        client = {
            "ssl_private_key": "client.key", "ssl_cert": "client.crt", "ssl_root_cert": ROOT,
            "fqsn": name, "is_leaf": True, "connection_security": "mtls",
        }  # fmt: skip
        servers = [{"name": project.name, "service": service, "identity": SERVER}]
        return {"format_version": 2, "servers": servers, "client": client}
    admin = {
        "project_name": project.name, "username": name, "server_identity": SERVER,
        "scheme": "grpc", "host": project.host, "port": project.port,
        "connection_security": "mtls", "uid_source": "user_input", "with_file_transfer": False,
        "upload_dir": "transfer", "download_dir": "transfer", "client_key": "client.key",
        "client_cert": "client.crt", "ca_cert": ROOT,
    }  # fmt: skip
    return {"format_version": 1, "admin": admin}


def configure_local(project: Project, role: Role) -> dict[str, dict[str, Any]]:
    """Return the files that say what NVFlare may do: carry silot's messages."""
    if role is Role.ASKER:
        return {"comm_config.json": _STREAMING}
    resources: dict[str, Any] = {
        "format_version": 2, "class_list_enforcement_mode": "enforce",
        "class_allow_list": [_COMPONENTS[role]], "allow_log_streaming": False,
        "components": [{"id": CHANNEL, "path": _COMPONENTS[role], "args": {}}],
    }  # fmt: skip
    listening: dict[str, Any] = {}
    if role is Role.SITE:
        resources["client"] = {"retry_timeout": 30}
    else:
        resources["servers"] = [{"max_num_clients": 1000, "heart_beat_timeout": 60}]
        listening = {"grpc": _LISTENING | {"host": choose_listening_host(project)}}
    permissions = dict.fromkeys(_USER_ROLES, dict.fromkeys(_RIGHTS, "none"))
    return {
        "resources.json": resources,
        "authorization.json": {"format_version": "1.0", "permissions": permissions},
        "log_config.json": _LOGS,
        "comm_config.json": _STREAMING | listening,
    }


# NVFlare holds what it received for as long as its sender might repeat it: 65 s, by default.
# silot asks again itself, so that much shorter times are enough. Windows are large, because what
# is on its way is held twice.
_STREAMING: dict[str, Any] = {
    "streaming_retry_wait": 4.0, "streaming_retry_timeout": 1.0,
    "streaming_window_size": 1 << 24, "streaming_ack_interval": 1 << 22,
}  # fmt: skip

# Each connection keeps a thread as long as it lasts; those above the limit need one to be refused.
# Of a peer that is gone the ping says so. A line without a stream, or whose TLS never ends, is
# closed: no member of silot opens one.
MOST_CONNECTIONS = 1200
_LARGEST_FRAME = (1 << 31) - 1
_LISTENING: dict[str, Any] = {
    "max_workers": MOST_CONNECTIONS + 100,
    "options": [
        ["grpc.max_send_message_length", _LARGEST_FRAME],
        ["grpc.max_receive_message_length", _LARGEST_FRAME],
        ["grpc.keepalive_time_ms", 60_000],
        ["grpc.keepalive_timeout_ms", 20_000],
        ["grpc.max_connection_idle_ms", 60_000],
        ["grpc.server_handshake_timeout_ms", 20_000],
        ["grpc.so_reuseport", 0],
    ],
}

# The log is one file in the kit, turned over at 5 MB. It holds no message texts, which may quote
# data.
_LOGS: dict[str, Any] = {
    "version": 1, "disable_existing_loggers": False,
    "formatters": {"plain": {"format": "%(asctime)s %(levelname)s %(name)s"}},
    "handlers": {"file": {
        "class": "logging.handlers.RotatingFileHandler", "level": "INFO", "formatter": "plain",
        "filename": "silot/engine.log", "maxBytes": 5_000_000, "backupCount": 3,
    }},
    "root": {"level": "INFO", "handlers": ["file"]},
}  # fmt: skip


def build_command(folder: Path, name: str, role: Role) -> list[str]:
    """Return the command line that runs NVFlare with the kit of a server or a site.

    Raises an ``ExtraError`` if NVFlare is not installed (``extra-nvflare``).
    """
    if find_spec("nvflare") is None:
        raise missing_engine()
    kind = "server" if role is Role.SERVER else "client"
    words = [f"org={name}", "secure_train=true", "config_folder=config"]
    words += [f"uid={name}"] if kind == "client" else []
    return [
        sys.executable, "-u", "-m", f"nvflare.private.fed.app.{kind}.{kind}_train",
        "-m", str(folder), "-s", f"fed_{kind}.json", "--set", *words,
    ]  # fmt: skip


def become(words: list[str], variables: Mapping[str, str]) -> NoReturn:
    """Replace this process by the one of a command, with further environment ``variables``."""
    set_grpc_environment()
    os.execve(words[0], words, {**os.environ, **variables})


def missing_engine() -> ExtraError:
    """Return the error for where NVFlare is not installed."""
    return ExtraError(
        "sites are reached over NVFlare. Run: pip install 'silot[nvflare]'", code="extra-nvflare"
    )
