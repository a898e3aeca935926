"""Declare what is shown of a comparison of sites: the decisions, their evidence, and the cost."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from .. import render
from ..data.drafts.result import site_file_of
from ..distances.figures import histograms_figure
from ..distances.verdict import changes_table
from ..federation.view import cost_content, cost_rows
from ..records.decisions import Decision, Step, test_words
from ..records.evidence import LEVEL, Interval
from ..render.words import count, printable
from .comparison import SiteComparison

Kind = Literal["use", "fix", "apart", "exclude"]
_KINDS: Mapping[str, Kind] = {
    "use": "use", "convert": "fix", "clean": "fix", "ask": "fix", "apart": "apart",
    "exclude": "exclude",
}  # fmt: skip
_WORDS = {
    "use": "USE", "convert": "CONVERT", "clean": "CLEAN", "ask": "USE, and ask for more of",
    "apart": "KEEP APART", "exclude": "EXCLUDE",
}  # fmt: skip
# Sites that have a card each; of more, those to use as they are share one.
_MOST_CARDS = 6
# Histograms and rows of columns, of all sites together: a report is sent by mail.
_PANELS, _ROWS = 12, 100
# Notes of a site that are listed on a terminal.
_NOTES = 2


def comparison_content(result: SiteComparison, folder: Path | None = None) -> render.Content:
    """Declare decisions in the order of doing, then the chart, columns, notes and cost."""
    cards = [_card(item, result, folder) for item in result.decisions]
    plain = [item for item in result.decisions if [s.verb for s in item.steps] == ["use"]]
    if len(result.decisions) > _MOST_CARDS and len(plain) > 1:
        cards = [_joint_card(plain, result, folder)] + [
            card for card, item in zip(cards, result.decisions, strict=True) if item not in plain
        ]
    return [
        render.Headline(
            f"What to do with {count(len(result.decisions), 'site')}",
            printable(result.verdict, 2000),
        ),
        render.on_terminal(render.Paragraph(printable(result.verdict, 2000)), render.Paragraph("")),
        # Commands on the other cards work once the drafts are confirmed.
        render.section("Decisions", [_confirmation(result, folder), *cards]),
        render.section("How far apart", _chart(result)),
        render.on_page(
            render.section("What differs", _columns(result)),
            render.section("Look at this", _notes(result)),
            render.section("How decisions are made", _method(result)),
        ),
        render.on_terminal(
            render.Paragraph(""),
            render.facts(
                {
                    "status": printable(result.status, 1000),
                    **(cost_rows(result) if result.rounds else _local_rows(result)),
                }
            ),
        ),
        cost_content(result)
        if result.rounds
        else render.on_page(
            render.section("Privacy and cost", render.facts(_local_rows(result)), anchor="cost")
        ),
    ]


def _local_rows(result: SiteComparison) -> dict[str, str]:
    """Return privacy and cost of a comparison of files that were all here."""
    total = sum(item.records for item in result.decisions) + result.reference_records
    return {
        "privacy": "all tables were read on this machine; nothing was sent",
        "cost": f"{result.seconds:.1f} s for {count(total, 'record')}",
    }


def _step_words(step: Step, is_only: bool) -> str:
    words = _WORDS[step.verb]
    if step.verb == "use":
        return f"{words} as it is" if is_only else words
    return f"{words} {printable(step.object)}".rstrip()


def _card(item: Decision, result: SiteComparison, folder: Path | None) -> render.Card:
    is_only = len(item.steps) == 1
    steps: list[tuple[Kind, str]] = [
        (_KINDS[step.verb], _step_words(step, is_only)) for step in item.steps
    ]
    if item.group:
        steps[-1] = steps[-1][0], f"{steps[-1][1]}, in group {item.group}"
    lines: list[str] = []
    if item.steps[-1].verb in ("ask", "exclude"):
        lines.append(f"{item.reason[0].upper()}{item.reason[1:]}")
    when = "once cleaned: " if item.flagged else ""
    lines.append(f"{when}{test_words(item, printable(result.reference))}")
    if item.gain is not None:
        lines.append(f"accuracy {_points(item.gain)} points with its records")
    # Models of the reference count no faulty records of a site that contradicts it.
    if item.faulty is not None and item.verb != "exclude":
        lines.append(_faulty_words(item, result.fdr))
    lines += [note for note in item.notes if not note.startswith("Column ")][:_NOTES]
    command = "" if folder is None else result.command([item], folder)
    return render.Card(item.site, steps, count(item.records, "record"), lines, command)


def _joint_card(
    items: Sequence[Decision], result: SiteComparison, folder: Path | None
) -> render.Card:
    """Return one card for the sites that are to be used as they are."""
    names = ", ".join(printable(item.site, 60) for item in items)
    finest, *_, coarsest = sorted(items, key=lambda item: item.test.detectable)
    shifts = " to ".join(
        f"{item.test.detectable:.2g} ({printable(item.site)})" for item in (finest, coarsest)
    )
    lines = [
        names,
        f"not distinguishable from {printable(result.reference)}; shifts of {shifts} standard "
        "deviations of one column would have been detected with 80 % power",
    ]
    total = sum(item.records for item in items)
    command = "" if folder is None else result.command(items, folder)
    subject = count(len(items), "site")
    return render.Card(subject, [("use", "USE as they are")], f"{total:,} records", lines, command)


def _points(gain: Interval) -> str:
    return f"{gain.value:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]"


def _faulty_words(item: Decision, fdr: float) -> str:
    assert item.faulty is not None
    low, high = (f"{n:,.0f}" for n in (item.faulty.low, item.faulty.high))
    words = f"about {count(round(item.faulty.value), 'faulty record')} [{low}, {high}]"
    if item.flagged:
        return f"{words}; {item.flagged:,} are flagged, at most {fdr:.0%} of them are clean"
    return f"{words}; none is flagged with {1 - fdr:.0%} certainty"


def _chart(result: SiteComparison) -> render.Content:
    """Return the largest shift of each site, beside the shift that would have been detected."""
    bars: list[render.Bar] = []
    for item in result.decisions:
        if item.shift is None:
            continue
        low, high = item.shift.sizes
        words = f"{abs(item.shift.value):.2f} [{low:.2f}, {high:.2f}]"
        state = item.site if len(item.steps) == 1 else f"{item.site} (prepared)"
        bars.append(
            render.Bar(state, abs(item.shift.value), low, high, item.test.detectable, words)
        )
    if not bars:
        return None
    caption = (
        f"Largest shift of one column from {printable(result.reference)}, in its standard "
        "deviations, with a 95 % interval for all columns together. A shift as large as the band "
        "is wide is detected with 80 % power."
    )
    return render.Intervals(caption, "sd", bars)


def _columns(result: SiteComparison) -> render.Content:
    """Return columns of the sites that differ: the more sites, the fewer of each."""
    sites = [item for item in result.decisions if item.test.verdict == "different"]
    panels, rows = (max(1, most // max(len(sites), 1)) for most in (_PANELS, _ROWS))
    reference = printable(result.reference, 40)
    return [
        [
            render.Heading(printable(item.site), level=3),
            histograms_figure(item.test, (reference, item.site), panels if k < _PANELS else 0),
            render.Details("How the columns differ", [table])
            if (table := changes_table(item.test, rows))
            else None,
        ]
        for k, item in enumerate(sites)
    ]


def _notes(result: SiteComparison) -> render.Content:
    columns = [render.names("site", 40), render.texts("assumptions and remarks")]
    rows = [(item.site, note) for item in result.decisions for note in item.notes]
    return render.Table("", columns, rows) if rows else None


def _confirmation(result: SiteComparison, folder: Path | None) -> render.Card | None:
    """Return the card that asks a person to confirm what was drafted."""
    unconfirmed = result.sources.unconfirmed
    if not unconfirmed:
        return None
    files = ["schema.yml"] if result.sources.draft else []
    files += [site_file_of(Path("schema.yml"), site).name for site in result.sources.site_drafts]
    command = ""
    if folder is not None:
        places = shlex.join(str(folder / file) for file in files)
        command = f'silot schema confirm {places} --by "YOUR NAME"'
    lines = ["they were read off the tables; the commands below refuse them until you confirm"]
    words = f"CONFIRM {count(unconfirmed, 'entry', 'entries')} of drafted files"
    return render.Card("you", [("fix", words)], count(len(files), "file"), lines, command)


def _method(result: SiteComparison) -> render.Content:
    return [
        render.Paragraph(
            f"Each site is tested against {printable(result.reference)} "
            f"({result.reference_records:,} records). If all sites have its distribution, any of "
            f"them is called different in {LEVEL:.0%} of cases at most, all sites together."
        ),
        render.facts({"status": printable(result.status, 1000)}),
    ]
