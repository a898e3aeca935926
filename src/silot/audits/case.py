"""What one party of a run saw of another: the input of every attack."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..distances.questions import (
    Describe,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    InterpolateByClass,
    Moments,
)
from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.disclosure import Disclosure
from ..federation.message import Scalar
from ..federation.protocol import COORDINATOR
from ..federation.question import Question
from ..federation.transcript import Entry, Transcript
from ..records.questions.scores import ScoreRecords
from .inversion import NO_PARAMETER, Array, Form, InapplicableError, Interpolant, normalized
from .parameter import solved_by_mean
from .result import NEEDS

Q = TypeVar("Q", bound=Question)
Labels = npt.NDArray[np.str_]

EAVESDROPPER = "eavesdropper"
"""Sees that messages travel, when and how long they are, and cannot open them."""

# Protocols in which the coordinator may have records of its own beside several holders.
_WITH_OWN = ("pooled-trianglewad", "records", "contributions")


@dataclass(frozen=True)
class Exchange:
    """One question, and the answer to it where there is one."""

    round: int
    holder: str
    question: Question
    answer: Answer | None
    is_refused: bool = False


@dataclass(frozen=True)
class Size:
    """Length of one message, and when it travelled.

    ``kind`` is what the public code of the method sends there; the content stays unread.
    """

    round: int
    holder: str
    direction: str
    seconds: float
    size: int
    kind: str


@dataclass(frozen=True)
class View:
    """What one party saw of a run."""

    viewpoint: str
    """``"coordinator"``, the name of a holder, several of them with commas between, who put
    together what they saw, or ``"eavesdropper"``."""
    protocol: str
    """Name of the protocol."""
    parameters: Mapping[str, Scalar]
    """Public options of the run."""
    exchanges: tuple[Exchange, ...] = field(repr=False)
    """Exchanges it took part in."""
    holders: tuple[str, ...]
    """All holders of the run."""
    sizes: tuple[Size, ...] = field(default=(), repr=False)
    """Lengths and times of all messages, for an eavesdropper only."""

    @classmethod
    def of(cls, transcript: Transcript, viewpoint: str) -> View:
        """Read from a transcript what ``viewpoint`` saw; an unknown one is an ``InputError``."""
        holders = tuple(
            dict.fromkeys(one.holder for one in transcript.entries if one.holder != COORDINATOR)
        )
        parties = _checked_parties(viewpoint, holders)
        if parties == (EAVESDROPPER,):
            sizes = tuple(_sizes(transcript))
            return cls(viewpoint, transcript.protocol, {}, (), holders, sizes)
        entries = [
            one for one in transcript.entries if COORDINATOR in parties or one.holder in parties
        ]
        exchanges = tuple(_exchanges(entries))
        return cls(viewpoint, transcript.protocol, transcript.parameters, exchanges, holders)

    @property
    def refused(self) -> int:
        """How many of its questions were refused or failed."""
        return sum(item.is_refused for item in self.exchanges)

    @property
    def level(self) -> Disclosure | None:
        """Level of the most detailed answer it saw, ``None`` where it saw none."""
        levels = [item.question.level for item in self.exchanges if item.answer is not None]
        return max(levels, default=None)

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of the parties that look together."""
        return _parties_of(self.viewpoint)

    @property
    def is_central(self) -> bool:
        """Whether the coordinator is among them, who saw every message."""
        return COORDINATOR in self.parties

    @property
    def targets(self) -> tuple[str, ...]:
        """Parties whose records are attacked."""
        others = tuple(name for name in self.holders if name not in self.parties)
        if self.is_central or self.parties == (EAVESDROPPER,):
            return others
        # The coordinator has records of its own where a holder alone makes no pair of sides.
        alone = len(self.holders) == len(self.parties) == 1
        buyer = self.protocol in _WITH_OWN or alone
        return (*others, COORDINATOR) if buyer else others

    def about(self, holder: str) -> tuple[Exchange, ...]:
        """Return the exchanges with one holder."""
        return tuple(item for item in self.exchanges if item.holder == holder)

    def answered(self, holder: str, *kinds: type[Q]) -> list[tuple[Q, Answer]]:
        """Return the questions of these kinds that the holder answered, with the answers."""
        return [
            (item.question, item.answer)
            for item in self.about(holder)
            if isinstance(item.question, kinds) and item.answer is not None
        ]

    def records(self, holder: str) -> int | None:
        """Return the number of records, where the holder sent it."""
        for _, answer in self.answered(holder, Describe):
            value = answer.optional_number("records")
            return None if value is None else int(value)
        return None

    def is_uniform(self, holder: str) -> bool:
        """Return whether the holder said that its weights are uniform."""
        answers = self.answered(holder, Describe)
        return any(answer.scalars.get("uniform") is True for _, answer in answers)

    def moments(self, holder: str) -> tuple[Array, Array] | None:
        """Return the mean and covariance, where the holder sent them."""
        for _, answer in self.answered(holder, Moments):
            return answer.array("mean", ndim=1), answer.array("covariance", ndim=2)
        return None


