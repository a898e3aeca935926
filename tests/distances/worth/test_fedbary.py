"""FedBary: its objective, its bounds, classes, and holders that do not take part."""

from __future__ import annotations

import threading
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

import silot
from silot import Measure, Policy
from silot.distances.worth.fedbary import fedbary
from silot.distances.worth.result import Barycenter
from silot.errors import InputError, MismatchError, RefusedError, SilotError
from silot.federation import Answer, Failure, Holder, LocalFederation, Question
from silot.federation.question import question_kinds
from tests.lazily import package
from tests.problems import (
    Array,
    assert_refused,
    cost_of_matrix,
    draw_clouds,
    draw_weights,
    normalised,
    seeds,
)
from tests.saying import Quiet, Saying
from tests.tiers import examples

ot = package("ot")

OPEN = Policy.open()
X = np.random.default_rng(0).normal(size=(12, 2))
Y = X + np.array([3.0, 0.0])
Z = X * 2.0


def squared(x: Measure, points: Array, weights: Array) -> float:
    """``W_2^2`` by POT."""
    return cost_of_matrix(cdist(x.points, points, "sqeuclidean"), x.weights, weights)


def objective_at(
    holders: dict[str, Measure], shares: dict[str, float], points: Array, weights: Array
) -> float:
    return sum(share * squared(holders[name], points, weights) for name, share in shares.items())


def draw_holders(seed: int) -> dict[str, Measure]:
    """Holders of unequal sizes, weighted or not, with zero weights and duplicates."""
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 2, 5]))
    layout = str(rng.choice(["normal", "grid", "clusters", "constant", "uneven"]))
    found: dict[str, Measure] = {}
    for k in range(int(rng.integers(1, 5))):
        n = int(rng.integers(1, 16))
        kind = str(rng.choice(["uniform", "integer", "random", "zeros", "dominant"]))
        points, _ = draw_clouds(rng, layout, n, 1, d)
        found[f"h{k}"] = Measure(points + (0.0 if layout == "grid" else k), draw_weights(
            rng, kind, n))  # fmt: skip
    return found


@given(seeds, st.integers(1, 12), st.sampled_from([0.1, 0.5, 0.9]), st.sampled_from([0.0, 0.5]))
@settings(max_examples=examples(60))
def test_objective_is_the_weighted_sum_of_exact_distances_to_the_returned_atoms(
    seed: int, support: int, t: float, place: float
) -> None:
    holders = draw_holders(seed)
    rng = np.random.default_rng(seed)
    weights = {name: float(rng.uniform(0.2, 3.0)) for name in holders}
    result = silot.barycenter(
        holders, support=support, rounds=5, t=t, place=place, weights=weights, seed=1
    )
    total = sum(weights.values())
    assert result.shares == pytest.approx({k: w / total for k, w in weights.items()})
    exact = objective_at(holders, weights, result.points, result.weights) / total
    largest = max(
        float(cdist(x.points, result.points, "sqeuclidean").max()) for x in holders.values()
    )
    # Coordinates are rounded by themselves: squares of that remain where all points coincide.
    scale = max(float(np.abs(x.points).max()) for x in holders.values())
    room = 1e-13 * largest + (8 * np.finfo(float).eps * scale) ** 2
    if result.converged:
        assert result.objective == pytest.approx(exact, rel=1e-9, abs=room)
    assert result.objective >= exact * (1 - 1e-9) - room
    through = sum(result.shares[name] * item.value**2 for name, item in result.distances.items())
    assert through == pytest.approx(exact, rel=1e-9, abs=room)
    assert result.objective <= through * (1 + 1e-9) + room
    assert 0 <= result.lower <= exact * (1 + 1e-9) + room
    assert result.weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("seed", [0, 1])
def test_far_from_the_origin_the_objective_is_that_of_the_returned_atoms(seed: int) -> None:
    # Multiples of 1/4096 are moved by a power of two without rounding.
    rng = np.random.default_rng(seed)
    points = np.round(rng.normal(size=(20, 2)) * 64) / 4096
    near = {"a": points, "b": points[:10] * 2}
    far = {name: Measure(x + 2.0**20) for name, x in near.items()}
    options = {"support": 5, "rounds": 40, "seed": seed}
    result = silot.barycenter(far, **options)
    exact = objective_at(far, dict(result.shares), result.points, result.weights)
    assert result.objective == pytest.approx(exact, rel=1e-6)
    assert exact <= 1.1 * silot.barycenter(near, **options).objective


