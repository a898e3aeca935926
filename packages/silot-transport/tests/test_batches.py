"""Many small problems at once, against one at a time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from silot_transport import _native, exact_plan, squared_distances

KINDS = ("normal", "far", "ties", "same", "tight")


def clouds(rng: np.random.Generator, kind: str, shape: tuple[int, int]) -> np.ndarray:
    x = rng.normal(size=shape)
    return {
        "normal": x,
        "far": x + 1e6,
        "ties": rng.integers(0, 2, shape).astype(float),
        "same": np.zeros(shape),
        "tight": 1.0 + 1e-9 * x,
    }[kind]


@pytest.mark.parametrize("path", ["pure", "kernels"])
@given(
    n=st.integers(1, 30), d=st.integers(1, 9), kinds=st.tuples(*[st.sampled_from(KINDS)] * 2),
    scale=st.sampled_from((1e-150, 1.0, 1e140)), seed=st.integers(0, 2**32),
)  # fmt: skip
def test_a_pair_has_its_exact_distance_whatever_others_there_are(
    path: str, n: int, d: int, kinds: tuple[str, str], scale: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = [scale * clouds(rng, kinds[k % 2], (n, d)) for k in range(5)]
    y = [scale * clouds(rng, "normal", (n, d)) for _ in range(4)] + [x[4][::-1]]
    with pytest.MonkeyPatch.context() as patch:
        if path == "pure":
            patch.setattr(_native, "kernels", None)
        found = squared_distances(x, y)
        alone = [squared_distances([a], [b])[0] for a, b in zip(x, y, strict=True)]
    assert np.array_equal(found, alone) and found[4] == 0
    for a, b, told in zip(x, y, found, strict=True):
        plan = exact_plan(a, b)
        room = 1e-9 * plan.cost
        assert plan.lower_cost - room <= told <= plan.upper_cost + room
