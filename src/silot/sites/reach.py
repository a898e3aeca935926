"""What is wrong between a kit and the server of its project."""

from __future__ import annotations

import socket
import ssl

from ..errors import HolderError, MismatchError, SilotError
from .authority import ROOT, Role
from .kit import STARTUP, Kit

_PATIENCE = 10.0
# Of OpenSSL: not yet, or no longer.
_EXPIRED = (9, 10)


def reach(kit: Kit) -> SilotError | None:
    """Why the server cannot be used from here; ``None`` if it can.

    Only the connection is made: with the certificates of both, and closed again.
    """
    project, startup = kit.project, kit.folder / STARTUP
    where = f"{project.host}:{project.port}"
    stem = "server" if kit.role is Role.SERVER else "client"
    try:
        context = ssl.create_default_context(cafile=str(startup / ROOT))
        context.load_cert_chain(startup / f"{stem}.crt", startup / f"{stem}.key")
        context.set_alpn_protocols(["h2"])
        with socket.create_connection((project.host, project.port), _PATIENCE) as plain:
            plain.settimeout(_PATIENCE)
            with context.wrap_socket(plain, server_hostname=project.host) as secure:
                # A certificate that the server refuses shows at the first bytes it sends: here
                # the settings of HTTP/2.
                if not secure.recv(1):
                    raise ssl.SSLError("closed")
    except ssl.SSLCertVerificationError as error:
        if error.verify_code in _EXPIRED:
            return MismatchError(
                f"the certificate of the server at {where} is not valid now "
                f"({error.verify_message}). Set this machine's clock, or have the coordinator "
                "renew it: `silot deploy renew`.",
                code="server-expired",
            )
        return MismatchError(
            f"who listens at {where} has no certificate of this project for {project.host} "
            f"({error.verify_message}). Check the name, and whose kit this is.",
            code="server-certificate",
        )
    except ssl.SSLError:
        return MismatchError(
            f"the server at {where} does not take the certificate of {kit.name!r}. It may have "
            "expired, or be of another project: `silot site check`.",
            code="server-refuses",
        )
    except socket.gaierror:
        return HolderError(
            f"no machine is called {project.host!r} here. Check DNS, or /etc/hosts.",
            code="server-name",
        )
    except OSError as error:
        return HolderError(
            f"nothing answers at {where} ({type(error).__name__}). Check that `silot deploy run` "
            "runs there, and the firewall in between.",
            code="server-unreachable",
        )
    return None


def check_server(kit: Kit) -> None:
    """Raise where who listens is not the server of the project: no time mends that.

    Raises
    ------
    MismatchError
        ``server-certificate`` or ``server-expired``.
    """
    wrong = reach(kit)
    if wrong is not None and wrong.code in ("server-certificate", "server-expired"):
        raise wrong


__all__ = ["check_server", "reach"]
