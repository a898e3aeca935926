"""The rounds of FedBary, for the barycenter alone and for contributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data.measure import Embedding
from ..distances.questions.distances import Describe
from ..distances.questions.labelled import (
    ClassSizes,
    Codes,
    InterpolateByClass,
    decode_classes,
    encode_classes,
)
from ..distances.result import Distance
from ..distances.sides import Reference, present, read_descriptions
from ..errors import HolderError, InputError
from ..federation.answer import Answer, Array, Failure
from ..federation.protocol import Answers, Steps, failure_error, required
from ..federation.question import Question
from .answers import Found, class_masses, missing_text, told_distance
from .centre import Centre, Coupling
from .result import Barycenter
from .target import Target

# References nearer the barycenter than this are put there.
_LEAST_PLACE = 0.1


@dataclass(frozen=True)
class Plan:
    """Checked options of one protocol."""

    holders: tuple[str, ...]
    shares: Mapping[str, float]
    rounds: int
    tol: float
    t: float
    place: float
    labels: bool
    label_weight: float
    quorum: int
    reference: Reference
    embedding: Embedding

    def start(self) -> Steps[Barycenter]:
        found = yield from self.find()
        missing = dict(found.missing)
        question = Target.of_barycenter(found).distance_question(self.label_weight, self.embedding)
        answers = yield dict.fromkeys(found.names, question)
        untold = [name for name in found.names if _keeps_distance(answers.get(name))]
        asked = [name for name in found.names if name not in untold]
        told = present(answers, asked, missing, self.quorum - len(untold))
        distances = {
            name: told_distance(required(answers, name), name, "barycenter", self.reference.seed)
            for name in told
        }
        return self.result(found, distances, missing, untold)

    def find(self) -> Steps[Found]:
        """Find the barycenter, without asking for distances to it."""
        missing: dict[str, Failure] = {}
        answers = yield {name: Describe(embedding=self.embedding) for name in self.holders}
        present = self.present(answers, self.holders, missing)
        described = read_descriptions(answers, present)
        classes: tuple[str, ...] = ()
        masses = np.ones(1)
        if self.labels:
            answers = yield dict.fromkeys(present, ClassSizes())
            present = self.present(answers, present, missing)
            classes, masses = self._classes({name: required(answers, name) for name in present})
        atoms, weights = self.reference.build(described)
        codes = _allot(masses, len(atoms))
        inside = np.bincount(codes, weights, minlength=len(masses))
        weights = weights * (masses / inside)[codes]
        total = sum(self.shares[name] for name in present)
        centre = Centre(
            atoms, weights, codes, {name: self.shares[name] / total for name in present}
        )
        settled = yield from self._walk(centre, classes, missing)
        return Found(centre, classes, masses, described, settled, missing)

    def _walk(
        self, centre: Centre, classes: tuple[str, ...], missing: dict[str, Failure]
    ) -> Steps[bool]:
        place = self.place
        text = encode_classes(list(classes)) if classes else ""
        for k in range(self.rounds):
            references = {name: centre.reference(name, place) for name in centre.shares}
            answers = yield {
                name: self._question(atoms, centre, text) for name, atoms in references.items()
            }
            self.present(answers, tuple(references), missing)
            for name, atoms in references.items():
                if name in missing:
                    centre.drop(name)
                    continue
                answer = required(answers, name)
                centre.take(name, Coupling.of(answer, atoms, centre.codes, self.t))
            # Not held while holders work on the next question.
            del answers
            centre.move()
            if not centre.note(k):
                continue
            before, now = (entry["objective"] for entry in centre.history[-2:])
            if before - now <= self.tol * before:
                if place == 0.0:
                    return True
                place = 0.5 * place if place > _LEAST_PLACE else 0.0
        return False

    def _question(self, atoms: Array, centre: Centre, classes: str) -> Question:
        return InterpolateByClass(
            target=atoms,
            target_weights=centre.weights,
            target_codes=centre.codes,
            classes=classes,
            t=self.t,
            embedding=self.embedding,
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
        found: Found,
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
            seed=self.reference.seed,
            history=tuple(centre.history),
            missing={name: failure.code for name, failure in found.missing.items()},
        )

    def _status(self, found: Found) -> str:
        if found.settled:
            text = (
                f"converged: a round lowered the objective by less than {self.tol:g}; other first "
                "atoms (seed) or more support may still find a lower one"
            )
        else:
            text = f"stopped: {self.rounds} rounds done, raise rounds to lower the objective"
        if not all(coupling.optimal for coupling in found.centre.couplings.values()):
            text += "; a plan was not proven optimal, rescale the features"
        return text + missing_text(found.missing)


_UNTOLD = ("policy-question", "policy-numbers")


def _keeps_distance(answer: Answer | Failure | None) -> bool:
    """Whether a holder took part and only keeps its distance to the result to itself."""
    return isinstance(answer, Failure) and answer.code in _UNTOLD


def _untold_text(untold: Sequence[str]) -> str:
    return f"; {', '.join(untold)} told no distance to it" if untold else ""


def _allot(masses: Array, size: int) -> Codes:
    """Class of every atom: in proportion to the masses, one atom each at least."""
    if size < len(masses):
        raise InputError(
            f"support is {size} for {len(masses)} classes; give every class an atom at least.",
            code="option-support",
        )
    counts = np.ones(len(masses), dtype=np.int64)
    for _ in range(size - len(masses)):
        counts[np.argmax(masses / counts)] += 1
    return np.repeat(np.arange(len(masses)), counts).astype(np.int64)
