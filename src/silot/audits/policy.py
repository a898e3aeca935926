"""What an asker learns about single people under a holder's policy, measured on its own records."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm, rankdata

from ..data.measure import Data, Measure
from ..distances.questions import DistanceTo, Moments, Records
from ..distances.sketches.questions import CountRecords, SummarizeRecords
from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Codes, Question
from ..federation.release import Release
from ..privacy.accounting import largest_auc, largest_power
from ..privacy.ledger import Ledger
from ..privacy.mechanism import noise_for
from ..privacy.summary import reach_of
from ..teaching.questions import MeanFeatures, Spread
from .inversion import Array
from .result import PolicyAttack, PolicyAudit

FALSE_ALARMS = 0.01
"""Rate of false alarms at which the power of an attack is measured."""

UNTRIED = (
    "side channels (timing, power), several holders together, and unknown attacks; the proof by "
    "epsilon also covers these as far as they use the answers"
)

# Records that are attacked: the one that lies furthest out, and others drawn at random.
_TARGETS = 4
# Atoms of the target that an attacker brings.
_ATOMS = 50


def audit_policy(
    policy: Policy,
    data: Data,
    *,
    draws: int = 400,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PolicyAudit:
    r"""Measure what an asker learns about single people under a policy, beside the proven bound.

    Attackers who know all records but one test by a likelihood ratio whether that one is in the
    data, what a column of it is, and whether it came with a new version of the data; the noise of
    every try is drawn again. Where exact statistics are answered, an attacker who knows no record,
    but the distribution, tests everybody. Refusals, codes and sizes of answers are compared on
    data with and without a record.

    Parameters
    ----------
    policy
        The rules.
    data
        The records: the audit stays on the machine that has them.
    draws
        Tries on each side of a test.
    seed
        Seed of the attackers; noise has none.
    progress
        Called with the number of attacks made, and of all.

    Returns
    -------
    PolicyAudit

    Raises
    ------
    InputError
        Fewer than twenty records, or fewer than 50 draws (``audit-policy``).

    Examples
    --------
    >>> rows = Measure(np.random.default_rng(0).normal(size=(60, 3)))
    >>> audit_policy(Policy(level="record"), rows, draws=50).recovered
    60
    """
    data = Measure.of(data)
    if data.size < 20 or draws < 50:
        raise InputError(
            f"{data.size} records and {draws} draws are given; 20 records and 50 draws are needed "
            "at least. Give --draws 400.",
            code="audit-policy",
        )
    auditor = _Auditor(policy, data, draws, np.random.default_rng(seed))
    attacks: list[PolicyAttack] = []
    for number, attack in enumerate(ATTACKS):
        attacks += attack(auditor)
        if progress is not None:
            progress(number + 1, len(ATTACKS))
    return PolicyAudit(
        attacks=tuple(attacks),
        records=data.size,
        dimension=data.dimension,
        recovered=auditor.count_recovered(),
        bound=policy.explain(),
        untried=UNTRIED,
    )


@dataclass(frozen=True)
class _Auditor:
    """A policy, the records it protects, and an attacker's tries."""

    policy: Policy
    data: Measure
    draws: int
    rng: np.random.Generator

    def targets(self) -> Iterator[int]:
        """Choose the records that are attacked."""
        points = self.data.points
        yield int(np.linalg.norm(points - points.mean(axis=0), axis=1).argmax())
        yield from self.rng.choice(len(points), _TARGETS - 1, replace=False).tolist()

    def answer(self, data: Measure, question: Question) -> Answer | Failure:
        """Put a question to a fresh holder of some records."""
        return Holder(data, self.policy, Ledger()).answer(question)

    def without(self, row: int) -> Measure:
        """Return the records without one."""
        return self._rows(np.delete(np.arange(self.data.size), row))

    def _rows(self, rows: Codes) -> Measure:
        labels = self.data.labels
        return Measure(
            self.data.points[rows],
            weights=self.data.masses[rows] if self.data.weighted else None,
            labels=None if labels is None else np.asarray(labels)[rows],
        )

    def changed(self, row: int, column: int) -> Measure:
        """Return the records with a column of one replaced by that of the record furthest off."""
        points = self.data.points.copy()
        values = points[:, column]
        points[row, column] = values[np.abs(values - values[row]).argmax()]
        return Measure(points, labels=self.data.labels)

    def release(self, mu: float, row: int) -> Release:
        """Build the release that shows a record best: the distance to a target far from it."""
        points = self.data.points
        nearest = np.linalg.norm(points - points[row], axis=1).argsort()
        target = points[nearest[-_ATOMS:]]
        weights = np.full(len(target), 1.0 / len(target))
        return SummarizeRecords(
            privacy_mu=mu,
            target=target,
            target_weights=weights,
            reaches=np.array([reach_of(target, weights, 1.0)]),
            shares=np.array([0.5, 1.0, 0.5]),
        )

    def count_recovered(self) -> int:
        """Count the records that a question for the records themselves gives."""
        answer = self.answer(self.data, Records())
        return 0 if isinstance(answer, Failure) else len(answer.arrays["points"])

    def budget(self) -> float:
        """Return the mu of the whole budget; 0 where there is none."""
        mu = self.policy.budget_mu
        return 0.0 if mu is None or not np.isfinite(mu) else mu


