"""What a site was asked, what it disclosed and what it may still disclose, as blocks of a page.

All is read from the ledger and the policy: no data file is opened, and the answers that
the ledger keeps are not shown.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..errors import NATURES, nature_of, reason
from ..federation.policy import Policy
from ..privacy.accounting import epsilon_of
from ..privacy.ledger import AnswerSummary, Ledger, Waiting
from ..render import Block, Bullets, Cell, Column, Facts, Heading, Name, Paragraph, Strong, Table
from ..render.words import count, level_in_words
from .descriptions import describe_level, describe_question, describe_release

# Questions that are shown.
_LATEST = 40
# Lines of a table that has one for each decision.
_MOST = 100


@dataclass(frozen=True, kw_only=True)
class SiteOverview:
    """A site at one moment."""

    policy: Policy
    """Its rules."""
    ledger: Ledger
    """What its ledger says was asked, disclosed, refused and decided."""

    @property
    def undecided(self) -> list[Waiting]:
        """Questions that wait now."""
        return [question for question in self.ledger.waiting if question.state == "waiting"]

    def blocks(self) -> list[Block]:
        """Return everything but what waits."""
        return [
            *self._show_disclosed(), *self._show_budgets(), *self._show_decisions(),
            *self._show_refused(), *self._show_latest(),
            Heading("The rules", "rules"),
            Paragraph("The most that the policy of this site allows to any asker:"),
            Bullets(self.policy.explain().split("\n")),
        ]  # fmt: skip

    def _show_disclosed(self) -> list[Block]:
        lines: list[Block] = [Heading("What was disclosed", "disclosed")]
        disclosures = self.ledger.answers
        if not disclosures:
            return [*lines, Paragraph("Nothing yet.")]
        records = [row for row in disclosures if row.level == "record"]
        if records:
            askers = tuple(dict.fromkeys(row.asker for row in records))
            names = [part for name in askers for part in (", ", Name(name))][1:]
            lines.append(Paragraph(
                (Strong("Records were disclosed. "), "Every record can be reconstructed from the "
                 "answers to ", *names, f" ({count(sum(row.times for row in records), 'answer')})."
                 " That cannot be undone."), "warning",
            ))  # fmt: skip
        delta = self.policy.privacy_delta
        rows = [
            [row.asker,
             (describe_release if row.level == "private" else describe_question)(row.kind),
             Cell(describe_level(row.level), warn=row in records),
             _describe_amount(row, delta), format_time(row.first), format_time(row.last)]
            for row in disclosures
        ]  # fmt: skip
        lines.append(build_table(
            "What each asker received: one line for each kind of answer. An answer that "
            "was computed but lost on its way counts. A repeated answer was given to "
            "another asker first, and spends nothing again.",
            ("Asker", "What was disclosed", "Level", "How much", "First", "Last"), rows,
        ))  # fmt: skip
        if any(row.level == "private" for row in disclosures):
            lines.append(Paragraph(
                "Epsilon measures what answers with noise can disclose about one person: "
                "almost nothing near 0, a lot above 5. The values of several answers do not "
                "simply add up; the total is below.", "small",
            ))  # fmt: skip
        return lines

    def _show_budgets(self) -> list[Block]:
        return [
            Heading("What is left", "left"),
            Facts([
                ("Answers with noise", self._describe_noise()),
                ("Exact statistics", self._describe_statistics()),
                ("Exact secure distances", self._describe_secure()),
            ]),
            Paragraph(
                "By the current policy file. A running site uses the policy with which it "
                "was started.", "small",
            ),
        ]  # fmt: skip

    def _describe_noise(self) -> str:
        policy = self.policy
        if policy.privacy_epsilon is None:
            return "None are allowed."
        mu = self.ledger.account.spent
        delta = policy.privacy_delta
        if math.isinf(policy.privacy_epsilon):
            return f"Without any limit. Spent so far: {_format_epsilon(mu, delta)}."
        budget = policy.budget_mu or 0.0
        # The mu of several releases add up by their squares (Dong, Roth and Su 2022).
        remaining = math.sqrt(max(budget**2 - mu**2, 0.0))
        spent = _format_epsilon(mu, delta).capitalize()
        spent = f"{spent} of {policy.privacy_epsilon:.3g} spent (delta {delta:g})"
        if remaining <= 1e-6 * budget:
            return f"{spent}. Nothing is left."
        return f"{spent}. One more answer of at most {_format_epsilon(remaining, delta)} fits."

    def _describe_statistics(self) -> str:
        if self.policy.allows_records:
            return "Like complete records, because enough of them reveal the records."
        if not self.policy.allows_exact:
            return "None are allowed."
        kinds = sorted(self.policy.questions or ())
        named = "; ".join(describe_question(kind) for kind in kinds)
        return f"To every asker, without limit: {named}."

    def _describe_secure(self) -> str:
        if self.policy.allows_records:
            return "Without limit: the policy allows everything."
        exact = sum(row.times for row in self.ledger.answers
                    if row.kind == "secure-distance" and row.level != "record")  # fmt: skip
        remaining = max(self.policy.exact_secure - exact, 0)
        return f"{exact} of {self.policy.exact_secure} computed, {remaining} left."

    def _show_decisions(self) -> list[Block]:
        lines: list[Block] = [Heading("Decisions", "decisions")]
        if allowances := self.ledger.allowances:
            spans, older = _newest(allowances)
            rows = [
                [span.asker, describe_level(span.level), format_time(span.since), span.by,
                 format_time(span.until), span.ended or "its time"]
                for span in spans
            ]  # fmt: skip
            lines.append(build_table(
                f"Answered without a decision on each question, the newest first{older}.",
                ("Asker", "Level", "From", "Approved by", "Until", "Ended by"), rows,
            ))  # fmt: skip
        decided = [question for question in self.ledger.waiting if question.state != "waiting"]
        if decided:
            newest, older = _newest(decided)
            rows = [
                [item.asker, describe_question(item.question), describe_level(item.level),
                 format_time(item.since), _STATES[item.state], item.by,
                 "" if item.decided is None else format_time(item.decided)]
                for item in newest
            ]  # fmt: skip
            lines.append(build_table(
                f"Questions that waited, the newest first{older}.",
                ("Asker", "For what", "Level", "When", "Outcome", "Decided by",
                 "Decided"), rows,
            ))  # fmt: skip
        if len(lines) == 1:
            what = "The policy needs no decisions."
            if ask := ", ".join(sorted(self.policy.ask)):
                what = f"Questions of level {ask} wait for a decision."
            lines.append(Paragraph(f"None so far. {what}"))
        return lines

    def _show_refused(self) -> list[Block]:
        heading = Heading("What was refused", "refused")
        refusals, older = _newest(self.ledger.refusals)
        if not refusals:
            return [heading, Paragraph("Nothing so far.")]
        bodies = [json.loads(row.parameters) for row in refusals]
        rows = [
            [row.asker, describe_question(str(body.get("question"))),
             _explain_code(str(body.get("code"))), format_time(row.time)]
            for row, body in zip(refusals, bodies, strict=True)
        ]  # fmt: skip
        return [heading, build_table(
            f"Each kind of question is listed once for each asker and reason{older}.",
            ("Asker", "For what", "Why not", "First"), rows,
        )]  # fmt: skip

    def _show_latest(self) -> list[Block]:
        heading = Heading("The latest questions", "latest")
        latest = [row.facts for row in self.ledger.read_latest("question", last=_LATEST)][::-1]
        if not latest:
            return [heading, Paragraph("None so far.")]
        rows = [
            [format_time(str(line.get("time"))), str(line.get("asker") or "not known"),
             describe_question(str(line["question"])) if line.get("question") else "not known",
             describe_level(str(line.get("level"))), self._describe_outcome(line)]
            for line in latest
        ]  # fmt: skip
        caption = (
            f"The last {len(latest)} questions that reached this site, the newest first, each with "
            "what became of it. Some questions disclose nothing about a record, and some "
            "receive an earlier answer again."
        )
        titles = ("When", "Asker", "For what", "Level", "Outcome")
        return [heading, build_table(caption, titles, rows, head=1)]

    def _describe_outcome(self, line: Mapping[str, Any]) -> str:
        if line.get("refused"):
            return f"the message was not accepted ({line['refused']})"
        if line.get("code"):
            return f"not answered: {_explain_code(str(line['code']))}"
        size, mu = line.get("bytes"), line.get("mu")
        text = f"answered, {count(size, 'byte')}" if isinstance(size, int) else "answered"
        if isinstance(mu, float | int) and mu > 0:
            text += f", {_format_epsilon(float(mu), self.policy.privacy_delta)} charged"
        return text


def describe_waiting(question: Waiting) -> list[Block]:
    """Return what a person should know before deciding on a question."""
    lines: list[Block] = []
    if question.level == "record":
        lines.append(Paragraph(
            (Strong("This question is for every record. "), "If you approve, ",
             Name(question.asker),
             " can reconstruct every record of this site from the answer, and nothing is "
             "counted or charged for it."), "warning",
        ))  # fmt: skip
    lines.append(Facts([
        ("Asker", question.asker),
        ("For what", describe_question(question.question)),
        *([("In which run", f"{question.run}, as the asker calls it")] if question.run else []),
        ("Level", describe_level(question.level)),
        ("What that level means", level_in_words(question.level)),
        ("What limits it", _LIMITS.get(question.level, "Nothing known here.")),
        ("Asked", format_time(question.since)),
        ("Lapses", f"{format_time(question.until)}, unless somebody decides"),
        ("Number", f"{question.id}, kind {question.question}"),
    ]))  # fmt: skip
    if question.decided is not None:
        lines.append(Facts([("Decided", f"by {question.by}, {format_time(question.decided)}")]))
    return lines


_LIMITS = {
    "private": "An approved question is still charged to the budget for answers with noise, and "
    "refused if the budget is not enough.",
    "statistics": "Nothing but your decision: exact statistics are not counted.",
    "record": "Nothing but your decision.",
}


def _describe_amount(row: AnswerSummary, delta: float) -> str:
    limit = _format_epsilon(row.mu, delta) if row.level == "private" else "not limited"
    return f"{count(row.times, 'answer')}{' of before' * row.again}, {limit}"


def _newest(lines: Iterable[Any]) -> tuple[list[Any], str]:
    """Return the newest lines, newest first, and a remark that the site has older ones."""
    newest = list(reversed(list(lines)))
    more = len(newest) - _MOST
    return newest[:_MOST], f"; {more} older ones are in `silot site log`" if more > 0 else ""


_STATES = {
    "approved": "approved",
    "denied": "denied",
    "expired": "expired: no decision within 14 days",
}


def _explain_code(code: str) -> str:
    nature = nature_of(code)
    ends = "" if nature == "lasting" else f", {NATURES[nature]}"
    return f"{reason(code, here=True)} ({code}{ends})"


def format_time(when: str | datetime) -> str:
    """Format a time as people write it."""
    try:
        time = datetime.fromisoformat(when) if isinstance(when, str) else when
        time = time.astimezone(UTC)
    except (ValueError, OverflowError):
        return "not known"
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def _format_epsilon(mu: float, delta: float) -> str:
    return f"epsilon {epsilon_of(mu, delta):.3g} (mu {mu:.3g})"


def build_table(
    caption: str, titles: Sequence[str], rows: Sequence[Sequence[str | Cell]], head: int = 0
) -> Table:
    """Return a table of texts."""
    cells = [[Cell(text) if isinstance(text, str) else text for text in row] for row in rows]
    return Table(caption, [Column(title, numeric=False) for title in titles], cells, head=head)
