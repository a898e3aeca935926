"""What a distance is made of: shares of its square, by column and by class."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class ClassPart:
    """The share of a distance that comes from the records of one class."""

    share: float
    """Their share (0..1) of the squared distance."""
    mass: float
    """Their share (0..1) of the records."""


@dataclass(frozen=True, kw_only=True)
class Parts:
    r"""Why a distance is as large as it is: shares of the squared cost of an optimal plan.

    .. math:: W_2^2 = \sum_j \sum_{ik} \pi_{ik} (x_{ij} - y_{kj})^2 + \text{labels}

    Notes
    -----
    An optimal plan need not be the only one, and the shares are those of one of them: the one
    that the solver finds for the records in an order of their values, so that neither the order
    of records nor that of the two sides changes them (where several plans are optimal, as far as
    weights and label coordinates have the same last digits in any order). Only their sum is the
    same for all.

    Examples
    --------
    >>> import silot
    >>> parts = silot.distance([[0.0, 0.0]], [[3.0, 4.0]], why=True).parts
    >>> parts.cost, {name: round(share, 6) for name, share in parts.columns.items()}
    (25.0, {'0': 0.36, '1': 0.64})
    """

    cost: float
    """The squared cost that is shared out."""
    columns: Mapping[str, float]
    """Share of each feature, by its name, or by its place (``"0"``, ``"1"``) where it has none."""
    labels: float | None = None
    """Share of what labels add to the cost; ``None`` where they were not compared. With
    ``columns`` the shares sum to 1, or all are 0 where the cost is."""
    classes: Mapping[str, ClassPart] = field(default_factory=dict[str, ClassPart])
    """By class of the first side: the share of its records' cost and their mass, both summing to
    1. Empty where labels were not compared. Records of classes that the other side did not ask
    about count together, as ``"other"``."""
    of: str = "records"
    """``"records"``, or ``"cells"`` where the plan is that between the points of sketches' cells:
    what is finer than a cell is then in no share."""
    beyond: str | None = None
    """Of sketches: the column towards which many records of a side lie beyond the public range, on
    average; ``None`` where they do not. A sketch cannot tell how far they lie, nor where they are
    in other columns, so that the shares of all columns say little then."""

    @classmethod
    def of_costs(
        cls,
        columns: Array,
        labels: float | None,
        *,
        classes: Sequence[str] = (),
        class_costs: Array | None = None,
        masses: Array | None = None,
        of: str = "records",
    ) -> Self:
        """Compute the shares of the parts of a cost, without classes of no mass."""
        cost = float(columns.sum()) + (labels or 0.0)
        unit = cost if cost > 0 else 1.0
        by_class: dict[str, ClassPart] = {}
        if class_costs is not None and masses is not None:
            # Their own sum, which rounding may move away from that of the columns.
            total = float(class_costs.sum()) or 1.0
            by_class = {
                name: ClassPart(share=float(part) / total, mass=float(mass))
                for name, part, mass in zip(classes, class_costs, masses, strict=True)
                if mass > 0
            }
        return cls(
            cost=cost,
            columns={str(k): float(part) / unit for k, part in enumerate(columns)},
            labels=None if labels is None else labels / unit,
            classes=by_class,
            of=of,
        )

    def named(self, columns: Sequence[str] | None) -> Self:
        """Return the parts with the names of the features; features of one name count together."""
        if columns is None or len(columns) != len(self.columns):
            return self
        names = dict(zip(self.columns, columns, strict=True))
        shares = dict.fromkeys(columns, 0.0)
        for key, share in self.columns.items():
            shares[names[key]] += share
        return replace(
            self, columns=shares, beyond=None if self.beyond is None else names[self.beyond]
        )

    @property
    def largest(self) -> list[tuple[str, float]]:
        """Columns and their shares, the largest first."""
        return sorted(self.columns.items(), key=lambda item: -item[1])

    @property
    def costliest(self) -> list[tuple[str, ClassPart]]:
        """Classes and what they have, the largest share first."""
        return sorted(self.classes.items(), key=lambda item: -item[1].share)

    @property
    def note(self) -> str:
        """A warning to the reader of the shares, in words; empty where none is due."""
        if self.beyond is None:
            return ""
        return (
            f"many records lie beyond the public range, mostly in {self.beyond}: check that "
            "first, because a sketch shows neither how far nor their values in other columns"
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the fields by name, ready for JSON."""
        return {
            "cost": self.cost,
            "columns": dict(self.columns),
            "labels": self.labels,
            "classes": {
                name: {"share": part.share, "mass": part.mass}
                for name, part in self.classes.items()
            },
            "of": self.of,
            "beyond": self.beyond,
        }


def name_other_classes(classes: Sequence[str]) -> str:
    """Choose a name for all other classes together that none of these has."""
    name = "other"
    while name in classes:
        name += " classes"
    return name


# Shares below it show as 0.0 %.
_NOTHING = 0.0005


def shortened(
    parts: Parts, most: int
) -> tuple[list[tuple[str, float]], list[tuple[str, ClassPart]]]:
    """Cut columns and classes down to the rows of a short table.

    The ``most`` largest of each that have a share to show, then one for all others together;
    labels come last.

    Examples
    --------
    >>> parts = Parts(cost=1.0, columns={"a": 0.1, "b": 0.9, "c": 0.0, "d": 0.0})
    >>> shortened(parts, 8)[0]
    [('b', 0.9), ('a', 0.1), ('2 more', 0.0)]
    """
    columns, kinds = parts.largest, parts.costliest
    cut = _count_shown([share for _, share in columns], most)
    shown = columns[:cut]
    if columns[cut:]:
        shown.append((f"{len(columns) - cut} more", sum(share for _, share in columns[cut:])))
    if parts.labels is not None:
        shown.append(("labels", parts.labels))
    cut = _count_shown([part.share for _, part in kinds], most)
    classes = kinds[:cut]
    if kinds[cut:]:
        others = [part for _, part in kinds[cut:]]
        share, mass = sum(part.share for part in others), sum(part.mass for part in others)
        classes.append((f"{len(others)} more", ClassPart(share=share, mass=mass)))
    return shown, classes


def _count_shown(shares: Sequence[float], most: int) -> int:
    """Count how many of falling shares are shown one by one."""
    large = min(sum(share >= _NOTHING for share in shares), most)
    # One more is no longer than a row that stands for it.
    return len(shares) if len(shares) <= large + 1 else large
