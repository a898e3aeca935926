"""What a tier deselects for one commit runs for another."""

import pytest

from tests.tiers import TIERS, take_turn


@pytest.mark.parametrize("tier", ["commit", "merge"])
@pytest.mark.parametrize("number", [1, 2, 4, 5, 16, 17, 60, 626])
def test_every_parameter_set_runs_within_few_commits(tier: str, number: int) -> None:
    names = [f"test[{k}]" for k in range(number)]
    turns = [take_turn(names, TIERS[tier], commit) for commit in range(700, 708)]
    assert set().union(*turns) == set(names)
    assert all({names[0], names[-1]} <= turn for turn in turns)
    assert max(map(len, turns)) <= max(TIERS[tier].parameter_sets, 2 + number / 3)


def test_every_night_runs_every_parameter_set() -> None:
    names = [f"test[{k}]" for k in range(500)]
    assert take_turn(names, TIERS["nightly"], 3) == set(names)
