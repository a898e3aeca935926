"""What every holder is worth for a target: validation data, or the holders' own barycenter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, get_args

from ...data.measure import Covariance, Embedding
from ...errors import HolderError, InputError, SilotError, WireError
from ...federation.answer import Answer, Array, Failure
from ...federation.disclosure import Disclosure
from ...federation.protocol import COORDINATOR, Protocol, Steps, parallel, required
from ...federation.question import Answerer, Question
from ...options import anything, number, option, word
from ..cost_parts import Parts
from ..direct import Cloud, compute_exact_distance, read_cloud
from ..methods import Joint, Pairwise, build_joint, find_comparison
from ..private import PrivateDistance, calibrate
from ..questions import ClassSizes, Describe, Records
from ..result import Distance, DistanceMatrix
from ..shared_options import (
    covariance_option,
    numbers_by_holder,
    quorum_option,
    rounds_option,
    seed_option,
    support_option,
    switch,
    tolerance_option,
)
from ..sides import agree_on_dimension, describe_missing, read_descriptions
from ..sketches.release_options import Private
from .fedbary import FedBary, Rounds
from .mixtures import add_shapley_values
from .result import Barycenter, Contribution, Contributions
from .shares import Sampled, build_contributions
from .target import LabelMetric, Target, read_class_masses, read_distance, request_parts

Map = Literal["direct"]


class Valuation(Private, Joint[Contributions]):
    r"""Distance of every holder to one target, and the shares that follow.

    With ``own``, an ``Own(measure)``, the target is the coordinator's validation measure, else the
    barycenter of the holders (``FedBary``).

    Returns
    -------
    Protocol[Contributions]

    Raises
    ------
    MismatchError
        Options that do not go together.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, sec. 4.2. Class
    tolerance is ours: the class proportions of two samples of one distribution differ, and the
    distance charges this with the distance between classes, which hides label noise below about
    20 %.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> from silot.federation import LocalFederation, Own
    >>> x = np.random.default_rng(0).normal(size=(60, 2))
    >>> fed = LocalFederation({"good": x[:30], "bad": x[:30] + 3.0})
    >>> found = fed.run(Valuation().among(["good", "bad"], Own(Measure(x[30:]))))
    >>> found.ranking[0].holder
    'good'
    """

    name = "contributions"

    method: str = option(
        'How a holder is compared with validation data. ``"target"`` shows the '
        "validation records to the holders, and each sends one exact number. "
        '``"fedbary"`` (FedWaD with the coordinator), ``"trianglewad"``, '
        '``"direct"`` and other distance methods are computed between each holder '
        "and ``own``; those three disclose every record of the holder. Ignored without ``own``.",
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
    covariance: Covariance = covariance_option("Covariance block of the OTDD vectors.")
    label_weight: float = option(
        "Weight of the label distance.", number(least=0), default=1.0, flag=False
    )
    class_tolerance: float = option(
        "Differences of class proportions that are ignored, in standard errors: "
        "within them, the target is reweighted to the holder's proportions. 0 "
        "compares with the target without reweighting. Needs labels, validation data "
        'and ``"target"``.',
        number(least=0),
        default=3.0,
        brief="Ignore differences of class proportions up to this number of standard errors.",
    )
    support: int = support_option("Atoms of the barycenter, or of the method.")
    rounds: int = rounds_option("Most rounds of the barycenter, or of the method.")
    tol: float = tolerance_option("Stopping tolerance of the barycenter, or of the method.")
    seed: int = seed_option("Seed of references.")
    quorum: int | None = quorum_option("Fewest holders that must answer; ``None`` means all.")
    weights: Mapping[str, float] | None = numbers_by_holder(
        "Weights of the holders in the barycenter."
    )
    why: bool = switch(
        "Ask every holder once more, for what its squared distance is made of, by column and by "
        "class: one number for each column and two for each class. Holders that "
        'refuse only leave it out. For ``"target"`` and ``"direct"``, and for the barycenter.',
        brief="What distances are made of, by column and class. Holders disclose these shares.",
    )
    map: Map | None = option(
        '``"direct"``: also request the records of every holder, and compute the '
        "exact distances of a map between holders, and to the target. It discloses "
        "every record. Labels are then compared as vectors. If a holder refuses, "
        "there is no map, and the status says so.",
        anything("'direct', or None"),
        default=None,
    )
    shapley: bool = switch(
        "Shapley values too, where a coalition is worth the part of the target that the best "
        "mixture of its members explains (``silot.distances.worth.mixtures``). Like a map it asks "
        "for every record and compares labels as vectors.",
        brief="Add Shapley values; they disclose records, except with -m sketch.",
    )
    intervals: bool = switch(
        "Also ask holders for the error of their distance, five more exact numbers each: the "
        "distance without the bias of few records, the margin of its interval, how certain this "
        'margin is, and a verdict. A holder may refuse this. Needs ``"target"`` or the barycenter.',
        default=True,
        brief="Also estimate errors of distances, from five more exact numbers of each holder.",
    )

    def fit(self) -> None:
        if self.map not in (None, "direct"):
            raise InputError(
                f"map is {self.map!r}; give None or 'direct'. silot.value_holders makes maps from "
                "sketches and secure distances too.",
                code="option-map",
            )
        _ = self.between, self.barycenter

    @cached_property
    def between(self) -> Pairwise | None:
        """The method of the distances to validation data; none where holders compute them."""
        if self.method == "target":
            return None
        kind = find_comparison(self.method)
        shared = ("support", "rounds", "tol", "embedding", "seed", "why", *Private.options)
        return kind(**self.values(*(set(shared) & set(kind.options))))

    @property
    def needs_records(self) -> bool:
        """Whether a map or Shapley values take the records of all holders."""
        return self.map is not None or self.shapley

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
            self._find_disclosure(own),
            run.start,
            self.values(
                "support", "rounds", "tol", "seed", "labels", "why", "map", "shapley", "intervals"
            )
            | {"method": run.method},
            expected_rounds=self.rounds + 4 + self.why + self.needs_records,
        )

    def _check_method(self) -> None:
        """Raise where the method with validation data lacks what other options need."""
        if self.labels == "classes" and self.method != "target":
            raise InputError(
                f"method {self.method!r} compares labels as vectors. Give labels='vectors', or "
                "method='target'.",
                code="option-labels",
            )
        if self.why and self.between and "why" not in self.between.options:
            raise InputError(
                f"method {self.method!r} cannot take distances apart. Give method 'target', "
                "'direct' or 'sketch', or leave why out.",
                code="option-why",
            )

    def _find_disclosure(self, own: Answerer | None) -> Disclosure:
        """Return the most detailed thing that a holder may disclose."""
        if own is None or self.needs_records:
            return Disclosure.RECORD
        if self.between is not None:
            return self.between.disclosure
        return Disclosure.STATISTICS


contributions = build_joint(Valuation)


@dataclass(frozen=True)
class _Run:
    """State of one run: options, the rounds of a barycenter, and validation data."""

    options: Valuation
    centre: Rounds
    own: Answerer | None

    @property
    def method(self) -> str:
        """How holders are compared with the target."""
        return "fedbary" if self.own is None else self.options.method

    def start(self) -> Steps[Contributions]:
        notes, barycenter = Notes(), None
        if self.own is None:
            barycenter = yield from self.centre.find()
            notes.missing.update(barycenter.missing)
            target = barycenter.target
            records = {name: barycenter.described.records[name] for name in barycenter.names}
        else:
            target = Target.of_validation(self.own, self.options.labels, self.options.embedding)
            records = {}
        between = self.options.between if self.own is not None else None
        if isinstance(between, PrivateDistance):
            # The number of records is private: a release tells it, and no description.
            distances = calibrate((yield from self._compare(between, self.centre.holders, notes)))
            for name, one in distances.items():
                low, high = one.interval or (0.0, math.inf)
                notes.sampled[name] = Sampled(one.value, low, high)
            records = {name: round(one.history[0]["records"]) for name, one in distances.items()}
        elif between is not None:
            records = yield from self._describe(target, notes)
            distances = yield from self._compare(between, tuple(records), notes)
        else:
            records = records or (yield from self._describe(target, notes))
            distances = yield from self._request_distances(target, records, notes)
        measured = barycenter and self.centre.build_result(barycenter, distances, notes.missing)
        result = self._build_result(target, distances, records, measured, notes)
        result = add_parts(result, notes.parts)
        return (yield from self._add_from_records(result, target))

    @property
    def _aim(self) -> str:
        return "barycenter" if self.own is None else "validation"

    def _describe(self, target: Target, notes: Notes) -> Steps[dict[str, int]]:
        holders = self.centre.holders
        answers = yield dict.fromkeys(holders, Describe(embedding=self.options.embedding))
        present = self.centre.keep_present(answers, holders, notes.missing)
        described = read_descriptions(answers, present)
        agree_on_dimension({COORDINATOR: target.atoms.shape[1], present[0]: described.dimension})
        return {name: described.records[name] for name in present}

    def _request_distances(
        self, target: Target, records: Mapping[str, int], notes: Notes
    ) -> Steps[dict[str, Distance]]:
        """Request distances to the target, and note what holders send beside them."""
        weights = yield from self._weigh_target(target, records, notes)
        intervals = self.options.intervals
        answers = dict((yield self._build_questions(target, weights, with_error=intervals)))
        # Whoever refuses to send an error may send the distance alone.
        refused = {name: code for name, answer in answers.items() if (code := find_refusal(answer))}
        if intervals and refused:
            fewer = {name: own for name, own in weights.items() if name in refused}
            answers.update((yield self._build_questions(target, fewer, with_error=False)))
        present = self.centre.keep_present(answers, tuple(weights), notes.missing)
        for name in present:
            reason = refused.get(name, "few-records") if intervals else ""
            notes.add_error(name, required(answers, name), reason)
        distances = {
            name: read_distance(required(answers, name), name, self._aim, self.options.seed)
            for name in present
        }
        if self.options.why:
            targets = {name: replace(target, weights=weights[name]) for name in present}
            about = self.options.label_weight, self.options.embedding
            notes.parts.update((yield from request_parts(targets, distances, *about)))
        return distances

    def _build_questions(
        self, target: Target, weights: Mapping[str, Array], *, with_error: bool
    ) -> dict[str, Question]:
        # One question for all who are compared with the same weights: it may be large.
        questions: dict[int, Question] = {}
        for own in weights.values():
            if id(own) not in questions:
                questions[id(own)] = replace(target, weights=own).build_question(
                    self.options.label_weight,
                    self.options.embedding,
                    with_error=with_error,
                    sample=self.own is not None,
                )
        return {name: questions[id(own)] for name, own in weights.items()}

    def _weigh_target(
        self, target: Target, records: Mapping[str, int], notes: Notes
    ) -> Steps[dict[str, Array]]:
        """Weigh the target's atoms for each holder, by the classes of its records."""
        tolerance = self.options.class_tolerance
        if not target.classes or tolerance <= 0:
            return dict.fromkeys(records, target.weights)
        answers = yield dict.fromkeys(records, ClassSizes(classes=target.text))
        weights: dict[str, Array] = {}
        for name in self.centre.keep_present(answers, tuple(records), notes.missing):
            masses = read_class_masses(required(answers, name), len(target.classes))
            notes.shared[name] = float(masses.sum())
            weights[name] = target.reweight(masses, records[name], tolerance)
        return weights

    def _compare(
        self, method: Pairwise, names: tuple[str, ...], notes: Notes
    ) -> Steps[dict[str, Distance]]:
        runs = {name: method.between(name, own=self.own).start() for name in names}
        results = yield from parallel(runs)
        distances: dict[str, Distance] = {}
        failed: HolderError | WireError | None = None
        for name, result in results.items():
            if isinstance(result, HolderError | WireError):
                notes.missing[name] = Failure(result.code)
                failed = result
            else:
                distances[name] = replace(result, holders=(name, "validation"))
        # Holders fail one by one; below the quorum the last failure speaks for all.
        if failed is not None and len(distances) < self.centre.quorum:
            raise failed
        return distances

    def _add_from_records(
        self, contributions: Contributions, target: Target
    ) -> Steps[Contributions]:
        """Request the records of all holders where options need them, and add what follows.

        Holders that fail leave all of it out, and the status says so.
        """
        if not self.options.needs_records:
            return contributions
        names = contributions.names
        if len(names) < 2:
            return self._note_absence(contributions, "two holders are needed")
        embedding: Embedding = "none"
        if self.options.labels != "none":
            embedding = self.options.covariance
        answers = yield dict.fromkeys(names, Records(embedding=embedding))
        for name in sorted(names):
            answer = answers.get(name, Failure("holder-silent"))
            if isinstance(answer, Failure):
                return self._note_absence(contributions, f"{name} ({answer.code})")
        try:
            clouds = {name: read_cloud(required(answers, name)) for name in names}
            own = target.embed(embedding)
            sides = {**clouds, COORDINATOR: own}
            agree_on_dimension({name: points.shape[1] for name, (points, _) in sides.items()})
            between = _compute_matrix(sides, contributions.seed) if self.options.map else None
            results = " and ".join(self._list_from_records())
            result = replace(contributions, between=between).with_note(
                f"for {results} all sent their records"
            )
            return add_shapley_values(result, clouds, own) if self.options.shapley else result
        except SilotError as error:
            return self._note_absence(contributions, f"{error.message.rstrip('.')} ({error.code})")

    def _list_from_records(self, map: str = "the map of holders") -> list[str]:
        return [map] * bool(self.options.map) + ["Shapley values"] * self.options.shapley

    def _note_absence(self, contributions: Contributions, why: str) -> Contributions:
        for result in self._list_from_records("map of holders"):
            contributions = contributions.with_note(f"no {result}: {why}")
        return contributions

    def _build_result(
        self,
        target: Target,
        distances: Mapping[str, Distance],
        records: Mapping[str, int],
        barycenter: Barycenter | None,
        notes: Notes,
    ) -> Contributions:
        spread = target.measure_spread(self.options.label_weight)
        items = build_contributions(distances, notes.sampled, spread, records)
        return Contributions(
            holders=items,
            target=self._aim,
            method=self.method,
            labels=self.options.labels,
            spread=spread,
            status=self._describe_status(distances, barycenter)
            + notes.describe(items)
            + describe_missing(notes.missing),
            converged=all(item.converged for item in distances.values())
            and (barycenter is None or barycenter.converged),
            seed=self.options.seed,
            barycenter=barycenter,
            missing={name: failure.code for name, failure in notes.missing.items()},
        )

    def _describe_status(
        self, distances: Mapping[str, Distance], barycenter: Barycenter | None
    ) -> str:
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
        if self.own is not None and self.method in ("target", PrivateDistance.name):
            text += "; every holder saw the validation records"
        if isinstance(self.options.between, PrivateDistance) and self.own is not None:
            text += (
                f"; intervals cover the noise at epsilon {self.options.privacy_epsilon:g}; a "
                "rank is a range if the noise leaves it open"
            )
        return text


