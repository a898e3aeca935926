"""The report of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..audit._metrics import exact_rows, match_rows
from ..errors import MismatchError
from ..files import write_whole
from ..results import Attack, Audit
from ..results._run import Array
from ..results.audit import SILENCE
from ._curves import thumbnails
from ._sections import Cell, Column, Table
from ._templates import template
from ._words import MISSING_NUMBER, number, percent, printable

_PICTURES = 24


@dataclass(frozen=True)
class Image:
    """A picture of a record."""

    source: str
    alt: str


@dataclass(frozen=True)
class Pair:
    """A record and its reconstruction, or the reconstruction alone."""

    images: list[Image]
    words: str


@dataclass(frozen=True)
class Part:
    """What is said of one party."""

    target: str
    table: Table
    skipped: list[tuple[str, str]]
    by: str
    compared: bool
    pairs: list[Pair]


def render_audit(audit: Audit, *, title: str = "What the messages give away") -> str:
    """Make the report of an audit as the text of one HTML file.

    The file needs nothing beside itself: no network, no scripts, no fonts. Where records have
    the shape of pictures, true and reconstructed ones stand side by side, and the report contains
    raw records.

    Parameters
    ----------
    audit
        What was found.
    title
        Heading of the report.

    Returns
    -------
    str
        The HTML file.

    Raises
    ------
    MismatchError
        ``report-images``: the image shape does not hold the features of a record.

    Examples
    --------
    >>> from silot.results import Audit
    >>> text = render_audit(Audit(viewpoint="coordinator", protocol="sketch", targets=("x",),
    ...                           attacks=()))
    >>> "not recovered by these attacks" in text
    True
    """
    parts = [_part(audit, target) for target in audit.targets]
    verdicts = [(printable(name), printable(text, 2000)) for name, text in audit.verdicts.items()]
    return template("audit").render(
        title=printable(title.strip() or "Audit", 200),
        protocol=printable(audit.protocol),
        viewpoint=printable(audit.viewpoint),
        verdicts=verdicts,
        tried=printable(", ".join(audit.tried) or "nothing", 2000),
        not_finished=printable(", ".join(audit.not_finished), 2000),
        not_tried=[printable(text, 2000) for text in audit.not_tried],
        silence=SILENCE,
        parts=parts,
        pictured=any(part.pairs for part in parts),
    )


def write_audit(path: str | Path, audit: Audit, *, title: str = "") -> None:
    """Write the report of an audit to one file that only the user may read.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    audit, title
        As for ``render_audit``.

    Raises
    ------
    MismatchError
        As for ``render_audit``; nothing is written.
    FileError
        The folder is missing or not writable, or the disk is full.

    Examples
    --------
    >>> import tempfile
    >>> from silot.results import Audit
    >>> found = Audit(viewpoint="coordinator", protocol="sketch", targets=("x",), attacks=())
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_audit(Path(folder) / "audit.html", found)
    ...     [path.name for path in Path(folder).iterdir()]
    ['audit.html']
    """
    text = render_audit(audit, title=title or "What the messages give away")
    write_whole(Path(path), text.encode(), private=True)


def _part(audit: Audit, target: str) -> Part:
    applied = [attack for attack in audit.of(target) if attack.applicable]
    titles = ("exact", "re-identified", "chance", "error", "proven", "membership")
    columns = (Column("attack", numeric=False), *map(Column, titles), Column("finding", False))
    best = audit.best(target)
    truth = audit.truth.get(target)
    return Part(
        target=printable(target),
        table=Table("Attacks that applied", columns, [_row(attack) for attack in applied]),
        skipped=[(one.name, one.reason) for one in audit.of(target) if not one.applicable],
        by="" if best is None else best.name,
        compared=truth is not None,
        pairs=_pairs(audit, best, truth),
    )


def _row(attack: Attack) -> tuple[Cell, ...]:
    exact = attack.exact_rate
    error = attack.relative_rmse
    proven = {True: "yes", False: "no", None: MISSING_NUMBER}[attack.certified]
    return (
        Cell(attack.name),
        Cell(_rate(exact), bar=exact, warn=bool(exact)),
        Cell(_rate(attack.reidentification_rate)),
        Cell(_rate(attack.chance)),
        Cell(MISSING_NUMBER if error is None else number(error)),
        Cell(proven),
        Cell(MISSING_NUMBER if attack.membership_auc is None else f"{attack.membership_auc:.3f}"),
        Cell(printable(attack.verdict, 1000)),
    )


def _rate(share: float | None) -> str:
    return MISSING_NUMBER if share is None else percent(share)


def _pairs(audit: Audit, best: Attack | None, truth: Array | None) -> list[Pair]:
    shape = audit.image_shape
    if shape is None or best is None or best.recovered is None:
        return []
    rows = best.recovered
    if rows.shape[1] != int(np.prod(shape)):
        raise MismatchError(
            f"a record has {rows.shape[1]} features and an image of shape {shape} "
            f"{int(np.prod(shape))}.",
            code="report-images",
        )
    if truth is not None:
        rows = rows if best.ordered and len(rows) == len(truth) else match_rows(rows, truth)
    count = min(len(rows), _PICTURES)
    if truth is None:
        sources = thumbnails(rows.reshape(-1, *shape), np.arange(count))
        return [
            Pair([Image(source, f"reconstructed record {k}")], f"row {k}")
            for k, source in enumerate(sources)
        ]
    exact = exact_rows(rows, truth)
    both: Any = np.concatenate([truth[:count], rows[:count]]).reshape(-1, *shape)
    sources = thumbnails(both, np.arange(2 * count))
    return [
        Pair(
            [
                Image(sources[k], f"true record {k}"),
                Image(sources[count + k], f"reconstruction of record {k}"),
            ],
            f"record {k}, {'exact' if exact[k] else 'not exact'}",
        )
        for k in range(count)
    ]
