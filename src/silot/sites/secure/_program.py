"""The program that is computed on shares: public shapes, and parts that run one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ._effort import Effort, Part, Stage
from ._opening import open_noisily, open_number
from ._sinkhorn import Block, Numbers, Problem, Repeat, Shared, State, advance, bounds, prepare

# Arrays of one holder, as ``SecureInputs`` makes them.
PARTS = 5


@dataclass(frozen=True)
class Noise:
    """Public numbers of the noise, in units of the scale (squared)."""

    largest: float
    tolerance: float
    failed: float


@dataclass(frozen=True)
class Program:
    """A computation all parties agree on before any secret is sent."""

    protocol: str
    """``"aby3"`` or ``"cheetah"``."""
    sizes: tuple[int, ...]
    """Records of the holders: those of the first union, then those of the second."""
    split: int
    """How many holders are in the first union."""
    dimension: int
    """Number of features."""
    effort: Effort = field(default_factory=Effort)
    """How long to compute."""
    noise: Noise | None = None
    """What the noise needs, ``None`` without."""

    def packed(self) -> dict[str, Any]:
        """Return plain values, for another process."""
        return asdict(self)

    @classmethod
    def unpacked(cls, values: dict[str, Any]) -> Program:
        """Return the program of plain values."""
        effort = values["effort"]
        parts = tuple(
            Part(tuple(Stage(*stage) for stage in part["stages"]), part["temperature"])
            for part in effort["parts"]
        )
        noise = None if values["noise"] is None else Noise(**values["noise"])
        effort, sizes = Effort(**{**effort, "parts": parts}), tuple(values["sizes"])
        return cls(**{**values, "sizes": sizes, "effort": effort, "noise": noise})

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shapes of all arrays, holder by holder."""
        # Of each holder: records, weights, the inverses of their roots, the mean, and two numbers.
        d = self.dimension
        return [shape for n in self.sizes for shape in ((n, d), (n,), (n,), (d,), (2,))]

    @property
    def kept_shapes(self) -> list[tuple[int, ...]]:
        """Shapes of the state that a part passes to the next one."""
        n, m, d = sum(self.sizes[: self.split]), sum(self.sizes[self.split :]), self.dimension
        # The fields of ``Problem``, those of ``State``, and the two best bounds so far.
        problem = [(n, d), (m, d), (n, m), (n,), (m,), (n,), (m,), (), (), (), ()]
        return [*problem, (m,), (m,), (n, m), (n,), (m,), (m,), (), ()]

    @property
    def shares(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Public mass of each holder within its union: in proportion to its records."""
        unions = self.sizes[: self.split], self.sizes[self.split :]
        first, second = (tuple(n / sum(union) for n in union) for union in unions)
        return first, second

    @property
    def parts(self) -> int:
        """How many parts there are."""
        return len(self.effort.parts)

    def run(
        self, part: int, xp: Numbers, repeat: Repeat, arrays: Sequence[Shared]
    ) -> tuple[Shared, ...]:
        """Compute a part: from the arrays of all holders, or from the state of the part before.

        Returns
        -------
        tuple
            What is opened to the receiver; and before the last part whether that is enough, which
            is opened to all, and the state.
        """
        effort, width = self.effort, len(Problem._fields)
        best: Sequence[Shared] = ()
        if part == 0:
            blocks = [Block(*arrays[at : at + PARTS]) for at in range(0, len(arrays), PARTS)]
            unions = blocks[: self.split], blocks[self.split :]
            problem, state = prepare(*unions, self.shares, effort, xp), None
        else:
            problem, state, best = Problem(*arrays[:width]), State(*arrays[width:-2]), arrays[-2:]
        state = advance(problem, state, part, effort, xp, repeat)
        bracket = bounds(problem, state, effort, xp)
        if best:
            # Bounds of earlier parts stay true, and may be the tighter ones.
            lower, upper = xp.maximum(bracket.lower, best[0]), xp.minimum(bracket.upper, best[1])
            bracket = replace(bracket, lower=lower, upper=upper)
        if self.noise is not None:
            noise = self.noise
            limits = noise.largest, noise.tolerance, noise.failed
            return (open_noisily(bracket, problem.noise, *limits, effort, xp),)
        opened, enough = open_number(bracket, part, effort, xp)
        if part + 1 == self.parts:
            return (opened,)
        return opened, enough, *problem, *state, bracket.lower, bracket.upper
