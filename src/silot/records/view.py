"""What is shown of scored records, alone or beside the worth of holders, and of counts of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from .. import render
from ..distances.worth.result import Contributions
from ..distances.worth.view import Beside, value_content
from ..errors import InputError
from ..federation.view import Run, cost_content, cost_rows
from ..render.words import count, decimals, percent, printable
from .checks import Flags, Records, Scored, collect
from .counts import BrokenCounts
from .figures import inspection_figure, score_figure, thumbnails
from .result import Contents, RecordScores, Suspect

_DETAILED = 6
_THUMBNAILS = 12
# Rows of suspect records in one report, of some 600 bytes each.
_ROWS = 12_000
# Lengths of the head of a ranking whose precision is listed.
_FIRST = (10, 20, 50, 100, 200, 500, 1000, 5000)
# On a terminal.
_SHOWN = 10


def records_content(result: RecordScores, contents: Contents | None = None) -> render.Content:
    """Declare the most suspect records of a holder, the rule and the cost."""
    return [
        render.on_terminal(lambda: _terminal(result, contents)),
        render.on_page(lambda: value_page(records=result)),
    ]


def _terminal(result: RecordScores, contents: Contents | None) -> render.Content:
    total = len(result.suspects(contents))
    more = f"{total - _SHOWN:,} more: --sheet FILE and --report FILE list all"
    words = {"records": result.summary, "rule": result.rule, "status": result.status}
    words |= cost_rows(result)
    if result.screening is not None:
        words["disclosed"] = (
            "record: about 16 numbers on every record; the holder receives the validation records"
        )
    return [
        _chart({result.name: result}),
        _suspects(result, contents, None, _SHOWN),
        total > _SHOWN and render.Paragraph(more),
        render.facts(words),
    ]


def counts_content(result: BrokenCounts) -> render.Content:
    """Declare the noisy counts of faulty records that the coordinator received."""
    faulty = {name: holder.broken["all"] for name, holder in result.holders.items()}
    strange = [holder.strange for holder in result.holders.values() if holder.strange is not None]
    chart = render.chart(
        "Faulty records of each holder, by noisy counts, with 95 % intervals.",
        [(name, part.value, (part.low, part.high), None) for name, part in faulty.items()],
        unit="records",
        write="{:,.0f}".format,
    )
    terminal = {
        "received": "noisy counts; scores, flags and suggestions stay with the holder",
        "status": result.status,
        "other classes": f"about {sum(strange):.0f} records" if strange else None,
        **cost_rows(result),
    }
    return [
        render.Headline(
            "How many records are faulty",
            f"About {sum(part.value for part in faulty.values()):,.0f} records of "
            f"{count(len(faulty), 'holder')} are faulty, by noisy counts. Scores, flags and "
            "suggestions stay with the holders.",
        ),
        render.section(
            "Faulty records",
            chart,
            _counts(result),
            render.facts({}, terminal=terminal, page={"status": result.status}),
        ),
        cost_content(result),
    ]


def _counts(result: BrokenCounts) -> render.Table:
    rows = [
        (name, fault, f"{part.value:.0f}", f"{part.low:.0f} to {part.high:.0f}",
         f"{holder.flagged[fault].value:.0f}", f"{holder.records:.0f}")
        for name, holder in result.holders.items()
        for fault in ("label", "features", "all")
        if (part := holder.broken.get(fault))
    ]  # fmt: skip
    heads = map(render.Column, ("faulty", "95 %", "would be flagged", "of about"))
    return render.plain_table([render.names(), render.texts("fault"), *heads], rows)


def value_page(
    contributions: Contributions | None = None,
    *,
    records: Records | None = None,
    images: Mapping[str, npt.ArrayLike] | None = None,
    truth: Mapping[str, npt.ArrayLike] | None = None,
    contents: Mapping[str, Contents] | None = None,
) -> render.Content:
    """Declare the page of what holders are worth, of the scores of their records, or of both.

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
        By holder, which records are known to be faulty (n,). It turns curves of scores into
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
    is_named = contributions is not None and bool(contributions.holders or contributions.missing)
    if not scored and not is_named:
        raise InputError(
            "there is nothing to report. Give contributions, records or both.",
            code="report-empty",
        )
    sentences = [_flagged(scored)] if scored else []
    private = _private(scored) if images or contents else None
    sections = _sections(scored)
    runs: list[tuple[str, Run]] = [
        (f"records of {printable(item.name)}", item.scores) for item in scored
    ]
    if contributions is not None:
        return value_content(contributions, Beside(sentences, private, sections, runs))
    return [render.Headline("Suspect records", *sentences), private, sections, cost_content(runs)]


