"""``silot secure`` and ``silot secure-keys``: a secure distance between processes."""

from __future__ import annotations

import json as json_
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError
from ..measure import Measure
from ..secure import Peers, SecureOptions, make_keys, play
from .console import OUT, bill_rows, check_writable, interval, progress_bar, show_rows
from .console import save_transcript as save
from .options import (
    ColumnsOption,
    Covariance,
    CovarianceOption,
    DiameterOption,
    JsonOption,
    LabelColumnOption,
    LabelsOption,
    TranscriptOption,
    WeightColumnOption,
    load_holders,
)


class Party(StrEnum):
    """Computing parties."""

    a = "a"
    b = "b"
    third = "third"


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("secure")(secure_command)
    app.command("secure-keys")(keys_command)


def secure_command(
    role: Annotated[Party, typer.Option(help="Which party this process is.")],
    peers: Annotated[Path, typer.Option(help="peers.yml: addresses and certificates.")],
    data: Annotated[
        Path | None, typer.Option(help="This party's data; a third party may have none.")
    ] = None,
    scale: Annotated[float, typer.Option(help="Public length that fits the data.")] = 1.0,
    two_party: Annotated[
        bool, typer.Option("--two-party", help="Compute without any third party; slower.")
    ] = False,
    receiver: Annotated[
        Party | None, typer.Option(help="Who is told the number. Default: third, or a.")
    ] = None,
    privacy_epsilon: Annotated[
        float | None, typer.Option(help="Add noise: differential privacy for one record.")
    ] = None,
    diameter: DiameterOption = None,
    labels: LabelsOption = False,
    covariance: CovarianceOption = Covariance.diagonal,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    timeout: Annotated[
        float | None, typer.Option(min=1.0, max=86400.0, help="Most seconds from start to end.")
    ] = None,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Take part in a secure distance: one process for each party, linked by mutual TLS.

    All parties give the same options; only the receiver is told the distance.
    """
    if transcript is not None:
        check_writable(transcript)
    measure: Measure | None = None
    if data is not None:
        loaded = load_holders([data], label_column, weight_column, columns, labels)
        measure = next(iter(loaded.values()))
    elif role is not Party.third:
        raise InputError(
            f"{role.value!r} computes on its own data: give --data.", code="secure-data"
        )
    options = SecureOptions(
        scale=scale,
        two_party=two_party,
        receiver="" if receiver is None else receiver.value,
        privacy_epsilon=privacy_epsilon,
        diameter=diameter,
        embedding=covariance.value if labels else "none",
    )
    with progress_bar(f"secure distance as {role.value}"):
        played = play(role.value, Peers.load(peers), options, measure, timeout=timeout)
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
    show_rows(
        {
            "W2": f"{result.value:.6g}",
            "bounds": interval(result),
            "method": f"{result.method}, {' and '.join(result.holders)}",
            "status": result.status,
            **bill_rows(result),
        }
    )


def keys_command(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    port: Annotated[int, typer.Option(min=1, max=65533, help="Port of a; b and third follow.")] = (
        9310
    ),
) -> None:
    """Make certificates and a peers.yml for a trial on one machine."""
    made = make_keys(folder, first_port=port)
    OUT.print(f"{len(made)} files in {folder}; for a trial only", highlight=False, markup=False)
