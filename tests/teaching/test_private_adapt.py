"""Adaptation at level private: one release of each target, whose noise covers every record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import silot
from silot import Measure, Policy
from silot.distances.sketches.questions import SummarizeRecords
from silot.distances.sketches.release_options import Private
from silot.errors import InputError, RefusedError, SilotError
from silot.federation import Holder, LocalFederation
from silot.federation.party import Own
from silot.privacy import Ledger, mu_of
from silot.teaching.adapt import Adapt
from tests.privacy.likelihood import audit, audit_holder
from tests.tiers import examples


def draw(size: int, shares: tuple[float, float], seed: int) -> Measure:
    """Two normal classes in columns of different units, in some proportions."""
    rng = np.random.default_rng(seed)
    classes = rng.choice(2, size, p=shares)
    points = rng.normal(size=(size, 3)) + 1.6 * classes[:, None] * np.array([1.0, 1.0, 0.0])
    return Measure(points * [1.0, 100.0, 0.01], labels=np.array(["sick", "well"])[classes])


SOURCE, WARD = draw(400, (0.5, 0.5), 0), draw(1500, (0.95, 0.05), 1)


def adapt(**options: Any) -> silot.teaching.result.Adaptation:
    return silot.adapt({"ward": WARD.points}, source=SOURCE, evaluation={"ward": WARD}, **options)


def release_of(epsilon: float, source: Measure = SOURCE, seed: int = 0) -> SummarizeRecords:
    protocol = Adapt(seed=seed).private_protocol(
        ["ward"], Own(source), Private(privacy_epsilon=epsilon)
    )
    question = next(protocol.start())["ward"]
    assert isinstance(question, SummarizeRecords)
    return question


def test_targets_learn_their_class_shares_and_lose_next_to_nothing_by_noise() -> None:
    private = adapt(privacy_epsilon=4.0, prior="matched")
    as_is = adapt(privacy_epsilon=4.0, prior="source")
    devices = {"own": SOURCE, "ward": WARD.points}
    exact = silot.adapt(devices, evaluation={"ward": WARD}, divergence="none", prior="matched")
    assert private.shares is not None
    assert private.shares[private.names.index("ward"), 0] == pytest.approx(0.95, abs=0.06)
    assert private.accuracy and exact.accuracy and as_is.accuracy
    assert private.accuracy > exact.accuracy - 0.02 > as_is.accuracy
    assert private.plan.sources == ("coordinator",)


def test_the_cost_of_noise_is_printed_and_the_budget_charged() -> None:
    result = adapt(privacy_epsilon=1.0)
    assert result.disclosure == "private"
    assert result.privacy_mu == pytest.approx(mu_of(1.0, 1e-5), rel=1e-6)
    assert abs(result.unlabelled["ward"] - 1500) < 100
    assert "precise" in result.status and "ward" in result.status
    effective = int(result.status.rpartition(" as ")[2])
    assert 200 < effective < 1400


def test_a_ledger_refuses_what_goes_beyond_its_budget(tmp_path: Any) -> None:
    first = adapt(privacy_epsilon=1.0, ledgers=tmp_path)
    again = adapt(privacy_epsilon=1.0, ledgers=tmp_path)
    # One question has one answer for ever, and costs nothing the second time.
    assert again.shares is not None and first.shares is not None
    np.testing.assert_array_equal(first.shares, again.shares)
    with pytest.raises(RefusedError) as refused:
        adapt(privacy_epsilon=1.0, ledgers=tmp_path, seed=1)
    assert refused.value.code == "ledger-budget"


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60), deadline=None)
def test_one_record_moves_the_release_by_what_it_claims_at_most(seed: int) -> None:
    rng = np.random.default_rng(seed)
    release = release_of(1.0)
    points = rng.standard_t(1.5, (8, 3)) * rng.choice([1e-3, 1.0, 1e6, 1e300])
    points[rng.random(points.shape) < 0.1] = rng.choice([np.nan, np.inf, -np.inf])
    more, fewer = (release.exact(rows, np.ones(len(rows))) for rows in (points, points[:-1]))
    assert np.linalg.norm((more - fewer).astype(float)) <= release.sensitivity


def test_the_noise_covers_the_claim_for_who_knows_all_other_records() -> None:
    without = Measure(WARD.points[:100])
    with_ = Measure(np.vstack([WARD.points[:100], [[50.0, -900.0, 3.0]]]))
    for epsilon in (1.0, 4.0):
        release = release_of(epsilon)
        seen = audit(release, without, with_, runs=6000)
        assert seen.mu <= release.privacy_mu and seen.epsilon <= epsilon
    # The audit sees a release that spends three times what it claims.
    assert audit(release, without, with_, charged=3 * release.privacy_mu).mu > release.privacy_mu


def test_replies_of_a_holder_spend_what_they_claim() -> None:
    without = Measure(WARD.points[:40])
    with_ = Measure(np.vstack([WARD.points[:40], [[50.0, -900.0, 3.0]]]))
    seen = audit_holder(lambda run: release_of(4.0, seed=0), without, with_, runs=400)
    assert seen.mu <= mu_of(4.0, 1e-5)


def test_no_record_of_a_target_shapes_the_question() -> None:
    """The question follows from the source alone, so it can be charged before data are read."""
    assert release_of(1.0).key == release_of(1.0).key
    assert release_of(1.0).key != release_of(1.0, draw(400, (0.5, 0.5), 9)).key


def test_a_default_policy_answers_where_it_refuses_models() -> None:
    fed = LocalFederation({
        name: Holder(Measure(WARD.points[rows]), Policy(), Ledger())
        for name, rows in (("a", slice(0, 700)), ("b", slice(700, 1500)))
    })  # fmt: skip
    result = silot.adapt(fed, source=SOURCE, privacy_epsilon=1.0)
    assert set(result.plan.targets) == {"a", "b"} and result.accuracy is None
    with pytest.raises(SilotError):
        silot.adapt(fed)


@pytest.mark.parametrize(
    "options",
    [
        {"privacy_epsilon": 4.0},
        {"source": SOURCE},
        {"source": SOURCE, "ledgers": "place"},
        {"source": SOURCE, "privacy_epsilon": 4.0, "objective": "bound"},
        {"source": SOURCE, "privacy_epsilon": 4.0, "divergence": "mmd"},
    ],
)
def test_a_private_adaptation_says_what_it_needs(options: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        silot.adapt({"ward": WARD.points}, **options)
    assert caught.value.code == "option-privacy"


def test_a_limit_of_weights_leaves_the_number_of_records() -> None:
    """Each of the 1500 records of weight 1 counts as half of one, and is reported whole."""
    adapted = adapt(privacy_epsilon=20.0, mass_limit=2.0)
    assert adapted.unlabelled["ward"] == pytest.approx(1500, abs=40)
