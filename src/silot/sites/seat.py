"""What a member needs to compute with others: its certificate, and where it says they are."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass

from cryptography import x509

from ..data.documents import read_fields
from ..errors import InputError, SilotError
from ..federation.addresses import Addresses
from .authority import ROOT, Role, member_of
from .engine import stem
from .kit import STARTUP, Kit, _checked
from .secure.options import Role as Part
from .secure.peers import Files, Links

FILE = "secure.yml"
"""In an asker's kit: its addresses, which a site has in its policy."""


@dataclass(frozen=True)
class Seat:
    """A member's place in secure distances.

    Attributes
    ----------
    name
        Of the member.
    files
        Authority, certificate and key of its kit.
    root, revoked
        What certificates of others are checked by.
    addresses
        With whom it computes, and where; ``None`` with nobody.
    source
        What says so, for who is to correct it.
    """

    name: str
    files: Files
    root: x509.Certificate
    revoked: Container[int]
    addresses: Addresses | None
    source: str

    @classmethod
    def of(cls, kit: Kit, addresses: Addresses | None = None) -> Seat:
        """That of a kit; an asker's addresses are in the kit itself.

        Raises
        ------
        InputError
            The file of an asker is not as it should be (``project-field``).
        """
        source, file = "`secure` in the policy", kit.folder / FILE
        if kit.role is Role.ASKER:
            source = str(file)
            addresses = _checked(Addresses, read_fields(file), file) if file.exists() else None
        startup, own, known = kit.folder / STARTUP, stem(kit.role), kit.identity()
        files = (startup / ROOT, startup / f"{own}.crt", startup / f"{own}.key")
        return cls(kit.name, files, known.root, known.revoked, addresses, source)

    def links(self, members: Mapping[Part, str], session: str) -> Links:
        """Links with the members that are the parties of a run.

        Raises
        ------
        InputError
            No addresses are named (``secure-addresses``), or none of one of them
            (``secure-peer``).
        """
        needs = f"{self.source} needs listen: HOST:PORT, and peers with a HOST:PORT for each"
        if self.addresses is None:
            raise InputError(
                f"{self.name!r} names no addresses for secure distances: {needs} other party.",
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
            files=self.files, session=session, source=self.source, owner=self._owner,
        )  # fmt: skip

    def _owner(self, shown: bytes) -> str | None:
        """The member that a certificate is of, if it is valid in this project."""
        try:
            found = member_of(x509.load_der_x509_certificate(shown), self.root, self.revoked)
        except (SilotError, ValueError):
            return None
        return found.name


__all__ = ["Seat"]
