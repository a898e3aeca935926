"""What a site was asked, what it told and what it may still tell, as blocks of a page.

All is read from the ledger, the policy and the log: no data file is opened, and what stands in
the ledger of answers is not shown.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ..errors import reason
from ..federation.answer import BITS
from ..federation.policy import Policy
from ..privacy.accounting import epsilon_of
from ..privacy.ledger import Allowed, Ledger, Row, Tally, Told, Waiting
from ..render import Block, Bullets, Cell, Column, Facts, Heading, Name, Paragraph, Strong, Table
from ..render.words import count
from .joined import Joined, Log
from .words import asked_for, level_of, level_words, released

_LATEST = 40
_LONGEST_LOG = 1 << 16
# Lines of a table that has one for each decision.
_MOST = 100
_WORDS = {"named": "statistics that are told once", "chosen": "exact numbers"}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A site at one moment.

    Attributes
    ----------
    policy
        Its rules.
    told, refusals, tally
        What its ledger says was told, refused, and counted.
    waiting, allowances
        Questions that a person decides on, and what needed no decision for a while.
    log
        The latest questions, the last last.
    """

    policy: Policy
    told: Sequence[Told]
    refusals: Sequence[Row]
    tally: Tally
    waiting: Sequence[Waiting]
    allowances: Sequence[Allowed]
    log: Sequence[Mapping[str, Any]]

    @property
    def undecided(self) -> list[Waiting]:
        """Questions that wait now."""
        return [each for each in self.waiting if each.state == "waiting"]

    def blocks(self) -> list[Block]:
        """Everything but what waits."""
        return [
            *self._told(), *self._left(), *self._decisions(), *self._refused(), *self._latest(),
            Heading("The rules", "rules", "Rules"),
            Paragraph("What the policy of this site allows at most, whoever asks:"),
            Bullets(self.policy.explain().split("\n")),
        ]  # fmt: skip

    def _told(self) -> list[Block]:
        lines: list[Block] = [Heading("What was told", "told", "What was told")]
        if not self.told:
            return [*lines, Paragraph("Nothing yet.")]
        whole = [each for each in self.told if _level(each) == "record"]
        if whole:
            askers = tuple(dict.fromkeys(each.asker for each in whole))
            names = [part for name in askers for part in (", ", Name(name))][1:]
            lines.append(Paragraph(
                (Strong("Records were given away. "), "Every record can be computed back from what "
                 "was told to ", *names, f" ({count(sum(each.times for each in whole), 'answer')})."
                 " That cannot be taken back."), "warning",
            ))  # fmt: skip
        delta = self.policy.privacy_delta
        rows = [
            [Cell(each.asker), Cell(_what(each)),
             Cell(level_words(_level(each)), warn=each in whole), Cell(_amount(each, delta)),
             Cell(moment(each.first)), Cell(moment(each.last))]
            for each in self.told
        ]  # fmt: skip
        lines.append(
            Table(
                "What each asker was told: one line for each kind of answer. An answer that was "
                "prepared and got lost on its way counts as told. Answers of before were given to "
                "another asker first, and spend nothing again.",
                _columns("Who asked", "What was told", "Level", "How much", "First", "Last"),
                rows,
            )
        )
        if any(each.account == "release" for each in self.told):
            lines.append(Paragraph(
                "Epsilon measures what answers with noise can show about one person: near 0 next "
                "to nothing, above 5 a lot. Those of several answers do not simply add up; what is "
                "spent in all stands below.", "small",
            ))  # fmt: skip
        return lines

    def _left(self) -> list[Block]:
        rows = [
            ("Answers with noise", self._noise()), ("Exact numbers", self._numbers()),
            ("Statistics that are told once", self._named()), ("Whole records", self._records()),
        ]  # fmt: skip
        return [
            Heading("What is left", "left", "What is left"),
            Facts(rows),
            Paragraph(
                "By the policy file as it is now. A site that runs keeps to the one it was started "
                "with.", "small",
            ),
        ]  # fmt: skip

    def _noise(self) -> str:
        policy = self.policy
        if policy.privacy_epsilon is None:
            return "None are allowed."
        mu = math.sqrt(sum(each.mu**2 for each in self.told if not each.again))
        delta = policy.privacy_delta
        if math.isinf(policy.privacy_epsilon):
            return f"Without any limit. Spent so far: {_epsilon(mu, delta)}."
        budget = policy.budget_mu or 0.0
        left = math.sqrt(max(budget**2 - mu**2, 0.0))
        spent = f"{_epsilon(mu, delta)} of {policy.privacy_epsilon:.3g} spent (delta {delta:g})"
        if left <= 1e-6 * budget:
            return f"{_capital(spent)}. Nothing is left."
        return f"{_capital(spent)}. One more answer of at most {_epsilon(left, delta)} fits."

    def _numbers(self) -> str:
        policy, tally = self.policy, self.tally
        if policy.tells_records and "record" in policy.ask:
            return "As whole records, which enough of them would give."
        if policy.tells_records:
            return "Without limit: the policy gives everything, and counts none."
        if not policy.tells_numbers:
            return "None are allowed."
        most = policy.numbers
        if tally.limits is not None:
            most = min(most, tally.limits[0], int(tally.limits[1] / BITS))
        left = max(most - tally.told, 0)
        text = f"{tally.told} of {most} told, {left} left, for all askers together and for ever"
        if tally.limits is None and most:
            text += "; fewer if the data hold less"
        if policy.numbers_each is not None:
            text += f"; at most {policy.numbers_each} to one asker"
        return f"{text}."

    def _named(self) -> str:
        if self.policy.tells_records:
            return "Without limit, as above."
        if self.policy.level != "aggregate":
            return "None are allowed."
        told = [asked_for(kind) for kind in sorted(self.tally.kinds)]
        if not told:
            return "None was told so far; each kind can be told once."
        return f"Told, and not told anew: {'; '.join(told)}. Other kinds can be told once each."

    def _records(self) -> str:
        if not self.policy.tells_records:
            return "Never: the policy does not allow it."
        if "record" in self.policy.ask:
            return "To every asker, without limit, once a person here approved."
        return "To every asker, without limit and without asking anybody here."

    def _decisions(self) -> list[Block]:
        lines: list[Block] = [Heading("Decisions", "decisions", "Decisions")]
        if self.allowances:
            spans = list(reversed(self.allowances))[:_MOST]
            rows = [
                [Cell(each.asker), Cell(level_words(each.level)), Cell(moment(each.since)),
                 Cell(each.by), Cell(moment(each.until)), Cell(each.ended or "its time")]
                for each in spans
            ]  # fmt: skip
            lines.append(Table(
                "Answered without a decision on each question, the newest first"
                f"{_rest(self.allowances, spans)}.",
                _columns("Who asked", "Level", "From", "Approved by", "Until", "Ended by"), rows,
            ))  # fmt: skip
        decided = [each for each in reversed(self.waiting) if each.state != "waiting"]
        if decided:
            rows = [[Cell(each.asker), Cell(asked_for(each.question)),
                     Cell(level_words(each.level)), Cell(moment(each.since)),
                     Cell(_STATES[each.state]), Cell(each.by),
                     Cell("" if each.decided is None else moment(each.decided))]
                    for each in decided[:_MOST]]  # fmt: skip
            lines.append(Table(
                f"Questions that waited, the newest first{_rest(decided, decided[:_MOST])}.",
                _columns("Who asked", "For what", "Level", "When", "What became of it",
                         "Decided by", "Decided"), rows,
            ))  # fmt: skip
        if len(lines) == 1:
            ask = ", ".join(sorted(self.policy.ask))
            what = f"Questions of level {ask} wait for one." if ask else "The policy asks for none."
            lines.append(Paragraph(f"None so far. {what}"))
        return lines

    def _refused(self) -> list[Block]:
        lines: list[Block] = [Heading("What was refused", "refused", "What was refused")]
        refusals = list(reversed(self.refusals))[:_MOST]
        if not refusals:
            return [*lines, Paragraph("Nothing so far.")]
        bodies = [json.loads(row.parameters) for row in refusals]
        rows = [
            [Cell(row.asker), Cell(asked_for(str(body.get("question")))),
             Cell(_why(str(body.get("code")))), Cell(moment(row.time))]
            for row, body in zip(refusals, bodies, strict=True)
        ]  # fmt: skip
        return [*lines, Table(
            "Each kind of question is listed once for each asker and reason"
            f"{_rest(self.refusals, refusals)}.",
            _columns("Who asked", "For what", "Why not", "First"), rows,
        )]  # fmt: skip

    def _latest(self) -> list[Block]:
        lines: list[Block] = [Heading("The latest questions", "latest", "Latest questions")]
        latest = list(reversed(self.log[-_LATEST:]))
        if not latest:
            return [*lines, Paragraph("None so far.")]
        rows = [
            [Cell(moment(str(line.get("time")))), Cell(str(line.get("asker") or "not known")),
             Cell(_asked(line)), Cell(level_words(str(line.get("level")))),
             Cell(self._became(line))]
            for line in latest
        ]  # fmt: skip
        caption = (
            f"The last {len(latest)} questions that reached this site, the newest first, each with "
            "what became of it. Some tell nothing about a record, and some get the answer of "
            "before again."
        )
        columns = _columns("When", "Who asked", "For what", "Level", "What became of it")
        return [*lines, Table(caption, columns, rows, head=1)]

    def _became(self, line: Mapping[str, Any]) -> str:
        if line.get("refused"):
            return f"the message was not accepted ({line['refused']})"
        if line.get("code"):
            return f"not answered: {_why(str(line['code']))}"
        size, mu = line.get("bytes"), line.get("mu")
        text = f"answered, {count(size, 'byte')}" if isinstance(size, int) else "answered"
        if isinstance(mu, float | int) and mu > 0:
            text += f", {_epsilon(float(mu), self.policy.privacy_delta)} charged"
        return text


