"""The sketch: one differentially private release of every holder, and all that follows from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from ...data.measure import Embedding
from ...errors import InputError, MismatchError
from ...federation.disclosure import Disclosure
from ...federation.protocol import COORDINATOR, Protocol, Steps, required
from ...federation.question import Answerer
from ...options import anything, none_or, option
from ...privacy.accounting import epsilon_of
from ...privacy.calibrate import Calibration
from ...privacy.cells import Cells, nearest
from ...privacy.compare import Rate, rate_of
from ...privacy.quadtree import DEEPEST, Tree, tree_cells
from ...privacy.sketch import Array, Codes, Reading, decode
from ..methods import Joint, Pairwise, build_joint, build_pair
from ..questions import LabelledRecords
from ..result import Distance
from ..shared_options import embedding_option, switch
from ..sides import name_sides
from .decoded import LEAST_NU, DecodedSketches, Page
from .questions import (
    FINEST,
    CountRecords,
    SketchPeriod,
    SketchRecords,
    SketchTree,
    is_period,
    read_integers,
)
from .release_options import (
    Releasing,
    count_cells,
    find_public_box,
    read_class_names,
    read_public_classes,
)
from .result import Sketches


class Sketching(Releasing, Joint[Sketches]):
    r"""One differentially private sketch of every holder.

    Each holder counts its records in public cells, adds up how far they lie from the cells'
    centres, clipped, and how much they scatter, and adds discrete Gaussian noise to each number.
    Adding or removing one record changes what can happen by no more than (``privacy_epsilon``,
    ``privacy_delta``) allow. What is computed from the sketches afterwards costs nothing more.

    The noise has no seed, on purpose: noise that somebody can draw again is none. Two runs with
    new ledgers differ; ``seed`` makes the public parts alone.

    ``own`` is an ``Own(measure)`` with data of the coordinator, to value holders by; no noise is
    added to it.

    Returns
    -------
    Protocol[Sketches]
        Discloses the sketch.

    Raises
    ------
    InputError
        Options out of range, no public knowledge, or too few records for the noise (code
        ``sketch-small``, after the count).
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> rng = np.random.default_rng(0)
    >>> public, x = rng.normal(size=(150, 2)), rng.normal(size=(3000, 2))
    >>> fed = LocalFederation({"a": x[:1500], "b": x[1500:] + [3.0, 0.0]})
    >>> found = fed.run(Sketching(public=public, privacy_epsilon=4.0).among(["a", "b"]))
    >>> 2.0 < found.distance("a", "b").value < 4.0
    True
    """

    name = "sketch"
    disclosure = Disclosure.PRIVATE

    labels: bool = switch("Sketch class by class, and compare OTDD vectors.", flag=False)
    embedding: Embedding = embedding_option(
        "Label coordinates of the sketched classes that distances compare."
    )

    period: str | Mapping[str, str] | None = option(
        'Public name of the period of the records, such as ``"2026-10"``; or one for '
        "each holder. Without one, a holder that has answered before repeats its earlier answer.",
        none_or(anything("a text, or texts by holder")),
        default=None,
        flag=False,
    )

    def fit(self) -> None:
        super().fit()
        named = [self.period] if isinstance(self.period, str) else (self.period or {}).values()
        if not all(map(is_period, named)):
            raise InputError(
                "a period is not a short text. Give a name such as '2026-10', of 64 signs at most.",
                code="option-period",
            )

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Sketches]:
        embedding = "diagonal" if self.labels and self.embedding == "none" else self.embedding
        classes = read_public_classes(self.public, self.classes) if embedding != "none" else ()
        run = _Run(self, tuple(holders), own, embedding, classes)
        return Protocol(
            self.name,
            run.holders,
            self.disclosure,
            run.start,
            {
                **self.values(
                    "privacy_epsilon", "privacy_delta", "size", "cells", "mass_limit", "seed"
                ),
                "embedding": embedding,
            },
            expected_rounds=1 + run.asks_count,
        )

    def name_periods(self, holders: Sequence[str]) -> Mapping[str, str]:
        """Name the period of every holder that has one."""
        if self.period is None:
            return {}
        return dict.fromkeys(holders, self.period) if isinstance(self.period, str) else self.period


sketches = build_joint(Sketching)


class Sketch(Releasing, Pairwise):
    """Distance of two holders from a differentially private sketch of each.

    To compare more than two, use ``Sketching``: one release of each holder serves all pairs.

    Returns
    -------
    Protocol[Distance]
        ``value`` is an estimate, ``interval`` is to hold 95 % of true distances (its bias, noise
        and sampling as measured on pairs made of ``public``; ``None`` without 100 public records,
        or with labels that ``public`` has not), and there are no certified bounds: 0 and infinity.

    Raises
    ------
    InputError, ExtraError
        As ``Sketching``; ``p`` other than 2.

    Examples
    --------
    >>> import numpy as np
    >>> from silot.federation import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(3150, 2))
    >>> fed = LocalFederation({"a": x[:1500], "b": x[1500:3000] + [3.0, 0.0]})
    >>> result = fed.run(Sketch(public=x[3000:], privacy_epsilon=4.0).between("a", "b"))
    >>> result.disclosure, 2.0 < result.value < 4.0
    ('private', True)
    """

    name = "sketch"
    disclosure = Disclosure.PRIVATE
    sends = "noisy counts of records in public cells, their clipped mean offset and scatter"
    needs = (
        "public records or a public mean and scale; at least 200 records at "
        "privacy_epsilon 1, better 2000; one or two rounds; the extra silot[privacy]"
    )
    guarantees = "an estimate and, with public=, an interval of its error; no certified bound"
    privacy = (
        "(privacy_epsilon, privacy_delta)-differential privacy of each record, charged to the "
        "holder's ledger"
    )

    why: bool = switch(
        "What distances are made of, by column and class. They follow from the sketches, without "
        "another question."
    )

    def fit(self) -> None:
        if self.p != 2:
            raise InputError(f"p is {self.p!r}; sketches give W2 only. Give p=2.", code="option-p")
        super().fit()

    def release(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[Sketches]:
        return Sketching(**self.values(*Releasing.options, "embedding")).among(holders, own)

    def between(
        self, a: str, b: str | None = None, own: Answerer | None = None
    ) -> Protocol[Distance]:
        sides = name_sides(a, b, own)
        release = self.release([side for side in sides if side != COORDINATOR], own)

        def start() -> Steps[Distance]:
            released = yield from release.start()
            return released.distance(*sides, why=self.why)

        return Protocol(
            self.name,
            release.holders,
            self.disclosure,
            start,
            release.parameters,
            expected_rounds=release.expected_rounds,
        )


sketch = build_pair(Sketch)


# Part of the squared budget that goes to the number of records, when it is not public.
_FOR_COUNT = 0.02
# Part of the variance of public records that is much for one in a hundred: of normal records it
# has 2 to 8 %.
_HEAVY = 0.2


@dataclass(frozen=True)
class _Run:
    """State of one run: options, holders, compared label coordinates and public classes."""

    options: Sketching
    holders: tuple[str, ...]
    own: Answerer | None
    embedding: Embedding
    classes: tuple[str, ...]

    @property
    def sample(self) -> Array:
        """Public records, or those that stand for them."""
        return self.options.sample

    @property
    def is_drawn(self) -> bool:
        """Whether the sample is a draw, for want of public records."""
        return self.options.public is None

    @property
    def asks_count(self) -> bool:
        """Whether a part of the budget goes to the number of records."""
        return self.options.size is None and self.options.cells is None

    def start(self) -> Steps[Sketches]:
        mu, least = self.options.mu, self.options.size
        if self.asks_count:
            # Budgets add in their squares: what the count spends is taken off the square.
            mu = self.options.mu * (1.0 - _FOR_COUNT) ** 0.5
            least = yield from self._request_count()
        if least is not None:
            self._check_size(least, mu)
        box = self._find_box()
        geometry = self._plan_tree(box, least or 0, mu) if box else self._plan_cells(least or 0, mu)
        question, periods = geometry.question, self.options.name_periods(self.holders)
        answers = yield {name: ask_for_period(question, periods.get(name)) for name in self.holders}
        pages: dict[str, Page] = {}
        for name in self.holders:
            vector = read_integers(answers, name, "sketch", geometry.width)
            pages[name] = geometry.read_page(vector, mu)
        if self.own is not None:
            # Nothing bounds what its own records may weigh, so count them finely.
            fine = replace(geometry.question, mass_limit=1.0, resolution=FINEST)
            own = replace(geometry, question=fine)
            # An infinite budget stands for no noise.
            pages[COORDINATOR] = own.read_page(self._sketch_own(self.own, fine), np.inf)
        return self._build_result(pages, geometry, mu)

    def _plan_cells(self, records: int, mu: float) -> _CellSketch:
        size = self.options.cells or count_cells(len(self.sample), records, mu)
        cells = Cells.of_sample(self.sample, size, self.options.seed, drawn=self.is_drawn)
        question = SketchRecords.about(cells, self.classes, self.options.limit, mu)
        groups = len(self.classes) + 1 if self.classes else 1
        return _CellSketch(cells, question, self._count_public(cells), groups)

    def _find_box(self) -> tuple[Array, Array] | None:
        """Find the box of a quadtree, which takes no labels and no number of cells."""
        if self.embedding != "none" or self.options.cells is not None:
            return None
        public, mean, scale = self.options.values("public", "public_mean", "public_scale").values()
        return find_public_box(public, mean, scale)

    def _plan_tree(self, box: tuple[Array, Array], records: int, mu: float) -> _TreeSketch:
        """Plan a finest square for every unit of nu, and one level more: empty ones stay one."""
        depth = int(np.clip(np.log(max(records * mu, 1.0)) / np.log(4.0) + 1.0, 2, DEEPEST))
        question = SketchTree(
            low=box[0],
            high=box[1],
            depth=depth,
            mass_limit=self.options.limit,
            privacy_mu=mu,
        )
        return _TreeSketch(tree_cells(*box, depth, self.sample), question)

    def _request_count(self) -> Steps[int]:
        """Request noisy counts, and return that of the smallest holder."""
        question = CountRecords(
            privacy_mu=self.options.mu * _FOR_COUNT**0.5, mass_limit=self.options.limit
        )
        answers = yield dict.fromkeys(self.holders, question)
        counts = [int(read_integers(answers, name, "count", 1)[0]) for name in self.holders]
        return max(round(min(counts) / question.resolution), 0)

    def _check_size(self, records: int, mu: float) -> None:
        if records * mu >= LEAST_NU:
            return
        needed = int(np.ceil(LEAST_NU / mu))
        epsilon, delta = self.options.privacy_epsilon, self.options.privacy_delta
        enough = epsilon_of(LEAST_NU / records, delta) if records > 0 else np.inf
        charge = " That number was released, and is charged." if self.asks_count else ""
        other = f", or privacy_epsilon of {enough:.2g} or more" if enough < 50 else ""
        raise InputError(
            f"the smallest holder has about {records} records: too few for a sketch at "
            f"privacy_epsilon {epsilon:g}. About {needed} records would be enough{other}.{charge}",
            code="sketch-small",
        )

    def _encode_public(self) -> Codes | None:
        """Encode the class of every public record, where they have classes."""
        names = read_class_names(self.options.public)
        if not self.classes or names is None:
            return None
        position = {name: k for k, name in enumerate(self.classes)}
        other = len(self.classes)
        return np.array([position.get(name, other) for name in names.tolist()])

    def _count_public(self, cells: Cells) -> Array | None:
        """Compute public masses by class and cell, where public records have classes."""
        rows = self._encode_public()
        if rows is None:
            return None
        places, _ = nearest(self.sample, cells.centres)
        counts = np.zeros((len(self.classes) + 1, cells.size))
        np.add.at(counts, (rows, places), 1.0)
        return counts / counts.sum()

    def _calibrate(
        self, geometry: _CellSketch | _TreeSketch, rate: Rate, mu: float
    ) -> Calibration | None:
        """Calibrate the estimates on public records; ``None`` where these do not suffice."""
        rows = self._encode_public()
        if self.is_drawn or isinstance(geometry, _TreeSketch) or (self.classes and rows is None):
            return None
        return Calibration.of(
            self.sample,
            rows,
            classes=geometry.groups,
            embedding=self.embedding,
            cells=geometry.cells,
            prior=geometry.prior,
            mu=mu,
            rate=rate,
            seed=self.options.seed,
        )

    def _sketch_own(self, own: Answerer, question: SketchRecords | SketchTree) -> Codes:
        """Sketch the coordinator's own records without noise."""
        classes = question.classes if isinstance(question, SketchRecords) else ""
        request = LabelledRecords(classes=classes)
        answer = required({COORDINATOR: own.answer(request)}, COORDINATOR)
        points, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        if points.shape[1] != self.sample.shape[1]:
            raise MismatchError(
                f"the coordinator's own measure has {points.shape[1]} features and the public "
                f"sample {self.sample.shape[1]}.",
                code="dimension-mismatch",
            )
        names = None
        if self.classes:
            listed = np.array([*self.classes, "\0"])
            names = listed[np.minimum(answer.arrays["codes"], len(self.classes))]
        # Its own weights need no public limit: they are relative to the largest.
        return question.exact(points, weights / weights.max(), names)

    def _build_result(
        self, pages: Mapping[str, Page], geometry: _CellSketch | _TreeSketch, mu: float
    ) -> Sketches:
        cells = geometry.cells
        decoded = {name: pages[name].decoded for name in self.holders}
        # The smallest holder decides: the noise is largest for it.
        nu = mu * min(item.records for item in decoded.values())
        rate = rate_of(self.sample, cells, self.options.seed)
        book = DecodedSketches(
            names=self.holders,
            pages=pages,
            cells=cells,
            rate=rate,
            classes=self.classes,
            embedding=self.embedding,
            nu=nu,
            seed=self.options.seed,
            calibration=self._calibrate(geometry, rate, mu),
            tails=describe_tails(self.sample),
            sample=self.sample,
        )
        return Sketches(
            names=self.holders,
            measures={name: book.measure(name) for name in self.holders},
            records={name: item.records for name, item in decoded.items()},
            scatter={name: item.scatter for name, item in decoded.items()},
            cells=cells.size,
            nu=nu,
            privacy_epsilon=self.options.privacy_epsilon,
            privacy_delta=self.options.privacy_delta,
            spent_mu=self.options.mu,
            status=book.status,
            seed=self.options.seed,
            book=book,
        )


