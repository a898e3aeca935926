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
from ..render.words import count, printable, signed
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
    verdict, blank = printable(result.verdict, 2000), render.Paragraph("")
    status = {"status": printable(result.status, 1000)}
    cost, privacy = _local_rows(result), "Privacy and cost"
    local = render.on_page(render.section(privacy, render.facts(cost), anchor="cost"))
    title = f"What to do with {count(len(result.decisions), 'site')}"
    return [
        render.Headline(title, verdict),
        render.on_terminal(render.Paragraph(verdict), blank),
        # Commands on the other cards work once the drafts are confirmed.
        render.section("Decisions", [_confirmation(result, folder), *cards]),
        render.section("How far apart", _chart(result)),
        render.on_page(
            render.section("What differs", _columns(result)),
            render.section("Look at this", _notes(result)),
            render.section(
                "How decisions are made",
                render.Paragraph(
                    f"Each site is tested against {printable(result.reference)} "
                    f"({result.reference_records:,} records). If all sites have its distribution, "
                    f"any of them is called different in {LEVEL:.0%} of cases at most, all sites "
                    "together."
                ),
                render.facts(status),
            ),
        ),
        render.on_terminal(
            blank, render.facts({**status, **(cost_rows(result) if result.rounds else cost)})
        ),
        cost_content(result) if result.rounds else local,
    ]


def _local_rows(result: SiteComparison) -> dict[str, str]:
    """Return privacy and cost of a comparison of files that were all here."""
    total = sum(item.records for item in result.decisions) + result.reference_records
    return {
        "privacy": "all tables were read on this machine; nothing was sent",
        "cost": f"{result.seconds:.1f} s for {count(total, 'record')}",
    }


def _step_words(step: Step, is_only: bool) -> str:
    if step.verb == "use":
        return "USE as it is" if is_only else "USE"
    return f"{_WORDS[step.verb]} {printable(step.object)}".rstrip()


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
    if gain := item.gain:
        points = f"{signed(gain.value)} [{signed(gain.low)}, {signed(gain.high)}]"
        lines.append(f"accuracy {points} points with its records")
    # Models of the reference count no faulty records of a site that contradicts it.
    if item.faulty is not None and item.verb != "exclude":
        lines.append(_faulty_words(item.faulty, item.flagged, result.fdr))
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


def _faulty_words(faulty: Interval, flagged: int, fdr: float) -> str:
    words = f"about {count(round(faulty.value), 'faulty record')}"
    words += f" [{faulty.low:,.0f}, {faulty.high:,.0f}]"
    if flagged:
        return f"{words}; {flagged:,} are flagged, at most {fdr:.0%} of them are clean"
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
            render.Details("How the columns differ", [table] if table else ()),
        ]
        for k, item in enumerate(sites)
        for table in (changes_table(item.test, rows),)
    ]


def _notes(result: SiteComparison) -> render.Content:
    columns = [render.names("site", 40), render.texts("assumptions and remarks")]
    rows = [(item.site, note) for item in result.decisions for note in item.notes]
    return bool(rows) and render.Table("", columns, rows)


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
    refused = "refuse site files" if result.sources.site_drafts else "warn"
    lines = [f"they were read off the tables; the commands below {refused} until you confirm"]
    words = f"CONFIRM {count(unconfirmed, 'entry', 'entries')} of drafted files"
    return render.Card("you", [("fix", words)], count(len(files), "file"), lines, command)
