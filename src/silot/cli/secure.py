"""``silot secure`` and ``silot secure-keys``: a secure distance between processes."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.measure import Measure
from ..errors import InputError
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from ..secure import Peers, SecureOptions, make_keys, play
from .console import (
    OUT,
    check_writable,
    progress_bar,
    show,
    show_rows,
    tell_forecast,
)
from .console import save_transcript as save
from .generate import Flags, taking
from .options import (
    AccuracyName,
    DiameterOption,
    JsonOption,
    LabelledTables,
    TranscriptOption,
)


class Party(StrEnum):
    """Computing parties."""

    a = "a"
    b = "b"
    third = "third"


@dataclass(frozen=True, kw_only=True)
class Agreed(Flags):
    """Public options, which all parties give alike."""

    scale: Annotated[float, typer.Option(help="Public length that fits the data.")] = 1.0
    two_party: Annotated[
        bool, typer.Option("--two-party", help="Compute without any third party; slower.")
    ] = False
    receiver: Annotated[
        Party | None, typer.Option(help="Who is told the number. Default: third, or a.")
    ] = None
    privacy_epsilon: Annotated[
        float | None, typer.Option(help="Add noise: differential privacy for one record.")
    ] = None
    diameter: DiameterOption = None
    accuracy: Annotated[
        AccuracyName, typer.Option(help="normal: usually within 0.5 %; fast: within 2 %.")
    ] = AccuracyName.normal

    def read(self, tables: LabelledTables) -> SecureOptions:
        """As they are compared between parties."""
        return SecureOptions(
            scale=self.scale,
            two_party=self.two_party,
            receiver="" if self.receiver is None else self.receiver.value,
            privacy_epsilon=self.privacy_epsilon,
            diameter=self.diameter,
            embedding=tables.covariance.value if tables.labels else "none",
            accuracy=self.accuracy.value,
        )


@dataclass(frozen=True, kw_only=True)
class Account(Flags):
    """The rules of this party, what it tells in all, and how long it waits."""

    policy: Annotated[
        Path | None, typer.Option(help="The owner's rules; below level record with --ledger.")
    ] = None
    ledger: Annotated[
        Path | None, typer.Option(help="The owner's ledger, which the run is charged to.")
    ] = None
    timeout: Annotated[
        float | None, typer.Option(min=1.0, max=86400.0, help="Most seconds from start to end.")
    ] = None

    def read(self) -> dict[str, Any]:
        """As a party takes them."""
        return {
            "policy": None if self.policy is None else Policy.load(self.policy),
            "ledger": None if self.ledger is None else Ledger(self.ledger),
            "timeout": self.timeout,
        }


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("secure")(taking()(secure_command))
    app.command("secure-keys")(secure_keys_command)


def secure_command(
    *,
    role: Annotated[Party, typer.Option(help="Which party this process is.")],
    peers: Annotated[Path, typer.Option(help="peers.yml: addresses and certificates.")],
    data: Annotated[
        Path | None, typer.Option(help="This party's data; a third party may have none.")
    ] = None,
    agreed: Agreed,
    tables: LabelledTables,
    account: Account,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Take part in a secure distance: one process for each party, linked by mutual TLS.

    All parties give the same options; only the receiver is told the distance. Exit statuses:
    0 the receiver has the number; 3 data or option; 4 file; 5 parties differ; 6 another party is
    absent, stopped or gone, or time is up; 7 the policy or the ledger refuses; 8 the computation
    failed; 9 not installed.
    """
    if transcript is not None:
        check_writable(transcript)
    measure: Measure | None = None
    if data is not None:
        loaded = tables.load([data])
        measure = next(iter(loaded.values()))
    elif role is not Party.third:
        raise InputError(
            f"{role.value!r} computes on its own data: give --data.", code="secure-data"
        )
    options = agreed.read(tables)
    with progress_bar(f"secure distance as {role.value}"):
        played = play(
            role.value,
            Peers.load(peers),
            options,
            measure,
            tell=None if json else tell_forecast,
            **account.read(),
        )
    result = played.result
    if result is not None:
        save(result, transcript)
    if json:
        told = None if result is None else result.to_dict()
        bill = {"bytes_sent": played.sent, "bytes_received": played.received}
        typer.echo(
            json_.dumps({"role": role.value, "receiver": played.receiver, **bill, "distance": told})
        )
        return
    if result is None:
        show_rows(
            {
                "role": role.value,
                "status": f"done: the distance was told to {played.receiver!r} alone",
                "bill": f"{played.sent} bytes sent, {played.received} received",
            }
        )
        return
    show(result)


def secure_keys_command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    port: Annotated[int, typer.Option(min=1, max=65533, help="Port of a; b and third follow.")] = (
        9310
    ),
) -> None:
    """Make certificates and a peers.yml for a trial on one machine."""
    made = make_keys(folder, first_port=port)
    OUT.print(f"{len(made)} files in {folder}; for a trial only", highlight=False, markup=False)