def _what(told: Told) -> str:
    return released(told.kind) if told.account == "release" else asked_for(told.kind)


def _level(told: Told) -> str:
    return "sketch" if told.account == "release" else level_of(told.kind)


def _amount(told: Told, delta: float) -> str:
    times = count(told.times, "answer")
    if told.again:
        times += " of before"
    if told.account == "release":
        return f"{times}, {_epsilon(told.mu, delta)}"
    if told.account == "record":
        return f"{times}, not counted further"
    return f"{times}, {count(told.numbers, 'number')}: {_WORDS.get(told.account, '')}"


def _rest(lines: Sequence[Any], shown: Sequence[Any]) -> str:
    """That there are more."""
    more = len(lines) - len(shown)
    return f"; {more} older ones are in `silot site log`" if more else ""


_STATES = {
    "approved": "approved",
    "denied": "denied",
    "expired": "lapsed: nobody decided within 14 days",
}


def _why(code: str) -> str:
    return f"{reason(code, here=True)} ({code})"


def _asked(line: Mapping[str, Any]) -> str:
    kind = line.get("question")
    return asked_for(str(kind)) if kind else "not known"


def moment(when: str | datetime) -> str:
    """A time, as people write it."""
    try:
        time = datetime.fromisoformat(when) if isinstance(when, str) else when
        time = time.astimezone(UTC)
    except (ValueError, OverflowError):
        return "not known"
    return f"{time.day} {time:%b %Y, %H:%M} UTC"


