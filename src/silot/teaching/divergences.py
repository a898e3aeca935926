"""How far apart devices' data are: the divergences by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import InputError
from ..federation.protocol import Protocol
from .between import Divergence
from .classifier import Classifier
from .divergence import Divergences
from .features import Mmd, Sliced
from .pairs import FedWaDs, Pooled, Sketched, TriangleWads

DIVERGENCES: dict[str, type[Divergence]] = {
    kind.name: kind for kind in (Mmd, Sliced, Classifier, FedWaDs, TriangleWads, Sketched, Pooled)
}
"""The divergences by name."""


def divergence_named(name: str) -> type[Divergence]:
    """Return a divergence by name, or raise an ``InputError`` that lists them."""
    if not isinstance(name, str) or name not in DIVERGENCES:
        raise InputError(
            f"method is {name!r}; give one of {', '.join(DIVERGENCES)}.", code="option-method"
        )
    return DIVERGENCES[name]


def divergences(
    holders: Sequence[str],
    *,
    method: str = "mmd",
    seed: int = 0,
    quorum: int = 2,
    **options: Any,
) -> Protocol[Divergences]:
    r"""Divergence between every two devices, for :math:`\tfrac12 d` of the transfer cost (18).

    Records count whether labelled or not; labels are not used, unless an ``embedding`` is.

    Parameters
    ----------
    holders
        Names of two devices or more.
    method
        ``"mmd"``, ``"sliced"``, ``"classifier"`` (Algorithm 1 of the paper), ``"fedwad"``,
        ``"trianglewad"``, ``"sketch"`` or ``"direct"``; ``DIVERGENCES`` says what each sends.
    seed
        Seed of everything drawn. The result does not depend on the order of ``holders``.
    quorum
        Fewest devices that must answer. One that fails is named in ``missing`` and left out.
    **options
        Of the method.

    Returns
    -------
    Protocol[Divergences]

    Raises
    ------
    InputError
        An unknown method or option, or one out of range; fewer than two devices.
    MismatchError
        Devices whose records have different numbers of features (in the run).

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    sec. IV-B, has Algorithm 1 only. The others cost less and predict transfer errors as well:
    docs/results/stlf-divergences.md.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(900, 2))
    >>> fed = LocalFederation({"a": x[:300], "b": x[300:600], "far": x[600:] + 9.0})
    >>> found = fed.run(divergences(["a", "b", "far"], method="mmd"))
    >>> found["a", "b"] < 0.2, found["a", "far"] > 0.6, found.disclosure
    (True, True, 'aggregate')
    """
    return divergence_named(method).build(seed=seed, quorum=quorum, **options).among(holders)
