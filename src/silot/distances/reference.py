"""Public references: a draw every party can make for itself, from a seed."""

from __future__ import annotations

import numpy as np

from ..federation.answer import Array


def draw_reference(seed: int, size: int, dimension: int) -> Array:
    """``size`` atoms from the standard normal law, the same for the same seed everywhere."""
    # A stream of its own: users draw their data from default_rng(seed) too, and a reference
    # that equals the data makes every method look exact. Zeros at the end of a seed change
    # nothing, hence the 5.
    return np.random.default_rng([seed, 5]).standard_normal((size, dimension))


def is_drawn(reference: Array, seed: int) -> bool:
    """Whether a reference is the draw of a seed, shifted and scaled as a whole."""
    size, dimension = reference.shape
    drawn = draw_reference(seed, size, dimension)
    mean, flat = float(reference.mean()), reference - reference.mean()
    level = drawn - drawn.mean()
    scale = float((flat * level).sum()) / max(float((level * level).sum()), 1e-300)
    largest = abs(mean) + abs(scale) * float(np.abs(drawn).max())
    return scale > 0 and bool(np.abs(flat - scale * level).max() <= 1e-9 * largest)