@given(seeds, st.integers(1, 12), st.sampled_from([0.0, 0.7]))
@settings(max_examples=examples(40))
def test_objective_never_rises(seed: int, support: int, place: float) -> None:
    result = silot.barycenter(
        draw_holders(seed), support=support, rounds=9, tol=0.0, place=place, seed=seed % 9
    )
    told = [entry["objective"] for entry in result.history]
    assert all(now <= before * (1 + 1e-12) for before, now in pairwise(told))
    assert result.objective <= told[-1] * (1 + 1e-9)


@given(seeds)
@settings(max_examples=examples(40))
def test_lower_bound_is_below_the_objective_of_every_measure(seed: int) -> None:
    """Measures at hand: random ones, one point, a holder itself, and POT's barycenter."""
    holders = draw_holders(seed)
    rng = np.random.default_rng(seed + 1)
    result = silot.barycenter(holders, support=4, rounds=4, seed=2)
    points = np.concatenate([x.points for x in holders.values()])
    mean = sum(s * (holders[k].weights @ holders[k].points) for k, s in result.shares.items())
    tried = [
        (np.atleast_2d(mean), np.ones(1)),
        (points, normalised(rng.random(len(points)), len(points))),
        *((x.points, x.weights) for x in holders.values()),
        (ot.lp.free_support_barycenter(
            [x.points for x in holders.values()], [x.weights for x in holders.values()],
            points[:4].copy(), weights=np.full(len(holders), 1 / len(holders)), numItermax=5,
        ), normalised(None, len(points[:4]))),
    ]  # fmt: skip
    means = np.stack([holders[k].weights @ holders[k].points for k in result.shares])
    known = np.array(list(result.shares.values())) @ np.sum((means - mean) ** 2, axis=1)
    size = max(float(np.abs(points).max()), 1.0)
    assert result.lower == pytest.approx(float(known), rel=1e-9, abs=1e-13 * size**2)
    for cloud, weights in tried:
        exact = objective_at(holders, dict(result.shares), cloud, weights)
        assert result.lower <= exact * (1 + 1e-9)


@pytest.mark.parametrize("d", [1, 3])
@pytest.mark.parametrize("seed", [3, 4])
def test_barycenter_of_translated_copies_is_the_translate_in_the_middle(d: int, seed: int) -> None:
    """All couplings are translations: the objective is the weighted variance of the shifts."""
    rng = np.random.default_rng(seed)
    cloud, shifts = rng.normal(size=(10, d)), rng.normal(size=(4, d)) * 5
    shares = normalised(rng.random(4) + 0.1, 4)
    middle = shares @ shifts
    known = float(shares @ np.sum((shifts - middle) ** 2, axis=1))
    result = silot.barycenter(
        {str(k): cloud[rng.permutation(10)] + shift for k, shift in enumerate(shifts)},
        weights={str(k): 7 * float(share) for k, share in enumerate(shares)},
        reference=cloud + middle + 0.01,
        rounds=30,
    )
    assert result.converged
    assert result.objective == pytest.approx(known, rel=1e-9)
    assert result.lower == pytest.approx(known, rel=1e-9)
    order, there = np.lexsort(result.points.T), np.lexsort((cloud + middle).T)
    np.testing.assert_allclose(result.points[order], (cloud + middle)[there], atol=1e-9)


def test_barycenter_of_one_holder_is_the_holder_itself() -> None:
    result = silot.barycenter({"a": X}, reference=X + 0.01)
    assert result.objective == pytest.approx(0.0, abs=1e-20)
    np.testing.assert_allclose(result.points, X, atol=1e-12)


def test_barycenter_of_points_is_their_weighted_mean() -> None:
    result = silot.barycenter(
        {"a": [[0.0, 0.0]], "b": [[4.0, 0.0]]}, weights={"a": 1.0, "b": 3.0}, support=1
    )
    np.testing.assert_allclose(result.points, [[3.0, 0.0]])
    assert result.objective == pytest.approx(3.0)
    assert result.distances["b"].value == pytest.approx(1.0)


def test_barycenter_on_the_line_averages_quantiles() -> None:
    """In one dimension sorting is optimal, and the barycenter averages sorted records."""
    rng = np.random.default_rng(5)
    clouds = rng.normal(size=(3, 15)) * [[1.0], [3.0], [0.5]] + [[0.0], [5.0], [-4.0]]
    known = float(np.mean((np.sort(clouds, axis=1) - np.sort(clouds, axis=1).mean(axis=0)) ** 2))
    result = silot.barycenter([c[:, None] for c in clouds], support=15, rounds=40)
    assert result.objective == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize("seed", [1, 2, 5, 11])
