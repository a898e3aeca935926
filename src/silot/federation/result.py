"""What every result of a run carries: the cost, the disclosure and the transcript."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import numpy.typing as npt

from ..data.reported import Reported
from .disclosure import Disclosure
from .transcript import Transcript

if TYPE_CHECKING:
    from ..data.preflight import Preflight
    from ..render import Block, Medium

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What a runtime knows about a run, beyond the protocol.

    ``preflight`` says whose columns were looked at: a runtime looks at none, and names all parties
    as ``unseen``. Who owns data looks at them afterwards; a result that nobody did so for says so.
    """

    rounds: int
    bytes_sent: int
    bytes_received: int
    seconds: float
    disclosure: str
    transcript: Transcript
    preflight: Preflight | None
    privacy_mu: float = 0.0
    in_memory: bool = False

    @property
    def cost(self) -> Cost:
        """The cost in it."""
        return _cost_of(self)


@dataclass(frozen=True)
class Cost:
    """What a run cost, seen from the coordinator.

    ``privacy_mu`` is the most that a holder newly charged to its ledger, by the holders' own
    word; answers given before are not charged again. ``in_memory`` says that no ledger on the disk
    remembers a charge.
    """

    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0
    privacy_mu: float = 0.0
    in_memory: bool = False

    def __add__(self, other: Cost) -> Cost:
        """Add the costs of two runs."""
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        return Cost(**{**sums, "in_memory": self.in_memory or other.in_memory})


def _cost_of(run: Run | RunResult) -> Cost:
    return Cost(**{item.name: getattr(run, item.name) for item in fields(Cost)})


def with_earlier(
    run: Run | None, earlier: Sequence[RunResult | Run], together: Cost | None = None
) -> Run | None:
    """Add the cost and the level of earlier runs to those of a run that may have failed.

    Costs ``together`` are less than their sum. The transcript is the last one's.
    """
    if not earlier:
        return run
    last = earlier[-1]
    levels = [item.disclosure for item in earlier]
    run = run or Run(0, 0, 0, 0.0, "", last.transcript or Transcript("", {}, ()), None)
    cost = sum([item.cost for item in earlier] if together is None else [together], run.cost)
    disclosures = [Disclosure[level.upper()] for level in [*levels, run.disclosure] if level]
    return replace(run, **vars(cost), disclosure=str(max(disclosures)) if disclosures else "")


def with_columns_seen(result: object, blocks: Sequence[Block]) -> list[Block]:
    """Add to what a terminal and a notebook show of a result what was seen of its tables."""
    from .preflight_view import preflight_facts

    preflight: Preflight | None = getattr(result, "preflight", None)
    return [*blocks, *([] if preflight is None else preflight_facts(preflight))]


class Preflighted(Reported):
    """Base of shown results that say what was seen of the tables they were computed from."""

    def framed(self, blocks: Sequence[Block], medium: Medium) -> list[Block]:
        from .preflight_view import framed

        if medium == "page":
            return framed(blocks, getattr(self, "preflight", None))
        return with_columns_seen(self, blocks)


@dataclass(frozen=True, kw_only=True)
class RunResult(Preflighted, ABC):
    """Base of results that one run made.

    ``preflight`` is what was seen of the caller's own tables, where no schema says what their
    columns are.
    """

    rounds: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    seconds: float = 0.0
    privacy_mu: float = 0.0
    in_memory: bool = False
    disclosure: str = ""
    transcript: Transcript | None = field(default=None, repr=False, compare=False)
    preflight: Preflight | None = field(default=None, repr=False, compare=False)

    @property
    def cost(self) -> Cost:
        """What the run cost."""
        return _cost_of(self)

    def with_run(self, run: Run | RunResult) -> Self:
        """Return the result with the cost of the run that made it, and whose data it is of.

        Of a result that was computed from another one, ``run`` is that.
        """
        return replace(
            self, **vars(_cost_of(run)), disclosure=run.disclosure, transcript=run.transcript,
            **self._noting(run.preflight),
        )  # fmt: skip

    def with_part(self, run: RunResult, holders: Sequence[str], seconds: float) -> Self:
        """Return the result with what the messages of some holders cost, by themselves, in a run.

        ``seconds`` is what was computed from them took beside.
        """
        own = None
        if run.transcript is not None:
            entries = (run.transcript.seen_by(name) for name in holders)
            own = replace(run.transcript, entries=tuple(chain.from_iterable(entries)))
        return replace(
            self, rounds=run.rounds, bytes_sent=own.bytes_sent if own else 0,
            bytes_received=own.bytes_received if own else 0, seconds=run.seconds + seconds,
            disclosure=run.disclosure, transcript=own, **self._noting(run.preflight),
        )  # fmt: skip

    def with_preflight(self, preflight: Preflight | None) -> Self:
        """Return the result with what was seen of the tables that it is of.

        Where something there puts it in doubt its ``status`` says of what it is true.
        """
        return replace(self, **changed) if (changed := self._noting(preflight)) else self

    def _noting(self, preflight: Preflight | None) -> dict[str, Any]:
        """Return the fields that change with what was seen of the tables."""
        if preflight is self.preflight:
            return {}
        status = str(getattr(self, "status", "")).removesuffix(_doubt(self.preflight))
        return {"preflight": preflight, "status": in_doubt(status, preflight)}

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON, without the transcript."""

    def _cost_dict(self) -> dict[str, Any]:
        return {
            **vars(_cost_of(self)),
            "disclosure": self.disclosure,
            "preflight": None if self.preflight is None else self.preflight.to_dict(),
        }


def in_doubt(status: str, preflight: Preflight | None) -> str:
    """Add to a status that it is about odd tables, where they are."""
    doubt = _doubt(preflight)
    return status.removesuffix(".") + doubt if status and doubt else status or doubt[2:]


def _doubt(preflight: Preflight | None) -> str:
    if preflight is None or not preflight.flags:
        return ""
    return f"; the numbers have no schema: check {preflight.where} (preflight)"


def accuracy_interval(right: int, tests: int) -> tuple[float, float] | None:
    """Interval of 95 % of an accuracy (Wilson); ``None`` of no test."""
    if not tests:
        return None
    # Slow to import.
    from scipy.stats import binomtest

    interval = binomtest(right, tests).proportion_ci(method="wilson")
    return float(interval.low), float(interval.high)


def finite(value: float) -> float | None:
    """Return the number, ``None`` for one that JSON has no name for."""
    return value if math.isfinite(value) else None


def plain(value: Any) -> Any:
    """Return a value ready for JSON: results by field, arrays as lists of ``finite`` numbers."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, np.ndarray | np.generic):
        return plain(cast("Any", value).tolist())
    if isinstance(value, Mapping):
        entries = cast("Mapping[Any, Any]", value)
        return {str(name): plain(item) for name, item in entries.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in cast("list[Any]", value)]
    return finite(value) if isinstance(value, float) else value
