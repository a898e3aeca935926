"""The audit of a policy: what single people risk under it, beside what the budget proves."""

from __future__ import annotations

import json

import numpy as np
import pytest

from silot import Measure
from silot.audits.policy import ATTACKS, FALSE_ALARMS, audit_policy
from silot.audits.result import PolicyAttack, PolicyAudit
from silot.distances.sketches.questions import SummarizeRecords
from silot.errors import InputError
from silot.federation.policy import Policy
from silot.privacy import largest_auc, largest_power

ROWS = np.random.default_rng(0).normal(size=(60, 3))
NAMES = np.array(["a", "b"])[np.arange(60) % 2]
DRAWS = 300


def attack(audit: PolicyAudit, start: str) -> PolicyAttack:
    (match,) = [item for item in audit.attacks if item.name.startswith(start)]
    return match


@pytest.mark.heavy
@pytest.mark.parametrize("data", [Measure(ROWS), Measure(ROWS, labels=NAMES)])
def test_releases_show_as_much_as_the_budget_proves_and_no_more(data: Measure) -> None:
    policy = Policy(privacy_epsilon=4.0)
    audit = audit_policy(policy, data, draws=DRAWS)
    assert policy.budget_mu is not None and audit.recovered == 0
    released = [item for item in audit.attacks if item.bound_auc not in (None, 0.5)]
    assert len(released) == 4 and not any(item.is_above for item in audit.attacks)
    membership = attack(audit, "membership, from a release: number of records")
    assert membership.bound_auc == largest_auc(policy.budget_mu)
    assert membership.bound_power == largest_power(policy.budget_mu, FALSE_ALARMS)
    # One record moves a count by the sensitivity itself: no attack is better than this one.
    assert membership.auc == pytest.approx(membership.bound_auc, abs=0.04)
    refusals = attack(audit, "refusals")
    assert (refusals.auc, refusals.power) == (0.5, FALSE_ALARMS)
    assert "the proven limit" in audit.status and "above" not in audit.status
    assert audit.bound == policy.explain()


@pytest.mark.heavy
def test_a_release_with_too_little_noise_is_above_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = SummarizeRecords.sensitivity
    halved = property(lambda release: right.fget(release) / 3.0)  # type: ignore[attr-defined]
    monkeypatch.setattr(SummarizeRecords, "sensitivity", halved)
    audit = audit_policy(Policy(privacy_epsilon=4.0), Measure(ROWS), draws=DRAWS)
    assert attack(audit, "membership, from a release: distance").is_above
    assert "above the proven limit" in audit.status


def test_exact_statistics_are_attacked_and_nothing_bounds_them() -> None:
    policy = Policy(level="statistics", questions=["moments", "distance-to"], privacy_epsilon=None)
    audit = audit_policy(policy, Measure(ROWS), draws=50)
    names = [item.name for item in audit.attacks if item.bound_auc is None]
    assert names == [f"membership, from one exact answer: {x}" for x in ("moments", "distance-to")]
    # With three features and 30 members their mean tells a member from others, but not well.
    assert attack(audit, "membership, from one exact answer: moments").auc > 0.55
    assert attack(audit, "membership, from one exact answer: distance-to").auc == 1.0
    assert "no proof limits it" in audit.status and audit.recovered == 0


def test_where_everything_is_answered_every_record_is_had() -> None:
    audit = audit_policy(Policy(level="record"), Measure(ROWS), draws=50)
    assert audit.recovered == audit.records == 60
    assert audit.status.startswith("60 of 60 records are sent to every asker")


def test_where_nothing_is_answered_nothing_but_refusals_is_attacked() -> None:
    audit = audit_policy(Policy(privacy_epsilon=None), Measure(ROWS), draws=50)
    assert [item.name for item in audit.attacks] == ["refusals, codes and sizes of answers"]


def test_attackers_have_seeds_and_noise_has_none() -> None:
    policy = Policy(level="statistics", questions=["moments"])
    first, second = (audit_policy(policy, Measure(ROWS), draws=50, seed=3) for _ in range(2))
    exact = "membership, from one exact answer: moments"
    assert attack(first, exact) == attack(second, exact)
    noisy = "membership, from a release: distance"
    assert attack(first, noisy).auc != attack(second, noisy).auc


def test_progress_is_reported_attack_by_attack() -> None:
    steps: list[tuple[int, int]] = []
    audit_policy(Policy(), Measure(ROWS), draws=50, progress=lambda *step: steps.append(step))
    assert steps == [(number + 1, len(ATTACKS)) for number in range(len(ATTACKS))]


@pytest.mark.parametrize(("rows", "draws"), [(19, 400), (60, 49)])
def test_too_few_records_or_draws_are_refused(rows: int, draws: int) -> None:
    with pytest.raises(InputError) as caught:
        audit_policy(Policy(), Measure(ROWS[:rows]), draws=draws)
    assert caught.value.code == "audit-policy"


def test_an_audit_is_plain_json() -> None:
    audit = audit_policy(Policy(), Measure(ROWS), draws=50)
    body = json.loads(audit.to_json())
    assert len(body["attacks"]) == len(audit.attacks) and body["status"] == audit.status
