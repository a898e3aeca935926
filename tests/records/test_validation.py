"""Record scores: screening, and the published gradients; policies, liars, odd data."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

import silot
from silot import Measure, Policy
from silot.errors import HolderError, InputError, MismatchError, SilotError, WireError
from silot.federation import Answer, Failure, Holder, LocalFederation, Own, Question
from silot.federation.answer import decode_reply
from silot.federation.question import encode_question, question_kinds
from silot.records import RecordScores
from silot.records.gradients import gradients
from silot.records.questions.scores import ScreenRecords
from silot.records.screen import Screen
from silot.records.validation import records
from silot_transport import calibrated_gradient, exact_plan, interpolate
from tests.problems import Array, assert_refused
from tests.saying import Saying

OPEN = Policy.open()
IMAGES, DIGITS = load_digits(return_X_y=True)
IMAGES = IMAGES[:, IMAGES.std(axis=0) > 0]
RNG = np.random.default_rng(4)
ORDER = RNG.permutation(len(IMAGES))
X, Y = IMAGES[ORDER[:150]], DIGITS[ORDER[:150]]
V, W = IMAGES[ORDER[150:350]], DIGITS[ORDER[150:350]]
WRONG = np.where(np.arange(150) < 20, (Y + 1) % 10, Y)
BAD = np.arange(150) < 20
NAMES = np.array([f"digit {k}" for k in range(10)])


def run(holder: object = None, validation: object = None, **options: object) -> RecordScores:
    holder = Measure(X, labels=NAMES[WRONG]) if holder is None else holder
    validation = Measure(V, labels=NAMES[W]) if validation is None else validation
    options = {"labels": True, **options}
    return silot.value_records(holder, validation, **options)  # type: ignore[arg-type]


@cache
def first_run() -> RecordScores:
    return run()


def test_wrong_labels_are_flagged_and_named() -> None:
    assert roc_auc_score(BAD, first_run().scores) >= 0.99
    assert first_run().flagged[BAD].mean() >= 0.8 and first_run().flagged[~BAD].mean() <= 0.05
    part = first_run().parts
    hits = first_run().flagged & BAD
    assert (part.kinds[hits] == "label").all()
    assert (part.suggested[hits] == NAMES[Y[hits]]).mean() >= 0.9
    broken = part.broken["label"]
    assert broken.low <= 20 <= broken.high


def test_a_run_is_two_rounds_and_discloses_records() -> None:
    assert first_run().rounds == 2 and first_run().disclosure == "record"
    assert first_run().transcript is not None
    asked = [each.payload for each in first_run().transcript.entries if each.direction == "sent"]
    assert len(asked) == 2


def test_nearest_records_and_columns_are_those_of_the_validation_data() -> None:
    frame = {f"pixel {k}": X[:, k] for k in range(X.shape[1])}
    import polars

    x, v = polars.DataFrame(frame), polars.DataFrame({n: V[:, k] for k, n in enumerate(frame)})
    weights = np.where(np.arange(200) < 5, 0.0, 1.0)
    found = silot.value_records(Measure(x), Measure(V, weights, columns=list(v.columns)))
    part = found.parts
    assert part.nearest.min() >= 5
    assert {str(name) for name in part.columns.ravel()} <= set(frame)
    same = silot.value_records(np.vstack([V[10:20], X]), V)
    assert same.parts.nearest[:10].tolist() == list(range(10, 20))
    assert "10 records equal validation records" in same.status


def test_same_seed_same_result_whatever_the_order_of_validation_records() -> None:
    turned = np.random.default_rng(0).permutation(200)
    again = run(validation=Measure(V[turned], labels=NAMES[W[turned]]))
    np.testing.assert_array_equal(again.scores, first_run().scores)
    np.testing.assert_array_equal(turned[again.parts.nearest], first_run().parts.nearest)


def test_models_are_fitted_once_for_several_holders(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    fit = Screen.fit

    def counted(*given: object) -> object:
        calls.append(1)
        return fit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(Screen, "fit", counted)
    own = Own(Measure(V))
    first, second = (silot.value_records(each, own) for each in (X[:70], X[70:]))
    assert len(calls) == 1
    alone = silot.value_records(X[70:], V)
    assert len(calls) == 2
    np.testing.assert_array_equal(alone.scores, second.scores)
    assert len(first.scores) == 70


def test_labels_of_one_class_and_labels_unknown_are_said_so() -> None:
    one = run(validation=Measure(V, labels=np.full(200, "digit 1")))
    assert one.parts.labels is None and "labels were not judged" in one.status
    few = Measure(V[W != 3], labels=NAMES[W[W != 3]])
    strange = run(Measure(X, labels=NAMES[Y]), few)
    assert f"{(Y == 3).sum()} records have classes that the validation data lack" in strange.status
    np.testing.assert_array_equal(strange.parts.has_known_label, Y != 3)


def test_names_of_other_classes_altogether_are_refused() -> None:
    other = Measure(X, labels=[f"number {k}" for k in Y])
    with pytest.raises(SilotError) as caught:
        run(other)
    assert caught.value.code == "labels-disjoint"


def test_tables_of_few_values_are_equal_by_chance_and_not_suspect() -> None:
    rng = np.random.default_rng(3)
    shares, sure = [], []
    for _ in range(8):
        found = silot.value_records(*(rng.integers(0, 5, (300, 3)).astype(float) for _ in "xv"))
        assert "equal validation records" not in found.status and not found.parts.copies.any()
        shares.append(found.parts.broken["all"].value / 300)
        sure.append(found.parts.broken["all"].low > 0.0)
    assert np.mean(shares) < 0.06 and np.mean(sure) <= 0.25


def test_other_data_altogether_are_said_to_be_so() -> None:
    found = silot.value_records(X + 40.0 * X.std(), V)
    assert "as a whole differ" in found.status and not found.parts.copies.any()
    assert "as a whole differ" not in silot.value_records(X, V).status


def test_level_zero_flags_nothing_and_takes_few_validation_records() -> None:
    found = silot.value_records(X, V[:12], fdr=0.0)
    assert not found.flagged.any() and "nothing is flagged" in found.rule
    assert np.isfinite(found.scores).all()


@pytest.mark.parametrize(("m", "fdr"), [(49, 0.1), (20, 0.5), (99, 0.05), (9, 0.0)])
def test_too_few_validation_records_for_the_level_are_refused(m: int, fdr: float) -> None:
    assert_refused(lambda: silot.value_records(X, V[:m], fdr=fdr), InputError, "validation-few")


def test_enough_validation_records_for_the_level_are_taken() -> None:
    for m, fdr in ((50, 0.1), (100, 0.05)):
        assert silot.value_records(X[:20], V[:m], fdr=fdr).fdr == fdr
    # Few heavy records count as few.
    weights = np.where(np.arange(200) < 20, 100.0, 1.0)
    assert_refused(
        lambda: silot.value_records(X, Measure(V, weights)), InputError, "validation-few"
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"labels": "some"}, "option-labels"),
        ({"fdr": -0.1}, "option-fdr"),
        ({"fdr": 1.0}, "option-fdr"),
        ({"fdr": float("nan")}, "option-fdr"),
        ({"seed": -1}, "option-seed"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, object], code: str) -> None:
    build: Callable[[], object] = lambda: records("h", own=Own(V), **options)  # type: ignore[arg-type]  # noqa: E731
    assert_refused(build, InputError, code)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"t": 0.0}, "option-t"),
        ({"t": 1.0}, "option-t"),
        ({"support": 0}, "option-support"),
        ({"covariance": "round"}, "option-covariance"),
        ({"labels": "some"}, "option-labels"),
    ],
)
def test_published_options_out_of_range_are_refused(options: dict[str, object], code: str) -> None:
    build: Callable[[], object] = lambda: gradients("h", own=Own(V), **options)  # type: ignore[arg-type]  # noqa: E731
    assert_refused(build, InputError, code)


def test_other_methods_and_unknown_options_are_refused() -> None:
    assert_refused(lambda: run(method="guess"), InputError, "option-method")
    assert_refused(lambda: run(geometry="bounded"), InputError, "option-unknown")


def test_holder_of_other_columns_is_refused() -> None:
    assert_refused(
        lambda: run(Measure(X[:, :5], labels=WRONG)), MismatchError, "dimension-mismatch"
    )


# What the tables say.


@pytest.mark.heavy
def test_rows_and_csv_are_of_flagged_records_and_copies() -> None:
    points = X.copy()
    points[140] = points[100]
    found = run(Measure(points, labels=NAMES[WRONG]))
    listed = found.flagged | found.parts.copies
    # The head of the ranking is listed, flagged or not.
    listed[found.worst[:10]] = True
    assert found.parts.copy_of[140] == 100 and not found.parts.copies[100]
    assert {row["record"] for row in found.rows()} == set(np.flatnonzero(listed).tolist())
    assert len(found.to_csv().splitlines()) == listed.sum() + 1
    empty = replace(found, flagged=np.zeros(150, bool), screening=replace(
        found.parts, copy_of=np.full(150, -1)))  # fmt: skip
    assert len(empty.to_csv().splitlines()) == 11
    assert empty.to_csv().splitlines()[0] == found.to_csv().splitlines()[0]


def test_json_has_all_and_no_nan() -> None:
    told = json.loads(json.dumps(first_run().to_dict(), allow_nan=False))
    assert (
        told["records"] == 150 and told["flagged"] == np.flatnonzero(first_run().flagged).tolist()
    )
    assert set(told["screening"]["broken"]) == {"label", "features", "all"}
    assert len(told["screening"]["kinds"]) == 150


# Holders that refuse, fail or lie; questions that are no questions.


@pytest.mark.parametrize("level", ["private", "statistics"])
def test_a_policy_below_record_refuses(level: str) -> None:
    policy = Policy(level=level, questions=frozenset(question_kinds()))  # type: ignore[arg-type]
    federation = LocalFederation({"h": Holder(Measure(X), policy)})
    for protocol in (records("h", own=Own(V)), gradients("h", own=Own(V))):
        with pytest.raises(SilotError) as caught:
            federation.run(protocol)
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


SCREEN, SCORES, MOVED = "screen-records", "score-records", "interpolate"
N = 150
LONG = np.zeros(N, np.int64)


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("describe", {"dimension": None}),
        (SCREEN, {"scores": None}),
        (SCREEN, {"scores": np.zeros(N - 1)}),
        (SCREEN, {"scores": np.full(N, np.nan)}),
        (SCREEN, {"scores": np.full(N, 1e300)}),
        (SCREEN, {"labels": np.zeros((N, 1))}),
        (SCREEN, {"features": np.full(N, np.inf)}),
        (SCREEN, {"suggested": LONG - 1}),
        (SCREEN, {"suggested": LONG + 10}),
        (SCREEN, {"suggested": np.zeros(N)}),
        (SCREEN, {"judged": LONG + 2}),
        (SCREEN, {"kinds": LONG + 3}),
        (SCREEN, {"kinds": LONG[:-1]}),
        (SCREEN, {"origin": np.arange(N)}),
        (SCREEN, {"origin": LONG - 2}),
        (SCREEN, {"nearest": LONG + 200}),
        (SCREEN, {"apart": np.full(N, -1.0)}),
        (SCREEN, {"columns": np.zeros((N, 3), np.int64) + 61}),
        (SCREEN, {"columns": np.zeros((N, 2), np.int64)}),
        (SCREEN, {"residuals": np.full((N, 3), -1.0)}),
        (SCREEN, {"shares": np.full((3, 3), 1.5)}),
        (SCREEN, {"shares": np.zeros((2, 3))}),
        (SCREEN, {"shares": np.array([[0.1, 0.2, 0.3]] * 3)}),
        (SCREEN, {"weights": np.zeros(N)}),
    ],
)
def test_an_answer_that_does_not_fit_is_a_wire_error(kind: str, changes: dict[str, object]) -> None:
    liar = Altered(Measure(X, labels=NAMES[WRONG]), kind, changes)
    protocol = records("h", own=Own(Measure(V, labels=NAMES[W])), labels=True)
    with pytest.raises(WireError) as caught:
        LocalFederation({"h": liar}).run(protocol)
    assert caught.value.code == "answer-malformed"


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        (SCORES, {"gradients": None}),
        (SCORES, {"gradients": np.zeros((N, 1))}),
        (SCORES, {"gradients": np.full(N, 1e308)}),
        (SCORES, {"weights": -np.ones(N)}),
        (SCORES, {"converged": 1.0}),
        (MOVED, {"atoms": np.zeros((N - 1, X.shape[1]))}),
        (MOVED, {"atoms": np.full((N, X.shape[1]), 1e200)}),
        (MOVED, {"weights": np.zeros(N)}),
    ],
)
def test_a_published_answer_that_does_not_fit_is_a_wire_error(
    kind: str, changes: dict[str, object]
) -> None:
    liar = Altered(Measure(X), kind, changes)
    with pytest.raises(WireError) as caught:
        LocalFederation({"h": liar}).run(gradients("h", own=Own(V)))
    assert caught.value.code == "answer-malformed"


def asked() -> ScreenRecords:
    assert first_run().transcript is not None
    from silot.federation.question import decode_question

    sent = [each.payload for each in first_run().transcript.entries if each.direction == "sent"]
    question = decode_question(sent[-1])
    assert isinstance(question, ScreenRecords)
    return question


@pytest.mark.parametrize(
    "changes",
    [
        {"right": LONG},
        {"feature": LONG + 999},
        {"leaves": np.zeros((3, 10), np.uint8)},
        {"centres": np.full((200, 61), np.inf)},
        {"leaves": np.zeros((3, 10))},
        {"pool": np.zeros(3)},
        {"width": float("nan")},
        {"codes": LONG + 77},
        {"classes": "[]"},
        {"points": np.zeros((200, 0))},
        {"nearness": np.zeros(0)},
        {"dimension": 0.0},
        {"least": float("inf")},
        {"fdr": 2.0},
        {"broken": np.full(4, np.nan)},
        {"points": np.full((200, 61), 1e308)},
    ],
)
def test_a_malicious_question_is_a_coded_failure(changes: dict[str, object]) -> None:
    question = replace(asked(), **changes)  # type: ignore[arg-type]
    holder = Holder(Measure(X, labels=NAMES[WRONG]), OPEN)
    reply = decode_reply(holder.reply(encode_question(question)))
    assert isinstance(reply, Failure), changes
    assert "8675309" not in reply.code


def test_a_sound_question_is_answered() -> None:
    reply = decode_reply(
        Holder(Measure(X, labels=NAMES[WRONG]), OPEN).reply(encode_question(asked()))
    )
    assert isinstance(reply, Answer)


# As published.


@pytest.mark.parametrize("rounds", [1, 3])
def test_published_form_is_the_calibrated_gradient_of_exact_potentials(rounds: int) -> None:
    options = {"t": 0.5, "support": 40, "rounds": rounds, "seed": 3}
    found = silot.value_records(X, V, method="published", **options)
    assert found.method == "published" and found.screening is None and found.fdr is None
    assert found.transcript is not None
    scored = next(q for q in sent(found) if q.kind == SCORES)
    uniform = np.full(N, 1 / N)
    plan = exact_plan(X, scored.target, uniform, scored.target_weights)
    expected = calibrated_gradient(plan.potentials[0], uniform)
    np.testing.assert_allclose(found.scores, expected)
    np.testing.assert_array_equal(found.flagged, expected > 0)
    moved = [question for question in sent(found) if question.kind == MOVED]
    assert len(moved) == rounds and len(moved[0].reference) == 40
    target = interpolate(V, moved[-1].reference, t=0.5).atoms
    np.testing.assert_allclose(scored.target, target)
    # Later references lie between what both sides made of the one before.
    for before, after in pairwise(moved):
        ours, theirs = (interpolate(side, before.reference, t=0.5).atoms for side in (X, V))
        np.testing.assert_allclose(after.reference, interpolate(ours, theirs, t=0.5).atoms)
    with pytest.raises(AttributeError, match="without parts"):
        _ = found.parts


def test_records_equal_to_the_trusted_ones_are_not_flagged_by_rounding() -> None:
    assert not silot.value_records(V, V, method="published").flagged.any()


def sent(found: RecordScores) -> list[Question]:
    from silot.federation.question import decode_question

    assert found.transcript is not None
    return [decode_question(e.payload) for e in found.transcript.entries if e.direction == "sent"]


def test_published_gradients_find_noise_from_both_sides() -> None:
    noisy = X + BAD[:, None] * RNG.normal(size=X.shape) * 6.0
    found = silot.value_records(noisy, V, method="published")
    assert found.coordinator is not None
    for scores in (found.scores, found.coordinator):
        assert roc_auc_score(BAD, scores) >= 0.9


def test_a_holder_that_refuses_its_interpolant_gives_no_coordinator_side() -> None:
    policy = Policy(level="record", questions=frozenset({"describe", SCORES}))
    result = LocalFederation({"h": Holder(X, policy)}).run(gradients("h", own=Own(V)))
    assert result.coordinator is None and "the coordinator has no part" in result.status
    assert result.to_dict()["coordinator"] is None


def test_a_holder_that_fails_at_its_interpolant_is_raised() -> None:
    broken = Altered(Measure(X), MOVED, Failure("holder-raised"))
    with pytest.raises(HolderError) as caught:
        LocalFederation({"h": broken}).run(gradients("h", own=Own(V)))
    assert caught.value.code == "holder-raised"


@pytest.mark.heavy
@pytest.mark.parametrize("labels", [False, True])
def test_published_records_without_mass_are_never_flagged(labels: bool) -> None:
    weights = np.where(np.arange(150) < 30, 0.0, 1.0)
    holder = Measure(X, weights, NAMES[WRONG])
    found = silot.value_records(
        holder, Measure(V, labels=NAMES[W]), labels=labels, method="published", support=30
    )
    assert not found.flagged[:30].any() and found.coordinator is not None
    assert np.isfinite(found.scores).all() and len(found.coordinator) == 150


def test_one_validation_record_is_enough_as_published() -> None:
    found = silot.value_records(X[:10], V[:1], method="published", support=5)
    assert np.isfinite(found.scores).all()


def point(shape: tuple[int, int], value: float) -> Array:
    return np.full(shape, value)


@pytest.mark.parametrize("holder", [point((1, 61), 3.0), point((7, 61), 0.0), V[:5]])
@pytest.mark.parametrize("method", ["screening", "published"])
def test_odd_holders_give_finite_scores(holder: Array, method: str) -> None:
    found = silot.value_records(holder, V, method=method)
    assert np.isfinite(found.scores).all() and len(found.scores) == len(holder)
