"""A holder's rules: what may be asked, and how fine the answers may be."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, field_validator

from .answer import Array
from .disclosure import Disclosure
from .question import QUESTIONS, Cloud, Interpolate, Question
from .reference import is_drawn
from .release import Release

Level = Literal["scalar", "sketch", "aggregate", "record"]


@dataclass
class Memory:
    """What a holder remembers of its answers, for the rules that need it.

    Attributes
    ----------
    sizes
        Atoms of the references it interpolated towards, by kind of question.
    told
        Questions that told a distance.
    """

    sizes: dict[str, int] = field(default_factory=dict[str, int])
    told: int = 0

    def note(self, question: Question) -> None:
        """Remember an answered question."""
        if isinstance(question, Interpolate):
            self.sizes.setdefault(question.kind, len(question.reference))
        self.told += question.tells_distance


class Policy(BaseModel):
    """Rules a holder answers under. The default refuses every ``record`` question.

    Rules about single questions are a fence, not a guarantee: they stop what is known to give
    records away, and many allowed answers together may still do so. A guarantee is what a
    differentially private release has, within the budget.

    Attributes
    ----------
    level
        Finest disclosure allowed. ``"sketch"`` allows differentially private releases alone, and
        no exact number: with it the budget bounds all answers. Every distance protocol of the
        literature (FedWaD, TriangleWad, FedBary) needs ``"record"``: its messages give every
        record back.
    questions
        Kinds of questions allowed; ``None`` allows every kind the level allows.
    minimum_support
        Fewest distinct atoms of positive weight in every measure a question brings along. A
        single atom turns a distance into a coordinate.
    minimum_records
        Fewest records of positive weight the holder answers about; when it tells the sizes of
        its classes, smaller classes count as absent. Other questions about labels (level
        aggregate and finer) can still be made to tell the mass of a small class.
    distances
        Whether distances to a reference may be told, alone or with an interpolant. Without them
        a result has weaker bounds, or none.
    most_distances
        Most different questions that tell a distance, below level ``"record"``: enough chosen
        distances give a record.
    shared_weights
        Fewest atoms that must share each weight in a measure a question brings along. Weights
        chosen atom by atom single records out.
    reach
        Farthest an atom may be from the middle of its cloud, in median distances. A far atom
        picks the outermost records.
    minimum_t
        Least parameter of an interpolant; at 0 it is the records themselves.
    one_size
        Whether all references of interpolants must have as many atoms as the first: cell means
        for S and S + 1 atoms differ by single records.
    reference_seed
        Seed of the one public reference whose cell means may be told below level ``"record"``.
    cell_records
        Fewest records an atom of those cell means must stand for.
    prediction_decimals
        Digits after the point that a ``Teacher`` rounds each prediction to before anything is
        computed from it; ``None`` leaves them as they are. Releases have noise instead.
    privacy_epsilon, privacy_delta
        Budget of all differentially private releases together; ``None`` allows none.

    Examples
    --------
    >>> Policy(level="record", minimum_support=50).level
    'record'
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    level: Level = "aggregate"
    questions: frozenset[str] | None = None
    minimum_support: int = Field(default=10, ge=1)
    minimum_records: int = Field(default=5, ge=1)
    distances: bool = True
    most_distances: int = Field(default=100, ge=0)
    shared_weights: int = Field(default=5, ge=1)
    reach: float = Field(default=20.0, gt=0)
    minimum_t: float = Field(default=0.01, ge=0, lt=1)
    one_size: bool = True
    reference_seed: int = Field(default=0, ge=0)
    cell_records: int = Field(default=20, ge=1)
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
        return cls(
            level="record",
            minimum_support=1,
            minimum_records=1,
            shared_weights=1,
            reach=math.inf,
            minimum_t=0.0,
            one_size=False,
            privacy_epsilon=math.inf,
        )

    @cached_property
    def budget_mu(self) -> float | None:
        """The budget of releases as a parameter mu; ``None`` when there is none."""
        if self.privacy_epsilon is None or math.isinf(self.privacy_epsilon):
            return self.privacy_epsilon
        from ..privacy.accounting import mu_of

        return mu_of(self.privacy_epsilon, self.privacy_delta)

    def refusal(
        self, question: Question, records: int, memory: Memory | None = None, share: float = 0.0
    ) -> str | None:
        """Return the code of the rule that forbids the question, ``None`` if none does.

        Parameters
        ----------
        question
            What is asked.
        records
            Records of positive weight.
        memory
            What was answered before.
        share
            Weight of the heaviest record; 0 when all weigh the same.
        """
        memory = memory if memory is not None else Memory()
        if self.questions is not None and question.kind not in self.questions:
            return "policy-question"
        return (
            self._about_clouds(question)
            or self._about_interpolants(question, records, memory, share)
            or self._about_answers(question, records, memory)
        )

    def _about_clouds(self, question: Question) -> str | None:
        for cloud in question.clouds:
            if _distinct(cloud) < self.minimum_support:
                return "policy-support"
            if _least_shared(cloud) < self.shared_weights:
                return "policy-weights"
            if not _within_reach(cloud, self.reach):
                return "policy-reach"
        return None

    def _about_interpolants(
        self, question: Question, records: int, memory: Memory, share: float
    ) -> str | None:
        if not getattr(question, "t", 1.0) >= self.minimum_t:
            return "policy-t"
        if not isinstance(question, Interpolate):
            return None
        size = len(question.reference)
        if self.one_size and memory.sizes.get(question.kind, size) != size:
            return "policy-size"
        if self._finest > Disclosure.AGGREGATE or not _cell_means(question):
            return None
        if not is_drawn(question.reference, self.reference_seed):
            return "policy-reference"
        heaviest = share or 1.0 / records
        return "policy-cells" if 1.0 / size < self.cell_records * heaviest else None

    def _about_answers(self, question: Question, records: int, memory: Memory) -> str | None:
        # Cell means that passed the rules above are statistics of many records each.
        told = Disclosure.AGGREGATE if _cell_means(question) else question.level
        # One exact number beside releases would end what they guarantee.
        exact = self._finest is Disclosure.SKETCH and not isinstance(question, Release)
        if told > self._finest or exact:
            return "policy-level"
        if question.tells_distance and not self.distances:
            return "policy-distances"
        fine = self._finest is Disclosure.RECORD
        if question.tells_distance and not fine and memory.told >= self.most_distances:
            return "policy-repeats"
        if records < self.minimum_records:
            return "policy-records"
        if isinstance(question, Release) and self.privacy_epsilon is None:
            return "policy-budget"
        return None

    @property
    def _finest(self) -> Disclosure:
        return Disclosure[self.level.upper()]

    def bare(self, question: Interpolate) -> bool:
        """Whether distances must be left out of an interpolant."""
        return not self.distances or self._finest is not Disclosure.RECORD


