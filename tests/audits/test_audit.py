"""The audit itself: what it takes, what it says, and what it must never say."""

import json

import numpy as np
import pytest

import silot
from silot import Measure
from silot.api.report import render, write
from silot.audits.case import Case
from silot.audits.inversion import Guess
from silot.audits.metrics import score
from silot.audits.result import Attack, Audit
from silot.audits.run import ATTACKS
from silot.distances.questions import Moments
from silot.distances.worth.contributions import contributions
from silot.errors import InputError, MismatchError
from silot.federation import LocalFederation

from .data import DIGITS, WINE, attack, audit_of, two_sides

RNG = np.random.default_rng(1)
X, Y = two_sides("digits", 30, 40)


def test_every_attack_is_reported_for_every_target() -> None:
    found = audit_of(X, Y, method="trianglewad")
    assert found.targets == ("x", "y")
    assert [one.name for one in found.of("y")] == list(ATTACKS)
    for one in found.attacks:
        assert one.applicable == (one.reason == "")


def test_results_are_plain_json_without_records() -> None:
    found = audit_of(X, Y, method="fedwad", support=30, rounds=2)
    told = json.loads(found.to_json())
    assert set(told) == {
        "format", "kind", "value", "interval", "cost", "disclosure",
        "viewpoint", "protocol", "targets", "level", "refused", "exact_rates", "verdict", "tried",
        "not_tried", "not_finished", "time_limit", "warning", "attacks",
    }  # fmt: skip
    assert "recovered" not in told["attacks"][0]


def test_pooling_is_read_as_it_is() -> None:
    found = audit_of(X, Y)
    assert attack(found, "reading").exact_rate == 1.0
    assert found.exact_rates == {"x": 1.0, "y": 1.0}


def test_a_holder_of_one_round_sees_nothing_of_the_other() -> None:
    found = audit_of(X, Y, "x", method="trianglewad")
    assert found.targets == ("y",)
    assert found.best("y") is None
    # 0 would read as a result: nothing was measured.
    assert found.exact_rates == {"y": None}
    assert "not recovered by these attacks" in found.verdict


def test_validation_records_are_shown_to_every_holder() -> None:
    own = silot.federation.Own(Measure(WINE[:30]))
    fed = LocalFederation({"a": WINE[50:80], "b": WINE[100:130]})
    run = fed.run(contributions(["a", "b"], own=own))
    found = silot.audit(run.transcript, "b", {"coordinator": WINE[:30]})
    assert found.exact_rates["coordinator"] == 1.0


def test_screening_shows_the_validation_records() -> None:
    run = silot.value_records(WINE[:60], WINE[60:120])
    found = silot.audit(run.transcript, "holder", {"coordinator": WINE[60:120]})
    assert found.exact_rates == {"coordinator": 1.0}


@pytest.mark.parametrize("viewpoint", ["coordinator", "holder"])
def test_published_record_scores_give_both_sides_away(viewpoint: str) -> None:
    run = silot.value_records(WINE[:60], WINE[60:120], method="published", t=0.1)
    truth = {"holder": WINE[:60], "coordinator": WINE[60:120]}
    found = silot.audit(run.transcript, viewpoint, truth)
    assert set(found.exact_rates.values()) == {1.0}


def test_records_of_weight_zero_are_no_part_of_the_truth() -> None:
    x = Measure(X, np.where(np.arange(30) < 10, 0.0, RNG.random(30)))
    assert audit_of(x, Y, method="trianglewad").exact_rates == {"x": 1.0, "y": 1.0}


def test_label_coordinates_hide_nothing() -> None:
    x, y = Measure(X, labels=np.arange(30) % 3), Measure(Y, labels=np.arange(40) % 3)
    found = audit_of(x, y, method="trianglewad", labels=True)
    assert found.exact_rates == {"x": 1.0, "y": 1.0}
    assert found.best("x").recovered.shape == X.shape


def test_words_and_membership_are_measured_when_asked_for() -> None:
    vectors = RNG.normal(size=(200, 10))
    words = [f"w{k}" for k in range(200)]
    run = silot.distance(vectors[:40], vectors[40:90], method="trianglewad")
    found = silot.audit(
        run.transcript, truth={"x": vectors[:40]}, vocabulary=(words, vectors),
        outsiders=vectors[100:],
    )  # fmt: skip
    one = attack(found, "direct-inversion")
    assert one.matching_rate == 1.0
    assert one.cosine == pytest.approx(1.0)
    assert one.membership_auc == 1.0


def test_chance_is_not_taken_for_success() -> None:
    truth = RNG.normal(size=(100, 4))
    drawn = score(RNG.normal(size=(100, 4)), truth, ordered=False)
    assert drawn.exact_rate == 0.0
    assert abs(drawn.reidentification_rate - drawn.chance) < 0.2
    shuffled = score(truth[RNG.permutation(100)], truth, ordered=True)
    assert shuffled.exact_rate < 0.1
    assert score(truth[RNG.permutation(100)], truth, ordered=False).exact_rate == 1.0


def test_equal_records_count_as_recovered_together() -> None:
    truth = np.repeat(RNG.normal(size=(5, 3)), 4, axis=0)
    found = score(truth[::4], truth, ordered=False)
    assert found.exact_rate == found.reidentification_rate == 1.0


