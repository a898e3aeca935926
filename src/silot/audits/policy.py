"""A malicious coordinator, played against a holder's own policy and records."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from silot_transport.geodesic import Interpolation

from ..data.measure import Data, Measure
from ..distances.questions import (
    ClassSizes,
    Describe,
    DistanceTo,
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    InterpolateByClass,
    LabelledDistanceTo,
    LabelledRecords,
    Moments,
    Records,
    encode_classes,
)
from ..distances.sides import draw_reference
from ..errors import InputError
from ..federation.answer import Answer, Failure
from ..federation.party import Holder
from ..federation.policy import Policy
from ..federation.question import Question
from ..privacy.ledger import Ledger
from ..teaching.federated import ModelSpec, initial, random_features
from ..teaching.federated.questions import CountLabelled, Spread, TrainModel
from ..teaching.questions import (
    Disagreement,
    DomainErrors,
    DomainScores,
    FitDensity,
    MeanFeatures,
    ProjectedQuantiles,
    TrainDomain,
    public_directions,
)
from .inversion import Array, barycentric_image
from .result import PolicyAudit, Strategy

ASKERS = ("coordinator", "clinic", "bank", "a", "b", "coordinator ")
"""Names under which the coordinator sends its questions; two look the same on a screen."""

RESTART = 12
"""Questions after which the holder is started again from its ledger."""

NEAR = 1e-3
"""A guess hits a record within this share of the median distance of two neighbours."""

UNTRIED = (
    "secret knowledge of other kinds than all records but one, attacks on releases (their noise is "
    "what the budget bounds), side channels (timing, power), several holders together, and "
    "strategies nobody has thought of"
)

_KINDS: tuple[Interpolation, ...] = ("exact", "barycentric")

# As good as t = 0, which no holder accepts.
_TINY_T = 1e-9


def audit_policy(
    policy: Policy,
    data: Data,
    *,
    questions: int = 100,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PolicyAudit:
    """Play a malicious coordinator against a holder's own policy and records.

    Every strategy sends its questions under changing names, repeats what was refused in other
    forms, has the holder restarted from its ledger every dozen questions, and meets a fresh
    ledger. The audit shows what the policy lets out to *these* strategies: finding nothing proves
    nothing, and ``bound`` says what the policy can tell at most.

    Parameters
    ----------
    policy
        The rules.
    data
        The records: the audit stays on the machine that has them.
    questions
        Most questions of a strategy.
    seed
        Seed of the strategies.
    progress
        Called with the number of strategies played, and of all.

    Returns
    -------
    PolicyAudit

    Raises
    ------
    InputError
        Fewer than two records, or no question.

    Examples
    --------
    >>> rows = Measure(np.random.default_rng(0).normal(size=(60, 3)))
    >>> audit_policy(Policy(level="record"), rows, questions=5).recovered
    60
    """
    data = Measure.of(data)
    if data.size < 2 or questions < 1:
        raise InputError(
            f"{data.size} records and {questions} questions are given; two records and a question "
            "are needed at least.",
            code="audit-policy",
        )
    tree = cKDTree(data.points)
    neighbours = np.asarray(tree.query(data.points, k=2)[0])[:, 1]
    near = NEAR * float(np.median(neighbours))
    recovered: set[int] = set()
    results: list[Strategy] = []
    numbers = named = 0
    with tempfile.TemporaryDirectory(prefix="silot-audit-") as folder:
        for number, (name, (play, informed)) in enumerate(STRATEGIES.items()):
            rng = np.random.default_rng([seed, number])
            path = Path(folder) / f"{number}.ledger"
            session = Session(data, policy, path, questions, rng)
            hits, guesses = _hits(play(session, data.size, data.dimension), tree, near)
            session.close()
            if progress is not None:
                progress(number + 1, len(STRATEGIES))
            recovered |= hits
            results.append(
                Strategy(
                    name=name,
                    sent=session.sent,
                    answered=session.answered,
                    refusals=dict(session.refusals),
                    guesses=guesses,
                    recovered=len(hits),
                    informed=informed,
                )
            )
            with Ledger(path, state=folder) as ledger:
                numbers = max(numbers, ledger.tally.total)
                named = max(named, ledger.tally.named)
    return PolicyAudit(
        strategies=tuple(results),
        records=data.size,
        dimension=data.dimension,
        recovered=len(recovered),
        numbers=numbers,
        named=named,
        bound=policy.explain(Holder(data, policy).limits),
        untried=UNTRIED,
    )


def _hits(guesses: Iterator[Array], tree: cKDTree, near: float) -> tuple[set[int], int]:
    """Return the records that guesses hit, and the number of guesses."""
    hits, count = set[int](), 0
    for guess in guesses:
        finite = guess[np.isfinite(guess).all(axis=1)]
        count += len(finite)
        if len(finite):
            distance, rows = (np.asarray(part) for part in tree.query(finite))
            hits |= set(rows[distance <= near].tolist())
    return hits, count


@dataclass
class Session:
    """A coordinator's access to one holder, under changing names and over restarts."""

    data: Measure
    """The holder's records."""
    policy: Policy
    """The holder's rules."""
    path: Path
    """The holder's ledger."""
    limit: int
    """Most questions."""
    rng: np.random.Generator
    """Random numbers of the coordinator."""
    sent: int = 0
    answered: int = 0
    refusals: Counter[str] = field(default_factory=Counter[str])
    _holder: Holder | None = None
    _ledger: Ledger | None = None

    def ask(self, question: Question) -> Answer | None:
        """Send one question, in some name; ``None`` when no answer comes or no question is left."""
        if self.sent >= self.limit:
            return None
        if self.sent % RESTART == 0:
            self.close()
        if self._holder is None:
            self._ledger = Ledger(self.path, state=self.path.parent)
            self._holder = Holder(self.data, self.policy, self._ledger)
        asker = ASKERS[int(self.rng.integers(len(ASKERS)))]
        self.sent += 1
        answer = self._holder.answer(question, asker)
        if isinstance(answer, Failure):
            self.refusals[answer.code] += 1
            return None
        self.answered += 1
        return answer

    def answers(self, *questions: Question) -> Iterator[Answer]:
        """Send questions one after another, and yield the answers that come."""
        for question in questions:
            answer = self.ask(question)
            if answer is not None:
                yield answer

    def numbers(self, questions: list[Question], name: str) -> tuple[list[Question], Array]:
        """Return the questions that were answered, and the numbers of that name in the answers."""
        pairs = [(one, answer.number(name)) for one in questions for answer in self.answers(one)]
        return [one for one, _ in pairs], np.array([value for _, value in pairs])

    def turn_to(self, data: Measure) -> None:
        """Have the holder answer about other records from now on, on the same ledger."""
        self.close()
        self.data = data

    def close(self) -> None:
        """Close the ledger, as the end of the holder's process does."""
        if self._ledger is not None:
            self._ledger.close()
        self._holder = self._ledger = None


