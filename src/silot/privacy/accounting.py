r"""What releases spend, exactly: one number mu each; together the root of the sum of squares.

A release of integers with sensitivity :math:`\Delta` and discrete Gaussian noise of scale
:math:`s` is a post-processing of a continuous Gaussian release of scale
:math:`\sqrt{s^2 - c^2}`, c = ``SMOOTHING``: add a normal of variance :math:`s^2 - c^2`, then draw
an integer from the discrete Gaussian of scale c around the result. The weights of that draw sum to
the same for every centre up to a factor :math:`1 \pm 2 e^{-2 \pi^2 c^2}` (Poisson summation),
3e-22. So the release is mu-GDP with :math:`\mu = \Delta / \sqrt{s^2 - c^2}`, and what holds for
Gaussians holds for it:

.. math:: \delta(\epsilon) = \Phi(\mu / 2 - \epsilon / \mu)
          - e^\epsilon \Phi(-\mu / 2 - \epsilon / \mu), \qquad
          \mu = \sqrt{\textstyle\sum_i \mu_i^2}

Dong, Roth and Su, *Gaussian Differential Privacy* (2022), for the curve and the composition; Smith
and Thakurta, *Fully Adaptive Composition for Gaussian Differential Privacy* (2022), for releases
chosen after earlier ones; Balle and Wang (2018) for the curve in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import lru_cache

from scipy.special import log_ndtr, ndtr, ndtri

from ..errors import InputError

ROUNDING = 1e-9
"""Relative room for rounding when budgets are compared; ``mu_of`` stays twice as far below."""

SMOOTHING = 1.6
"""Scale of the draw, in units of the grid, that makes discrete noise of continuous noise."""

_SMALLEST, _LARGEST = 1e-12, 1e9
# Far above all log-ratios and roundings of one release together, as a share of mu.
_MARGIN = 1e-9


def scale_for(sensitivity: float, mu: float) -> float:
    r"""Compute the scale of discrete Gaussian noise that spends ``mu``.

    .. math:: s = \sqrt{(\Delta / \mu)^2 + c^2}

    Examples
    --------
    >>> round(scale_for(1000.0, 0.25), 3)
    4000.0
    """
    return math.hypot(sensitivity * (1 + _MARGIN) / mu, SMOOTHING) * (1 + 1e-12)


def mu_of(epsilon: float, delta: float) -> float:
    r"""Compute the largest mu of a Gaussian release that is :math:`(\epsilon, \delta)`-private.

    The inverse of ``epsilon_of``. Rounded down, so that
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
    0.268
    """
    epsilon, delta = _check_epsilon(epsilon), _check_delta(delta)
    return math.inf if math.isinf(epsilon) else _largest_mu(epsilon, delta)


@lru_cache(maxsize=256)
def _largest_mu(epsilon: float, delta: float) -> float:
    low, high = _SMALLEST, _LARGEST
    if _epsilon_of(low, delta) > epsilon or _epsilon_of(high, delta) < epsilon:
        raise InputError(
            f"epsilon is {epsilon:g} and delta {delta:g}: no noise of a reasonable size "
            "gives that. Give an epsilon between 0.001 and 1000 and a delta such as 1e-5.",
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
    r"""The least :math:`\epsilon` for which spending ``mu`` is (epsilon, delta)-private.

    Found by bisection of ``delta_of``, which falls as epsilon grows, and rounded up.

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
    >>> round(epsilon_of(0.268, 1e-5), 2)
    1.0
    """
    mu, delta = _check_mu(mu), _check_delta(delta)
    if mu == 0 or math.isinf(mu):
        return mu
    return _epsilon_of(mu, delta)


def _epsilon_of(mu: float, delta: float) -> float:
    if _delta_of(mu, 0.0) <= delta:
        return 0.0
    # The tail bound of a normal: delta is reached before this epsilon.
    low, high = 0.0, mu * mu / 2 + mu * math.sqrt(2 * math.log(1 / delta))
    if math.isinf(high):
        return math.inf
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if _delta_of(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high * (1 + _MARGIN)


def delta_of(mu: float, epsilon: float) -> float:
    r"""Compute the least :math:`\delta` for which spending ``mu`` is (epsilon, delta)-private.

    Raises
    ------
    InputError
        An option out of its range.

    Examples
    --------
    >>> f"{delta_of(0.268, 1.0):.0e}"
    '1e-05'
    """
    mu, epsilon = _check_mu(mu), _number(epsilon, "epsilon", "option-epsilon")
    if not epsilon >= 0:
        raise InputError(
            f"epsilon is {epsilon!r}; a number of 0 or more is needed.", code="option-epsilon"
        )
    return _delta_of(mu, epsilon)


def _delta_of(mu: float, epsilon: float) -> float:
    if mu == 0 or math.isinf(epsilon):
        return 0.0
    # Logarithms, so that differences of tiny numbers keep their digits.
    first = float(log_ndtr(mu / 2 - epsilon / mu))
    second = epsilon + float(log_ndtr(-mu / 2 - epsilon / mu))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def largest_power(mu: float, false_alarms: float) -> float:
    r"""Compute the largest share of members that any attack finds at a rate of false alarms.

    .. math:: \Phi(\Phi^{-1}(\alpha) + \mu)

    Whatever the attacker knows, all other records included (Dong, Roth and Su 2022).

    Examples
    --------
    >>> round(largest_power(mu_of(1.0, 1e-5), 0.01), 4)
    0.0198
    """
    return float(ndtr(ndtri(false_alarms) + mu))


def largest_auc(mu: float) -> float:
    r"""Compute the largest area under the curve of any attack: :math:`\Phi(\mu / \sqrt 2)`.

    Examples
    --------
    >>> round(largest_auc(mu_of(1.0, 1e-5)), 3)
    0.575
    """
    return float(ndtr(mu / math.sqrt(2)))


def compose(mus: Iterable[float]) -> float:
    r"""Return what several releases spend together: :math:`\sqrt{\sum_i \mu_i^2}`.

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
    spent = [_number(mu, "mu", "option-mu") for mu in mus]
    if any(math.isnan(mu) or mu < 0 for mu in spent):
        raise InputError("a mu is below 0 or not a number; what is spent is 0 or more.",
                         code="option-mu")  # fmt: skip
    return math.hypot(*spent)


def _check_mu(mu: float) -> float:
    mu = _number(mu, "mu", "option-mu")
    if math.isnan(mu) or mu < 0:
        raise InputError(f"mu is {mu!r}; a number of 0 or more is needed.", code="option-mu")
    return mu


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
        raise InputError(f"{name} is not a single number.", code=code) from None
