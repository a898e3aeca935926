"""Calibrated gradients of records, as FedBary and TriangleWad were published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from silot_transport import Frame, calibrated_gradient, cost_matrix, debiased_potential, interpolate

from ..data.measure import Covariance, Embedding
from ..distances.questions import Describe, Interpolate, LabelledRecords
from ..distances.shared_options import covariance_option, seed_option, support_option, switch
from ..distances.sides import agree_on_dimension, build_misfit_error, read_weights
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, failure_error, required
from ..federation.question import Answerer
from ..options import option, share
from .questions.scores import ScoreRecords
from .result import RecordScores
from .scoring import Scoring, build_scoring

# Regularisation as a share of the mean cost.
_EPSILON = 0.03
# The mean cost is estimated from so many records a side.
_SAMPLE = 1000
# Squares of sums of numbers up to this do not overflow.
_LARGEST = 1e300


class RecordGradients(Scoring):
    r"""Calibrated gradients of a holder's records, from both sides.

    The coordinator sends the interpolant :math:`\eta_Q` of its validation records and a public
    reference. On the *holder side* the holder computes debiased entropic potentials ``f`` of its
    records against :math:`\eta_Q`, and from them the gradients

    .. math:: s_l = f_l - \frac{1}{n - 1} \sum_{j \ne l} f_j;

    on the *coordinator side* the holder sends its own interpolant :math:`\eta_P`, and the
    coordinator computes them between the two. Records of a positive gradient are flagged.

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
    Li et al., *Data Valuation and Detections in Federated Learning*, 2024, eq. 10, for the
    holder side; *Private Wasserstein Distance* (TriangleWad), sec. 3.5.2, for the coordinator
    side. ``RecordScreening`` finds far more; docs/results/fedbary-figure-2.md compares.

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
            self.values("embedding", "t", "support", "seed"),
            expected_rounds=3,
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
        described = required(
            (yield {self.holder: Describe(embedding=self.options.embedding)}), self.holder
        )
        dimension = int(described.number("dimension"))
        agree_on_dimension({self.holder: dimension, COORDINATOR: points.shape[1]})
        frame = Frame.of(points, weights)
        drawn = np.random.default_rng([self.options.seed, 6]).standard_normal(
            (self.options.support, points.shape[1])
        )
        # A draw with the validation data's location and scale.
        reference = frame.mean + frame.scale * drawn
        masses = np.full(self.options.support, 1.0 / self.options.support)
        target = interpolate(points, reference, weights, masses, t=self.options.t).atoms
        epsilon = _regularisation(points, weights, self.options.seed)
        question = ScoreRecords(
            target=target, target_weights=weights, epsilon=epsilon, embedding=self.options.embedding
        )
        scored = required((yield {self.holder: question}), self.holder)
        scores = scored.array("gradients", ndim=1)
        held = read_weights(scored, len(scores))
        if _huge(scores):
            raise build_misfit_error()
        towards = Interpolate(
            reference=reference,
            reference_weights=masses,
            t=self.options.t,
            scalars=False,
            embedding=self.options.embedding,
        )
        interpolant = (yield {self.holder: towards}).get(self.holder, Failure("holder-silent"))
        coordinator, note, solved = None, "", scored.flag("converged")
        if isinstance(interpolant, Answer):
            # Interpolants are the records shrunk by 1 - t, and costs by its square.
            shrunk = (1.0 - self.options.t) ** 2 * epsilon
            coordinator, done = self._between(interpolant, target, weights, held, shrunk)
            solved = solved and done
        elif interpolant.kind == "refused":
            note = "; the holder sends no interpolant, so the coordinator has no part"
        else:
            raise failure_error(self.holder, interpolant)
        return RecordScores(
            name=self.holder,
            scores=scores,
            flagged=(scores > 0) & (held > 0),
            method="published",
            fdr=None,
            screening=None,
            coordinator=coordinator,
            rule="as published: a positive calibrated gradient is flagged, without a "
            "significance level",
            status=("converged" if solved else "stopped: potentials did not converge") + note,
            converged=solved,
            seed=self.options.seed,
        )

    def _between(
        self, interpolant: Answer, target: Array, weights: Array, held: Array, epsilon: float
    ) -> tuple[Array, bool]:
        atoms = interpolant.array("atoms", ndim=2, columns=target.shape[1])
        masses = read_weights(interpolant, len(atoms))
        used = np.flatnonzero(held)
        if len(atoms) != len(used) or float(np.abs(atoms).max()) > _LARGEST**0.5:
            raise build_misfit_error()
        potential = debiased_potential(atoms, target, masses, weights, epsilon=epsilon)
        gradients_ = calibrated_gradient(potential.values, masses)
        # Records without mass have no atom: the lowest score.
        over_all = np.full(len(held), float(gradients_.min()))
        over_all[used] = gradients_
        return over_all, potential.converged


def _huge(values: Array) -> bool:
    """Return whether numbers are so large that arithmetic with them overflows."""
    return float(np.abs(values).max()) > _LARGEST


def _regularisation(points: Array, weights: Array, seed: int) -> float:
    if len(points) > _SAMPLE:
        rng = np.random.default_rng([seed, 4])
        chosen = np.sort(rng.choice(len(points), _SAMPLE, replace=False, p=weights))
        points, weights = points[chosen], np.full(_SAMPLE, 1.0 / _SAMPLE)
    mean_cost = float(weights @ cost_matrix(points, points) @ weights)
    # One validation record has no spread; any positive number will do then.
    return _EPSILON * mean_cost or 1.0
