"""Reading teachers' answers: trusted only as far as they are probabilities."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from ..data.label_names import label_name
from ..errors import InputError, WireError
from ..federation.answer import Answer, Array
from .options import Asking
from .questions import RESOLUTION, Inputs, digest_of, fault_of


@dataclass(frozen=True)
class TeacherDescription:
    """What a teacher says of itself."""

    parts: int
    size: int | None
    labels: tuple[str, ...] | None
    shared: str


def told(answer: Answer) -> TeacherDescription:
    """Read a description, or raise a ``WireError``."""
    parts = _count(answer, "parts")
    text, shared = answer.scalars.get("labels"), answer.scalars.get("shared", "")
    labels = None
    if text is not None:
        try:
            named = json.loads(text) if isinstance(text, str) else None
        except (ValueError, RecursionError):
            named = None
        if not isinstance(named, list) or not all(isinstance(name, str) for name in named):
            raise _malformed("names of labels")
        labels = tuple(named)
    if parts is None or not isinstance(shared, str):
        raise _malformed("parts, or a digest of inputs")
    return TeacherDescription(parts, _count(answer, "size"), labels, shared)


def _count(answer: Answer, name: str) -> int | None:
    value = answer.scalars.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise _malformed(f"a whole number {name!r} of 1 or more")
    return value


def _malformed(what: str) -> WireError:
    return WireError(
        f"the teacher's description has no {what}. The teacher runs other code, or a broken one.",
        code="answer-malformed",
    )


def shown(answer: Answer, name: str, shape: tuple[int, ...]) -> Array | str:
    """Probabilities of an answer as points of the simplex, or the code of what is wrong."""
    values = answer.arrays.get(name)
    fault = fault_of(values, shape)
    if fault is not None or values is None:
        return fault or "answer-malformed"
    clipped = np.maximum(values, 0.0)
    return clipped / clipped.sum(axis=-1, keepdims=True)


def released(answer: Answer, shape: tuple[int, int]) -> Array | str:
    """Noisy probabilities moved onto the simplex, or the code of what is wrong."""
    values = answer.arrays.get("noisy")
    if values is None or values.dtype != np.int64 or values.ndim != 2:
        return "answer-malformed"
    if values.shape != shape:
        return "prediction-labels" if values.shape[1] != shape[1] else "prediction-rows"
    return project(values / RESOLUTION)


def project(points: Array) -> Array:
    r"""Nearest points of the simplex, :math:`\max(p_l - \theta, 0)` with a sum of 1.

    Examples
    --------
    >>> project(np.array([[0.9, 0.5, -0.2]])).round(9).tolist()
    [[0.7, 0.3, 0.0]]
    """
    # Before anything else: the level does not matter, and large numbers would lose digits.
    moved = points - points.max(axis=1, keepdims=True)
    ordered = -np.sort(-moved, axis=1)
    ranks = np.arange(1, points.shape[1] + 1)
    levels = (np.cumsum(ordered, axis=1) - 1.0) / ranks
    last = (ordered > levels).sum(axis=1) - 1
    found = np.maximum(moved - levels[np.arange(len(points)), last][:, None], 0.0)
    return found / found.sum(axis=1, keepdims=True)


def places_of(own: tuple[str, ...] | None, labels: tuple[str, ...] | None, count: int) -> list[int]:
    """Where a teacher's labels stand in the label space, by name; -1 for one that it lacks.

    Where either has no names, or a label space only numbers that the teacher knows nothing of,
    labels are taken to be the same in the same order.
    """
    if not own or not labels:
        return list(range(count))
    known = {label_name(name): code for code, name in enumerate(labels)}
    found = [known.get(label_name(name), -1) for name in own]
    if labels == tuple(map(str, range(count))) and set(found) == {-1}:
        return list(range(count)) if len(own) == count else [-1]
    return found if len(set(found)) == len(found) else [-1]


def check_private(noise: Inputs | None, how: Asking, sizes: bool) -> None:
    """Refuse what noise cannot be added to, or would not be added to."""
    if sizes:
        raise InputError(
            "sizes are exact, and with privacy_epsilon teachers tell nothing exact. Take weights "
            "other than 'size', or leave privacy_epsilon out.",
            code="option-sizes",
        )
    if noise is None:
        return
    if how.temperature != 1.0:
        # The mean of scaled predictions is not the scaled mean, and only that could be had.
        raise InputError(
            f"temperature is {how.temperature:g}: with privacy_epsilon the bias cannot be brought "
            "to it. Take temperature=1, or weights that need no noise.",
            code="option-temperature",
        )
    if len(noise) > how.noise_at_once:
        raise InputError(
            f"there are {len(noise)} noise inputs. Give at most {how.noise_at_once} noise inputs "
            "with privacy_epsilon: their mean is asked for in one question.",
            code="option-noise",
        )


def kind_of(inputs: Inputs) -> int:
    """Length of records, 0 for texts."""
    return 0 if isinstance(inputs, list) else inputs.shape[1]


def hidden(inputs: Inputs, noise: Inputs) -> tuple[Inputs, npt.NDArray[np.intp]]:
    """Inputs and noise, shuffled, and where each of them went."""
    # Whoever does not have all of them in their order cannot know this one.
    seed = digest_of(inputs) + digest_of(noise)
    order = np.random.default_rng(int(seed, 16)).permutation(len(inputs) + len(noise))
    places = order.argsort()
    if isinstance(inputs, list):
        both = [*inputs, *cast("list[str]", noise)]
        return [both[row] for row in order], places
    return np.concatenate([inputs, cast("Array", noise)])[order], places
