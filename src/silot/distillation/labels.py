"""Labels with coordinates: how far one label is from another, and labels as rows of their space."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeGuard, get_args

import numpy as np
import numpy.typing as npt

from ..data.label_names import label_name
from ..errors import InputError, MismatchError

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]
Metric = Literal["euclidean", "cityblock"]

# How far below 0 a probability may be at most, whatever its sum may be off by.
_NEGATIVE = 1e-5


@dataclass(frozen=True, eq=False)
class LabelCodes:
    """Labels as rows of a label space, from ``LabelSpace.codes`` or ``LabelSpace.coded``."""

    values: Codes = field(repr=False)
    """Shape (n,): the row of every record's label."""
    names: tuple[str, ...]
    """Names of the label space."""

    def __len__(self) -> int:
        return len(self.values)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, LabelCodes)
            and self.names == other.names
            and np.array_equal(self.values, other.values)
        )

    def __hash__(self) -> int:
        return hash((self.names, self.values.tobytes()))

    def __getitem__(self, rows: Codes) -> LabelCodes:
        """Return the codes of the records in ``rows``."""
        return LabelCodes(self.values[rows], self.names)


@dataclass(frozen=True, eq=False)
class LabelSpace:
    r"""Labels with coordinates, costs or a tree, and the cost of taking one for another.

    .. math:: C_{ij} = \lVert x_i - x_j \rVert

    Give one of ``points`` or ``coordinates``, ``cost`` and ``tree``. Points that may as well be a
    matrix of costs (square, symmetric, zeros on the diagonal, none negative) must be given by
    keyword.

    Parameters
    ----------
    points, coordinates
        Shape (L, k), or (L,) for labels on a line; finite, L >= 2, no two labels at one place.
        The unit is the user's: costs, losses and semantic distances are in it.
    names
        L different names; by default ``"0"``, ``"1"``, ...
    metric
        ``"euclidean"`` (the paper's) or ``"cityblock"``; the same on a line.
    title
        What the labels are about, for reports.
    cost
        Shape (L, L): what it costs to take one label for another, symmetric, zero on the diagonal
        and positive elsewhere.
    tree
        The parent of every name: labels are those that are nobody's parent, and cost as many
        steps as there are between them.

    Raises
    ------
    InputError
        Fewer than two labels, nothing that places them, points that may be costs, numbers that
        are not finite, two labels of one name or at one place, a metric silot does not know.
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
    >>> pets = LabelSpace(tree={"cat": "pet", "dog": "pet", "cow": "farm", "pet": "", "farm": ""})
    >>> pets.names, pets.cost.tolist()
    (('cat', 'dog', 'cow'), [[0.0, 2.0, 4.0], [2.0, 0.0, 4.0], [4.0, 4.0, 0.0]])
    """

    coordinates: Array
    names: tuple[str, ...]
    metric: Metric
    title: str

    def __init__(
        self,
        points: npt.ArrayLike | None = None,
        names: Sequence[str] | None = None,
        metric: Metric = "euclidean",
        title: str = "",
        *,
        coordinates: npt.ArrayLike | None = None,
        cost: npt.ArrayLike | None = None,
        tree: Mapping[str, str] | None = None,
    ) -> None:
        if sum(item is not None for item in (points, coordinates, cost, tree)) != 1:
            raise InputError(
                "labels need exactly one description. Give coordinates=, cost= or tree=.",
                code="label-coordinates",
            )
        if points is not None and _may_be_costs(points):
            raise InputError(
                "a square, symmetric table with zeros on its diagonal can mean coordinates "
                "or costs. Write coordinates=..., or cost=....",
                code="label-ambiguous",
            )
        if tree is not None:
            names, cost = _read_tree(tree)
        costs = None if cost is None else _check_cost(cost)
        places = coordinates if points is None else points
        points = (
            np.zeros((len(costs), 0)) if costs is not None
            else _check_coordinates([] if places is None else places)
        )  # fmt: skip
        labels = tuple(map(str, range(len(points)))) if names is None else _check_names(names)
        if len(labels) != len(points):
            raise MismatchError(
                f"{len(labels)} names arrived for {len(points)} labels. Give one name per label.",
                code="label-names",
            )
        if metric not in get_args(Metric):
            raise InputError(
                f"metric {metric!r} is not one of {', '.join(get_args(Metric))}.",
                code="label-metric",
            )
        matrix = _compute_cost(points, metric) if costs is None else costs
        points.flags.writeable = matrix.flags.writeable = False
        object.__setattr__(self, "coordinates", points)
        object.__setattr__(self, "names", labels)
        object.__setattr__(self, "metric", metric)
        object.__setattr__(self, "title", str(title))
        object.__setattr__(self, "_cost", matrix)

    @classmethod
    def preset(cls, name: str) -> LabelSpace:
        """Return one of the paper's label spaces (section 6).

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
                f"{name!r} is not a label space silot knows; it knows {', '.join(_PRESETS)}.",
                code="label-preset",
            )
        title, places = _PRESETS[name]
        return cls(list(places.values()), list(places), title=title)

    @classmethod
    def one_hot(cls, labels: Sequence[str] | int, *, title: str = "") -> LabelSpace:
        """Build a space of labels without geometry: every two of them are at distance 1.

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
        # Unit vectors are sqrt(2) apart.
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
        """Number of coordinates, k; 0 where costs were given."""
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
        r"""Compute the expected coordinates :math:`\sum_l h_l x_l`, (n, k) or (k,), in their unit.

        ``probabilities`` are (n, L) or (L,).

        Raises
        ------
        MismatchError
            Probabilities of another number of labels.

        Examples
        --------
        >>> LabelSpace.preset("sentiment-5").expected([[0.0, 0.0, 0.5, 0.0, 0.5]])
        array([[1.]])
        """
        shares = np.asarray(probabilities, dtype=np.float64)
        if shares.ndim == 0 or shares.shape[-1] != self.size:
            raise MismatchError(
                f"probabilities of shape {shares.shape} arrived for {self.size} labels.",
                code="label-count",
            )
        return shares @ self.coordinates

    def codes(self, labels: Sequence[Any] | Array | Codes | LabelCodes) -> LabelCodes:
        """Find the rows of this space that labels stand for.

        Parameters
        ----------
        labels
            n names; or, where no name of the space is a number, the numbers 0 to L - 1. Where
            names are numbers (stars from 1 to 5), numbers are names. ``LabelCodes`` of this space
            stay as they are.

        Raises
        ------
        MismatchError
            Labels that are not in the space (``"labels-unknown"``), codes of another space
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
                raise MismatchError("the codes belong to another label space.", code="label-codes")
            return labels
        items: list[Any] = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
        rows = _find_names(items, self.names)
        listed = ", ".join(self.names[:12])
        # Numbers are rows only where they cannot be names.
        if all(_read_row(name, np.inf) < 0 for name in self.names):
            listed += f", or 0 to {self.size - 1}"
            if max(rows, default=-1) < 0:
                rows = [_read_row(item, self.size) for item in items]
        wrong = [place for place, row in enumerate(rows) if row < 0]
        if wrong:
            raise MismatchError(
                f"{len(wrong)} of {len(rows)} labels are not in the label space, the first in row "
                f"{wrong[0]}. Its labels are {listed}.",
                code="labels-unknown",
            )
        return LabelCodes(np.array(rows, dtype=np.int64), self.names)

    def is_ambiguous(self, labels: Sequence[Any]) -> bool:
        """Return whether numbers may be meant as names or as rows, and the two differ."""
        rows = [_read_row(label, self.size) for label in labels]
        named = _find_names(labels, self.names)
        return min(rows, default=-1) >= 0 and min(named, default=-1) >= 0 and rows != named

    def coded(self, rows: npt.ArrayLike) -> LabelCodes:
        """Read labels as rows of this space (n,), from 0, whatever its names are.

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
        codes = np.asarray(rows)
        if codes.ndim != 1 or not are_rows(codes, self.size):
            raise InputError(
                f"codes must be whole numbers from 0 to {self.size - 1}, one for each record.",
                code="label-codes",
            )
        return LabelCodes(codes.astype(np.int64), self.names)

    def to_dict(self) -> dict[str, Any]:
        """Turn into plain values, for JSON and YAML.

        Examples
        --------
        >>> space = LabelSpace.preset("nli")
        >>> LabelSpace.from_dict(space.to_dict()) == space
        True
        """
        places = ("coordinates", self.coordinates) if self.dimension else ("cost", self.cost)
        return {
            places[0]: places[1].tolist(),
            "names": list(self.names),
            "metric": self.metric,
            "title": self.title,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> LabelSpace:
        """Read what ``to_dict`` wrote; only the coordinates, or costs, are needed.

        Raises
        ------
        InputError
            Fields that are unknown or missing, or not a label space.
        """
        other = set(values) - {"coordinates", "cost", "names", "metric", "title"}
        if len({"coordinates", "cost"} & set(values)) != 1 or other:
            raise InputError(
                "a label space has coordinates or cost, and may have names, metric and title; "
                f"{len(other)} other fields arrived.",
                code="label-fields",
            )
        return cls(**values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSpace) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.names, self.metric, self.title, self.cost.tobytes()))

    def __repr__(self) -> str:
        kind = f"{self.title!r}, " if self.title else ""
        how = f"{self.dimension}-D, {self.metric}" if self.dimension else "by costs"
        return f"LabelSpace({kind}{self.size} labels, {how})"


