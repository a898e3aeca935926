"""Arrays of other libraries are converted once, and never from an accelerator unasked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from silot import Measure
from silot.errors import InputError


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
    points = np.arange(6.0).reshape(3, 2)
    measure = Measure(kind(points, 1), kind([1.0, 2.0, 3.0], 1), kind([0, 1, 0], 1))
    assert np.array_equal(measure.points, points)
    assert np.array_equal(measure.masses, [1.0, 2.0, 3.0])
    assert measure.names is not None and list(measure.names) == ["0", "1", "0"]


@pytest.mark.parametrize("kind", [Foreign, Willing])
@pytest.mark.parametrize("device", [2, 10])
def test_an_accelerator_is_not_read_from(kind: type[Foreign], device: int) -> None:
    far = kind(np.ones((3, 2)), device)
    for call in (lambda: Measure(far), lambda: Measure(np.ones((3, 2)), far)):
        with pytest.raises(InputError, match="Move it to the host") as refused:
            call()
        assert refused.value.code == "array-device"
