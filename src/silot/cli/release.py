"""``silot release``, ``silot release show``, ``silot combine``, ``silot watch``, ``silot keys``."""

from __future__ import annotations

import json as json_
from dataclasses import dataclass
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
from ..distances.sketches.combined import Combined
from ..distances.sketches.released import ASSUMED
from ..errors import InputError
from ..federation.keys import KEY, Key, PublicKey
from ..federation.policy import Policy
from .console import (
    check_outputs,
    progress_bar,
    say_where,
    show,
    show_rows,
    steps,
    tell,
    write_report,
)
from .generate import Flags, taking
from .options import (
    Columns,
    JsonOption,
    ReportOption,
    SeedOption,
    Tables,
    given,
)

_FEWEST_GROUPED = 3

KeysOption = Annotated[
    Path | None,
    typer.Option("--keys", help="Folder with the public keys that are trusted, NAME.pub."),
]
KeyOption = Annotated[Path | None, typer.Option("--key", help="One's own key, NAME.key.")]
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


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    group = typer.Typer(cls=WithDefault, help=release_command.__doc__, no_args_is_help=True)
    group.callback()(release_command)
    group.command("make")(taking()(make_command))
    group.command("show")(taking()(show_command))
    app.add_typer(group, name="release")
    app.command("combine")(taking()(combine_command))
    app.command("watch")(taking()(watch_command))
    app.command("keys")(keys_command)


def release_command() -> None:
    """One private sketch of one site, as a signed file. `release FILE` is `release make FILE`."""


@dataclass(frozen=True, kw_only=True)
class Question(Flags):
    """What a release is made by: public things alone."""

    public: PublicOption = None
    epsilon: Annotated[
        float | None,
        typer.Option("--epsilon", "--privacy-epsilon", help="What it spends. Default: 1."),
    ] = None
    delta: Annotated[
        float | None,
        typer.Option("--delta", "--privacy-delta", help="Chance that it spends more (1e-5)."),
    ] = None
    period: Annotated[
        str | None,
        typer.Option(help="Public name of the time the records are of, such as 2026-10."),
    ] = None
    size: Annotated[
        int | None,
        typer.Option(min=1, help="Public least number of records at any site. Default: 2000."),
    ] = None
    cells: Annotated[
        int | None, typer.Option(min=2, max=4096, help="Cells to count in. Default: by --size.")
    ] = None
    mass_limit: Annotated[
        float | None, typer.Option(help="Of weighted records: the largest weight, public.")
    ] = None
    seed: SeedOption = 0

    @property
    def options(self) -> dict[str, Any]:
        """Those that were given."""
        return given(
            privacy_epsilon=self.epsilon, privacy_delta=self.delta, period=self.period,
            size=self.size, cells=self.cells, mass_limit=self.mass_limit, seed=self.seed,
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Account(Flags):
    """What a release is charged to, and who signs it."""

    ledger: Annotated[
        Path | None, typer.Option(help="The site's ledger, made when absent. Required.")
    ] = None
    budget: Annotated[
        float | None,
        typer.Option(help="Epsilon of all releases in the ledger together. Default: 1."),
    ] = None
    policy: Annotated[Path | None, typer.Option(help="The site's rules, instead of a budget.")] = (
        None
    )
    name: Annotated[
        str | None, typer.Option(help="What the site is called. Default: the name of the file.")
    ] = None
    key: Annotated[
        Path | None,
        typer.Option("--key", help="The site's key. Default: NAME.key beside the ledger, made."),
    ] = None
    to: Annotated[
        Path | None, typer.Option("--to", help="Lock the file for the owner of this .pub.")
    ] = None

    def files(self, name: str) -> list[Path | None]:
        """What a release reads beside the records; nothing may be written over the key."""
        beside = self.ledger and self.ledger.with_name(f"{quote(name, safe='')}{KEY}")
        return [self.ledger, self.policy, self.to, self.key or beside]

    def read(self) -> dict[str, Any]:
        """Options that were given."""
        if self.ledger is None:
            raise InputError(
                "a release is charged to a ledger. Give --ledger NAME.ledger.", code="ledger-absent"
            )
        return given(
            ledger=self.ledger,
            budget_epsilon=self.budget,
            policy=None if self.policy is None else Policy.load(self.policy),
            key=self.key,
            to=None if self.to is None else PublicKey.load(self.to),
        )


def make_command(
    data: Annotated[
        Path, typer.Argument(help="The site's records: .npz, .csv, .csv.gz, .parquet.")
    ],
    *,
    tables: Tables,
    question: Question,
    account: Account,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="File to write. Default: NAME.release.")
    ] = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Write a release, charged to the site's ledger."""
    name = account.name or data.name.split(".")[0]
    path = out or Path(f"{name}.release")
    check_outputs(path, report, inputs=[data, question.public, *account.files(name)])
    told = account.read()
    records = next(iter(tables.load([data]).values()))
    public = None if question.public is None else tables.measure(question.public, weights=False)
    made = release(
        records, path, name=name, public=public, labels=tables.labels, **told, **question.options
    )
    write_report(report, made)
    if json:
        typer.echo(json_.dumps(made.to_dict()))
        return
    show_rows(
        {
            "release": f"{path}, {made.width} noisy numbers, {made.size} bytes",
            "charged": f"epsilon {made.epsilon:.4g}, delta {made.terms.privacy_delta:g}"
            if made.fresh
            else "nothing: the answer that the ledger has, of the records of then. Newer records "
            "take another --period",
            "key": made.fingerprint,
        }
    )
    if made.fresh and records.size < (least := question.size or ASSUMED):
        # On the site's own terminal alone: the release does not say how many there are.
        tell(
            f"fewer than {least} records: noise weighs more. Sites may agree on a --size by what "
            "is public: no site's count may decide it"
        )
    for text in made.warnings:
        tell(f"warning: {text}")
    say_where(report=report)


