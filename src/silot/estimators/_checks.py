"""What all estimators do with parameters and inputs."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from ..errors import InputError
from ..options import Check

_SEEDS = 2**31 - 1


def check_option(check: Check, value: Any, name: str) -> Any:
    """Return a parameter after its check, or raise an error with the code of its name."""
    return check.of(value, name, f"option-{name.replace('_', '-')}")


def check_level(value: Any, name: str) -> float:
    """Return a level above 0 and up to a half, or raise an error."""
    if not isinstance(value, int | float | np.number) or not 0.0 < value <= 0.5:
        raise InputError(
            f"{name} is {value!r}; a number above 0 and up to 0.5 is needed.",
            code=f"option-{name.replace('_', '-')}",
        )
    return float(value)


def seed_of(random_state: Any) -> int:
    """Turn a ``random_state`` into a seed; a whole number is one already."""
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool):
        return int(random_state)
    return int(check_random_state(random_state).randint(_SEEDS))


def names_of(estimator: Any) -> tuple[str, ...] | None:
    """Return the names of the features that an estimator was fitted with, if it has any."""
    names = getattr(estimator, "feature_names_in_", None)
    return None if names is None else tuple(str(name) for name in names)
