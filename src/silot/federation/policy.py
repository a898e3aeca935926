"""A holder's rules: what may be asked, and how much exact answers may tell in all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ..documents import complaint, read_fields
from ..errors import InputError
from ..privacy.ledger import Tally
from .answer import Array
from .disclosure import Account, Disclosure
from .question import QUESTIONS, Question

Level = Literal["scalar", "sketch", "aggregate", "record"]

# Powers of ten that a told number may have: smaller ones are told as 0, larger ones not at all.
DECADES = 24
# Of the bits that one record holds, the share that chosen numbers may tell.
_SHARE = 0.5
_MOST_BITS = 16.0
# Directions along which records differ by less than that share of the widest do not count.
_FLAT = 1e-3


@dataclass(frozen=True)
class Limits:
    """What rules need to know of a holder's data.

    Attributes
    ----------
    records
        How many records of the heaviest weight make up the mass.
    dimension
        Features of a record.
    rank
        Directions in which the records differ.
    bits
        What one record holds, as far as the values that occur can tell.

    Notes
    -----
    m exact numbers, smooth in the records, have a Jacobian of m rows. A record is determined
    (locally, to somebody who knows all others) only if its d unit vectors lie in the row space,
    so m numbers determine at most m / d records, and fewer than d none. Records that span fewer
    dimensions need fewer numbers, hence the rank. Values that are few, such as yes and no, could
    be guessed from a single number with all its digits, hence the bits: b bits help a guess by a
    factor of at most 2^b.
    """

    records: int
    dimension: int
    rank: int
    bits: float

    @classmethod
    def of(cls, points: Array, weights: Array) -> Limits:
        """Limits of the records of positive weight."""
        used = points[weights > 0]
        centred = used - used.mean(axis=0)
        values = np.linalg.eigvalsh(centred.T @ centred)
        rank = int((values > _FLAT**2 * values[-1]).sum()) if values[-1] > 0 else 0
        return cls(
            records=int(1.0 / float(weights.max()) + 1e-9),
            dimension=points.shape[1],
            rank=rank,
            bits=sum(_bits(column) for column in used.T),
        )

    @property
    def most(self) -> tuple[int, float]:
        """Most numbers and bits that may be told about inputs askers chose."""
        return max(self.rank - 1, 0), _SHARE * self.bits


class Policy(BaseModel):
    """Rules a holder answers under. The default refuses every ``record`` question.

    Below level record an answer is one of three things, and each is accounted for in the
    holder's ledger before it leaves:

    - a **release**: noise, charged to ``privacy_epsilon``, which bounds what all releases together
      tell about any record to anybody;
    - a **named** statistic, which the asker names and cannot shape (the mean, moments, sizes of
      public classes, random features from ``seed``): each kind once, of one version of the data,
      all together one number for ``behind`` numbers that the records hold;
    - **chosen** numbers, about inputs the asker brings (a distance to its validation records):
      at most ``numbers`` for ever, all askers, kinds of questions and names together, and always
      fewer than one record needs to be solved for.

    Exact answers are told with ``digits`` digits, and are no differential privacy: whoever knows
    all other records can test a guess with a single one. With ``level="record"`` everything is
    told and nothing counts.

    Attributes
    ----------
    level
        ``"sketch"`` allows releases alone: with it the budget bounds all answers. ``"scalar"``
        adds chosen numbers, ``"aggregate"`` named statistics too. ``"record"`` gives the records
        away: every distance protocol of the literature (FedWaD, TriangleWad, FedBary) needs it.
    questions
        Kinds of questions allowed; ``None`` allows every kind the level allows.
    numbers
        Most chosen numbers in all. Where the data allow fewer (rank - 1, or half of the bits of
        a record), it is fewer.
    numbers_each
        Most of them for one asker; ``None`` sets no limit of its own.
    digits
        Significant digits of a told number.
    behind
        Numbers of the records behind each number of a named statistic, and fewest records for any
        exact answer; smaller classes count as absent.
    seed
        The public seed of named statistics that are random.
    prediction_decimals
        Digits after the point that a ``Teacher`` rounds each prediction to before anything is
        computed from it; ``None`` leaves them as they are. Releases have noise instead.
    privacy_epsilon, privacy_delta
        Budget of all differentially private releases together; ``None`` allows none.

    Examples
    --------
    >>> Policy(level="scalar", numbers=3).level
    'scalar'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level = "aggregate"
    questions: frozenset[str] | None = None
    numbers: int = Field(default=10, ge=0)
    numbers_each: int | None = Field(default=None, ge=0)
    digits: int = Field(default=3, ge=1, le=15)
    behind: int = Field(default=20, ge=2)
    seed: int = Field(default=0, ge=0)
    prediction_decimals: int | None = Field(default=None, ge=0, le=12)
    privacy_epsilon: float | None = Field(default=None, gt=0)
    privacy_delta: float = Field(default=1e-5, gt=0, lt=1)

    @field_validator("questions")
    @classmethod
    def _known(cls, kinds: frozenset[str] | None) -> frozenset[str] | None:
        unknown = sorted((kinds or frozenset()) - set(QUESTIONS))
        if unknown:
            raise ValueError(
                f"no question is called {unknown[0]!r}; questions are {', '.join(QUESTIONS)}"
            )
        return kinds

    @classmethod
    def open(cls) -> Policy:
        """Rules for data the caller owns anyway: everything is allowed."""
        return cls(level="record", privacy_epsilon=math.inf)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read rules from a ``.yml``, ``.yaml`` or ``.json`` file.

        Raises
        ------
        FileError
            The file is missing, of another kind, or cannot be read.
        InputError
            A field is unknown or out of range (``policy-field``).
        """
        body = read_fields(Path(path))
        try:
            return cls(**body)
        except ValidationError as error:
            fault = complaint(error, body)
            raise InputError(
                f"{Path(path).name}: {'.'.join(fault.place)}: {fault.message}", code="policy-field"
            ) from None

    @cached_property
    def budget_mu(self) -> float | None:
        """The budget of releases as a parameter mu; ``None`` when there is none."""
        if self.privacy_epsilon is None or math.isinf(self.privacy_epsilon):
            return self.privacy_epsilon
        from ..privacy.accounting import mu_of

        return mu_of(self.privacy_epsilon, self.privacy_delta)

    @property
    def tells_records(self) -> bool:
        """Whether everything may be told."""
        return self.level == "record"

    @property
    def bits(self) -> float:
        """What one told number can hold, and whether it is exact."""
        return math.log2(9 * 10 ** (self.digits - 1) * DECADES + 2) + 1.0

    def refusal(self, question: Question, dimension: int) -> str:
        """Return the code of the rule that forbids the question whatever was told before.

        Parameters
        ----------
        question
            What is asked.
        dimension
            Features of a record.

        Returns
        -------
        str
            Empty where no rule does.
        """
        if self.questions is not None and question.kind not in self.questions:
            return "policy-question"
        account = question.accounted(dimension)
        if account is Account.RELEASE:
            # At level scalar no summary of records leaves, with noise or without.
            if self.level == "scalar":
                return "policy-level"
            return "policy-budget" if self.privacy_epsilon is None else ""
        if self.tells_records:
            return ""
        # One exact number beside releases would end what they guarantee.
        exact = self.level == "sketch"
        if exact or account is Account.RECORD or question.level > Disclosure[self.level.upper()]:
            return "policy-level"
        return ""

    def over(self, question: Question, limits: Limits, told: Tally, data: str, asker: str) -> str:
        """Return the code of the rule that what was told before makes forbid the question.

        Parameters
        ----------
        question
            One that ``refusal`` allows, for an exact answer below level record.
        limits
            Of the holder's data.
        told
            What the ledger has counted.
        data
            Version of the data.
        asker
            Who asks.

        Returns
        -------
        str
            Empty where no rule does.
        """
        numbers = question.numbers(limits.records, limits.dimension)
        if question.accounted(limits.dimension) is not Account.NAMED:
            return self.over_chosen(numbers, limits, told, data, asker)
        code = self._over_data(limits, told, data)
        if code:
            return code
        if not question.drawn_from(self.seed):
            return "policy-seed"
        if question.kind in told.kinds:
            return "policy-once"
        held = limits.records * limits.dimension
        return "policy-numbers" if (told.named + numbers) * self.behind > held else ""

    def _over_data(self, limits: Limits, told: Tally, data: str) -> str:
        if limits.records < self.behind:
            return "policy-records"
        return "policy-version" if told.data and told.data != data else ""

    def over_chosen(
        self,
        numbers: int,
        limits: Limits,
        told: Tally,
        data: str,
        asker: str,
        *,
        bits: float | None = None,
    ) -> str:
        """Return the code of the rule that forbids so many more chosen numbers, as ``over``.

        ``bits`` are what they can hold together, by default what rounded ones can.
        """
        code = self._over_data(limits, told, data)
        if code:
            return code
        most, held = told.limits if told.limits is not None else limits.most
        each = self.numbers if self.numbers_each is None else self.numbers_each
        over = told.told + numbers > min(self.numbers, most)
        over = over or told.numbers.get(asker, 0) + numbers > each
        more = numbers * self.bits if bits is None else bits
        return "policy-numbers" if over or told.bits + more > held else ""

    def chosen(self, limits: Limits) -> int:
        """Most chosen numbers that will ever be told of such data."""
        most, bits = limits.most
        return min(self.numbers, most, int(bits / self.bits))

    def explain(self, limits: Limits | None = None) -> str:
        """Say in plain sentences what askers could learn at most.

        Parameters
        ----------
        limits
            Of the data it is meant for, for figures.
        """
        return "\n".join(_sentences(self, limits))


def _bits(column: Array) -> float:
    values = np.unique(column)
    if len(values) < 2:
        return 0.0
    steps = float(values[-1] - values[0]) / float(np.diff(values).min())
    return min(math.log2(1.0 + steps), _MOST_BITS)


def _sentences(policy: Policy, limits: Limits | None) -> list[str]:
    lines: list[str] = []
    if policy.questions is not None:
        kinds = ", ".join(sorted(policy.questions)) or "none"
        lines.append(f"Only these kinds of questions are answered: {kinds}.")
    if policy.level != "scalar" and policy.privacy_epsilon is not None:
        if math.isinf(policy.privacy_epsilon):
            lines.append("Noisy releases: without any limit, so their noise protects nothing.")
        else:
            lines.append(
                f"Noisy releases: together ({policy.privacy_epsilon:g}, "
                f"{policy.privacy_delta:g})-differentially private for each record, for ever. "
                "Whatever anybody knows, or asks later, whether a record is in the data shows "
                f"through them by a factor of at most e^{policy.privacy_epsilon:g} "
                f"(= {math.exp(min(policy.privacy_epsilon, 700.0)):.3g}), save with probability "
                f"{policy.privacy_delta:g}."
            )
    else:
        lines.append("Noisy releases: none.")
    if policy.tells_records:
        lines.append(
            "Exact answers: everything, the records themselves included. An asker can have every "
            "record, and nothing is counted."
        )
        return lines
    if policy.level == "sketch":
        lines.append("Exact answers: none, not even the number of records.")
        return lines
    lines.append("How many records and features there are is told exactly to whoever asks.")
    lines += _exact(policy, limits)
    lines.append(
        "Exact answers are no differential privacy. Whoever knows all other records can test with "
        "one number whether a guessed record is in the data, and narrow an unknown one down by the "
        "bits above. Only level sketch bounds what can be inferred about a person."
    )
    return lines


def _exact(policy: Policy, limits: Limits | None) -> list[str]:
    lines: list[str] = []
    if policy.level == "aggregate":
        held = f"one for every {policy.behind} numbers that the records hold"
        if limits is not None:
            held = f"{limits.records * limits.dimension // policy.behind} numbers"
        lines.append(
            "Named statistics (moments, spread, sizes of public classes, mean random features, "
            f"averaged quantiles, from seed {policy.seed}): each kind once for ever, of the data "
            f"as they were then, {held} in all, {policy.digits} digits each. Classes of fewer "
            f"than {policy.behind} records count as absent. They sum up many records; but whoever "
            "knows all records but one can compute that one from a mean of all."
        )
    else:
        lines.append("Named statistics: none.")
    most = policy.numbers if limits is None else policy.chosen(limits)
    fewer = " or fewer, where the data hold less" if limits is None and most else ""
    each = "" if policy.numbers_each is None else f", {min(policy.numbers_each, most)} to one asker"
    lines.append(
        f"Chosen inputs (a distance to records the asker brings): {most} numbers{fewer} in all, "
        f"for ever{each}, {policy.digits} digits each, {most * policy.bits:.0f} bits together."
    )
    if limits is None:
        lines.append(
            "A record of d features needs d numbers to be solved for. Give the data (--data FILE) "
            "to see how many they allow: always fewer than that."
        )
    elif limits.records < policy.behind:
        lines.append(
            f"These data count as {limits.records} records, fewer than {policy.behind}: no exact "
            "answer but their number will be given."
        )
    else:
        lines.append(
            f"A record of these data needs {limits.rank} numbers to be solved for and holds "
            f"{limits.bits:.0f} bits, so no record can be solved for from chosen numbers, not even "
            "by an asker who knows all others."
        )
    return lines
