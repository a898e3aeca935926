"""A member's endpoint for secure distances: its certificate, and where it and the others listen."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from cryptography import x509

from ..data.documents import read_fields
from ..errors import InputError, SilotError
from ..federation.addresses import Addresses
from .authority import Role, verify_member
from .kit import Kit
from .project import validate_fields
from .secure.options import Role as Part
from .secure.peers import Files, Links

FILE = "secure.yml"
"""In an asker's kit: its addresses, which a site has in its policy."""


@dataclass(frozen=True)
class Endpoint:
    """A member as the others reach it in a secure distance."""

    name: str
    """Of the member."""
    files: Files
    """Authority, certificate and key of its kit."""
    root: x509.Certificate
    """Certificate that certificates of others are verified by."""
    revoked: Container[int]
    """Certificates that are no longer valid."""
    addresses: Addresses | None
    """With whom it computes, and where; ``None`` with nobody."""
    source: str
    """The file that says so, for error messages."""

    @classmethod
    def of(cls, kit: Kit, addresses: Addresses | None = None) -> Endpoint:
        """Return the endpoint of a kit; an asker's addresses are in the kit itself.

        Raises an ``InputError`` if the file of an asker is not as it should be (``project-field``).
        """
        source, file = "`secure` in the policy", kit.folder / FILE
        if kit.role is Role.ASKER:
            source = str(file)
            addresses = None
            if file.exists():
                addresses = validate_fields(Addresses, read_fields(file), file)
        identity = kit.identity()
        return cls(kit.name, kit.files, identity.root, identity.revoked, addresses, source)

    def links(self, members: Mapping[Part, str], session: str) -> Links:
        """Return the links with the members that are the parties of a run.

        Raises an ``InputError`` if no addresses are named (``secure-addresses``), or none of one of
        them (``secure-peer``).
        """
        needs = f"{self.source} needs listen: HOST:PORT, and peers with a HOST:PORT for each"
        if self.addresses is None:
            raise InputError(
                f"{self.name!r} has no addresses for secure distances: {needs} other party.",
                code="secure-addresses",
            )
        places = {**self.addresses.peers, self.name: self.addresses.listen}
        missing = [name for name in members.values() if name not in places]
        if missing:
            raise InputError(
                f"{self.name!r} names no address of {missing[0][:60]!r}: {needs}, {missing[0]!r} "
                "too.",
                code="secure-peer",
            )
        return Links(
            addresses={str(part): places[name] for part, name in members.items()},
            names={str(part): name for part, name in members.items()},
            files=self.files, session=session, source=self.source, owner=self._find_owner,
        )  # fmt: skip

    def _find_owner(self, certificate: bytes) -> str | None:
        """Return the member that a certificate (DER) is of, if it is valid in this project."""
        try:
            parsed = x509.load_der_x509_certificate(certificate)
            return verify_member(parsed, self.root, self.revoked).name
        except (SilotError, ValueError):
            return None
