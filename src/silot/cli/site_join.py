"""``silot site join``: what a site answers with, checked and fitted before it is written down."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import InputError, SilotError
from ..privacy.ledger import Ledger
from ..sites.authority import Role, fingerprint
from ..sites.joined import Joined
from ..sites.kit import OWN, Kit, Signed, complete_kit, role_of
from ..sites.teaching import Taught, keep
from .console import OUT, check_writable, progress_bar, show_rows
from .generate import Flags
from .options import LabelColumnOption, WeightColumnOption

KitArgument = Annotated[Path, typer.Argument(help="Folder of `silot site request`.")]


@dataclass(frozen=True, kw_only=True)
class Answers(Flags):
    """What a site answers with."""

    data: Annotated[Path | None, typer.Option(help="Its records: .npz, .csv or .parquet.")] = None
    policy: Annotated[Path | None, typer.Option(help="Its rules, .yml. Default: no records.")] = (
        None
    )
    ledger: Annotated[Path | None, typer.Option(help="Its account, made when absent.")] = None
    schema: Annotated[Path | None, typer.Option(help="Schema by which the table is read.")] = None
    site: Annotated[Path | None, typer.Option(help="How the site writes its columns.")] = None
    evaluation: Annotated[
        Path | None, typer.Option(help="Records with true labels, to evaluate models on.")
    ] = None
    teacher: Annotated[
        Path | None, typer.Option(help="What it teaches with, .yml; see docs/deploy.md.")
    ] = None
    label_column: LabelColumnOption = None
    weight_column: WeightColumnOption = None

    def given(self) -> dict[str, Any]:
        """Those that were given, by what ``Joined`` calls them; files from the root."""
        names = {"schema": "schema_file", "site": "writing"}
        found = {names.get(name, name): value for name, value in vars(self).items()}
        return {
            name: value.absolute() if isinstance(value, Path) else value
            for name, value in found.items()
            if value is not None
        }


def join_command(
    kit: KitArgument,
    signed: Annotated[Path, typer.Argument(help="What the coordinator sent back, NAME.signed.")],
    *,
    answers: Answers,
) -> None:
    """Put the certificate into a kit, and say what the site answers with. Again: renews it."""
    given = answers.given()
    body = Signed.load(signed)
    role = role_of(kit)
    joined = teach = None
    if role is Role.SITE and (given or not (kit / OWN / "site.json").exists()):
        file = given.pop("teacher", None)
        joined = _joined(given, file is not None)
        _check_all(joined)
        teach = None if file is None else _fitted(file)
    elif role is not Role.SITE and given:
        raise InputError("askers have no data in a kit. Leave those options out.", code="join-data")
    before = _before(kit) if joined is not None else None
    made = complete_kit(kit, body)
    rows = {
        "member": f"{made.role} {made.name} of {made.project.name}",
        "certificate": f"until {made.identity().member().until:%Y-%m-%d}",
        "server": f"{made.project.host}:{made.project.port}",
        "authority": f"{fingerprint(made.identity().root)}: is it the coordinator's?",
    }
    if joined is not None:
        # Made now, so that it is clear at which place it is.
        joined.account().close()
        if teach is not None:
            joined = joined.model_copy(update={"teacher": teach(made)})
        joined.save(made)
        if joined.data is not None:
            rows["data"] = str(joined.data)
        elif before is not None:
            rows["data"] = f"none any more; before: {before}"
        rows |= {} if joined.teacher is None else {"teacher": joined.teacher.sentence()}
        rows["ledger"] = str(joined.ledger)
    show_rows(rows)
    words = {Role.SITE: "site check --kit", Role.ASKER: "deploy check", Role.SERVER: "deploy run"}
    OUT.print(f"next: silot {words[role]} {kit}", highlight=False, markup=False, soft_wrap=True)


def _before(kit: Path) -> Path | None:
    """The records that the site answered with so far, where it did."""
    with suppress(SilotError):
        return Joined.load(Kit.load(kit)).data
    return None


def _joined(given: dict[str, Any], teaches: bool) -> Joined:
    missing = [f"--{name}" for name in ("data", "ledger") if name not in given]
    if missing and not (teaches and missing == ["--data"]):
        raise InputError(
            f"a site answers with data, and keeps account. Give {' and '.join(missing)}.",
            code="join-data",
        )
    columns = {"label_column", "weight_column"} & set(given)
    if "schema_file" in given and columns:
        raise InputError(
            "a schema names features, labels and weights. Leave the column options out.",
            code="schema-options",
        )
    if "writing" in given and "schema_file" not in given:
        raise InputError("--site goes with --schema.", code="schema-options")
    return Joined(**given)


def _check_all(joined: Joined) -> None:
    """Load everything as the site will; nothing is written."""
    if not joined.ledger.exists():
        check_writable(joined.ledger)
        ledger = Ledger()
    else:
        # For writing: read-only files and broken chains are seen here.
        ledger = joined.account()
    try:
        holder = joined.holder(ledger)
        _ = joined.rules() if holder is None else holder.limits
    finally:
        ledger.close()


def _fitted(path: Path) -> Callable[[Kit], Taught]:
    """Fit what a file says; what is returned writes it to a kit."""
    # Slow to import.
    from .distill_config import Fitted, SiteTeacher, name_field
    from .distill_data import read

    config, home = SiteTeacher.load(path), path.parent
    with name_field(path, "labels"):
        space = config.labels.space()
    transfer = data = None
    if config.transfer is not None:
        with name_field(path, "transfer"):
            transfer = read(home, config.transfer, config)
    if config.train is not None:
        with name_field(path, "train"):
            data = read(home, config.train, config, space, transfer)
    # Slow to import; the first says which extra is missing.
    from ..distillation import train  # noqa: F401
    from .distill_models import Workshop, count_records

    with progress_bar("{task.description}") as bar, name_field(path, "model"):
        task = bar.add_task("fitting", total=None)

        def tell(name: str, epoch: int, epochs: int, loss: float) -> None:
            text = f"fitting the {name}, loss {loss:.4f}"
            bar.update(task, description=text, completed=epoch, total=epochs)

        how = config.fit or Fitted()
        workshop = Workshop(home, space, transfer, how, config.seed, None, tell)
        models = workshop.models("teacher", config, data)
    inputs = None if transfer is None else transfer.inputs
    size = count_records(config, data)
    return lambda kit: keep(
        kit.folder / OWN, models, inputs=inputs, size=size, askers=config.askers
    )


__all__ = ["KitArgument", "join_command"]
