"""``silot release``, ``silot release show``, ``silot combine``, ``silot watch``, ``silot keys``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer
from typer.core import TyperGroup

from ..api.combine import combine, read_releases
from ..api.release import release
from ..api.watch import watch
from ..data.measure import Measure
from ..data.reading import Schema
from ..distances.sketches.drift import LEVEL, compare_sketches
from ..distances.sketches.release_file import ASSUMED, ReleaseFile
from ..distances.sketches.result import Combined
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
from .generate import Flags, argument, command, flag, group
from .options import Columns, Results, SeedOption, Tables

PublicOption = Annotated[
    Path | None, typer.Option(help="Public records, the same file at all sites.")
]


class WithDefault(TyperGroup):
    """A group whose commands may be left out: then the first word is an argument of ``make``."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put ``make`` before what names no command, and is no call for help."""
        if args and args[0] not in self.commands and args[0] != "--help":
            args = ["make", *args]
        return super().parse_args(ctx, args)


@group("release", cls=WithDefault)
def release_command() -> None:
    """One private sketch of one site, as a signed file. `release FILE` is `release make FILE`."""


class Question(Flags):
    """What a release is made by: public things alone."""

    public: PublicOption = None
    privacy_epsilon: float | None = flag("What it spends. Default: 1.", "--epsilon")
    privacy_delta: float | None = flag(
        "Chance that it spends more (1e-5).", "--delta", "--privacy-delta"
    )
    period: str | None = flag("Public name of the time the records are of, such as 2026-10.")
    size: int | None = flag("Public least number of records at any site. Default: 2000.", min=1)
    cells: int | None = flag("Cells to count in. Default: by --size.", min=2, max=4096)
    mass_limit: float | None = flag("Of weighted records: the largest weight, public.")
    seed: SeedOption = 0


class Account(Flags):
    """What a release is charged to, and who signs it."""

    ledger: Path | None = flag("The site's ledger, made when absent. Required.")
    budget_epsilon: float | None = flag(
        "Epsilon of all releases in the ledger together. Default: 1."
    )
    policy: Path | None = flag("The site's rules, instead of a budget.")
    name: str | None = flag("What the site is called. Default: the name of the file.")
    key: Path | None = flag("The site's key. Default: NAME.key beside the ledger, made.")
    to: Path | None = flag("Lock the file for the owner of this .pub.")

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


@command("release make")
def make_command(
    data: Path = argument("The site's records: a table (.csv, .parquet, .xlsx, ...) or .npz."),
    *,
    tables: Tables,
    question: Question,
    account: Account,
    out: Path | None = flag("File to write. Default: NAME.release.", "-o"),
    outputs: Results,
) -> None:
    """Write a release, charged to the site's ledger."""
    name = account.name or data.name.split(".")[0]
    path = out or Path(f"{name}.release")
    check_outputs(path, outputs.report, inputs=[data, question.public, *account.files(name)])
    options = account.read()
    records = next(iter(tables.load([data]).values()))
    public = None if question.public is None else tables.measure(question.public, weights=False)
    options |= question.values(public=public)
    file = release(records, path, name=name, labels=tables.labels, **options)
    write_report(outputs.report, file)
    if outputs.json:
        print_json(file.to_dict())
        return
    show_rows(
        {
            "release": f"{path}, {file.width} noisy numbers, {file.size} bytes",
            "charged": f"epsilon {file.epsilon:.4g}, delta {file.terms.privacy_delta:g}"
            if file.fresh
            else "nothing: the answer that the ledger has, of the records of then. Newer records "
            "take another --period",
            "key": file.fingerprint,
        }
    )
    if file.fresh and records.size < (least := question.size or ASSUMED):
        # On the site's own terminal alone: the release does not say how many there are.
        tell(
            f"fewer than {least} records: noise weighs more. Sites may agree on a --size by what "
            "is public: no site's count may decide it"
        )
    for text in file.warnings:
        tell(f"warning: {text}")
    say_where(report=outputs.report)


class Trust(Flags):
    """Keys of others, and one's own."""

    keys: Path | None = flag("Folder with the public keys that are trusted, NAME.pub.")
    key: Path | None = flag("One's own key, NAME.key.")


@command("release show")
def show_command(
    path: Path = argument("A release."),
    *,
    trust: Trust,
    outputs: Results,
) -> None:
    """Say what is inside a release, and what is not."""
    file = read_releases([path], keys=trust.keys, key=trust.key)[0]
    outputs.finish(file, body=file.to_dict())


@command("combine")
def combine_command(
    releases: list[Path] = argument("Releases, one a site."),
    *,
    columns: Columns,
    public: PublicOption = None,
    validation: Path | None = flag("One's own data, to value the sites by."),
    trust: Trust,
    outputs: Results,
) -> None:
    """Distances, worth and groups of sites, from their releases alone."""
    files, sample = read_files(releases, trust, columns, public)
    mine = load_records(columns, validation, files[0].schema)
    with steps("combine") as progress:
        sketches = combine(files, sample, mine, progress=progress)
    verdict = compare_sketches(sketches, LEVEL) if len(sketches.names) > 1 else None
    outputs.finish(Combined.of(sketches, verdict))


@command("watch")
def watch_command(
    releases: list[Path] = argument("Releases of one site, the oldest first."),
    *,
    columns: Columns,
    public: PublicOption = None,
    trust: Trust,
    outputs: Results,
) -> None:
    """Drift of one site: its last release against those before, and which columns changed."""
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
        return columns.measure(path, weights=complete)
    return columns.by_schema(path, schema, complete=complete)


@command("keys")
def keys_command(
    name: Path = argument("Name of the key, with a folder if any."),
) -> None:
    """Make a key to sign files with: NAME.key to keep, NAME.pub to give away."""
    key = Key.new()
    kept, shared = key.save(name.with_name(f"{name.name.removesuffix(KEY)}{KEY}"))
    show_rows({"keep": str(kept), "give away": str(shared), "key": key.public.fingerprint})
