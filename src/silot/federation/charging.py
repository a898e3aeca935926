"""What every party does alike: failures without text, and releases that are charged first."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from ..errors import SilotError
from ..privacy.ledger import BudgetError, Ledger
from ..privacy.mechanism import noise_for
from .answer import Failure, encode_reply, with_charge
from .policy import Policy
from .question import Codes, encode_question
from .release import Release


def failure_of(error: Exception) -> Failure:
    """Turn an exception into what may leave a party.

    This is the party's boundary: whatever went wrong, the text of the exception may quote
    records and stays here. Only our code and the type leave.
    """
    code = error.code if isinstance(error, SilotError) else "holder-raised"
    return Failure(code, "failed", type(error).__name__)


def charged_reply(
    release: Release,
    ledger: Ledger | None,
    policy: Policy,
    *,
    check: Callable[[], None],
    exact: Callable[[], Codes],
    asker: str,
) -> bytes:
    """Answer with noise, once the budget is charged; an answer of before is free.

    Parameters
    ----------
    release
        A question the policy allows.
    ledger, policy
        The account, and the budget.
    check
        Raises what can go wrong without looking at records: before the charge.
    exact
        The vector before noise.
    asker
        Who asks, for the ledger.
    """
    budget = policy.budget_mu
    if budget is None:
        return encode_reply(Failure("policy-budget", "refused"))
    if ledger is None:
        return encode_reply(Failure("ledger-absent", "refused"))
    key = hashlib.sha256(encode_question(release)).hexdigest()
    stored = ledger.find(key)
    if stored is not None:
        return with_charge(stored, 0.0)
    check()
    sensitivity = release.sensitivity
    # Whatever can go wrong without the records goes wrong before the charge.
    add_noise = noise_for(sensitivity, release.privacy_mu)
    try:
        ledger.reserve(
            key,
            mu=release.privacy_mu,
            budget=budget,
            mechanism=release.mechanism or release.kind,
            parameters=_parameters(release, sensitivity),
            asker=asker,
        )
    except BudgetError as error:
        return encode_reply(_over_budget(error, policy.privacy_delta))
    fresh = encode_reply(release.answer_of(add_noise(exact())))
    kept = ledger.commit(key, fresh)
    return with_charge(kept, release.privacy_mu if kept == fresh else 0.0)


def _parameters(release: Release, sensitivity: float) -> dict[str, Any]:
    """What is public about a release, arrays by their shape and digest."""
    parameters: dict[str, Any] = {"sensitivity": sensitivity}
    for item in dataclasses.fields(release):
        value = cast("object", getattr(release, item.name))
        if isinstance(value, np.ndarray):
            array = np.ascontiguousarray(cast("npt.NDArray[Any]", value))
            digest = hashlib.sha256(array.tobytes()).hexdigest()
            value = {"shape": list(array.shape), "sha256": digest}
        parameters[item.name] = value
    return parameters


def _over_budget(error: BudgetError, delta: float) -> Failure:
    """The refusal with what was spent, asked and left, as mu and as epsilon."""
    from ..privacy.accounting import epsilon_of

    numbers = {"delta": delta}
    for what, mu in (("spent", error.spent), ("asked", error.asked), ("left", error.left)):
        numbers[f"{what}_mu"] = mu
        numbers[f"{what}_epsilon"] = epsilon_of(mu, delta)
    return Failure(error.code, "refused", numbers=numbers)
