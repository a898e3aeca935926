"""What every holder is worth for a target: validation data, or the holders' own barycenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, Self, get_args

from silot_transport._check import flag

from ...data.measure import Covariance, Embedding
from ...errors import HolderError, InputError, SilotError, WireError
from ...federation.answer import Answer, Array, Failure
from ...federation.disclosure import Disclosure
from ...federation.parallel import parallel
from ...federation.protocol import COORDINATOR, Protocol, Steps, required
from ...federation.question import Answerer, Question
from ...options import anything, count, none_or, number, option, seed, truth, word
from ..cost_parts import Parts
from ..direct import Cloud, exact_distance, read_cloud
from ..methods import Joint, Pairwise, compared_by
from ..questions import ClassSizes, Describe, Records
from ..result import Distance, DistanceMatrix
from ..sides import agreed_dimension, missing_text, read_descriptions
from .fedbary import FedBary, Rounds
from .mixtures import add_shapley_values
from .result import (
    Barycenter,
    Contribution,
    Contributions,
)
from .shares import (
    Sampled,
    worth,
)
from .target import LabelMetric, Target, class_masses, told_distance, told_parts

Map = Literal["direct"]


class Valuation(Joint[Contributions]):
    r"""Distance of every holder to one target, and the shares that follow.

    With ``own``, an ``Own(measure)``, the target is the coordinator's validation measure, else the
    barycenter of the holders (``FedBary``).

    Returns
    -------
    Protocol[Contributions]

    Raises
    ------
    InputError, MismatchError
        Options out of range or that do not go together.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, sec. 4.2. Class
    tolerance is ours: the class proportions of two samples of one law differ by chance, and the
    distance charges this with the distance between classes, which hides label noise below about
    20 %.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure, Own
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> fed = LocalFederation({"good": x[:30], "bad": x[:30] + 3.0})
    >>> found = fed.run(Valuation().among(["good", "bad"], Own(Measure(x[30:]))))
    >>> found.ranking[0].holder
    'good'
    """

    name = "contributions"

    method: str = option(
        'How a holder is compared with validation data. ``"target"`` shows the validation '
        'records to the holders, and each tells one exact number. ``"fedbary"`` (FedWaD with the '
        'coordinator), ``"trianglewad"``, ``"direct"`` and other distance methods are asked of '
        "each holder and ``own``; those three disclose every record of the holder. Ignored without "
        "``own``.",
        anything("name of a method"),
        default="target",
    )
    labels: LabelMetric = option(
        '``"classes"``: the squared distance of two records gains ``label_weight`` times the '
        'squared Wasserstein distance of their classes\' records in the target. ``"vectors"``: '
        'OTDD vectors. ``"none"``: features alone.',
        word(*get_args(LabelMetric)),
        default="none",
        flag=False,
    )
    covariance: Covariance = option(
        "Covariance block of the OTDD vectors.",
        word(*get_args(Covariance)),
        default="diagonal",
        flag=False,
    )
    label_weight: float = option(
        "Weight of the label distance.", number(least=0), default=1.0, flag=False
    )
    class_tolerance: float = option(
        "Standard errors by which a holder's class proportions may differ from the target's "
        "without being charged: the target is reweighted to the holder's proportions within them. "
        '0 compares with the target as it is. Needs labels, validation data and ``"target"``.',
        number(least=0),
        default=3.0,
        brief="Standard errors of class proportions that are not charged.",
    )
    support: int = option(
        "Atoms of the barycenter, or of the method.",
        count(),
        default=100,
        brief="Atoms of the reference.",
    )
    rounds: int = option(
        "Most rounds of the barycenter, or of the method.",
        count(),
        default=20,
        brief="Most rounds.",
    )
    tol: float = option(
        "Of the barycenter, or of the method.", number(least=0), default=1e-4, flag=False
    )
    seed: int = option("Seed of references.", seed(), default=0, brief="Seed of everything random.")
    quorum: int | None = option(
        "Fewest holders that must answer; ``None`` means all.",
        none_or(count()),
        default=None,
        brief="Fewest holders that must answer. Default: all.",
    )
    weights: Mapping[str, float] | None = option(
        "Of holders in the barycenter.",
        anything("numbers by holder, or None"),
        default=None,
    )
    why: bool = option(
        "Ask every holder once more, for what its squared distance is made of, by column and by "
        "class: one number a column and two a class about data the asker chose. Holders that "
        'refuse, as every policy below level record does, only leave it out. For ``"target"`` and '
        '``"direct"``, and for the barycenter.',
        truth(),
        default=False,
        brief="What distances are made of, by column and class: it discloses that.",
    )
    map: Map | None = option(
        '``"direct"``: ask every holder for its records too, and compute the exact distances '
        "between holders, and to the target, that a map needs. It discloses every record. Labels "
        "are then compared as vectors. A holder that refuses leaves the map out, and the status "
        "says so.",
        anything("'direct', or None"),
        default=None,
    )
    shapley: bool = option(
        "Shapley values too, where a coalition is worth the part of the target that the best "
        "mixture of its members explains (``silot.distances.worth.mixtures``). Like a map it asks "
        "for every record and compares labels as vectors.",
        truth(),
        default=False,
        brief="Shapley shares too: they disclose records, but with -m sketch.",
    )
    intervals: bool = option(
        "Ask holders for the error of their distance too, four more exact numbers each: without "
        "the bias of few records, the margin of its interval, its tails, and chance. A holder that "
        'refuses tells the distance alone. Needs ``"target"`` or the barycenter.',
        truth(),
        default=True,
        brief="The error of every distance too: four more exact numbers a holder.",
    )

    def fit(self) -> None:
        _ = self.between, self.together, self.barycenter

    @cached_property
    def between(self) -> Pairwise | None:
        """The distance to validation data, with its options; none where holders tell it."""
        if self.method == "target":
            return None
        kind = compared_by(self.method)
        shared = ("support", "rounds", "tol", "embedding", "seed", "why")
        return kind(**self.values(*(set(shared) & set(kind.options))))

    @cached_property
    def together(self) -> Together:
        """What is asked for of all records."""
        embedding: Embedding = "none" if self.labels == "none" else self.covariance
        return Together.checked(self.map, self.shapley, embedding)

    @cached_property
    def barycenter(self) -> FedBary:
        """The target where there are no validation data."""
        return FedBary(
            labels=self.labels == "classes",
            embedding=self.embedding,
            **self.values("weights", "support", "rounds", "tol", "seed", "label_weight", "quorum"),
        )

    @property
    def embedding(self) -> Embedding:
        """Label coordinates that are added to the records."""
        return self.covariance if self.labels == "vectors" else "none"

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Contributions]:
        if own is not None:
            self._check_method()
        run = _Run(self, self.barycenter.between(holders), own)
        return Protocol(
            self.name,
            run.centre.holders,
            self._finest(own),
            run.start,
            self.values(
                "support", "rounds", "tol", "seed", "labels", "why", "map", "shapley", "intervals"
            )
            | {"method": run.method},
            expected_rounds=self.rounds + 4 + self.why + bool(self.together),
        )

    def _check_method(self) -> None:
        """Raise where the method with validation data has not what it is asked for."""
        if self.labels == "classes" and self.method != "target":
            raise InputError(
                f"method {self.method!r} compares labels as vectors. Give labels='vectors', or "
                "method='target'.",
                code="option-labels",
            )
        if self.why and self.between and "why" not in self.between.options:
            raise InputError(
                f"method {self.method!r} tells no parts of its distances. Give method 'target', "
                "'direct' or 'sketch', or leave why out.",
                code="option-why",
            )

    def _finest(self, own: Answerer | None) -> Disclosure:
        """The finest thing that may be told."""
        if own is None or self.together:
            return Disclosure.RECORD
        if self.between is not None:
            return self.between.disclosure
        sizes = self.labels == "vectors" and self.class_tolerance > 0
        by_class = self.labels == "classes" or sizes
        return Disclosure.AGGREGATE if self.why or by_class else Disclosure.SCALAR


contributions = Valuation.build


@dataclass(frozen=True)
class _Run:
    """One run: options, holders in their places, and validation data."""

    options: Valuation
    centre: Rounds
    own: Answerer | None

    @property
    def method(self) -> str:
        """How holders are compared with the target."""
        return "fedbary" if self.own is None else self.options.method

    def start(self) -> Steps[Contributions]:
        notes, found = Notes(), None
        if self.own is None:
            found = yield from self.centre.find()
            notes.missing.update(found.missing)
            target = found.target
            records = {name: found.described.records[name] for name in found.names}
        else:
            target = Target.of_validation(self.own, self.options.labels, self.options.embedding)
            records = yield from self._describe(target, notes)
        between = self.options.between if self.own is not None else None
        if between is not None:
            distances = yield from self._in_step(between, tuple(records), notes)
        else:
            distances = yield from self._to_target(target, records, notes)
        barycenter = found and self.centre.result(found, distances, notes.missing)
        result = self._result(target, distances, records, barycenter, notes)
        result = with_parts(result, notes.parts)
        return (yield from self.options.together.added(result, target))

    @property
    def _aim(self) -> str:
        return "barycenter" if self.own is None else "validation"

    def _describe(self, target: Target, notes: Notes) -> Steps[dict[str, int]]:
        holders = self.centre.holders
        answers = yield dict.fromkeys(holders, Describe(embedding=self.options.embedding))
        present = self.centre.present(answers, holders, notes.missing)
        described = read_descriptions(answers, present)
        agreed_dimension({COORDINATOR: target.atoms.shape[1], present[0]: described.dimension})
        return {name: described.records[name] for name in present}

    def _to_target(
        self, target: Target, records: Mapping[str, int], notes: Notes
    ) -> Steps[dict[str, Distance]]:
        """Distances to the target, and what holders told beside them."""
        weights = yield from self._weights(target, records, notes)
        intervals = self.options.intervals
        told = dict((yield self._questions(target, weights, with_error=intervals)))
        # Whoever refuses to tell an error may tell the distance alone.
        refused = {name: code for name, answer in told.items() if (code := refusal_of(answer))}
        if intervals and refused:
            left = {name: own for name, own in weights.items() if name in refused}
            told.update((yield self._questions(target, left, with_error=False)))
        present = self.centre.present(told, tuple(weights), notes.missing)
        for name in present:
            code = refused.get(name, "few-records") if intervals else ""
            notes.learn_error(name, required(told, name), code)
        distances = {
            name: told_distance(required(told, name), name, self._aim, self.options.seed)
            for name in present
        }
        if self.options.why:
            targets = {name: replace(target, weights=weights[name]) for name in present}
            about = self.options.label_weight, self.options.embedding
            notes.parts.update((yield from told_parts(targets, distances, *about)))
        return distances

    def _questions(
        self, target: Target, weights: Mapping[str, Array], *, with_error: bool
    ) -> dict[str, Question]:
        # One question for all who are compared with the same weights: it may be large.
        made: dict[int, Question] = {}
        for own in weights.values():
            if id(own) not in made:
                made[id(own)] = replace(target, weights=own).distance_question(
                    self.options.label_weight,
                    self.options.embedding,
                    with_error=with_error,
                    sample=self.own is not None,
                    matched=self.options.class_tolerance > 0,
                )
        return {name: made[id(own)] for name, own in weights.items()}

    def _weights(
        self, target: Target, records: Mapping[str, int], notes: Notes
    ) -> Steps[dict[str, Array]]:
        """Weights of the target's atoms for each holder, by the classes that it has."""
        tolerance = self.options.class_tolerance
        if not target.classes or tolerance <= 0:
            return dict.fromkeys(records, target.weights)
        answers = yield dict.fromkeys(records, ClassSizes(classes=target.text))
        weights: dict[str, Array] = {}
        for name in self.centre.present(answers, tuple(records), notes.missing):
            masses = class_masses(required(answers, name), len(target.classes))
            notes.shared[name] = float(masses.sum())
            weights[name] = target.reweighted(masses, records[name], tolerance)
        return weights

    def _in_step(
        self, method: Pairwise, names: tuple[str, ...], notes: Notes
    ) -> Steps[dict[str, Distance]]:
        runs = {name: method.between(name, own=self.own).start() for name in names}
        found = yield from parallel(runs)
        distances: dict[str, Distance] = {}
        failed: HolderError | WireError | None = None
        for name, result in found.items():
            if isinstance(result, HolderError | WireError):
                notes.missing[name] = Failure(result.code)
                failed = result
            else:
                distances[name] = replace(result, holders=(name, "validation"))
        if failed is not None and len(distances) < self.centre.quorum:
            raise failed
        return distances

    def _result(
        self,
        target: Target,
        distances: Mapping[str, Distance],
        records: Mapping[str, int],
        barycenter: Barycenter | None,
        notes: Notes,
    ) -> Contributions:
        spread = target.spread(self.options.label_weight)
        items = worth(distances, notes.sampled, spread, records)
        return Contributions(
            holders=items,
            target=self._aim,
            method=self.method,
            labels=self.options.labels,
            spread=spread,
            status=self._status(distances, barycenter)
            + notes.in_words(items)
            + missing_text(notes.missing),
            converged=all(item.converged for item in distances.values())
            and (barycenter is None or barycenter.converged),
            seed=self.options.seed,
            barycenter=barycenter,
            missing={name: failure.code for name, failure in notes.missing.items()},
        )

    def _status(self, distances: Mapping[str, Distance], barycenter: Barycenter | None) -> str:
        slow = [item for item in distances.values() if not item.converged]
        if barycenter is not None and not barycenter.converged:
            text = f"barycenter {barycenter.status}"
        elif slow:
            text = (
                f"{len(slow)} of {len(distances)} distances did not converge; "
                f"{slow[0].holders[0]}: {slow[0].status}"
            )
        else:
            text = f"converged: {len(distances)} distances"
        if self.own is not None and self.method == "target":
            text += "; every holder saw the validation records"
        return text


