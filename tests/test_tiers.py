"""What a tier deselects for one commit runs for another."""

import pytest

from tests.tiers import TIERS, has_turn, take_turn


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


def test_a_heavy_function_runs_within_few_commits_and_at_every_merge() -> None:
    names = [f"test_{k}" for k in range(400)]
    commit = TIERS["commit"]
    turns = [{name for name in names if has_turn(name, commit, turn)} for turn in range(90, 94)]
    assert sum(map(len, turns)) == len(set().union(*turns)) == len(names)
    assert max(map(len, turns)) < 0.35 * len(names)
    assert all(has_turn(name, TIERS["merge"], 7) for name in names)
