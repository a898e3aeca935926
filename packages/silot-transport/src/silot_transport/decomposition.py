"""Parts of a transport cost: columns, labels, and classes of the records that move."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ._check import Array, Index
from .exact import ExactPlan

Codes = npt.NDArray[np.int64]

# Differences held at once.
_BLOCK = 1 << 20


@dataclass(frozen=True, eq=False)
class Decomposition:
    """Parts of one plan's squared cost."""

    columns: Array = field(repr=False)
    r""":math:`\sum_{ik} \pi_{ik} (x_{ij} - y_{kj})^2` by feature j (d,)."""
    labels: float
    """The remaining cost, which is that of labels."""
    classes: Array = field(repr=False)
    """Cost of the records of each class of the first side, over all columns and labels (C,)."""
    masses: Array = field(repr=False)
    """Mass of each of those classes (C,)."""

    @property
    def cost(self) -> float:
        """The sum of columns and labels: the squared cost of the plan."""
        return float(self.columns.sum()) + self.labels


def decompose(
    plan: ExactPlan,
    x: Array,
    y: Array,
    a: Array,
    *,
    features: int | None = None,
    label_cost: Array | None = None,
    codes: Codes | None = None,
    classes: int = 1,
) -> Decomposition:
    r"""Split the squared cost of a plan into its parts.

    .. math:: \sum_{ik} \pi_{ik} \left(|x_i - y_k|^2 + L_{ik}\right)
              = \sum_j \sum_{ik} \pi_{ik} (x_{ij} - y_{kj})^2 + \sum_{ik} \pi_{ik} L_{ik}

    and by the class of i, :math:`\sum_{i: c_i = c} \sum_k \pi_{ik} (|x_i - y_k|^2 + L_{ik})`.

    Parameters
    ----------
    plan
        A coupling of ``x`` and ``y``.
    x, y
        Points (n, D) and (m, D).
    a
        Weights of ``x`` (n,).
    features
        How many of the first columns are features; the others are coordinates of labels.
        ``None``: all.
    label_cost
        L (n, m), what labels add to the squared cost.
    codes, classes
        Class of every point of ``x`` (n,), 0 to ``classes - 1``.

    Notes
    -----
    Where several plans are optimal the parts are those of this one; their sum is that of all.

    Examples
    --------
    >>> from silot_transport import exact_plan
    >>> import numpy as np
    >>> x, y = np.zeros((2, 2)), np.array([[3.0, 4.0], [3.0, 4.0]])
    >>> decompose(exact_plan(x, y), x, y, np.full(2, 0.5)).columns
    array([ 9., 16.])
    """
    columns = np.zeros(x.shape[1])
    moved = np.zeros(len(plan.mass))
    step = max(_BLOCK // x.shape[1], 1)
    for start in range(0, len(plan.mass), step):
        part = slice(start, start + step)
        squares = (x[plan.rows[part]] - y[plan.cols[part]]) ** 2
        columns += plan.mass[part] @ squares
        moved[part] = plan.mass[part] * squares.sum(axis=1)
    width = x.shape[1] if features is None else features
    labels = float(columns[width:].sum())
    if label_cost is not None:
        extra = plan.mass * label_cost[plan.rows, plan.cols]
        labels += float(extra.sum())
        moved += extra
    places = np.zeros(len(x), dtype=np.int64) if codes is None else codes
    # bincount without entries returns integers, hence the type.
    return Decomposition(
        columns[:width],
        labels,
        np.bincount(places[plan.rows], moved, minlength=classes).astype(np.float64),
        np.bincount(places, a / a.sum(), minlength=classes).astype(np.float64),
    )


def canonical_order(points: Array, weights: Array, codes: Codes | None = None) -> Index:
    """Sort records into an order that does not depend on the one they come in.

    Which of several optimal plans a solver returns depends on the order of its points; in this
    order the parts of a cost depend only on the records, however they are stored.

    Examples
    --------
    >>> import numpy as np
    >>> x, w = np.array([[2.0], [1.0], [3.0]]), np.full(3, 1 / 3)
    >>> swapped = x[[2, 0, 1]]
    >>> bool((x[canonical_order(x, w)] == swapped[canonical_order(swapped, w)]).all())
    True
    """
    parts = [points, weights[:, None]]
    if codes is not None:
        parts.append(codes[:, None].astype(np.float64))
    # Adding zero makes zeros of both signs one pattern of bits. With the highest byte first, the
    # last digits, which rounding may change, decide last.
    rows = np.ascontiguousarray(np.hstack(parts) + 0.0, dtype=">f8")
    return rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1]))).ravel().argsort()