def add_parts(result: Contributions, answers: Mapping[str, Parts | Failure]) -> Contributions:
    """Add the parts of distances, and to the status who refused them."""
    items = tuple(
        replace(item, distance=replace(item.distance, parts=parts))
        if isinstance(parts := answers.get(item.holder), Parts)
        else item
        for item in result.holders
    )
    refused = [
        f"{name} ({answer.code})"
        for name, answer in sorted(answers.items())
        if isinstance(answer, Failure)
    ]
    result = replace(result, holders=items)
    if not refused:
        return result
    return result.with_note(f"no parts of distances from {', '.join(refused)}")


# Names that a status lists one by one.
_NAMED = 5
# Below this mass of shared classes, labels may be spelt in another way: a status says so.
_MOSTLY_SHARED = 0.9


def find_refusal(answer: Answer | Failure) -> str:
    """Return the code of why a holder refuses the error of its distance; empty if it does not."""
    if not isinstance(answer, Failure):
        return ""
    return answer.code if answer.kind == "refused" or answer.code == "question-unknown" else ""


@dataclass
class Notes:
    """Who failed, and what holders sent beside their distances.

    ``shared`` is the mass of each holder in classes of the target; ``unknown_errors`` the code of
    why a holder sent no error; ``parts`` what its distance is made of, or why it did not send it.
    """

    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])
    shared: dict[str, float] = field(default_factory=dict[str, float])
    sampled: dict[str, Sampled] = field(default_factory=dict[str, Sampled])
    unknown_errors: dict[str, str] = field(default_factory=dict[str, str])
    parts: dict[str, Parts | Failure] = field(default_factory=dict[str, "Parts | Failure"])

    def add_error(self, name: str, answer: Answer, reason: str) -> None:
        """Add the error that a holder sent of its distance, or the code of why it sent none."""
        error = Sampled.of(answer)
        if error is not None:
            self.sampled[name] = error
        elif reason:
            self.unknown_errors[name] = reason

    def describe(self, items: tuple[Contribution, ...]) -> str:
        """Describe who is like the target, has other classes, or sent no error."""
        same = [item.holder for item in items if item.distance.indistinct]
        # A holder that failed later has sent its classes, and is in no result.
        present = {item.holder for item in items}
        odd = [
            f"{name} ({1.0 - mass:.0%})"
            for name, mass in self.shared.items()
            if mass < _MOSTLY_SHARED and name in present
        ]
        text = f"; not distinguishable from the target: {_join(same)}" if same else ""
        if odd:
            text += f"; share of records in classes that the target lacks: {', '.join(odd)}"
        rough = [item.holder for item in items if item.is_approximate]
        if rough:
            text += f"; approximate intervals, for heavy tails or few records: {_join(rough)}"
        unknown = [f"{name} ({code})" for name, code in sorted(self.unknown_errors.items())]
        return text + (f"; no interval of {_join(unknown)}" if unknown else "")


def _join(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _compute_matrix(clouds: Mapping[str, Cloud], seed: int) -> DistanceMatrix:
    """Compute the exact distances between all clouds, which were sent record by record."""
    pairs = {
        (a, b): replace(
            compute_exact_distance(clouds[a], clouds[b], (a, b), 2, seed),
            disclosure=str(Disclosure.RECORD),
        )
        for a, b in combinations(clouds, 2)
    }
    return DistanceMatrix(names=tuple(clouds), pairs=pairs, method="direct", p=2)
