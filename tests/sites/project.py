"""A project with real certificates, whose sites are in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

from silot.federation.exchange import Unreached
from silot.federation.keys import Key
from silot.federation.party import Party
from silot.sites.authority import Authority, Role, create_key, make_request
from silot.sites.credential import Credential, Identity
from silot.sites.site import Site

_NEW = Authority.new


@cache
def private(name: str) -> RSAPrivateKey:
    """A private key: slow to make, so once a name."""
    return create_key()


@cache
def authority(project: str = "wards") -> Authority:
    return _NEW(project)


@cache
def identity(name: str, role: Role = Role.SITE, project: str = "wards") -> Identity:
    """A member of a project."""
    key, made = Key.new(), authority(project)
    asked = make_request(private(name), name, role)
    certificate = made.sign(asked, [(name, role)])
    return Identity(Credential.of(certificate, private(name), key.public), key, made.certificate)


ASKER = "uni@example.org"


def asker() -> Identity:
    return identity(ASKER, Role.ASKER)


def sites(parties: Mapping[str, Party]) -> dict[str, Site]:
    return {name: Site(party, identity(name)) for name, party in parties.items()}


def carry(sites: Mapping[str, Site]) -> Callable[[str, bytes, float], bytes]:
    """A wire that loses nothing."""

    def carried(name: str, data: bytes, seconds: float) -> bytes:
        if name not in sites:
            raise Unreached
        return bytes(sites[name].handle(data))

    return carried


def serial(identity: Identity) -> int:
    return x509.load_pem_x509_certificate(identity.credential.certificate).serial_number


def revoking(identity: Identity, *others: Identity) -> Identity:
    return replace(identity, revoked=frozenset(map(serial, others)))