def _cell_means(question: Question) -> bool:
    """Whether the answer holds barycentric means of the records that go to each atom."""
    return (
        type(question) is Interpolate
        and question.on_reference
        and question.interpolation == "barycentric"
    )


def _distinct(cloud: Cloud) -> int:
    """Distinct atoms of positive weight; 0 for what is no cloud."""
    atoms, weights = cloud
    if atoms.ndim != 2 or weights.shape != (len(atoms),):
        return 0
    if not (np.isfinite(atoms).all() and np.isfinite(weights).all() and (weights >= 0).all()):
        return 0
    return len(np.unique(atoms[weights > 0], axis=0))


def _least_shared(cloud: Cloud) -> int:
    """Atoms that share the rarest weight, up to rounding."""
    weights = np.sort(cloud[1][cloud[1] > 0])
    steps = np.flatnonzero(np.diff(weights) > 1e-9 * weights[-1]) + 1
    return int(np.diff(np.concatenate([[0], steps, [len(weights)]])).min())


def _within_reach(cloud: Cloud, reach: float) -> bool:
    """Whether no atom is farther from the middle than ``reach`` median distances."""
    atoms, weights = cloud
    used: Array = atoms[weights > 0]
    distances = np.linalg.norm(used - np.median(used, axis=0), axis=1)
    # An infinite reach allows everything, also atoms that all but coincide.
    return math.isinf(reach) or float(distances.max()) <= reach * float(np.median(distances))