def test_what_a_time_limit_cuts_off_is_named() -> None:
    run = silot.distance(X, Y, method="trianglewad", interpolation="barycentric").transcript
    done: list[tuple[int, int]] = []
    found = silot.audit(run, time_limit=1e-9, progress=lambda k, of: done.append((k, of)))
    cut = {(one.name, one.target) for one in found.attacks if not one.finished}
    assert ("projection-inversion", "x") in cut and ("projection-inversion", "y") in cut
    assert "projection-inversion on x and y" in found.not_finished
    assert "not finished: " in found.verdict and "not finished" in found.findings
    assert not {name for name, _ in cut} & set(found.tried)
    assert all("time limit" in one.verdict for one in found.attacks if not one.finished)
    # What does not apply, or is found at once, is said all the same.
    assert "reading" in " ".join(found.not_tried) and len(cut) < len(found.attacks) / 2
    assert found.to_dict()["not_finished"] == list(found.not_finished)
    assert found.to_dict()["time_limit"] == 1e-9
    assert "Not finished: " in render(found)
    assert done[0] == (0, len(found.attacks)) and done[-1] == (len(found.attacks),) * 2
    assert [k for k, _ in done] == sorted(k for k, _ in done)


def test_an_attack_of_ones_own_runs_beside_those_of_silot() -> None:
    def mean(case: Case) -> Guess:
        (_, answer), *_ = case.answered(Moments)
        return Guess(answer.array("mean", ndim=1)[None])

    run = silot.distance(X, Y, method="trianglewad").transcript
    found = silot.audit(run, truth={"x": X}, attacks={**ATTACKS, "mean": mean})
    assert [one.name for one in found.of("x")] == [*ATTACKS, "mean"]
    assert attack(found, "mean").exact_rate == 0.0 and "mean" in found.tried


def test_time_enough_changes_nothing() -> None:
    run = silot.distance(X, Y, method="fedwad", rounds=3).transcript
    free, limited = silot.audit(run), silot.audit(run, time_limit=1e6)
    assert free.not_finished == limited.not_finished == ()
    assert free.verdict == limited.verdict
    assert "not finished" not in free.verdict + render(free).lower()


def test_what_cannot_be_audited_is_refused() -> None:
    run = silot.distance(X, Y, method="trianglewad")
    with pytest.raises(InputError) as error:
        silot.audit(run.transcript, "z")
    assert error.value.code == "audit-viewpoint"
    with pytest.raises(MismatchError) as error:
        silot.audit(run.transcript, truth={"z": X})
    assert error.value.code == "audit-truth"
    with pytest.raises(MismatchError) as error:
        silot.audit(run.transcript, truth={"x": X[:, :3]})
    assert error.value.code == "dimension-mismatch"
    with pytest.raises(InputError) as error:
        silot.audit(run.transcript, image_shape=(8, 8, 8))
    assert error.value.code == "option-image-shape"


def test_no_verdict_calls_anything_private_or_safe() -> None:
    found = audit_of(X, Y, method="fedwad", support=10, rounds=2)
    nothing = Audit(viewpoint="coordinator", protocol="secure", targets=("x",), attacks=())
    for text in (found.verdict, nothing.verdict, *(one.verdict for one in found.attacks)):
        told = text.replace("no proof of safety", "")
        assert not any(word in told for word in (" private", "safe", "secure"))
    assert "not recovered by these attacks" in nothing.verdict


def test_nearly_all_is_never_rounded_to_all() -> None:
    one = Attack(name="direct-inversion", target="x", rows=9999, exact_rate=0.9999)
    assert one.verdict.startswith("99.9 %")


def test_the_report_shows_true_and_reconstructed_side_by_side(tmp_path) -> None:
    run = silot.distance(X, Y, method="trianglewad")
    found = silot.audit(run.transcript, truth={"x": X}, image_shape=(8, 8))
    text = render(found)
    assert text == render(found)
    assert text.count("reconstruction of record") == 24
    assert "This report contains raw records" in text
    assert "<script" not in text and "http://" not in text and "https://" not in text
    write(tmp_path / "audit.html", found)
    assert (tmp_path / "audit.html").stat().st_mode & 0o077 == 0
    with pytest.raises(MismatchError) as error:
        render(silot.audit(run.transcript, image_shape=(7, 7)))
    assert error.value.code == "report-images"


def test_a_report_without_pictures_contains_no_records() -> None:
    found = audit_of(X, Y, method="trianglewad")
    text = render(found)
    assert "raw records" not in text
    assert "img src" not in text


@pytest.mark.heavy
def test_a_sketch_is_read_and_found_to_hold_no_rows() -> None:
    pytest.importorskip("opendp")
    rows = RNG.permutation(len(DIGITS))
    x, y, public = (DIGITS[rows[k : k + 500]] for k in (0, 500, 1000))
    run = silot.distance(x, y, method="sketch", public=public, privacy_epsilon=4.0)
    found = silot.audit(run.transcript, truth={"x": x, "y": y})
    one = attack(found, "sketch-reading")
    assert one.applicable and one.exact_rate == 0.0
    assert "mechanism" in one.note
    assert "not recovered by these attacks" in found.verdict