def with_parts(result: Contributions, told: Mapping[str, Parts | Failure]) -> Contributions:
    """The result with the parts of its distances, and words on those that were not told."""
    if not told:
        return result
    items = tuple(
        replace(item, distance=replace(item.distance, parts=parts))
        if isinstance(parts := told.get(item.holder), Parts)
        else item
        for item in result.holders
    )
    failures = {name: each for name, each in told.items() if isinstance(each, Failure)}
    refused = [f"{name} ({failures[name].code})" for name in sorted(failures)]
    words = f"; what distances are made of was not told by {', '.join(refused)}" if refused else ""
    return replace(result, holders=items, status=result.status + words)


_NAMED = 5
# Below, labels may be written in another way: a status says so.
_MOSTLY_SHARED = 0.9


def refusal_of(answer: Answer | Failure) -> str:
    """Why a holder keeps the error of its distance to itself, or does not know the question."""
    if not isinstance(answer, Failure):
        return ""
    return answer.code if answer.kind == "refused" or answer.code == "question-unknown" else ""


@dataclass
class Notes:
    """Who failed, and what holders told beside their distances.

    ``shared`` is the mass of each holder that has classes of the target; ``untold`` the code of
    why a holder told no error; ``parts`` what its distance is made of, or why it did not tell.
    """

    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])
    shared: dict[str, float] = field(default_factory=dict[str, float])
    sampled: dict[str, Sampled] = field(default_factory=dict[str, Sampled])
    untold: dict[str, str] = field(default_factory=dict[str, str])
    parts: dict[str, Parts | Failure] = field(default_factory=dict[str, "Parts | Failure"])

    def learn_error(self, name: str, answer: Answer, untold: str) -> None:
        """Note the error that a holder told of its distance, or the code of why it told none."""
        error = Sampled.told(answer)
        if error is not None:
            self.sampled[name] = error
        elif untold:
            self.untold[name] = untold

    def in_words(self, items: tuple[Contribution, ...]) -> str:
        """What a status says of holders that chance explains, of other classes, of no error."""
        by_chance = [item.holder for item in items if item.distance.by_chance]
        present = {item.holder for item in items}
        odd = [
            f"{name} ({1.0 - mass:.0%})"
            for name, mass in self.shared.items()
            if mass < _MOSTLY_SHARED and name in present
        ]
        text = f"; no more than chance: {_listed(by_chance)}" if by_chance else ""
        if odd:
            text += f"; of classes that the target lacks: {', '.join(odd)} of their records"
        untold = [f"{name} ({self.untold[name]})" for name in sorted(self.untold)]
        return text + (f"; no interval of {_listed(untold)}" if untold else "")


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


