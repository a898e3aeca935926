"""Labels that lie somewhere: how far one label is from another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from ..data.label_names import label_name
from ..errors import InputError, MismatchError
from ._coding import Codes, LabelCodes, coded

Array = npt.NDArray[np.float64]
Metric = Literal["euclidean", "cityblock"]

# Softmax in single precision sums to 1 within this.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class LabelSpace:
    r"""Labels with coordinates, and the cost of taking one for another.

    .. math:: C_{ij} = \lVert x_i - x_j \rVert

    Parameters
    ----------
    coordinates
        Shape (L, k), or (L,) for labels on a line; finite, L >= 2, no two labels at one place.
        The unit is the user's: costs, losses and semantic distances are in it.
    names
        L different names; by default ``"0"``, ``"1"``, ...
    metric
        ``"euclidean"`` (the paper's) or ``"cityblock"``; the same on a line.
    title
        What the labels are about, for reports.

    Raises
    ------
    InputError
        Fewer than two labels, numbers that are not finite, two labels of one name or at one
        place, a metric silot does not know.
    MismatchError
        Another number of names than of labels.

    Notes
    -----
    Paper 004, section 6 and figure 3.

    Examples
    --------
    >>> space = LabelSpace([[0.0, 0.0], [3.0, 4.0]], names=["calm", "angry"])
    >>> space.size, space.dimension, space.diameter
    (2, 2, 5.0)
    """

    coordinates: Array
    names: tuple[str, ...]
    metric: Metric
    title: str

    def __init__(
        self,
        coordinates: npt.ArrayLike,
        names: Sequence[str] | None = None,
        metric: Metric = "euclidean",
        title: str = "",
    ) -> None:
        placed = _coordinates(coordinates)
        given = [str(i) for i in range(len(placed))] if names is None else list(names)
        if isinstance(names, str) or not all(isinstance(name, str) for name in given):
            raise InputError(
                "names are not a sequence of texts. Give one name per label.", code="label-names"
            )
        if len(given) != len(placed):
            raise MismatchError(
                f"{len(given)} names arrived for {len(placed)} labels. Give one name per label.",
                code="label-names",
            )
        if len({label_name(name) for name in given}) != len(given):
            raise InputError(
                "two labels have the same name. Give every label its own.", code="label-duplicate"
            )
        if metric not in get_args(Metric):
            raise InputError(
                f"metric {metric!r} is none of {', '.join(get_args(Metric))}.", code="label-metric"
            )
        placed.flags.writeable = False
        object.__setattr__(self, "coordinates", placed)
        object.__setattr__(self, "names", tuple(given))
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "title", str(title))
        cost = _cost(placed, metric)
        cost.flags.writeable = False
        object.__setattr__(self, "_cost", cost)

    @classmethod
    def preset(cls, name: str) -> LabelSpace:
        """One of the paper's label spaces (section 6).

        Parameters
        ----------
        name
            ``"sentiment-5"`` (-2 to 2 on a line), ``"emotion"`` (valence and arousal of five
            emotions) or ``"nli"`` (entailment, neutral, contradiction in three dimensions).

        Examples
        --------
        >>> LabelSpace.preset("emotion").names
        ('anger', 'happiness', 'no emotion', 'sadness', 'surprise')
        """
        if name not in _PRESETS:
            raise InputError(
                f"{name!r} is no label space silot knows; it knows {', '.join(_PRESETS)}.",
                code="label-preset",
            )
        title, places = _PRESETS[name]
        return cls(list(places.values()), list(places), title=title)

    @classmethod
    def one_hot(cls, labels: Sequence[str] | int, *, title: str = "") -> LabelSpace:
        """Labels without geometry: every two of them at distance 1.

        The exact loss is then half the L1 distance of the probabilities.

        Examples
        --------
        >>> LabelSpace.one_hot(["cat", "dog"]).cost.round(12).tolist()
        [[0.0, 1.0], [1.0, 0.0]]
        """
        size = labels if isinstance(labels, int) else len(labels)
        if size < 2:
            raise InputError("fewer than two labels arrived.", code="label-count")
        names = None if isinstance(labels, int) else labels
        return cls(np.eye(size) / np.sqrt(2.0), names, title=title)

    @property
    def cost(self) -> Array:
        """Shape (L, L): distances of the labels, read-only."""
        return self.__dict__["_cost"]

    @property
    def size(self) -> int:
        """Number of labels, L."""
        return len(self.coordinates)

    @property
    def dimension(self) -> int:
        """Number of coordinates, k."""
        return self.coordinates.shape[1]

    @property
    def line(self) -> bool:
        """Whether the labels lie on a line: one coordinate."""
        return self.dimension == 1

    @property
    def diameter(self) -> float:
        """Largest distance of two labels."""
        return float(self.cost.max())

    def expected(self, probabilities: npt.ArrayLike) -> Array:
        r"""Expected coordinates :math:`\sum_l h_l x_l`.

        Parameters
        ----------
        probabilities
            Shape (n, L) or (L,).

        Returns
        -------
        ndarray
            Shape (n, k) or (k,), in the unit of the coordinates.

        Raises
        ------
        MismatchError
            Probabilities of another number of labels.

        Examples
        --------
        >>> LabelSpace.preset("sentiment-5").expected([[0.0, 0.0, 0.5, 0.0, 0.5]])
        array([[1.]])
        """
        given = np.asarray(probabilities, dtype=np.float64)
        if given.ndim == 0 or given.shape[-1] != self.size:
            raise MismatchError(
                f"probabilities of shape {given.shape} arrived for {self.size} labels.",
                code="label-count",
            )
        return given @ self.coordinates

    def codes(self, labels: Sequence[Any] | Array | Codes | LabelCodes) -> LabelCodes:
        """Rows of this space that labels stand for.

        Parameters
        ----------
        labels
            n names; or, where no name of the space is a number, the numbers 0 to L - 1. Where
            names are numbers (stars from 1 to 5), numbers are names. ``LabelCodes`` of this space
            stay as they are.

        Raises
        ------
        MismatchError
            Labels that are none of the space (``"labels-unknown"``), codes of another space
            (``"label-codes"``).

        Examples
        --------
        >>> stars = LabelSpace([1.0, 2.0, 3.0], names=["1", "2", "3"])
        >>> stars.codes([3, "1", 2.0]).values.tolist()
        [2, 0, 1]
        >>> LabelSpace.preset("nli").codes([0, 2]).values.tolist()
        [0, 2]
        """
        if isinstance(labels, LabelCodes):
            if labels.names != self.names:
                raise MismatchError("codes of another label space arrived.", code="label-codes")
            return labels
        given: list[Any] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        return LabelCodes(coded(given, self.names), self.names)

    def coded(self, rows: npt.ArrayLike) -> LabelCodes:
        """Labels that are given as rows of this space (n,), from 0, whatever its names are.

        Raises
        ------
        InputError
            Anything else than whole numbers from 0 to L - 1 (``"label-codes"``).

        Examples
        --------
        >>> stars = LabelSpace([1.0, 2.0, 3.0], names=["1", "2", "3"])
        >>> stars.coded([2, 0]) == stars.codes(["3", "1"])
        True
        """
        given = np.asarray(rows)
        whole = given.ndim == 1 and np.issubdtype(given.dtype, np.integer)
        if not whole or (given.size and (given.min() < 0 or given.max() >= self.size)):
            raise InputError(
                f"codes must be whole numbers from 0 to {self.size - 1}, one for each record.",
                code="label-codes",
            )
        return LabelCodes(given.astype(np.int64), self.names)

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON and YAML.

        Examples
        --------
        >>> space = LabelSpace.preset("nli")
        >>> LabelSpace.from_dict(space.to_dict()) == space
        True
        """
        return {
            "coordinates": self.coordinates.tolist(),
            "names": list(self.names),
            "metric": self.metric,
            "title": self.title,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelSpace:
        """Read what ``to_dict`` wrote; only the coordinates are needed.

        Raises
        ------
        InputError
            Fields that are unknown or missing, or not a label space.
        """
        known = {"coordinates", "names", "metric", "title"}
        if "coordinates" not in values or not set(values) <= known:
            raise InputError(
                f"a label space has coordinates, and may have names, metric and title; "
                f"{len(set(values) - known)} other fields arrived.",
                code="label-fields",
            )
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSpace) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.names, self.metric, self.title, self.coordinates.tobytes()))

    def __repr__(self) -> str:
        kind = f"{self.title!r}, " if self.title else ""
        return f"LabelSpace({kind}{self.size} labels, {self.dimension}-D, {self.metric})"


