"""``silot train distill``: one model from many teachers' predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from ..api.distill import MEMORY, distill, inspect_vectors
from ..distillation import LabelSpace
from ..distillation.protocol import distill as ask_teachers
from ..distillation.result import Distillation
from ..federation.local import Progress
from .console import ARRAYS, ERRORS, check_outputs, progress_bar
from .distill_config import Config, FileSource, Fitted, name_field
from .distill_data import Records, read
from .generate import argument, command, flag
from .options import Outputs
from .sites import Where

if TYPE_CHECKING:
    from ..distillation.recipes import Recipe
    from ..distillation.trainer import Epoch

Tell = Callable[[str, int, int, float], None]


@command()
def distill_command(
    config: Path = argument(
        "Configuration of labels, models and data, .yml or .json; see docs/distillation.md."
    ),
    *,
    where: Where,
    save: Path | None = flag("Save the trained model to this .npz file.", endings=ARRAYS),
    checkpoint: Path | None = flag(
        "Folder in which every step is saved; run the same command again to continue."
    ),
    seed: int | None = flag("Seed of everything random. Default: that of the file, or 0.", min=0),
    outputs: Outputs,
) -> None:
    """Train one model on predictions of teachers, whose data and parameters stay there."""
    body = Config.load(config, at_sites=where.sites is not None)
    check_outputs(outputs.report, save, outputs.transcript, inputs=body.files(config.parent))
    if seed is not None:
        body = body.model_copy(update={"seed": seed})
    try:
        result, recipe, notes = _run(config, body, checkpoint, where)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise KeyboardInterrupt(f"what was finished is in {checkpoint}") from None
    if outputs.transcript is not None and result.transcript is None:
        ERRORS.print(
            "no transcript: predictions come from the checkpoint, and no message was sent",
            markup=False,
        )
    if save is not None:
        from ..distillation.recipes import save_model

        save_model(save, result.model, recipe)
    outputs.finish(result, then={"model": save}, notes=notes)


def _run(
    path: Path, config: Config, checkpoint: Path | None, where: Where
) -> tuple[Distillation, Recipe, dict[str, str]]:
    with name_field(path, "labels"):
        space = config.labels.space()
    files = _read_files(path, config, space)
    transfer, noise = files["transfer"], config.noise
    if isinstance(noise, FileSource):
        noise = files["noise"].inputs
    # Slow to import, and says which extra is missing.
    from ..distillation import train  # noqa: F401
    from .distill_models import Workshop

    # Before models are trained for long.
    with name_field(path, "options"):
        how = config.options().having(noise=noise).settled(validated=config.validation is not None)
        how.check_labels(space)
        ask_teachers(list(config.teachers), transfer.inputs, how, labels=space, sizes=how.by_size)
    tests = {name: files[f"tests.{name}"] for name in config.tests}
    validation = files.get("validation")
    with _show_progress() as (tell, step):
        workshop = Workshop(
            path.parent, space, transfer, config.student.fit or Fitted(), how.seed, checkpoint, tell
        )
        with name_field(path, "global"):
            data = files.get("global.train")
            module, workshop.common = workshop.model("global", config.student, data)
        teachers: Any = {}
        if where.sites is not None:
            teachers = where.connected(list(config.teachers), config.files(path.parent))
        for name, teacher in ({} if where.sites else config.teachers).items():
            with name_field(path, f"teachers.{name}"):
                data = files.get(f"teachers.{name}.train")
                teachers[name] = workshop.teacher(name, teacher, data)
        result = distill(
            module,
            teachers,
            transfer.inputs,
            how,
            labels=space,
            validation=None if validation is None else (validation.inputs, validation.truth),
            test={name: (records.inputs, records.truth) for name, records in tests.items()},
            checkpoint=checkpoint,
            progress=step,
        )
    # Of teachers whose models alone are here, nobody saw the records.
    owners = {"transfer set": transfer, MEMORY: files.get("global.train")}
    owners |= {name: files.get(f"teachers.{name}.train") for name in config.teachers}
    owners["validation"] = validation
    owners |= {f"test set {name}": records for name, records in tests.items()}
    owned = {name: records for name, records in owners.items() if records is not None}
    preflight = inspect_vectors(
        {name: records.inputs for name, records in owned.items()},
        [name for name in config.teachers if name not in owned],
        {name: records.features for name, records in owned.items()},
    )
    notes: dict[str, str] = {}
    if transfer.labelled:
        notes["labels"] = "those in the file of the transfer set were not used"
    return result.with_preflight(preflight), workshop.common, notes


def _read_files(path: Path, config: Config, space: LabelSpace) -> Mapping[str, Records]:
    """Read every file by its field, so that a broken one shows before a model is trained."""
    sources = {"transfer": config.transfer, "global.train": config.student.train}
    sources |= {f"teachers.{name}.train": own.train for name, own in config.teachers.items()}
    sources |= {f"tests.{name}": source for name, source in config.tests.items()}
    sources["validation"] = config.validation
    sources["noise"] = config.noise if isinstance(config.noise, FileSource) else None
    files: dict[str, Records] = {}
    for place, source in sources.items():
        if source is not None:
            labels = None if place in ("transfer", "noise") else space
            with name_field(path, place):
                files[place] = read(path.parent, source, config, labels, files.get("transfer"))
    return files


@contextmanager
def _show_progress() -> Iterator[tuple[Tell, Callable[[Progress | Epoch], None]]]:
    """Show on stderr, when that is a terminal, how far models are fitted and a run has come."""
    with progress_bar("{task.description}") as bar:
        task = bar.add_task("reading", total=None)

        def update(text: str, completed: int, total: int) -> None:
            bar.update(task, description=text, completed=completed, total=total)

        def tell(name: str, epoch: int, epochs: int, loss: float) -> None:
            update(f"fitting {escape(name)}, loss {loss:.4f}", epoch, epochs)

        def step(done: Progress | Epoch) -> None:
            if isinstance(done, Progress):
                update("asking teachers", done.rounds, done.expected_rounds)
            else:
                update(f"distilling, loss {done.loss:.4f}", done.epoch, done.epochs)

        yield tell, step
