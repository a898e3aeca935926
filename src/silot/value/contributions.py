"""What every holder is worth for a target: validation data, or the holders' own barycenter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ..data.measure import Covariance, Embedding
from ..distances.pairwise import compared_by
from ..distances.questions.distances import Describe
from ..distances.questions.labelled import ClassSizes
from ..distances.result import Distance
from ..distances.sides import agreed_dimension, check_covariance, check_seed, read_descriptions
from ..errors import HolderError, InputError, WireError
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.parallel import parallel
from ..federation.protocol import COORDINATOR, Protocol, Steps, required
from ..federation.question import Answerer, Question
from ..transport._check import flag, real
from .answers import class_masses, missing_text, told_distance
from .barycenter import Plan as BarycenterPlan
from .fedbary import barycenter_plan
from .parts import told_parts, with_parts
from .result import Barycenter, Contributions
from .target import LabelMetric, Target
from .together import Together
from .worth import Notes, Sampled, refusal_of, worth

Map = Literal["direct"]


def contributions(
    holders: Sequence[str],
    *,
    own: Answerer | None = None,
    method: str = "target",
    labels: LabelMetric = "none",
    covariance: Covariance = "diagonal",
    label_weight: float = 1.0,
    class_tolerance: float = 3.0,
    support: int = 100,
    rounds: int = 20,
    tol: float = 1e-4,
    seed: int = 0,
    quorum: int | None = None,
    weights: Mapping[str, float] | None = None,
    why: bool = False,
    map: Map | None = None,
    shapley: bool = False,
    intervals: bool = True,
) -> Protocol[Contributions]:
    r"""Distance of every holder to one target, and the shares that follow.

    With ``own`` the target is the coordinator's validation measure, else the barycenter of the
    holders (``fedbary``).

    Parameters
    ----------
    holders
        Names.
    own
        ``Own(measure)`` with the validation data.
    method
        How a holder is compared with validation data. ``"target"`` shows the validation records
        to the holders, and each tells one exact number. ``"fedbary"`` (FedWaD with the
        coordinator), ``"trianglewad"``, ``"direct"`` and other distance methods are asked of each
        holder and ``own``; those three disclose every record of the holder. Ignored without
        ``own``.
    labels
        ``"classes"``: the squared distance of two records gains ``label_weight`` times the
        squared Wasserstein distance of their classes' records in the target. ``"vectors"``:
        OTDD vectors. ``"none"``: features alone.
    covariance
        Covariance block of the OTDD vectors.
    label_weight
        Weight of the label distance.
    class_tolerance
        Standard errors by which a holder's class proportions may differ from the target's
        without being charged: the target is reweighted to the holder's proportions within them.
        0 compares with the target as it is. Needs labels, validation data and ``"target"``.
    support, rounds, tol, weights
        Of the barycenter, or of the method.
    seed
        Seed of references.
    quorum
        Fewest holders that must answer; ``None`` means all.
    why
        Ask every holder once more, for what its squared distance is made of, by column and by
        class: one number a column and two a class about data the asker chose. Holders that
        refuse, as every policy below level record does, only leave it out. For ``"target"`` and
        ``"direct"``, and for the barycenter.
    map
        ``"direct"``: ask every holder for its records too, and compute the exact distances
        between holders, and to the target, that a map needs. It discloses every record. Labels
        are then compared as vectors. A holder that refuses leaves the map out, and the status
        says so.
    shapley
        Shapley values too, where a coalition is worth the part of the target that the best
        mixture of its members explains (``silot.value.mixtures``). Like a map it asks for
        every record and compares labels as vectors.
    intervals
        Ask holders for the error of their distance too, four more exact numbers each: without
        the bias of few records, the margin of its interval, its tails, and chance. A holder that
        refuses tells the distance alone. Needs ``"target"`` or the barycenter.

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
    >>> fed.run(contributions(["good", "bad"], own=Own(Measure(x[30:])))).ranking[0].holder
    'good'
    """
    kind = None if method == "target" else compared_by(method)
    if labels not in ("none", "classes", "vectors"):
        raise InputError(
            f"labels is {labels!r}; give 'none', 'classes' or 'vectors'.", code="option-labels"
        )
    check_covariance(covariance)
    if labels == "classes" and own is not None and method != "target":
        raise InputError(
            f"method {method!r} compares labels as vectors. Give labels='vectors', or "
            "method='target'.",
            code="option-labels",
        )
    if real(class_tolerance, "class_tolerance", "option-class-tolerance") < 0:
        raise InputError(
            f"class_tolerance is {class_tolerance!r}; zero or more is needed.",
            code="option-class-tolerance",
        )
    if flag(why, "why", "option-why") and own is not None and kind and "why" not in kind.options:
        raise InputError(
            f"method {method!r} tells no parts of its distances. Give method 'target', 'direct' "
            "or 'sketch', or leave why out.",
            code="option-why",
        )
    together = Together.checked(map, shapley, "none" if labels == "none" else covariance)
    embedding: Embedding = covariance if labels == "vectors" else "none"
    centre = barycenter_plan(
        holders,
        weights=weights,
        support=support,
        rounds=rounds,
        tol=tol,
        seed=seed,
        t=0.5,
        place=0.0,
        labels=labels == "classes",
        label_weight=label_weight,
        quorum=quorum,
        reference=None,
        embedding=embedding,
    )
    plan = _Plan(
        holders=centre.holders,
        own=own,
        method=method if own is not None else "fedbary",
        labels=labels,
        embedding=embedding,
        label_weight=float(label_weight),
        tolerance=float(class_tolerance),
        options={"support": support, "rounds": rounds, "tol": tol},
        seed=check_seed(seed),
        why=why,
        together=together,
        intervals=flag(intervals, "intervals", "option-intervals"),
        centre=centre,
    )
    finest = Disclosure.SCALAR
    if own is None or together:
        finest = Disclosure.RECORD
    elif kind is not None:
        finest = kind.disclosure
    elif why or labels == "classes" or (labels == "vectors" and class_tolerance > 0):
        finest = Disclosure.AGGREGATE
    return Protocol(
        "contributions",
        centre.holders,
        finest,
        plan.start,
        {
            "support": support,
            "rounds": rounds,
            "tol": tol,
            "seed": seed,
            "method": plan.method,
            "labels": labels,
            "why": why,
            "map": map,
            "shapley": shapley,
            "intervals": intervals,
        },
        expected_rounds=rounds + 4 + why + bool(together),
    )


@dataclass(frozen=True)
class _Plan:
    """Checked options of one protocol."""

    holders: tuple[str, ...]
    own: Answerer | None
    method: str
    labels: LabelMetric
    embedding: Embedding
    label_weight: float
    tolerance: float
    options: Mapping[str, float]
    seed: int
    why: bool
    together: Together
    intervals: bool
    centre: BarycenterPlan

    def start(self) -> Steps[Contributions]:
        missing: dict[str, Failure] = {}
        found = None
        if self.own is None:
            found = yield from self.centre.find()
            missing.update(found.missing)
            target = Target.of_barycenter(found)
            records = {name: found.described.records[name] for name in found.names}
        else:
            target = Target.of_validation(self.own, self.labels, self.embedding)
            records = yield from self._describe(target, missing)
        notes = Notes()
        if self.method != "target" and self.own is not None:
            distances = yield from self._in_step(tuple(records), missing)
        else:
            distances = yield from self._to_target(target, records, missing, notes)
        barycenter = None
        if found is not None:
            barycenter = self.centre.result(found, distances, missing)
        result = self._result(target, distances, records, barycenter, missing, notes)
        result = with_parts(result, notes.parts)
        return (yield from self.together.added(result, target))

    @property
    def _aim(self) -> str:
        return "barycenter" if self.own is None else "validation"

    def _describe(self, target: Target, missing: dict[str, Failure]) -> Steps[dict[str, int]]:
        answers = yield {name: Describe(embedding=self.embedding) for name in self.holders}
        present = self.centre.present(answers, self.holders, missing)
        described = read_descriptions(answers, present)
        agreed_dimension({COORDINATOR: target.atoms.shape[1], present[0]: described.dimension})
        return {name: described.records[name] for name in present}

    def _to_target(
        self,
        target: Target,
        records: Mapping[str, int],
        missing: dict[str, Failure],
        notes: Notes,
    ) -> Steps[dict[str, Distance]]:
        """Distances to the target, and what holders told beside them."""
        weights = dict.fromkeys(records, target.weights)
        if target.classes and self.tolerance > 0:
            answers = yield dict.fromkeys(records, ClassSizes(classes=target.text))
            present = self.centre.present(answers, tuple(records), missing)
            weights = {}
            for name in present:
                masses = class_masses(required(answers, name), len(target.classes))
                notes.shared[name] = float(masses.sum())
                weights[name] = target.reweighted(masses, records[name], self.tolerance)
        told: dict[str, Answer | Failure] = {}
        if self.intervals:
            told.update((yield self._questions(target, weights, with_error=True)))
        # Whoever refuses to tell an error may tell the distance alone.
        refused = {name: code for name, answer in told.items() if (code := refusal_of(answer))}
        if refused or not self.intervals:
            left = {name: own for name, own in weights.items() if not told or name in refused}
            told.update((yield self._questions(target, left, with_error=False)))
        present = self.centre.present(told, tuple(weights), missing)
        for name in present:
            error = Sampled.told(required(told, name))
            if error is not None:
                notes.sampled[name] = error
            elif self.intervals:
                notes.untold[name] = refused.get(name, "few-records")
        distances = {
            name: told_distance(required(told, name), name, self._aim, self.seed)
            for name in present
        }
        if self.why:
            targets = {name: replace(target, weights=weights[name]) for name in present}
            notes.parts.update(
                (yield from told_parts(targets, distances, self.label_weight, self.embedding))
            )
        return distances

    def _questions(
        self, target: Target, weights: Mapping[str, Array], *, with_error: bool
    ) -> dict[str, Question]:
        # One question for all who are compared with the same weights: it may be large.
        made: dict[int, Question] = {}
        for own in weights.values():
            if id(own) not in made:
                made[id(own)] = replace(target, weights=own).distance_question(
                    self.label_weight,
                    self.embedding,
                    with_error=with_error,
                    sample=self.own is not None,
                    matched=self.tolerance > 0,
                )
        return {name: made[id(own)] for name, own in weights.items()}

    def _in_step(
        self, names: tuple[str, ...], missing: dict[str, Failure]
    ) -> Steps[dict[str, Distance]]:
        kind = compared_by(self.method)
        options = {**self.options, "embedding": self.embedding, "seed": self.seed, "why": self.why}
        method = kind(**{name: value for name, value in options.items() if name in kind.options})
        runs = {name: method.between(name, own=self.own).start() for name in names}
        found = yield from parallel(runs)
        distances: dict[str, Distance] = {}
        failed: HolderError | WireError | None = None
        for name, result in found.items():
            if isinstance(result, HolderError | WireError):
                missing[name] = Failure(result.code)
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
        missing: Mapping[str, Failure],
        notes: Notes,
    ) -> Contributions:
        spread = target.spread(self.label_weight)
        items = worth(distances, notes.sampled, spread, records)
        return Contributions(
            holders=items,
            target=self._aim,
            method=self.method,
            labels=self.labels,
            spread=spread,
            status=self._status(distances, barycenter)
            + notes.in_words(items)
            + missing_text(missing),
            converged=all(item.converged for item in distances.values())
            and (barycenter is None or barycenter.converged),
            seed=self.seed,
            barycenter=barycenter,
            missing={name: failure.code for name, failure in missing.items()},
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
