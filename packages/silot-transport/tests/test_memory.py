"""What is too large for memory is refused before anything is allocated."""

import numpy as np
import pytest

from silot_transport import cost_matrix, exact_plan, forecast, memory, sinkhorn
from silot_transport.errors import InputError, MemoryShortError

X = np.random.default_rng(0).normal(size=(2500, 2))


def test_a_forecast_counts_the_costs_and_what_stands_beside_them() -> None:
    found = forecast(20_000, 30_000, 64)
    assert found.cost_bytes == 8 * 20_000 * 30_000
    assert 1.2 * found.cost_bytes <= found.peak_bytes <= 1.5 * found.cost_bytes
    assert found.fits == (found.peak_bytes <= found.available_bytes)
    assert memory.available() > 0
    for wrong in (0, -1, 2.5, True):
        with pytest.raises(InputError):
            forecast(wrong, 3, 2)  # type: ignore[arg-type]


def test_what_does_not_fit_is_refused_before_it_is_allocated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(memory, "available", lambda: 1e6)
    for call in (
        lambda: exact_plan(X, X + 1),
        lambda: cost_matrix(X, X),
        lambda: sinkhorn(X, X + 1, epsilon=0.1),
    ):
        with pytest.raises(MemoryShortError, match="2500 x 2500") as caught:
            call()
        assert (caught.value.code, caught.value.exit_status) == ("memory-short", 11)
        assert isinstance(caught.value, MemoryError)
