"""An audit of a release: what it was seen to spend, against what it says it spends.

Two neighbouring data sets are released many times. Someone who tells the two apart knows the
direction in which the exact vectors differ (the likelihood ratio of Gaussian noise is a function of
the answer's component along it), picks a threshold on half of the answers, and counts hits and
false alarms on the other half. Clopper-Pearson bounds on the two rates bound from below what the
release must have spent, whatever it claims.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta, norm

import silot
from silot import Measure, Policy, load_measure
from silot.distances.questions import encode_classes
from silot.distances.sketches.questions import SummarizeRecords
from silot.federation import Answer, Holder
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question
from silot.federation.release import Release
from silot.privacy import Ledger, mu_of
from silot.privacy.mechanism import noise_for
from silot.privacy.summary import reach_of

from .neighbours import noiseless
from .neighbours import told as told_by

Asked = Sequence[Release]

# One false alarm in ten thousand audits: the noise has no seed, so an audit cannot be repeated.
RISK = 1e-4
POLICY = Policy(privacy_epsilon=50.0)
BLOCKS = ("features", "distance")
"""What a summary may have beside the sizes."""


@dataclass(frozen=True)
class Seen:
    """Lower bounds on what a release spends, each of them valid at the risk asked for.

    Attributes
    ----------
    mu
        From the rates of a Gaussian test: hits and false alarms of any test of a release that
        spends mu differ by at most mu in units of the normal quantile.
    epsilon
        From the definition alone: hits are at most exp(epsilon) false alarms plus delta.
    """

    mu: float
    epsilon: float


def seen(without: np.ndarray, with_: np.ndarray, delta: float, risk: float = RISK) -> Seen:
    """Bounds from the test statistic of answers to two neighbouring data sets."""
    half = len(without) // 2
    threshold = _threshold(without[:half], with_[:half])
    trials = len(without) - half
    hits = int((with_[half:] > threshold).sum())
    alarms = int((without[half:] > threshold).sum())
    # Both rates at once, in both directions: what is rare may be the hit or the miss.
    least_hits, least_misses = _least(hits, trials, risk), _least(trials - alarms, trials, risk)
    most_alarms, most_right = 1 - least_misses, 1 - least_hits
    epsilon = max(
        math.log(max(least_hits - delta, 1e-300) / most_alarms),
        math.log(max(least_misses - delta, 1e-300) / most_right),
        0.0,
    )
    mu = float(norm.ppf(least_hits) - norm.ppf(most_alarms))
    return Seen(mu=max(mu, 0.0), epsilon=epsilon)


def _threshold(without: np.ndarray, with_: np.ndarray) -> float:
    """Where hits and misses are told apart best."""
    places = np.quantile(np.concatenate([without, with_]), np.linspace(0.02, 0.98, 97))
    gains = [(with_ > place).mean() - (without > place).mean() for place in places]
    return float(places[int(np.argmax(gains))])


def _least(count: int, trials: int, risk: float) -> float:
    """Clopper-Pearson lower bound on a rate."""
    return float(beta.ppf(risk / 2, count, trials - count + 1)) if count else 0.0


def direction(release: Release, without: Measure, with_: Measure) -> np.ndarray:
    """The difference of the exact vectors, which nobody outside could know so well."""
    change = _exact(release, with_) - _exact(release, without)
    return change / max(float(np.linalg.norm(change)), 1e-300)


def _exact(release: Release, measure: Measure) -> np.ndarray:
    return release.exact(measure.points, measure.masses, measure.names)


def audit(
    release: Release,
    without: Measure,
    with_: Measure,
    *,
    runs: int = 4000,
    delta: float = 1e-5,
    charged: float | None = None,
) -> Seen:
    """Audit ``exact`` and the noise; ``charged`` is what noise is drawn for, if another mu."""
    along = direction(release, without, with_)
    answers = [
        draw(release, _exact(release, side), runs, charged) @ along for side in (without, with_)
    ]
    return seen(*answers, delta)


def draw(
    release: Release, exact: np.ndarray, runs: int, charged: float | None = None
) -> np.ndarray:
    """Answers (runs, m). Noise is independent by coordinate, so one call draws all of them."""
    noise = noise_for(release.sensitivity, charged or release.privacy_mu)
    return noise(np.tile(exact, runs)).reshape(runs, len(exact))


def audit_holder(
    asked: Callable[[int], Release],
    without: Measure,
    with_: Measure,
    *,
    runs: int = 2000,
    delta: float = 1e-5,
) -> Seen:
    """Audit the answers that leave a holder, ledger and bytes included; a new ledger each time."""
    along = direction(asked(0), without, with_)
    policy = Policy.open()

    def statistic(measure: Measure, run: int) -> float:
        answer = Holder(measure, policy, Ledger()).answer(asked(run))
        assert isinstance(answer, Answer)
        (vector,) = answer.arrays.values()
        return float(vector @ along)

    answers = [np.array([statistic(side, run) for run in range(runs)]) for side in (without, with_)]
    return seen(*answers, delta)


def asked_by_sketches(measure: Measure, public: Measure, epsilon: float, **options: Any) -> Asked:
    """All that one run of ``silot.api.sketches`` asks a holder."""
    found = silot.api.sketches(
        {"north": measure},
        public=public,
        labels=public.labelled,
        privacy_epsilon=epsilon,
        **options,
    )
    assert found.transcript is not None
    entries = [entry for entry in found.transcript.entries if entry.direction == "sent"]
    questions = [entry.open() for entry in entries]
    return [question for question in questions if isinstance(question, Release)]


def asked_by_summaries(
    measure: Measure, public: Measure, epsilon: float, blocks: Collection[str] = BLOCKS
) -> Asked:
    """Build one release of sizes and of some blocks: those of ``BLOCKS``, by default all at once.

    Public classes and their distances count where the public records have labels.
    """
    names = [] if public.names is None else sorted(set(public.names.tolist()))
    fields: dict[str, Any] = {"classes": encode_classes(names)} if names else {}
    if "features" in blocks:
        fields |= {"features": 8, "scale": np.ones(public.dimension), "bandwidth": 2.0}
    if "distance" in blocks:
        target, weights = public.points[:40], np.full(40, 1.0 / 40)
        reaches = np.array([reach_of(target, weights, share) for share in (4.0, 32.0)])
        fields |= {"target": target, "target_weights": weights, "reaches": reaches}
        if public.names is not None:
            codes = np.array([names.index(name) for name in public.names[:40].tolist()])
            fields |= {"target_codes": codes, "table": 1.0 - np.eye(len(names))}
    shares = np.array([0.1, 0.4, 0.3, 0.2])
    question = SummarizeRecords(
        privacy_mu=mu_of(epsilon, 1e-5), shares=shares[: 4 if "distance" in blocks else 2], **fields
    )
    question.check(measure.dimension, measure.labelled)
    return [question]


def audit_files(
    asked: Asked,
    without: Path,
    with_: Path,
    options: dict[str, Any],
    *,
    runs: int,
    delta: float = 1e-5,
    risk: float = RISK,
) -> Seen:
    """Audit all that holders of two files reply, from the file to the bytes.

    The statistic is the likelihood ratio of all replies together: each change in units of its
    noise. Every run has a new ledger, for a question is answered once.
    """
    messages = [encode_question(question) for question in asked]
    with noiseless():
        exact = [told_by(file, options, asked) for file in (without, with_)]
    assert exact[0] is not None and exact[1] is not None
    along = [
        (after - before) * (question.privacy_mu / question.sensitivity) ** 2
        for question, before, after in zip(asked, *exact, strict=True)
    ]

    def statistic(measure: Measure) -> float:
        holder = Holder(measure, POLICY, Ledger())
        total = 0.0
        for message, direction_ in zip(messages, along, strict=True):
            answer = decode_reply(holder.reply(message))
            assert isinstance(answer, Answer), answer
            (vector,) = answer.arrays.values()
            total += float(vector @ direction_)
        return total

    measures = [load_measure(file, **options) for file in (without, with_)]
    answers = [np.array([statistic(side) for _ in range(runs)]) for side in measures]
    return seen(*answers, delta, risk)


def spent(asked: Asked) -> float:
    """What the questions together say they spend, as mu."""
    return math.hypot(*(question.privacy_mu for question in asked))