@dataclass(frozen=True, eq=False)
class _CellSketch:
    """Cells, the question about them, and how to read its answer."""

    cells: Cells
    question: SketchRecords
    prior: Array | None
    groups: int

    @property
    def width(self) -> int:
        """Numbers in an answer."""
        return self.groups * self.cells.size + self.cells.dimension + 1

    def read_page(self, vector: Codes, mu: float) -> Page:
        """Read and decode an answer."""
        reading = Reading.of(
            vector, self.cells, mu, count=self.groups, resolution=self.question.resolution
        )
        return Page(decode(reading, self.cells, self.prior), reading)


@dataclass(frozen=True, eq=False)
class _TreeSketch:
    """A quadtree, the question about it, and how to read its answer."""

    cells: Cells
    question: SketchTree

    @property
    def width(self) -> int:
        """Numbers in an answer."""
        return sum(4**level for level in range(1, self.question.depth + 1))

    def read_page(self, vector: Codes, mu: float) -> Page:
        """Read and decode an answer."""
        tree = Tree.of(vector, self.question.depth, mu, self.question.resolution)
        return Page(tree.decode(self.cells))


def ask_for_period(
    question: SketchRecords | SketchTree, period: str | None
) -> SketchRecords | SketchTree:
    """Return the question of a period, where one is named."""
    if period is None:
        return question
    if not isinstance(question, SketchRecords):
        raise InputError(
            "a period takes cells of public records, or a number of cells. Give cells=.",
            code="option-period",
        )
    values = {item.name: getattr(question, item.name) for item in fields(question)}
    return SketchPeriod(**values, period=period)


def describe_tails(sample: Array) -> str:
    """Describe public records of which few have most of the variance."""
    # Around the mean, for a common shift is no tail.
    squares = ((sample - sample.mean(axis=0)) ** 2).sum(axis=1)
    far = np.sort(squares)[-max(len(squares) // 100, 1) :]
    share = float(far.sum() / squares.sum()) if squares.sum() > 0 else 0.0
    if share < _HEAVY:
        return ""
    return (
        f". They have heavy tails (one in a hundred has {100 * share:.0f} % of the variance): the "
        "estimate is of records cut off at the public range (take logarithms or ranks first)"
    )
