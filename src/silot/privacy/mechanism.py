"""The noise of a release: discrete, exact, and of no seed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import ExtraError, InputError, SolverError
from .accounting import scale_for

Integers = npt.NDArray[np.int64]

# Above it, noise nears the ends of int64, where sums saturate.
_LARGEST_SCALE = 2.0**52


def add_noise(values: Integers, sensitivity: float, mu: float) -> Integers:
    r"""Add discrete Gaussian noise to a vector of integers, of a scale that spends ``mu``.

    The result is :math:`\mu`-Gaussian differentially private for any two vectors at most
    :math:`\Delta` apart in the Euclidean norm (``accounting``). opendp's own account of its
    mechanism must agree that it costs no more. Noise is drawn from integers by exact
    arithmetic, never from floating point numbers, whose gaps distinguish values (Mironov, *On
    Significance of the Least Significant Bits for Differential Privacy*, 2012).

    There is no seed, on purpose: noise that somebody can draw again is no noise. It comes from
    the randomness of the system.

    Parameters
    ----------
    values
        Exact values, int64, one axis. They depend on records and must not be shown.
    sensitivity
        Most that one record moves ``values``, in the Euclidean norm.
    mu
        What the release may spend.

    Returns
    -------
    numpy.ndarray
        Noisy values, int64, as many. Sums beyond the ends of int64 saturate, which costs
        nothing: it is done to what is noisy already.

    Raises
    ------
    InputError
        Values that are not a vector of int64; a sensitivity or ``mu`` that is not a finite number
        above 0; noise of a scale above 2**52.
    SolverError
        opendp's account says that the noise is smaller.
    ExtraError
        ``opendp`` is not installed.

    Notes
    -----
    Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*, 2020.

    Examples
    --------
    >>> import numpy as np
    >>> add_noise(np.array([1000, 2000]), sensitivity=1.0, mu=0.5).shape
    (2,)
    """
    return noise_for(sensitivity, mu)(values)


def noise_for(sensitivity: float, mu: float) -> Callable[[Integers], Integers]:
    """Return what adds the noise of ``add_noise``, with everything public checked.

    For callers that charge a budget in between: what can be refused without looking at records
    is refused here.
    """
    scale = _scale(sensitivity, mu)
    gaussian = _gaussian(scale)
    # opendp counts zero-concentrated privacy, half the square of the ratio: it has our scale.
    if not gaussian.map(float(sensitivity)) <= (sensitivity / scale) ** 2 / 2 * (1 + 1e-12):
        raise SolverError(
            f"noise of scale {scale:g} costs more than the requested mu of {mu:g}. Install a "
            "released version of opendp.",
            code="release-account",
        )

    def noisy(values: Integers) -> Integers:
        if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
            raise InputError("a release is not a vector of int64.", code="release-values")
        return np.array(gaussian(values), dtype=np.int64)

    return noisy


def _scale(sensitivity: float, mu: float) -> float:
    # Both come with the question, from outside.
    for name, value, code in (
        ("sensitivity", sensitivity, "option-sensitivity"),
        ("mu", mu, "option-mu"),
    ):
        if not real(value, name, code) > 0:
            raise InputError(f"{name} is {value!r}; a number above 0 is needed.", code=code)
    scale = scale_for(float(sensitivity), float(mu))
    if not scale <= _LARGEST_SCALE:
        raise InputError(
            f"noise of scale {scale:g} exceeds 2**52. Give a larger mu.", code="option-mu"
        )
    return scale


def _gaussian(scale: float) -> Any:
    # Slow to import, and not needed without releases.
    try:
        from opendp import prelude
    except ImportError:
        raise ExtraError(
            "differentially private releases need opendp. Run: pip install 'silot[privacy]'",
            code="extra-privacy",
        ) from None
    # Its names are re-exported without saying so.
    dp: Any = prelude
    dp.enable_features("contrib")
    # "i64" by name: opendp reads Python's int as 32 bits.
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    return dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=scale)