def _coordinates(values: npt.ArrayLike) -> Array:
    try:
        placed = np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            "coordinates are not an array of numbers. Give one row per label.",
            code="label-coordinates",
        ) from None
    if placed.ndim == 1:
        placed = placed[:, None]
    if placed.ndim != 2 or placed.shape[1] == 0:
        raise InputError(
            f"coordinates of shape {placed.shape} arrived. Give one row per label.",
            code="label-coordinates",
        )
    if len(placed) < 2:
        raise InputError(
            f"{len(placed)} labels arrived; a label space has two or more.", code="label-count"
        )
    if not np.isfinite(placed).all():
        rows = np.flatnonzero(~np.isfinite(placed).all(axis=1))
        raise InputError(
            f"the coordinates of label {rows[0]} are not finite.", code="label-coordinates"
        )
    return placed + 0.0  # no negative zeros: equal spaces then have equal bytes


def _cost(placed: Array, metric: Metric) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(placed[:, None] - placed)
        # Scaled first: squares of very small or very large coordinates leave the range.
        scale = apart.max() or 1.0
        parts = apart / scale
        cost = parts.sum(2) if metric == "cityblock" else np.sqrt((parts**2).sum(2))
        cost = cost * scale
    if not np.isfinite(cost).all():
        raise InputError(
            "coordinates are too large: distances of labels overflow. Scale them down.",
            code="label-coordinates",
        )
    same = np.argwhere(np.triu(cost == 0, 1))
    if len(same):
        i, j = same[0]
        raise InputError(
            f"labels {i} and {j} are at the same place. Merge them or move one.",
            code="label-coincident",
        )
    return cost


