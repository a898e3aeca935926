"""The audit of a run: every attack on every party."""

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

from ..data.matching import match_columns
from ..data.measure import Data, Measure
from ..distances.questions import Records
from ..errors import InputError, MismatchError
from ..federation.answer import Failure
from ..federation.party import Own
from ..federation.protocol import COORDINATOR
from ..federation.transcript import Transcript
from . import attacks as records
from . import membership, models
from .attacks import Facts
from .case import Candidates, Case, Labels, View
from .inversion import Array, Guess, InapplicableError
from .membership import Scores, measured
from .metrics import check_vocabulary, membership_auc, score, word_rates
from .models import Copy
from .result import Attack, Audit
from .time_limit import OutOfTimeError, stop_attacks_after

Vocabulary = tuple[Sequence[str], npt.ArrayLike]

Finding = Guess | Scores | Copy | Facts
"""What an attack returns."""

ATTACKS: Mapping[str, Callable[[Case], Finding]] = {
    "reading": records.reading,
    "direct-inversion": records.direct,
    "projection-inversion": records.projection,
    "unknown-parameter": records.unknown_parameter,
    "trilateration": records.trilateration,
    "extrapolation": records.extrapolation,
    "cell-means": records.cell_means,
    "sketch-reading": records.sketch_reading,
    "parameter-inversion": models.parameter_inversion,
    "model-extraction": models.model_extraction,
    "prediction-membership": membership.prediction_membership,
    "parameter-membership": membership.parameter_membership,
    "feature-membership": membership.feature_membership,
    "mean-membership": membership.mean_membership,
    "traffic": records.traffic,
}
"""The attacks by name; one that does not apply raises ``InapplicableError``."""

# The others end at once, whatever the number of records, rounds or candidates.
_LONG = {"projection-inversion", "unknown-parameter", "model-extraction", "prediction-membership"}
_OUTSIDERS, _PUBLIC = "the outsiders", "the public records"


@dataclass(frozen=True)
class _Truth:
    """What results are compared with: records with labels, vectors of words."""

    records: Mapping[str, tuple[Array, Labels | None]]
    vectors: Array | None
    seed: int

    @property
    def of_parties(self) -> dict[str, Array]:
        """Records of the parties."""
        others = (_OUTSIDERS, _PUBLIC)
        return {name: rows for name, (rows, _) in self.records.items() if name not in others}

    def of(self, name: str) -> tuple[Array | None, Labels | None]:
        """Return records and labels, ``None`` where they are missing."""
        return self.records.get(name, (None, None))

    def candidates(self, target: str) -> Candidates | None:
        """Return records of a party and others, ``None`` where either is missing."""
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
    attacks: Mapping[str, Callable[[Case], Finding]] = ATTACKS,
    time_limit: float | None = None,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Audit:
    r"""Run every attack that applies on what one party saw of a run.

    An interpolant :math:`\eta = (1 - t) x + t\, T` with :math:`T` the barycentric image of the
    records under their optimal plan to a known reference has exactly one inverse,

    .. math:: x = \frac{\eta - t\, \Pi_K(\eta / t)}{1 - t}

    with :math:`\Pi_K` the projection on all such images. The other attacks compute an interpolant
    where none was sent, estimate t where it was kept secret, read means that are records, or test
    membership. Long searches for records behind means of several are not among them.

    Parameters
    ----------
    transcript
        Messages of the run.
    viewpoint
        ``"coordinator"``, who saw all messages, or a holder, who saw its own; several of them with
        commas between, who put together what they saw; or ``"eavesdropper"``, who cannot open
        messages and sees how long they are and when they travel.
    truth
        True records by party, measures or arrays (n, d). ``silot.distance`` names its holders
        ``"x"`` and ``"y"``; the coordinator's own records go by ``"coordinator"``. Without it
        rates are ``None``, and the audit reports only what the messages themselves prove.
    image_shape
        Shape of a record as a picture, such as (28, 28), for the report.
    vocabulary
        Words and their vectors (m, d), where records are word vectors: ``matching_rate`` is the
        share of records whose word is recovered.
    outsiders
        Records of the same kind that were not in the data, for ``membership_auc``; with labels
        where membership shows in them.
    public
        Labelled records that are neither: models trained on them say what a model that was not
        trained on a record says of it.
    hide_t
        Attack as if the interpolation parameter had not been seen.
    attacks
        Attacks by name. Each is a function of a ``silot.audits.Case``.
    time_limit
        Seconds after which long attacks are stopped: ``not_finished`` names them. Fast attacks
        come first. Without it every attack comes to its end.
    seed
        Seed of everything random in the attacks.
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
        data that are not a measure.
    MismatchError
        Truth of an unknown party, or of another dimension than the records of the run.

    Notes
    -----
    Monotone maps and uniqueness: docs/privacy.md.

    Examples
    --------
    >>> import numpy as np
    >>> import silot
    >>> rng = np.random.default_rng(0)
    >>> x, y = rng.normal(size=(40, 3)), rng.normal(size=(30, 3))
    >>> run = silot.distance(x, y, method="trianglewad", seed=1)
    >>> silot.audit(run.transcript, truth={"x": x, "y": y}).exact_rates
    {'x': 1.0, 'y': 1.0}
    """
    view = View.of(transcript, viewpoint)
    vectors = None if vocabulary is None else check_vocabulary(*vocabulary)
    truths = _Truth(_read(_of_parties(truth, view), outsiders, public), vectors, seed)
    shape = _shape(image_shape)
    hidden = flag(hide_t, "hide_t", "option-hide-t")
    deadline = _deadline(time_limit)
    cases = [
        Case(view, target, hide_t=hidden, seed=seed, candidates=truths.candidates(target))
        for target in view.targets
    ]
    # The fast ones first, whoever they are after: a time limit then costs least.
    order = sorted(
        product(cases, attacks), key=lambda pair: pair[1] in _LONG or pair[1] not in ATTACKS
    )
    results: dict[tuple[str, str], Attack] = {}
    report = progress or (lambda done, of: None)
    for case, name in order:
        report(len(results), len(order))
        with stop_attacks_after(deadline):
            results[case.target, name] = _attacked(case, name, attacks[name], truths)
    report(len(order), len(order))
    return Audit(
        viewpoint=viewpoint,
        protocol=view.protocol,
        targets=view.targets,
        attacks=tuple(results[pair] for pair in product(view.targets, attacks)),
        image_shape=shape,
        truth=truths.of_parties,
        level="" if view.level is None else str(view.level),
        refused=view.refused,
        time_limit=time_limit,
    )