def _parties_of(viewpoint: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for part in viewpoint.split(",") if (name := part.strip())))


def _checked_parties(viewpoint: str, holders: tuple[str, ...]) -> tuple[str, ...]:
    parties = _parties_of(viewpoint)
    names = {COORDINATOR, EAVESDROPPER, *holders}
    # An eavesdropper opens no message, so it has nothing to put together with others.
    fits = EAVESDROPPER not in parties or len(parties) == 1
    if not parties or not fits or not names.issuperset(parties):
        raise InputError(
            f"viewpoint is {viewpoint!r}; give {COORDINATOR!r}, {EAVESDROPPER!r} or holders "
            f"of the run, several with commas between: {', '.join(holders) or 'it has none'}.",
            code="audit-viewpoint",
        )
    return parties


def _question(entry: Entry) -> Question | None:
    question = entry.open() if entry.direction == "sent" else None
    return question if isinstance(question, Question) else None


def _exchanges(entries: Sequence[Entry]) -> Iterator[Exchange]:
    # An answer follows its question, and may travel after other questions.
    replies = {
        (entry.round, entry.holder): entry.open()
        for entry in entries
        if entry.direction == "received"
    }
    for entry in entries:
        question = _question(entry)
        if question is not None:
            reply = replies.get((entry.round, entry.holder))
            answer = reply if isinstance(reply, Answer) else None
            yield Exchange(entry.round, entry.holder, question, answer, isinstance(reply, Failure))


def _sizes(transcript: Transcript) -> Iterator[Size]:
    for one in transcript.entries:
        question = _question(one)
        kind = "" if question is None else question.kind
        yield Size(one.round, one.holder, one.direction, one.seconds, one.size, kind)


# Interpolants behind messages.


def sent_interpolants(item: Exchange, mean: Array | None) -> list[Interpolant]:
    """Return the interpolants of one answer; ``mean`` is that of the records, where it is known."""
    question, answer = item.question, item.answer
    if answer is None:
        return []
    if isinstance(question, InterpolateByClass):
        return list(_by_class(item, question, answer))
    # Questions of the subclasses send something else computed from an interpolant.
    if type(question) is not Interpolate:
        return []
    return [
        _towards(
            item,
            question,
            answer.array("atoms", ndim=2),
            answer.array("weights", ndim=1),
            is_geodesic=_says_geodesic(answer),
            distance=answer.optional_number("distance"),
            mean=mean,
        )
    ]


def located_interpolants(exchanges: Sequence[Exchange]) -> Iterator[Interpolant]:
    """Compute the interpolants behind matrices of costs to known points."""
    for item in exchanges:
        question, answer = item.question, item.answer
        if isinstance(question, InterpolantCosts) and answer is not None:
            costs = answer.array("costs", ndim=2)
            atoms = located(costs if question.p == 2 else costs**2, question.target)
            if atoms is not None:
                weights = answer.array("weights", ndim=1)
                yield _towards(item, question, atoms, weights, is_geodesic=_says_geodesic(answer))


