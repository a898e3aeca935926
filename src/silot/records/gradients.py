"""Calibrated gradients of records, as FedBary and TriangleWad were published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from silot_transport import Frame, calibrated_gradient, interpolate
from silot_transport.bounded import fitting_plan

from ..data.measure import Covariance, Embedding
from ..distances.questions import Describe, Interpolate, LabelledRecords
from ..distances.shared_options import covariance_option, seed_option, support_option, switch
from ..distances.sides import agree_on_dimension, build_misfit_error, read_weights
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, failure_error, required
from ..federation.question import Answerer
from ..options import count, option, share
from .questions.scores import ScoreRecords
from .result import RecordScores
from .scoring import Scoring, build_scoring

# Of a gradient, as a part of the variance of the validation records.
_ROUNDING = 1e-12
# Squares of sums of numbers up to this do not overflow.
_LARGEST = 1e300


class RecordGradients(Scoring):
    r"""Calibrated gradients of a holder's records, from both sides.

    Both sides send interpolants :math:`\eta_P, \eta_Q` of their records and a common reference,
    which is first drawn and then lies between the two, for some rounds. On the *holder side* the
    holder computes dual potentials ``f`` of the exact transport of its records to
    :math:`\eta_Q`, and from them the gradients

    .. math:: s_l = f_l - \frac{1}{n - 1} \sum_{j \ne l} f_j;

    on the *coordinator side* the coordinator computes them between :math:`\eta_P` and
    :math:`\eta_Q`. Records of a positive gradient are flagged.

    ``own`` is an ``Own(measure)`` with the validation data, which is trusted.

    Returns
    -------
    Protocol[RecordScores]
        Discloses every record, whatever ``t``; and shows the validation records to the holder.

    Raises
    ------
    InputError, MismatchError
        Options out of range; no labels where they are needed.

    Notes
    -----
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, algorithm 1 and eq. 10,
    for the holder side; *Private Wasserstein Distance* (TriangleWad), sec. 3.5.2, for the
    coordinator side; its reference is the one that was drawn (``rounds=1``).
    ``RecordScreening`` finds far more; docs/results/fedbary-figure-2.md compares.

    Examples
    --------
    >>> from silot import Measure
    >>> from silot.federation import LocalFederation, Own
    >>> fed = LocalFederation({"seller": [[0.0], [1.0], [9.0]]})
    >>> int(fed.run(RecordGradients().at("seller", Own(Measure([[0.0], [1.0]])))).worst[0])
    2
    """

    name = "gradients"

    labels: bool = switch(
        "Whether records have their OTDD vectors as further coordinates.", flag=False
    )
    covariance: Covariance = covariance_option("Covariance block of these vectors.")
    t: float = option(
        "Interpolation parameter of both interpolants.",
        share(),
        default=0.5,
        brief="For published: interpolation parameter, between 0 and 1.",
    )
    support: int = support_option("Atoms of the public reference.")
    rounds: int = option(
        "Interpolants that each side makes, each towards what lies between the last two.",
        count(1),
        default=10,
        brief="For published: how often both sides interpolate. Default: 10.",
    )
    seed: int = seed_option("Seed of the reference.")

    @property
    def embedding(self) -> Embedding:
        """Label coordinates added to the records."""
        return self.covariance if self.labels else "none"

    def at(self, holder: str, own: Answerer) -> Protocol[RecordScores]:
        return Protocol(
            self.name,
            (holder,),
            Disclosure.RECORD,
            _Run(holder, own, self).start,
            self.values("embedding", "t", "support", "rounds", "seed"),
            expected_rounds=2 + self.rounds,
        )


gradients = build_scoring(RecordGradients)


@dataclass(frozen=True)
class _Run:
    """One run: options, the holder and validation data."""

    holder: str
    own: Answerer
    options: RecordGradients

    def start(self) -> Steps[RecordScores]:
        mine = self.own.answer(LabelledRecords(embedding=self.options.embedding))
        answer = required({COORDINATOR: mine}, COORDINATOR)
        points, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        weights = weights / weights.sum()
        describe = Describe(embedding=self.options.embedding)
        described = required((yield {self.holder: describe}), self.holder)
        dimension = int(described.number("dimension"))
        agree_on_dimension({self.holder: dimension, COORDINATOR: points.shape[1]})
        frame = Frame.of(points, weights)
        rng = np.random.default_rng([self.options.seed, 6])
        drawn = rng.standard_normal((self.options.support, points.shape[1]))
        # A draw with the validation data's location and scale.
        reference = frame.mean + frame.scale * drawn
        masses = np.full(self.options.support, 1.0 / self.options.support)
        # Of equal records all gradients are 0, but for rounding.
        rounding = _ROUNDING * float(weights @ ((points - frame.mean) ** 2).sum(axis=1))
        t, theirs, note, target = self.options.t, None, "", points
        for _ in range(self.options.rounds):
            if theirs is not None:
                # Of as many atoms as the holder has records.
                reference = interpolate(theirs[0], target, theirs[1], weights, t=0.5).atoms
                masses = theirs[1]
            target = interpolate(points, reference, weights, masses, t=t).atoms
            towards = Interpolate(
                reference=reference, reference_weights=masses, t=t, scalars=False,
                embedding=self.options.embedding,
            )  # fmt: skip
            interpolant = (yield {self.holder: towards}).get(self.holder, Failure("holder-silent"))
            if isinstance(interpolant, Answer):
                theirs = _read_interpolant(interpolant, target.shape[1])
            elif interpolant.kind == "refused":
                note, theirs = (
                    "; the holder sends no interpolant: the coordinator has no part",
                    None,
                )
                break
            else:
                raise failure_error(self.holder, interpolant)
        question = ScoreRecords(
            target=target, target_weights=weights, embedding=self.options.embedding
        )
        scored = required((yield {self.holder: question}), self.holder)
        scores = scored.array("gradients", ndim=1)
        held = read_weights(scored, len(scores))
        if _huge(scores):
            raise build_misfit_error()
        coordinator, solved = None, scored.flag("converged")
        if theirs is not None:
            plan = fitting_plan(theirs[0], target, theirs[1], weights, 2)
            coordinator = _over_all(calibrated_gradient(plan.potentials[0], theirs[1]), held)
            solved = solved and plan.optimal
        return RecordScores(
            name=self.holder,
            scores=scores,
            flagged=(scores > rounding) & (held > 0),
            method="published",
            fdr=None,
            screening=None,
            coordinator=coordinator,
            rule="as published: a positive calibrated gradient is flagged, without a "
            "significance level",
            status=("converged" if solved else "stopped: a plan is not optimal") + note,
            converged=solved,
            seed=self.options.seed,
        )


def _read_interpolant(answer: Answer, width: int) -> tuple[Array, Array]:
    atoms = answer.array("atoms", ndim=2, columns=width)
    if float(np.abs(atoms).max()) > _LARGEST**0.5:
        raise build_misfit_error()
    return atoms, read_weights(answer, len(atoms))


def _over_all(gradients_: Array, held: Array) -> Array:
    used = np.flatnonzero(held)
    if len(gradients_) != len(used):
        raise build_misfit_error()
    # Records without mass have no atom: the lowest score.
    over_all = np.full(len(held), float(gradients_.min()))
    over_all[used] = gradients_
    return over_all


def _huge(values: Array) -> bool:
    """Return whether numbers are so large that arithmetic with them overflows."""
    return float(np.abs(values).max()) > _LARGEST
