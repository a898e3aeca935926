"""The verdict beside a distance."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import silot


def test_a_distance_is_tested_when_its_verdict_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = list[int]()

    def compare(*sides: Any, **options: Any) -> Any:
        calls.append(1)
        return original(*sides, **options)

    module = importlib.import_module("silot.distances.direct")
    original = module.compare
    monkeypatch.setattr(module, "compare", compare)
    rng = np.random.default_rng(0)
    result = silot.distance(rng.normal(size=(40, 2)), rng.normal(size=(40, 2)) + 3.0)
    assert result.value > 0.0 and not calls
    assert result.test is not None and result.test.verdict == "different"
    assert result.test.drivers and calls == [1]