def shown_interpolants(exchanges: Sequence[Exchange], *, shared: bool) -> list[Interpolant]:
    """Return the interpolants of the coordinator's records that its questions bring along.

    ``shared`` says that the coordinator's own parameter is the one in its questions.
    """
    # The same interpolant may come with every question.
    distinct: dict[bytes, Interpolant] = {}
    for one in _brought_along(exchanges, shared=shared):
        distinct.setdefault(one.atoms.tobytes() + one.reference.tobytes(), one)
    return list(distinct.values())


def _brought_along(exchanges: Sequence[Exchange], *, shared: bool) -> Iterator[Interpolant]:
    last: Interpolate | None = None
    for item in exchanges:
        question = item.question
        if isinstance(question, ScoreRecords) and last is not None:
            # It brings an interpolant towards the reference of the last question.
            atoms, weights = question.target, question.target_weights
            yield _towards(item, last, atoms, weights, form="rows", p=2)
        elif isinstance(question, InterpolantDistance | InterpolantCosts):
            t = question.t if shared else None
            yield _towards(item, question, question.target, question.target_weights, t=t)
        elif isinstance(question, Interpolate):
            last = question


def _form(question: Interpolate) -> Form:
    if question.interpolation == "exact":
        return "pairs"
    return "cells" if question.on_reference else "rows"


def _towards(
    item: Exchange, question: Interpolate, atoms: Array, weights: Array, **more: Any
) -> Interpolant:
    """Build an interpolant towards the reference of a question; ``more`` are its fields."""
    # Atoms without weight are in no plan, and would divide by zero.
    used = question.reference_weights > 0
    options = {"t": question.t, "form": _form(question), "p": question.p, "round": item.round}
    return Interpolant(
        atoms,
        normalized(weights),
        question.reference[used],
        normalized(question.reference_weights[used]),
        **{**options, **more},
    )


def _by_class(
    item: Exchange, question: InterpolateByClass, answer: Answer
) -> Iterator[Interpolant]:
    atoms, masses = answer.array("atoms", ndim=2), answer.array("masses", ndim=1)
    for code in np.flatnonzero(masses > 0).tolist():
        members = (question.target_codes == code) & (question.target_weights > 0)
        if members.any():
            weights = normalized(question.target_weights[members])
            yield Interpolant(
                atoms[members], weights, question.target[members], weights, question.t, "cells",
                round=item.round, group=code, mass=float(masses[code]),
            )  # fmt: skip


def located(squares: Array, points: Array) -> Array | None:
    r"""Compute points ``a_i`` from ``|a_i - z_j|^2 = squares[i, j]`` to known points ``z_j``.

    Differences of squares are linear in the point:
    :math:`-2 \langle a, z_j - \bar z \rangle = (s_j - |z_j|^2) - \overline{(s - |z|^2)}`.

    Returns
    -------
    numpy.ndarray or None
        Shape (n, d); ``None`` when the known points do not span the space, because a point and
        its mirror image then have the same costs.
    """
    centre = points.mean(axis=0)
    near = points - centre
    right = squares - np.einsum("ij,ij->i", near, near)
    right = -0.5 * (right - right.mean(axis=1, keepdims=True))
    # Costs are rounded: nearly flat points would enlarge that to errors beyond any record.
    values = np.linalg.svd(near, compute_uv=False)
    if len(points) <= near.shape[1] or values[-1] <= 1e-10 * values[0]:
        return None
    solution = np.linalg.lstsq(near, right.T, rcond=None)[0].T
    return solution + centre


def _says_geodesic(answer: Answer) -> bool:
    return answer.scalars.get("geodesic") is True


# What attacks on one target use.


@dataclass(frozen=True)
class Candidates:
    """Records that were in the data and records that were not, with their labels.

    ``public`` are records of neither kind, to train shadow models on.
    """

    inside: Array = field(repr=False)
    outside: Array = field(repr=False)
    inside_labels: Labels | None = field(default=None, repr=False)
    outside_labels: Labels | None = field(default=None, repr=False)
    public: Array | None = field(default=None, repr=False)
    public_labels: Labels | None = field(default=None, repr=False)

    @property
    def rows(self) -> Array:
        """All candidates, those inside first."""
        return np.vstack([self.inside, self.outside])

    @property
    def labels(self) -> Labels | None:
        """Labels of all, ``None`` where any lacks one."""
        if self.inside_labels is None or self.outside_labels is None:
            return None
        return np.concatenate([self.inside_labels, self.outside_labels])


