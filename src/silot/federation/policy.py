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
from .answer import Array, bits_of
from .disclosure import Account, Disclosure
from .question import QUESTIONS, Question

Level = Literal["scalar", "sketch", "aggregate", "record"]

# Of the bits that one record holds, the share that chosen numbers may tell.
_SHARE = 0.5
_MOST_BITS = 16.0
# Of a mean of 20 records or more, so few digits place a single record no better than to a
# hundredth of the widest feature, however many means are put together.
_NAMED_DIGITS = 3
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
        What one record holds, as far as the values that occur can tell: for each feature that
        repeats values, how hard the commonest is to guess. Features that follow from one another
        count each.
    support
        Fewest records that differ from a feature's commonest value, over features that vary.

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
    support: int

    @classmethod
    def of(cls, points: Array, weights: Array) -> Limits:
        """Limits of the records of positive weight."""
        used = points[weights > 0]
        centred = used - used.mean(axis=0)
        # The smaller of the two products has the same eigenvalues, zeros apart.
        wide = used.shape[1] > len(used)
        values = np.linalg.eigvalsh(centred @ centred.T if wide else centred.T @ centred)
        rank = int((values > _FLAT**2 * values[-1]).sum()) if values[-1] > 0 else 0
        return cls(
            records=int(1.0 / float(weights.max()) + 1e-9),
            dimension=points.shape[1],
            rank=rank,
            bits=sum(_bits(column) for column in used.T),
            support=min((n for n in map(_rarest, used.T) if n > 0), default=0),
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
        Significant digits of a told number; named statistics have three at most.
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
    numbers: int = Field(default=10, ge=0, strict=True)
    numbers_each: int | None = Field(default=None, ge=0, strict=True)
    digits: int = Field(default=3, ge=1, le=15, strict=True)
    behind: int = Field(default=20, ge=2, strict=True)
    seed: int = Field(default=0, ge=0, strict=True)
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

    def named(self, limits: Limits) -> int:
        """Most numbers of named statistics that will ever be told of such data."""
        held = min(limits.dimension, limits.bits / self.bits(Account.NAMED))
        few = limits.records < self.behind or self.level != "aggregate"
        return 0 if few else int(limits.records * held / self.behind)

    @property
    def tells_records(self) -> bool:
        """Whether everything may be told."""
        return self.level == "record"

    def digits_of(self, account: Account) -> int:
        """Digits a number is told with: of named statistics never more than three."""
        return min(self.digits, _NAMED_DIGITS) if account is Account.NAMED else self.digits

    def bits(self, account: Account) -> float:
        """What one told number can hold."""
        return bits_of(self.digits_of(account))

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
        forbidden = (
            # One exact number beside releases would end what they guarantee.
            self.level == "sketch"
            or account is Account.RECORD
            or question.level > Disclosure[self.level.upper()]
            # Label coordinates are means of classes, small ones too.
            or (account is Account.NAMED and question.embedding != "none")
        )
        return "policy-level" if forbidden else ""

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
        if question.by_pairs and limits.support < self.behind:
            return "policy-rare"
        over = (told.named + numbers) * self.behind > limits.records * limits.dimension
        more = told.named_bits + numbers * self.bits(Account.NAMED)
        return "policy-numbers" if over or more * self.behind > limits.records * limits.bits else ""

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
        more = numbers * self.bits(Account.CHOSEN) if bits is None else bits
        return "policy-numbers" if over or told.bits + more > held else ""

    def chosen(self, limits: Limits) -> int:
        """Most chosen numbers that will ever be told of such data."""
        most, bits = limits.most
        return min(self.numbers, most, int(bits / self.bits(Account.CHOSEN)))

    def explain(self, limits: Limits | None = None) -> str:
        """Say in plain sentences what askers could learn at most.

        Parameters
        ----------
        limits
            Of the data it is meant for, for figures.
        """
        from .explanation import sentences

        return "\n".join(sentences(self, limits))


def _bits(column: Array) -> float:
    values, counts = np.unique(column, return_counts=True)
    if len(values) < 2:
        return 0.0
    steps = float(values[-1] - values[0]) / float(np.diff(values).min())
    most = min(math.log2(1.0 + steps), _MOST_BITS)
    repeats = int(counts.max()) > 1
    return min(most, math.log2(len(column) / int(counts.max()))) if repeats else most


def _rarest(column: Array) -> int:
    _, counts = np.unique(column, return_counts=True)
    return len(column) - int(counts.max())
