"""Long searches for records behind messages, which ``silot privacy audit`` leaves out.

``silot privacy audit`` has the attacks that decide: those that compute records from messages at
once. The attacks here take means of several records apart, or undo merges, and may take minutes
for one run:

- ``joint-rounds``: means of all rounds together, by an integer programme over their mixtures.
- ``shared-cells``: cells of two records or more, by how cells of rounds overlap, or where the
  records of a cell can lie.
- ``undone-merges``: a holder of FedWaD takes its own interpolant out of the next reference.
- ``cellwise-projection``: the projection of ``silot privacy audit``, ended cell by cell of the
  plan.
- ``distance-balls``: the attack of *Private Wasserstein Distance*, app. D.1. It guesses a
  distribution and not records, so that its failure proves nothing.

``audit`` runs them beside those of ``silot.audit``; ``shares_determined`` says how much of the
records messages of means determine at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import silot
from evidence.attacks.cellwise import cellwise_projection
from evidence.attacks.distance_balls import distance_balls
from evidence.attacks.joint_rounds import joint_rounds
from evidence.attacks.rounds import Round, tied_shares
from evidence.attacks.shared_cells import shared_cells
from evidence.attacks.undone_merges import undone_merges
from silot.audits.case import Case, View
from silot.audits.inversion import Array
from silot.audits.run import ATTACKS, Finding
from silot.federation import Transcript

SEARCHES: Mapping[str, Callable[[Case], Finding]] = {
    "cellwise-projection": cellwise_projection,
    "joint-rounds": joint_rounds,
    "shared-cells": shared_cells,
    "undone-merges": undone_merges,
    "distance-balls": distance_balls,
}
"""The attacks of this folder by name, as ``silot.audits.ATTACKS``."""

# The rank of all plans takes the cube of the number of records.
_MOST_RECORDS = 1000


def audit(
    transcript: Transcript, viewpoint: str = "coordinator", **options: Any
) -> silot.audits.Audit:
    """Run the attacks of ``silot.audit`` and those of this folder; ``options`` are its options."""
    return silot.audit(transcript, viewpoint, attacks={**ATTACKS, **SEARCHES}, **options)


def shares_determined(
    transcript: Transcript, target: str, truth: Array
) -> tuple[float, float] | None:
    """Return how much of the true records a coordinator's messages of means determine.

    The first is the share that they determine once the plans behind them are known, the second
    the share that they do not: another set of records gives the same messages. ``None`` where no
    means over cells of all records of equal weight were sent.
    """
    case = Case(View.of(transcript, "coordinator"), target)
    if not case.view.is_uniform(target):
        return None
    sorts = {(one.group, one.p, one.atoms.shape[1]) for one in case.cells}
    if sorts != {(0, 2, truth.shape[1])} or len(truth) > _MOST_RECORDS:
        return None
    rounds = [Round.of(one) for one in case.cells]
    return tied_shares(truth, rounds, moments=case.moments is not None)
