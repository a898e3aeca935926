"""What every result of a run carries: the bill, the disclosure and the transcript."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from ..render.figure import check_drawing
from ..render.shown import Shown
from .disclosure import Disclosure
from .transcript import Transcript

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..data.preflight import Preflight
    from ..render import Block, Medium

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Run:
    """What a runtime knows of a run that a protocol does not.

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
    def bill(self) -> Bill:
        """What of it is a cost."""
        return _bill_of(self)


@dataclass(frozen=True)
class Bill:
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

    def __add__(self, other: Bill) -> Bill:
        """Add the bills of two runs."""
        return Bill(
            self.rounds + other.rounds,
            self.bytes_sent + other.bytes_sent,
            self.bytes_received + other.bytes_received,
            self.seconds + other.seconds,
            self.privacy_mu + other.privacy_mu,
            self.in_memory or other.in_memory,
        )


def _bill_of(run: Run | Billed) -> Bill:
    return Bill(**{item.name: getattr(run, item.name) for item in fields(Bill)})


def with_earlier(
    run: Run | None, earlier: Sequence[Billed | Run], together: Bill | None = None
) -> Run | None:
    """Add the cost and the level of earlier runs to those of a run that may have failed.

    Costs ``together`` are less than their sum. The transcript is the last one's.
    """
    if not earlier:
        return run
    last = earlier[-1]
    levels = [item.disclosure for item in earlier]
    run = run or Run(0, 0, 0, 0.0, "", last.transcript or Transcript("", {}, ()), None)
    bill = sum([item.bill for item in earlier] if together is None else [together], run.bill)
    disclosures = [Disclosure[level.upper()] for level in [*levels, run.disclosure] if level]
    return replace(run, **vars(bill), disclosure=str(max(disclosures)) if disclosures else "")


def with_columns_seen(result: object, blocks: Sequence[Block]) -> list[Block]:
    """Add to what a terminal and a notebook show of a result what was seen of its tables."""
    from .preflight_view import preflight_facts

    preflight: Preflight | None = getattr(result, "preflight", None)
    return [*blocks, *([] if preflight is None else preflight_facts(preflight))]


class Preflighted(Shown):
    """Base of shown results that say what was seen of the tables they were computed from."""

    def framed(self, blocks: Sequence[Block], medium: Medium) -> list[Block]:
        from .preflight_view import framed

        if medium == "page":
            return framed(blocks, getattr(self, "preflight", None))
        return with_columns_seen(self, blocks)


@dataclass(frozen=True, kw_only=True)
class Billed(Preflighted, ABC):
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
    def bill(self) -> Bill:
        """What the run cost."""
        return _bill_of(self)

    def with_run(self, run: Run | Billed) -> Self:
        """Return the result with the bill of the run that made it, and whose data it is of.

        Of a result that was computed from another one, ``run`` is that.
        """
        billed = replace(
            self,
            **vars(_bill_of(run)),
            disclosure=run.disclosure,
            transcript=run.transcript,
        )
        return billed.with_preflight(run.preflight)

    def with_preflight(self, preflight: Preflight | None) -> Self:
        """Return the result with what was seen of the tables that it is of.

        Where something there puts it in doubt its ``status`` says of what it is true.
        """
        status = str(getattr(self, "status", "")).removesuffix(_doubt(self.preflight))
        changed = {"preflight": preflight, "status": in_doubt(status, preflight)}
        return replace(self, **changed)

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON, without the transcript."""

    def to_json(self) -> str:
        """Return ``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def _bill_dict(self) -> dict[str, Any]:
        return {
            **vars(_bill_of(self)),
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
    return f"; of the numbers as they were given: look at {preflight.where} (preflight)"


def finite(value: float) -> float | None:
    """Return the number, ``None`` for one that JSON has no name for."""
    return value if math.isfinite(value) else None


def finite_rows(matrix: Array) -> list[list[float | None]]:
    """Return a matrix as lists of ``finite`` numbers."""
    return [[finite(float(value)) for value in row] for row in matrix]


def axes_of(ax: Axes | None) -> Axes:
    """Return the axes, or new ones for ``None``."""
    if ax is not None:
        return ax
    check_drawing()
    # Drawing is rare and matplotlib slow to import.
    from matplotlib import pyplot

    return pyplot.subplots(figsize=(6, 5), layout="constrained")[1]
