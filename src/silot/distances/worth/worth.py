"""What holders are worth, from their distances and what is known of their errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from silot_transport.resampling import MOST_TAILS

from ...errors import WireError
from ...federation.answer import Answer, Array, Failure
from ..cost_parts import Parts
from ..result import Distance
from .holders import explained, explained_shares, inverse_shares, ranks
from .intervals import Margins, drawn_shares, rank_ranges, steadied
from .result import Contribution

_NAMED = 5
# Below, labels may be written in another way: a status says so.
_MOSTLY_SHARED = 0.9
# Its square does not overflow.
_LARGEST = 1e150


@dataclass(frozen=True)
class Sampled:
    """A distance without the bias of few records, and the ends of its interval."""

    corrected: float
    low: float
    high: float

    @classmethod
    def told(cls, answer: Answer) -> Sampled | None:
        """As a holder told it, with the room of rounded numbers; ``None`` if it did not."""
        corrected = answer.optional_number("corrected")
        margin = answer.optional_number("margin")
        if corrected is None or margin is None:
            return None
        rounded = "step_corrected" in answer.scalars
        half = answer.rounding("corrected") if rounded else 0.0
        if rounded:
            margin += answer.rounding("margin")
        tails = answer.optional_number("tails") or 0.0
        if tails not in range(MOST_TAILS + 1):
            raise WireError(
                f"the answer doubles a margin {tails:g} times. The holder runs other code, or a "
                "broken one.",
                code="answer-malformed",
            )
        margin *= 2.0**tails
        if max(corrected, margin) > _LARGEST:
            raise WireError(
                "the answer has an error that is too large. The holder runs other code, or a "
                "broken one.",
                code="answer-malformed",
            )
        low = max(max(corrected - half, 0.0) ** 2 - margin, 0.0) ** 0.5
        high = ((corrected + half) ** 2 + margin) ** 0.5
        return cls(corrected, low, high)


def refusal_of(answer: Answer | Failure) -> str:
    """Why a holder keeps the error of its distance to itself, or does not know the question."""
    if not isinstance(answer, Failure):
        return ""
    return answer.code if answer.kind == "refused" or answer.code == "question-unknown" else ""


@dataclass
class Notes:
    """Who failed, and what holders told beside their distances.

    ``shared`` is the mass of each holder that has classes of the target; ``untold`` the code of
    why a holder told no error; ``parts`` what its distance is made of, or why it did not tell.
    """

    missing: dict[str, Failure] = field(default_factory=dict[str, Failure])
    shared: dict[str, float] = field(default_factory=dict[str, float])
    sampled: dict[str, Sampled] = field(default_factory=dict[str, Sampled])
    untold: dict[str, str] = field(default_factory=dict[str, str])
    parts: dict[str, Parts | Failure] = field(default_factory=dict[str, "Parts | Failure"])

    def learn_error(self, name: str, answer: Answer, untold: str) -> None:
        """Note the error that a holder told of its distance, or the code of why it told none."""
        error = Sampled.told(answer)
        if error is not None:
            self.sampled[name] = error
        elif untold:
            self.untold[name] = untold

    def in_words(self, items: tuple[Contribution, ...]) -> str:
        """What a status says of holders that chance explains, of other classes, of no error."""
        by_chance = [item.holder for item in items if item.distance.by_chance]
        present = {item.holder for item in items}
        odd = [
            f"{name} ({1.0 - mass:.0%})"
            for name, mass in self.shared.items()
            if mass < _MOSTLY_SHARED and name in present
        ]
        text = f"; no more than chance: {_listed(by_chance)}" if by_chance else ""
        if odd:
            text += f"; of classes that the target lacks: {', '.join(odd)} of their records"
        untold = [f"{name} ({self.untold[name]})" for name in sorted(self.untold)]
        return text + (f"; no interval of {_listed(untold)}" if untold else "")


def worth(
    distances: Mapping[str, Distance],
    sampled: Mapping[str, Sampled],
    spread: float,
    records: Mapping[str, int],
) -> tuple[Contribution, ...]:
    """Shares and ranks: of corrected distances where they are known, else of those told.

    A holder that told no error is ranked by its distance, and its rank is left open as far as
    that distance may be chance.
    """
    names = tuple(distances)
    values = np.array(
        [sampled[name].corrected if name in sampled else distances[name].value for name in names]
    )
    parts = explained(values, spread)
    shares, part_shares, order = inverse_shares(values), explained_shares(parts), ranks(values)
    items = tuple(
        Contribution(
            holder=name,
            distance=distances[name],
            share=float(shares[k]),
            explained=float(parts[k]),
            explained_share=float(part_shares[k]),
            rank=int(order[k]),
            records=records[name],
        )
        for k, name in enumerate(names)
    )
    return _with_intervals(items, values**2, sampled, spread) if sampled else items


def _with_intervals(
    items: Sequence[Contribution], squares: Array, sampled: Mapping[str, Sampled], spread: float
) -> tuple[Contribution, ...]:
    """The same with what errors of distances leave open; squares are those of the distances."""
    # Without a told error the whole square may be chance.
    ends = [
        sampled.get(each.holder, Sampled(0.0, 0.0, 2**0.5 * each.distance.value)) for each in items
    ]
    low, high = np.array([each.low for each in ends]), np.array([each.high for each in ends])
    margins = Margins(squares, np.maximum(squares - low**2, 0), np.maximum(high**2 - squares, 0))
    drawn = drawn_shares(tuple(item.holder for item in items), margins, spread)
    ranges = rank_ranges(margins)
    steady = inverse_shares(steadied(margins))
    open_items: list[Contribution] = []
    for k, item in enumerate(items):
        told = sampled.get(item.holder)
        open_items.append(
            replace(
                item,
                share=float(steady[k]),
                corrected=None if told is None else told.corrected,
                interval=None if told is None else (told.low, told.high),
                ranks=(int(ranges[k, 0]), int(ranges[k, 1])),
                share_interval=_pair(drawn.inverse_intervals[k]),
                explained_interval=_pair(drawn.explained_intervals[k]),
                explained_share_interval=_pair(drawn.explained_share_intervals[k]),
            )
        )
    return tuple(open_items)


def _pair(ends: np.ndarray) -> tuple[float, float]:
    return float(ends[0]), float(ends[1])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more