def show_command(
    path: Annotated[Path, typer.Argument(help="A release.")],
    *,
    keys: KeysOption = None,
    key: KeyOption = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Say what is inside a release, and what is not."""
    found = read_releases([path], keys=keys, key=key)[0]
    write_report(report, found)
    if json:
        typer.echo(json_.dumps(found.to_dict()))
        return
    show(found)
    say_where(report=report)


@dataclass(frozen=True, kw_only=True)
class Trust(Flags):
    """Keys of others, and one's own."""

    keys: KeysOption = None
    key: KeyOption = None


def combine_command(
    releases: Annotated[list[Path], typer.Argument(help="Releases, one a site.")],
    *,
    columns: Columns,
    public: PublicOption = None,
    validation: Annotated[
        Path | None, typer.Option(help="One's own data, to value the sites by.")
    ] = None,
    groups: Annotated[
        int | None, typer.Option(min=1, help="Groups of sites. Default: 2 of three sites or more.")
    ] = None,
    trust: Trust,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Distances, worth and groups of sites, from their releases alone."""
    read = read_releases(releases, keys=trust.keys, key=trust.key)
    known = records_of(columns, public, read[0].schema, whole=False)
    mine = records_of(columns, validation, read[0].schema)
    with steps("combine") as progress:
        found = combine(read, known, mine, progress=progress)
    many = 2 if groups is None and len(read) >= _FEWEST_GROUPED else groups
    result = Combined.of(found, many)
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=report)


def watch_command(
    releases: Annotated[list[Path], typer.Argument(help="Releases of one site, the oldest first.")],
    *,
    columns: Columns,
    public: PublicOption = None,
    trust: Trust,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Drift of one site: its last release against those before, and what chance would make."""
    read = read_releases(releases, keys=trust.keys, key=trust.key)
    known = records_of(columns, public, read[0].schema, whole=False)
    with progress_bar("watch") as bar:
        task = bar.add_task("releases", total=len(read) - 1)
        result = watch(read, known, progress=lambda done, _: bar.update(task, completed=done))
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=report)


def records_of(
    columns: Columns, path: Path | None, schema: Schema | None, *, whole: bool = True
) -> Measure | None:
    """Records of one file; by the schema of the releases, where no other is given."""
    if path is None:
        return None
    if columns.schema is not None or schema is None:
        return columns.measure(path, weights=whole)
    return columns.by_schema(path, schema, whole=whole)


def keys_command(
    name: Annotated[Path, typer.Argument(help="Name of the key, with a folder if any.")],
) -> None:
    """Make a key to sign files with: NAME.key to keep, NAME.pub to give away."""
    key = Key.new()
    kept, shared = key.save(name.with_name(f"{name.name.removesuffix(KEY)}{KEY}"))
    show_rows({"keep": str(kept), "give away": str(shared), "key": key.public.fingerprint})