def improper(probabilities: Array) -> npt.NDArray[np.bool_]:
    """Tell which rows of (..., L) numbers are no probabilities, up to rounding; NaN never are."""
    with np.errstate(invalid="ignore", over="ignore"):
        off = np.abs(probabilities.sum(axis=-1) - 1.0)
    return ~((off <= _ROUNDING) & (probabilities >= -_ROUNDING).all(axis=-1))


_PRESETS: dict[str, tuple[str, dict[str, Sequence[float]]]] = {
    "sentiment-5": (
        "sentiment",
        {
            "strong negative": (-2.0,),
            "weak negative": (-1.0,),
            "neutral": (0.0,),
            "weak positive": (1.0,),
            "strong positive": (2.0,),
        },
    ),
    "emotion": (
        "emotion: valence and arousal",
        {
            "anger": (-0.4, 0.8),
            "happiness": (0.9, 0.2),
            "no emotion": (0.0, 0.0),
            "sadness": (-0.9, -0.4),
            "surprise": (0.4, 0.9),
        },
    ),
    "nli": (
        "natural language inference",
        {
            "entailment": (1.0, 0.0, 0.0),
            "neutral": (0.5, 1.0, 0.5),
            "contradiction": (0.0, 0.0, 1.0),
        },
    ),
}
