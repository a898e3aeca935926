"""Arrays of other libraries are converted once, and never from an accelerator unasked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from silot_transport import cost_matrix, exact_plan
from silot_transport.errors import InputError


class Foreign:
    """An array of a library that numpy does not know, on a device of DLPack."""

    def __init__(self, values: Any, device: int) -> None:
        self.values, self.device = np.asarray(values), device

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0

    def __dlpack__(self, **options: Any) -> Any:
        assert self.device == 1
        return self.values.__dlpack__(**options)


class Willing(Foreign):
    """One that would copy itself to the host, as arrays of jax do."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return self.values.astype(dtype or self.values.dtype)


@pytest.mark.parametrize("kind", [Foreign, Willing])
def test_an_array_of_another_library_is_read(kind: type[Foreign]) -> None:
    points, weights = np.arange(6.0).reshape(3, 2), [1.0, 2.0, 3.0]
    assert np.array_equal(cost_matrix(kind(points, 1), points), cost_matrix(points, points))
    foreign = exact_plan(kind(points, 1), points + 1.0, kind(weights, 1))
    assert foreign.cost == exact_plan(points, points + 1.0, weights).cost


@pytest.mark.parametrize("kind", [Foreign, Willing])
@pytest.mark.parametrize("device", [2, 10])
def test_an_accelerator_is_not_read_from(kind: type[Foreign], device: int) -> None:
    far, near = kind(np.ones((3, 2)), device), np.ones((3, 2))
    for call in (lambda: exact_plan(far, near), lambda: exact_plan(near, near, far)):
        with pytest.raises(InputError, match="Move it to the host") as refused:
            call()
        assert refused.value.code == "array-device"