def _exact_vector(release: Release, data: Measure) -> Array:
    return release.exact(data.points, data.masses, data.names).astype(np.float64)


def _noisy_scores(
    auditor: _Auditor, release: Release, first: Measure, second: Measure
) -> tuple[Array, Array]:
    """Score releases of two versions of the data by the likelihood ratio between them."""
    vectors = [_exact_vector(release, data) for data in (first, second)]
    difference = vectors[1] - vectors[0]
    add_noise = noise_for(release.sensitivity, release.privacy_mu)
    scores = []
    for vector in vectors:
        noisy = [add_noise(vector.astype(np.int64)) for _ in range(auditor.draws)]
        scores.append((np.array(noisy) - vectors[0]) @ difference)
    return scores[0], scores[1]


def _membership(auditor: _Auditor) -> Iterator[PolicyAttack]:
    """Spend the whole budget on one release, and test whether a record was there."""
    mu = auditor.budget()
    if mu == 0.0:
        return
    for kind in ("distance to a target", "number of records"):
        outside, inside = [], []
        for row in auditor.targets():
            release: Release = auditor.release(mu, row)
            if kind == "number of records":
                release = CountRecords(privacy_mu=mu)
            one, two = _noisy_scores(auditor, release, auditor.without(row), auditor.data)
            scale = max(float(np.std(one)), 1e-300)
            outside.append((one - one.mean()) / scale)
            inside.append((two - one.mean()) / scale)
        yield _measure(
            f"membership, from a release: {kind}", "all records but one",
            np.concatenate(outside), np.concatenate(inside), mu,
        )  # fmt: skip


def _versions(auditor: _Auditor) -> Iterator[PolicyAttack]:
    """Release before and after a record is added, each for half of the budget."""
    mu = auditor.budget()
    if mu == 0.0:
        return
    half = mu / 2.0**0.5
    outside, inside = [], []
    for row in auditor.targets():
        release, absent = auditor.release(half, row), auditor.without(row)
        before = _noisy_scores(auditor, release, absent, auditor.data)
        after = _noisy_scores(auditor, release, absent, auditor.data)
        scale = max(float(np.std(before[0])), 1e-300)
        # The record is in neither version, or in the later one: the earlier release is no help.
        outside.append(after[0] / scale)
        inside.append(after[1] / scale)
    yield _measure(
        "membership, from releases of two versions", "all records but one",
        np.concatenate(outside), np.concatenate(inside), mu,
    )  # fmt: skip


def _attributes(auditor: _Auditor) -> Iterator[PolicyAttack]:
    """Tell two values of a column of one record apart."""
    mu = auditor.budget()
    if mu == 0.0:
        return
    outside, inside = [], []
    for row in auditor.targets():
        column = int(auditor.rng.integers(auditor.data.dimension))
        other = auditor.changed(row, column)
        ends = np.stack([auditor.data.points[row], other.points[row]])
        # The distance to one of the two possible values, cut at the other: a record at the first
        # adds nothing, and at the second the most that any record may add.
        release = SummarizeRecords(
            privacy_mu=mu,
            target=ends[:1],
            target_weights=np.ones(1),
            reaches=np.array([max(float(np.linalg.norm(ends[0] - ends[1])), 1e-9)]),
            shares=np.array([0.01, 1.0, 1.0]),
        )
        one, two = _noisy_scores(auditor, release, auditor.data, other)
        scale = max(float(np.std(one)), 1e-300)
        outside.append(one / scale)
        inside.append(two / scale)
    # Two values of a record are two neighbours apart: one leaves, the other comes.
    yield _measure(
        "attribute: which of two values", "all other records, and all other values of this one",
        np.concatenate(outside), np.concatenate(inside), 2.0 * mu,
    )  # fmt: skip


