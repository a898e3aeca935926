r"""What a network pays: costs of training, of transferring and of sending models.

With :math:`y_i = 1 - \psi_i` (1 for a source) and weights :math:`\alpha_{ij}` of source i at
target j, the objective is

.. math::

    \phi_S \sum_i y_i S_i + \phi_T \sum_j \sum_i \alpha_{ij} T_{ij}
    + \phi_E \sum_{ij} K_{ij} [\alpha_{ij} > 0]

subject to :math:`\sum_i \alpha_{ij} = 1 - y_j` and :math:`\alpha_{ij} \le y_i`. The last
constraint is missing in the paper (its eq. 12 multiplies phantom links by zero in the transfer
term and lets them satisfy eq. 13).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from silot_transport._check import real

from ..errors import InputError, MismatchError

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.intp]
Flags = npt.NDArray[np.bool_]
# Arrays of a network, and how many of their axes are its devices.
_AXES = {"source": 1, "transfer": 2, "energy": 2, "eligible": 1}


class NoEligibleSource(InputError):  # noqa: N818 - says what is, as its code does
    """No device may be a source, and every target must be served.

    Give labels to a device, or allow targets without a model at a cost (``allow_unserved``).
    """


@dataclass(frozen=True, init=False, eq=False)
class LinkCosts:
    r"""Costs of a network of N devices; row = source, column = target.

    Parameters
    ----------
    source
        Shape (N,): cost :math:`S_i` of training at device i.
    transfer
        Shape (N, N): cost :math:`T_{ij}` of using source i's model at target j. ``inf`` bars
        the link. The diagonal is not used.
    energy
        Shape (N, N): energy :math:`K_{ij} \ge 0` of sending a model from i to j. ``inf`` bars the
        link. The diagonal is not used.
    phi
        Scales of the three terms, none negative.
    eligible
        Shape (N,): whether a device may be a source; by default every device may. A device
        without labels must not.
    names
        Names of the devices, all different; by default ``"0"``, ``"1"`` ...

    Raises
    ------
    InputError
        NaN, negative energy or scale, ``-inf`` anywhere.
    MismatchError
        Arrays of sizes that do not fit together, fewer than two devices, doubled names.

    Examples
    --------
    >>> costs = LinkCosts(source=[1.0, 9.0], transfer=[[0, 1], [1, 0]], energy=[[0, 2], [2, 0]])
    >>> costs.size, costs.names
    (2, ('0', '1'))
    """

    source: Array
    transfer: Array
    energy: Array
    phi: tuple[float, float, float]
    eligible: Flags
    names: tuple[str, ...]

    def __init__(
        self,
        source: npt.ArrayLike,
        transfer: npt.ArrayLike,
        energy: npt.ArrayLike,
        *,
        phi: Sequence[float] = (1.0, 5.0, 1.0),
        eligible: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        costs = _numbers(source, "source")
        n = len(costs) if costs.ndim == 1 else 0
        if n < 2:
            raise MismatchError(
                f"source has shape {costs.shape}; (N,) is needed, for two devices or more.",
                code="network-size",
            )
        if not np.isfinite(costs).all():
            raise InputError("source has an entry that is not finite.", code="costs-nan")
        fields: dict[str, Any] = {
            "source": costs,
            "transfer": _pairs(transfer, "transfer", n),
            "energy": _pairs(energy, "energy", n),
            "phi": checked_phi(phi),
            "eligible": _flags(eligible, n),
            "names": _names(names, n),
        }
        if (fields["energy"] < 0).any():
            i, j = np.argwhere(fields["energy"] < 0)[0]
            raise InputError(f"energy[{i}, {j}] is negative.", code="costs-negative")
        parts = zip(fields["phi"], (costs, fields["transfer"], fields["energy"]), strict=True)
        # Sums over all links must stay below the largest float, or objectives would be infinite.
        with np.errstate(over="ignore"):
            largest = sum(
                scale * np.abs(values[np.isfinite(values)]).max(initial=0.0) * n
                for scale, values in parts
            )
        if not np.isfinite(largest):
            raise InputError(
                "costs multiplied by their scales (phi) overflow. Use larger units.",
                code="costs-large",
            )
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.source)

    @property
    def links(self) -> Array:
        r"""Shape (N, N): :math:`\phi_T T_{ij} + \phi_E K_{ij}`, ``inf`` where barred.

        A device that may not be a source has no links out, and none has one to itself.
        """
        transfer, energy = self.phi[1], self.phi[2]
        barred = np.isinf(self.transfer) | np.isinf(self.energy) | ~self.eligible[:, None]
        np.fill_diagonal(barred, True)
        total = transfer * np.where(barred, 0.0, self.transfer) + energy * np.where(
            barred, 0.0, self.energy
        )
        return np.where(barred, np.inf, total)


def _numbers(values: npt.ArrayLike, name: str) -> Array:
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers.", code="costs-type") from None


def _pairs(values: npt.ArrayLike, name: str, n: int) -> Array:
    pairs = _numbers(values, name)
    if pairs.shape != (n, n):
        raise MismatchError(
            f"{name} has shape {pairs.shape}; {(n, n)} is needed.", code="costs-shape"
        )
    np.fill_diagonal(pairs, 0.0)
    wrong = np.isnan(pairs) | (pairs == -np.inf)
    if wrong.any():
        i, j = np.argwhere(wrong)[0]
        raise InputError(
            f"{name}[{i}, {j}] is {pairs[i, j]}. Give a number, or inf to forbid the link.",
            code="costs-nan",
        )
    return pairs


def checked_phi(phi: Any, *_: str) -> tuple[float, float, float]:
    """Return the scales of the three terms, or raise unless they are three numbers, 0 or more."""
    if isinstance(phi, str) or not isinstance(phi, Sequence | np.ndarray):
        raise InputError(f"phi is {phi!r}; three numbers are needed.", code="costs-type")
    values: tuple[Any, ...] = tuple(phi)
    if len(values) != 3:
        raise MismatchError(f"phi has {len(values)} entries; three are needed.", code="costs-shape")
    source, transfer, energy = (real(value, "a scale (phi)", "costs-type") for value in values)
    if min(source, transfer, energy) < 0:
        raise InputError(
            f"a scale (phi) is {min(source, transfer, energy)}; it must be 0 or more.",
            code="costs-negative",
        )
    return source, transfer, energy


def _flags(eligible: npt.ArrayLike | None, n: int) -> Flags:
    try:
        flags = np.ones(n, dtype=bool) if eligible is None else np.array(eligible)
    except ValueError:
        raise InputError("eligible is not a list of booleans.", code="costs-type") from None
    if flags.shape != (n,) or flags.dtype != np.bool_:
        raise MismatchError(
            f"eligible is {flags.dtype} of shape {flags.shape}; {n} booleans are needed.",
            code="costs-shape",
        )
    return flags


def _names(names: Sequence[str] | None, n: int) -> tuple[str, ...]:
    texts = tuple(str(i) for i in range(n)) if names is None else tuple(names)
    if len(texts) != n or len(set(texts)) != n or not all(texts):
        raise MismatchError(
            f"{len(texts)} names, {len(set(texts))} of them different, for {n} devices.",
            code="device-names",
        )
    return texts


def canonical_order(costs: LinkCosts) -> Indices:
    """Sort devices by cost of training, then by sorted costs of links out and in, then by name.

    Listing the devices otherwise changes nothing in this order. Calling them otherwise changes
    only the order of devices whose costs agree in all of these numbers.
    """
    links = costs.links
    out, into = np.sort(links, axis=1), np.sort(links, axis=0)
    return np.array(
        sorted(
            range(costs.size),
            key=lambda i: (
                not costs.eligible[i],
                float(costs.source[i]),
                tuple(out[i].tolist()),
                tuple(into[:, i].tolist()),
                costs.names[i],
            ),
        ),
        dtype=np.intp,
    )


def reordered(costs: LinkCosts, order: Indices) -> LinkCosts:
    """List the devices of a network, or a part of them, in another order."""
    listed: dict[str, Any] = {
        name: getattr(costs, name)[np.ix_(*[order] * axes)] for name, axes in _AXES.items()
    }
    return replace(costs, names=[costs.names[i] for i in order], **listed)


def restored(
    psi: npt.NDArray[np.int64], alpha: Array, order: Indices
) -> tuple[npt.NDArray[np.int64], Array]:
    """Bring a plan back from the order of ``reordered`` to the order before it."""
    first, weights = np.empty_like(psi), np.empty_like(alpha)
    first[order] = psi
    weights[np.ix_(order, order)] = alpha
    return first, weights