@dataclass(frozen=True)
class Together:
    """What is asked for of all records: exact distances of a map, Shapley values, or nothing."""

    map: bool
    shapley: bool
    embedding: Embedding

    @classmethod
    def checked(cls, map: object, shapley: object, embedding: Embedding) -> Self:
        """As asked for in the options of a protocol; ``embedding`` compares labels."""
        if map not in (None, "direct"):
            raise InputError(
                f"map is {map!r}; give None or 'direct'. silot.value_holders makes maps from "
                "sketches and secure distances too.",
                code="option-map",
            )
        return cls(map == "direct", flag(shapley, "shapley", "option-shapley"), embedding)

    def __bool__(self) -> bool:
        return self.map or self.shapley

    def added(self, found: Contributions, target: Target) -> Steps[Contributions]:
        """Ask every holder for its records, and add what follows from them.

        Holders that fail leave all of it out, and the status says so.
        """
        if not self:
            return found
        if len(found.holders) < 2:
            return self._left_out(found, "it takes two")
        answers = yield dict.fromkeys(found.names, Records(embedding=self.embedding))
        for name in sorted(found.names):
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                return self._left_out(found, f"{name} ({answer.code})")
        try:
            clouds = {name: read_cloud(required(answers, name)) for name in found.names}
            own = target.cloud(self.embedding)
            sides = {**clouds, COORDINATOR: own}
            agreed_dimension({name: points.shape[1] for name, (points, _) in sides.items()})
            between = _exact_distances(sides, found.seed) if self.map else None
            found = replace(found, between=between).with_note(
                f"for {self._words} all sent their records"
            )
            if not self.shapley:
                return found
            return add_shapley_values(found, clouds, own)
        except SilotError as error:
            return self._left_out(found, f"{error.message.rstrip('.')} ({error.code})")

    @property
    def _words(self) -> str:
        return " and ".join(["the map of holders"] * self.map + ["Shapley values"] * self.shapley)

    def _left_out(self, found: Contributions, why: str) -> Contributions:
        if self.map:
            found = found.with_note(f"no map of holders: {why}")
        return found.with_note(f"no Shapley values: {why}") if self.shapley else found


def _exact_distances(clouds: Mapping[str, Cloud], seed: int) -> DistanceMatrix:
    pairs = {
        (a, b): replace(
            exact_distance(clouds[a], clouds[b], (a, b), 2, seed),
            disclosure=str(Disclosure.RECORD),
        )
        for a, b in combinations(clouds, 2)
    }
    return DistanceMatrix(names=tuple(clouds), pairs=pairs, method="direct", p=2)