def _oracles(auditor: _Auditor) -> Iterator[PolicyAttack]:
    """Compare codes and sizes of replies with and without a record: they must not differ."""
    row = next(auditor.targets())
    questions: list[Question] = [Records(), Moments(), Spread(), CountRecords(privacy_mu=0.1)]
    questions.append(auditor.release(0.1, row))
    differing = 0
    for question in questions:
        replies = [auditor.answer(data, question) for data in (auditor.data, auditor.without(row))]
        shapes = [
            reply.code if isinstance(reply, Failure) else
            {name: array.shape for name, array in reply.arrays.items()}
            for reply in replies
        ]  # fmt: skip
        differing += shapes[0] != shapes[1]
    if auditor.policy.level != "record":
        yield PolicyAttack(
            name="refusals, codes and sizes of answers",
            knows="all records but one",
            auc=0.5 + 0.5 * (differing > 0),
            interval=(0.5, 0.5 + 0.5 * (differing > 0)),
            power=FALSE_ALARMS if not differing else 1.0,
            bound_auc=0.5,
            bound_power=FALSE_ALARMS,
        )


def _statistics(auditor: _Auditor) -> Iterator[PolicyAttack]:
    """Test everybody by exact statistics, knowing the distribution alone."""
    points = auditor.data.points
    half = auditor.rng.permutation(len(points))
    members, others = half[: len(half) // 2], half[len(half) // 2 :]
    spread = points.std(axis=0)
    units = np.where(spread > 0, spread, 1.0)
    kinds: dict[str, tuple[Question, Callable[[Answer], Array]]] = {
        "moments": (Moments(), lambda answer: _mean_scores(points, answer.arrays["mean"], units)),
        "spread": (Spread(), lambda answer: _mean_scores(points, answer.arrays["mean"], units)),
    }
    features = MeanFeatures(features=2048, bandwidth=float(spread.mean() or 1.0), seed=0)
    kinds["mean-features"] = (features, lambda answer: _feature_scores(points, answer, features))
    for name, (question, score) in kinds.items():
        answer = Holder(points[members], auditor.policy, Ledger()).answer(question)
        if isinstance(answer, Failure):
            continue
        scores = score(answer)
        yield _measure(
            f"membership, from one exact answer: {name}", "the distribution",
            scores[others], scores[members], None,
        )  # fmt: skip
    row = next(auditor.targets())
    reference = points[[row]]
    question = DistanceTo(reference=reference, reference_weights=np.ones(1))
    answers = [auditor.answer(data, question) for data in (auditor.without(row), auditor.data)]
    if all(isinstance(answer, Answer) for answer in answers):
        yield PolicyAttack(
            name="membership, from one exact answer: distance-to", knows="all records but one",
            auc=1.0, interval=(1.0, 1.0), power=1.0, bound_auc=None, bound_power=None,
        )  # fmt: skip


def _mean_scores(points: Array, mean: Array, units: Array) -> Array:
    """Score records by how much they pull the mean of the members to their side."""
    centred = (points - points.mean(axis=0)) / units
    return centred @ ((mean - points.mean(axis=0)) / units)


def _feature_scores(points: Array, answer: Answer, question: MeanFeatures) -> Array:
    own = np.array([
        question.compute(point[None], np.ones(1)).arrays["mean"] for point in points
    ])  # fmt: skip
    return (own - own.mean(axis=0)) @ (answer.arrays["mean"] - own.mean(axis=0))


def _measure(
    name: str, knows: str, outside: Array, inside: Array, mu: float | None
) -> PolicyAttack:
    """Measure an attack by the scores it gives to absent and to present records."""
    ranks = rankdata(np.concatenate([outside, inside]))[len(outside) :]
    m, n = len(outside), len(inside)
    auc = float((ranks.mean() - (n + 1) / 2.0) / m)
    # Hanley and McNeil (1982): the error of an area under the curve.
    first, second = auc / (2.0 - auc), 2.0 * auc**2 / (1.0 + auc)
    variance = auc * (1 - auc) + (n - 1) * (first - auc**2) + (m - 1) * (second - auc**2)
    error = float(norm.ppf(0.975)) * (max(variance, 0.0) / (m * n)) ** 0.5
    power = float((inside > np.quantile(outside, 1.0 - FALSE_ALARMS)).mean())
    # The cut itself is estimated, from a hundredth of the absent records.
    tail = FALSE_ALARMS * m
    power_error = (power * (1.0 - power) / n + (power / tail**0.5) ** 2) ** 0.5
    return PolicyAttack(
        name=name,
        knows=knows,
        auc=auc,
        interval=(max(auc - error, 0.0), min(auc + error, 1.0)),
        power=power,
        power_error=power_error,
        bound_auc=None if mu is None else largest_auc(mu),
        bound_power=None if mu is None else largest_power(mu, FALSE_ALARMS),
    )


ATTACKS = (_membership, _versions, _attributes, _oracles, _statistics)
"""What is tried, in this order."""
