"""``silot distance secure`` and ``secure-keys``: a secure distance between processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

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
    print_json,
    progress_bar,
    show_rows,
    tell_forecast,
    write_report,
)
from .generate import Flags, argument, command, flag
from .options import LabelledTables, Outputs

Party = Literal["a", "b", "third"]


class Account(Flags):
    """The rules of this party, its account, and how long it waits."""

    policy: Path | None = flag("The owner's policy; below level record it needs --ledger.")
    ledger: Path | None = flag("The owner's ledger, which the run is charged to.")
    timeout: float | None = flag("Most seconds for the whole run.", min=1.0, max=86400.0)

    def read(self) -> dict[str, Any]:
        """Load the files, and return them as ``play`` takes them."""
        return self.values(
            policy=self.policy and Policy.load(self.policy),
            ledger=self.ledger and Ledger(self.ledger),
        )


# What is random needs no seed of the user's, and W1 is not computed.
@command([Secure], without=("p", "seed"))
def secure_command(
    *,
    role: Party = flag("Which party this process is.", default=...),
    peers: Path = flag("peers.yml: addresses and certificates.", default=...),
    data: Path | None = flag("This party's data; a third party may have none."),
    receiver: Party | None = flag("Party that receives the number. Default: third, else a."),
    tables: LabelledTables,
    account: Account,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Take part in a secure distance: one process for each party, linked by mutual TLS.

    All parties give the same options, and only the receiver gets the distance. Exit statuses:
    0 done; 3 data or an option is not valid; 4 a file cannot be read; 5 the parties' options
    differ; 6 another party is missing or stopped, or the time limit passed; 7 the policy or the
    ledger refuses; 8 the computation failed; 9 the engine is not installed.
    """
    linked = Peers.load(peers)
    check_outputs(outputs.report, outputs.transcript, inputs=linked.files(role))
    measure: Measure | None = None
    if data is not None:
        measure = tables.files.load_one(data)
    elif role != "third":
        raise InputError(f"{role!r} computes on its own data: give --data.", code="secure-data")
    agreed = SecureOptions(
        receiver=receiver or "",
        embedding=tables.covariance if tables.labels else "none",
        **options,
    )
    with progress_bar(f"secure distance as {role}"):
        tell = None if outputs.json else tell_forecast
        played = play(role, linked, agreed, measure, tell=tell, **account.read())
    result = played.result
    if result is not None and measure is not None:
        # Only this party's own data can be examined here.
        others = [name for name in result.holders for name in name.split("+") if name != role]
        result = result.with_preflight(Preflight.of({role: measure}, others))
    if result is not None:
        outputs.save_messages(result)
        write_report(outputs.report, result)
    if outputs.json:
        body = {
            "role": role, "receiver": played.receiver, "bytes_sent": played.sent,
            "bytes_received": played.received,
            "distance": None if result is None else result.to_dict(),
        }  # fmt: skip
        print_json(body)
    elif result is not None:
        outputs.print(result, {"report": outputs.report})
    else:
        rows = {
            "role": role,
            "status": f"done: only {played.receiver!r} received the distance",
            "cost": f"{played.sent} bytes sent, {played.received} received",
        }
        if outputs.report:
            rows["report"] = "not written: this party has no result"
        show_rows(rows)


@command()
def secure_keys_command(
    folder: Path = argument("A new folder."),
    port: int = flag("Port of a; b and third use the next two.", default=9310, min=1, max=65533),
) -> None:
    """Make certificates and a peers.yml for a trial on one machine."""
    paths = make_keys(folder, first_port=port)
    OUT.print(f"{len(paths)} files in {folder}; for a trial only", highlight=False, markup=False)