def test_three_gaussians_reach_the_centralised_barycenter_in_ten_rounds(seed: int) -> None:
    """Within 1 % of POT's free-support barycenter from the same first atoms, or below it."""
    rng = np.random.default_rng(seed)
    clouds = [
        rng.normal(size=(60, 2)) @ rng.normal(size=(2, 2)) + rng.uniform(-5, 5, size=2)
        for _ in range(3)
    ]
    first = rng.normal(size=(40, 2))
    uniform = [np.full(60, 1 / 60)] * 3
    pot = ot.lp.free_support_barycenter(clouds, uniform, first.copy(), numItermax=200, stopThr=1e-9)
    holders = {str(k): Measure(cloud) for k, cloud in enumerate(clouds)}
    known = objective_at(holders, dict.fromkeys(holders, 1 / 3), pot, np.full(40, 1 / 40))
    result = silot.barycenter(holders, reference=first, rounds=10)
    assert len(result.history) <= 10
    assert result.objective <= 1.01 * known
    assert result.lower <= known


def test_duplicated_records_are_weights_and_weightless_records_are_nothing() -> None:
    weights = np.array([3.0, 1, 1, 2, 0, 0, 1, 1, 1, 1, 1, 2])
    weighted = {"a": Measure(X, weights), "b": Measure(Y)}
    copies = {"a": Measure(np.repeat(X, weights.astype(int), axis=0)), "b": Measure(Y)}
    used = {"a": Measure(X[weights > 0], weights[weights > 0]), "b": Measure(Y)}
    options = {"support": 6, "seed": 3, "rounds": 8}
    result = silot.barycenter(weighted, **options)
    same = silot.barycenter(used, **options)
    np.testing.assert_allclose(same.points, result.points, rtol=1e-9, atol=1e-9)
    assert same.objective == pytest.approx(result.objective, rel=1e-9)
    other = silot.barycenter(copies, **options)
    assert other.objective == pytest.approx(result.objective, rel=1e-6)


def test_order_of_holders_changes_nothing() -> None:
    holders = {"a": Measure(X), "b": Measure(Y[:7]), "c": Measure(Z[:5], [1.0, 2, 0, 1, 1])}
    weights = {"c": 3.0, "a": 1.0, "b": 2.0}
    first = silot.barycenter(holders, weights=weights, support=6, rounds=6)
    turned = dict(reversed(list(holders.items())))
    second = silot.barycenter(turned, weights=weights, support=6, rounds=6)
    np.testing.assert_allclose(first.points, second.points, rtol=0, atol=1e-13)
    assert first.objective == pytest.approx(second.objective, rel=1e-13)
    assert len(first.history) == len(second.history)
    assert list(second.distances) == ["c", "b", "a"]


def test_same_seed_gives_the_same_barycenter_and_another_seed_other_first_atoms() -> None:
    first, again, other = (
        silot.barycenter({"a": X, "b": Z}, support=3, rounds=2, seed=s) for s in (5, 5, 6)
    )
    np.testing.assert_array_equal(first.points, again.points)
    assert not np.array_equal(first.points, other.points)


def test_the_interpolation_parameter_changes_only_the_messages() -> None:
    holders = {"a": Measure(X), "b": Measure(Z[:9])}
    results = [silot.barycenter(holders, support=5, rounds=6, t=t) for t in (0.05, 0.5, 0.95)]
    for result in results[1:]:
        np.testing.assert_allclose(result.points, results[0].points, atol=1e-9)
    assert results[0].transcript is not None and results[1].transcript is not None


def test_a_run_stays_within_its_rounds_and_says_why_it_stopped() -> None:
    protocol = fedbary(["a", "b"], rounds=1, tol=0.0, support=5)
    result = LocalFederation({"a": X, "b": Z}).run(protocol)
    assert not result.converged
    assert result.status.startswith("stopped: 1 rounds done")
    assert result.rounds == protocol.expected_rounds == 3
    assert result.disclosure == "record"
    longer = silot.barycenter({"a": X, "b": Z}, support=5, rounds=60)
    assert longer.converged and longer.status.startswith("converged")


# Classes.


def labelled(points: Array, labels: list[str] | Array, weights: Array | None = None) -> Measure:
    return Measure(points, weights, labels=labels)


