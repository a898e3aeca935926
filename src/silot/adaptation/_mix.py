r"""What mixing several sources adds to a target's cost, :math:`m_j(\alpha_j)`."""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np

from ..errors import InputError
from ._order import Indices
from .costs import MIXINGS, Array, LinkCosts, Mixing

# What a plan may have been made for: coverage has its own solver, and no mixing.
Objective = Mixing | Literal["coverage"]
_NEEDS = {"variance": "labelled", "ambiguity": "disagreement", "mmd": "kernel"}


def check_mixing(mixing: str, costs: LinkCosts) -> None:
    """Refuse a mixing whose data the costs do not have."""
    if mixing not in get_args(Mixing):
        raise InputError(
            f"mixing is {mixing!r}; give one of {', '.join(MIXINGS)}.", code="option-mixing"
        )
    field = _NEEDS.get(mixing)
    if field is not None and getattr(costs, field) is None:
        raise InputError(
            f"mixing={mixing!r} needs LinkCosts({field}=...), which was not given.",
            code="mixing-data",
        )


def mixing_cost(weights: Array, j: int, costs: LinkCosts, mixing: Mixing) -> float:
    r""":math:`m_j(a)` of the weights of all devices at target j.

    ======== =====================================================================
    variance :math:`c \sqrt{\sum_i a_i^2 / n_i}`
    ambiguity :math:`-\frac{s}{2} a^\top D_j a`
    mmd      :math:`s \sqrt{a^\top G a - 2 a^\top G_j + G_{jj}}`
    ======== =====================================================================
    """
    used = np.flatnonzero(weights)
    a, scale = weights[used], costs.mixing_scale
    if mixing == "variance":
        assert costs.labelled is not None
        return scale * float(np.sqrt(np.sum(a**2 / costs.labelled[used])))
    if mixing == "ambiguity":
        assert costs.disagreement is not None
        return -0.5 * scale * float(a @ costs.disagreement[j][np.ix_(used, used)] @ a)
    if mixing == "mmd":
        assert costs.kernel is not None
        square = a @ gram_around(costs.kernel, j, used) @ a
        return scale * float(np.sqrt(max(square, 0.0)))
    return 0.0


def check_classes(costs: LinkCosts) -> tuple[Array, Array]:
    """Class shares and errors, refused when the costs do not have them."""
    if costs.shares is None or costs.class_errors is None:
        raise InputError(
            "links by coverage need LinkCosts(shares=..., class_errors=...), which were not given.",
            code="coverage-data",
        )
    return costs.shares, costs.class_errors


def coverage_cost(weights: Array, j: int, costs: LinkCosts) -> float:
    r"""Expected error at target j, :math:`\sum_c \pi_{jc} \min_{i: a_i > 0} e_{ijc}`."""
    shares, errors = check_classes(costs)
    return float(shares[j] @ errors[weights > 0, j].min(axis=0))


def gram_around(kernel: Array, j: int, used: Indices) -> Array:
    """Inner products of embeddings minus that of device j; exact zeros for a source equal to j."""
    cross = kernel[used, j]
    return kernel[np.ix_(used, used)] - cross[:, None] - cross[None, :] + kernel[j, j]
