"""Noisy counts of the faulty records of each holder; scores stay with the holders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..data.measure import Measure
from ..distances.methods import Joint, build_joint
from ..distances.questions import encode_classes
from ..distances.shared_options import seed_option, switch
from ..distances.sketches.questions import SketchRecords, read_integers
from ..distances.sketches.release_options import (
    Private,
    Public,
    count_cells,
    read_class_names,
    read_public_classes,
    read_public_points,
)
from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Protocol, Steps, required
from ..federation.question import Answerer
from ..options import anything, option, part
from ..privacy.cells import Cells, nearest
from ..privacy.sketch import Array, Codes, Reading, decode
from .counted import Bins, Number
from .counts import BrokenCounts, Suspects
from .questions.scores import ScreenRecords
from .questions.suspects import CountSuspects
from .result import Estimate, RecordScores
from .screen import Screen
from .validation import RecordScreening, RecordsRun, check_enough

# A public record counts for no more than so many times what it did: few of them would stand for
# all otherwise.
_MOST = 10.0
# Shares of the validation data without public records like them: reported, and too many.
_TOLD, _UNLIKE = 0.1, 0.5


class CountBroken(Private, Joint[BrokenCounts]):
    r"""Count the faulty records of holders, with noise, by models of public records.

    The coordinator's validation data are sketched as a holder's are (``sketches``): counts in
    public cells and classes with discrete Gaussian noise. Public records are reweighted by
    what that sketch shows,

    .. math:: w_i \propto \hat P(l_i, c_i) / \#\{j: l_j = l_i, c_j = c_i\}

    with :math:`l` their class and :math:`c` their cell, and models are fitted on them (as in
    ``records``). These travel; nothing else of the validation data does. Each holder computes
    the likelihood ratios of a wrong label and of faulty features of each of its records, counts
    the records in public bins of them, and sends the counts with noise
    (``records.questions``). From bins of sound public records, and of these with other labels,
    follows how many are faulty (``records.counted``).

    ``own`` has the coordinator's validation data, behind a ledger of their own: a ``Holder`` whose
    policy has a budget. ``None``: public records are trusted as they are.

    Returns
    -------
    Protocol[BrokenCounts]
        Discloses noisy counts.

    Raises
    ------
    InputError
        Options out of range; ``validation-few``: too few public records, or too few that count;
        ``public-unlike``: most validation data are where no public record is.
    ExtraError
        ``silot[privacy]`` is not installed.

    Notes
    -----
    Records of a distribution of their own seem faulty: compare with ``own=None``, or with another
    holder.
    A record with faulty features often seems to be of another class too, and counts for both.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> public, x = np.random.default_rng(0).normal(size=(2, 500, 3))
    >>> x[:200] += 4.0
    >>> fed = LocalFederation({"seller": x})
    >>> found = fed.run(CountBroken(public=public, privacy_epsilon=4.0).among(["seller"]))
    >>> 150 < found.holders["seller"].broken["features"].value < 250
    True
    """

    name = "suspects"
    disclosure = Disclosure.PRIVATE

    public: Public | None = option(
        "Public records (m, d) that are distributed as clean records and belong to no holder: 50 "
        "or more, better 1000. With ``labels`` a ``Measure`` whose labels are right.",
        anything("records (m, d)"),
        default=None,
    )
    labels: bool = switch("Whether labels may be wrong too.", flag=False)
    fdr: float = option(
        "Share of the flagged records that may be clean. It decides how many records "
        "would be flagged.",
        part(),
        default=0.1,
    )
    seed: int = seed_option("Seed of public cells and models.")

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[BrokenCounts]:
        if self.public is None:
            raise InputError(
                "models are fitted on public records: give public=.", code="public-absent"
            )
        names = read_class_names(self.public) if self.labels else None
        if self.labels and names is None:
            raise InputError(
                "labels need public records with labels: give a labelled Measure as public.",
                code="sketch-classes",
            )
        run = _Run(
            options=self,
            holders=tuple(holders),
            own=own,
            sample=read_public_points(self.public),
            weights=self.public.weights if isinstance(self.public, Measure) else None,
            names=None if names is None else names.tolist(),
            classes=read_public_classes(self.public, None) if self.labels else (),
        )
        return Protocol(
            self.name,
            run.holders,
            self.disclosure,
            run.start,
            self.values("labels", "fdr", "privacy_epsilon", "privacy_delta", "mass_limit", "seed"),
        )


suspects = build_joint(CountBroken)


@dataclass(frozen=True)
class _Run:
    """One run: options, holders, validation data, and public records in parts."""

    options: CountBroken
    holders: tuple[str, ...]
    own: Answerer | None
    sample: Array = field(repr=False)
    weights: Array | None = field(repr=False)
    names: list[str] | None = field(repr=False)
    classes: tuple[str, ...]

    def start(self) -> Steps[BrokenCounts]:
        codes = self._codes()
        weights, status = self._weights(codes)
        screen, kept = Screen.fit(self.sample, weights, codes, len(self.classes), self.options.seed)
        check_enough(screen, max(self.options.fdr, 0.1), "public")
        classes = encode_classes(list(self.classes)) if screen.classes else ""
        by_features = Bins.of_features(screen)
        by_label = Bins.of_labels(screen) if classes else None
        question = CountSuspects.of(
            screen,
            classes,
            feature_edges=by_features.edges,
            label_edges=np.zeros(0) if by_label is None else by_label.edges,
            mass_limit=self.options.limit,
            privacy_mu=self.options.mu,
        )
        answers = yield dict.fromkeys(self.holders, question)
        noise = question.sensitivity / self.options.mu / question.resolution
        suspects = {
            name: self._read(
                read_integers(answers, name, "counts", question.length) / question.resolution,
                by_features,
                by_label,
                noise,
            )
            for name in self.holders
        }
        if self.classes and not classes:
            status += "; public records have one class only, so labels were not judged"
        return BrokenCounts(
            holders=suspects,
            fdr=self.options.fdr,
            size=screen.size,
            privacy_epsilon=self.options.privacy_epsilon,
            privacy_delta=self.options.privacy_delta,
            spent_mu=self.options.mu,
            status=status,
            seed=self.options.seed,
            screener=Models(screen, kept, classes, self.options.seed),
        )

    def _codes(self) -> Codes | None:
        if self.names is None:
            return None
        place = {name: code for code, name in enumerate(self.classes)}
        return np.array([place[name] for name in self.names], dtype=np.int64)

    def _weights(self, codes: Codes | None) -> tuple[Array, str]:
        """Return what each public record counts for, and what was done, in words."""
        equal = np.full(len(self.sample), 1.0 / len(self.sample))
        even = equal if self.weights is None else self.weights
        text = f"models of {len(self.sample)} public records"
        if self.own is None:
            return even, f"{text}, all of equal weight"
        count = count_cells(len(self.sample), len(self.sample), self.options.mu)
        cells = Cells.of_sample(self.sample, count, self.options.seed)
        question = SketchRecords.about(cells, self.classes, self.options.limit, self.options.mu)
        groups = len(self.classes) + 1 if self.classes else 1
        width = groups * cells.size + cells.dimension + 1
        answer = required({COORDINATOR: self.own.answer(question)}, COORDINATOR)
        vector = read_integers({COORDINATOR: answer}, COORDINATOR, "sketch", width)
        reading = Reading.of(vector, cells, self.options.mu, count=groups)
        places, _ = nearest(self.sample, cells.centres)
        rows = np.zeros(len(self.sample), dtype=np.int64) if codes is None else codes
        public = np.zeros((groups, cells.size))
        np.add.at(public, (rows, places), even)
        masses = decode(reading, cells, public).weights
        ratio = np.divide(masses, public, out=np.zeros_like(masses), where=public > 0)
        weights = even * np.minimum(ratio, _MOST)[rows, places]
        lost = float(masses[public == 0].sum())
        if lost > _UNLIKE or weights.sum() <= 0:
            raise InputError(
                f"about {100 * lost:.0f} % of the validation data are of classes, or in cells, "
                "without public records. Give public records that are distributed as the "
                "validation data.",
                code="public-unlike",
            )
        text += ", weighted by a private sketch of the validation data"
        if lost > _TOLD:
            text += (
                f"; about {100 * lost:.0f} % of these lie where there are no public records: "
                "records like them will seem faulty"
            )
        return weights / weights.sum(), text

    def _read(
        self, counts: Array, by_features: Bins, by_label: Bins | None, noise: float
    ) -> Suspects:
        """Return the result that noisy counts give."""
        parts = {"features": (by_features, counts[: len(by_features.sound)])}
        strange = None
        if by_label is not None:
            parts["label"] = (by_label, counts[len(by_features.sound) : -1])
            strange = max(float(counts[-1]), 0.0)
        broken = {name: bins.estimate(counted, noise) for name, (bins, counted) in parts.items()}
        flagged = {
            name: bins.flagged(counted, noise, self.options.fdr, broken[name])
            for name, (bins, counted) in parts.items()
        }
        # Both kinds count all records, those of other classes too.
        sums = [float(counted.sum()) for _, counted in parts.values()]
        if len(sums) > 1:
            sums[1] += float(counts[-1])
        records = max(float(np.mean(sums)), 1.0)
        return Suspects(records, _with_all(broken, records), _with_all(flagged, records), strange)


def _with_all(numbers: dict[str, Number], records: float) -> dict[str, Estimate]:
    """Numbers of each fault, and of all: as many as the larger, or both together."""
    kinds = list(numbers.values())
    value, low = (max(getattr(number, what) for number in kinds) for what in ("value", "low"))
    total = Number(value, low, max(value, min(sum(number.high for number in kinds), records)))
    return {
        name: Estimate(*(min(end, records) for end in number))
        for name, number in {**numbers, "all": total}.items()
    }


@dataclass(frozen=True)
class Models:
    """Models of public records, for holders to screen their own records with."""

    models: Screen = field(repr=False)
    kept: Codes = field(repr=False)
    classes: str
    seed: int

    def screen(self, data: Answerer, name: str, fdr: float) -> RecordScores:
        """Ask the holder's own records, behind no policy: ``Own(measure)``."""
        check_enough(self.models, fdr, "public")
        question = ScreenRecords.of(self.models, self.classes, fdr=fdr, seed=self.seed)
        answer = required({COORDINATOR: data.answer(question)}, COORDINATOR)
        options = RecordScreening(labels=bool(self.classes), fdr=fdr, seed=self.seed)
        run = RecordsRun(name, data, options, "public")
        return replace(run.result(self.models, self.kept, self.classes, answer), disclosure="none")