def test_atoms_are_allotted_by_the_mass_of_classes_one_at_least() -> None:
    labels = np.array(["a"] * 9 + ["b"] * 2 + ["c"])
    result = silot.barycenter({"h": labelled(X, labels)}, labels=True, support=8, rounds=3)
    assert result.labels is not None
    kinds, counts = np.unique(result.labels, return_counts=True)
    assert kinds.tolist() == ["a", "b", "c"] and counts.sum() == 8
    # No other split has lighter heaviest atoms.
    split = [(i, j, 8 - i - j) for i in range(1, 7) for j in range(1, 8 - i)]
    best = min(max(9 / i, 2 / j, 1 / k) for i, j, k in split) / 12
    assert result.weights.max() == pytest.approx(best)
    masses = [float(result.weights[result.labels == kind].sum()) for kind in kinds]
    assert masses == pytest.approx([9 / 12, 2 / 12, 1 / 12])


@pytest.mark.parametrize("size", [1, 2])
def test_fewer_atoms_than_classes_is_refused(size: int) -> None:
    data = labelled(X, ["a", "b", "c"] * 4)
    assert_refused(
        lambda: silot.barycenter([data], labels=True, support=size), InputError, "option-support"
    )


@given(seeds)
@settings(max_examples=examples(25))
def test_each_class_is_a_barycenter_of_its_own(seed: int) -> None:
    """Atoms of a class are the barycenter of that class in the holders that have it."""
    rng = np.random.default_rng(seed)
    holders: dict[str, Measure] = {}
    for name in "pqr"[: int(rng.integers(1, 4))]:
        n = int(rng.integers(2, 14))
        kinds = rng.choice(["a", "b", "c"], n)
        holders[name] = labelled(rng.normal(size=(n, 2)) + rng.normal(), kinds, rng.random(n) + 0.1)
    result = silot.barycenter(holders, labels=True, support=9, rounds=30, seed=1)
    assert result.labels is not None
    known = 0.0
    for kind in np.unique(result.labels):
        there = result.labels == kind
        mass = {k: float(x.weights[x.labels == kind].sum()) for k, x in holders.items()}
        within = result.weights[there] / result.weights[there].sum()
        total = sum(result.shares[k] * mass[k] for k in holders)
        assert result.weights[there].sum() == pytest.approx(total)
        for name, x in holders.items():
            if mass[name] > 0:
                own = x.labels == kind
                part = Measure(x.points[own], x.weights[own])
                known += (
                    result.shares[name] * mass[name] * squared(part, result.points[there], within)
                )
    assert result.objective >= known * (1 - 1e-9)
    if result.converged:
        assert result.objective == pytest.approx(known, rel=1e-9, abs=1e-12)
    assert result.lower <= known * (1 + 1e-9)


def test_a_class_one_holder_has_alone_is_found_at_its_records() -> None:
    here = labelled(X, ["a"] * 6 + ["b"] * 6)
    other = labelled(Y[:6] + 50.0, ["a"] * 6)
    result = silot.barycenter({"p": here, "q": other}, labels=True, support=12, rounds=30)
    assert result.labels is not None
    mean = np.average(
        result.points[result.labels == "b"], axis=0, weights=result.weights[result.labels == "b"]
    )
    np.testing.assert_allclose(mean, X[6:].mean(axis=0), atol=1e-9)
    assert set(result.distances) == {"p", "q"}


# Holders that do not take part.


class Flaky(Saying):
    """A holder that fails or refuses from one of its questions on."""

    def __init__(self, points: object, after: int, kind: str = "failed") -> None:
        super().__init__(points, OPEN)  # type: ignore[arg-type]
        self._left, self._kind = after, kind
        self._guard = threading.Lock()

    def reply(self, message: bytes) -> bytes:
        with self._guard:
            self._left -= 1
            if self._left < 0 and self._kind == "raise":
                raise RuntimeError("record 8675309.25")
        return super().reply(message)

    def says(self, question: Question) -> Answer | Failure:
        if self._left < 0:
            code = "policy-level" if self._kind == "refused" else "holder-raised"
            return Failure(code, self._kind)
        return self.answer(question)


