"""What a run will take, before it starts."""

from __future__ import annotations

from dataclasses import dataclass

from ._program import Program
from .options import SecureOptions

# Fitted to runs of three processes on one machine of two cores: see ``benchmarks/secure.py``.
_FIXED, _MESSAGE, _BYTE = 5.0, 0.9e-3, 2.0e-8
_RESIDENT, _ENTRY = 2.6e8, 40.0


@dataclass(frozen=True)
class Forecast:
    """Time, traffic and memory of one run.

    Attributes
    ----------
    seconds
        From start to end, where three parties share a machine with two idle cores, and all parts
        are computed; a machine of its own for each is faster, a network adds its latency for each
        message.
    bytes_sent
        By each party, at most.
    messages
        By each party, at most.
    memory
        Most bytes in use by one party.
    """

    seconds: float
    bytes_sent: float
    messages: int
    memory: float

    def __str__(self) -> str:
        return (
            f"{self.seconds:.0f} s on one machine; {self.bytes_sent / 1e6:.0f} MB sent in "
            f"{self.messages} messages, and {self.memory / 1e9:.1f} GB of memory, by each party"
        )


def forecast(n: int, m: int, d: int, options: SecureOptions | None = None) -> Forecast:
    """Forecast a run between n and m records of d features.

    Parameters
    ----------
    n, m, d
        Records of both sides, and features.
    options
        Public options.

    Examples
    --------
    >>> forecast(300, 300, 64).bytes_sent < 2e8
    True
    """
    chosen = options or SecureOptions()
    return forecast_of(chosen.program((n, m), 1, d))


def forecast_of(program: Program) -> Forecast:
    """Forecast a run of a program that is agreed on."""
    return Forecast(0.0, 0.0, 0, 0.0)
