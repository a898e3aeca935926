"""What every holder is worth for a target: validation data, or the holders' own barycenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, get_args

from ...data.measure import Covariance, Embedding
from ...errors import HolderError, InputError, WireError
from ...federation.answer import Array, Failure
from ...federation.disclosure import Disclosure
from ...federation.parallel import parallel
from ...federation.protocol import COORDINATOR, Protocol, Steps, required
from ...federation.question import Answerer, Question
from ...options import anything, count, none_or, number, option, seed, truth, word
from ..joint import Joint
from ..pairwise import Pairwise, compared_by
from ..questions.distances import Describe
from ..questions.labelled import ClassSizes
from ..result import Distance
from ..sides import agreed_dimension, read_descriptions
from .answers import class_masses, missing_text, told_distance
from .fedbary import FedBary, Rounds
from .parts import told_parts, with_parts
from .result import Barycenter, Contributions
from .target import LabelMetric, Target
from .together import Together
from .worth import Notes, refusal_of, worth

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
            target = Target.of_barycenter(found)
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
