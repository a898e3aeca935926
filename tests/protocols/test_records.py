"""Record scores: which records are broken, from both sides."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from silot.valuation.records import flag, tail_probability
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import silot
from silot import Holder, LocalFederation, Measure, Own, Policy, RecordScores
from silot.errors import HolderError, InputError, SilotError, WireError
from silot.federation import Answer, Failure
from silot.federation.question import Question
from silot.protocols.records import records
from silot.results import Viewpoint
from silot.transport import calibrated_gradient
from tests.problems import Array, assert_refused, seeds
from tests.saying import Saying

OPEN = Policy.open()
IMAGES, DIGITS = load_digits(return_X_y=True)
Flags = np.ndarray

SEEDS = (17, 29, 101)


def draw_digits(seed: int, n: int = 300) -> tuple[np.random.Generator, Measure, Measure]:
    """Records of a holder and validation data, standardised by the latter."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(IMAGES))
    first, second = order[:n], order[n : 2 * n]
    mean, scale = IMAGES[second].mean(axis=0), IMAGES[second].std(axis=0)
    points = (IMAGES - mean) / np.where(scale > 1e-9, scale, 1.0)
    return rng, Measure(points[first], None, DIGITS[first]), Measure(
        points[second], None, DIGITS[second]
    )  # fmt: skip


def choose(rng: np.random.Generator, share: float, n: int) -> Flags:
    broken = np.zeros(n, dtype=bool)
    broken[rng.choice(n, round(share * n), replace=False)] = True
    return broken


def noisy_features(seed: int, share: float = 0.15) -> tuple[Measure, Measure, Flags]:
    rng, holder, validation = draw_digits(seed)
    broken = choose(rng, share, holder.size)
    points = holder.points.copy()
    points[broken] += rng.normal(size=points[broken].shape)
    return Measure(points, labels=holder.labels), validation, broken


def wrong_labels(seed: int, share: float) -> tuple[Measure, Measure, Flags]:
    rng, holder, validation = draw_digits(seed)
    broken = choose(rng, share, holder.size)
    labels = np.array(holder.labels)
    labels[broken] = (labels[broken] + rng.integers(1, 10, broken.sum())) % 10
    return Measure(holder.points, labels=labels), validation, broken


def sides(result: RecordScores) -> tuple[Viewpoint, Viewpoint]:
    assert result.coordinator_side is not None
    return result.holder_side, result.coordinator_side


def auc(broken: Flags, side: Viewpoint) -> float:
    return float(roc_auc_score(broken, side.scores))


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_noise_in_features_is_found_from_both_sides(seed: int, labels: bool) -> None:
    holder, validation, broken = noisy_features(seed)
    here, there = sides(silot.value_records(holder, validation, labels=labels))
    assert auc(broken, here) >= 0.98
    assert auc(broken, there) >= 0.95


@pytest.mark.parametrize("share", [0.15, 0.3])
@pytest.mark.parametrize("seed", SEEDS)
def test_wrong_labels_are_found_from_both_sides(seed: int, share: float) -> None:
    holder, validation, broken = wrong_labels(seed, share)
    result = silot.value_records(holder, validation, labels=True)
    for side in sides(result):
        assert auc(broken, side) >= 0.93
        assert side.labels is not None
        np.testing.assert_array_equal(side.scores, np.maximum(side.features, side.labels))
    # Without the labels nothing is wrong.
    blind = silot.value_records(holder, validation)
    assert 0.35 <= auc(broken, blind.holder_side) <= 0.65
    np.testing.assert_allclose(blind.scores, result.holder_side.features, rtol=1e-9)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", ["features", "labels"])
def test_most_broken_records_are_flagged_and_most_flagged_ones_are_broken(
    what: str, seed: int
) -> None:
    if what == "features":
        holder, validation, broken = noisy_features(seed)
    else:
        holder, validation, broken = wrong_labels(seed, 0.15)
    result = silot.value_records(holder, validation, labels=what == "labels")
    for side in sides(result):
        assert side.flagged[broken].mean() >= 0.8
        assert broken[side.flagged].mean() >= 0.8
        assert side.scores[side.flagged].min() == side.threshold
    assert "Benjamini-Hochberg" in result.rule


