"""A malicious coordinator, played against a holder's own policy and data."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.spatial import cKDTree

from ..data.measure import Data, Measure
from ..errors import InputError
from ..federation.party import Holder
from ..federation.policy import Policy
from ..privacy.ledger import Ledger
from ._session import Session
from .policies import PolicyAudit, Strategy
from .strategies import STRATEGIES

NEAR = 1e-3
"""A guess hits a record within this share of the median distance of two neighbours."""

UNTRIED = (
    "secret knowledge of other kinds than all records but one, attacks on releases (their noise is "
    "what the budget bounds), side channels (timing, power), several holders together, and "
    "strategies nobody has thought of"
)


def audit_policy(
    policy: Policy,
    data: Data,
    *,
    questions: int = 100,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> PolicyAudit:
    """Play a malicious coordinator against a holder's own policy and records.

    Every strategy asks under changing names, repeats what was refused in other forms, has the
    holder restarted from its ledger every dozen questions, and meets a fresh ledger. What they
    find is what the policy lets out to *these* strategies: finding nothing proves nothing, and
    ``bound`` says what the policy can tell at most.

    Parameters
    ----------
    policy
        The rules.
    data
        The records: the audit stays on the machine that has them.
    questions
        Most questions of a strategy.
    seed
        Of the strategies.
    progress
        Called with how many strategies were played, of how many.

    Returns
    -------
    PolicyAudit

    Raises
    ------
    InputError
        Fewer than two records, or no question.

    Examples
    --------
    >>> rows = Measure(np.random.default_rng(0).normal(size=(60, 3)))
    >>> audit_policy(Policy(level="record"), rows, questions=5).recovered
    60
    """
    data = Measure.of(data)
    if data.size < 2 or questions < 1:
        raise InputError(
            f"{data.size} records and {questions} questions are given; two records and a question "
            "are needed at least.",
            code="audit-policy",
        )
    points = data.points
    tree = cKDTree(points)
    neighbours = np.asarray(tree.query(points, k=2)[0])[:, 1]
    near = NEAR * float(np.median(neighbours))
    found: set[int] = set()
    results: list[Strategy] = []
    numbers = named = 0
    with tempfile.TemporaryDirectory(prefix="silot-audit-") as folder:
        for number, (name, (play, informed)) in enumerate(STRATEGIES.items()):
            rng = np.random.default_rng([seed, number])
            path = Path(folder) / f"{number}.ledger"
            session = Session(data, policy, path, questions, rng)
            hits, guesses = set[int](), 0
            for guess in play(session, data.size, data.dimension):
                fine = guess[np.isfinite(guess).all(axis=1)]
                guesses += len(fine)
                if len(fine):
                    apart, rows = (np.asarray(part) for part in tree.query(fine))
                    hits |= set(rows[apart <= near].tolist())
            session.close()
            if progress is not None:
                progress(number + 1, len(STRATEGIES))
            found |= hits
            results.append(
                Strategy(
                    name=name,
                    asked=session.asked,
                    answered=session.answered,
                    refusals=dict(session.refusals),
                    guesses=guesses,
                    recovered=len(hits),
                    informed=informed,
                )
            )
            with Ledger(path, state=folder) as ledger:
                numbers = max(numbers, ledger.tally.told)
                named = max(named, ledger.tally.named)
    return PolicyAudit(
        strategies=tuple(results),
        records=data.size,
        dimension=data.dimension,
        recovered=len(found),
        numbers=numbers,
        named=named,
        bound=policy.explain(Holder(data, policy).limits),
        untried=UNTRIED,
    )
