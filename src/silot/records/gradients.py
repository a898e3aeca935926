"""Calibrated gradients of records, as FedBary and TriangleWad were published."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..data.measure import Covariance, Embedding
from ..distances.questions.distances import Describe, Interpolate
from ..distances.questions.labelled import LabelledRecords
from ..distances.sides import (
    agreed_dimension,
    check_covariance,
    check_seed,
    misfit,
    received_weights,
)
from ..federation.answer import Answer, Array, Failure
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, failure_error, required
from ..federation.question import Answerer
from ..transport import (
    Frame,
    calibrated_gradient,
    cost_matrix,
    debiased_potential,
    interpolate,
)
from ..transport._check import flag, interval, whole
from .questions.scores import ScoreRecords
from .result import RecordScores

# Regularisation as a share of the mean cost.
_EPSILON = 0.03
# The mean cost is estimated from so many records a side.
_SAMPLE = 1000
# Squares of sums of numbers up to this do not overflow.
_LARGEST = 1e300


def gradients(
    holder: str,
    *,
    own: Answerer,
    labels: bool = False,
    covariance: Covariance = "diagonal",
    t: float = 0.5,
    support: int = 100,
    seed: int = 0,
) -> Protocol[RecordScores]:
    r"""Calibrated gradients of a holder's records, from both sides.

    The coordinator sends the interpolant :math:`\eta_Q` of its validation records and a public
    reference. On the *holder side* the holder computes debiased entropic potentials ``f`` of its
    records against :math:`\eta_Q`, and from them the gradients

    .. math:: s_l = f_l - \frac{1}{n - 1} \sum_{j \ne l} f_j;

    on the *coordinator side* the holder sends its own interpolant :math:`\eta_P`, and the
    coordinator computes them between the two. Records of a positive gradient are flagged.

    Parameters
    ----------
    holder
        Name.
    own
        ``Own(measure)`` with the validation data, which is trusted.
    labels
        Whether records have their OTDD vectors as further coordinates.
    covariance
        Covariance block of these vectors.
    t
        Interpolation parameter of both interpolants.
    support
        Atoms of the public reference.
    seed
        Seed of the reference.

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
    side. ``records`` finds far more; docs/results/fedbary-figure-2.md compares.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure, Own
    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> x[0] += 9.0
    >>> fed = LocalFederation({"seller": x[:100]})
    >>> int(fed.run(gradients("seller", own=Own(Measure(x[100:])))).worst[0])
    0
    """
    check_covariance(covariance)
    embedding: Embedding = covariance if flag(labels, "labels", "option-labels") else "none"
    plan = _Plan(
        holder,
        own,
        embedding,
        interval(t, "t", "option-t"),
        whole(support, "support", "option-support"),
        check_seed(seed),
    )
    return Protocol(
        "gradients",
        (holder,),
        Disclosure.RECORD,
        plan.start,
        {"embedding": embedding, "t": plan.t, "support": plan.support, "seed": plan.seed},
        expected_rounds=3,
    )


@dataclass(frozen=True)
class _Plan:
    """Checked options of one protocol."""

    holder: str
    own: Answerer
    embedding: Embedding
    t: float
    support: int
    seed: int

    def start(self) -> Steps[RecordScores]:
        mine = self.own.answer(LabelledRecords(embedding=self.embedding))
        answer = required({COORDINATOR: mine}, COORDINATOR)
        points, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        weights = weights / weights.sum()
        described = required((yield {self.holder: Describe(embedding=self.embedding)}), self.holder)
        dimension = int(described.number("dimension"))
        agreed_dimension({self.holder: dimension, COORDINATOR: points.shape[1]})
        frame = Frame.of(points, weights)
        drawn = np.random.default_rng([self.seed, 6]).standard_normal(
            (self.support, points.shape[1])
        )
        # A draw with the validation data's location and scale.
        reference = frame.mean + frame.scale * drawn
        masses = np.full(self.support, 1.0 / self.support)
        target = interpolate(points, reference, weights, masses, t=self.t).atoms
        epsilon = _regularisation(points, weights, self.seed)
        question = ScoreRecords(
            target=target, target_weights=weights, epsilon=epsilon, embedding=self.embedding
        )
        scored = required((yield {self.holder: question}), self.holder)
        scores = scored.array("gradients", ndim=1)
        held = received_weights(scored, len(scores))
        if _huge(scores):
            raise misfit()
        towards = Interpolate(
            reference=reference,
            reference_weights=masses,
            t=self.t,
            scalars=False,
            embedding=self.embedding,
        )
        told = (yield {self.holder: towards}).get(self.holder, Failure("holder-silent"))
        coordinator, note, solved = None, "", scored.flag("converged")
        if isinstance(told, Answer):
            # Interpolants are the records shrunk by 1 - t, and costs by its square.
            found = self._between(told, target, weights, held, (1.0 - self.t) ** 2 * epsilon)
            coordinator, done = found
            solved = solved and done
        elif told.kind == "refused":
            note = "; the holder sends no interpolant, so there is no coordinator side"
        else:
            raise failure_error(self.holder, told)
        return RecordScores(
            name=self.holder,
            scores=scores,
            flagged=(scores > 0) & (held > 0),
            method="published",
            fdr=None,
            screening=None,
            coordinator=coordinator,
            rule="as published: a positive calibrated gradient; there is no level",
            status=("converged" if solved else "stopped: potentials did not converge") + note,
            converged=solved,
            seed=self.seed,
        )

    def _between(
        self, told: Answer, target: Array, weights: Array, held: Array, epsilon: float
    ) -> tuple[Array, bool]:
        atoms = told.array("atoms", ndim=2, columns=target.shape[1])
        masses = received_weights(told, len(atoms))
        used = np.flatnonzero(held)
        if len(atoms) != len(used) or float(np.abs(atoms).max()) > _LARGEST**0.5:
            raise misfit()
        found = debiased_potential(atoms, target, masses, weights, epsilon=epsilon)
        gradients_ = calibrated_gradient(found.values, masses)
        # Records without mass have no atom: the lowest score.
        over_all = np.full(len(held), float(gradients_.min()))
        over_all[used] = gradients_
        return over_all, found.converged


def _huge(values: Array) -> bool:
    """Whether numbers are so large that arithmetic with them overflows."""
    return float(np.abs(values).max()) > _LARGEST


def _regularisation(points: Array, weights: Array, seed: int) -> float:
    if len(points) > _SAMPLE:
        rng = np.random.default_rng([seed, 4])
        chosen = np.sort(rng.choice(len(points), _SAMPLE, replace=False, p=weights))
        points, weights = points[chosen], np.full(_SAMPLE, 1.0 / _SAMPLE)
    mean_cost = float(weights @ cost_matrix(points, points) @ weights)
    # One validation record has no spread; any positive number will do then.
    return _EPSILON * mean_cost or 1.0
