"""Score how likely each record is faulty, compared with the coordinator's validation data."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from ..distances.questions import ClassSizes, Codes, Describe, LabelledRecords, decode_classes
from ..distances.shared_options import seed_option, switch
from ..distances.sides import agree_on_dimension, build_misfit_error, read_weights
from ..errors import InputError
from ..federation.answer import Answer, Array
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, required
from ..federation.question import Answerer, Question
from ..options import option, part
from ..render.words import count
from ._arrays import Flags
from .flags import needed
from .questions.scores import ScreenRecords
from .result import Estimate, RecordScores, Screening
from .scoring import Scoring, build_scoring
from .screen import FARTHEST, KINDS, NAMED, Screen, Screened

# Models of the validation data of a party, by seed and labels: holders are asked one by one.
_FITTED: WeakKeyDictionary[Answerer, dict[tuple[bool, int], tuple[Screen, Codes, str]]] = (
    WeakKeyDictionary()
)


class RecordScreening(Scoring):
    r"""Screen a holder's records with models of the coordinator's validation records.

    The coordinator fits models on its own validation records and sends them, with these records,
    to the holder, who computes for each of its own

    - the likelihood ratio of a wrong label against a right one,
      :math:`\sum_{k \ne l} p(k | x) / ((C - 1)\, p(l | x))`, from models of validation records
      (``silot.records.labels``) and others that learn from the holder's records too and did not
      see this one (``silot.records.learning``);
    - the likelihood ratio of faulty features against clean ones, from its potential, how badly
      each column fits the others, and its nearest neighbours (``silot.records.features``);
    - how far out each value is in its column (``silot.records.columns``);
    - of which earlier record it is a copy.

    These add to log odds, by the share of each fault that is sure. Records are flagged by the share
    of clean ones that the odds expect among the flagged, checked against the validation records,
    each judged by the others (``silot.records.flags.rank_by_odds``).

    ``own`` is an ``Own(measure)`` with the validation data, which is trusted.

    Returns
    -------
    Protocol[RecordScores]
        Discloses something of every record; and shows the validation records and models fitted
        on them to the holder.

    Raises
    ------
    InputError
        ``option-fdr``. ``validation-few``: too few validation records for the level, or for
        anything. ``labels-absent``.

    Notes
    -----
    Labels are judged with the class shares of the validation data. Where a holder's records
    differ from these as a whole, all of them are suspect, and the status says so.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> from silot.federation import LocalFederation, Own
    >>> x = np.random.default_rng(0).normal(size=(200, 5))
    >>> x[0] += 9.0
    >>> fed = LocalFederation({"seller": x[:100]})
    >>> int(fed.run(RecordScreening().at("seller", Own(Measure(x[100:])))).worst[0])
    0
    """

    name = "records"

    labels: bool = switch("Whether labels may be wrong too.", flag=False)
    fdr: float = option(
        "Share of the flagged records that may be clean, from 0 (nothing is flagged) up to, not "
        "including, 1.",
        part(),
        default=0.1,
        brief="Share of the flagged records that may be clean. Default: 0.1; 0: no flags.",
    )
    seed: int = seed_option(
        "Seed of trees, folds and the random faults from which faulty features are learned."
    )

    def at(self, holder: str, own: Answerer) -> Protocol[RecordScores]:
        run = RecordsRun(holder, own, self)
        return Protocol(
            self.name, (holder,), Disclosure.RECORD, run.start, self.values(), expected_rounds=2
        )


records = build_scoring(RecordScreening)


@dataclass(frozen=True)
class RecordsRun:
    """One run: options, the holder and validation data."""

    holder: str
    own: Answerer
    options: RecordScreening
    trusted: str = "validation"

    def start(self) -> Steps[RecordScores]:
        screen, kept, classes = fitted(self.own, labels=self.options.labels, seed=self.options.seed)
        check_enough(screen, self.options.fdr)
        described = required((yield {self.holder: Describe()}), self.holder)
        dimension = int(described.number("dimension"))
        agree_on_dimension({self.holder: dimension, COORDINATOR: screen.points.shape[1]})
        question = ScreenRecords.of(screen, classes, fdr=self.options.fdr, seed=self.options.seed)
        answer = required((yield {self.holder: question}), self.holder)
        return self.result(screen, kept, classes, answer)

    def result(self, screen: Screen, kept: Codes, classes: str, answer: Answer) -> RecordScores:
        """Read an answer, which may come from anybody."""
        screened, weights = read_screened(answer, screen)
        names = np.array(decode_classes(classes)) if screen.classes else None
        kinds = np.array(KINDS)[screened.kinds]
        counted = int((weights > 0).sum())
        broken = {
            name: Estimate(*(counted * screened.shares[row]).tolist())
            for row, name in enumerate(("label", "features", "all"))
            if names is not None or name != "label"
        }
        flagged = screened.kinds > 0
        return RecordScores(
            name=self.holder,
            scores=screened.scores,
            flagged=flagged,
            method="screening",
            fdr=self.options.fdr,
            screening=Screening(
                labels=None if names is None else screened.labels,
                features=screened.features,
                kinds=kinds,
                suggested=None if names is None else names[screened.suggested],
                has_known_label=screened.judged > 0,
                copy_of=screened.origin,
                nearest=kept[screened.nearest],
                columns=screened.columns,
                residuals=screened.residuals,
                precision=screened.precision,
                broken=broken,
            ),
            rule=self._rule(),
            status=self._status(screen, screened, flagged),
            converged=True,
            seed=self.options.seed,
        )

    def _rule(self) -> str:
        if self.options.fdr == 0:
            return "fdr is 0: nothing is flagged"
        return (
            f"about {100 * self.options.fdr:g} % of the flagged records may be clean: by "
            "likelihood ratios of labels and of features, each checked on the "
            f"{self.trusted} records"
        )

    def _status(self, screen: Screen, screened: Screened, flagged: Flags) -> str:
        text = f"screened with {len(screen.points)} {self.trusted} records"
        if self.options.labels and screen.classes == 0:
            text += "; these have one class only, so labels were not judged"
        strange = int((screened.judged == 0).sum()) if screen.classes else 0
        if strange:
            verb = "has a class" if strange == 1 else "have classes"
            text += (
                f"; {count(strange, 'record')} {verb} that the {self.trusted} data lack: their "
                "labels were not judged; see the suggested labels"
            )
        same = int((screened.apart == 0).sum())
        # Equal ones among the validation records make it chance.
        if same and len(np.unique(screen.points, axis=0)) == len(screen.points):
            text += f"; {count(same, 'record')} equal {self.trusted} records"
        if screen.differs(screened.apart) or flagged.mean() > 0.5:
            text += (
                f"; the holder's data as a whole differ from the {self.trusted} data, so these "
                "cannot show which of its records are faulty"
            )
        return text


def fitted(own: Answerer, *, labels: bool, seed: int) -> tuple[Screen, Codes, str]:
    """Models of the coordinator's validation records, which of them, and classes as they travel."""
    models = _FITTED.setdefault(own, {})
    if (labels, seed) not in models:

        def mine(question: Question) -> Answer:
            return required({COORDINATOR: own.answer(question)}, COORDINATOR)

        classes = str(mine(ClassSizes()).scalars["classes"]) if labels else ""
        answer = mine(LabelledRecords(classes=classes))
        weights = answer.array("weights", ndim=1)
        codes = answer.arrays["codes"] if labels else None
        count = len(decode_classes(classes)) if labels else 0
        points = answer.array("points", ndim=2)
        screen, places = Screen.fit(points, weights / weights.sum(), codes, count, seed)
        models[labels, seed] = screen, places, classes
    return models[labels, seed]


