"""Where a member listens while it computes with others, and where it finds them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not host or not is_number or not 0 < int(port) < 65536:
        raise ValueError("an address is host:port")
    return value


Address = Annotated[str, AfterValidator(_address)]


class Addresses(BaseModel):
    """With whom a member computes on secret shares, and where: its own word, and nobody else's.

    Attributes
    ----------
    listen
        ``host:port`` at which it listens while a computation lasts.
    peers
        Where it finds the others, by the names in their certificates: no one else takes part.

    Examples
    --------
    >>> sorted(Addresses(listen="0.0.0.0:9410", peers={"south": "10.0.0.7:9410"}).peers)
    ['south']
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Address
    peers: dict[str, Address] = Field(min_length=1)


__all__ = ["Address", "Addresses"]
