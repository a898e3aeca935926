"""A holder's rules: which questions it answers, and how much its releases may spend."""

from __future__ import annotations

import math
from functools import cached_property
from pathlib import Path
from typing import Literal, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    ValidationInfo,
    field_serializer,
    field_validator,
    model_validator,
)

from ..data.documents import complaint, read_fields
from ..errors import InputError
from ..privacy.accounting import largest_auc, largest_power, mu_of
from .addresses import Addresses
from .disclosure import Disclosure
from .question import Question, question_kind, question_kinds

Level = Literal["private", "statistics", "record"]

SIZES = "describe"
"""Kind of the question for sizes, which comes with whatever else a policy names."""


class Policy(BaseModel):
    """Rules under which a holder answers. By default it gives only differentially private releases.

    - ``private``: releases with noise, charged to ``privacy_epsilon``, which bounds what all of
      them together disclose about any record to anybody.
    - ``statistics``: exact statistics too, of the kinds that ``questions`` names. They are not
      counted: this is trust. Whoever reads them can test who is in the data, and from enough of
      them can reconstruct records; a minimum count does not change that.
    - ``record``: everything. Every record can be reconstructed.

    Attributes
    ----------
    level
        The most detailed level that is answered.
    questions
        Kinds of questions that are answered; ``None`` for every kind of the level. Level
        ``statistics`` needs them: exact statistics are named one by one.
    ask
        Levels whose questions wait in the ledger until a person approves or denies them.
    prediction_decimals
        Digits after the point that a ``Teacher`` rounds each prediction to before anything is
        computed from it; ``None`` leaves them as they are. Releases have noise instead.
    privacy_epsilon, privacy_delta
        Budget of all differentially private releases together; ``None`` allows none.
    exact_secure
        How many exact secure distances may be opened in all, below level record. Those with noise
        are charged. All of them tell their parties how many records there are.
    secure
        Of a site: with whom it computes secure distances, and where; ``None`` with nobody.

    Raises
    ------
    InputError
        A field is unknown or out of range (``policy-field``).

    Examples
    --------
    >>> Policy(level="statistics", questions=["distance-to"]).privacy_epsilon
    1.0
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level = "private"
    questions: frozenset[str] | None = Field(default=None, validate_default=True)
    ask: frozenset[Level] = frozenset()
    prediction_decimals: int | None = Field(default=None, ge=0, le=12, strict=True)
    privacy_epsilon: float | None = Field(default=1.0, gt=0)
    privacy_delta: float = Field(default=1e-5, gt=0, lt=1)
    exact_secure: int = Field(default=0, ge=0, strict=True)
    secure: Addresses | None = None

    @field_validator("privacy_epsilon", "privacy_delta", mode="before")
    @classmethod
    def _number(cls, value: object) -> object:
        # YAML reads yes as a truth value, and that as 1.
        if isinstance(value, bool):
            raise ValueError("a truth value arrived; give a number")
        return value

    @field_serializer("questions", "ask")
    def _listed(self, kinds: frozenset[str] | None) -> list[str] | None:
        # The same text in every process: a run that is resumed compares it.
        return None if kinds is None else sorted(kinds)

    @field_validator("questions")
    @classmethod
    def _check_kinds(
        cls, kinds: frozenset[str] | None, info: ValidationInfo
    ) -> frozenset[str] | None:
        unknown = sorted(kind for kind in kinds or () if question_kind(kind) is None)
        if unknown:
            raise ValueError(
                f"no question is called {unknown[0]!r}; questions are {', '.join(question_kinds())}"
            )
        if kinds is None and info.data.get("level") == "statistics":
            raise ValueError(
                "level statistics answers only the exact statistics that it names, and it names "
                "none; write questions: [distance-to]"
            )
        return kinds

    # After the others: what they raise gets its code here.
    @model_validator(mode="wrap")
    @classmethod
    def _with_code(cls, body: object, build: ModelWrapValidatorHandler[Self]) -> Self:
        try:
            return build(body)
        except ValidationError as error:
            fault = complaint(error, body)
            words = ": ".join(filter(None, (".".join(fault.place), fault.message)))
            raise InputError(words, code="policy-field") from None

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

    @property
    def allows_records(self) -> bool:
        """Whether everything may be disclosed."""
        return self.level == "record"

    @property
    def allows_exact(self) -> bool:
        """Whether any exact statistic may be disclosed."""
        return self.level != "private"

    def decided_as(self, question: Question) -> str:
        """Return the level that a person decides about."""
        # Exact statistics but sizes, and releases without a budget, give the records too.
        unbounded = question.level > Disclosure.PRIVATE or self.privacy_epsilon == math.inf
        if unbounded and question.kind != SIZES and self.allows_records and "record" in self.ask:
            return "record"
        return str(question.level)

    def refusal(self, question: Question) -> str:
        """Return the code of the rule that forbids a question; empty where none does.

        It depends on the question and the rules alone, never on the records.
        """
        if self.questions is not None and question.kind not in self.questions | {SIZES}:
            return "policy-question"
        if question.level == Disclosure.PUBLIC:
            return ""
        if question.level == Disclosure.PRIVATE:
            return "policy-budget" if self.privacy_epsilon is None else ""
        return "" if question.level <= Disclosure[self.level.upper()] else "policy-level"

    def explain(self) -> str:
        """Say in plain sentences what askers could learn at most."""
        return "\n".join([
            *self._explain_who(), self._explain_releases(), *self._explain_exact(),
        ])  # fmt: skip

    def _explain_who(self) -> list[str]:
        lines: list[str] = []
        if self.questions is not None:
            most = Disclosure[self.level.upper()]
            kinds = {name: question_kind(name) for name in sorted(self.questions)}
            above = [name for name, kind in kinds.items() if kind is None or kind.level > most]
            answered = ", ".join(name for name in kinds if name not in above) or "none"
            lines.append(f"Only these kinds of questions are answered: {answered}.")
            if above:
                lines.append(
                    f"Listed, but never answered at level {self.level}: {', '.join(above)}."
                )
        if self.ask:
            levels = ", ".join(sorted(self.ask))
            lines.append(
                f"Questions of level {levels} wait until a person here approves them, and expire "
                "after 14 days."
            )
        if self.allows_records and "record" in self.ask:
            noisy = ", and noisy ones" if self.privacy_epsilon == math.inf else ""
            lines.append(
                f"All exact answers about records except their number{noisy} wait too, because "
                "enough of them reveal the records."
            )
        if self.secure is not None:
            peers = ", ".join(f"{name} ({at})" for name, at in sorted(self.secure.peers.items()))
            lines.append(
                f"This site computes secure distances with {peers} and with no other party, and "
                f"listens at {self.secure.listen} while it does."
            )
        return lines

    def _explain_releases(self) -> str:
        if self.privacy_epsilon is None or self.budget_mu is None:
            return "Releases with noise: none."
        if math.isinf(self.privacy_epsilon):
            return "Releases with noise: without limit, so their noise protects nothing."
        return (
            f"Releases with noise: together ({self.privacy_epsilon:g}, {self.privacy_delta:g})-"
            "differentially private for each record, for all time and under any file or "
            "name. Somebody who knows all other records and tests whether one is in the "
            "data, with 1 % false alarms, finds at most "
            f"{largest_power(self.budget_mu, 0.01):.3g} of the members (area under the curve "
            f"at most {largest_auc(self.budget_mu):.3g}; guessing has .5)."
        )

    def _explain_exact(self) -> list[str]:
        if self.allows_records:
            return [
                "Exact answers: everything, including the records themselves. An asker can "
                "get every record, and nothing is counted."
            ]
        lines = ["Exact answers: none, not even the number of records."]
        if self.allows_exact:
            lines = [
                "Exact answers: the statistics named above, and the number of records. They "
                "are not counted. Whoever reads them can test who is in the data, and from "
                "enough of them can reconstruct records; a minimum count does not change "
                "that. Allow them only to askers whom you would trust with the records."
            ]
        if self.exact_secure:
            lines.append(
                f"Exact secure distances: {self.exact_secure} in all. Each gives both sides one "
                "exact number, and the number of records."
            )
        return lines


__all__ = ["Level", "Policy"]
