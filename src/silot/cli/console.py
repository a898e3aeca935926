"""Where output goes, and the tables it is shown in."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from ..errors import FileError
from ..federation.local import Progress as Step
from ..files import check_whole, write_whole
from ..results import Bill, Billed, Distance, DistanceMatrix, format_bytes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUT = Console()
ERRORS = Console(stderr=True)
_FIGURES = (".png", ".svg", ".pdf")


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
    with progress_bar(title) as bar:
        task = bar.add_task("rounds")

        def step(done: Step) -> None:
            bar.update(task, completed=done.rounds, total=done.expected_rounds)

        yield step


def save_transcript(result: Billed, path: Path | None) -> None:
    """Save the messages of a run, where that was asked for."""
    if path is not None and result.transcript is not None:
        result.transcript.save(path)


def short_status(status: str) -> str:
    """The first word of a status: what kind of result it is."""
    return status.split(":")[0].split(" ")[0]


def number(value: float) -> str:
    """A number in four digits, and infinity in a word."""
    if math.isinf(value):
        return "none"
    return f"{value:#.4g}"


def interval(result: Distance) -> str:
    """Bounds as ``[lower, upper]``."""
    return f"[{number(result.lower)}, {number(result.upper)}]"


def traffic(result: Billed | Bill) -> str:
    """Bytes both ways."""
    return format_bytes(result.bytes_sent + result.bytes_received)


def bill_rows(result: Billed | DistanceMatrix) -> dict[str, str]:
    """What a run cost and disclosed, in words."""
    disclosed, bill = result.disclosure, result.bill
    if disclosed == "record":
        disclosed = "record: every record can be computed back from the messages"
    rows = {
        "bill": f"{bill.rounds} rounds, {traffic(bill)}, {bill.seconds:.2f} s",
        "disclosed": disclosed,
    }
    if bill.privacy_mu > 0:
        rows["charged"] = f"mu {bill.privacy_mu:.4g} to each holder's ledger, at most"
    elif result.disclosure == "sketch":
        rows["charged"] = "nothing: told again from the ledgers, of the data they had then"
    return rows


def show_rows(rows: dict[str, str]) -> None:
    """Print names and what they stand for, one a line."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    for key, value in rows.items():
        table.add_row(key, value)
    OUT.print(table, highlight=False, markup=False)


def tell_forecast(expected: object) -> None:
    """Say on stderr what a run will take, before it starts."""
    ERRORS.print(f"about to take {expected}", highlight=False, markup=False)


def check_writable(path: Path) -> None:
    """Raise before a long computation whose result could not be written."""
    if not path.parent.is_dir():
        raise FileError(
            f"{path} cannot be written: there is no folder {path.parent}. Make it first.",
            code="file-unwritable",
        )
    check_whole(path)


def check_figure(path: Path) -> None:
    """Raise before a long computation whose figure could not be saved."""
    check_writable(path)
    if path.suffix.lower() not in _FIGURES:
        raise FileError(
            f"{path.name} is of no kind a figure can be saved as. Use {', '.join(_FIGURES)}.",
            code="file-kind",
        )


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure whole or not at all; the file's ending names its format."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.lstrip(".").lower(), dpi=150)
    write_whole(path, buffer.getvalue())
