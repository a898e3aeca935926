"""What a user should know of the secure method before choosing it."""

from __future__ import annotations

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..protocols.registry import Method
from ..results import Distance


def _protocol(
    a: str,
    b: str,
    *,
    scale: float = 1.0,
    two_party: bool = False,
    protocol: str = "",
    receiver: str = "",
    privacy_epsilon: float | None = None,
    diameter: float | None = None,
    accuracy: str = "normal",
) -> Protocol[Distance]:
    """Say that questions and answers are not how this method works."""
    raise InputError(
        "method 'secure' has an engine of its own and asks no questions. Use "
        "silot.distance(x, y, method='secure') or `silot secure`.",
        code="method-secure",
    )


SECURE = Method(
    "secure",
    _protocol,
    Disclosure.SCALAR,
    sends="secret shares to three computing parties, of which one learns one number",
    needs="the extra silot[secure]; a public scale; the two holders and a third party that "
    "colludes with neither, or two_party for the holders alone (slower, about 100 records)",
    guarantees="bounds proven inside the computation and told in steps, usually within 3 % of the "
    "square; the value usually within 0.5 % of W2 (fast: 2 %); or a lower bound that says so",
    privacy="towards parties that follow the protocol: sizes, dimension, scale and the number are "
    "all that is told; privacy_epsilon adds noise to the number too",
)
