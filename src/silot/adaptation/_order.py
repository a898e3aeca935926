"""An order of devices that depends on what they cost, not on how they were listed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .costs import Array, LinkCosts

Indices = npt.NDArray[np.intp]


def canonical_order(costs: LinkCosts) -> Indices:
    """Devices by cost of training, then by sorted costs of links out and in, then by name.

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
    """The same network with its devices listed in another order."""
    square = np.ix_(order, order)
    return LinkCosts(
        costs.source[order],
        costs.transfer[square],
        costs.energy[square],
        phi=costs.phi,
        eligible=costs.eligible[order],
        names=[costs.names[i] for i in order],
        labelled=None if costs.labelled is None else costs.labelled[order],
        disagreement=None
        if costs.disagreement is None
        else costs.disagreement[np.ix_(order, order, order)],
        kernel=None if costs.kernel is None else costs.kernel[square],
        shares=None if costs.shares is None else costs.shares[order],
        class_errors=None if costs.class_errors is None else costs.class_errors[square],
        mixing_scale=costs.mixing_scale,
    )


def restored(
    psi: npt.NDArray[np.int64], alpha: Array, order: Indices
) -> tuple[npt.NDArray[np.int64], Array]:
    """Back from the order of ``reordered`` to the order before it."""
    first, weights = np.empty_like(psi), np.empty_like(alpha)
    first[order] = psi
    weights[np.ix_(order, order)] = alpha
    return first, weights
