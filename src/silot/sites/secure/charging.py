"""The charge of a run to its holder's ledger, made before any share is sent."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from ...errors import InputError, RefusedError
from ...federation.disclosure import Account
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
        ``"policy-level"``, ``"policy-numbers"``), there is no ledger to remember it by
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
    check_level(policy)
    if policy is None:
        if ledger is not None:
            raise InputError(
                "a ledger is charged under a policy, which says how much may be spent. Give both.",
                code="secure-policy",
            )
        return 0.0
    if policy.questions is not None and SecureDistance.kind not in policy.questions:
        raise RefusedError(
            "the policy names the questions it allows, and a secure distance is none of them.",
            code="policy-question",
        )
    if policy.level == "record":
        if ledger is not None:
            ledger.count(
                request.key, account=Account.RECORD, question=SecureDistance.kind, numbers=0,
                asker=request.asker,
            )  # fmt: skip
        return 0.0
    if ledger is None:
        raise RefusedError(
            f"the policy allows level {policy.level} only, and there is no ledger to remember "
            "this run by. Give the ledger.",
            code="secure-ledger",
        )
    if request.epsilon is None:
        _count(policy, ledger, request, holder)
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


def check_level(policy: Policy | None) -> None:
    """Raise where a policy allows no run at all (``"policy-level"``), before any statement."""
    if policy is not None and policy.level == "sketch":
        raise RefusedError(
            "the policy allows noisy releases alone, and the parties of a secure distance tell "
            "each other how many records there are. Use method 'sketch'.",
            code="policy-level",
        )


def _count(policy: Policy, ledger: Ledger, request: Request, holder: Holder | None) -> None:
    """Count one exact number about inputs the other side chose, or refuse it."""
    code = "policy-level"
    if holder is not None:
        limits, version = holder.limits, holder.version
        # All digits of the number are opened: more bits than of one that is rounded.
        code = ledger.count(
            request.key, account=Account.CHOSEN, question=SecureDistance.kind, numbers=1,
            bits=_BITS, data=version, limits=limits.most, asker=request.asker,
            rule=lambda tally: policy.over_chosen(
                1, limits, tally, version, request.asker, bits=_BITS
            ),
        ).code  # fmt: skip
    if code:
        raise RefusedError(
            f"the policy of this holder does not allow the exact number ({code}): `silot policy "
            "explain` says what it allows. Add noise by privacy_epsilon.",
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
        limits, version = holder.limits, holder.version
        return policy.over_chosen(1, limits, ledger.tally, version, asker, bits=_BITS)
    if policy.budget_mu is None:
        return "policy-budget"
    fits = compose([ledger.spent, mu_of_laplace(epsilon)]) <= policy.budget_mu * (1 + ROUNDING)
    return "" if fits else "ledger-budget"
