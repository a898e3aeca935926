"""A site's page: what was asked and disclosed, what is left, and decisions on questions that wait.

It is for a browser on the machine of the site alone, and works on the ledger that the site uses:
what is decided here holds for the running site at once. No data file is opened.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, ClassVar

from markupsafe import Markup

from ..errors import FileError, InputError, SilotError
from ..privacy.ledger import Allowed, Ledger, Waiting
from ..render import Heading, Name, Paragraph
from ..render.html import fragment
from ..render.sections import plain_text
from .configuration import SiteConfiguration
from .descriptions import describe_level, describe_question
from .kit import Kit
from .overview import SiteOverview, describe_waiting, format_time
from .page import Card, Cards, Form, Page, View, read_decision

if TYPE_CHECKING:
    from starlette.requests import Request

_SPANS = {"once": None, "hour": timedelta(hours=1), "day": timedelta(days=1)}

DECIDED = {
    "waiting": "It waits for your decision. Nothing was disclosed.",
    "approved": "It was approved. The site answers it when the asker repeats it, as far as "
    "the policy allows.",
    "denied": "It was finally denied. Nothing was disclosed.",
    "expired": "It expired without a decision. Nothing was disclosed. It waits again when "
    "the asker repeats it.",
}
PAUSED = "Paused: nothing is disclosed to anybody."
_BACK = ("", "Back to all questions")


class SiteReader:
    """The ledger and the policy of a site, read again when they changed."""

    def __init__(self, kit: Kit) -> None:
        self._configuration = SiteConfiguration.load(kit)
        self._ledger: Ledger | None = None
        self._lock = threading.Lock()

    def ledger(self) -> Ledger:
        """Return the open ledger, after a check that its file is still the same."""
        with self._lock:
            if self._ledger is None:
                self._ledger = Ledger(self._configuration.ledger, create=False)
            ledger = self._ledger
        ledger.check_place()
        return ledger

    def read(self) -> SiteOverview:
        """Return what they say now."""
        return SiteOverview(policy=self._configuration.read_policy(), ledger=self.ledger())

    def close(self) -> None:
        """Close the ledger, which is opened again when it is needed."""
        with self._lock:
            if self._ledger is not None:
                self._ledger.close()
            self._ledger = None


class Console(Page):
    """The page of a site, which has joined.

    Raises a ``FileError`` if it did not join yet (``kit-format``), and what every page raises.
    """

    back = _BACK[1]
    statuses: ClassVar = {"approval-unknown": 404, "approval-expired": 409, "approval-decided": 409,
                          "form-choice": 400}  # fmt: skip

    def __init__(self, kit: Kit, *, port: int = 0) -> None:
        self._reader = SiteReader(kit)
        super().__init__(kit, port=port)

    def pages(self) -> Mapping[str, Callable[[Request], View]]:
        """Return what shows a page, by its path."""
        return {
            "/": self._show_overview,
            "/question/{id}": self._show_question,
            "/approval/{id}": self._show_approval,
            "/pause": self._show_pause,
        }

    def actions(self) -> Mapping[str, Callable[[Request, Mapping[str, str]], str]]:
        """Return by path what does as a form says, and returns the path of the next page."""
        return {
            "/question/{id}": self._decide,
            "/approval/{id}": self._end_approval,
            "/pause": self._pause,
        }

    def close(self) -> None:
        """Release the port and the ledger."""
        super().close()
        self._reader.close()

    def recover(self, error: SilotError) -> None:
        """Close a ledger that was moved or changed: it is opened again."""
        if isinstance(error, FileError):
            self._reader.close()

    def _show_overview(self, request: Request) -> View:
        overview = self._reader.read()
        ledger = overview.ledger
        refreshes = request.query_params.get("watch") == "1"
        cards = tuple(
            Card(
                id=item.id,
                title=(Name(item.asker), " asks for ", describe_question(item.question)),
                lines=(
                    f"Level {describe_level(item.level)}.",
                    f"Asked {format_time(item.since)}; expires {format_time(item.until)}.",
                    *((("Run ", Name(item.run), "."),) if item.run else ()),
                ),
                button="Read and decide", target=f"question/{item.id}",
            )
            for item in overview.undecided
        )  # fmt: skip
        approvals = tuple(
            Card(
                id=item.id, title=("Every question of ", Name(item.asker), " of one level"),
                lines=(
                    f"Level {describe_level(item.level)}.",
                    ("Approved by ", Name(item.by), f", until {format_time(item.until)}."),
                ),
                button="End it", target=f"approval/{item.id}",
            )
            for item in ledger.allowed
        )  # fmt: skip
        sections = [Cards(anchor="waiting", title="Questions that wait for you", cards=cards)]
        if approvals:
            title = "Answered without your decision"
            sections.append(Cards(anchor="approvals", title=title, cards=approvals))
        blocks = overview.blocks()
        watch = ("", "Stop refreshing") if refreshes else ("?watch=1", "Refresh every minute")
        return View(
            title=f"Questions to {self._kit.name}, and answers",
            state=PAUSED if ledger.paused
            else "Not paused: while the site runs, it answers what its policy allows.",
            waiting=len(cards), sections=tuple(sections), content=Markup(fragment(blocks)),
            refresh=60 if refreshes else 0,
            links=(("pause", "Go on" if ledger.paused else "Pause"), watch, *(
                (f"{'?watch=1' if refreshes else ''}#{block.anchor}", plain_text(block.text))
                for block in blocks if isinstance(block, Heading)
            )),
        )  # fmt: skip

    def _show_question(self, request: Request) -> View:
        question = self._find_question(request)
        form = self._decision_form(question) if question.state == "waiting" else None
        return View(
            title=f"A question of {question.asker}", state=DECIDED[question.state],
            content=Markup(fragment(describe_waiting(question))), form=form, links=(_BACK,),
        )  # fmt: skip

    def _decision_form(self, question: Waiting) -> Form:
        longer = (
            f"Also answer every other question of level {question.level} from this asker without "
            "your decision. You can end that earlier; answers that were sent stay disclosed."
        )
        choices = (
            ("deny", ("Deny this question", "This is final. The asker receives the refusal.")),
            ("once", ("Approve this question", "Only this question. This is final.")),
            ("hour", ("Approve for 1 hour", longer)),
            ("day", ("Approve for 1 day", longer)),
        )
        return Form(
            target=f"question/{question.id}", hidden=(self.secret,),
            legend="Your decision", choices=choices, button="Save the decision",
        )  # fmt: skip

    def _decide(self, request: Request, form: Mapping[str, str]) -> str:
        question = self._find_question(request)
        decision = read_decision(form, "deny", *_SPANS)
        # A form that is sent twice must not begin the hour anew.
        if question.state == "waiting" or decision not in ("hour", "day"):
            self._reader.ledger().decide(
                question.id, approved=decision != "deny", span=_SPANS.get(decision)
            )
        return f"question/{question.id}"

    def _show_approval(self, request: Request) -> View:
        approval = self._find_approval(request)
        words = (
            "Every question of this asker is answered without your decision if its level is "
            f"{describe_level(approval.level)}. When you end that, such questions wait for a "
            "decision again. Earlier answers stay disclosed, and a question that was itself "
            "approved stays approved."
        )
        return View(
            title=f"An approval for {approval.asker}", state=f"It lasts until "
            f"{format_time(approval.until)}. It was given by {approval.by}, "
            f"{format_time(approval.since)}.",
            content=Markup(fragment([Paragraph(words)])), links=(_BACK,),
            form=Form(target=f"approval/{approval.id}", hidden=(self.secret,), value="end",
                      button="End it now"),
        )  # fmt: skip

    def _end_approval(self, request: Request, form: Mapping[str, str]) -> str:
        approval = self._find_approval(request)
        read_decision(form, "end")
        self._reader.ledger().end(approval.id)
        return ""

    def _find_approval(self, request: Request) -> Allowed:
        name = request.path_params["id"]
        approvals = [item for item in self._reader.ledger().allowed if item.id == name]
        if len(approvals) != 1:
            raise InputError("there is no such approval now.", code="approval-unknown")
        return approvals[0]

    def _find_question(self, request: Request) -> Waiting:
        name = request.path_params["id"]
        questions = [item for item in self._reader.ledger().waiting if item.id == name]
        if not re.fullmatch("[0-9a-f]{12}", name) or len(questions) != 1:
            raise InputError("there is no such question.", code="approval-unknown")
        return questions[0]

    def _show_pause(self, request: Request) -> View:
        is_paused = self._reader.ledger().paused
        words = (
            "Questions are answered again, as far as the policy allows." if is_paused
            else "No question of any asker is answered, not even an approved one, until "
                 "somebody here resumes the site. Askers see that it is paused."
        )  # fmt: skip
        form = Form(
            target="pause", hidden=(self.secret,),
            value="resume" if is_paused else "pause",
            button="Go on" if is_paused else "Pause the site",
        )  # fmt: skip
        return View(
            title="Go on" if is_paused else "Pause", state=PAUSED if is_paused else "",
            content=Markup(fragment([Paragraph(words)])), form=form, links=(_BACK,),
        )  # fmt: skip

    def _pause(self, request: Request, form: Mapping[str, str]) -> str:
        self._reader.ledger().pause(read_decision(form, "pause", "resume") == "pause")
        return ""
