"""``silot secure`` and ``silot secure-keys``: a secure distance between processes."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ..data.measure import Measure
from ..data.preflight import Preflight
from ..errors import InputError
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from ..sites.secure import Peers, SecureOptions, make_keys, play
from ..sites.secure.method import Secure
from .console import (
    OUT,
    check_outputs,
    progress_bar,
    say_where,
    show,
    show_rows,
    tell_forecast,
    write_report,
)
from .console import save_transcript as save
from .generate import Flags, taking
from .options import LabelledTables, Outputs


class Party(StrEnum):
    """Computing parties."""

    a = "a"
    b = "b"
    third = "third"


@dataclass(frozen=True, kw_only=True)
class Account(Flags):
    """The rules of this party, its account, and how long it waits."""

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
        """Load the files, and return them as ``play`` takes them."""
        return {
            "policy": None if self.policy is None else Policy.load(self.policy),
            "ledger": None if self.ledger is None else Ledger(self.ledger),
            "timeout": self.timeout,
        }


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    # What is random needs no seed of the user's, and W1 is not computed.
    app.command("secure")(taking([Secure], without=("p", "seed"))(secure_command))
    app.command("secure-keys")(secure_keys_command)


def secure_command(
    *,
    role: Annotated[Party, typer.Option(help="Which party this process is.")],
    peers: Annotated[Path, typer.Option(help="peers.yml: addresses and certificates.")],
    data: Annotated[
        Path | None, typer.Option(help="This party's data; a third party may have none.")
    ] = None,
    receiver: Annotated[
        Party | None, typer.Option(help="Who is told the number. Default: third, or a.")
    ] = None,
    tables: LabelledTables,
    account: Account,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Take part in a secure distance: one process for each party, linked by mutual TLS.

    All parties give the same options; only the receiver is told the distance. Exit statuses:
    0 the receiver has the number; 3 data or option; 4 file; 5 parties differ; 6 another party is
    absent, stopped or gone, or time is up; 7 the policy or the ledger refuses; 8 the computation
    failed; 9 not installed.
    """
    linked = Peers.load(peers)
    check_outputs(outputs.report, outputs.transcript, inputs=linked.files(role.value))
    measure: Measure | None = None
    if data is not None:
        measure = next(iter(tables.load([data]).values()))
    elif role is not Party.third:
        raise InputError(
            f"{role.value!r} computes on its own data: give --data.", code="secure-data"
        )
    agreed = SecureOptions(
        receiver="" if receiver is None else receiver.value,
        embedding=tables.covariance.value if tables.labels else "none",
        **options,
    )
    with progress_bar(f"secure distance as {role.value}"):
        tell = None if outputs.json else tell_forecast
        played = play(role.value, linked, agreed, measure, tell=tell, **account.read())
    result = played.result
    if result is not None and measure is not None:
        # Only this party's own data can be examined here.
        others = [name for name in result.holders for name in name.split("+") if name != role.value]
        result = result.with_preflight(Preflight.of({role.value: measure}, others))
    if result is not None:
        save(result, outputs.transcript)
        write_report(outputs.report, result)
    if outputs.json:
        body = {
            "role": role.value, "receiver": played.receiver, "bytes_sent": played.sent,
            "bytes_received": played.received,
            "distance": None if result is None else result.to_dict(),
        }  # fmt: skip
        typer.echo(json_.dumps(body))
        return
    if result is None:
        rows = {
            "role": role.value,
            "status": f"done: the distance was told to {played.receiver!r} alone",
            "bill": f"{played.sent} bytes sent, {played.received} received",
        }
        if outputs.report:
            rows["report"] = "not written: there is no result here"
        show_rows(rows)
        return
    show(result)
    say_where(report=outputs.report)


def secure_keys_command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    port: Annotated[int, typer.Option(min=1, max=65533, help="Port of a; b and third follow.")] = (
        9310
    ),
) -> None:
    """Make certificates and a peers.yml for a trial on one machine."""
    paths = make_keys(folder, first_port=port)
    OUT.print(f"{len(paths)} files in {folder}; for a trial only", highlight=False, markup=False)