def _of_parties(truth: Mapping[str, Data] | None, view: View) -> Mapping[str, Data]:
    parties = (*view.holders, COORDINATOR)
    for name in truth or {}:
        if name not in parties:
            raise MismatchError(
                f"the truth names {name!r}, but the parties of the run are {', '.join(parties)}.",
                code="audit-truth",
            )
    return truth or {}


def _read(
    truth: Mapping[str, Data], outsiders: Data | None, public: Data | None
) -> dict[str, tuple[Array, Labels | None]]:
    """Return records of positive weight, as their owner would send them, and their labels."""
    everything = {**truth, _OUTSIDERS: outsiders, _PUBLIC: public}
    measures = {name: Measure.of(data) for name, data in everything.items() if data is not None}
    # Their columns are brought into the order of the holders' columns.
    last = (COORDINATOR, _OUTSIDERS, _PUBLIC)
    return {name: _records(measure) for name, measure in match_columns(measures, last).items()}


def _records(measure: Measure) -> tuple[Array, Labels | None]:
    answer = Own(measure).answer(Records())
    if isinstance(answer, Failure):
        raise InputError("the truth has no records.", code=answer.code)
    names = measure.names
    labels = None if names is None else names[measure.weights > 0]
    return answer.array("points", ndim=2), labels


def _shape(shape: Sequence[int] | None) -> tuple[int, ...] | None:
    if shape is None:
        return None
    sizes = tuple(int(k) for k in shape)
    if len(sizes) not in (2, 3) or min(sizes) < 1 or (len(sizes) == 3 and sizes[2] not in (1, 3)):
        raise InputError(
            f"the image shape is {sizes}; give (height, width), or (height, width, 3).",
            code="option-image-shape",
        )
    return sizes


def _deadline(time_limit: float | None) -> float:
    """Return when long attacks are stopped, in seconds of ``time.monotonic``."""
    if time_limit is None:
        return math.inf
    if not real(time_limit, "time_limit", "option-time-limit") > 0:
        raise InputError(
            f"time_limit is {time_limit!r}; seconds above 0 are needed.", code="option-time-limit"
        )
    return time.monotonic() + time_limit


def _attacked(case: Case, name: str, attack: Callable[[Case], Finding], truths: _Truth) -> Attack:
    try:
        fields = _fields(case, attack(case), truths)
    except OutOfTimeError:
        fields = {"applicable": False, "finished": False, "reason": "the time limit was reached"}
    except InapplicableError as lack:
        fields = {"applicable": False, "reason": str(lack)}
    return Attack(name=name, target=case.target, **fields)


def _fields(case: Case, finding: Finding, truths: _Truth) -> dict[str, Any]:
    """Return the fields of an ``Attack``."""
    if isinstance(finding, Facts | Copy):
        return dict(vars(finding))
    if isinstance(finding, Scores):
        members = measured(finding, truths.seed)
        return {**{f"membership_{k}": v for k, v in vars(members).items()}, "note": finding.note}
    truth, _ = truths.of(case.target)
    rows = _without_label_coordinates(case, finding, truth)
    fields = {
        "rows": len(rows),
        "certified": finding.certified,
        "certified_rate": None if finding.proven is None else float(np.mean(finding.proven)),
        "note": finding.note,
        "ordered": finding.ordered,
        "recovered": rows,
    }
    if truth is None:
        return fields
    return {**fields, **_rates(rows, truth, finding.ordered, truths)}


def _rates(rows: Array, truth: Array, ordered: bool, truths: _Truth) -> dict[str, Any]:
    """Measure how good rows are."""
    rates = vars(score(rows, truth, ordered=ordered, seed=truths.seed)).copy()
    if truths.vectors is not None:
        matching, cosine = word_rates(rows, truth, truths.vectors, ordered=ordered)
        rates |= {"matching_rate": matching, "cosine": cosine}
    outsiders, _ = truths.of(_OUTSIDERS)
    if outsiders is not None:
        if outsiders.shape[1] != truth.shape[1]:
            raise MismatchError(
                f"outsiders have {outsiders.shape[1]} features and the truth {truth.shape[1]}.",
                code="dimension-mismatch",
            )
        rates["membership_auc"] = membership_auc(rows, truth, outsiders)
    return rates


def _without_label_coordinates(case: Case, guess: Guess, truth: Array | None) -> Array:
    columns = guess.rows.shape[1]
    # A label adds the mean and the covariance of its class: all of it, or its diagonal.
    widths = {"none": columns, "full": round((columns + 1) ** 0.5) - 1}
    width = widths.get(case.embedding, columns // 3)
    if truth is not None and truth.shape[1] != width:
        raise MismatchError(
            f"the truth of {case.target!r} has {truth.shape[1]} features and the records of the "
            f"run have {width}.",
            code="dimension-mismatch",
        )
    return guess.rows[:, :width]
