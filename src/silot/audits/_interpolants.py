"""Interpolants behind messages: sent, behind costs, or brought along by questions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..distances.questions import (
    InterpolantCosts,
    InterpolantDistance,
    Interpolate,
    InterpolateByClass,
)
from ..federation.answer import Answer
from ..records.questions.scores import ScoreRecords
from ._evidence import Array, Evidence, Form, normal
from .observer import Seen


def form_of(question: Interpolate) -> Form:
    """What an interpolant is supported on."""
    if question.interpolation == "exact":
        return "pairs"
    return "cells" if question.on_reference else "rows"


def sent(item: Seen, mean: Array | None) -> list[Evidence]:
    """Interpolants of one answer."""
    question, answer = item.question, item.answer
    if answer is None:
        return []
    if isinstance(question, InterpolateByClass):
        return list(_by_class(item, question, answer))
    # Subclasses ask for something else of it.
    if type(question) is not Interpolate:
        return []
    atoms, weights = answer.array("atoms", ndim=2), answer.array("weights", ndim=1)
    distance = answer.optional_number("distance")
    return [
        _towards(item, question, atoms, weights, whole=_whole(answer), distance=distance, mean=mean)
    ]


def behind_costs(seen: Sequence[Seen]) -> Iterator[Evidence]:
    """Interpolants behind matrices of costs to known points."""
    for item in seen:
        question, answer = item.question, item.answer
        if isinstance(question, InterpolantCosts) and answer is not None:
            costs = answer.array("costs", ndim=2)
            atoms = located(costs if question.p == 2 else costs**2, question.target)
            if atoms is not None:
                weights = answer.array("weights", ndim=1)
                more = {"source": "trilateration", "whole": _whole(answer)}
                yield _towards(item, question, atoms, weights, **more)


def shown_by_coordinator(seen: Sequence[Seen], *, shared: bool) -> list[Evidence]:
    """Interpolants of the coordinator's own records that its questions bring along."""
    # The same interpolant may come with every question.
    distinct: dict[bytes, Evidence] = {}
    for one in _brought_along(seen, shared=shared):
        distinct.setdefault(one.atoms.tobytes() + one.reference.tobytes(), one)
    return list(distinct.values())


def _brought_along(seen: Sequence[Seen], *, shared: bool) -> Iterator[Evidence]:
    scored: ScoreRecords | None = None
    for item in seen:
        question = item.question
        if isinstance(question, ScoreRecords):
            scored = question
        elif isinstance(question, Interpolate) and scored is not None:
            # The one before brought an interpolant towards the reference of this one.
            atoms, weights = scored.target, scored.target_weights
            yield _towards(item, question, atoms, weights, form="rows", p=2)
            scored = None
        elif isinstance(question, InterpolantDistance | InterpolantCosts):
            t = question.t if shared else None
            yield _towards(item, question, question.target, question.target_weights, t=t)


def _towards(
    item: Seen, question: Interpolate, atoms: Array, weights: Array, **more: Any
) -> Evidence:
    """An interpolant towards the reference of a question; ``more`` goes to ``Evidence``."""
    used = question.reference_weights > 0
    options = {"t": question.t, "form": form_of(question), "p": question.p, "round": item.round}
    return Evidence(
        atoms,
        normal(weights),
        question.reference[used],
        normal(question.reference_weights[used]),
        **{**options, **more},
    )


def _by_class(item: Seen, question: InterpolateByClass, answer: Answer) -> Iterator[Evidence]:
    atoms, masses = answer.array("atoms", ndim=2), answer.array("masses", ndim=1)
    for code in np.flatnonzero(masses > 0).tolist():
        there = (question.target_codes == code) & (question.target_weights > 0)
        if there.any():
            weights = normal(question.target_weights[there])
            yield Evidence(
                atoms[there], weights, question.target[there], weights, question.t, "cells",
                round=item.round, group=code, mass=float(masses[code]),
            )  # fmt: skip


def located(squares: Array, known: Array) -> Array | None:
    r"""Points ``a_i`` with ``|a_i - z_j|^2 = squares[i, j]``.

    Differences of squares are linear in the point:
    :math:`-2 \langle a, z_j - \bar z \rangle = (s_j - |z_j|^2) - \overline{(s - |z|^2)}`.

    Returns
    -------
    numpy.ndarray or None
        Shape (n, d); ``None`` when the known points do not span the space, so that a point and
        its mirror image cannot be told apart.
    """
    centre = known.mean(axis=0)
    near = known - centre
    left = squares - np.einsum("ij,ij->i", near, near)
    left = -0.5 * (left - left.mean(axis=1, keepdims=True))
    values = np.linalg.svd(near, compute_uv=False)
    if len(known) <= near.shape[1] or values[-1] <= 1e-10 * values[0]:
        return None
    solution = np.linalg.lstsq(near, left.T, rcond=None)[0].T
    return solution + centre


def _whole(answer: Answer) -> bool:
    return answer.scalars.get("geodesic") is True
