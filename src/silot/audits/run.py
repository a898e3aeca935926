"""The audit: every attack on every target."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import numpy.typing as npt

from ..data.columns import matched
from ..data.measure import Data, Measure
from ..distances.questions.distances import Records
from ..errors import InputError, MismatchError
from ..federation.answer import Array, Failure
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..federation.transcript import Transcript
from ..transport._check import as_points, flag, real
from . import (
    attacks,
    ball,
    extraction,
    membership,
    rounds,
    shared,
    sketches,
    unmerge,
    words,
)
from ._case import Case
from ._clock import OutOfTimeError, ending
from ._evidence import Guess
from ._joint import Round, shares_determined
from ._likelihood import Candidates, Scores, measured
from ._metrics import score
from .attacks import means_of
from .extraction import Copy
from .observer import View, record_width
from .result import Attack, Audit
from .traffic import Facts, traffic

Names = npt.NDArray[np.str_]
Vocabulary = tuple[Sequence[str], npt.ArrayLike]

Found = Guess | Scores | Copy | Facts | str
"""What an attack finds, or why it does not apply."""

ATTACKS: dict[str, Callable[[Case], Found]] = {
    "reading": attacks.reading,
    "direct-inversion": attacks.direct,
    "projection-inversion": attacks.projection,
    "unknown-parameter": attacks.unknown_parameter,
    "trilateration": attacks.trilateration,
    "extrapolation": attacks.extrapolation,
    "cell-means": attacks.cell_means,
    "joint-rounds": rounds.joint_rounds,
    "shared-cells": shared.shared_cells,
    "undone-merges": unmerge.undone_merges,
    "distance-balls": ball.distance_balls,
    "sketch-reading": sketches.sketch_reading,
    "class-means": extraction.class_means,
    "parameter-inversion": extraction.parameter_inversion,
    "model-extraction": extraction.model_extraction,
    "prediction-membership": membership.prediction_membership,
    "parameter-membership": membership.parameter_membership,
    "feature-membership": membership.feature_membership,
    "mean-membership": membership.mean_membership,
    "traffic": traffic,
}
"""The attacks by name."""

# What may take minutes where there are many records, rounds or candidates; the others do not.
_LONG = {"projection-inversion", "unknown-parameter", "joint-rounds", "shared-cells"}
_LONG |= {"undone-merges", "distance-balls", "model-extraction", "prediction-membership"}
_OF_MEANS = ("joint-rounds", "shared-cells")
_OUTSIDERS, _PUBLIC = "the outsiders", "the public records"
# The rank of all plans takes the cube of it.
_MOST_RECORDS = 1000


@dataclass(frozen=True)
class _Known:
    """What results are compared with."""

    truth: Mapping[str, Array]
    labels: Mapping[str, Names | None]
    outsiders: Array | None
    outsider_labels: Names | None
    public: Array | None
    public_labels: Names | None
    vectors: Array | None
    seed: int

    def candidates(self, target: str) -> Candidates | None:
        """Records of a party and others, where both were given."""
        inside = self.truth.get(target)
        if inside is None or self.outsiders is None:
            return None
        return Candidates(
            inside,
            as_points(self.outsiders, "outsiders"),
            self.labels[target],
            self.outsider_labels,
            self.public,
            self.public_labels,
        )


def audit(
    transcript: Transcript,
    viewpoint: str = COORDINATOR,
    truth: Mapping[str, Data] | None = None,
    *,
    image_shape: Sequence[int] | None = None,
    vocabulary: Vocabulary | None = None,
    outsiders: Data | None = None,
    public: Data | None = None,
    hide_t: bool = False,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    r"""Run every attack that applies on what one party saw of a run.

    An interpolant :math:`\eta = (1 - t) x + t\, T` with :math:`T` the barycentric image of the
    records under their optimal plan to a known reference has exactly one inverse,

    .. math:: x = \frac{\eta - t\, \Pi_K(\eta / t)}{1 - t}

    with :math:`\Pi_K` the projection on all such images; the other attacks reach an interpolant
    where none was sent, find t where it was kept secret, or take means of few records apart.

    Parameters
    ----------
    transcript
        Messages of the run.
    viewpoint
        ``"coordinator"``, who saw all of them, or a holder, who saw its own; several of them with
        commas between, who put together what they saw; or ``"eavesdropper"``, who cannot open
        messages and sees how long they are and when they travel.
    truth
        True records by party, measures or arrays (n, d). ``silot.distance`` names its holders
        ``"x"`` and ``"y"``; the coordinator's own records go by ``"coordinator"``. Without it
        rates are ``None``, and only what the messages themselves prove is told.
    image_shape
        Shape of a record as a picture, such as (28, 28), for the report.
    vocabulary
        Words and their vectors (m, d), where records are word vectors: ``matching_rate`` is the
        share of records whose word is found.
    outsiders
        Records of the same kind that were not in the data, for ``membership_auc``; with labels
        where membership shows in them.
    public
        Labelled records that are neither: models trained on them say what a model that has not
        seen a record says of it.
    hide_t
        Attack as if the interpolation parameter had not been seen.
    time_limit
        Seconds after which attacks that take long are given up: ``not_finished`` names them. Those
        that are fast come first. Without it every attack comes to its end.
    seed
        Of everything random in the attacks.
    progress
        Called with the number of attacks done and of all, before the first and after each.

    Returns
    -------
    Audit
        What each attack recovered of each party. What no attack recovers is not thereby safe.

    Raises
    ------
    InputError
        ``audit-viewpoint``, ``option-image-shape``, ``audit-vocabulary``, ``option-time-limit``,
        data that are no measure.
    MismatchError
        Truth of an unknown party, or of another dimension than the records of the run.

    Notes
    -----
    The attack of *Private Wasserstein Distance*, app. D.1, is ``"distance-balls"``; the others
    are ours. Monotone maps and uniqueness: docs/disclosure.md.

    Examples
    --------
    >>> import numpy as np
    >>> import silot
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    >>> run = silot.distance(x, y, method="trianglewad", seed=1)
    >>> found = silot.audit(run.transcript, truth={"x": x, "y": y})
    >>> found.exact_rates
    {'x': 1.0, 'y': 1.0}
    """
    view = View.of(transcript, viewpoint)
    vectors = None
    if vocabulary is not None:
        vectors = words.check_vocabulary(*vocabulary)[1]
    records = _read(_of_parties(truth, view), outsiders, public)
    others, other_labels = records.pop(_OUTSIDERS, (None, None))
    free, free_labels = records.pop(_PUBLIC, (None, None))
    known = _Known(
        {name: points for name, (points, _) in records.items()},
        {name: labels for name, (_, labels) in records.items()},
        others,
        other_labels,
        free,
        free_labels,
        vectors,
        seed,
    )
    shape = None if image_shape is None else _shape(image_shape)
    hidden = flag(hide_t, "hide_t", "option-hide-t")
    end = _end(time_limit)
    cases = [
        Case(view, target, hide_t=hidden, seed=seed, candidates=known.candidates(target))
        for target in view.targets
    ]
    # The fast ones first, whoever they are after: a time limit then costs least.
    order = sorted(product(cases, ATTACKS), key=lambda each: each[1] in _LONG)
    found: dict[tuple[str, str], Attack] = {}
    for case, name in order:
        if progress is not None:
            progress(len(found), len(order))
        found[case.target, name] = _timed(case, name, known, end)
    if progress is not None:
        progress(len(order), len(order))
    return Audit(
        viewpoint=viewpoint,
        protocol=view.protocol,
        targets=view.targets,
        attacks=tuple(found[pair] for pair in product(view.targets, ATTACKS)),
        image_shape=shape,
        truth=dict(known.truth),
        level="" if view.level is None else str(view.level),
        refused=view.refused,
        time_limit=time_limit,
    )


def _of_parties(truth: Mapping[str, Data] | None, view: View) -> Mapping[str, Data]:
    parties = (*view.holders, COORDINATOR)
    for name in truth or {}:
        if name not in parties:
            raise MismatchError(
                f"the truth names {name!r}; parties of the run are {', '.join(parties)}.",
                code="audit-truth",
            )
    return truth or {}


def _read(
    truth: Mapping[str, Data], outsiders: Data | None, public: Data | None
) -> dict[str, tuple[Array, Names | None]]:
    """Records of positive weight, in their order, as their owner would send them; their labels."""
    given = {**truth, _OUTSIDERS: outsiders, _PUBLIC: public}
    measures = {name: Measure.of(data) for name, data in given.items() if data is not None}
    last = (COORDINATOR, _OUTSIDERS, _PUBLIC)
    return {name: _records(measure) for name, measure in matched(measures, last).items()}


def _records(measure: Measure) -> tuple[Array, Names | None]:
    answer = Own(measure).answer(Records())
    if isinstance(answer, Failure):
        raise InputError("the truth has no records.", code=answer.code)
    names = measure.names
    labels = None if names is None else names[measure.weights > 0]
    return answer.array("points", ndim=2), labels


def _shape(shape: Sequence[int]) -> tuple[int, ...]:
    found = tuple(int(k) for k in shape)
    if len(found) not in (2, 3) or min(found) < 1 or (len(found) == 3 and found[2] not in (1, 3)):
        raise InputError(
            f"the image shape is {found}; give (height, width), or (height, width, 3).",
            code="option-image-shape",
        )
    return found


def _end(time_limit: float | None) -> float:
    """When attacks are given up, by ``time.monotonic``."""
    if time_limit is None:
        return math.inf
    if not real(time_limit, "time_limit", "option-time-limit") > 0:
        raise InputError(
            f"time_limit is {time_limit!r}; seconds above 0 are needed.", code="option-time-limit"
        )
    return time.monotonic() + time_limit


def _timed(case: Case, name: str, known: _Known, end: float) -> Attack:
    cut = Attack(name=name, target=case.target, applicable=False, finished=False)
    try:
        with ending(end):
            outcome = ATTACKS[name](case)
    except OutOfTimeError:
        return replace(cut, reason="the time limit was reached")
    return _attacked(case, name, outcome, known)


def _attacked(case: Case, name: str, outcome: Found, known: _Known) -> Attack:
    if isinstance(outcome, str):
        return Attack(name=name, target=case.target, applicable=False, reason=outcome)
    if not isinstance(outcome, Guess):
        return _without_rows(Attack(name=name, target=case.target), outcome, known.seed)
    truth = known.truth.get(case.target)
    rows = _plain_rows(case, outcome, truth)
    found = Attack(
        name=name,
        target=case.target,
        rows=len(rows),
        certified=outcome.certified,
        certified_rate=None if outcome.sure is None else float(np.mean(outcome.sure)),
        note=outcome.note,
        ordered=outcome.ordered,
        recovered=rows,
    )
    if truth is None:
        return found
    found = _measured(found, rows, truth, outcome.ordered, known)
    return _with_shares(found, case, truth) if name in _OF_MEANS else found


def _with_shares(found: Attack, case: Case, truth: Array) -> Attack:
    """How much an attack on means over cells could find at all."""
    usable = case.outside and all(one.group == 0 and one.p == 2 for one in case.cells)
    if not usable or len(truth) > _MOST_RECORDS or not case.view.uniform(case.target):
        return found
    if any(one.t is None or one.atoms.shape[1] != truth.shape[1] for one in case.cells):
        return found
    seen = [Round(means_of(one), one.reference, one.reference_weights) for one in case.cells]
    tied, loose = shares_determined(truth, seen, moments=case.moments is not None)
    return replace(found, determined=tied, undetermined=loose)


def _without_rows(found: Attack, outcome: Scores | Copy | Facts, seed: int) -> Attack:
    """What an attack found that guesses no records."""
    if isinstance(outcome, Facts):
        return replace(found, facts=True, note=outcome.text)
    if isinstance(outcome, Copy):
        return replace(
            found,
            agreement=outcome.agreement,
            agreement_chance=outcome.chance,
            note=outcome.note,
        )
    members = measured(outcome, seed)
    return replace(
        found,
        membership_auc=members.auc,
        membership_interval=members.interval,
        membership_tpr=members.tpr,
        note=outcome.note,
    )


def _measured(found: Attack, rows: Array, truth: Array, ordered: bool, known: _Known) -> Attack:
    rates = score(rows, truth, ordered=ordered, seed=known.seed)
    found = replace(
        found,
        exact_rate=rates.exact_rate,
        reidentification_rate=rates.reidentification_rate,
        chance=rates.chance,
        relative_rmse=rates.relative_rmse,
    )
    if known.vectors is not None:
        matching, cosine = words.word_rates(rows, truth, known.vectors, ordered=ordered)
        found = replace(found, matching_rate=matching, cosine=cosine)
    if known.outsiders is not None:
        outsiders = as_points(known.outsiders, "outsiders")
        if outsiders.shape[1] != truth.shape[1]:
            raise MismatchError(
                f"outsiders have {outsiders.shape[1]} features and the truth {truth.shape[1]}.",
                code="dimension-mismatch",
            )
        found = replace(found, membership_auc=words.membership_auc(rows, truth, outsiders))
    return found


def _plain_rows(case: Case, guess: Guess, truth: Array | None) -> Array:
    """Rows without label coordinates."""
    width = record_width(case.embedding, guess.rows.shape[1])
    if truth is not None and truth.shape[1] != width:
        raise MismatchError(
            f"the truth of {case.target!r} has {truth.shape[1]} features and the records of the "
            f"run have {width}.",
            code="dimension-mismatch",
        )
    return guess.rows[:, :width]


__all__ = ["ATTACKS", "audit"]