@dataclass(frozen=True, eq=False)
class Case:
    """What one party saw that says something about the records of another."""

    view: View
    """What the party saw."""
    target: str
    """Party whose records are attacked."""
    hide_t: bool = False
    """Whether the attacks ignore the interpolation parameter in the messages."""
    seed: int = 0
    """Seed of everything random."""
    candidates: Candidates | None = None
    """Records that were in the data and records that were not, where both are available."""

    @cached_property
    def embedding(self) -> str:
        """Label coordinates of the run's records."""
        kinds = {item.question.embedding for item in self.view.exchanges}
        return next((kind for kind in kinds if kind != "none"), "none")

    @cached_property
    def records(self) -> int | None:
        """Number of the target's records, where it was sent."""
        return self.view.records(self.target)

    @cached_property
    def moments(self) -> tuple[Array, Array] | None:
        """The target's mean and covariance, where they were sent."""
        return self.view.moments(self.target)

    @cached_property
    def messages(self) -> list[Interpolant]:
        """Interpolants as they were sent."""
        interpolants: list[Interpolant] = []
        if self.view.is_central:
            mean = None if self.moments is None else self.moments[0]
            for item in self.view.about(self.target):
                interpolants += sent_interpolants(item, mean)
        elif self.target == COORDINATOR:
            # Public options say whether the coordinator's own parameter is the one it asks for.
            shared = self.view.parameters.get("hidden") is False
            interpolants = shown_interpolants(self.view.exchanges, shared=shared)
        return self._without_t(interpolants)

    @cached_property
    def located(self) -> list[Interpolant]:
        """Interpolants computed from costs."""
        exchanges = self.view.about(self.target) if self.view.is_central else ()
        return self._without_t(list(located_interpolants(exchanges)))

    def _without_t(self, interpolants: list[Interpolant]) -> list[Interpolant]:
        return [replace(one, t=None) for one in interpolants] if self.hide_t else interpolants

    @cached_property
    def interpolants(self) -> list[Interpolant]:
        """All interpolants with one atom for each record or pair, the easiest to invert first."""
        invertible = [one for one in (*self.messages, *self.located) if one.form != "cells"]
        return sorted(invertible, key=difficulty)

    @cached_property
    def cells(self) -> list[Interpolant]:
        """All interpolants with one atom for each atom of the reference, in the order of rounds.

        The parameters of all are known, or of none.
        """
        cells = [one for one in self.messages if one.form == "cells"]
        if all(one.t is not None for one in cells):
            return cells
        solved = solved_by_mean(cells)
        # A round whose parameter stays unknown says nothing.
        return [one for one in solved if one.t is not None] or cells

    def usable_cells(self) -> list[Interpolant]:
        """Return ``cells``, or raise where there are none or their parameters are unknown."""
        if not self.cells:
            raise InapplicableError("no means over cells were seen")
        if self.cells[0].t is None:
            raise InapplicableError(NO_PARAMETER)
        return self.cells

    def answered(self, *kinds: type[Q]) -> list[tuple[Q, Answer]]:
        """Return the target's own answers to questions of these kinds; none for a coordinator."""
        return self.view.answered(self.target, *kinds) if self.view.is_central else []

    def compared(self, also: str = "") -> Candidates:
        """Return the candidates of a membership attack, or raise where they are missing."""
        if self.candidates is None:
            raise InapplicableError(
                f"{NEEDS}truth (records that were in the data) and outsiders (records that were "
                f"not){also}"
            )
        return self.candidates


def difficulty(one: Interpolant) -> tuple[bool, float, int]:
    """Return the key that sorts interpolants: errors of inversion grow by 1 / (1 - t)."""
    return one.t is None, one.t or 0.0, len(one.atoms)
