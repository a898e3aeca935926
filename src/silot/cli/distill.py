"""``silot distill``: one model from many teachers' predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from rich.markup import escape

from ..api.distill import distill
from ..data.measure import Measure
from ..data.preflight import Preflight
from ..distillation.protocol import distill as questions
from ..distillation.result import Distillation
from ..errors import FileError
from ..federation.local import Progress
from .console import (
    ERRORS,
    check_outputs,
    progress_bar,
    save_transcript,
    say_where,
    show,
    write_report,
)
from .distill_config import Config, FileSource, Fitted, field
from .distill_data import Records, read
from .generate import taking
from .options import JsonOption, ReportOption, TranscriptOption
from .sites import Where

if TYPE_CHECKING:
    from ..distillation.recipes import Recipe
    from ..distillation.trainer import Epoch


@dataclass(frozen=True)
class _Files:
    """All data of a run."""

    transfer: Records
    student: Records | None
    teachers: dict[str, Records | None]
    tests: dict[str, Records]
    noise: Any

    @property
    def preflight(self) -> Preflight | None:
        """What was seen of all vectors; of teachers whose models alone are here, nothing was."""
        every = {"transfer set": self.transfer, "global": self.student, **self.teachers}
        every |= {f"test set {name}": each for name, each in self.tests.items()}
        vectors = {
            name: Measure(each.inputs, columns=each.features or None, copy=False)
            for name, each in every.items()
            if each is not None and isinstance(each.inputs, np.ndarray)
        }
        unseen = [name for name, each in self.teachers.items() if each is None]
        return Preflight.of(vectors, unseen) if vectors else None


def register(app: typer.Typer) -> None:
    """Add the command of this file."""
    app.command("distill")(taking()(distill_command))


def distill_command(
    config: Annotated[
        Path,
        typer.Argument(help="Labels, models and data, as .yml or .json; see docs/distillation.md."),
    ],
    *,
    where: Where,
    report: ReportOption = None,
    save: Annotated[
        Path | None, typer.Option(help="Save the trained model to this .npz file.")
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Folder that keeps every step: run the same again to go on."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Seed of everything random. Default: the file's, 0.")
    ] = None,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Train one model on what teachers predict; their data and parameters stay where they are."""
    if save is not None and save.suffix != ".npz":
        raise FileError(f"{save.name} is no .npz file. Give --save NAME.npz.", code="file-kind")
    told = Config.load(config, there=where.sites is not None)
    check_outputs(report, save, transcript, inputs=told.files(config.parent))
    if seed is not None:
        told = told.model_copy(update={"seed": seed})
    try:
        found, recipe, notes = _run(config, told, checkpoint, where)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        raise KeyboardInterrupt(f"what was finished is in {checkpoint}") from None
    save_transcript(found, transcript)
    if transcript is not None and found.transcript is None:
        ERRORS.print(
            "no transcript: predictions are those of the checkpoint, and no message was sent",
            markup=False,
        )
    if save is not None:
        from ..distillation.recipes import save_model

        save_model(save, found.model, recipe)
    write_report(report, found)
    if json:
        typer.echo(found.to_json())
        return
    show(found, notes=notes)
    say_where(report=report, model=save)


def _run(
    path: Path, config: Config, checkpoint: Path | None, where: Where
) -> tuple[Distillation, Recipe, dict[str, str]]:
    with field(path, "labels"):
        space = config.labels.space()
    files = _read(path, config, space)
    # Slow to import, and says which extra is missing.
    from ..distillation import train  # noqa: F401
    from .distill_models import Workshop

    # Before models are trained for long.
    with field(path, "options"):
        how = config.options().having(noise=files.noise)
        how.check_labels(space)
        questions(list(files.teachers), files.transfer.inputs, how, labels=space, sizes=how.by_size)
    with _shown() as tell:
        workshop = Workshop(
            path.parent,
            space,
            files.transfer,
            config.student.fit or Fitted(),
            how.seed,
            checkpoint,
            tell.fit,
        )
        with field(path, "global"):
            module, recipe = workshop.model("global", config.student, files.student)
        workshop.common = recipe
        teachers: Any = {}
        if where.sites is not None:
            teachers = where.connected(list(config.teachers), config.files(path.parent))
        for name, teacher in ({} if where.sites else config.teachers).items():
            with field(path, f"teachers.{name}"):
                teachers[name] = workshop.teacher(name, teacher, files.teachers[name])
        found = distill(
            module,
            teachers,
            files.transfer.inputs,
            how,
            labels=space,
            test={name: (each.inputs, each.truth) for name, each in files.tests.items()},
            checkpoint=checkpoint,
            progress=tell.step,
        )
    notes: dict[str, str] = {}
    if files.transfer.labelled:
        notes["labels"] = "those in the file of the transfer set were not used"
    return found.with_preflight(files.preflight), recipe, notes


def _read(path: Path, config: Config, space: Any) -> _Files:
    """Read every file, so that a broken one is found before a model is trained."""
    home = path.parent

    def get(place: str, source: FileSource, labels: bool, like: Records | None) -> Records:
        with field(path, place):
            return read(home, source, config, space if labels else None, like)

    transfer = get("transfer", config.transfer, False, None)
    student = config.student.train
    noise = config.noise
    return _Files(
        transfer=transfer,
        student=None if student is None else get("global.train", student, True, transfer),
        teachers={
            name: None
            if each.train is None
            else get(f"teachers.{name}.train", each.train, True, transfer)
            for name, each in config.teachers.items()
        },
        tests={
            name: get(f"tests.{name}", each, True, transfer) for name, each in config.tests.items()
        },
        noise=get("noise", noise, False, transfer).inputs
        if isinstance(noise, FileSource)
        else noise,
    )


@dataclass(frozen=True)
class _Tell:
    """How far a run has come, for people."""

    fit: Callable[[str, int, int, float], None]
    step: Callable[[Progress | Epoch], None]


@contextmanager
def _shown() -> Iterator[_Tell]:
    """Progress on stderr, when that is a terminal."""
    with ExitStack() as stack:
        bar = stack.enter_context(progress_bar("{task.description}"))
        task = bar.add_task("reading", total=None)

        def fit(name: str, epoch: int, epochs: int, loss: float) -> None:
            text = f"fitting {escape(name)}, loss {loss:.4f}"
            bar.update(task, description=text, completed=epoch, total=epochs)

        def step(done: Progress | Epoch) -> None:
            if isinstance(done, Progress):
                total = done.expected_rounds
                text = "asking teachers"
                bar.update(task, description=text, completed=done.rounds, total=total)
                return
            text = f"distilling, loss {done.loss:.4f}"
            bar.update(task, description=text, completed=done.epoch, total=done.epochs)

        yield _Tell(fit, step)
