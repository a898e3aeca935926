"""Show results on a terminal, in a notebook, and as one HTML file.

A result declares its content once, and marks what only a terminal or only a page shows. The file
needs nothing beside itself, and no network.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from ..data.files import write_whole
from ..data.preflight import Preflight
from ..render import Block, written
from ..render.shown import shown


def sections(result: Any, **options: Any) -> list[Block]:
    """Return what a terminal and a notebook show of a result."""
    return shown(result, "terminal", **options)


def page(result: Any, *beside: Any, **options: Any) -> list[Block]:
    """Return what a page shows of a result.

    Parameters
    ----------
    result
        Any result of a run. Record scores may be several, in a list or by name.
    beside, options
        What the page shows beside it. Of contributions: ``records`` that were scored; of these,
        or of record scores alone, ``images``, ``truth`` and ``contents``, by holder: see
        ``silot.records.view.value_page``. Of a link plan: its ``costs``, which must be given, and
        ``network``.

    Returns
    -------
    list of Block
        For ``silot.render.html``.

    Raises
    ------
    InputError
        ``report-empty``: there is nothing to report.
    """
    from ..distances.worth.result import Contributions
    from ..federation.preflight_view import framed
    from ..records.result import RecordScores
    from ..records.view import value_page

    if isinstance(result, Contributions):
        content, preflight = value_page(result, *beside, **options), result.preflight
    elif isinstance(result, RecordScores | Mapping | Sequence) or result is None:
        content, preflight = value_page(*beside, records=result, **options), _preflight_of(result)
    else:
        return shown(result, "page", *beside, **options)
    return framed(written(content, "page"), preflight)


def _preflight_of(scores: Any) -> Preflight | None:
    """Return what was seen of the tables of all holders whose records were scored."""
    if isinstance(scores, Mapping):
        scores = list(cast("Mapping[str, Any]", scores).values())
    every = cast("Sequence[Any]", scores) if isinstance(scores, Sequence) else [scores]
    return Preflight.together([getattr(item, "preflight", None) for item in every])


def render(result: Any, *beside: Any, title: str = "", **options: Any) -> str:
    """Render the page of a result as the text of one HTML file; equal results give equal texts.

    Parameters
    ----------
    result, beside, options
        As for ``page``.
    title
        Instead of the page's own.

    Returns
    -------
    str
        The HTML file.

    Raises
    ------
    InputError, MismatchError
        As for ``page``; of link plans ``report-links``, of audits and records ``report-images``.

    Examples
    --------
    >>> import silot
    >>> text = render(silot.distance([[0.0]], [[2.0]]))
    >>> "x and y are 2.000 apart" in text.replace("<bdi>", "").replace("</bdi>", "")
    True
    """
    # Slow to import, and no terminal needs it.
    from ..render import html

    return html.render(page(result, *beside, **options), title=title)


def write(path: str | Path, result: Any, *beside: Any, title: str = "", **options: Any) -> None:
    """Write the page of a result to one HTML file, whole or not at all.

    What contains values of records only the user may read.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    result, beside, title, options
        As for ``render``.

    Raises
    ------
    InputError, MismatchError
        As for ``render``; nothing is written.
    FileError
        The folder is missing or not writable, or the disk is full.

    Examples
    --------
    >>> import silot, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write(Path(folder) / "report.html", silot.distance([[0.0]], [[2.0]]))
    ...     [path.name for path in Path(folder).iterdir()]
    ['report.html']
    """
    from ..render import html

    blocks = page(result, *beside, **options)
    text = html.render(blocks, title=title)
    write_whole(Path(path), text.encode(), private=html.is_private(blocks))
