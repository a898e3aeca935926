"""Write results: to the terminal, to files, and as JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ..data.files import check_whole, write_whole
from ..errors import FileError
from ..render import Content, facts, terminal, written
from ..render.figure import check_drawing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..federation.run import Progress as Step
    from ..sites.page import Page

OUT = Console()
ERRORS = Console(stderr=True)
NOTE_STEPS: ContextVar[Callable[[int, int | None], None]] = ContextVar(
    "NOTE_STEPS", default=lambda _done, _total: None
)
"""What receives the steps of a command beside its progress bar: the record of a run over sites."""

# Columns of tables that hold numbers, and texts of any length.
_NUMBERS = ("bytes", "mu", "total")
_FOLDED = ("who", "question", "mechanism", "outcome", "state", "computation", "sites")
# Endings of files that figures and arrays are written to.
FIGURES, ARRAYS = (".png", ".svg", ".pdf"), (".npz",)


@contextmanager
def progress_bar(title: str) -> Iterator[Progress]:
    """A progress bar on stderr, when that is a terminal."""
    bar = Progress(
        TextColumn(title),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=ERRORS,
        transient=True,
        disable=not ERRORS.is_terminal,
    )
    with bar:
        yield bar


@contextmanager
def steps(title: str) -> Iterator[Callable[[Step], None]]:
    """A progress bar over the exchanges of one run."""
    with counting(title, "rounds") as count:
        yield lambda done: count(done.rounds, done.expected_rounds)


@contextmanager
def counting(title: str, what: str) -> Iterator[Callable[[int, int | None], None]]:
    """A progress bar over things that are counted: call what it yields with done and total."""
    with progress_bar(title) as bar:
        task = bar.add_task(what, total=None)

        def step(done: int, total: int | None) -> None:
            bar.update(task, completed=done, total=total, refresh=True)
            NOTE_STEPS.get()(done, total)

        yield step


@contextmanager
def reading(path: Path) -> Iterator[Callable[[float], None]]:
    """A progress bar over a file: call what it yields with the share that was read."""
    with progress_bar(f"reading {path.name}") as bar:
        task = bar.add_task("read", total=100)
        yield lambda share: bar.update(task, completed=round(100 * share))


def show(result: Any, **options: Any) -> None:
    """Print what a terminal shows of a result."""
    from ..api.report import sections

    show_blocks(sections(result, **options))


def show_blocks(content: Content) -> None:
    """Print facts and tables."""
    terminal.show(OUT, written(content, "terminal"))


def show_rows(rows: Mapping[str, str]) -> None:
    """Print names and what they stand for, one per line."""
    show_blocks(facts(rows))


def print_json(body: object) -> None:
    """Print a JSON document on one line."""
    typer.echo(json.dumps(body, allow_nan=False))


def print_json_lines(items: Iterable[object]) -> None:
    """Print a JSON list, one element a line, as the elements come."""
    before = "["
    for item in items:
        typer.echo(f"{before}{json.dumps(item, allow_nan=False)}", nl=False)
        before = ",\n"
    typer.echo("]" if before != "[" else "[]")


def print_line(text: str) -> None:
    """Print a line as it is: not wrapped, and nothing in it coloured."""
    OUT.print(text, highlight=False, markup=False, soft_wrap=True)


def format_minute(text: str) -> str:
    """Format a time to the minute."""
    return text[:16].replace("T", " ")


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print rows, if any, under the names of columns: numbers to the right, long texts folded."""
    if not (cells := list(rows)):
        return
    table = Table(box=None, expand=False)
    for name in columns:
        justify = "right" if name in _NUMBERS else "left"
        table.add_column(name, justify=justify, no_wrap=name not in _FOLDED, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    OUT.print(table, highlight=False)


def write_report(path: Path | None, result: Any, **options: Any) -> None:
    """Write the page of a result where a path names it."""
    if path is not None:
        # Slow to import: it draws.
        from ..api.report import write

        write(path, result, **options)


def say_where(**paths: Path | None) -> None:
    """Say where files are, by what they are."""
    for what, path in paths.items():
        if path is not None:
            print_line(f"{what} in {path}")


def tell(sentence: str) -> None:
    """Say something beside the result, on stderr."""
    ERRORS.print(sentence, highlight=False, markup=False, soft_wrap=True)


def tell_forecast(expected: object) -> None:
    """Say on stderr what a run will take, before it starts."""
    ERRORS.print(f"about to take {expected}", highlight=False, markup=False)


def serve_page(page: Page) -> None:
    """Print the link of a page, and answer until Ctrl-C."""
    print_line(
        f"Open this link in a browser on this machine. It works once:\n\n  {page.url}\n\n"
        "The page is there until you press Ctrl-C here."
    )
    try:
        page.serve()
    except KeyboardInterrupt:
        print_line("closed")


def check_outputs(*paths: Path | None, inputs: Iterable[Path | None] = ()) -> None:
    """Raise before a long computation whose results could not be written, or over ``inputs``."""
    results = [path for path in paths if path is not None]
    for path in results:
        check_whole(path)
    places = {path.resolve() for path in results}
    if len(places) < len(results):
        raise FileError(
            "two results would be written to one file. Give each a path of its own.",
            code="file-twice",
        )
    read = [path for path in inputs if path is not None and path.resolve() in places]
    if read:
        raise FileError(
            f"a result would be written over {read[0].name}, which is read. Give it a path of "
            "its own.",
            code="file-twice",
        )


def check_endings(values: Mapping[str, Any], endings: Mapping[str, tuple[str, ...]]) -> None:
    """Raise before a long computation whose results files of these names do not hold."""
    for name, allowed in endings.items():
        path: Path | None = values.get(name)
        if path is not None and allowed is FIGURES:
            check_drawing()
        if path is not None and path.suffix.lower() not in allowed:
            raise FileError(
                f"{path.name} does not end in {' or '.join(allowed)}. Give --{name} "
                f"NAME{allowed[0]}.",
                code="file-kind",
            )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all; the file's ending names its format."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".").lower(), dpi=150)
    write_whole(path, buffer.getvalue())


def save_plot(result: Any, path: Path | None, height: int = 5) -> None:
    """Draw a result by its ``plot``, where a path names the figure."""
    if path is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, height), layout="constrained")
        result.plot(figure.add_subplot())
        save_figure(figure, path)


def save_arrays(path: Path, arrays: Mapping[str, Any], *, private: bool = False) -> None:
    """Write arrays whole or not at all to an .npz file."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    write_whole(path, buffer.getvalue(), private=private)
