r"""What a release spends, and what releases spend together.

One number, :math:`\mu`, the sensitivity over the scale of the noise, says what a Gaussian release
spends: it is :math:`\rho`-zero-concentrated differentially private with :math:`\rho = \mu^2 / 2`,
and releases add in :math:`\rho`. Both hold for the discrete Gaussian (Canonne, Kamath and Steinke,
*The Discrete Gaussian for Differential Privacy*, 2020, theorem 4) as for the continuous one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..errors import ExtraError, InputError

ROUNDING = 1e-9
"""Relative room for rounding when budgets are compared; ``mu_of`` stays twice as far below."""

_SMALLEST, _LARGEST = 1e-12, 1e9
_ORDERS = tuple(1 + 10 ** (step / 150) for step in range(-600, 1051))


@dataclass(frozen=True)
class Budget:
    """A bound on what may be spent in all.

    Attributes
    ----------
    epsilon, delta
        The guarantee of all releases together.

    Raises
    ------
    InputError
        ``epsilon`` is not above 0, or ``delta`` is not between 0 and 1.

    Examples
    --------
    >>> round(Budget(epsilon=1.0, delta=1e-5).mu, 3)
    0.247
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        _check_epsilon(self.epsilon)
        _check_delta(self.delta)

    @property
    def mu(self) -> float:
        """The same bound as one number; infinite for an infinite ``epsilon``."""
        return mu_of(self.epsilon, self.delta)


def mu_of(epsilon: float, delta: float) -> float:
    r"""Most a Gaussian release may spend to be :math:`(\epsilon, \delta)`-private.

    The inverse of ``epsilon_of``: one over the noise for sensitivity 1. Rounded down, so that
    ``epsilon_of(mu_of(epsilon, delta), delta) <= epsilon`` always.

    Parameters
    ----------
    epsilon
        Above 0; infinity gives infinity.
    delta
        Between 0 and 1, both excluded.

    Raises
    ------
    InputError
        An option out of its range, or an ``epsilon`` no noise reaches at this ``delta``.
    ExtraError
        ``dp-accounting`` is not installed.

    Examples
    --------
    >>> round(mu_of(1.0, 1e-5), 3)
    0.247
    """
    epsilon, delta = _check_epsilon(epsilon), _check_delta(delta)
    return math.inf if math.isinf(epsilon) else _largest_mu(epsilon, delta)


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    low, high = _SMALLEST, _LARGEST
    if _epsilon_of(low, delta) > epsilon or _epsilon_of(high, delta) < epsilon:
        raise InputError(
            f"epsilon is {epsilon:g} and delta {delta:g}: no noise of a sensible size gives that. "
            "Give an epsilon between 0.001 and 1000 and a delta such as 1e-5.",
            code="option-epsilon",
        )
    while high > low * (1 + 1e-13):
        middle = math.sqrt(low * high)
        if _epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    # Few enough digits that another machine, whose last ones differ, asks the very same.
    return float(f"{low * (1 - 2 * ROUNDING):.9e}")


def epsilon_of(mu: float, delta: float) -> float:
    r"""The :math:`\epsilon` that spending ``mu`` amounts to at a given :math:`\delta`.

    .. math:: \min_{\alpha > 1}\; \tfrac{\mu^2}{2} \alpha + \log\tfrac{\alpha - 1}{\alpha}
              - \tfrac{\log \delta + \log \alpha}{\alpha - 1}

    by the accountant of Renyi divergences of ``dp-accounting``, on a fine grid of orders.

    Parameters
    ----------
    mu
        Spent in all; 0 or more.
    delta
        Between 0 and 1, both excluded.

    Raises
    ------
    InputError
        An option out of its range.
    ExtraError
        ``dp-accounting`` is not installed.

    Examples
    --------
    >>> round(epsilon_of(0.2472, 1e-5), 2)
    1.0
    """
    mu, delta = _number(mu, "mu", "option-mu"), _check_delta(delta)
    if math.isnan(mu) or mu < 0:
        raise InputError(f"mu is {mu!r}; a number of 0 or more is needed.", code="option-mu")
    if mu == 0 or math.isinf(mu):
        return mu
    return _epsilon_of(mu, delta)


def _epsilon_of(mu: float, delta: float) -> float:
    events, rdp = _accounting()
    accountant = rdp.RdpAccountant(orders=_ORDERS)
    accountant.compose(events.GaussianDpEvent(1 / mu))
    return float(accountant.get_epsilon(delta))


def compose(mus: Iterable[float]) -> float:
    r"""What several releases spend together: :math:`\sqrt{\sum_i \mu_i^2}`.

    Releases may be chosen after seeing earlier ones.

    Raises
    ------
    InputError
        A number below 0, or none.

    Examples
    --------
    >>> compose([3.0, 4.0])
    5.0
    """
    each = [_number(mu, "mu", "option-mu") for mu in mus]
    if any(math.isnan(mu) or mu < 0 for mu in each):
        raise InputError("a mu is below 0 or not a number; what is spent is 0 or more.",
                         code="option-mu")  # fmt: skip
    return math.hypot(*each)


def gaussian_mu(epsilon: float, delta: float) -> float:
    r"""Like ``mu_of`` for the continuous Gaussian, whose accounting is exact. For comparison.

    The root of :math:`\Phi(\mu/2 - \epsilon/\mu) - e^\epsilon \Phi(-\mu/2 - \epsilon/\mu) =
    \delta` (Balle and Wang, *Improving the Gaussian Mechanism*, 2018, theorem 8). The
    mechanism of silot is discrete: budgets never use this number.

    Raises
    ------
    InputError
        An option out of its range.
    ExtraError
        ``dp-accounting`` is not installed.

    Examples
    --------
    >>> round(1 / gaussian_mu(1.0, 1e-5), 2)
    3.73
    """
    epsilon, delta = _check_epsilon(epsilon), _check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    events, _ = _accounting()
    return 1 / float(events.get_sigma_gaussian(epsilon, delta))


def _accounting() -> tuple[Any, Any]:
    # Slow to import, and not needed without releases.
    try:
        import dp_accounting
        from dp_accounting import rdp
    except ImportError:
        raise ExtraError(
            "privacy accounting needs dp-accounting. Run: pip install 'silot[privacy]'",
            code="extra-privacy",
        ) from None
    return dp_accounting, rdp


def _check_epsilon(epsilon: float) -> float:
    epsilon = _number(epsilon, "epsilon", "option-epsilon")
    if not epsilon > 0:
        raise InputError(
            f"epsilon is {epsilon!r}; a number above 0 is needed.", code="option-epsilon"
        )
    return epsilon


def _check_delta(delta: float) -> float:
    delta = _number(delta, "delta", "option-delta")
    if not 0 < delta < 1:
        raise InputError(
            f"delta is {delta!r}; a number between 0 and 1 is needed, far below one over the "
            "number of records.",
            code="option-delta",
        )
    return delta


def _number(value: object, name: str, code: str) -> float:
    # Numbers of numpy pass; texts, truth values and arrays do not.
    if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
        raise InputError(f"{name} is {value!r}; a number is needed.", code=code)
    try:
        return float(value)  # pyright: ignore[reportArgumentType]
    except (TypeError, ValueError):
        raise InputError(f"{name} is no single number.", code=code) from None
