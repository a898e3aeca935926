"""What an eavesdropper without keys reads off the sizes of messages and when they travel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from ..distances.questions import Interpolate, Moments, Records
from ..federation.answer import Answer, encode_reply
from ..federation.question import encode_question
from ._case import Case
from ._evidence import InapplicableError
from .observer import Size

_LARGEST = 4096


@dataclass(frozen=True)
class Facts:
    """What was read, in words."""

    note: str
    facts: bool = True


def traffic(case: Case) -> Facts:
    """Rounds, sizes, and what these say where the method is known, as its name is public."""
    sizes = case.view.sizes
    if not sizes:
        raise InapplicableError("only an eavesdropper is audited by sizes and times")
    own = [one for one in sizes if one.holder == case.target]
    asked = [one for one in own if one.direction == "sent"]
    answered = {one.round: one for one in own if one.direction == "received"}
    pairs = [(one, answered[one.round]) for one in asked if one.round in answered]
    facts = [f"{len(asked)} questions of {_range([one.size for one in asked])} bytes"]
    if answered:
        replies = [one.size for one in answered.values()]
        facts.append(f"{len(replies)} answers of {_range(replies)} bytes")
    return Facts("; ".join([*facts, *_shapes(pairs), *_varied(pairs)]))


def _varied(pairs: Sequence[tuple[Size, Size]]) -> Iterator[str]:
    """What depends on data: how long answers took, and their sizes."""
    if not pairs:
        return
    waits = [reply.seconds - question.seconds for question, reply in pairs]
    low, high = min(waits), max(waits)
    yield f"answers took {low:.2g} to {high:.2g} s, which grows with the number of records"
    different = {(question.size, reply.size) for question, reply in pairs}
    if len(different) > len({question for question, _ in different}):
        yield "questions of one size got answers of several: their sizes depend on the data"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _shapes(pairs: Sequence[tuple[Size, Size]]) -> list[str]:
    """Dimension, atoms and records, from the lengths that messages of such shapes have."""
    found: list[str] = []
    first = {question.kind: (question.size, reply.size) for question, reply in reversed(pairs)}
    dimension = None
    if Moments.kind in first:
        dimension = _solved(first[Moments.kind][1], _moments_size)
    if dimension is not None:
        found.append(f"records have {dimension} features (size of a covariance)")
    if dimension is not None and Interpolate.kind in first:
        atoms = _solved(first[Interpolate.kind][0], partial(_interpolate_size, dimension))
        found += [] if atoms is None else [f"references have {atoms} atoms"]
    if Records.kind in first:
        floats = (first[Records.kind][1] - _records_size(0)) // 8
        found.append(
            f"about {floats} numbers: records times features and one (a size tells the product)"
        )
    return found


def _solved(size: int, length: Callable[[int], int]) -> int | None:
    """The number for which a message is so long, up to the few bytes that scalars vary by."""
    low, high = 1, _LARGEST
    while low < high:
        middle = (low + high) // 2
        if length(middle) < size:
            low = middle + 1
        else:
            high = middle
    near = min((max(low - 1, 1), low), key=lambda count: abs(length(count) - size))
    return near if abs(length(near) - size) <= 64 else None


def _moments_size(d: int) -> int:
    return len(encode_reply(Answer({"mean": np.zeros(d), "covariance": np.zeros((d, d))})))


def _interpolate_size(d: int, count: int) -> int:
    question = Interpolate(reference=np.zeros((count, d)), reference_weights=np.zeros(count), t=0.5)
    return len(encode_question(question))


def _records_size(count: int) -> int:
    return len(encode_reply(Answer({"points": np.zeros((count, 1)), "weights": np.zeros(count)})))
