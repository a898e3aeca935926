"""The report itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy.typing as npt

from ..errors import InputError
from ..files import write_whole
from ..results import Contents, Contributions
from . import _sections
from ._checks import Records, collect
from ._map_sections import between
from ._parts_sections import why as why_section
from ._record_sections import records as record_section
from ._templates import template
from ._words import printable, target_in_words


def render_report(
    *,
    contributions: Contributions | None = None,
    records: Records | None = None,
    images: Mapping[str, npt.ArrayLike] | None = None,
    truth: Mapping[str, npt.ArrayLike] | None = None,
    contents: Mapping[str, Contents] | None = None,
    title: str = "What the data of the holders are worth",
) -> str:
    """Make a report as the text of one HTML file.

    The file needs nothing beside itself: no network, no fonts, and of scripts one alone, which
    filters and sorts tables that are whole without it; the file's policy lets no other run. The
    same results give the same text. Sections appear when their data are there: ranking of the
    holders, what their distances are made of, distances between them, a map of them, scored
    records, holders that are missing, the bill and what was disclosed. Of more than six scored
    holders, those with the largest share of flagged records are shown in full and the others in a
    table.

    Parameters
    ----------
    contributions
        What the holders are worth.
    records
        Scores of records: of one holder, of several, or by name.
    images
        Records as pictures by holder, shape (n, h, w) or (n, h, w, 3), in any range of numbers.
        The report then contains raw records and must stay with their owner.
    truth
        By holder, which records are known to be broken (n,). It turns curves of scores into
        curves of inspection, with precision and recall.
    contents
        By holder, what its records are called and what stands in them. Values of suspect records
        then stand in the report beside those of the nearest good ones, and it must stay with
        their owner.
    title
        Heading of the report.

    Returns
    -------
    str
        The HTML file.

    Raises
    ------
    InputError
        ``report-empty``: there is nothing to report. ``report-records``: ``records`` are no
        scores, or two of one name. ``report-images``, ``report-truth``: they are of another
        shape than the records, or of holders without scores. ``report-contents``,
        ``records-contents``: they are of holders without scores, or of other records.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.results import RecordScores
    >>> scores = np.array([0.1, 4.0, -0.3])
    >>> found = RecordScores(name="north", scores=scores, flagged=scores > 1, method="published",
    ...                      fdr=None, screening=None, rule="score above 1", status="converged",
    ...                      converged=True, seed=0)
    >>> text = render_report(records=found)
    >>> "1 of 3 scored records (33.3 %) is flagged as broken." in text
    True
    """
    scored = collect(records, images, truth, contents)
    found = contributions
    if not scored and (found is None or not (found.holders or found.missing)):
        raise InputError(
            "there is nothing to report. Give contributions, records or both.",
            code="report-empty",
        )
    ranked = found if found is not None and found.holders else None
    bill, disclosure = _sections.bills(found, scored)
    return template("report").render(
        title=printable(title.strip() or "Report", 200),
        target=target_in_words(found.target) if found is not None else "",
        summary=_sections.summary(found, scored),
        ranking=_sections.ranking(ranked) if ranked else None,
        why=why_section(ranked) if ranked else None,
        between=between(ranked) if ranked else None,
        records=record_section(scored) if scored else None,
        missing=_sections.missing(found) if found is not None else None,
        bill=bill,
        disclosure=disclosure,
    )


def write_report(
    path: str | Path,
    *,
    contributions: Contributions | None = None,
    records: Records | None = None,
    images: Mapping[str, npt.ArrayLike] | None = None,
    truth: Mapping[str, npt.ArrayLike] | None = None,
    contents: Mapping[str, Contents] | None = None,
    title: str = "What the data of the holders are worth",
) -> None:
    """Write a report to one HTML file, whole or not at all.

    With ``images`` or ``contents`` the file contains values of records, and only the user may read
    it.

    Parameters
    ----------
    path
        Where to write; a file that is there is replaced.
    contributions, records, images, truth, contents, title
        As for ``render_report``.

    Raises
    ------
    InputError
        As for ``render_report``; nothing is written.
    FileError
        The folder is missing or not writable, or the disk is full.

    Examples
    --------
    >>> import numpy as np, tempfile
    >>> from pathlib import Path
    >>> from silot.results import RecordScores
    >>> scores = np.array([0.1, 4.0, -0.3])
    >>> found = RecordScores(name="north", scores=scores, flagged=scores > 1, method="published",
    ...                      fdr=None, screening=None, rule="score above 1", status="converged",
    ...                      converged=True, seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(Path(folder) / "report.html", records=found)
    ...     [path.name for path in Path(folder).iterdir()]
    ['report.html']
    """
    text = render_report(
        contributions=contributions,
        records=records,
        images=images,
        truth=truth,
        contents=contents,
        title=title,
    )
    write_whole(Path(path), text.encode(), private=bool(images or contents))
