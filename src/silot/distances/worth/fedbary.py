"""FedBary: a barycenter of holders, by walking a reference between each holder and it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import get_args

import numpy as np
import numpy.typing as npt

from ...data.measure import Embedding
from ...errors import HolderError, InputError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Answers, Protocol, Steps, failure_error, required
from ...federation.question import Answerer, Question
from ...options import anything, count, none_or, number, option, part, seed, share, truth, word
from ..joint import Joint, quorum_of
from ..questions.distances import Describe
from ..questions.labelled import (
    ClassSizes,
    InterpolateByClass,
    decode_classes,
    encode_classes,
)
from ..result import Distance
from ..sides import Reference, present, read_descriptions, reference_options
from .answers import FoundBarycenter, class_masses, missing_text, told_distance
from .centre import Centre, Coupling
from .result import Barycenter
from .shares import allot, shares_of
from .target import Target
from .turns import Turns

# References nearer the barycenter than this are put there.
_LEAST_PLACE = 0.1


class FedBary(Joint[Barycenter]):
    r"""Federated free-support barycenter (FedBary, Algorithm 1).

    .. math:: Q = \arg\min_Q \sum_i \lambda_i W_2^2(P_i, Q)

    over measures on ``support`` atoms. Every round sends each holder a reference
    :math:`\gamma_i`, the barycenter itself or a point between it and the holder's records, and
    gets the interpolating measure :math:`\eta_i` between the records and :math:`\gamma_i` back.
    Composed with the way from :math:`\gamma_i` to ``Q`` it is a coupling of the records with
    ``Q``; each atom then moves to the weighted mean of what is coupled with it. A new coupling
    replaces the old one only where it is cheaper, so the objective never rises.

    Returns
    -------
    Protocol[Barycenter]
        A stationary point: like every free-support barycenter it depends on the first atoms.
        Discloses every record, see ``level``.

    Raises
    ------
    InputError, MismatchError
        Options out of range, weights of other holders.

    Notes
    -----
    Li, Fu, Zhang and Pang, *Data Valuation and Detections in Federated Learning*, 2024. The
    step of the atoms is the fixed point of Alvarez-Esteban et al., 2016, and Cuturi and Doucet,
    2014. The paper leaves the update of ``Q`` open; ours is the exact minimiser for the
    couplings at hand.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> fed = LocalFederation({"a": x, "b": x + [4.0, 0.0]})
    >>> result = fed.run(FedBary(support=40).among(["a", "b"]))
    >>> round(result.objective, 3)
    4.0
    """

    name = "fedbary"

    weights: Mapping[str, float] | None = option(
        "The :math:`\\lambda_i` by holder, any positive numbers; equal by default.",
        anything("numbers by holder, or None"),
        default=None,
    )
    support: int = option(
        "Atoms S of the barycenter.", count(), default=100, brief="Atoms of the reference."
    )
    rounds: int = option("Most rounds.", count(), default=20)
    active: int | None = option(
        "Holders asked a round: so many, and all of them in turn, in an order that is drawn anew "
        "every turn. What a holder told before counts until it is asked again. ``None`` asks all.",
        none_or(count()),
        default=None,
        brief="Holders asked a round, all in turn. Default: all.",
    )
    tol: float = option(
        "Stop when a round, or a turn of all holders, lowers the objective by less than this "
        "share, with references at the barycenter itself.",
        number(least=0),
        default=1e-4,
        flag=False,
    )
    seed: int = option(
        "Seed of the first atoms.", seed(), default=0, brief="Seed of everything random."
    )
    t: float = option(
        "Interpolation parameter of the holders' answers. It changes nothing but the messages.",
        share(),
        default=0.5,
        flag=False,
    )
    place: float = option(
        "Where the holders' references lie at first: 0 at the barycenter itself, towards 1 near "
        "each holder's records. It is halved whenever a round gains too little, to 0 in the end, "
        "where couplings are optimal. 0 needs by far the fewest rounds.",
        part("number"),
        default=0.0,
        flag=False,
    )
    labels: bool = option(
        "Find a barycenter class by class: its atoms have labels. Classes are those of all "
        "holders together; each gets atoms in proportion to its mass, one at least.",
        truth(),
        default=False,
        flag=False,
    )
    label_weight: float = option(
        "Weight of the label distance in the holders' distances to the result.",
        number(least=0),
        default=1.0,
        flag=False,
    )
    quorum: int | None = option(
        "Fewest holders that must take part; ``None`` means all. Others are dropped when they "
        "fail, and named in the result.",
        none_or(count()),
        default=None,
        brief="Fewest holders that must answer. Default: all.",
    )
    reference: npt.ArrayLike | None = option(
        "First atoms (S, d), instead of a draw from a normal law.",
        anything("array (S, d), or None"),
        default=None,
    )
    embedding: Embedding = option(
        "Label coordinates added to the records.",
        word(*get_args(Embedding)),
        default="none",
        flag=False,
    )

    def fit(self) -> None:
        if self.labels and self.embedding != "none":
            raise InputError(
                "labels=True compares labels class by class, an embedding as coordinates. Give "
                "one.",
                code="option-labels",
            )
        _ = self.first

    @cached_property
    def first(self) -> Reference:
        """First atoms, as they are known before anybody was asked."""
        support = self.support if self.reference is None else None
        return reference_options(self.reference, support, 0.0, 1.0, self.seed)

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Barycenter]:
        rounds = self.between(holders)
        return Protocol(
            self.name,
            rounds.holders,
            self.disclosure,
            rounds.start,
            {
                "support": self.first.support,
                **self.values(
                    "rounds",
                    "active",
                    "tol",
                    "seed",
                    "t",
                    "place",
                    "labels",
                    "label_weight",
                    "embedding",
                ),
            },
            expected_rounds=self.rounds + 2 + self.labels,
        )

    def between(self, holders: Sequence[str]) -> Rounds:
        """The rounds between these holders, which other protocols take part by part."""
        names = tuple(holders)
        needed = quorum_of(self.quorum, names)
        turn = 1 if self.active is None else -(-len(names) // self.active)
        if turn > self.rounds:
            raise InputError(
                f"rounds is {self.rounds}, and it takes {turn} to ask {len(names)} holders "
                f"{self.active} at a time. Raise rounds or active.",
                code="option-rounds",
            )
        return Rounds(self, names, shares_of(self.weights, names), needed)


fedbary = FedBary.build


@dataclass(frozen=True)
class Rounds:
    """The rounds of one barycenter, between some holders with their weights."""

    options: FedBary
    holders: tuple[str, ...]
    shares: Mapping[str, float]
    quorum: int

    def start(self) -> Steps[Barycenter]:
        found = yield from self.find()
        missing = dict(found.missing)
        question = Target.of_barycenter(found).distance_question(
            self.options.label_weight, self.options.embedding
        )
        answers = yield dict.fromkeys(found.names, question)
        untold = [name for name in found.names if _keeps_distance(answers.get(name))]
        asked = [name for name in found.names if name not in untold]
        told = present(answers, asked, missing, self.quorum - len(untold))
        distances = {
            name: told_distance(required(answers, name), name, "barycenter", self.options.seed)
            for name in told
        }
        return self.result(found, distances, missing, untold)

    def find(self) -> Steps[FoundBarycenter]:
        """Find the barycenter, without asking for distances to it."""
        missing: dict[str, Failure] = {}
        answers = yield {name: Describe(embedding=self.options.embedding) for name in self.holders}
        present = self.present(answers, self.holders, missing)
        described = read_descriptions(answers, present)
        classes: tuple[str, ...] = ()
        masses = np.ones(1)
        if self.options.labels:
            answers = yield dict.fromkeys(present, ClassSizes())
            present = self.present(answers, present, missing)
            classes, masses = self._classes({name: required(answers, name) for name in present})
        atoms, weights = self.options.first.build(described)
        codes = allot(masses, len(atoms))
        inside = np.bincount(codes, weights, minlength=len(masses))
        weights = weights * (masses / inside)[codes]
        total = sum(self.shares[name] for name in present)
        centre = Centre(
            atoms, weights, codes, {name: self.shares[name] / total for name in present}
        )
        settled = yield from self._walk(centre, classes, missing)
        return FoundBarycenter(centre, classes, described, settled, missing)

    def _walk(
        self, centre: Centre, classes: tuple[str, ...], missing: dict[str, Failure]
    ) -> Steps[bool]:
        place = self.options.place
        text = encode_classes(list(classes)) if classes else ""
        turns = Turns(self.options.active, self.options.seed)
        last: Mapping[str, float] | None = None
        for k in range(self.options.rounds):
            asked = turns.following(tuple(centre.shares))
            references = {name: centre.reference(name, place) for name in asked}
            answers = yield {
                name: self._question(atoms, centre, text) for name, atoms in references.items()
            }
            others = len(centre.shares) - len(asked)
            present(answers, asked, missing, self.quorum - others)
            for name, atoms in references.items():
                if name in missing:
                    centre.drop(name)
                    continue
                answer = required(answers, name)
                centre.take(name, Coupling.of(answer, atoms, centre.codes, self.options.t))
            # Not held while holders work on the next question.
            del answers
            if not centre.couplings:
                continue
            centre.move()
            centre.note(k)
            if not turns.over:
                continue
            before, last = last, centre.history[-1]
            if self._gains_little(before, last):
                if place == 0.0:
                    return True
                place = 0.5 * place if place > _LEAST_PLACE else 0.0
        return False

    def _gains_little(self, before: Mapping[str, float] | None, now: Mapping[str, float]) -> bool:
        """Whether all holders were asked, and hardly lowered the objective."""
        if before is None or before["holders"] != now["holders"]:
            return False
        return before["objective"] - now["objective"] <= self.options.tol * before["objective"]

    def _question(self, atoms: Array, centre: Centre, classes: str) -> Question:
        return InterpolateByClass(
            target=atoms,
            target_weights=centre.weights,
            target_codes=centre.codes,
            classes=classes,
            t=self.options.t,
            embedding=self.options.embedding,
        )

    def _classes(self, answers: Mapping[str, Answer]) -> tuple[tuple[str, ...], Array]:
        """Classes of all holders, and their masses in the barycenter."""
        told: dict[str, dict[str, float]] = {}
        for name, answer in answers.items():
            names = decode_classes(str(answer.scalars.get("classes", "")))
            # A holder whose classes are all too small tells of none.
            masses = class_masses(answer, len(names)).tolist() if names else []
            if len(set(names)) < len(names) or (names and sum(masses) <= 0):
                raise failure_error(name, Failure("answer-malformed"))
            told[name] = dict(zip(names, masses, strict=True))
        classes = tuple(sorted(set().union(*told.values())))
        if not classes:
            raise HolderError(
                "no holder has a class of records enough to be told of: their policies want more "
                "records a class.",
                code="policy-records",
            )
        total = sum(self.shares[name] for name in told)
        masses = np.zeros(len(classes))
        for name, own in sorted(told.items()):
            share = self.shares[name] / total
            masses += share * np.array([own.get(kind, 0.0) for kind in classes])
        return classes, masses / masses.sum()

    def present(
        self, answers: Answers, names: Sequence[str], missing: dict[str, Failure]
    ) -> tuple[str, ...]:
        """The holders that answered; raise when they are fewer than the quorum."""
        return present(answers, names, missing, self.quorum)

    def result(
        self,
        found: FoundBarycenter,
        distances: Mapping[str, Distance],
        missing: Mapping[str, Failure],
        untold: Sequence[str] = (),
    ) -> Barycenter:
        """Barycenter with the distances to it that holders told."""
        centre = found.centre
        for name in sorted(set(found.names) - set(distances) - set(untold)):
            centre.drop(name)
        found = replace(found, missing=missing)
        objective = centre.objective
        if not found.classes and not untold:
            exact = [share * distances[name].upper ** 2 for name, share in centre.shares.items()]
            objective = min(objective, sum(exact))
        return Barycenter(
            points=centre.atoms,
            weights=centre.weights,
            labels=np.array(found.classes)[centre.codes] if found.classes else None,
            objective=objective,
            lower=min(centre.lower, objective),
            distances=dict(distances),
            shares=dict(centre.shares),
            status=self._status(found) + _untold_text(untold),
            converged=found.settled,
            seed=self.options.seed,
            history=tuple(centre.history),
            missing={name: failure.code for name, failure in found.missing.items()},
        )

    def _status(self, found: FoundBarycenter) -> str:
        turn = "round" if self.options.active is None else "turn of all holders"
        if found.settled:
            text = (
                f"converged: a {turn} lowered the objective by less than {self.options.tol:g}; "
                "other first atoms (seed) or more support may still find a lower one"
            )
        else:
            text = (
                f"stopped: {self.options.rounds} rounds done, raise rounds to lower the objective"
            )
        if not all(coupling.optimal for coupling in found.centre.couplings.values()):
            text += "; a plan was not proven optimal, rescale the features"
        return text + missing_text(found.missing)


_UNTOLD = ("policy-question", "policy-numbers")


def _keeps_distance(answer: Answer | Failure | None) -> bool:
    """Whether a holder took part and only keeps its distance to the result to itself."""
    return isinstance(answer, Failure) and answer.code in _UNTOLD


def _untold_text(untold: Sequence[str]) -> str:
    return f"; {', '.join(untold)} told no distance to it" if untold else ""
