"""``silot release``: make, show, combine, watch, keys."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from ..api.combine import combine, read_releases, watch
from ..api.release import Sending, release
from ..data.measure import Measure
from ..data.reading import Schema
from ..distances.sketches.drift import LEVEL, compare_sketches
from ..distances.sketches.release_file import ASSUMED, ReleaseFile
from ..distances.sketches.result import Combined
from ..distances.sketches.sketch import Sketching
from ..errors import InputError
from ..federation.keys import KEY, Key, PublicKey
from ..federation.policy import Policy
from .console import (
    check_outputs,
    counting,
    print_json,
    say_where,
    show_rows,
    steps,
    tell,
    write_report,
)
from .generate import Flags, argument, command, flag
from .options import Columns, Results, Tables

_SIZE = "Publicly known least number of records at any site. Default: 2000."
PublicOption = Annotated[
    Path | None, typer.Option(help="Public records, the same file at all sites.")
]


class Account(Flags):
    """What a release is charged to, and who signs it."""

    ledger: Path | None = flag(
        "The site's ledger, which is created if it does not exist. Required."
    )
    policy: Path | None = flag("The site's rules, instead of a budget.")
    name: str | None = flag("Name of the site. Default: the name of the file.")
    key: Path | None = flag(
        "The site's key. Default: NAME.key beside the ledger, which is created if missing."
    )
    to: Path | None = flag("Encrypt the file for the owner of this public key, NAME.pub.")

    def files(self, name: str) -> list[Path | None]:
        """List what a release reads beside the records; the key must not be overwritten."""
        beside = self.ledger and self.ledger.with_name(f"{quote(name, safe='')}{KEY}")
        return [self.ledger, self.policy, self.to, self.key or beside]

    def read(self) -> dict[str, Any]:
        """Load the files, and return the options that have a value."""
        if self.ledger is None:
            raise InputError(
                "a release is charged to a ledger. Give --ledger NAME.ledger.", code="ledger-absent"
            )
        return self.values(
            name=None,
            policy=self.policy and Policy.load(self.policy),
            to=self.to and PublicKey.load(self.to),
        )


@command([Sending, Sketching], help={"size": _SIZE})
def make_command(
    data: Path = argument("The site's records: a table (.csv, .parquet, .xlsx, ...) or .npz."),
    *,
    tables: Tables,
    public: PublicOption = None,
    account: Account,
    out: Path | None = flag("File to write. Default: NAME.release.", "-o"),
    outputs: Results,
    **options: Any,
) -> None:
    """Write a release, charged to the site's ledger."""
    name = account.name or data.name.split(".")[0]
    path = out or Path(f"{name}.release")
    check_outputs(path, outputs.report, inputs=[data, public, *account.files(name)])
    options |= account.read()
    records = tables.files.load_one(data)
    options["public"] = None if public is None else tables.files.measure(public, weights=False)
    file = release(records, path, name=name, labels=tables.labels, **options)
    write_report(outputs.report, file)
    if outputs.json:
        print_json(file.body)
        return
    show_rows(
        {
            "release": f"{path}, {file.width} noisy numbers, {file.size} bytes",
            "charged": f"epsilon {file.epsilon:.4g}, delta {file.terms.privacy_delta:g}"
            if file.fresh
            else "nothing: this is the stored answer of the ledger, about the records at that "
            "time. Give another --period for newer records",
            "key": file.fingerprint,
        }
    )
    if file.fresh and records.size < (least := options.get("size") or ASSUMED):
        # On the site's own terminal alone: the release does not say how many there are.
        tell(
            f"note: with fewer than {least} records noise has more effect. Sites may agree on a "
            "--size from public knowledge, not from the count of a site."
        )
    for text in file.warnings:
        tell(f"warning: {text}")
    say_where(report=outputs.report)


class Trust(Flags):
    """Keys of others, and one's own."""

    keys: Path | None = flag("Folder with the public keys that are trusted, NAME.pub.")
    key: Path | None = flag("Your own key, NAME.key.")


@command()
def show_command(
    path: Path = argument("A release."),
    *,
    trust: Trust,
    outputs: Results,
) -> None:
    """Show what a release contains and what it does not."""
    file = read_releases([path], keys=trust.keys, key=trust.key)[0]
    outputs.finish(file, body=file.body)


@command()
def combine_command(
    releases: list[Path] = argument("Releases, one for each site."),
    *,
    columns: Columns,
    public: PublicOption = None,
    validation: Path | None = flag("Your own data, by which the sites are valued."),
    trust: Trust,
    outputs: Results,
) -> None:
    """Distances, worth and groups of sites, only from their releases."""
    files, sample = read_files(releases, trust, columns, public)
    mine = load_records(columns, validation, files[0].schema)
    with steps("combine") as progress:
        sketches = combine(files, sample, mine, progress=progress)
    verdict = compare_sketches(sketches, LEVEL) if len(sketches.names) > 1 else None
    outputs.finish(Combined.of(sketches, verdict))


@command()
def watch_command(
    releases: list[Path] = argument("Releases of one site, oldest first."),
    *,
    columns: Columns,
    public: PublicOption = None,
    trust: Trust,
    outputs: Results,
) -> None:
    """Test one site for drift: its last release against earlier ones, and which columns changed."""
    files, sample = read_files(releases, trust, columns, public)
    with counting("watch", "releases") as progress:
        result = watch(files, sample, progress=progress)
    outputs.finish(result)


def read_files(
    paths: list[Path], trust: Trust, columns: Columns, public: Path | None
) -> tuple[list[ReleaseFile], Measure | None]:
    """Read releases, and the public records that they were made with."""
    files = read_releases(paths, keys=trust.keys, key=trust.key)
    return files, load_records(columns, public, files[0].schema, complete=False)


def load_records(
    columns: Columns, path: Path | None, schema: Schema | None, *, complete: bool = True
) -> Measure | None:
    """Load records of one file, by the schema of the releases unless flags name another."""
    if path is None:
        return None
    if columns.schema is not None or schema is None:
        return columns.files.measure(path, weights=complete)
    return columns.files.by_schema(path, schema, complete=complete)


@command()
def keys_command(
    name: Path = argument("Name of the key, with a folder if any."),
) -> None:
    """Make a key pair: NAME.key (private) signs files, NAME.pub (public) verifies them."""
    key = Key.new()
    kept, shared = key.save(name.with_name(f"{name.name.removesuffix(KEY)}{KEY}"))
    show_rows({"keep": str(kept), "give away": str(shared), "key": key.public.fingerprint})
