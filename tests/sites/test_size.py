"""What a run holds in memory, with real processes: `make sites-nightly`."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("nvflare") is None:
    pytest.skip("sites need silot[nvflare]", allow_module_level=True)

from .sizing import sized

pytestmark = pytest.mark.nightly


def test_a_large_answer_is_held_twice_and_not_thrice() -> None:
    told = sized(1, 125_000, 100, 1)
    assert told["size"] == 125_000 * 101 * 8
    assert told["peak"] <= 2.5 * told["size"]


def test_many_rounds_with_many_sites_lose_nothing_and_keep_nothing() -> None:
    told = sized(20, 50, 2, 1000)
    assert told["answers"] == 20 * 1000
    assert told["kept"] <= 50e6