Play = Callable[[Session, int, int], Iterator[Array]]
"""A strategy: sends questions, and yields guesses (k, d), from the session, n and d."""


def _even(size: int) -> Array:
    """Return equal weights."""
    return np.full(size, 1.0 / size)


def _everything(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request records as they are, and interpolants towards a far reference at t near 0."""
    for answer in session.answers(Records(), LabelledRecords(), LabelledRecords(classes='["a"]')):
        yield answer.arrays["points"]
    far, w = 1e3 * draw_reference(0, n, d), _even(n)
    for t in (_TINY_T, 0.3):
        for kind in _KINDS:
            near = Interpolate(reference=far, reference_weights=w, t=t, interpolation=kind)
            for answer in session.answers(near):
                atoms, weights = answer.arrays["atoms"], answer.arrays["weights"]
                yield (atoms - t * barycentric_image(atoms, far, weights, w)) / (1.0 - t)


def _cells(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request cell means with weights that single out records, at sizes S and S + 1."""
    for size in (max(n // 20, 6), max(n // 20, 6) + 1, n):
        drawn, other = draw_reference(0, size, d), draw_reference(7, size, d)
        for p, moved in ((2, drawn), (1, drawn), (1, 1.05 * drawn + 0.03), (2, other)):
            weights = np.full(size, (1 - 5 / n) / max(size - 5, 1))
            weights[session.rng.permutation(size)[:5]] = 1.0 / n
            for w in (_even(size), weights / weights.sum()):
                means = Interpolate(
                    reference=moved, reference_weights=w, t=0.01, p=p, on_reference=True,
                    scalars=False,
                )  # fmt: skip
                for answer in session.answers(means):
                    yield (answer.arrays["atoms"] - 0.01 * moved) / 0.99


def _costs(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request costs to d + 1 points, and interpolants class by class at t = 0."""
    reference, weights = draw_reference(0, n, d), _even(n)
    to_points = InterpolantCosts(
        reference=reference, reference_weights=weights, t=_TINY_T,
        target=np.vstack([np.zeros(d), np.eye(d)]), target_weights=_even(d + 1),
    )  # fmt: skip
    for answer in session.answers(to_points):
        costs = answer.arrays["costs"]
        yield (costs[:, :1] - costs[:, 1:] + 1.0) / 2.0
    by_class = InterpolateByClass(
        target=reference, target_weights=weights, target_codes=np.zeros(n, np.int64), t=0.0
    )
    for answer in session.answers(by_class):
        yield answer.arrays["atoms"]


def _two_clusters(session: Session, n: int, d: int) -> Iterator[Array]:
    """Compute the outermost record from distances to two far clusters, one of its weight."""
    # Far beyond standardised data, and near enough that squares keep the digits of a record.
    radius = 50.0

    def ends(direction: Array, share: float) -> DistanceTo:
        spread = 1e-10 * session.rng.standard_normal((10, d))
        atoms = np.repeat([radius * direction, -radius * direction], 5, axis=0) + spread
        weights = np.repeat([share / 5, (1.0 - share) / 5], 5)
        return DistanceTo(reference=atoms, reference_weights=weights)

    for _ in range(4):
        middle = session.rng.standard_normal(d)
        around = middle / np.linalg.norm(middle) + 0.02 * session.rng.standard_normal((d + 1, d))
        units = around / np.linalg.norm(around, axis=1, keepdims=True)
        near, far = (
            session.numbers([ends(u, share) for u in units], "distance")[1]
            for share in (1.0 / n, 1e-6 / n)
        )
        if len(near) == len(far) == d + 1:
            yield np.linalg.lstsq(units, (far**2 - near**2) * n / (4 * radius))[0][None]


def _last_record(session: Session, n: int, d: int) -> Iterator[Array]:
    """Locate the last record by distances to all others and a guess, as who knows the others.

    With p = 1 nothing is gained by moving others: n times the distance is that of the guess.
    """
    points = session.data.points
    guesses = points.mean(axis=0) + points.std(axis=0) * session.rng.standard_normal((2 * d, d))
    questions: list[Question] = [
        DistanceTo(reference=np.vstack([points[:-1], guess]), reference_weights=_even(n), p=1)
        for guess in guesses
    ]
    answered, distances = session.numbers(questions, "distance")
    if len(distances) < 2:
        return
    at = np.array([q.reference[-1] for q in answered if isinstance(q, DistanceTo)])
    squares = (n * distances) ** 2
    right = (squares[0] - squares[1:] + (at[1:] ** 2).sum(1) - (at[0] ** 2).sum()) / 2.0
    matrix = at[1:] - at[0]
    # With too few numbers, least squares gives the solution that is nearest to the mean.
    middle = points[:-1].mean(axis=0)
    yield (middle + np.linalg.lstsq(matrix, right - matrix @ middle)[0])[None]


def _last_from_moments(session: Session, n: int, d: int) -> Iterator[Array]:
    """Compute the last record from a mean of all, as who knows the others."""
    for answer in session.answers(Moments(), Spread()):
        yield (n * answer.arrays["mean"] - session.data.points[:-1].sum(axis=0))[None]


def _rare_values(session: Session, n: int, d: int) -> Iterator[Array]:
    """Compute records that alone have a value of some feature from second moments."""
    session.ask(MeanFeatures(features=-(10**15), bandwidth=1.0, seed=0))
    session.ask(ProjectedQuantiles(directions=-(10**12), quantiles=10, seed=0))
    for answer in session.answers(Moments(), Moments(embedding="diagonal")):
        mean, covariance = answer.arrays["mean"], answer.arrays["covariance"]
        second = n * (covariance + np.outer(mean, mean))[:d, :d]
        sums = np.where(np.abs(mean[:d]) > 0, n * mean[:d], np.inf)
        # For a feature that is 0 but for one record, row j over its value is that record.
        yield second / sums[:, None]
        yield np.rint(second)


def _rare_class(session: Session, n: int, d: int) -> Iterator[Array]:
    """Locate the smallest class by distances that it alone pays for."""
    names = session.data.names
    if names is None:
        for question in (ClassSizes(), CountLabelled(), ClassSizes(classes='["a","b"]')):
            session.ask(question)
        return
    distinct, counts = np.unique(names, return_counts=True)
    order = np.argsort(-counts)
    classes, sizes = [str(distinct[k]) for k in order], counts[order]
    text = encode_classes(classes)
    for question in (ClassSizes(), ClassSizes(classes=text), CountLabelled(classes=text)):
        session.ask(question)
    codes = np.repeat(np.arange(len(classes)), 5).astype(np.int64)
    weights = np.repeat(sizes / sizes.sum() / 5, 5)
    base = session.rng.standard_normal((len(codes), d))

    def costly(at: Array) -> LabelledDistanceTo:
        target = base.copy()
        target[-5:] = at + 1e-9 * session.rng.standard_normal((5, d))
        return LabelledDistanceTo(
            target=target,
            target_weights=weights,
            target_codes=codes,
            classes=text,
            class_distances=1e3 * (1.0 - np.eye(len(classes))),
            class_slack=np.zeros(len(classes)),
        )

    places = [np.zeros(d), *(3.0 * np.eye(d))]
    _, distances = session.numbers([costly(at) for at in places], "distance")
    if len(distances) == d + 1:
        share = sizes[-1] / sizes.sum()
        yield (((distances[0] ** 2 - distances[1:] ** 2) / share + 9.0) / 6.0)[None]


def _quantiles(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request quantiles of many directions and seeds: one coordinate of every record in turn."""
    lines: list[Array] = []
    directions: list[Array] = []
    for seed in range(2 * d):
        for count in (d, 1, 2 * d):
            question = ProjectedQuantiles(directions=count, quantiles=n, seed=seed, least=1)
            for answer in session.answers(question):
                lines.extend(answer.arrays["quantiles"])
                directions.extend(public_directions(seed, count, d).T)
    fine = [k for k, line in enumerate(lines) if len(line) == n]
    if len(fine) > d:
        yield _untangled(np.array([directions[k] for k in fine]), [lines[k] for k in fine])


def _untangled(directions: Array, lines: list[Array]) -> Array:
    """Return the points whose projections on all directions are among the values of the lines."""
    d = directions.shape[1]
    inverse = np.linalg.inv(directions[:d])
    partial = lines[0][:, None]
    # Beyond so many combinations the strategy has failed: they fill the memory.
    for line in lines[1:d]:
        if len(partial) * len(line) > 2_000_000:
            return np.empty((0, d))
        partial = np.hstack(
            [np.repeat(partial, len(line), 0), np.tile(line, len(partial))[:, None]]
        )
    rows = partial @ inverse.T
    for direction, line in zip(directions[d:], lines[d:], strict=True):
        values = np.sort(line)
        along = rows @ direction
        places = np.clip(np.searchsorted(values, along), 1, len(values) - 1)
        gap = np.minimum(np.abs(along - values[places]), np.abs(along - values[places - 1]))
        rows = rows[gap <= 1e-6 * (1.0 + np.abs(along))]
    return rows


def _features(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request means of many random features, and climb to the modes of their density."""
    means: list[tuple[MeanFeatures, Array]] = []
    for seed in range(20):
        for bandwidth in (0.5, 1.0):
            question = MeanFeatures(
                features=max(n * d // 10 * 2, 2), bandwidth=bandwidth, seed=seed, least=1
            )
            means += [(question, answer.arrays["mean"]) for answer in session.answers(question)]
    if len(means) < 4:
        return

    def score(rows: Array) -> Array:
        return sum(
            (
                random_features(rows, features=q.features, bandwidth=q.bandwidth, seed=q.seed)
                @ mean
                for q, mean in means
            ),
            start=np.zeros(len(rows)),
        )

    # Hill climbing from random starts, with steps that shrink to a hundredth.
    rows = session.rng.standard_normal((40, d))
    step = 0.5
    for _ in range(60):
        moved = rows + step * session.rng.standard_normal(rows.shape)
        better = score(moved) > score(rows)
        rows[better] = moved[better]
        step *= 0.93
    yield rows


def _models(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request scores of classifiers that are coordinates, and one step of training."""
    spec = ModelSpec("logistic", (d,), 2)
    rows = np.zeros((d + 1, d + 1))
    rows[:d, :d], rows[d, :d] = np.eye(d), session.rng.standard_normal(d)
    about: dict[str, Any] = {"model": spec.to_text(), "centre": np.zeros(d), "scale": np.ones(d)}
    fields = {**about, "parameters": rows, "sides": np.zeros(d + 1, np.int64)}
    for answer in session.answers(DomainScores(quantiles=40 * n + 1, **fields)):
        lines = [np.unique(line.round(9)) for line in answer.arrays["scores"]]
        yield _untangled(rows[:, :d], lines)
    session.ask(DomainErrors(thresholds=np.zeros(d + 1), **fields))
    start, one = initial(spec, 0), np.zeros(1, np.int64)
    step = TrainDomain(
        parameters=start[None], sides=one, seeds=one, iterations=1, batch=1, rate=1.0, **about
    )
    for answer in session.answers(step):
        # One step on one record moves the weights by as many times the record as it moves the bias.
        change = answer.arrays["parameters"][0] - start
        if change[d] != 0:
            yield (change[:d] / change[d])[None]
    for question in (
        TrainModel(model=spec.to_text(), classes='["a","b"]', iterations=1, batch=1),
        FitDensity(model=spec.to_text(), classes='["a","b"]', dimensions=d),
        Disagreement(model=spec.to_text(), parameters=np.vstack([start, start + 1.0])),
    ):
        session.ask(question)


def _random(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request distances to random references of all kinds, and guess records at their atoms."""
    rng = session.rng
    questions: list[Question] = []
    for _ in range(40):
        size = int(rng.integers(1, 40))
        shape = rng.integers(4)
        atoms = rng.standard_normal((size, d)) * 10.0 ** rng.uniform(-3, 3)
        if shape == 1:
            atoms = np.repeat(atoms[:1], size, axis=0)
        weights = rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-2, 2))) + 1e-12
        if shape == 2:
            weights = np.r_[np.full(size - 1, 1.0 / n), max(1.0 - (size - 1) / n, 1e-9)]
        weights = weights / weights.sum()
        if shape == 3:
            questions.append(
                InterpolantDistance(
                    reference=atoms,
                    reference_weights=weights,
                    target=atoms + 1.0,
                    target_weights=weights,
                    t=float(rng.uniform(0, 0.9)),
                    p=int(rng.integers(1, 3)),
                )
            )
        else:
            questions.append(
                DistanceTo(reference=atoms, reference_weights=weights, p=int(rng.integers(1, 3)))
            )
    answered = [one for one in questions if session.ask(one) is not None]
    # Each atom of a reference that was answered is a guess at the record nearest to it.
    yield from (one.reference for one in answered if isinstance(one, DistanceTo))


def _differences(session: Session, n: int, d: int) -> Iterator[Array]:
    """Request the same statistics before and after a record was added: a mean, twice."""
    means: list[Array] = []
    data = session.data
    parts = None if data.labels is None else data.labels[:-1]
    for measure in (data, Measure(data.points[:-1], data.masses[:-1], parts)):
        session.turn_to(measure)
        answers = session.answers(Describe(), Spread(), Moments())
        means += [answer.arrays["mean"] for answer in answers if "mean" in answer.arrays]
    session.turn_to(data)
    yield from ((n * one - (n - 1) * two)[None] for one in means for two in means)


STRATEGIES: dict[str, tuple[Play, bool]] = {
    "the records by name, or interpolants at t near 0": (_everything, False),
    "cell means with chosen weights, costs, shifts and sizes": (_cells, False),
    "costs to d + 1 points": (_costs, False),
    "two far clusters: the outermost records": (_two_clusters, False),
    "chosen class distances: the rarest class": (_rare_class, False),
    "pairs of features: records with a rare value": (_rare_values, False),
    "quantiles of many seeds": (_quantiles, False),
    "mean random features of many seeds": (_features, False),
    "classifiers, thresholds and training steps": (_models, False),
    "random references, weights, p and t": (_random, False),
    "statistics before and after one record was added": (_differences, False),
    "distances to all other records and a guess": (_last_record, True),
    "a mean, with all other records known": (_last_from_moments, True),
}
