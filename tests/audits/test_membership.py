"""Who was in the data: scores against an attack written another way, and against chance."""

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

import silot
from silot import Measure
from silot.audits.membership import Scores, area_with_interval, measured
from silot.distances.questions import encode_classes
from silot.distillation.protocol import distill
from silot.distillation.teacher import Teacher
from silot.federation import Entry, LocalFederation, Transcript
from silot.federation.answer import encode_reply
from silot.federation.question import encode_question
from silot.teaching.divergences import divergences
from silot.teaching.federated import ModelSpec
from silot.teaching.questions import TrainModel

from .data import attack

N = 300


@pytest.fixture(scope="module")
def table() -> tuple[np.ndarray, np.ndarray]:
    x, y = make_classification(
        4 * N, 8, n_informative=5, n_classes=3, flip_y=0.25, class_sep=0.8, random_state=7
    )
    return x, y


def forest(x: np.ndarray, y: np.ndarray, seed: int) -> RandomForestClassifier:
    return RandomForestClassifier(100, random_state=seed).fit(x, y)


@pytest.fixture(scope="module")
def run(table):
    x, y = table
    model = forest(x[:N], y[:N], 0)
    teachers = LocalFederation({"a": Teacher(model.predict_proba, size=N)})
    return teachers.run(distill(["a"], x[: 2 * N], labels=3))


@pytest.mark.slow
def test_predictions_give_members_away_as_shadow_models_say(table, run) -> None:
    x, y = table
    said, rows = run.outputs[0], np.arange(2 * N)

    def odds(told: np.ndarray) -> np.ndarray:
        own = np.clip(told[rows, y[: 2 * N]], 1e-4, 1 - 1e-4)
        return np.log(own / (1 - own))

    # Models of the same kind, trained with and without each record: what it then looks like.
    rng = np.random.default_rng(3)
    shadows, inside = np.empty((24, 2 * N)), np.empty((24, 2 * N), dtype=bool)
    for k in range(24):
        chosen = rng.permutation(4 * N)[: 2 * N]
        shadows[k] = odds(forest(x[chosen], y[chosen], k + 1).predict_proba(x[: 2 * N]))
        inside[k] = np.isin(rows, chosen)
    means = [
        np.nanmean(np.where(inside == side, shadows, np.nan), axis=0) for side in (True, False)
    ]
    wide = [
        np.nanstd(np.where(inside == side, shadows - mean, np.nan))
        for side, mean in zip((True, False), means, strict=True)
    ]
    seen = odds(said)
    ratio = norm.logpdf(seen, means[0], wide[0]) - norm.logpdf(seen, means[1], wide[1])
    expected = roc_auc_score(rows < N, ratio)
    given = {"a": Measure(x[:N], labels=y[:N])}
    others = Measure(x[N : 2 * N], labels=y[N : 2 * N])
    public = Measure(x[2 * N :], labels=y[2 * N :])
    for options in ({}, {"public": public}):
        found = silot.audit(run.transcript, truth=given, outsiders=others, **options)
        one = attack(found, "prediction-membership", "a")
        assert abs(one.membership_auc - expected) <= 0.03
        low, high = one.membership_interval
        assert 0.5 < low < one.membership_auc < high < 1.0
        assert 0.0 < one.membership_tpr <= 1.0
        assert "membership AUC" in found.verdict


def test_without_labels_or_truth_the_audit_says_what_it_needs(table, run) -> None:
    found = silot.audit(run.transcript)
    assert "prediction-membership (needs truth" in found.verdict
    elsewhere = silot.audit(
        run.transcript, truth={"a": table[0][2 * N : 3 * N]}, outsiders=table[0][3 * N :]
    )
    assert "needs inputs" in elsewhere.verdict
    unlabelled = silot.audit(
        run.transcript, truth={"a": table[0][:N]}, outsiders=table[0][N : 2 * N]
    )
    one = attack(unlabelled, "prediction-membership", "a")
    assert one.membership_auc > 0.7 and "without labels" in one.note