@pytest.mark.parametrize("kind", ["failed", "refused", "raise"])
@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_holder_that_fails_at_any_time_is_dropped_and_named_when_a_quorum_is_left(
    after: int, kind: str
) -> None:
    federation = LocalFederation({"a": X, "b": Flaky(Y + 40.0, after, kind), "c": Z})
    protocol = fedbary("abc", quorum=2, rounds=15, support=6, tol=0.0, seed=2)
    result: Barycenter = federation.run(protocol)
    code = "policy-level" if kind == "refused" else "holder-raised"
    assert result.missing == {"b": code}
    assert f"b ({code})" in result.status
    assert set(result.distances) == set(result.shares) == {"a", "c"}
    assert result.shares == pytest.approx({"a": 0.5, "c": 0.5})
    exact = objective_at(
        {"a": Measure(X), "c": Measure(Z)}, dict(result.shares), result.points, result.weights
    )
    assert result.objective == pytest.approx(exact, rel=1e-6)
    assert result.objective >= exact * (1 - 1e-9)
    assert result.lower <= exact


def test_a_holder_that_fails_only_at_the_last_question_is_dropped_from_the_objective() -> None:
    """Describe, three rounds, then the distance."""
    federation = LocalFederation({"a": X, "b": Flaky(Y + 40.0, 4), "c": Z})
    result = federation.run(fedbary("abc", quorum=2, rounds=3, support=6, tol=0.0))
    exact = objective_at(
        {"a": Measure(X), "c": Measure(Z)}, dict(result.shares), result.points, result.weights
    )
    assert result.missing == {"b": "holder-raised"}
    assert result.objective == pytest.approx(exact, rel=1e-9)
    assert result.lower <= result.objective


@pytest.mark.parametrize("after", [0, 1, 3])
@pytest.mark.parametrize(
    ("kind", "code"), [("refused", "policy-level"), ("raise", "holder-raised")]
)
def test_without_a_quorum_the_failure_is_raised(after: int, kind: str, code: str) -> None:
    federation = LocalFederation({"a": X, "b": Flaky(Y, after, kind)})
    with pytest.raises(SilotError) as caught:
        federation.run(fedbary("ab", rounds=4, tol=0.0))
    assert caught.value.code == code
    assert "'b'" in caught.value.message and "8675309" not in str(caught.value)


@pytest.mark.parametrize("level", ["private", "statistics"])
def test_a_policy_below_record_refuses(level: str) -> None:
    policy = Policy(level=level, questions=frozenset(question_kinds()))  # type: ignore[arg-type]
    federation = LocalFederation({"a": Holder(Measure(X), policy), "b": Y})
    with pytest.raises(RefusedError) as caught:
        federation.run(fedbary("ab", support=12))
    assert caught.value.code == "policy-level"


def test_a_holder_without_labels_is_dropped_or_raised() -> None:
    holders = {"a": labelled(X, ["a", "b"] * 6), "b": Measure(Y)}
    federation = LocalFederation(holders)
    with pytest.raises(SilotError) as caught:
        federation.run(fedbary("ab", labels=True, support=4))
    assert caught.value.code == "labels-absent"
    result = federation.run(fedbary("ab", labels=True, support=4, quorum=1, rounds=3))
    assert result.missing == {"b": "labels-absent"}


class Lying(Saying):
    """A holder whose answers of one kind have other arrays or scalars."""

    def __init__(self, measure: Measure, kind: str, changes: dict[str, object]) -> None:
        super().__init__(measure, OPEN)
        self._kind, self._changes = kind, changes

    def says(self, question: Question) -> Answer | Failure:
        answer = self.answer(question)
        if question.kind != self._kind or isinstance(answer, Failure):
            return answer
        arrays, scalars = dict(answer.arrays), dict(answer.scalars)
        for name, value in self._changes.items():
            for part in (arrays, scalars):
                part.pop(name, None)
            if isinstance(value, np.ndarray):
                arrays[name] = value
            elif value is not None:
                scalars[name] = value  # type: ignore[assignment]
        return Answer(arrays, scalars)


ROUND = "interpolate-by-class"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("describe", {"records": -1.0}),
        ("describe", {"records": 2.5}),
        ("describe", {"dimension": "two"}),
        (ROUND, {"atoms": np.zeros((5, 2))}),
        (ROUND, {"atoms": np.zeros((6, 3))}),
        (ROUND, {"atoms": np.full((6, 2), np.nan)}),
        (ROUND, {"atoms": np.zeros((6, 2), np.float32)}),
        (ROUND, {"atoms": None}),
        (ROUND, {"scatter": np.array([-1.0])}),
        (ROUND, {"scatter": np.array([np.inf])}),
        (ROUND, {"scatter": np.zeros(2)}),
        (ROUND, {"masses": np.array([-0.5])}),
        (ROUND, {"masses": np.array([2.0])}),
        (ROUND, {"masses": np.array([np.nan])}),
        (ROUND, {"masses": np.ones((1, 1))}),
        (ROUND, {"optimal": 1}),
        ("distance-to", {"distance": float("nan")}),
        ("distance-to", {"distance": -1.0}),
        ("distance-to", {"distance_lower": 1e9}),
        ("distance-to", {"optimal": None}),
    ],
)
def test_an_answer_that_does_not_fit_is_a_coded_error(
    kind: str, changes: dict[str, object]
) -> None:
    federation = LocalFederation({"a": Lying(Measure(X), kind, changes), "b": Y})
    with pytest.raises(SilotError) as caught:
        federation.run(fedbary("ab", support=6, rounds=2))
    assert caught.value.code == "answer-malformed"


