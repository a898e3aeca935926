"""A holder's rules: what may be asked, and how much exact answers may tell in all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    field_serializer,
    field_validator,
    model_validator,
)

from ..data.documents import complaint, read_fields
from ..errors import InputError
from ..privacy.accounting import mu_of
from ..privacy.ledger import Tally
from .addresses import Addresses
from .answer import BITS, Array
from .disclosure import Account, Disclosure
from .question import Question, question_kind, question_kinds

Level = Literal["scalar", "sketch", "aggregate", "record"]

# Of the bits that one record holds, the share that chosen numbers may tell.
_SHARE = 0.5
# What a feature holds at most: its range in so many parts.
_MOST_BITS = 10.0
# Directions and features in which records differ by less than that share of the widest do not
# count.
_FLAT = 1e-3
# Of the variance along any direction, the part that one record may have where pairs are told.
_LEVERAGE = 0.2


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
        What one record holds, as far as the values that occur can tell: for each feature whose
        values repeat, or nearly, how hard the commonest is to guess, of any ten at most.
    leverage
        Largest part that one record has in the variance along some direction.

    Notes
    -----
    m exact numbers, smooth in the records, have a Jacobian of m rows. A record is determined
    (locally, to somebody who knows all others) only if its d unit vectors lie in the row space,
    so m numbers determine at most m / d records, and fewer than d none. Records that span fewer
    dimensions need fewer numbers, hence the rank. Values that are few, such as yes and no, could
    be guessed from fewer numbers, hence the bits: b bits help a guess by a factor of at most 2^b.
    """

    records: int
    dimension: int
    rank: int
    bits: float
    leverage: float

    @classmethod
    def of(cls, points: Array, weights: Array) -> Limits:
        """Limits of the records of positive weight."""
        used, masses = points[weights > 0], weights[weights > 0]
        centred = (used - masses @ used / masses.sum()) * np.sqrt(masses / masses.sum())[:, None]
        # The smaller of the two products has the same eigenvalues, zeros apart.
        wide = used.shape[1] > len(used)
        values, vectors = np.linalg.eigh(centred @ centred.T if wide else centred.T @ centred)
        kept = values > _FLAT**2 * max(float(values[-1]), 0.0)
        # Rows of the left singular vectors: leverages are their squared lengths.
        rows = vectors[:, kept] if wide else centred @ vectors[:, kept] / np.sqrt(values[kept])
        deviation = np.sqrt((centred**2).sum(axis=0))
        varies = deviation > _FLAT * float(deviation.max())
        held = sum(_bits(column, masses) for column in used.T[varies])
        return cls(
            records=int(1.0 / float(weights.max()) + 1e-9),
            dimension=points.shape[1],
            rank=int(kept.sum()),
            # Whole ones: refusals tell of them.
            bits=float(int(min(held, _MOST_BITS * int(kept.sum())))),
            leverage=float((rows**2).sum(axis=1).max()) if kept.any() else 1.0,
        )

    @property
    def most(self) -> tuple[int, float]:
        """Most numbers and bits that may be told about inputs askers chose."""
        return self.rank // 2, _SHARE * self.bits


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

    No number is told finer than one record can move it. Exact answers are no differential privacy
    all the same: whoever knows all other records can test a guess with a single one. With
    ``level="record"`` everything is told and nothing counts.

    Attributes
    ----------
    level
        ``"sketch"`` allows releases alone: with it the budget bounds all answers. ``"scalar"``
        adds chosen numbers, ``"aggregate"`` named statistics too. ``"record"`` gives the records
        away: every distance protocol of the literature (FedWaD, TriangleWad, FedBary) needs it.
    questions
        Kinds of questions allowed; ``None`` allows every kind the level allows.
    numbers
        Most chosen numbers in all. Where the data allow fewer (half of the rank, or half of the
        bits of a record), it is fewer.
    numbers_each
        Most of them for one asker; ``None`` sets no limit of its own.
    ask
        Levels whose questions wait in the ledger until a person approves or denies them.
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
    secure
        Of a site: with whom it computes secure distances, and where; ``None`` with nobody.

    Raises
    ------
    InputError
        A field is unknown or out of range (``policy-field``).

    Examples
    --------
    >>> Policy(level="scalar", numbers=3).level
    'scalar'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level = "aggregate"
    questions: frozenset[str] | None = None
    ask: frozenset[Level] = frozenset()
    numbers: int = Field(default=5, ge=0, strict=True)
    numbers_each: int | None = Field(default=None, ge=0, strict=True)
    behind: int = Field(default=20, ge=2, strict=True)
    seed: int = Field(default=0, ge=0, strict=True)
    prediction_decimals: int | None = Field(default=None, ge=0, le=12, strict=True)
    privacy_epsilon: float | None = Field(default=None, gt=0)
    privacy_delta: float = Field(default=1e-5, gt=0, lt=1)
    secure: Addresses | None = None

    @model_validator(mode="wrap")
    @classmethod
    def _with_code(cls, body: object, validate: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return validate(body)
        except ValidationError as error:
            fault = complaint(error, body)
            raise InputError(
                f"{'.'.join(fault.place)}: {fault.message}", code="policy-field"
            ) from None

    @field_validator("privacy_epsilon", "privacy_delta", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        # YAML reads yes as a truth value, and that as 1.
        if isinstance(value, bool):
            raise ValueError("a truth value arrived; give a number")
        return value

    @field_serializer("questions", "ask")
    def _listed(self, kinds: frozenset[str] | None) -> list[str] | None:
        # The same text in every process: a run that goes on compares it.
        return None if kinds is None else sorted(kinds)

    @field_validator("questions")
    @classmethod
    def _known(cls, kinds: frozenset[str] | None) -> frozenset[str] | None:
        unknown = sorted(kind for kind in kinds or () if question_kind(kind) is None)
        if unknown:
            raise ValueError(
                f"no question is called {unknown[0]!r}; questions are {', '.join(question_kinds())}"
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
        except InputError as error:
            raise InputError(f"{Path(path).name}: {error.message}", code=error.code) from None

    @cached_property
    def budget_mu(self) -> float | None:
        """The budget of releases as a parameter mu; ``None`` when there is none."""
        if self.privacy_epsilon is None or math.isinf(self.privacy_epsilon):
            return self.privacy_epsilon
        return mu_of(self.privacy_epsilon, self.privacy_delta)

    def named(self, limits: Limits) -> int:
        """Most numbers of named statistics that will ever be told of such data."""
        held = min(limits.dimension, limits.bits / BITS)
        few = limits.records < self.behind or self.level != "aggregate"
        return 0 if few else int(limits.records * held / self.behind)

    def gives(self, level: Disclosure, account: Account) -> str:
        """The level that a person decides about: what nothing bounds gives the records too."""
        unbounded = account is not Account.RELEASE or self.privacy_epsilon == math.inf
        return "record" if unbounded and self.tells_records and "record" in self.ask else str(level)

    @property
    def tells_records(self) -> bool:
        """Whether everything may be told."""
        return self.level == "record"

    @property
    def tells_numbers(self) -> bool:
        """Whether any exact number may be told: beside releases it would end what they promise."""
        return self.level != "sketch"

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
        if account is Account.PUBLIC and question.on == "model":
            return ""
        if account is Account.RELEASE:
            # At level scalar no summary of records leaves, with noise or without.
            if self.level == "scalar":
                return "policy-level"
            return "policy-budget" if self.privacy_epsilon is None else ""
        return "" if self.tells_records or self._tells(question, account) else "policy-level"

    def _tells(self, question: Question, account: Account) -> bool:
        """Whether a question about records is answered at a level that tells no records."""
        if not self.tells_numbers or account is Account.RECORD:
            return False
        # Of records alone it is known how many numbers solve for one.
        if account is not Account.FREE and question.on != "records":
            return False
        # Label coordinates are means of classes, small ones too.
        if account is Account.NAMED and question.embedding != "none":
            return False
        return question.level <= Disclosure[self.level.upper()]

    def over(self, question: Question, limits: Limits, tally: Tally, data: str, asker: str) -> str:
        """Return the code of the rule that what was told before makes forbid the question.

        Parameters
        ----------
        question
            One that ``refusal`` allows, for an exact answer below level record.
        limits
            Of the holder's data.
        tally
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
            return self.over_chosen(numbers, limits, tally, data, asker)
        code = self._over_data(limits, tally, data)
        if code:
            return code
        if not question.drawn_from(self.seed):
            return "policy-seed"
        if question.kind in tally.kinds:
            return "policy-once"
        if question.by_pairs and limits.leverage > _LEVERAGE:
            return "policy-rare"
        over = (tally.named + numbers) * self.behind > limits.records * limits.dimension
        more = tally.named_bits + numbers * BITS
        return "policy-numbers" if over or more * self.behind > limits.records * limits.bits else ""

    def _over_data(self, limits: Limits, tally: Tally, data: str) -> str:
        if tally.data and tally.data != data:
            return "policy-version"
        return "policy-records" if limits.records < self.behind else ""

    def over_chosen(
        self,
        numbers: int,
        limits: Limits,
        tally: Tally,
        data: str,
        asker: str,
        *,
        bits: float | None = None,
    ) -> str:
        """Return the code of the rule that forbids so many more chosen numbers, as ``over``.

        ``bits`` are what they can hold together, by default what rounded ones can.
        """
        code = self._over_data(limits, tally, data)
        if code:
            return code
        # Those of the first time, or of now where these are less.
        most, held = map(min, limits.most, tally.limits or limits.most)
        per_asker = self.numbers if self.numbers_each is None else self.numbers_each
        over = tally.total + numbers > min(self.numbers, most)
        over = over or tally.numbers.get(asker, 0) + numbers > per_asker
        more = numbers * BITS if bits is None else bits
        return "policy-numbers" if over or tally.bits + more > held else ""

    def chosen(self, limits: Limits) -> int:
        """Most chosen numbers that will ever be told of such data."""
        most, bits = limits.most
        return min(self.numbers, most, int(bits / BITS))

    def explain(self, limits: Limits | None = None) -> str:
        """Say in plain sentences what askers could learn at most.

        Parameters
        ----------
        limits
            Of the data it is meant for, for figures.
        """
        return "\n".join(sentences(self, limits))


def _bits(column: Array, masses: Array) -> float:
    """What a value holds: its place in the range, or less where one value, or nearly, is common."""
    low, wide = float(column.min()), float(np.ptp(column))
    if wide == 0.0:
        return 0.0
    placed = np.rint(np.multiply(column - low, 2.0**_MOST_BITS / wide))
    values, places, counts = np.unique(placed, return_inverse=True, return_counts=True)
    most = math.log2(1.0 + (values[-1] - values[0]) / float(np.diff(values).min()))
    most = min(most, _MOST_BITS)
    # That some share a part by chance says nothing of their values.
    if int(counts.max()) <= 3.0 + math.log2(len(column)):
        return most
    return min(most, -math.log2(float(np.bincount(places, masses).max() / masses.sum())))


def sentences(policy: Policy, limits: Limits | None) -> list[str]:  # noqa: C901 - a case each
    """Sentences about a policy, with figures where the limits of some data are given."""
    lines: list[str] = []
    if policy.questions is not None:
        kinds = ", ".join(sorted(policy.questions)) or "none"
        lines.append(f"Only these kinds of questions are answered: {kinds}.")
    if policy.ask:
        levels = ", ".join(sorted(policy.ask))
        lines.append(
            f"Questions of level {levels} wait until a person here approves them, and lapse after "
            "14 days."
        )
        if policy.tells_records and "record" in policy.ask:
            noisy = ", and noisy ones" if policy.privacy_epsilon == math.inf else ""
            lines.append(
                f"So do all exact answers about records{noisy}: enough of what nothing bounds "
                "gives the records."
            )
    if policy.secure is not None:
        peers = ", ".join(f"{name} ({at})" for name, at in sorted(policy.secure.peers.items()))
        lines.append(
            f"A site computes secure distances with {peers} and nobody else, and listens at "
            f"{policy.secure.listen} while one lasts."
        )
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
    elif policy.privacy_epsilon is not None:
        lines.append(
            "Noisy releases: none of records; a secure distance with noise is charged to "
            f"({policy.privacy_epsilon:g}, {policy.privacy_delta:g})."
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
        lines.append(
            "Exact answers: none, not even the number of records; no secure distance, for its "
            "parties tell each other how many there are."
        )
        return lines
    lines.append(
        "How many records and features there are, and whether all weigh the same, is told exactly "
        "to whoever asks, whenever the data change too."
    )
    if policy.questions is not None:
        lines.append("What follows holds for the kinds of questions named above.")
    lines += _exact(policy, limits)
    lines.append(
        "Exact answers are no differential privacy. Whoever knows all other records can test with "
        "one number whether a guessed record is in the data, and narrow an unknown one down by the "
        "bits above. Only level sketch bounds what can be inferred about a person."
    )
    return lines


def _exact(policy: Policy, limits: Limits | None) -> list[str]:
    lines: list[str] = []
    if limits is not None and limits.records < policy.behind:
        return [
            f"These data count as {limits.records} records, fewer than {policy.behind}: no other "
            "exact answer will be given."
        ]
    if policy.level == "aggregate":
        held = f"one for every {policy.behind} numbers that the records hold"
        if limits is not None:
            held = f"{policy.named(limits)} numbers"
        lines.append(
            "Named statistics (moments, spread, sizes of public classes, mean random features, "
            f"averaged quantiles, from seed {policy.seed}): each kind once for ever, of the data "
            f"as they were then, {held} in all. Classes of fewer "
            f"than {policy.behind} records count as absent (how many they hold together follows "
            "from the number of records). They sum up many records; but whoever knows all records "
            "but one can narrow that one down."
        )
    else:
        lines.append("Named statistics: none.")
    lines.append(
        "Every such number, and every one below, is told as a multiple of a step that is larger "
        "than what any one record moves it by; counts are told as they are."
    )
    most = policy.numbers if limits is None else policy.chosen(limits)
    fewer = " or fewer, where the data hold less" if limits is None and most else ""
    own = policy.numbers_each
    per_asker = "" if own is None else f", {min(own, most)} to one asker"
    bits = most * BITS
    lines.append(
        f"Chosen inputs (a distance to records the asker brings): {most} numbers{fewer} in all, "
        f"for ever{per_asker}, {bits:.0f} bits of one record together. "
        "(An exact secure distance is one of them, and counts 40 bits: all its digits are opened, "
        "without any step.)"
    )
    if limits is None:
        lines.append(
            "A record of d features needs d numbers to be solved for. Give the data (--data FILE) "
            "to see how many they allow: always fewer than that."
        )
    else:
        lines.append(
            f"A record of these data needs {limits.rank} numbers to be solved for and holds about "
            f"{limits.bits:.0f} bits, so no record can be solved for from chosen numbers, not even "
            "by an asker who knows all others, unless values of a record follow from one another."
        )
    return lines
