"""Weighted, possibly labelled, point clouds, and label information as coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import isqrt
from typing import TYPE_CHECKING, Any, Literal, Union, get_args

import numpy as np
import numpy.typing as npt

from silot_transport._check import Array, as_points, as_weights
from silot_transport._foreign import as_array
from silot_transport.moments import Embedding, centred_root, thin_root

from ..errors import FileError, InputError, MismatchError
from .label_names import label_name
from .names import canonical, listing

if TYPE_CHECKING:
    from narwhals.typing import IntoDataFrame

    from .schema import Contract

Data = Union["Measure", npt.ArrayLike, "IntoDataFrame"]
"""What a measure can be made of."""

Covariance = Literal["diagonal", "diagonal-of-root", "full"]

Codes = npt.NDArray[np.int64]

# What has no index; of it most labels and weights are.
_PLAIN = (np.ndarray, list, tuple, str, type(None))
# Largest embedded array, in float64 entries (1 GiB).
_LARGEST_EMBEDDING = 1 << 27


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Measure:
    """A weighted point cloud, the unit every distance of silot is computed between.

    Parameters
    ----------
    points
        Records by rows, shape (n, d), finite numbers. Copied to float64, see ``copy``. A data
        frame (pandas, polars, pyarrow, or another that narwhals knows) is read as
        ``load_measure`` reads a table. Arrays of other libraries (torch, jax, cupy, and what
        has DLPack) are converted once, without gradients, from the memory of the host only.
    weights
        Masses (n,), zero or more; normalised to sum 1. ``None`` means uniform. ``masses`` keeps
        what each record counts for before that: the weights as given, 1 where none were. Of a
        data frame also the name of a column, which is then no feature.
    labels
        One label for each record: texts, whole numbers, fractions or truth values. ``None`` for
        unlabelled data. ``names`` are the texts by which holders agree on classes. Of a data
        frame also the name of a column.
    columns
        Names of the features, by which those of several holders are matched; of a data frame
        those of its columns that are taken, by default all that are left.
    schema
        The contract by which the points are coordinates of a table, where there is one;
        ``Schema.measure`` gives it. Measures of two schemas are not compared.
    copy
        Whether points are copied. Without, an array that is float64 already is only looked at:
        for as long as the measure is used its owner must not change it.

    Raises
    ------
    InputError
        Empty, NaN, infinite, non-numeric, sparse or one-dimensional points; arrays on an
        accelerator (``"array-device"``); negative or zero-sum
        weights; missing labels, or labels without a name (``label_name``); a data frame without
        a column that is named, or a query whose result was not collected.
    MismatchError
        Weights, labels or names of columns of another length than the points.

    Examples
    --------
    >>> Measure([[0.0, 1.0], [2.0, 3.0]], labels=["a", "b"])
    Measure(2 records, 2 features, 2 classes)
    >>> import polars
    >>> wards = polars.DataFrame({"age": [70, 50], "dose": [2.0, 1.5], "ill": ["yes", "no"]})
    >>> Measure(wards, labels="ill").columns
    ('age', 'dose')
    """

    points: Array
    weights: Array
    labels: npt.NDArray[Any] | None
    masses: Array
    names: npt.NDArray[np.str_] | None
    columns: tuple[str, ...] | None
    schema: Contract | None

    def __init__(
        self,
        points: npt.ArrayLike | IntoDataFrame,
        weights: npt.ArrayLike | None = None,
        labels: npt.ArrayLike | None = None,
        columns: Sequence[str] | None = None,
        *,
        copy: bool = True,
        schema: Contract | None = None,
    ) -> None:
        points, weights, labels, columns = _split_frame(points, weights, labels, columns)
        named = None if columns is None else tuple(columns)
        if named is not None and schema is None and all(isinstance(name, str) for name in named):
            named = tuple(map(canonical, named))
        cloud = _as_cloud(points, named)
        cloud = cloud.copy() if copy else cloud.view()
        masses = as_weights(weights, len(cloud))
        kinds, names = (None, None) if labels is None else _as_labels(labels, len(cloud))
        # A release must not depend on the sum of all weights, nor on whether all are equal, since
        # every record changes either: each record keeps the weight that it came with.
        counts = np.ones(len(cloud))
        if weights is not None:
            counts = as_array(weights, "weights", np.float64).copy()
        parts = {
            "points": cloud, "weights": masses, "labels": kinds, "masses": counts, "names": names,
            "columns": named, "schema": schema,
        }  # fmt: skip
        for name, part in parts.items():
            if isinstance(part, np.ndarray):
                part.setflags(write=False)
            object.__setattr__(self, name, part)

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        # The constructor makes the arrays of copies read-only too.
        parts = self.points, self.masses, self.labels, self.columns
        return partial(Measure, schema=self.schema), parts

    @classmethod
    def of(cls, data: Data) -> Measure:
        """Return ``data`` itself when it is a measure, else a uniform measure on its rows."""
        return data if isinstance(data, Measure) else cls(data)

    @property
    def size(self) -> int:
        """Return the number of records."""
        return int(self.points.shape[0])

    @property
    def dimension(self) -> int:
        """Return the number of features."""
        return int(self.points.shape[1])

    @property
    def weighted(self) -> bool:
        """Return whether records of positive weight differ in weight."""
        used = self.masses[self.masses > 0]
        return bool(np.ptp(used) > 1e-12 * used.max())

    @property
    def labelled(self) -> bool:
        """Return whether the records have labels."""
        return self.labels is not None

    def arrays(self, embedding: Embedding = "none") -> tuple[Array, Array]:
        """Return points and weights, the points with label coordinates unless ``"none"``.

        Only a holder's handlers and the owner's own code reach the raw records this way.
        """
        if embedding == "none":
            return self.points, self.weights
        return label_vectors(self, covariance=embedding), self.weights

    def ordered(self, columns: tuple[str, ...]) -> Measure:
        """Return the same records with their features in the order of these names."""
        if self.columns is None or self.columns == columns:
            return self
        places = [self.columns.index(name) for name in columns]
        return Measure(
            self.points[:, places], self.masses, self.labels, columns, schema=self.schema
        )

    def __repr__(self) -> str:
        classes = ""
        if self.names is not None:
            classes = f", {len(np.unique(self.names))} classes"
        return f"Measure({self.size} records, {self.dimension} features{classes})"


def _as_labels(labels: npt.ArrayLike, size: int) -> tuple[npt.NDArray[Any], npt.NDArray[np.str_]]:
    """Return labels (as texts if they are of several types), and their names."""
    try:
        # As objects first, since numpy would turn the NaN of a list of texts into a text.
        raw: npt.NDArray[Any] = (
            labels.copy()
            if isinstance(labels, np.ndarray)
            else as_array(labels, "labels", dtype=object).copy()
        )
    except ValueError:
        raw = np.empty((0, 0))
    if raw.dtype == object and any(np.ndim(value) > 0 for value in raw.ravel()):
        raise InputError(
            "labels are ragged; one label for each record is needed.", code="labels-shape"
        )
    if raw.shape != (size,):
        raise MismatchError(
            f"labels have shape {raw.shape} for {size} records; ({size},) is needed.",
            code="labels-shape",
        )
    missing = np.ma.getmaskarray(raw) | _missing(np.ma.getdata(raw))
    if missing.any():
        raise InputError(
            f"{int(missing.sum())} label(s) are missing, the first in row "
            f"{int(np.argmax(missing))}. Drop those records or give them a class of their own.",
            code="labels-missing",
        )
    raw = np.ma.getdata(raw)
    if raw.dtype.kind in "OT":
        names = np.array(_names(raw.tolist()))
        return names.copy(), names
    kinds, codes = np.unique(raw, return_inverse=True)
    return raw, np.array(_names(kinds))[codes.ravel()]


def _missing(raw: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    if raw.dtype.kind == "f":
        return np.isnan(raw)
    if raw.dtype.kind in "mM":
        return np.isnat(raw)
    if raw.dtype.kind == "O":
        # Missing values of data frames have no truth value to compare by.
        return np.array(
            [
                value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
                for value in raw
            ]
        )
    return np.zeros(len(raw), dtype=bool)


def _names(labels: Iterable[Any]) -> list[str]:
    known_names: dict[tuple[type, Any], str] = {}
    names: list[str] = []
    for label in labels:
        # The type counts: of an equal float and integer only one may have a name.
        key = (type(label), label if isinstance(label, Hashable) else repr(label))
        if key not in known_names:
            known_names[key] = label_name(label)
        names.append(known_names[key])
    return names


def label_vectors(measure: Measure, *, covariance: Covariance = "diagonal") -> Array:
    r"""Append to each record its class's mean and covariance as coordinates (OTDD vectors).

    .. math:: z_i = [x_i;\ m_{y_i};\ \mathrm{block}(\Sigma_{y_i})]

    so that Euclidean distances add a label term to ``|x - x'|``. With ``"full"`` the block is
    :math:`\mathrm{vec}(\Sigma^{1/2})` and the label term is the Wasserstein distance of the
    class Gaussians when their covariances commute. Two cheaper blocks are in circulation:
    ``"diagonal"`` takes :math:`\sqrt{\mathrm{diag}\, \Sigma}` (standard deviations, exact for
    uncorrelated features), ``"diagonal-of-root"`` takes :math:`\mathrm{diag}(\Sigma^{1/2})`.

    Parameters
    ----------
    measure
        Labelled records. Classes are the distinct names, whatever they are; means and
        covariances use the weights (population covariance: zero for a class of one record).
    covariance
        ``"diagonal"`` (default), ``"diagonal-of-root"`` or ``"full"``.

    Returns
    -------
    numpy.ndarray
        Shape (n, 3 d), or (n, 2 d + d^2) for ``"full"``.

    Raises
    ------
    InputError
        A measure without labels, an unknown block, or a block too large to hold.

    Notes
    -----
    Alvarez-Melis and Fusi, *Geometric Dataset Distances via Optimal Transport*, 2020; the
    vector form is that of FedWaD, sec. 4, and TriangleWad, sec. 3.5.1. The vectors contain
    the records verbatim: they protect nothing.

    Examples
    --------
    >>> label_vectors(Measure([[0.0], [2.0], [9.0]], labels=["a", "a", "b"]))
    array([[0., 1., 1.],
           [2., 1., 1.],
           [9., 9., 0.]])
    """
    if measure.names is None:
        raise InputError(
            "the measure has no labels. Give labels, or leave the label option out.",
            code="labels-absent",
        )
    if covariance not in get_args(Covariance):
        raise InputError(
            f"covariance is {covariance!r}; give one of {', '.join(get_args(Covariance))}.",
            code="option-covariance",
        )
    points, weights = measure.points, measure.weights
    n, d = points.shape
    width = d * d if covariance == "full" else d
    if n * (2 * d + width) > _LARGEST_EMBEDDING:
        raise InputError(
            f"label vectors of {n} records x {2 * d + width} coordinates do not fit. Use the "
            "'diagonal' covariance block or fewer features.",
            code="embedding-size",
        )
    codes = np.unique(measure.names, return_inverse=True)[1].ravel()
    vectors = np.empty((n, 2 * d + width))
    vectors[:, :d] = points
    for code in np.unique(codes):
        members = codes == code
        mass = weights[members]
        # A class without mass moves nothing; its vectors only have to exist.
        share = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1.0 / len(mass))
        mean, root = centred_root(points[members], share)
        vectors[members, d : 2 * d] = mean
        vectors[members, 2 * d :] = _covariance_block(root, covariance)
    return vectors


def features_of(vectors: Array, embedding: Embedding) -> Array:
    """Return the records (n, d) among their label vectors."""
    width = vectors.shape[1]
    if embedding == "none":
        return vectors
    return vectors[:, : isqrt(width + 1) - 1 if embedding == "full" else width // 3]


def _covariance_block(root: Array, covariance: Covariance) -> Array:
    if covariance == "diagonal":
        return np.sqrt(np.einsum("ij,ij->j", root, root))
    # From the singular values of the data: squaring them into a covariance costs half the digits.
    _, values, vectors = np.linalg.svd(thin_root(root), full_matrices=False)
    square_root = (vectors.T * values) @ vectors
    if covariance == "full":
        return square_root.ravel()
    return np.diagonal(square_root).copy()


def _split_frame(
    points: Any, weights: Any, labels: Any, columns: Sequence[str] | None
) -> tuple[Any, Any, Any, Sequence[str] | None]:
    """Return the arguments of a measure, the columns of a data frame as arrays."""
    mass, label = (name if isinstance(name, str) else None for name in (weights, labels))
    if not isinstance(labels, _PLAIN) or not isinstance(weights, _PLAIN):
        from .tables import align

        labels = align(points, labels, "labels")
        # Labels may have an index where points have none.
        weights = align(labels, align(points, weights, "weights"), "weights")
    table = None
    # Arrays and lists, which are most data, need not wait for the import.
    if not isinstance(points, np.ndarray | list | tuple):
        from .tables import frame_table

        table = frame_table(points)
    if table is None:
        for what, name in (("labels", label), ("weights", mass)):
            if name is not None:
                raise MismatchError(
                    f"{what} are a single text, which can name a column of a data frame only. "
                    "Give one for each record.",
                    code=f"{what}-shape",
                )
        return points, weights, labels, columns
    try:
        cloud, masses, kinds, names = table.parts(columns, labels=label, weights=mass)
    except FileError as error:
        raise InputError(error.message, code="frame-columns") from None
    return cloud, weights if mass is None else masses, labels if label is None else kinds, names


def features(points: Any, columns: tuple[str, ...] | None) -> Any:
    """Return points as they are, or these columns of a data frame, by default all."""
    return _split_frame(points, None, None, columns)[0]


def _as_cloud(points: Any, columns: tuple[str, ...] | None) -> Array:
    """Check points (n, d); errors name the columns that they are about."""
    if columns is None:
        return as_points(points, "points")
    if len(set(columns)) < len(columns) or not all(isinstance(name, str) for name in columns):
        raise InputError(
            f"columns are {columns!r}; a name for each feature is needed, none of them twice.",
            code="option-columns",
        )
    try:
        cloud = as_points(points, "points")
    except InputError as error:
        raise InputError(f"{error.message}{_where(points, columns)}", code=error.code) from None
    if cloud.shape[1] != len(columns):
        raise MismatchError(
            f"{len(columns)} names of columns are given for {cloud.shape[1]} features.",
            code="option-columns",
        )
    return cloud


def _where(points: Any, columns: tuple[str, ...]) -> str:
    """Return in which columns numbers are missing or infinite, as a sentence or empty text."""
    array = as_array(points, "points")
    if array.dtype.kind != "f" or array.ndim != 2 or array.shape[1] != len(columns):
        return ""
    counts = (~np.isfinite(array)).sum(axis=0)
    odd = [f"{columns[k]!r} ({counts[k]})" for k in np.flatnonzero(counts)]
    return f" By columns: {listing(odd)}." if odd else ""
