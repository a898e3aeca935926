"""What an eavesdropper without keys reads off the sizes of messages and when they travel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..distances.questions.distances import Interpolate, Moments, Records
from ..federation.answer import Answer, encode_reply
from ..federation.question import encode_question
from ._case import Case
from .observer import Size

_LARGEST = 4096


@dataclass(frozen=True)
class Facts:
    """What was read, in words."""

    text: str


def traffic(case: Case) -> Facts | str:
    """Rounds, sizes, and what these say where the method is known, as its name is public."""
    sizes = case.view.sizes
    if not sizes:
        return "only an eavesdropper is audited by sizes and times"
    own = [one for one in sizes if one.holder == case.target]
    asked = [one for one in own if one.direction == "sent"]
    answered = {one.round: one for one in own if one.direction == "received"}
    facts = [f"{len(asked)} questions of {_range([one.size for one in asked])} bytes"]
    if answered:
        replies = list(answered.values())
        facts.append(f"{len(replies)} answers of {_range([one.size for one in replies])} bytes")
    facts += _shapes(own)
    waits = [answered[one.round].seconds - one.seconds for one in asked if one.round in answered]
    if waits:
        facts.append(
            f"answers took {min(waits):.2g} to {max(waits):.2g} s, which grows with the number of "
            "records"
        )
    by_size: dict[int, set[int]] = {}
    for one in asked:
        if one.round in answered:
            by_size.setdefault(one.size, set()).add(answered[one.round].size)
    varied = sum(len(found) > 1 for found in by_size.values())
    if varied:
        facts.append("questions of one size got answers of several: their sizes depend on the data")
    return Facts("; ".join(facts))


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _shapes(own: Sequence[Size]) -> list[str]:
    """Dimension, atoms and records, from the lengths that messages of such shapes have."""
    found: list[str] = []
    received = {one.round: one for one in own if one.direction == "received"}
    kinds = {one.kind for one in own}
    dimension: int | None = None
    for one in own:
        if one.kind == Moments.kind and one.round in received:
            dimension = _solved(received[one.round].size, _moments_size)
    if dimension is not None:
        found.append(f"records have {dimension} features (size of a covariance)")
    if dimension is not None and Interpolate.kind in kinds:
        d = dimension
        sent = next(one for one in own if one.kind == Interpolate.kind)
        atoms = _solved(sent.size, lambda count: _interpolate_size(count, d))
        if atoms is not None:
            found.append(f"references have {atoms} atoms")
    if Records.kind in kinds:
        reply = next(
            (
                received[one.round]
                for one in own
                if one.kind == Records.kind and one.round in received
            ),
            None,
        )
        if reply is not None:
            floats = (reply.size - _records_size(0)) // 8
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


def _interpolate_size(count: int, d: int) -> int:
    question = Interpolate(reference=np.zeros((count, d)), reference_weights=np.zeros(count), t=0.5)
    return len(encode_question(question))


def _records_size(count: int) -> int:
    return len(encode_reply(Answer({"points": np.zeros((count, 1)), "weights": np.zeros(count)})))