def check_enough(screen: Screen, fdr: float, trusted: str = "validation") -> None:
    """Raise where validation records are too few for the level."""
    least = needed(fdr)
    if screen.size < least - 0.5:
        raise InputError(
            f"{screen.size:.0f} {trusted} records are too few to flag at a level of {fdr:g}: "
            f"{least} are needed. Give more"
            + (", a higher fdr" if least > needed(0.5) else "")
            + ", or fdr=0 for scores without flags.",
            code="validation-few",
        )


def read_screened(answer: Answer, screen: Screen) -> tuple[Screened, Array]:
    """Return what an answer says of each record, and their weights; it may come from anybody."""
    scores = answer.array("scores", ndim=1)
    size, named = len(scores), min(NAMED, screen.points.shape[1])
    classes = screen.classes
    screened = Screened(
        scores,
        answer.array("labels", ndim=1),
        answer.array("features", ndim=1),
        _codes(answer, "suggested", (size,), -1, classes - 1),
        _codes(answer, "judged", (size,), 0, 1),
        _codes(answer, "kinds", (size,), 0, len(KINDS) - 1),
        answer.array("precision", ndim=1),
        _codes(answer, "origin", (size,), -1, size - 1),
        _codes(answer, "nearest", (size,), 0, len(screen.points) - 1),
        answer.array("apart", ndim=1),
        _codes(answer, "columns", (size, named), 0, screen.points.shape[1] - 1),
        answer.array("residuals", ndim=2, columns=named),
        answer.array("shares", ndim=2, columns=3),
    )
    vectors = (
        screened.labels, screened.features, screened.precision, screened.apart, screened.residuals,
    )  # fmt: skip
    sound = (
        all(len(vector) == size for vector in vectors)
        and all(
            float(np.abs(part).max(initial=0.0)) <= FARTHEST
            for part in (scores, screened.labels, screened.features)
        )
        and screened.apart.min(initial=0.0) >= 0
        and 0.0 <= screened.precision.min(initial=0.0) <= screened.precision.max(initial=0.0) <= 1.0
        and screened.residuals.min(initial=0.0) >= 0
        and len(screened.shares) == 3
        and 0.0 <= screened.shares.min() <= screened.shares.max() <= 1.0
        and (screened.shares[:, 1] <= screened.shares[:, 0]).all()
        and (screened.shares[:, 0] <= screened.shares[:, 2]).all()
        and (screened.origin < np.arange(size)).all()
        and (classes == 0 or screened.suggested.min(initial=0) >= 0)
    )
    if not sound:
        raise build_misfit_error()
    return screened, read_weights(answer, size)


def _codes(answer: Answer, name: str, shape: tuple[int, ...], low: int, high: int) -> Codes:
    codes = answer.arrays.get(name)
    if codes is None or codes.dtype != np.int64 or codes.shape != shape:
        raise build_misfit_error()
    if codes.size and not (low <= codes.min() and codes.max() <= high):
        raise build_misfit_error()
    return codes
