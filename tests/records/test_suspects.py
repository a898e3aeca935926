"""How many records are broken, told with noise: estimates, what travels, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import Result
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import silot
from silot import Measure, Policy
from silot.cli.app import app
from silot.distances.questions import encode_classes
from silot.distances.sketches.questions import SketchRecords
from silot.errors import HolderError, InputError, MismatchError, RefusedError, WireError
from silot.federation import Answer, Failure, Holder, LocalFederation, Own, Question
from silot.privacy import Ledger, mu_of
from silot.records.counted import Bins
from silot.records.suspects import suspects
from tests.saying import Saying


def draw(rng: np.random.Generator, size: int, shares: Any = (1, 1, 1)) -> Measure:
    """Three classes around points of their own."""
    codes = rng.choice(3, size, p=np.array(shares) / np.sum(shares))
    centres = np.array([[0.0, 0.0, 0.0, 0.0], [4.0, 0.0, 0.0, 2.0], [0.0, 4.0, -4.0, 0.0]])
    return Measure(centres[codes] + rng.normal(size=(size, 4)), labels=np.array(list("abc"))[codes])


def broken(rng: np.random.Generator, data: Measure, labels: int, features: int) -> Measure:
    """The first records with wrong labels, the last ones with noise."""
    points, names = data.points.copy(), data.names
    assert names is not None
    names = names.copy()
    names[:labels] = [{"a": "b", "b": "c", "c": "a"}[name] for name in names[:labels]]
    if features:
        points[-features:] += 5.0 * rng.normal(size=(features, 4))
    return Measure(points, labels=names)


RNG = np.random.default_rng(7)
PUBLIC, VALID = draw(RNG, 400), draw(RNG, 400)
SOUND = draw(RNG, 400)
BAD = broken(RNG, SOUND, 80, 60)
WRONG, NOISY = broken(RNG, SOUND, 80, 0), broken(RNG, SOUND, 0, 60)


@pytest.mark.heavy
def test_about_as_many_are_broken_as_are_and_the_holder_finds_them() -> None:
    found = silot.count_broken(
        {"good": SOUND, "wrong": WRONG, "noisy": NOISY},
        VALID,
        public=PUBLIC,
        labels=True,
        privacy_epsilon=4.0,
    )
    bad, good = found.holders["wrong"], found.holders["good"]
    noisy = found.holders["noisy"].broken["features"]
    assert noisy.low <= 60 <= noisy.high and noisy.value > 30
    assert bad.broken["label"].low <= 80 <= bad.broken["label"].high
    assert 50 < bad.broken["label"].value < 120
    assert good.broken["label"].value < 25 and good.broken["features"].value < 40
    assert abs(bad.records - 400) < 40
    assert 0 <= bad.strange < 20
    assert 40 < bad.flagged["label"].value < 120
    scores = found.screen(BAD, name="bad")
    assert scores.screening is not None and scores.screening.labels is not None
    wrong = np.arange(400) < 80
    assert roc_auc_score(wrong, scores.screening.labels) > 0.95
    assert "public" in scores.status and "validation" not in scores.rule
    assert scores.screening.suggested is not None
    right = scores.screening.suggested[:80] == SOUND.labels[:80]
    assert right.mean() > 0.9
    told = found.to_dict()
    assert json.loads(found.to_json())["holders"] == json.loads(json.dumps(told["holders"]))


@pytest.mark.heavy
def test_intervals_cover_at_every_share() -> None:
    # Noise of the mechanism and draws of records: by the law of the bins, exactly.
    bins = Bins(np.arange(4.0), np.array([0.5, 0.3, 0.1, 0.06, 0.04]),
                np.array([0.05, 0.05, 0.1, 0.2, 0.6]), 800.0)  # fmt: skip
    rng = np.random.default_rng(1)
    for share in (0.0, 0.05, 0.3, 0.8):
        covered = 0
        for _ in range(200):
            law = share * bins.broken + (1 - share) * bins.sound
            counts = rng.multinomial(1000, law) + 5.7 * rng.normal(size=5)
            one = bins.estimate(counts, 5.7)
            covered += one.low <= 1000 * share <= one.high
        assert covered >= 180, share


@pytest.mark.heavy
def test_public_records_are_weighted_to_resemble_the_validation_data() -> None:
    rng = np.random.default_rng(2)
    shares = (8, 1, 1)
    valid, sound = draw(rng, 600, shares), draw(rng, 600, shares)
    found = silot.count_broken([sound], valid, public=PUBLIC, labels=True, privacy_epsilon=8.0)
    models = found.screener.inner.models
    mass = float(models.weights[models.codes == 0].sum())
    assert abs(mass - 0.8) < 0.08
    assert "weighted by a private sketch" in found.status
    plain = silot.count_broken([sound], public=PUBLIC, labels=True)
    assert "all of equal weight" in plain.status


class Watching(Saying):
    """A holder that keeps the questions."""

    def says(self, question: Question) -> Answer | Failure:
        self.seen = [*getattr(self, "seen", []), question]
        return self.answer(question)


@pytest.mark.heavy
def test_nothing_of_the_validation_data_travels_but_weights_of_public_records() -> None:
    ledger = Ledger()
    own = Holder(VALID, Policy(privacy_epsilon=1.0), ledger)
    holder = Watching(BAD, Policy(privacy_epsilon=1.0), Ledger())
    run = suspects(["x"], public=PUBLIC, own=own, labels=True)
    first = LocalFederation({"x": holder}).run(run)
    assert ledger.spent == pytest.approx(mu_of(1.0, 1e-5))
    public = {tuple(row) for row in PUBLIC.points.tolist()}
    (question,) = holder.seen
    assert {tuple(row) for row in question.points.tolist()} <= public
    # Other validation data with the same sketch give the same question, byte for byte.
    stored = own.answer
    other = Saying(draw(RNG, 50))
    other.answer = stored  # type: ignore[method-assign]
    again = LocalFederation({"x": holder}).run(
        suspects(["x"], public=PUBLIC, own=other, labels=True)
    )
    assert again.holders == first.holders and again.privacy_mu == 0.0


def test_validation_data_need_a_ledger_of_their_own() -> None:
    fed = LocalFederation({"x": BAD})
    for own in (Own(VALID), Holder(VALID, Policy(privacy_epsilon=1.0))):
        with pytest.raises((HolderError, InputError)) as caught:
            fed.run(suspects(["x"], public=PUBLIC, own=own))
        assert caught.value.code == "ledger-absent"


# Little to go by


@pytest.mark.heavy
def test_the_smallest_budget_tells_next_to_nothing_and_breaks_nothing() -> None:
    found = silot.count_broken([BAD], VALID, public=PUBLIC, labels=True, privacy_epsilon=0.05)
    told = found.holders["0"]
    for each in (*told.broken.values(), *told.flagged.values()):
        assert 0 <= each.low <= each.value <= each.high and np.isfinite(each.high)
    assert told.records >= 1


@pytest.mark.heavy
def test_one_record_weighted_records_and_other_classes() -> None:
    strange = Measure(SOUND.points, labels=np.where(np.arange(400) < 300, "z", SOUND.names))
    weights = np.where(np.arange(400) < 100, 0.0, 2.0)
    found = silot.count_broken(
        {"one": Measure(SOUND.points[:1], labels=["a"]), "strange": strange,
         "weighted": Measure(SOUND.points, weights, SOUND.labels)},
        VALID, public=PUBLIC, labels=True, privacy_epsilon=4.0, mass_limit=2.0,
    )  # fmt: skip
    assert found.holders["one"].records < 20
    # Without weights a record counts for 1 of 2.
    assert abs(found.holders["strange"].strange - 150) < 15
    assert abs(found.holders["weighted"].records - 300) < 40


def test_weights_without_a_public_limit_are_refused() -> None:
    with pytest.raises(InputError) as caught:
        silot.count_broken([Measure(SOUND.points, np.arange(1.0, 401.0))], public=PUBLIC)
    assert caught.value.code == "sketch-weights"


@pytest.mark.parametrize(
    ("public", "options", "code"),
    [
        (Measure(PUBLIC.points[:20], labels=PUBLIC.labels[:20]), {}, "public-few"),
        (Measure(PUBLIC.points[:40], labels=PUBLIC.labels[:40]), {}, "validation-few"),
        (Measure(PUBLIC.points), {}, "labels-absent"),
        (PUBLIC, {"fdr": 1.0}, "option-fdr"),
        (PUBLIC, {"mass_limit": -1.0}, "option-mass-limit"),
        (PUBLIC, {"privacy_epsilon": 0.0}, "option-epsilon"),
    ],
)
def test_what_cannot_work_is_refused(public: Measure, options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        silot.count_broken([BAD], VALID, public=public, labels=True, **options)
    assert caught.value.code == code


def test_public_records_of_other_features_are_refused() -> None:
    with pytest.raises(MismatchError):
        silot.count_broken([BAD.points[:, :2]], VALID.points[:, :2], public=PUBLIC.points)
    found = silot.count_broken([BAD.points], public=PUBLIC.points, privacy_epsilon=4.0)
    with pytest.raises(MismatchError):
        found.screen(BAD.points[:, :2])
    assert "label" not in found.holders["0"].broken and found.holders["0"].strange is None


def test_one_public_class_judges_no_label_and_says_so() -> None:
    one = Measure(PUBLIC.points, labels=["a"] * 400)
    found = silot.count_broken([BAD], public=one, labels=True, privacy_epsilon=4.0)
    assert "one class only" in found.status
    assert set(found.holders["0"].broken) == {"features", "all"}


# Answers may come from anybody


@pytest.mark.heavy
@pytest.mark.parametrize(
    "counts",
    [
        np.zeros(3, dtype=np.int64), np.zeros(17), np.full(17, 2**62),
        np.zeros((17, 1), dtype=np.int64),
    ],
)  # fmt: skip
def test_answers_that_are_none_are_refused(counts: np.ndarray) -> None:
    class Lying(Saying):
        def says(self, question: Question) -> Answer | Failure:
            return Answer({"counts": counts})

    with pytest.raises((HolderError, WireError)) as caught:
        LocalFederation({"x": Lying(BAD)}).run(suspects(["x"], public=PUBLIC, labels=True))
    assert caught.value.code == "answer-malformed"


@pytest.mark.heavy
def test_counts_of_any_sign_and_size_give_estimates() -> None:
    rng = np.random.default_rng(4)

    class Wild(Saying):
        def says(self, question: Question) -> Answer | Failure:
            size = question.length  # type: ignore[attr-defined]
            return Answer({"counts": rng.integers(-(2**40), 2**40, size)})

    fed = LocalFederation({"x": Wild(BAD)})
    for _ in range(5):
        told = fed.run(suspects(["x"], public=PUBLIC, labels=True)).holders["x"]
        for each in (*told.broken.values(), *told.flagged.values()):
            assert 0 <= each.low <= each.value <= each.high < np.inf


@pytest.mark.heavy
def test_a_sketch_of_validation_data_far_from_the_public_is_told() -> None:
    far = Measure(VALID.points, labels=["other"] * 400)
    with pytest.raises(InputError) as caught:
        silot.count_broken([BAD], far, public=PUBLIC, labels=True, privacy_epsilon=100.0)
    assert caught.value.code == "public-unlike"
    half = np.where(np.arange(400) < 120, "other", VALID.names)
    found = silot.count_broken(
        [BAD], Measure(VALID.points, labels=half), public=PUBLIC, labels=True, privacy_epsilon=8.0
    )
    assert "where there are no public records" in found.status


# Ledgers on the disk, and the command


def save(folder: Path, name: str, data: Measure) -> str:
    np.savez(folder / f"{name}.npz", X=data.points, y=data.names)
    return str(folder / f"{name}.npz")


@pytest.mark.heavy
def test_ledgers_charge_the_holder_and_the_coordinator_once(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"public": PUBLIC, "labels": True, "ledgers": tmp_path / "ledgers"}
    first = silot.count_broken({"x": BAD}, VALID, **asked)
    again = silot.count_broken({"x": BAD}, VALID, **asked)
    assert again.holders == first.holders
    assert (first.privacy_mu, again.privacy_mu) == (first.spent_mu, 0.0)
    for name in ("x", "coordinator"):
        with Ledger(tmp_path / "ledgers" / f"{name}.ledger", create=False, readonly=True) as kept:
            assert kept.spent == pytest.approx(first.spent_mu)
    with pytest.raises(RefusedError) as caught:
        silot.count_broken({"x": BAD}, VALID, **asked, seed=1)
    assert caught.value.code == "ledger-budget"


def code_of(result: Result) -> str:
    assert isinstance(result.exception, InputError)
    return result.exception.code


@pytest.mark.heavy
def test_the_command_prints_counts_and_writes_the_holders_report(tmp_path: Path) -> None:
    files = [save(tmp_path, name, data) for name, data in
             (("x", BAD), ("valid", VALID), ("public", PUBLIC))]  # fmt: skip
    asked = ["records", files[0], "--validation", files[1], "--method", "private", "--labels"]
    runner = CliRunner()
    assert code_of(runner.invoke(app, asked)) == "public-absent"
    report = tmp_path / "own.html"
    asked += ["--public", files[2], "--epsilon", "4"]
    shown = runner.invoke(app, [*asked, "--report", str(report)])
    assert shown.exit_code == 0, shown.output
    assert "noisy counts" in shown.output and "for x alone" in shown.output
    assert "sketch" in shown.output and report.stat().st_size > 10_000
    told = json.loads(runner.invoke(app, [*asked, "--json"]).stdout)
    assert "scores" not in told and set(told["holders"]["x"]["broken"]) == {
        "label", "features", "all"
    }  # fmt: skip
    assert code_of(runner.invoke(app, [*asked, "--support", "3"])) == "option-unknown"
    plain = ["records", files[0], "--validation", files[1], "--epsilon", "1"]
    assert code_of(runner.invoke(app, plain)) == "option-unknown"


@pytest.mark.heavy
def test_a_sketch_of_weighted_validation_data_counts_by_the_public_limit() -> None:
    weights = np.where(VALID.names == "a", 3.0, 1.0)
    own = Holder(
        Measure(VALID.points, weights, VALID.labels), Policy(privacy_epsilon=8.0), Ledger()
    )
    asked: list[Question] = []

    class Noting:
        def answer(self, question: Question) -> Answer | Failure:
            asked.append(question)
            return own.answer(question)

    run = suspects(["x"], public=PUBLIC, own=Noting(), labels=True, mass_limit=3.0,
                   privacy_epsilon=8.0)  # fmt: skip
    LocalFederation({"x": BAD}).run(run)
    (question,) = asked
    assert isinstance(question, SketchRecords) and question.mass_limit == 3.0
    assert question.classes == encode_classes(["a", "b", "c"])
