"""FedBary: a barycenter of holders, by walking a reference between each holder and it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ...data.measure import Embedding
from ...errors import InputError
from ...federation.answer import Answer, Array, Failure
from ...federation.protocol import Answers, Protocol, Steps, failure_error, required
from ...federation.question import Answerer, Question
from ...options import anything, number, option, part, share
from ..methods import Joint, Turns, build_joint, normalize_shares, resolve_quorum
from ..questions import (
    ClassSizes,
    Codes,
    Describe,
    InterpolateByClass,
    decode_classes,
    encode_classes,
)
from ..result import Distance
from ..shared_options import (
    active_option,
    embedding_option,
    numbers_by_holder,
    quorum_option,
    rounds_option,
    seed_option,
    support_option,
    switch,
    tolerance_option,
)
from ..sides import (
    Description,
    Reference,
    build_misfit_error,
    build_reference,
    describe_missing,
    keep_present,
    read_descriptions,
)
from .result import Barycenter
from .target import Target, compute_class_metric, read_class_masses, read_distance

# References nearer the barycenter than this are put there: halving would not end otherwise.
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
    >>> from silot.federation import LocalFederation
    >>> fed = LocalFederation({"a": [[0.0], [1.0]], "b": [[4.0], [5.0]]})
    >>> result = fed.run(FedBary(support=2).among(["a", "b"]))
    >>> round(result.objective, 3)
    4.0
    """

    name = "fedbary"

    weights: Mapping[str, float] | None = numbers_by_holder(
        "The :math:`\\lambda_i` by holder, any positive numbers; equal by default."
    )
    support: int = support_option("Atoms S of the barycenter.")
    rounds: int = rounds_option()
    active: int | None = active_option(
        "Number of holders that receive a question in each round. All take turns, in "
        "a random order that changes every turn. A holder's earlier answer counts "
        "until its next one. ``None``: all holders in every round."
    )
    tol: float = tolerance_option(
        "Stop when a round, or one turn of all holders, lowers the objective by less "
        "than this share while references are at the barycenter itself."
    )
    seed: int = seed_option("Seed of the first atoms.")
    t: float = option(
        "Interpolation parameter of the holders' answers. It changes nothing but the messages.",
        share(),
        default=0.5,
        flag=False,
    )
    place: float = option(
        "Where the holders' references start: 0 at the barycenter itself, close to 1 near each "
        "holder's records. The value is halved whenever a round gains too little, and ends at 0, "
        "where couplings are optimal. 0 needs by far the fewest rounds.",
        part("number"),
        default=0.0,
        flag=False,
    )
    labels: bool = switch(
        "Find a barycenter class by class: its atoms have labels. Classes are those of all "
        "holders together; each gets atoms in proportion to its mass, one at least.",
        flag=False,
    )
    label_weight: float = option(
        "Weight of the label distance in the holders' distances to the result.",
        number(least=0),
        default=1.0,
        flag=False,
    )
    quorum: int | None = quorum_option()
    reference: npt.ArrayLike | None = option(
        "First atoms (S, d), instead of a draw from a normal distribution.",
        anything("array (S, d), or None"),
        default=None,
    )
    embedding: Embedding = embedding_option()

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
        """First atoms, as they stand before any holder describes itself."""
        support = self.support if self.reference is None else None
        return build_reference(self.reference, support, 0.0, 1.0, self.seed)

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
        """Build the rounds between these holders, which other protocols run step by step."""
        names = tuple(holders)
        needed = resolve_quorum(self.quorum, names)
        turn = 1 if self.active is None else -(-len(names) // self.active)
        if turn > self.rounds:
            raise InputError(
                f"rounds is {self.rounds}, and it takes {turn} to ask {len(names)} holders "
                f"{self.active} at a time. Raise rounds or active.",
                code="option-rounds",
            )
        return Rounds(self, names, normalize_shares(self.weights, names), needed)


fedbary = build_joint(FedBary)


@dataclass(frozen=True)
class Rounds:
    """The rounds of one barycenter between holders with their weights."""

    options: FedBary
    holders: tuple[str, ...]
    shares: Mapping[str, float]
    quorum: int

    def start(self) -> Steps[Barycenter]:
        barycenter = yield from self.find()
        missing = dict(barycenter.missing)
        question = barycenter.target.build_question(
            self.options.label_weight, self.options.embedding
        )
        answers = yield dict.fromkeys(barycenter.names, question)
        refusing = [name for name in barycenter.names if _keeps_distance(answers.get(name))]
        # A refusal of the last number is no failure: the holder took part in the barycenter, whose
        # quorum it counts for.
        others = [name for name in barycenter.names if name not in refusing]
        present = keep_present(answers, others, missing, self.quorum - len(refusing))
        distances = {
            name: read_distance(required(answers, name), name, "barycenter", self.options.seed)
            for name in present
        }
        return self.build_result(barycenter, distances, missing, refusing)

    def find(self) -> Steps[UnmeasuredBarycenter]:
        """Find the barycenter, without the distances to it."""
        missing: dict[str, Failure] = {}
        answers = yield {name: Describe(embedding=self.options.embedding) for name in self.holders}
        present = self.keep_present(answers, self.holders, missing)
        described = read_descriptions(answers, present)
        classes: tuple[str, ...] = ()
        masses = np.ones(1)
        if self.options.labels:
            answers = yield dict.fromkeys(present, ClassSizes())
            present = self.keep_present(answers, present, missing)
            classes, masses = self._pool_classes(
                {name: required(answers, name) for name in present}
            )
        atoms, weights = self.options.first.build(described)
        # At least one atom for every class: a class without atoms could not receive its mass.
        codes = allot(masses, len(atoms))
        inside = np.bincount(codes, weights, minlength=len(masses))
        # Atoms of a class carry the mass of the class, however many they are.
        weights = weights * (masses / inside)[codes]
        # Shares of those that are present sum to 1 again.
        total = sum(self.shares[name] for name in present)
        centre = Centre(
            atoms, weights, codes, {name: self.shares[name] / total for name in present}
        )
        settled = yield from self._walk(centre, classes, missing)
        return UnmeasuredBarycenter(centre, classes, described, settled, missing)

    def _walk(
        self, centre: Centre, classes: tuple[str, ...], missing: dict[str, Failure]
    ) -> Steps[bool]:
        place = self.options.place
        text = encode_classes(list(classes)) if classes else ""
        turns = Turns(self.options.active, self.options.seed)
        last: Mapping[str, float] | None = None
        for k in range(self.options.rounds):
            active = turns.next_holders(tuple(centre.shares))
            references = {name: centre.place_reference(name, place) for name in active}
            answers = yield {
                name: self._build_question(atoms, centre, text)
                for name, atoms in references.items()
            }
            # Holders that wait for their turn count as taking part.
            others = len(centre.shares) - len(active)
            keep_present(answers, active, missing, self.quorum - others)
            for name, atoms in references.items():
                if name in missing:
                    centre.drop(name)
                    continue
                answer = required(answers, name)
                centre.add(name, Coupling.of(answer, atoms, centre.codes, self.options.t))
            # Not held while holders work on the next question.
            del answers
            # Nobody has answered yet, as may be with few active holders that all failed.
            if not centre.couplings:
                continue
            centre.move()
            centre.note(k)
            # Within a turn the objective mixes old and new couplings: it is compared turn by turn.
            if not turns.is_over:
                continue
            before, last = last, centre.history[-1]
            if self._is_settled(before, last):
                if place == 0.0:
                    return True
                # Halved and at last zero: with references apart from the barycenter the plans are
                # optimal for the references, not for it.
                place = 0.5 * place if place > _LEAST_PLACE else 0.0
        return False

    def _is_settled(self, before: Mapping[str, float] | None, now: Mapping[str, float]) -> bool:
        """Check whether all holders took part, and hardly lowered the objective."""
        # The objective of other holders is another objective: their difference is no progress.
        if before is None or before["holders"] != now["holders"]:
            return False
        return before["objective"] - now["objective"] <= self.options.tol * before["objective"]

    def _build_question(self, atoms: Array, centre: Centre, classes: str) -> Question:
        return InterpolateByClass(
            target=atoms,
            target_weights=centre.weights,
            target_codes=centre.codes,
            classes=classes,
            t=self.options.t,
            embedding=self.options.embedding,
        )

    def _pool_classes(self, answers: Mapping[str, Answer]) -> tuple[tuple[str, ...], Array]:
        """Collect the classes of all holders, and their masses in the barycenter."""
        by_holder: dict[str, dict[str, float]] = {}
        for name, answer in answers.items():
            names = decode_classes(str(answer.scalars.get("classes", "")))
            masses = read_class_masses(answer, len(names)).tolist() if names else []
            # A holder of labelled records names one class at least.
            if len(set(names)) < len(names) or sum(masses) <= 0:
                raise failure_error(name, Failure("answer-malformed"))
            by_holder[name] = dict(zip(names, masses, strict=True))
        # Sorted, so that codes do not depend on the order of holders.
        classes = tuple(sorted(set().union(*by_holder.values())))
        total = sum(self.shares[name] for name in by_holder)
        masses = np.zeros(len(classes))
        for name, own in sorted(by_holder.items()):
            share = self.shares[name] / total
            masses += share * np.array([own.get(kind, 0.0) for kind in classes])
        return classes, masses / masses.sum()

    def keep_present(
        self, answers: Answers, names: Sequence[str], missing: dict[str, Failure]
    ) -> tuple[str, ...]:
        """Return the holders that answered, or raise where they are fewer than the quorum."""
        return keep_present(answers, names, missing, self.quorum)

    def build_result(
        self,
        barycenter: UnmeasuredBarycenter,
        distances: Mapping[str, Distance],
        missing: Mapping[str, Failure],
        refusing: Sequence[str] = (),
    ) -> Barycenter:
        """Build the barycenter with the distances to it that holders sent."""
        centre, classes = barycenter.centre, barycenter.classes
        for name in sorted(set(barycenter.names) - set(distances) - set(refusing)):
            centre.drop(name)
        barycenter = replace(barycenter, missing=missing)
        # Couplings are feasible plans: their cost bounds the objective from above, and the exact
        # distances may bound it better.
        objective = centre.objective
        if not classes and not refusing:
            # A product, because a power of a Python float that overflows raises.
            bounds = ((share, distances[name].upper) for name, share in centre.shares.items())
            objective = min(objective, sum(share * (upper * upper) for share, upper in bounds))
        return Barycenter(
            points=centre.atoms,
            weights=centre.weights,
            labels=np.array(classes)[centre.codes] if classes else None,
            objective=objective,
            lower=min(centre.lower, objective),
            distances=dict(distances),
            shares=dict(centre.shares),
            status=self._describe_status(barycenter) + _describe_refusals(refusing),
            converged=barycenter.settled,
            seed=self.options.seed,
            history=tuple(centre.history),
            missing={name: failure.code for name, failure in missing.items()},
        )

    def _describe_status(self, barycenter: UnmeasuredBarycenter) -> str:
        turn = "round" if self.options.active is None else "turn of all holders"
        if barycenter.settled:
            text = (
                f"converged: a {turn} lowered the objective by less than {self.options.tol:g}; "
                "other first atoms (seed) or more support may find a lower one"
            )
        else:
            text = (
                f"stopped: {self.options.rounds} rounds done, raise rounds to lower the objective"
            )
        if not all(coupling.optimal for coupling in barycenter.centre.couplings.values()):
            text += "; a plan was not proven optimal, rescale the features"
        return text + describe_missing(barycenter.missing)


def _keeps_distance(answer: Answer | Failure | None) -> bool:
    """Check whether a holder took part and only refuses its distance to the result."""
    return isinstance(answer, Failure) and answer.code == "policy-question"


def _describe_refusals(refusing: Sequence[str]) -> str:
    return f"; {', '.join(refusing)} sent no distance to it" if refusing else ""


@dataclass(frozen=True)
class Coupling:
    """A coupling of one holder's records with the atoms, as far as the holder disclosed it."""

    means: Array = field(repr=False)
    """Mean of the records that go to each atom (S, d)."""
    scatter: Array = field(repr=False)
    """Transport cost from the records to those means, class by class (C,)."""
    masses: Array
    """Mass of each class (C,)."""
    optimal: bool
    """Whether the plan behind it was proven optimal."""

    @classmethod
    def of(cls, answer: Answer, atoms: Array, codes: Codes, t: float) -> Coupling:
        """Read an answer to ``InterpolateByClass`` about ``atoms``."""
        moved = answer.array("atoms", ndim=2, columns=atoms.shape[1])
        scatter, masses = answer.array("scatter", ndim=1), answer.array("masses", ndim=1)
        _check(moved, atoms, scatter, masses, int(codes.max()) + 1)
        # An answer is at the share t between means and atoms: the means follow, for the asker chose
        # both t and atoms.
        return cls((moved - t * atoms) / (1.0 - t), scatter, masses, answer.flag("optimal"))

    def compute_costs(self, atoms: Array, weights: Array, codes: Codes) -> Array:
        """Compute the transport cost of the coupling to ``atoms``, class by class (C,)."""
        # The cost of a coupling is that within what goes to each atom and that of its mean
        # (König-Huygens): only the second changes when atoms move.
        spread = np.einsum("ij,ij->i", self.means - atoms, self.means - atoms)
        within = weights / np.bincount(codes, weights, minlength=len(self.masses))[codes]
        return self.scatter + np.bincount(codes, within * spread, minlength=len(self.masses))

    def choose_better(
        self, other: Coupling, atoms: Array, weights: Array, codes: Codes
    ) -> Coupling:
        """Choose the cheaper of two couplings to ``atoms``, class by class."""
        first, second = (one.compute_costs(atoms, weights, codes) for one in (self, other))
        # Class by class, for each class of a holder is transported by itself.
        take = second < first
        return Coupling(
            np.where(take[codes][:, None], other.means, self.means),
            np.where(take, other.scatter, self.scatter),
            self.masses,
            self.optimal and other.optimal,
        )


def _check(moved: Array, atoms: Array, scatter: Array, masses: Array, classes: int) -> None:
    """Check that the shapes and masses of an answer fit the question."""
    fits = moved.shape == atoms.shape and scatter.shape == masses.shape == (classes,)
    # The sum may be below one, where a holder has classes that nobody else has and that are too
    # small to tell of; above one only rounding can bring it.
    if not fits or masses.min() < 0 or masses.sum() > 1 + 1e-6 or scatter.min() < 0:
        raise build_misfit_error("atoms of the question")


@dataclass
class Centre:
    r"""The barycenter so far.

    The objective is :math:`\sum_i \lambda_i \sum_c m_{ic} C_{ic}`, with the class masses
    :math:`m_{ic}` and the costs :math:`C_{ic}` of the couplings at hand: an upper bound of the
    objective with optimal couplings, that no step raises.
    """

    atoms: Array
    weights: Array
    codes: Codes
    shares: dict[str, float]
    couplings: dict[str, Coupling] = field(default_factory=dict[str, Coupling])
    history: list[Mapping[str, float]] = field(default_factory=list[Mapping[str, float]])

    def drop(self, name: str) -> None:
        """Drop a holder, and share its weight among the others."""
        # What it disclosed is no longer used: the barycenter is one of those that take part to the
        # end.
        self.couplings.pop(name, None)
        self.shares.pop(name)
        total = sum(self.shares.values())
        for other in self.shares:
            self.shares[other] /= total

    def add(self, name: str, coupling: Coupling) -> None:
        """Keep the better of a new coupling and the one of earlier rounds, class by class."""
        earlier = self.couplings.get(name)
        if earlier is not None:
            # A new plan is optimal for its reference, which need not be the barycenter. Keeping the
            # cheaper one is what makes the objective never rise.
            coupling = earlier.choose_better(coupling, self.atoms, self.weights, self.codes)
        self.couplings[name] = coupling

    @property
    def coupled(self) -> dict[str, float]:
        """Shares of the holders that sent a coupling, by name; they sum to 1."""
        if self.couplings.keys() == self.shares.keys():
            return self.shares
        total = sum(self.shares[name] for name in sorted(self.couplings))
        return {name: self.shares[name] / total for name in self.couplings}

    @property
    def objective(self) -> float:
        """Weighted cost of all couplings."""
        return self.compute_objective(self.atoms)

    def compute_objective(self, atoms: Array) -> float:
        """Compute the weighted cost of all couplings, with the atoms at other places."""
        total = 0.0
        for name, weight in sorted(self.coupled.items()):
            coupling = self.couplings[name]
            costs = coupling.compute_costs(atoms, self.weights, self.codes)
            total += weight * float(coupling.masses @ costs)
        return total

    def move(self) -> None:
        """Put every atom at the weighted mean of what goes to it: the best for these couplings."""
        pull = np.zeros(len(self.atoms))
        total = np.zeros_like(self.atoms)
        for name, weight in sorted(self.coupled.items()):
            coupling = self.couplings[name]
            mass = weight * coupling.masses[self.codes]
            # The minimum of a weighted sum of squared distances is the weighted mean.
            pull += mass
            total += mass[:, None] * coupling.means
        # An atom of a class that no holder has stays where it is.
        held = pull > 0
        self.atoms = np.where(held[:, None], total / np.where(held, pull, 1.0)[:, None], self.atoms)

    def note(self, k: int) -> None:
        """Add the objective after a round to the history."""
        holders = float(len(self.couplings))
        self.history.append({"round": float(k), "objective": self.objective, "holders": holders})

    def place_reference(self, name: str, place: float) -> Array:
        """Place a holder's reference at a share of the way from the barycenter to its records."""
        coupling = self.couplings.get(name)
        if coupling is None or place == 0:
            return self.atoms
        return (1.0 - place) * self.atoms + place * coupling.means

    @property
    def lower(self) -> float:
        """Lower bound of the objective of every measure, from the holders' class means."""
        total = 0.0
        largest = 0.0
        classes = int(self.codes.max()) + 1
        # By Jensen's inequality the cost of any measure is at least that of the class means, whose
        # best common point is their weighted mean.
        inside = np.zeros((classes, len(self.atoms)))
        inside[self.codes, np.arange(len(self.atoms))] = self.weights
        # Within classes: the mean of a class is that of the means at its atoms, by their masses.
        inside /= inside.sum(axis=1, keepdims=True)
        names = sorted(self.shares)
        means = np.stack([inside @ self.couplings[name].means for name in names])
        mass = np.stack([self.shares[name] * self.couplings[name].masses for name in names])
        for code in range(classes):
            if mass[:, code].sum() <= 0:
                continue
            centre = mass[:, code] @ means[:, code] / mass[:, code].sum()
            total += float(mass[:, code] @ np.sum((means[:, code] - centre) ** 2, axis=1))
            largest = max(largest, float(np.abs(means[:, code]).max()))
        # Rounding of the sums, and of means far from the origin.
        rounding = 1e-12 * total + (1e-13 * largest) ** 2 * self.atoms.shape[1]
        return max(total - rounding, 0.0)


@dataclass(frozen=True)
class UnmeasuredBarycenter:
    """A barycenter before the distances of the holders to it are measured."""

    centre: Centre
    classes: tuple[str, ...]
    described: Description
    settled: bool
    missing: Mapping[str, Failure]

    @property
    def names(self) -> tuple[str, ...]:
        """Holders that took part, in the order they were given."""
        return tuple(self.centre.shares)

    @property
    def target(self) -> Target:
        """The barycenter as a target; its variance is that of the records around its mean."""
        centre = self.centre
        mean = centre.weights @ centre.atoms
        return Target(
            centre.atoms,
            centre.weights,
            centre.codes,
            self.classes,
            bool(self.classes),
            size=float(sum(self.described.records[name] for name in self.names)),
            variance=centre.compute_objective(np.broadcast_to(mean, centre.atoms.shape)),
            metric=compute_class_metric(centre.atoms, centre.weights, centre.codes, self.classes),
        )


def allot(masses: Array, size: int) -> Codes:
    """Give every atom a class: in proportion to the masses, one atom at least for each class."""
    if size < len(masses):
        raise InputError(
            f"there are {len(masses)} classes, and atoms for {size}. Give every class one.",
            code="option-support",
        )
    counts = np.ones(len(masses), dtype=np.int64)
    # Highest averages: the next atom goes where a class has the most mass an atom.
    for _ in range(size - len(masses)):
        counts[np.argmax(masses / counts)] += 1
    return np.repeat(np.arange(len(masses)), counts).astype(np.int64)
