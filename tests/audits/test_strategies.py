"""The questions of a malicious coordinator: a strategy that asks wrongly tries nothing."""

from pathlib import Path

import numpy as np
import pytest

from silot import Measure
from silot.audits.policy import STRATEGIES, Session, audit_policy
from silot.federation.policy import Policy

ROWS = np.random.default_rng(0).normal(size=(40, 3))
NAMES = np.array(["a", "b"])[np.arange(40) % 2]
# Asks for fewer than no numbers on purpose: what is refused must not be counted either.
MALFORMED = {"pairs of features: records with a rare value": {"question-fields": 2}}


@pytest.mark.parametrize("data", [Measure(ROWS), Measure(ROWS, labels=NAMES)])
def test_where_everything_is_told_no_question_is_refused_for_its_own_fault(data: Measure) -> None:
    found = audit_policy(Policy(level="record"), data)
    for each in found.strategies:
        faults = {
            code: count
            for code, count in each.refusals.items()
            if code.startswith(("option-", "question-"))
        }
        assert faults == MALFORMED.get(each.name, {}), each.name


def test_costs_to_known_points_give_every_record(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    session = Session(Measure(ROWS), Policy(level="record"), tmp_path / "ledger", 1, rng)
    (guess,) = STRATEGIES["costs to d + 1 points"][0](session, *ROWS.shape)
    session.close()
    np.testing.assert_allclose(guess, ROWS, atol=1e-7)
