r"""What a release spends, and what releases spend together.

One number, :math:`\mu`, the sensitivity over the scale of the noise, says what a Gaussian release
spends: it is :math:`\rho`-zero-concentrated differentially private with :math:`\rho = \mu^2 / 2`,
and releases add in :math:`\rho`. Both hold for the discrete Gaussian (Canonne, Kamath and Steinke,
*The Discrete Gaussian for Differential Privacy*, 2020, theorem 4) as for the continuous one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from ..errors import InputError

ROUNDING = 1e-9
"""Relative room for rounding when budgets are compared; ``mu_of`` stays twice as far below."""

# Bisection looks for mu between these; no release of a sensible size lies outside.
_SMALLEST, _LARGEST = 1e-12, 1e9
# Every order alpha above 1 gives a valid bound, so a grid costs tightness and never privacy.
_ORDERS = 1.0 + 10.0 ** (np.arange(-600, 1051) / 150.0)
_LEAST_ORDER = 1.01  # Nearer to 1 the bound is of no use, and loses its digits.


def mu_of(epsilon: float, delta: float) -> float:
    r"""Compute the most that a Gaussian release may spend to be :math:`(\epsilon, \delta)`-private.

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
    # The range spans 21 decades, so it is halved in the logarithm. ``low`` always keeps the
    # bound, and 1e-13 stays above the rounding of float64, which would never end the loop.
    while high > low * (1 + 1e-13):
        middle = math.sqrt(low * high)
        if _epsilon_of(middle, delta) <= epsilon:
            low = middle
        else:
            high = middle
    # Few enough digits that another machine, whose last ones differ, asks the very same.
    return float(f"{low * (1 - 2 * ROUNDING):.9e}")


def epsilon_of(mu: float, delta: float) -> float:
    r"""Compute the :math:`\epsilon` that spending ``mu`` amounts to at a given :math:`\delta`.

    .. math:: \min_{\alpha > 1}\; \tfrac{\mu^2}{2} \alpha + \log\tfrac{\alpha - 1}{\alpha}
              - \tfrac{\log \delta + \log \alpha}{\alpha - 1}

    on a fine grid of orders :math:`\alpha`, or 0 where even
    :math:`\sqrt{1 - e^{-\mu^2 / 2}} < \delta`. The Renyi divergence of order :math:`\alpha` of a
    Gaussian release is :math:`\alpha \mu^2 / 2`; the conversion is that of Canonne, Kamath and
    Steinke (2020, proposition 12). Tests compare it with the accountant of ``dp-accounting``.

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
    divergences = 0.5 * mu * mu * _ORDERS  # ``mu**2`` raises where it is too large
    # Total variation is at most the root of 1 - exp(-KL) (Bretagnolle and Huber).
    if delta**2 > -math.expm1(-divergences[0]):
        return 0.0
    # ``log1p`` keeps the digits of log(1 - 1 / alpha) where alpha is large.
    values = divergences + np.log1p(-1.0 / _ORDERS)
    values -= np.log(delta * _ORDERS) / (_ORDERS - 1.0)
    return max(0.0, float(values[_ORDERS > _LEAST_ORDER].min()))


def compose(mus: Iterable[float]) -> float:
    r"""Compute what several releases spend together: :math:`\sqrt{\sum_i \mu_i^2}`.

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
    numbers = [_number(mu, "mu", "option-mu") for mu in mus]
    if any(math.isnan(mu) or mu < 0 for mu in numbers):
        raise InputError("a mu is below 0 or not a number; what is spent is 0 or more.",
                         code="option-mu")  # fmt: skip
    return math.hypot(*numbers)


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