@pytest.mark.parametrize("labels", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_few_clean_records_are_flagged(seed: int, labels: bool) -> None:
    _, holder, validation = draw_digits(seed)
    for side in sides(silot.value_records(holder, validation, labels=labels)):
        assert side.flagged.mean() <= 0.03


@pytest.mark.parametrize(
    "size",
    [
        10000.0,
        200.0,
    ],
)
@pytest.mark.parametrize("seed", SEEDS)
def test_one_gross_value_in_one_feature_is_flagged_first(seed: int, size: float) -> None:
    rng, holder, validation = draw_digits(seed)
    points = holder.points.copy()
    place = int(rng.integers(len(points)))
    points[place, 30] += size
    result = silot.value_records(Measure(points), validation)
    for side in sides(result):
        assert int(np.argmax(side.scores)) == place
        assert side.flagged[place]
    assert result.worst[0] == place


@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_one_gross_value_among_few_features_is_flagged_first(d: int) -> None:
    rng = np.random.default_rng(d)
    x, y = rng.normal(size=(2, 150, d))
    x[40, d - 1] -= 50.0
    result = silot.value_records(x, y)
    assert result.worst[0] == 40 and result.flagged[40]


@given(seeds)
@settings(max_examples=15)
def test_scores_do_not_depend_on_the_units_of_features(seed: int) -> None:
    rng = np.random.default_rng(seed)
    d = int(rng.choice([1, 3, 8]))
    x, y = rng.normal(size=(30, d)), rng.normal(size=(25, d))
    kinds = [rng.choice(["a", "b"], n) for n in (30, 25)]
    factor = 10.0 ** rng.uniform(-4, 4, d) * rng.choice([-1.0, 1.0], d)
    shift = rng.normal(size=d) * factor
    plain, moved = (
        silot.value_records(
            Measure(x * a + b, labels=kinds[0]), Measure(y * a + b, labels=kinds[1]), labels=True
        )
        for a, b in ((1.0, 0.0), (factor, shift))
    )
    # The coordinator's reference is drawn in the validation data's own scale; mirrored features
    # meet another draw, so that side is compared for positive factors below.
    np.testing.assert_allclose(moved.holder_side.features, plain.holder_side.features, atol=2.0)
    moved = silot.value_records(
        Measure(x * np.abs(factor) + shift, labels=kinds[0]),
        Measure(y * np.abs(factor) + shift, labels=kinds[1]),
        labels=True,
    )
    for first, second in zip(sides(plain), sides(moved), strict=True):
        np.testing.assert_allclose(second.scores, first.scores, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(second.gradients, first.gradients, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(second.flagged, first.flagged)


@given(seeds, st.booleans(), st.sampled_from(["free", "fixed"]))
@settings(max_examples=20)
def test_order_of_records_permutes_the_scores(seed: int, labels: bool, marginal: str) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(24, 3)), rng.normal(size=(30, 3))
    a = rng.random(24) + 0.1
    kinds = [rng.choice(["a", "b"], n) for n in (24, 30)]
    order = rng.permutation(24)
    options = {"labels": labels, "marginal": marginal}
    first = silot.value_records(
        Measure(x, a, kinds[0]),
        Measure(y, labels=kinds[1]),
        **options,  # type: ignore[arg-type]
    )
    second = silot.value_records(
        Measure(x[order], a[order], kinds[0][order]),
        Measure(y, labels=kinds[1]),
        **options,  # type: ignore[arg-type]
    )
    for one, other in zip(sides(first), sides(second), strict=True):
        np.testing.assert_allclose(other.scores, one.scores[order], rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(other.gradients, one.gradients[order], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("marginal", ["free", "fixed"])
@pytest.mark.parametrize("labels", [False, True])
def test_records_without_mass_are_never_flagged_and_change_nothing(
    labels: bool, marginal: str
) -> None:
    holder, validation, broken = wrong_labels(SEEDS[0], 0.15)
    points = holder.points.copy()
    idle = choose(np.random.default_rng(1), 0.3, holder.size)
    points[idle] += 40.0
    weights = np.where(idle, 0.0, 1.0)
    options = {"labels": labels, "marginal": marginal}
    result = silot.value_records(
        Measure(points, weights, holder.labels),
        validation,
        **options,  # type: ignore[arg-type]
    )
    used = silot.value_records(
        Measure(points[~idle], None, holder.labels[~idle]),
        validation,
        **options,  # type: ignore[arg-type]
    )
    for side, alone in zip(sides(result), sides(used), strict=True):
        assert side.scores.shape == (holder.size,)
        assert not side.flagged[idle].any()
        np.testing.assert_allclose(side.scores[~idle], alone.scores, rtol=1e-6, atol=1e-6)
        np.testing.assert_array_equal(side.flagged[~idle], alone.flagged)
        np.testing.assert_allclose(side.gradients[~idle], alone.gradients, rtol=1e-5, atol=1e-6)
    if labels:
        assert result.flagged[broken & ~idle].mean() > 0.5


def test_paper_form_is_the_calibrated_gradient_of_balanced_potentials() -> None:
    """Euclidean, fixed marginals: eq. 10, which ignores a constant in the potentials."""
    holder, validation, broken = noisy_features(SEEDS[1])
    result = silot.value_records(holder, validation, geometry="euclidean", marginal="fixed")
    for side in sides(result):
        assert auc(broken, side) >= 0.95
        # Gradients are an affine function of the only part, whose unit is positive.
        slope, cut = np.polyfit(side.scores, side.gradients, 1)
        assert slope > 0
        np.testing.assert_allclose(
            side.gradients, slope * side.scores + cut, atol=1e-6 * np.abs(side.gradients).max()
        )
        assert side.gradients.mean() == pytest.approx(0.0, abs=1e-9 * np.abs(side.gradients).max())
        n = len(side.gradients)
        np.testing.assert_allclose(
            calibrated_gradient(side.gradients, np.full(n, 1 / n)) * (n - 1) / n, side.gradients,
            atol=1e-9 * np.abs(side.gradients).max(),
        )  # fmt: skip


def test_same_seed_gives_the_same_result_and_another_seed_only_another_coordinator_side() -> None:
    holder, validation, _ = wrong_labels(SEEDS[2], 0.15)
    first, again, other = (
        silot.value_records(holder, validation, labels=True, seed=s) for s in (3, 3, 4)
    )
    np.testing.assert_array_equal(first.scores, again.scores)
    np.testing.assert_array_equal(sides(first)[1].scores, sides(again)[1].scores)
    assert not np.array_equal(sides(first)[1].scores, sides(other)[1].scores)


@pytest.mark.parametrize("marginal", ["free", "fixed"])
@pytest.mark.parametrize("labels", [False, True])
def test_with_one_reference_atom_the_coordinator_side_does_not_depend_on_t(
    labels: bool, marginal: str
) -> None:
    """Both interpolants are the records shrunk towards one point, labels and epsilon with them."""
    holder, validation, _ = wrong_labels(SEEDS[0], 0.15)
    first, second = (
        sides(silot.value_records(
            Measure(holder.points[:80], labels=holder.labels[:80]),
            Measure(validation.points[:80], labels=validation.labels[:80]),
            labels=labels, marginal=marginal, support=1, t=t,
        ))[1]
        for t in (0.1, 0.6)
    )  # fmt: skip
    np.testing.assert_allclose(second.scores, first.scores, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(second.gradients, first.gradients * (0.4 / 0.9) ** 2, rtol=1e-5,
                               atol=1e-6)  # fmt: skip


def test_a_run_is_three_rounds_and_discloses_records() -> None:
    protocol = records("h", own=Own(IMAGES[:30]))
    result = LocalFederation({"h": IMAGES[30:60]}).run(protocol)
    assert result.rounds == protocol.expected_rounds == 3
    assert result.disclosure == "record"
    assert result.name == "h" and result.converged


# Edge cases: finite scores, or a coded error; numpy warnings are errors here.

POINTS = np.random.default_rng(7).normal(size=(30, 2))
CYCLE = np.array(["a", "b", "c"] * 10)
CASES: dict[str, Callable[[], Measure]] = {
    "one class": lambda: Measure(POINTS[:9], labels=["a"] * 9),
    "one record": lambda: Measure(POINTS[:1], labels=["b"]),
    "two records": lambda: Measure(POINTS[:2], labels=["b", "a"]),
    "an unseen label": lambda: Measure(POINTS[:9], labels=[*"abcabcab", "new"]),
    "all labels unseen": lambda: Measure(POINTS[:9], labels=[*"xyxyxyxyx"]),
    "an unseen label without mass": lambda: Measure(POINTS[:3], [1, 1, 0], [*"ab", "new"]),
    "one constant feature": lambda: Measure(POINTS * [1.0, 0.0], labels=CYCLE),
    "constant features": lambda: Measure(np.ones((30, 2)), labels=CYCLE),
    "all records equal but one": lambda: Measure(np.eye(30)[:, :2] + 1.0, labels=CYCLE),
    "one record has all mass": lambda: Measure(POINTS, [1e15, *[1.0] * 29], labels=CYCLE),
    "huge offset": lambda: Measure(POINTS + 1e8, labels=CYCLE),
    "huge": lambda: Measure(POINTS * 1e140, labels=CYCLE),
    "plain": lambda: Measure(POINTS, labels=CYCLE),
}
WAYS: dict[str, dict[str, object]] = {
    "plain": {},
    "classes": {"labels": True},
    "vectors": {"labels": True, "label_metric": "vectors"},
    "euclidean": {"labels": True, "geometry": "euclidean"},
    "fixed": {"labels": True, "marginal": "fixed"},
    "paper": {"geometry": "euclidean", "marginal": "fixed"},
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("side", ["holder", "validation", "both"])
def test_odd_data_give_finite_scores_or_a_coded_error(side: str, case: str, way: str) -> None:
    odd, plain = CASES[case](), CASES["plain"]()
    holder, validation = (
        odd if side in (this, "both") else plain for this in ("holder", "validation")
    )
    try:
        result = silot.value_records(holder, validation, support=7, **WAYS[way])  # type: ignore[arg-type]
    except SilotError as error:
        if case == "all labels unseen":
            assert error.code == "labels-disjoint", error
            return
        # Regularisation in units of the validation data is too small for records so far away.
        assert error.code == "option-epsilon", error
        assert way in ("paper", "fixed") and case in ("huge", "huge offset", *MASSES)
        return
    for view in sides(result):
        for part in (view.scores, view.features, view.labels, view.gradients):
            assert part is None or (part.shape == (holder.size,) and np.isfinite(part).all())
        assert view.threshold > -np.inf
    if side == "validation" and validation.size < 20:
        assert not result.flagged.any()
        assert "too few" in result.status or not result.converged


MASSES = ("one record has all mass",)


@pytest.mark.parametrize("labels", [False, True])
def test_offset_and_scale_of_all_data_change_nothing(labels: bool) -> None:
    """Multiples of 1/64 are moved by a power of two without rounding."""
    rng = np.random.default_rng(5)
    x, y = (np.round(rng.normal(size=(30, 2)) * 64) / 64 for _ in range(2))
    near, far = (
        silot.value_records(Measure(x + c, labels=CYCLE), Measure(y + c, labels=CYCLE),
                            labels=labels)
        for c in (0.0, 2.0**27)
    )  # fmt: skip
    np.testing.assert_allclose(far.scores, near.scores, rtol=1e-5, atol=1e-5)


def test_holder_of_other_data_altogether_is_said_to_be_so() -> None:
    result = silot.value_records(POINTS + 30.0, POINTS)
    assert result.flagged.all()
    assert "more than half" in result.status


# Holders that refuse, fail or lie.


def test_a_holder_that_refuses_its_interpolant_gives_no_coordinator_side() -> None:
    policy = Policy(level="record", questions=frozenset({"describe", "score-records"}))
    holder, validation, broken = noisy_features(SEEDS[0])
    federation = LocalFederation({"h": Holder(holder, policy)})
    result = federation.run(records("h", own=Own(validation)))
    assert result.coordinator_side is None
    assert "no coordinator side" in result.status
    assert auc(broken, result.holder_side) >= 0.98
    assert result.to_dict()["coordinator_side"] is None


@pytest.mark.parametrize("level", ["scalar", "sketch", "aggregate"])
def test_a_policy_below_record_refuses(level: str) -> None:
    federation = LocalFederation({"h": Holder(Measure(POINTS), Policy(level=level))})  # type: ignore[arg-type]
    with pytest.raises(SilotError) as caught:
        federation.run(records("h", own=Own(POINTS)))
    assert caught.value.code == "policy-level"


class Altered(Saying):
    """A holder that changes what it answers to one kind of question."""

    def __init__(self, measure: Measure, kind: str, changes: dict[str, object] | Failure) -> None:
        super().__init__(measure, OPEN)
        self._kind, self._changes = kind, changes

    def says(self, question: Question) -> Answer | Failure:
        answer = self.answer(question)
        if question.kind != self._kind or isinstance(answer, Failure):
            return answer
        if isinstance(self._changes, Failure):
            return self._changes
        arrays, scalars = dict(answer.arrays), dict(answer.scalars)
        for name, value in self._changes.items():
            if isinstance(value, np.ndarray):
                arrays[name] = value
            elif value is None:
                arrays.pop(name, None)
                scalars.pop(name, None)
            else:
                scalars[name] = value  # type: ignore[assignment]
        return Answer(arrays, scalars)


def test_a_holder_that_fails_at_its_interpolant_is_raised() -> None:
    broken = Altered(Measure(POINTS), "interpolate-records", Failure("holder-raised"))
    with pytest.raises(HolderError) as caught:
        LocalFederation({"h": broken}).run(records("h", own=Own(POINTS)))
    assert caught.value.code == "holder-raised"


N = len(POINTS)
SCORES, MOVED = "score-records", "interpolate-records"
UNIFORM = np.full(N, 1 / N)
NAN = np.full(N, np.nan)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("describe", {"dimension": None}),
        (SCORES, {"whole": None}),
        (SCORES, {"whole": np.zeros(N - 1)}),
        (SCORES, {"whole": NAN}),
        (SCORES, {"features": np.full(N, np.inf)}),
        (SCORES, {"features": np.zeros((N, 1))}),
        (SCORES, {"features": np.zeros(N, np.int64)}),
        (SCORES, {"weights": np.zeros(N)}),
        (SCORES, {"weights": -UNIFORM}),
        (SCORES, {"weights": np.ones(N + 1)}),
        (SCORES, {"converged": 1.0}),
        (MOVED, {"atoms": np.zeros((N, 5))}),
        (MOVED, {"atoms": np.zeros((N - 1, 6))}),
        (MOVED, {"atoms": np.full((N, 6), np.nan)}),
        (MOVED, {"weights": NAN}),
        (MOVED, {"weights": np.zeros(N)}),
        (MOVED, {"codes": None}),
        (MOVED, {"codes": np.full(N, -1)}),
        (MOVED, {"codes": np.full(N, 3)}),
        (MOVED, {"codes": np.zeros(N - 1, np.int64)}),
        (MOVED, {"codes": np.zeros(N)}),
        (MOVED, {"codes": np.zeros((N, 1), np.int64)}),
        (MOVED, {"places": None}),
        (MOVED, {"places": np.arange(N) - 1}),
        (MOVED, {"places": np.arange(N) + 1}),
        (MOVED, {"places": np.zeros(N, np.int64)}),
        (MOVED, {"places": np.arange(N)[::-1].copy()}),
        (MOVED, {"places": np.arange(N, dtype=np.float64)}),
        (MOVED, {"records": N + 1}),
        (MOVED, {"records": None}),
        (MOVED, {"records": float("nan")}),
        (MOVED, {"label_distances": np.zeros((3, 2))}),
        (MOVED, {"label_distances": np.full((3, 3), -1.0)}),
        (MOVED, {"label_distances": np.full((3, 3), np.nan)}),
        (MOVED, {"label_distances": None}),
    ],
)
def test_an_answer_that_does_not_fit_is_a_wire_error(kind: str, changes: dict[str, object]) -> None:
    liar = Altered(Measure(POINTS, labels=CYCLE), kind, changes)
    protocol = records("h", own=Own(Measure(POINTS, labels=CYCLE)), labels="classes")
    with pytest.raises(WireError) as caught:
        LocalFederation({"h": liar}).run(protocol)
    assert caught.value.code == "answer-malformed"


HUGE = "bug: finite answers so large that their differences overflow give NaN or a numpy warning"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (SCORES, {"whole": np.full(N, 1e308), "features": np.full(N, -1e308)}),
        (SCORES, {"features": np.full(N, 1e308)}),
        (MOVED, {"atoms": np.full((N, 6), 1e200)}),
        (MOVED, {"label_distances": np.full((3, 3), 1e308)}),
    ],
)
def test_answers_that_overflow_are_coded_errors_or_finite(
    kind: str, changes: dict[str, object]
) -> None:
    liar = Altered(Measure(POINTS, labels=CYCLE), kind, changes)
    protocol = records("h", own=Own(Measure(POINTS, labels=CYCLE)), labels="classes")
    try:
        result = LocalFederation({"h": liar}).run(protocol)
    except SilotError:
        return
    for view in sides(result):
        assert np.isfinite(view.scores).all() and np.isfinite(view.gradients).all()


# The rule.


def null(seed: int, n: int = 400) -> Array:
    return np.sort(np.random.default_rng(seed).exponential(size=n))


@given(seeds, st.integers(20, 400))
@settings(max_examples=30)
def test_tail_probability_falls_with_the_score_and_lies_between_zero_and_one(
    seed: int, n: int
) -> None:
    scores = np.sort(np.random.default_rng(seed + 1).normal(size=50) * 5)
    found = tail_probability(scores, null(seed, n))
    assert ((found >= 0) & (found <= 1)).all()
    # Ranks and the exponential tail meet to a rank.
    assert (np.diff(found) <= 2.0 / n + 1e-12).all()


def test_tail_of_exponential_scores_is_exponential() -> None:
    found = tail_probability(np.array([5.0, 8.0]), null(3, 20000))
    np.testing.assert_allclose(found, np.exp([-5.0, -8.0]), rtol=0.25)


def test_no_more_than_a_tenth_of_the_flags_are_wrong_on_average() -> None:
    wrong: list[float] = []
    for seed in range(60):
        rng = np.random.default_rng(1000 + seed)
        scores = rng.exponential(size=200)
        scores[:30] += 12.0
        flags = flag(tail_probability(scores, null(seed)), np.ones(200, bool))
        assert flags[:30].all()
        wrong.append(float(flags[30:].sum() / flags.sum()))
    assert np.mean(wrong) <= 0.12


def test_records_that_do_not_count_are_never_flagged() -> None:
    flags = flag(np.array([1e-9, 1e-9, 0.9]), np.array([True, False, True]))
    np.testing.assert_array_equal(flags, [True, False, False])
    assert not flag(np.zeros(2), np.zeros(2, bool)).any()


def test_copies_of_validation_records_change_no_score() -> None:
    _, holder, validation = draw_digits(SEEDS[0])
    points, weights = validation.arrays()
    twice = Measure(np.vstack([points, points]), np.concatenate([weights, weights]))
    once = silot.value_records(holder, Measure(points, weights))
    again = silot.value_records(holder, twice)
    np.testing.assert_allclose(once.scores, again.scores, atol=1e-6)
    np.testing.assert_array_equal(once.flagged, again.flagged)


def test_validation_records_of_no_weight_say_nothing_of_what_is_normal() -> None:
    holder, validation, broken = noisy_features(SEEDS[0])
    points, _ = validation.arrays()
    garbage = np.random.default_rng(1).normal(scale=9.0, size=(60, points.shape[1]))
    # Inside the range of the data, so that the frame stays what it was.
    garbage = np.clip(garbage, points.min(axis=0), points.max(axis=0))
    masses = np.concatenate([np.ones(len(points)), np.full(60, 1e-9)])
    result = silot.value_records(holder, Measure(np.vstack([points, garbage]), masses))
    assert result.flagged[broken].mean() >= 0.8


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"labels": "some"}, "option-labels"),
        ({"geometry": "round"}, "option-geometry"),
        ({"marginal": "none"}, "option-marginal"),
        ({"label_weight": -1.0}, "option-label-weight"),
        ({"label_weight": float("nan")}, "option-label-weight"),
        ({"t": 0.0}, "option-t"),
        ({"t": 1.0}, "option-t"),
        ({"support": 0}, "option-support"),
        ({"seed": -1}, "option-seed"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], code: str) -> None:
    assert_refused(
        lambda: records("h", own=Own(POINTS), **options),  # type: ignore[arg-type]
        InputError,
        code,
    )