def _private(scored: Sequence[Scored]) -> render.Private:
    if any(item.images is not None for item in scored):
        return render.Private("records of holders as pictures")
    return render.Private("values of suspect records" * any(item.raw for item in scored))


def _flagged(scored: Sequence[Scored]) -> str:
    flagged = sum(item.flagged for item in scored)
    records = sum(item.records for item in scored)
    where = sum(item.flagged > 0 for item in scored)
    of = count(records, "scored record")
    of += "" if len(scored) == 1 else f" of {count(len(scored), 'holder')}"
    if not flagged:
        return f"None of {of} is flagged as faulty at this level; the most suspect ones are listed."
    share = percent(flagged / max(records, 1))
    verb = "is" if flagged == 1 else "are"
    among = f", in {where} of the holders" if where < len(scored) else ""
    return f"{flagged:,} of {of} ({share}) {verb} flagged as faulty{among}."


def _sections(scored: Sequence[Scored]) -> render.Content:
    """Return the overview of all holders, and those with the largest share of flagged records."""
    ordered = sorted(scored, key=lambda item: (-item.flagged_share, item.name))
    chosen = list(scored) if len(scored) <= _DETAILED else ordered[:_DETAILED]
    shown = f"The {len(chosen)} holders with the largest share of flagged records"
    is_screened = any(item.scores.screening is not None for item in chosen)
    return bool(scored) and render.on_page(render.section(
        "Suspect records",
        render.Paragraph(_SCREENED if is_screened else _PUBLISHED),
        render.Paragraph(
            "Scores, positions and flags disclose something about single records. Share "
            "this report only with people who may know that.",
            "note",
        ),
        _chart({item.name: item.scores for item in ordered}),
        len(scored) > 1 and _overview(ordered),
        len(chosen) < len(scored) and render.Paragraph(f"{shown} are shown in full."),
        [
            _holder(item, f"records-{k + 1}", _ROWS // len(chosen))
            for k, item in enumerate(chosen)
        ]
    ))  # fmt: skip


_SCREENED = (
    "A score is the log odds that a record is faulty: at 0 it is as likely faulty as not. Kinds: "
    "a wrong ", render.Strong("label"), ", faulty ", render.Strong("features"), ", a ",
    render.Strong("copy"), " of an earlier record, an ", render.Strong("unknown label"),
    " that no validation record has. The nearest good record is the nearest one "
    "of the validation data. Positions count from 0.",
)  # fmt: skip
_PUBLISHED = "A score is a calibrated gradient: positive ones are flagged. Positions count from 0."


def _overview(ordered: Sequence[Scored]) -> render.Table:
    return render.table(
        "Scored records by holder, the largest share of flagged ones first.",
        ordered,
        render.names(of="name"), render.counts("records"), render.counts("flagged"),
        render.shares("flagged share", bar=ordered[0].flagged_share or 1.0),
        render.counts("faulty", of="quality.faulty"),
        render.shares("precision", of="quality.precision"),
        render.shares("recall", of="quality.recall"), render.digits("AUC", 3, of="quality.auc"),
        filter=True,
        flagged=[item.flagged > 0 for item in ordered],
        only="only holders with flagged records",
        filled=True,
    )  # fmt: skip


def _holder(item: Scored, anchor: str, most: int) -> render.Content:
    scores, truth, name = item.scores, item.truth, printable(item.name)
    sentences, good = [f"{item.scores.summary}."], item.quality
    if good is not None:
        sentences.append(
            f"{count(good.faulty, 'record')} known to be faulty: AUC {decimals(good.auc, 3)}, "
            f"precision {percent(good.precision)}, recall {percent(good.recall)}."
        )
    return render.section(
        ("Records of ", render.Name(name)),
        render.Paragraph(" ".join(sentences)),
        render.Paragraph(f"Rule: {printable(scores.rule, 600)}", "small"),
        render.Paragraph(
            f"Status: {printable(scores.status, 400)}",
            "small" if scores.converged else "small warn",
        ),
        _precision(item),
        _suspects(scores, item.contents, truth, most),
        inspection_figure(item.name, scores, truth)
        if truth is not None and truth.any()
        else score_figure(item.name, scores),
        _galleries(item, name),
        level=3,
        anchor=anchor,
    )


def _chart(scores: Mapping[str, RecordScores]) -> render.Intervals | None:
    """Return the chart of shares of faulty records: of one holder by kind, of several in all."""
    words = {"label": "by label", "features": "by features", "all": "in all"}
    rows: list[render.Row] = []
    for name, one in scores.items():
        for kind, part in ({} if one.screening is None else one.screening.broken).items():
            if kind == "all" or len(scores) == 1:
                value, *ends = (n / len(one.scores) for n in (part.value, part.low, part.high))
                shown = words[kind] if len(scores) == 1 else name
                rows.append((shown, value, (ends[0], ends[1]), None))
    return render.share_chart("Share of faulty records, with 95 % intervals.", rows)


def _precision(item: Scored) -> render.Content:
    """Return how many of the first records of the ranking are expected to be faulty."""
    screening = item.scores.screening
    if screening is None:
        return None
    lengths = sorted({k for k in _FIRST if k <= item.records} | {item.flagged} - {0})
    rows = [(k, k * screening.precision[k - 1], screening.precision[k - 1]) for k in lengths]
    columns = [render.counts("the first"), render.counts("about faulty"), render.shares("share")]
    caption = "Expected number of faulty records among the most suspect ones."
    return bool(rows) and render.Table(caption, columns, rows)


def _suspects(
    scores: RecordScores, contents: Contents | None, truth: Flags | None, most: int
) -> render.Content:
    """Return flagged records, copies and records of unknown classes; the most suspect, if many."""
    suspects = scores.suspects(contents)
    caption = "Flagged records, copies, unknown labels, and the ten most suspect records."
    if len(suspects) > most:
        caption += f" These are {most:,} of {len(suspects):,}: silot records --sheet lists all."
    names, texts = (partial(kind, on="page") for kind in (render.names, render.texts))

    def nearest(suspect: Suspect) -> str:
        label = f" ({printable(suspect.nearest_label)})" if suspect.nearest_label else ""
        return f"{suspect.nearest}{label}"

    def original(suspect: Suspect) -> str:
        copied = "" if suspect.copy_of is None else str(suspect.copy_of)
        return copied and (printable(suspect.original) or copied)

    shown, is_screened = suspects[:most], scores.screening is not None
    words = np.where(() if truth is None else truth, "faulty", "clean")
    return bool(shown) and render.table(
        caption,
        shown,
        render.Column("record"), render.names("identifier", wrap="cut", width=16),
        render.digits("score", 2, terminal="{:.4g}".format),
        is_screened and render.texts("kind", wrap="cut"),
        is_screened and render.names("why", 400, wrap="fill", on="terminal"),
        names("columns", 400, of=lambda suspect: "; ".join(map(str, suspect.columns))),
        names("suggested label", of="suggested"), names("label"), texts("copy of", of=original),
        is_screened and texts("nearest good", of=nearest),
        truth is not None and texts("known to be", of=lambda suspect: words[suspect.record]),
        filter=True,
        kinds=[suspect.kinds for suspect in shown] if is_screened else None,
        filled=True,
    )  # fmt: skip


def _galleries(item: Scored, name: str) -> render.Content:
    if item.images is None or not item.records:
        return None
    order = item.scores.worst
    worst = order[:_THUMBNAILS]
    best = order[max(len(worst), len(order) - _THUMBNAILS) :][::-1]
    blocks: list[render.Content] = []
    for title, places in (("most suspect", worst), ("least suspect", best)):
        tiles = [
            render.Tile(
                [(source, f"Record {k} of {name}")],
                f"{k}: {decimals(float(item.scores.scores[k]))}",
                "faulty" if item.truth is not None and item.truth[k] else "",
            )
            for k, source in zip(places, thumbnails(item.images, places), strict=True)
        ]
        heading = f"The {count(len(tiles), f'{title} record')}"
        if tiles:
            blocks += [render.Heading(heading, level=4), render.Gallery(tiles)]
    raw, follow = render.Strong("Raw records of "), render.Strong(" follow.")
    owner = " These lists must stay with their owner."
    return [
        render.Paragraph((raw, render.Name(name), follow, owner), "warning"),
        blocks,
        render.Paragraph("Below each picture: position of the record, and its score.", "small"),
    ]
