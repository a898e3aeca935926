"""Optimal transport of torch tensors, with gradients; what it needs is the extra ``torch``."""

from typing import TYPE_CHECKING

from .._lazy import lazily

if TYPE_CHECKING:
    from .entropic import Bounds, bounds, potentials, sinkhorn_divergence
    from .exact import labelled_wasserstein, wasserstein
    from .sliced import sliced_wasserstein

__all__ = [
    "Bounds",
    "bounds",
    "labelled_wasserstein",
    "potentials",
    "sinkhorn_divergence",
    "sliced_wasserstein",
    "wasserstein",
]

lazily(__name__, extra="torch")
