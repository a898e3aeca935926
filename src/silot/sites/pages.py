"""Pages of a site's console: what they say, and how they look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from ..privacy.ledger import Waiting
from ..render import Block, Facts, Name, Paragraph, Strong
from ..render.html import environment
from ..render.words import level_in_words
from .standing import moment
from .words import asked_for, level_words


@dataclass(frozen=True, kw_only=True)
class Form:
    """What a page lets a person do: one button, after a choice if there is one."""

    target: str
    secret: tuple[str, str]
    button: str
    value: str = ""
    legend: str = ""
    choices: tuple[tuple[str, tuple[str, str]], ...] = ()


@dataclass(frozen=True, kw_only=True)
class View:
    """A page."""

    title: str
    state: str = ""
    cards: list[dict[str, str]] | None = None
    approvals: list[dict[str, str]] | None = None
    content: Markup | str = ""
    form: Form | None = None
    links: tuple[tuple[str, str], ...] = ()
    refresh: bool = False
    status: int = 200


def about(asked: Waiting) -> list[Block]:
    """What a person should know before deciding."""
    lines: list[Block] = []
    if asked.level == "record":
        lines.append(Paragraph(
            (Strong("This question is for every record. "), "If you approve, ", Name(asked.asker),
             " can compute every record of this site back from what it gets, and nothing is "
             "counted or charged for it."), "warning",
        ))  # fmt: skip
    lines.append(Facts([
        ("Who asks", asked.asker),
        ("For what", asked_for(asked.question)),
        *([("In which run", f"{asked.run}, as the asker calls it")] if asked.run else []),
        ("Level", level_words(asked.level)),
        ("What that level means", level_in_words(asked.level)),
        ("What limits it", _LIMITS.get(asked.level, "Nothing that is known here.")),
        ("Asked", moment(asked.since)),
        ("Lapses", f"{moment(asked.until)}, if nobody decides"),
        ("Number", f"{asked.id}, kind {asked.question}"),
    ]))  # fmt: skip
    if asked.decided is not None:
        lines.append(Facts([("Decided", f"by {asked.by}, {moment(asked.decided)}")]))
    return lines


_LIMITS = {
    "scalar": "Approved, it still counts against the exact numbers that the policy allows in all.",
    "sketch": "Approved, it is still charged to the budget for answers with noise, and refused if "
    "that does not suffice.",
    "aggregate": "Approved, it still counts against the statistics that the policy allows.",
    "record": "Nothing but your decision.",
}

DECIDED = {
    "waiting": "It waits for your decision. Nothing was told.",
    "approved": "It was approved. When it is asked again, it is answered as far as the rules "
    "allow.",
    "denied": "It was denied, for good. Nothing was told.",
    "expired": "It lapsed, because nobody decided in time. Nothing was told. Asked again, it waits "
    "again.",
}
PAUSED = "Paused: nothing is told to anybody."
BACK = (("", "Back to all questions"),)

CLOSED = View(
    title="This page is closed",
    content=Markup("<p>The link was used before, or is not the one of this page. Start the command "
                   "again where the site runs: it prints a new link.</p>"),
    status=403,
)  # fmt: skip
STALE = View(
    title="Nothing was changed",
    content=Markup("<p>The form was not one of this page as it is now open. Go back, open the "
                   "question anew and decide again.</p>"),
    links=BACK, status=403,
)  # fmt: skip
MISSING = View(
    title="There is no such page", content=Markup("<p>Nothing was changed.</p>"), status=404
)
FAILED = View(
    title="This page failed",
    content=Markup("<p>The terminal in which the command runs says more.</p>"),
    status=500,
)


def render(view: View, *, site: str, project: str, base: str) -> str:
    """A page as HTML; ``base`` is the beginning of its addresses."""
    page = _templates().get_template("console.html.jinja")
    return page.render(view=view, site=site, project=project, base=base, style=Markup(style()))


@cache
def style() -> str:
    """Styles of reports, and of forms."""
    own = files("silot.sites").joinpath("console.css").read_text(encoding="utf-8")
    return files("silot.render").joinpath("page.css").read_text(encoding="utf-8") + own


@cache
def _templates() -> Environment:
    return environment().overlay(loader=PackageLoader("silot.sites", ""))


__all__ = ["Form", "View", "about", "render", "style"]