def count_labels(labels: int | LabelSpace) -> int:
    """Return the number of labels of a space, or that number itself, which is 2 or more."""
    size = labels.size if isinstance(labels, LabelSpace) else labels
    if isinstance(size, bool) or not isinstance(size, int) or size < 2:
        raise InputError("a model needs two labels or more.", code="label-count")
    return size


def are_probabilities(rows: Array, tolerance: float = 1e-6) -> npt.NDArray[np.bool_]:
    """Return which rows of (..., L) numbers are probabilities up to ``tolerance``; no NaN is."""
    with np.errstate(invalid="ignore", over="ignore"):
        close = np.abs(rows.sum(axis=-1) - 1.0) <= tolerance
    # Sums gather the rounding of many labels; a softmax of few bits is no more negative for it.
    return close & (rows >= -min(tolerance, _NEGATIVE)).all(axis=-1)


def are_rows(codes: npt.NDArray[Any], size: int) -> bool:
    """Return whether numbers are whole, and rows of ``size`` labels."""
    if not np.issubdtype(codes.dtype, np.integer):
        return False
    return not codes.size or bool(codes.min() >= 0 and codes.max() < size)


def _find_names(labels: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Find the row of every label among names; -1 where it is not one of them."""
    rows = {label_name(name): row for row, name in enumerate(names)}
    return [rows.get(label_name(label), -1) for label in labels]


def _read_row(label: Any, size: float) -> int:
    """Read a label as a whole number from 0 to below ``size``; -1 where it is none."""
    try:
        value = float(label)
    except (TypeError, ValueError):
        return -1
    return int(value) if value.is_integer() and 0 <= value < size else -1


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InputError(
            "names are not a sequence of texts. Give one name per label.", code="label-names"
        )
    if len({label_name(name) for name in names}) != len(names):
        raise InputError(
            "two labels have the same name. Give every label its own.", code="label-duplicate"
        )
    return tuple(names)


def _read_numbers(values: npt.ArrayLike) -> Array | None:
    """Read an array of numbers; ``None`` where it is none."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _check_coordinates(values: npt.ArrayLike) -> Array:
    points = _read_numbers(values)
    if points is not None and points.ndim == 1:
        points = points[:, None]
    if points is None or points.ndim != 2 or points.shape[1] == 0:
        what = "no array of numbers" if points is None else f"an array of shape {points.shape}"
        raise InputError(
            f"coordinates are {what}. Give one row of numbers per label.", code="label-coordinates"
        )
    if len(points) < 2:
        raise InputError(
            f"{len(points)} labels arrived; a label space has two or more.", code="label-count"
        )
    if not np.isfinite(points).all():
        rows = np.flatnonzero(~np.isfinite(points).all(axis=1))
        raise InputError(
            f"the coordinates of label {rows[0]} are not finite.", code="label-coordinates"
        )
    return points + 0.0  # no negative zeros: equal spaces then have equal bytes


def _is_table(table: Array | None) -> TypeGuard[Array]:
    """Return whether numbers have a row and a column for each of two labels or more."""
    return table is not None and table.ndim == 2 and len(table) == table.shape[1] >= 2


def _may_be_costs(values: npt.ArrayLike) -> bool:
    """Return whether a table may be meant as coordinates or as costs."""
    table = _read_numbers(values)
    return _is_table(table) and bool(
        np.array_equal(table, table.T) and not np.diag(table).any() and (table >= 0).all()
    )


def _check_cost(values: npt.ArrayLike) -> Array:
    cost = _read_numbers(values)
    if not _is_table(cost):
        what = "no array of numbers" if cost is None else f"an array of shape {cost.shape}"
        raise InputError(
            f"costs are {what}; a row and a column for each of two labels or more are needed.",
            code="label-cost",
        )
    is_sound = np.isfinite(cost).all() and np.array_equal(cost, cost.T) and not np.diag(cost).any()
    if not is_sound or not (cost[~np.eye(len(cost), dtype=bool)] > 0).all():
        raise InputError(
            "costs of labels must be finite, symmetric, 0 on the diagonal and positive elsewhere.",
            code="label-cost",
        )
    return cost


def _read_tree(tree: Mapping[str, str]) -> tuple[list[str], Array]:
    """Read the leaves of a tree, and how many steps lie between them."""
    parents = set(tree.values())
    leaves = [name for name in tree if name not in parents]

    def ancestors(name: str) -> list[str]:
        path = [name]
        while (parent := tree.get(path[-1], "")) and len(path) <= len(tree):
            path.append(parent)
        if len(path) > len(tree):
            raise InputError("the parents of labels form a cycle.", code="label-tree")
        return [*path, ""]

    paths = [ancestors(name) for name in leaves]
    if len(leaves) < 2:
        raise InputError(
            f"{len(leaves)} names of the tree are leaves; a label space has two labels or more.",
            code="label-tree",
        )
    cost = np.zeros((len(leaves), len(leaves)))
    for i, one in enumerate(paths):
        steps = {name: k for k, name in enumerate(one)}
        for j, other in enumerate(paths):
            cost[i, j] = min(k + steps[name] for k, name in enumerate(other) if name in steps)
    return leaves, cost


def _compute_cost(points: Array, metric: Metric) -> Array:
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.abs(points[:, None] - points)
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
