"""The audit: every attack on every target."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from silot_transport._check import flag, real

from ..data.matching import matched
from ..data.measure import Data, Measure
from ..distances.questions.distances import Records
from ..errors import InputError, MismatchError
from ..federation.answer import Array, Failure
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..federation.transcript import Transcript
from . import attacks, ball, extraction, membership, rounds, shared, unmerge
from ._case import Case
from ._clock import OutOfTimeError, ending
from ._evidence import Guess, InapplicableError
from ._joint import Round, shares_determined
from ._likelihood import Candidates, Scores, measured
from ._metrics import check_vocabulary, membership_auc, score, word_rates
from .extraction import Copy
from .observer import View, record_width
from .result import Attack, Audit
from .traffic import Facts, traffic

Names = npt.NDArray[np.str_]
Vocabulary = tuple[Sequence[str], npt.ArrayLike]

Finding = Guess | Scores | Copy | Facts
"""What an attack finds."""

ATTACKS: dict[str, Callable[[Case], Finding]] = {
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
    "sketch-reading": attacks.sketch_reading,
    "class-means": extraction.class_means,
    "parameter-inversion": extraction.parameter_inversion,
    "model-extraction": extraction.model_extraction,
    "prediction-membership": membership.prediction_membership,
    "parameter-membership": membership.parameter_membership,
    "feature-membership": membership.feature_membership,
    "mean-membership": membership.mean_membership,
    "traffic": traffic,
}
"""The attacks by name; one that does not apply raises ``InapplicableError``."""

# What may take minutes where there are many records, rounds or candidates; the others do not.
_LONG = {"projection-inversion", "unknown-parameter", "joint-rounds", "shared-cells"}
_LONG |= {"undone-merges", "distance-balls", "model-extraction", "prediction-membership"}
_OF_MEANS = ("joint-rounds", "shared-cells")
_OUTSIDERS, _PUBLIC = "the outsiders", "the public records"
# The rank of all plans takes the cube of it.
_MOST_RECORDS = 1000


@dataclass(frozen=True)
class _Truth:
    """What results are compared with: records with labels, vectors of words."""

    records: Mapping[str, tuple[Array, Names | None]]
    vectors: Array | None
    seed: int

    @property
    def truth(self) -> dict[str, Array]:
        """Records of parties."""
        others = (_OUTSIDERS, _PUBLIC)
        return {name: rows for name, (rows, _) in self.records.items() if name not in others}

    def of(self, name: str) -> tuple[Array | None, Names | None]:
        """Records and labels, where they were given."""
        return self.records.get(name, (None, None))

    def candidates(self, target: str) -> Candidates | None:
        """Records of a party and others, where both were given."""
        (inside, labels), (outside, other_labels) = self.of(target), self.of(_OUTSIDERS)
        if inside is None or outside is None:
            return None
        return Candidates(inside, outside, labels, other_labels, *self.of(_PUBLIC))


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
    vectors = None if vocabulary is None else check_vocabulary(*vocabulary)
    known = _Truth(_read(_of_parties(truth, view), outsiders, public), vectors, seed)
    shape = _shape(image_shape)
    hidden = flag(hide_t, "hide_t", "option-hide-t")
    end = _end(time_limit)
    cases = [
        Case(view, target, hide_t=hidden, seed=seed, candidates=known.candidates(target))
        for target in view.targets
    ]
    # The fast ones first, whoever they are after: a time limit then costs least.
    order = sorted(product(cases, ATTACKS), key=lambda each: each[1] in _LONG)
    found: dict[tuple[str, str], Attack] = {}
    report = progress or (lambda done, of: None)
    for case, name in order:
        report(len(found), len(order))
        found[case.target, name] = _attacked(case, name, known, end)
    report(len(order), len(order))
    return Audit(
        viewpoint=viewpoint,
        protocol=view.protocol,
        targets=view.targets,
        attacks=tuple(found[pair] for pair in product(view.targets, ATTACKS)),
        image_shape=shape,
        truth=known.truth,
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


def _shape(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
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


def _attacked(case: Case, name: str, known: _Truth, end: float) -> Attack:
    try:
        with ending(end):
            outcome = ATTACKS[name](case)
        found = _fields(case, outcome, known)
        if isinstance(outcome, Guess) and name in _OF_MEANS:
            found |= _shares(case, known)
    except OutOfTimeError:
        found = {"applicable": False, "finished": False, "reason": "the time limit was reached"}
    except InapplicableError as lack:
        found = {"applicable": False, "reason": str(lack)}
    return Attack(name=name, target=case.target, **found)


def _fields(case: Case, outcome: Finding, known: _Truth) -> dict[str, Any]:
    """Fields of an ``Attack``."""
    if isinstance(outcome, Facts | Copy):
        return dict(vars(outcome))
    if isinstance(outcome, Scores):
        members = measured(outcome, known.seed)
        return {**{f"membership_{k}": v for k, v in vars(members).items()}, "note": outcome.note}
    truth, _ = known.of(case.target)
    rows = _plain_rows(case, outcome, truth)
    found = {
        "rows": len(rows),
        "certified": outcome.certified,
        "certified_rate": None if outcome.sure is None else float(np.mean(outcome.sure)),
        "note": outcome.note,
        "ordered": outcome.ordered,
        "recovered": rows,
    }
    return found if truth is None else {**found, **_rates(rows, truth, outcome.ordered, known)}


def _rates(rows: Array, truth: Array, ordered: bool, known: _Truth) -> dict[str, Any]:
    """How good rows are."""
    found = vars(score(rows, truth, ordered=ordered, seed=known.seed)).copy()
    if known.vectors is not None:
        matching, cosine = word_rates(rows, truth, known.vectors, ordered=ordered)
        found |= {"matching_rate": matching, "cosine": cosine}
    outsiders, _ = known.of(_OUTSIDERS)
    if outsiders is not None:
        if outsiders.shape[1] != truth.shape[1]:
            raise MismatchError(
                f"outsiders have {outsiders.shape[1]} features and the truth {truth.shape[1]}.",
                code="dimension-mismatch",
            )
        found["membership_auc"] = membership_auc(rows, truth, outsiders)
    return found


def _shares(case: Case, known: _Truth) -> dict[str, float]:
    """How much an attack on means over cells could find at all."""
    truth, _ = known.of(case.target)
    if truth is None or not case.outside or not case.view.uniform(case.target):
        return {}
    sorts = {(one.group, one.p, one.atoms.shape[1]) for one in case.cells}
    if sorts != {(0, 2, truth.shape[1])} or len(truth) > _MOST_RECORDS:
        return {}
    seen = [Round.of(one) for one in case.cells]
    tied, loose = shares_determined(truth, seen, moments=case.moments is not None)
    return {"determined": tied, "undetermined": loose}


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