@pytest.mark.parametrize(
    "changes",
    [
        {"classes": "not json"},
        {"classes": "[1, 2]"},
        {"classes": None},
        {"masses": np.array([np.nan, 1.0])},
        {"masses": np.array([1.0])},
        {"classes": '["a"]'},
        {"classes": '["a","b","c"]'},
        *(
            change
            for change in (
                {"classes": '["a","a"]'},
                {"masses": np.zeros(2)},
                {"masses": np.array([-0.5, 1.5])},
                {"masses": np.array([5.0, 5.0])},
            )
        ),
    ],
)
def test_class_sizes_that_do_not_fit_are_a_coded_error(changes: dict[str, object]) -> None:
    liar = Lying(labelled(X, ["a", "b"] * 6), "class-sizes", changes)
    with pytest.raises(SilotError) as caught:
        LocalFederation({"h": liar}).run(fedbary("h", labels=True, support=6, rounds=2))
    assert caught.value.code in ("answer-malformed", "question-fields")


# Options.


@pytest.mark.parametrize(
    ("options", "kind", "code"),
    [
        ({"support": 0}, InputError, "option-support"),
        ({"rounds": 0}, InputError, "option-rounds"),
        ({"tol": -1.0}, InputError, "option-tol"),
        ({"tol": float("nan")}, InputError, "option-tol"),
        ({"place": 1.0}, InputError, "option-place"),
        ({"place": -0.1}, InputError, "option-place"),
        ({"t": 0.0}, InputError, "option-t"),
        ({"t": 1.0}, InputError, "option-t"),
        ({"seed": -1}, InputError, "option-seed"),
        ({"quorum": 3}, InputError, "option-quorum"),
        ({"quorum": 0}, InputError, "option-quorum"),
        ({"weights": {"a": 1.0}}, MismatchError, "option-weights"),
        ({"weights": {"a": 1.0, "b": 0.0}}, InputError, "option-weights"),
        ({"weights": {"a": 1.0, "b": float("inf")}}, InputError, "option-weights"),
        ({"labels": True, "embedding": "full"}, InputError, "option-labels"),
        ({"labels": "yes"}, InputError, "option-labels"),
        ({"label_weight": -0.5}, InputError, "option-label-weight"),
        ({"reference": [[np.nan, 0.0]]}, InputError, "measure-nan"),
    ],
)
def test_options_out_of_range_are_refused(
    options: dict[str, object], kind: type[SilotError], code: str
) -> None:
    assert_refused(lambda: fedbary("ab", **options), kind, code)  # type: ignore[arg-type]


@pytest.mark.parametrize("names", [[], ["a", "a"], ["coordinator"]])
def test_names_that_are_no_holders_are_refused(names: list[str]) -> None:
    with pytest.raises(SilotError) as caught:
        fedbary(names)
    assert caught.value.code == "holder-names"


def test_holders_that_keep_their_distance_to_themselves_stay_in_the_result() -> None:
    federation = LocalFederation({"a": Quiet(Measure(X), OPEN), "b": Y})
    result = federation.run(fedbary("ab", support=12, seed=1))
    assert set(result.distances) == {"b"} and set(result.shares) == {"a", "b"}
    assert result.missing == {}
    assert "a sent no distance" in result.status
    both = LocalFederation({"a": X, "b": Y}).run(fedbary("ab", support=12, seed=1))
    np.testing.assert_allclose(result.points, both.points)
    assert result.objective >= both.objective * (1 - 1e-9)
    none = LocalFederation({name: Quiet(Measure(x), OPEN) for name, x in (("a", X), ("b", Y))})
    alone = none.run(fedbary("ab", support=12, seed=1))
    assert alone.distances == {} and alone.objective > 0
