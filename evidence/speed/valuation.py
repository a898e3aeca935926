"""How long valuation takes as holders are added.

N holders of 500 records in 784 dimensions. FedBary and TriangleWad report 21 minutes to 6.7
hours for 100 holders (their tables 2); growth is per holder and exchange.
"""

from __future__ import annotations

import numpy as np

import silot
from evidence.common import Context
from evidence.speed._timing import show

_HOLDERS = (5, 10, 50, 100)
_RECORDS, _DIMENSION, _SUPPORT = 500, 784, 100


def run(context: Context) -> None:
    """Print seconds, and milliseconds for one holder and exchange, which should not grow."""
    rng = np.random.default_rng([2, 0])
    validation = rng.normal(size=(_RECORDS, _DIMENSION))
    data = {
        f"h{k:03}": rng.normal(size=(_RECORDS, _DIMENSION)) + 0.01 * k for k in range(max(_HOLDERS))
    }
    rows: list[tuple[str, ...]] = []
    for count in _HOLDERS:
        holders = dict(list(data.items())[:count])
        row = [str(count)]
        for result in (
            silot.value_holders(holders, validation),
            silot.value_holders(holders, support=_SUPPORT),
        ):
            each = 1000 * result.seconds / (count * result.rounds)
            row += [f"{result.seconds:.1f}", str(result.rounds), f"{each:.0f}"]
        rows.append(tuple(row))
    heads = ("N", "validation s", "exchanges", "ms each", "barycenter s", "exchanges", "ms each")
    show(
        f"valuation: {_RECORDS} records a holder, d = {_DIMENSION}, S = {_SUPPORT}; ms each: for "
        "one holder and exchange",
        heads,
        rows,
    )
