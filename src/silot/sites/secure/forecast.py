"""The forecast of a run: its seconds, bytes and memory, before it starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ...render.words import format_bytes
from ._program import Program
from .options import SecureOptions


class _Cost(NamedTuple):
    """Bytes a party sends: in all, for each record, for each pair; and messages."""

    fixed: float
    record: float
    pair: float
    messages: int


# Fitted to runs of 10 x 10 to 1000 x 1000 records, d = 4 to 64; by the first part, and by all.
_NORMAL = _Cost(1e5, 2.4e4, 1040.0, 3900), _Cost(5e5, 1.15e5, 3540.0, 18300)
_FAST = (_Cost(5e4, 5e3, 480.0, 2250),)
_TWO = (_Cost(5.5e7, 1e5, 3800.0, 10200),)
# Seconds in all, a message and a byte, for three processes on two idle cores of 2026.
_SECONDS = 5.5, 5.5e-4, 2.2e-8
# Bytes a party has in use in all, and for each pair of records with 128-bit numbers.
_MEMORY = 4.3e8, 600.0


@dataclass(frozen=True)
class Forecast:
    """Time, traffic and memory of one run.

    Bytes were within 20 % of those measured. Seconds are those of three processes on one machine
    of two idle cores, within a half: a machine that is slow or kept busy takes longer in
    proportion, and a network adds its latency for each message.
    """

    seconds: float
    """From start to end."""
    bytes_sent: float
    """Bytes that each party sends."""
    messages: int
    """Messages that each party sends."""
    memory: float
    """Most bytes in use by one party."""
    most: Forecast | None = None
    """The same if all parts are computed, as for measures that nearly coincide; ``None`` of a run
    with one part only."""

    def __str__(self) -> str:
        sent = f"{format_bytes(int(self.bytes_sent))} in {self.messages} messages sent"
        memory = f"{format_bytes(int(self.memory))} of memory used by each party"
        words = f"{self.seconds:.0f} s on two idle cores, {sent} and {memory}"
        if self.most is not None:
            words += (
                f"; at most {self.most.seconds:.0f} s, {format_bytes(int(self.most.bytes_sent))}"
            )
        return words


def forecast(n: int, m: int, d: int, options: SecureOptions | None = None) -> Forecast:
    """Forecast a run between n and m records of d features.

    Parameters
    ----------
    n, m, d
        Records of both sides, and features.
    options
        Public options.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> expected = forecast(300, 300, 64)
    >>> expected.bytes_sent < 1.2e8 < expected.most.bytes_sent
    True
    """
    return forecast_program((options or SecureOptions()).program((n, m), 1, d))


def forecast_program(program: Program) -> Forecast:
    """Forecast a run of a program that the parties agree on."""
    is_wide = program.effort.unit < 2.0**-30
    costs = _TWO if program.protocol == "cheetah" else _NORMAL if is_wide else _FAST
    if program.parts == 1:
        cost = costs[0]
        if program.noise is not None and is_wide:
            # With noise, the first two parts are joined into one.
            cost = cost._replace(pair=1.6 * cost.pair, messages=6600)
        return _forecast(program, cost, is_wide)
    first, most = (_forecast(program, costs[end], is_wide) for end in (0, -1))
    return Forecast(first.seconds, first.bytes_sent, first.messages, first.memory, most)


def _forecast(program: Program, cost: _Cost, is_wide: bool) -> Forecast:
    n, m = sum(program.sizes[: program.split]), sum(program.sizes[program.split :])
    shares = 32.0 * (n + m) * program.dimension
    sent = cost.fixed + cost.record * (n + m) + cost.pair * n * m + shares
    fixed, message, byte = _SECONDS
    seconds = fixed + message * cost.messages + byte * sent
    memory = _MEMORY[0] + _MEMORY[1] * (1.0 if is_wide else 0.5) * n * m
    return Forecast(seconds, sent, cost.messages, memory)
