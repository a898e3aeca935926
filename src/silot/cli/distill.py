"""``silot train distill``: one model from many teachers' predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.markup import escape

from ..api.distill import distill
from ..distillation.configuration import Config, Setup
from ..distillation.result import Distillation
from ..federation.local import Progress
from .console import ARRAYS, ERRORS, check_outputs, progress_bar
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
    setup = Setup.read(path, config)
    # Slow to import; the first says which extra is missing.
    from ..distillation import train  # noqa: F401
    from ..distillation.building import Builder, inspect

    how = setup.options()
    with _show_progress() as (tell, step):
        builder = Builder.of(setup, how.seed, checkpoint, tell)
        module, recipe = builder.student(setup)
        if where.sites is not None:
            teachers: Any = where.connected(list(config.teachers), config.files(path.parent))
        else:
            teachers = builder.teachers(setup)
        result = distill(
            module, teachers, setup.transfer.inputs, how, labels=setup.space,
            validation=setup.validation, test=setup.tests, checkpoint=checkpoint, progress=step,
        )  # fmt: skip
    notes: dict[str, str] = {}
    if setup.transfer.labelled:
        notes["labels"] = "those in the file of the transfer set were not used"
    return result.with_preflight(inspect(setup)), recipe, notes


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
