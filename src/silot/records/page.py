"""The page of what holders are worth, of their records, or of both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from ..distances.worth.result import Contributions
from ..distances.worth.view import TITLE, closest, worth_blocks
from ..errors import InputError
from ..federation.view import Run, bill_sections, missing_table
from ..render import Block, Heading, Paragraph, Private
from ..render.words import count, percent, printable
from .checks import Records, Scored, collect
from .result import Contents
from .view import scored_sections


def value_page(
    contributions: Contributions | None = None,
    *,
    records: Records | None = None,
    images: Mapping[str, npt.ArrayLike] | None = None,
    truth: Mapping[str, npt.ArrayLike] | None = None,
    contents: Mapping[str, Contents] | None = None,
) -> list[Block]:
    """The page of what holders are worth, of the scores of their records, or of both.

    Sections appear when their data are there. Of more than six scored holders, those with the
    largest share of flagged records are shown in full and the others in a table.

    Parameters
    ----------
    contributions
        What the holders are worth.
    records
        Scores of records: of one holder, of several, or by name.
    images
        Records as pictures by holder, shape (n, h, w) or (n, h, w, 3), in any range of numbers.
        The page then contains raw records and must stay with their owner.
    truth
        By holder, which records are known to be broken (n,). It turns curves of scores into
        curves of inspection, with precision and recall.
    contents
        By holder, what its records are called and what stands in them. Values of suspect records
        then stand in the page beside those of the nearest good ones, and it must stay with
        their owner.

    Raises
    ------
    InputError
        ``report-empty``: there is nothing to report. ``report-records``: ``records`` are no
        scores, or two of one name. ``report-images``, ``report-truth``: they are of another
        shape than the records, or of holders without scores. ``report-contents``,
        ``records-contents``: they are of holders without scores, or of other records.
    """
    scored = collect(records, images, truth, contents)
    found = contributions
    if not scored and not _named(found):
        raise InputError(
            "there is nothing to report. Give contributions, records or both.",
            code="report-empty",
        )
    blocks: list[Block] = [
        Heading(TITLE if found is not None else "Suspect records", level=1),
        *_summary(found, scored),
    ]
    if images or contents:
        blocks.append(_private(scored))
    if found is not None and found.holders:
        blocks += worth_blocks(found)
    blocks += scored_sections(scored)
    if found is not None and found.missing:
        blocks += [
            Heading("Missing holders", "missing", "Missing holders"),
            Paragraph("Nothing in this report says anything about their data."),
            missing_table(found.missing, {}, "holder"),
        ]
    return [*blocks, *bill_sections(_runs(found, scored))]


def _named(found: Contributions | None) -> bool:
    """Whether there is a word to say of any holder's worth."""
    return found is not None and bool(found.holders or found.missing)


def _private(scored: Sequence[Scored]) -> Private:
    """What must stay with its owner."""
    if not any(item.raw for item in scored):
        return Private("")
    pictured = any(item.images is not None for item in scored)
    return Private("records of holders as pictures" if pictured else "values of suspect records")


def _runs(found: Contributions | None, scored: Sequence[Scored]) -> list[tuple[str, Run]]:
    runs: list[tuple[str, Run]] = []
    if found is not None:
        runs.append(("worth of the holders", found))
        if found.barycenter is not None and found.barycenter.rounds:
            runs.append(("barycenter", found.barycenter))
    return runs + [(f"records of {printable(item.name)}", item.scores) for item in scored]


def _summary(found: Contributions | None, scored: Sequence[Scored]) -> list[Block]:
    """The result in a few sentences."""
    sentences: list[str] = []
    warnings: list[Block] = []
    if found is not None:
        if found.holders:
            sentences += closest(found)
        if found.missing:
            sentences.append(f"{count(len(found.missing), 'holder')} took no part.")
        if not found.converged:
            status = printable(found.status, 400)
            warnings.append(Paragraph(f"Not everything converged: {status}", "warning"))
    if scored:
        sentences.append(_flagged(scored))
    return [Paragraph(" ".join(sentences), "lead"), *warnings]


def _flagged(scored: Sequence[Scored]) -> str:
    """How many of the scored records are flagged."""
    flagged = sum(item.flagged for item in scored)
    records = sum(item.records for item in scored)
    where = sum(item.flagged > 0 for item in scored)
    of = count(records, "scored record")
    of += "" if len(scored) == 1 else f" of {count(len(scored), 'holder')}"
    if not flagged:
        return f"None of {of} is flagged as broken."
    share = percent(flagged / max(records, 1))
    verb = "is" if flagged == 1 else "are"
    among = f", in {where} of the holders" if where < len(scored) else ""
    return f"{flagged:,} of {of} ({share}) {verb} flagged as broken{among}."
