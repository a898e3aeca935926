"""The charge of a run to its holder's ledger, made before any share is sent."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, RefusedError
from ...federation.party import Holder
from ...federation.policy import Policy
from ...privacy.accounting import ROUNDING, compose
from ...privacy.ledger import Ledger
from ._inputs import mu_of_laplace
from .questions import SecureDistance

# Bits that the opened number can hold: a fixed-point number and its grade.
_BITS = 40.0


@dataclass(frozen=True, kw_only=True)
class Request:
    """One run, as what is public about it."""

    session: str
    """A name that no other run has: all parties contributed to it."""
    peers: dict[str, str]
    """Addresses by role."""
    sizes: tuple[int, ...]
    """Records of each holder."""
    dimension: int
    """Features of a record."""
    options: dict[str, Any]
    """Public options."""
    asker: str
    """The party that receives the number."""
    epsilon: float | None
    """Of the noise; ``None`` for an exact number."""
    question: str = ""
    """SHA-256 of the question that started it, if one did: it identifies the charge."""

    @property
    def key(self) -> str:
        """Digest of all fields: a run that is repeated is charged again."""
        if self.question:
            return self.question
        body = [self.session, self.peers, list(self.sizes), self.dimension, self.options]
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()

    @property
    def parameters(self) -> dict[str, Any]:
        """What the ledger records beside the charge."""
        return {"sizes": list(self.sizes), "dimension": self.dimension, **self.options}


def charge(
    policy: Policy | None, ledger: Ledger | None, request: Request, holder: Holder | None = None
) -> float:
    """Charge a run to its holder's ledger under the holder's policy, or refuse it.

    A holder without both keeps its own account.

    Parameters
    ----------
    policy, ledger
        The holder's rules, and its account.
    request
        The run.
    holder
        The records, for what an exact number about them counts.

    Returns
    -------
    float
        The mu that was charged; 0 for an exact number.

    Raises
    ------
    RefusedError
        The policy does not allow the run (codes ``"policy-question"``, ``"policy-budget"``,
        ``"policy-level"``, ``"policy-exact"``), there is no ledger to remember it by
        (``"secure-ledger"``), or the budget is spent (``"ledger-budget"``).
    InputError
        A ledger without a policy that says how much may be spent (``"secure-policy"``).
    """
    try:
        return _charge(policy, ledger, request, holder)
    except RefusedError as error:
        if ledger is not None:
            ledger.refuse(SecureDistance.kind, error.code, request.asker)
        raise


def _charge(
    policy: Policy | None, ledger: Ledger | None, request: Request, holder: Holder | None
) -> float:
    if policy is None:
        if ledger is not None:
            raise InputError(
                "a ledger is charged under a policy, which says how much may be spent. Give both.",
                code="secure-policy",
            )
        return 0.0
    if policy.questions is not None and SecureDistance.kind not in policy.questions:
        raise RefusedError(
            "the policy lists the questions it allows, and a secure distance is not among them.",
            code="policy-question",
        )
    if policy.level == "record":
        if ledger is not None:
            ledger.note(
                request.key, level="record", question=SecureDistance.kind, asker=request.asker
            )
        return 0.0
    if ledger is None:
        raise RefusedError(
            f"the policy allows level {policy.level} only, and there is no ledger that "
            "records this run. Give the ledger.",
            code="secure-ledger",
        )
    if request.epsilon is None:
        _count(policy, ledger, request)
        return 0.0
    if policy.budget_mu is None:
        raise RefusedError(
            "the policy has no budget for noisy numbers: its privacy_epsilon is not set.",
            code="policy-budget",
        )
    mu = mu_of_laplace(request.epsilon)
    ledger.reserve(
        request.key, mu=mu, budget=policy.budget_mu, mechanism="secure distance",
        parameters=request.parameters, asker=request.asker,
    )  # fmt: skip
    return mu


def _count(policy: Policy, ledger: Ledger, request: Request) -> None:
    """Count one exact distance, or refuse it."""
    code = ledger.note(
        request.key, level="statistics", question=SecureDistance.kind, asker=request.asker,
        most=policy.exact_secure,
    )  # fmt: skip
    if code:
        raise RefusedError(
            f"the policy of this holder allows {policy.exact_secure} exact secure distances in "
            "all. Add noise by privacy_epsilon, or raise exact_secure in the policy.",
            code=code,
        )


def find_refusal(
    policy: Policy, ledger: Ledger | None, epsilon: float | None, holder: Holder, asker: str
) -> str:
    """Return the code of the rule by which a run would not be charged now; empty if none is.

    Looked up first, so that other holders are not charged for a run that cannot be.
    """
    if policy.level == "record":
        return ""
    if ledger is None:
        return "secure-ledger"
    if epsilon is None:
        counted = ledger.count_answers(SecureDistance.kind)
        return "" if counted < policy.exact_secure else "policy-exact"
    if policy.budget_mu is None:
        return "policy-budget"
    total = compose([ledger.account.spent, mu_of_laplace(epsilon)])
    fits = total <= policy.budget_mu * (1 + ROUNDING)
    return "" if fits else "ledger-budget"
