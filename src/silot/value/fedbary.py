"""FedBary: a barycenter of holders, by walking a reference between each holder and it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy.typing as npt

from ..data.measure import Embedding
from ..distances.sides import reference_options
from ..errors import InputError, MismatchError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..transport._check import flag, interval, real, whole
from .barycenter import Plan
from .result import Barycenter


def fedbary(
    holders: Sequence[str],
    *,
    weights: Mapping[str, float] | None = None,
    support: int = 100,
    rounds: int = 20,
    tol: float = 1e-4,
    seed: int = 0,
    t: float = 0.5,
    place: float = 0.0,
    labels: bool = False,
    label_weight: float = 1.0,
    quorum: int | None = None,
    reference: npt.ArrayLike | None = None,
    embedding: Embedding = "none",
) -> Protocol[Barycenter]:
    r"""Federated free-support barycenter (FedBary, Algorithm 1).

    .. math:: Q = \arg\min_Q \sum_i \lambda_i W_2^2(P_i, Q)

    over measures on ``support`` atoms. Every round sends each holder a reference
    :math:`\gamma_i`, the barycenter itself or a point between it and the holder's records, and
    gets the interpolating measure :math:`\eta_i` between the records and :math:`\gamma_i` back.
    Composed with the way from :math:`\gamma_i` to ``Q`` it is a coupling of the records with
    ``Q``; each atom then moves to the weighted mean of what is coupled with it. A new coupling
    replaces the old one only where it is cheaper, so the objective never rises.

    Parameters
    ----------
    holders
        Names.
    weights
        The :math:`\lambda_i` by holder, any positive numbers; equal by default.
    support
        Atoms S of the barycenter.
    rounds
        Most rounds.
    tol
        Stop when a round lowers the objective by less than this share, with references at the
        barycenter itself.
    seed
        Seed of the first atoms.
    t
        Interpolation parameter of the holders' answers. It changes nothing but the messages.
    place
        Where the holders' references lie at first: 0 at the barycenter itself, towards 1 near
        each holder's records. It is halved whenever a round gains too little, to 0 in the end,
        where couplings are optimal. 0 needs by far the fewest rounds.
    labels
        Find a barycenter class by class: its atoms have labels. Classes are those of all
        holders together; each gets atoms in proportion to its mass, one at least.
    label_weight
        Weight of the label distance in the holders' distances to the result.
    quorum
        Fewest holders that must take part; ``None`` means all. Others are dropped when they
        fail, and named in the result.
    reference
        First atoms (S, d), instead of a draw from a normal law.
    embedding
        Label coordinates added to the records.

    Returns
    -------
    Protocol[Barycenter]
        A stationary point: like every free-support barycenter it depends on the first atoms.
        Discloses every record, see ``level``.

    Raises
    ------
    InputError, MismatchError
        Options out of range, weights of other holders.

    Notes
    -----
    Li, Fu, Zhang and Pang, *Data Valuation and Detections in Federated Learning*, 2024. The
    step of the atoms is the fixed point of Alvarez-Esteban et al., 2016, and Cuturi and Doucet,
    2014. The paper leaves the update of ``Q`` open; ours is the exact minimiser for the
    couplings at hand.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(40, 2))
    >>> fed = LocalFederation({"a": x, "b": x + [4.0, 0.0]})
    >>> result = fed.run(fedbary(["a", "b"], support=40))
    >>> round(result.objective, 3)
    4.0
    """
    plan = barycenter_plan(
        holders,
        weights=weights,
        support=support,
        rounds=rounds,
        tol=tol,
        seed=seed,
        t=t,
        place=place,
        labels=labels,
        label_weight=label_weight,
        quorum=quorum,
        reference=reference,
        embedding=embedding,
    )
    return Protocol(
        "fedbary",
        plan.holders,
        Disclosure.RECORD,
        plan.start,
        {
            "support": plan.reference.support,
            "rounds": plan.rounds,
            "tol": plan.tol,
            "seed": plan.reference.seed,
            "t": plan.t,
            "place": plan.place,
            "labels": plan.labels,
            "label_weight": plan.label_weight,
            "embedding": embedding,
        },
        expected_rounds=plan.rounds + 2 + plan.labels,
    )


def barycenter_plan(
    holders: Sequence[str],
    *,
    weights: Mapping[str, float] | None,
    support: int,
    rounds: int,
    tol: float,
    seed: int,
    t: float,
    place: float,
    labels: bool,
    label_weight: float,
    quorum: int | None,
    reference: npt.ArrayLike | None,
    embedding: Embedding,
) -> Plan:
    """Check the options of ``fedbary``."""
    names = tuple(holders)
    if not names:
        raise InputError("no holder is named; one or more are needed.", code="holder-names")
    needed = len(names) if quorum is None else whole(quorum, "quorum", "option-quorum")
    if needed > len(names):
        raise InputError(f"quorum is {quorum!r} for {len(names)} holders.", code="option-quorum")
    place = real(place, "place", "option-place")
    if not 0 <= place < 1:
        raise InputError(
            f"place is {place!r}; a number from 0 up to, not including, 1 is needed.",
            code="option-place",
        )
    if real(tol, "tol", "option-tol") < 0:
        raise InputError(f"tol is {tol!r}; zero or more is needed.", code="option-tol")
    if labels and embedding != "none":
        raise InputError(
            "labels=True compares labels class by class, an embedding as coordinates. Give one.",
            code="option-labels",
        )
    if real(label_weight, "label_weight", "option-label-weight") < 0:
        raise InputError(
            f"label_weight is {label_weight!r}; zero or more is needed.",
            code="option-label-weight",
        )
    return Plan(
        holders=names,
        shares=shares_of(weights, names),
        rounds=whole(rounds, "rounds", "option-rounds"),
        tol=float(tol),
        t=interval(t, "t", "option-t"),
        place=place,
        labels=flag(labels, "labels", "option-labels"),
        label_weight=float(label_weight),
        quorum=needed,
        reference=reference_options(
            reference, support if reference is None else None, 0.0, 1.0, seed
        ),
        embedding=embedding,
    )


def shares_of(weights: Mapping[str, float] | None, names: Sequence[str]) -> dict[str, float]:
    """Weights of holders that sum to 1, equal by default."""
    given = dict.fromkeys(names, 1.0) if weights is None else dict(weights)
    if set(given) != set(names):
        raise MismatchError(
            f"weights name {sorted(given)} and the holders are {sorted(names)}.",
            code="option-weights",
        )
    if not all(real(value, "weight", "option-weights") > 0 for value in given.values()):
        raise InputError("weights must be positive numbers.", code="option-weights")
    total = float(sum(sorted(given.values())))
    return {name: float(value) / total for name, value in given.items()}