def test_answers_about_inputs_copy_the_model(run) -> None:
    one = attack(silot.audit(run.transcript), "model-extraction", "a")
    assert one.agreement > one.agreement_chance + 0.2


def test_a_model_that_knows_no_record_does_not_give_any_away(table) -> None:
    x, y = table
    model = forest(x[2 * N :], y[2 * N :], 0)
    run = LocalFederation({"a": Teacher(model.predict_proba)}).run(
        distill(["a"], x[: 2 * N], labels=3)
    )
    found = silot.audit(
        run.transcript, truth={"a": Measure(x[:N], labels=y[:N])},
        outsiders=Measure(x[N : 2 * N], labels=y[N : 2 * N]),
    )  # fmt: skip
    one = attack(found, "prediction-membership", "a")
    assert one.membership_interval[0] < 0.55
    assert not one.tells_members or one.membership_auc < 0.6


def test_the_area_is_that_of_the_curve_and_its_interval_covers() -> None:
    rng = np.random.default_rng(0)
    truth, inside = 0.7602, 0
    for _ in range(200):
        members, others = rng.normal(size=60) + 1.0, rng.normal(size=80)
        area, (low, high) = area_with_interval(members, others)
        expected = roc_auc_score(np.repeat([1, 0], [60, 80]), np.concatenate([members, others]))
        assert area == pytest.approx(expected)
        inside += low <= truth <= high
    assert 180 <= inside <= 199


def test_no_candidate_is_scored_by_a_fit_that_saw_it() -> None:
    rng = np.random.default_rng(1)
    # Many columns of noise: a fit scored on its own records would tell them apart.
    noise = measured(Scores(rng.normal(size=(320, 30)), rng.normal(size=(320, 30))))
    assert noise.interval[0] < 0.5 and abs(noise.auc - 0.5) < 0.08


def test_means_of_random_features_of_few_records_tell_who_is_in() -> None:
    rng = np.random.default_rng(2)
    x, others, y = (rng.normal(size=(n, 16)) for n in (40, 200, 40))
    run = LocalFederation({"x": x, "y": y}).run(divergences(["x", "y"], method="mmd"))
    found = silot.audit(run.transcript, truth={"x": x}, outsiders=others)
    one = attack(found, "feature-membership", "x")
    assert one.membership_auc > 0.6
    assert attack(found, "mean-membership", "x").membership_auc > 0.55


def test_one_step_on_one_record_is_that_record() -> None:
    x = np.random.default_rng(4).normal(size=(1, 5))
    question = TrainModel(
        model=ModelSpec("logistic", (5,), 3, centre=0.5, scale=2.0).to_text(), iterations=1,
        classes=encode_classes(["a", "b", "c"]),
    )  # fmt: skip
    answer = question.compute(x, np.ones(1), np.array(["b"]))
    entries = (
        Entry(0, "x", "sent", 0.0, encode_question(question)),
        Entry(0, "x", "received", 0.1, encode_reply(answer)),
    )
    found = silot.audit(Transcript("adapt", {}, entries), truth={"x": x})
    assert attack(found, "parameter-inversion").exact_rate == 1.0


@pytest.mark.parametrize("algorithm", ["fedavg", "fedper", "fedrep"])
def test_a_round_of_training_gives_the_only_record_of_a_holder(algorithm: str) -> None:
    pytest.importorskip("torch")
    rng = np.random.default_rng(5)
    one, many = rng.normal(size=(1, 5)), rng.normal(size=(40, 5))
    holders = {
        "one": Measure(one, labels=["a"]),
        "many": Measure(many, labels=rng.choice(["a", "b"], 40)),
    }
    found = silot.train(holders, algorithm=algorithm, model="mlp", rounds=1, alone=False)
    seen = silot.audit(found.transcript, truth={"one": one, "many": many})
    told = attack(seen, "parameter-inversion", "one").recovered
    # Parameters are trained in single precision.
    assert told is not None and np.abs(told - one).max(axis=1).min() < 1e-3
    assert attack(seen, "parameter-inversion", "many").exact_rate == 0.0