def _epsilon(mu: float, delta: float) -> str:
    """What spending so much amounts to."""
    return f"epsilon {epsilon_of(mu, delta):.3g} (mu {mu:.3g})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _columns(*titles: str) -> list[Column]:
    return [Column(title, numeric=False) for title in titles]


class Books:
    """The ledger, the policy and the log of a site, read anew when they changed."""

    def __init__(self, joined: Joined, log: Path) -> None:
        self._joined, self._log = joined, Log(log)
        self._open: Ledger | None = None
        self._lock = threading.Lock()

    def ledger(self) -> Ledger:
        """The ledger, which is the one it was."""
        with self._lock:
            if self._open is None:
                self._open = Ledger(self._joined.ledger, create=False)
            found = self._open
        found.check_place()
        return found

    def standing(self) -> Standing:
        """What they say now."""
        ledger = self.ledger()
        return Standing(
            policy=self._joined.rules(), told=ledger.told, refusals=ledger.refusals,
            tally=ledger.tally, waiting=ledger.waiting, allowances=ledger.allowances,
            log=self._log.lines(most=_LONGEST_LOG),
        )  # fmt: skip

    def close(self) -> None:
        """Close the ledger, which is opened again when it is needed."""
        with self._lock:
            if self._open is not None:
                self._open.close()
            self._open = None


__all__ = ["Books", "Standing", "moment"]
