"""Who is asked in a round, where that is not everybody."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Turns:
    """A few holders a round, all of them in turn.

    Attributes
    ----------
    active
        Holders a round; ``None`` for all.
    seed
        Of the order in a turn, another one each time.
    """

    active: int | None
    seed: int
    _turn: int = 0
    _left: list[str] = field(default_factory=list[str])

    def following(self, names: Sequence[str]) -> tuple[str, ...]:
        """Who is asked next of those that still take part."""
        if self.active is None:
            return tuple(names)
        self._left = [name for name in self._left if name in set(names)]
        if not self._left:
            # The order of names is the caller's, and must not matter.
            order = np.random.default_rng([self.seed, self._turn]).permutation(len(names))
            self._left = [sorted(names)[k] for k in order]
            self._turn += 1
        asked, self._left = self._left[: self.active], self._left[self.active :]
        return tuple(asked)

    @property
    def over(self) -> bool:
        """Whether everybody was asked in this turn."""
        return not self._left
