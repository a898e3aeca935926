"""Weighted, possibly labelled, point clouds, and label information as coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from .errors import InputError, MismatchError
from .transport._check import Array, as_points, as_weights
from .transport.moments import centred_root, thin_root

Covariance = Literal["diagonal", "diagonal-of-root", "full"]
Embedding = Literal["none", "diagonal", "diagonal-of-root", "full"]

# Largest embedded array, in float64 entries (1 GiB).
_LARGEST_EMBEDDING = 1 << 27


@dataclass(frozen=True, eq=False, init=False, repr=False)
class Measure:
    """A weighted point cloud, the unit every distance of silot is computed between.

    Parameters
    ----------
    points
        Records by rows, shape (n, d), finite numbers. Copied to float64.
    weights
        Masses (n,), zero or more; normalised to sum 1. ``None`` means uniform. ``masses`` keeps
        what each record counts for before that: the weights as given, 1 where none were.
    labels
        One label a record, of any type that can be compared. ``None`` for unlabelled data.

    Raises
    ------
    InputError
        Empty, NaN, infinite, non-numeric or one-dimensional points; negative or zero-sum
        weights; missing labels.
    MismatchError
        Weights or labels of another length than the points.

    Examples
    --------
    >>> Measure([[0.0, 1.0], [2.0, 3.0]], labels=["a", "b"])
    Measure(2 records, 2 features, 2 classes)
    """

    points: Array
    weights: Array
    labels: npt.NDArray[Any] | None
    masses: Array

    def __init__(
        self,
        points: npt.ArrayLike,
        weights: npt.ArrayLike | None = None,
        labels: npt.ArrayLike | None = None,
    ) -> None:
        cloud = as_points(points, "points").copy()
        masses = as_weights(weights, len(cloud))
        kinds = None if labels is None else _as_labels(labels, len(cloud))
        counts = _counts(weights, len(cloud))
        for array in (cloud, masses, kinds, counts):
            if array is not None:
                array.setflags(write=False)
        object.__setattr__(self, "points", cloud)
        object.__setattr__(self, "weights", masses)
        object.__setattr__(self, "labels", kinds)
        object.__setattr__(self, "masses", counts)

    def __reduce__(self) -> tuple[type[Measure], tuple[Any, ...]]:
        # Copies are made by the constructor, which makes their arrays read-only too.
        return Measure, (self.points, self.masses, self.labels)

    @classmethod
    def of(cls, data: Measure | npt.ArrayLike) -> Measure:
        """Return ``data`` itself when it is a measure, else a uniform measure on its rows."""
        return data if isinstance(data, Measure) else cls(data)

    @property
    def size(self) -> int:
        """Number of records."""
        return int(self.points.shape[0])

    @property
    def dimension(self) -> int:
        """Number of features."""
        return int(self.points.shape[1])

    @property
    def weighted(self) -> bool:
        """Whether records of positive weight differ in weight."""
        used = self.masses[self.masses > 0]
        return bool(np.ptp(used) > 1e-12 * used.max())

    @property
    def labelled(self) -> bool:
        """Whether the records have labels."""
        return self.labels is not None

    def arrays(self, embedding: Embedding = "none") -> tuple[Array, Array]:
        """Points and weights, the points with label coordinates unless ``"none"``.

        This is the one door to the raw records: a holder's handlers and the owner's own code
        use it, nothing else does.
        """
        if embedding == "none":
            return self.points, self.weights
        return label_vectors(self, covariance=embedding), self.weights

    @cached_property
    def names(self) -> npt.NDArray[np.str_] | None:
        """Labels as texts, by which holders agree on classes: 3, 3.0 and ``"3"`` are one."""
        if self.labels is None:
            return None
        kinds, codes = np.unique(self.labels, return_inverse=True)
        return np.array([_name(kind) for kind in kinds])[codes.ravel()]

    def __repr__(self) -> str:
        classes = ""
        if self.labels is not None:
            classes = f", {len(np.unique(self.labels))} classes"
        return f"Measure({self.size} records, {self.dimension} features{classes})"


def _counts(given: npt.ArrayLike | None, size: int) -> Array:
    """What each record counts for: its weight as given, 1 without weights.

    A release must not depend on the sum of all weights, nor on whether all are equal: every
    record changes either.
    """
    return np.ones(size) if given is None else np.asarray(given, dtype=np.float64).copy()


def _name(label: Any) -> str:
    if isinstance(label, np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label)


def _as_labels(labels: npt.ArrayLike, size: int) -> npt.NDArray[Any]:
    try:
        # As objects first: numpy would turn the NaN of a list of texts into a text.
        raw: npt.NDArray[Any] = (
            labels.copy() if isinstance(labels, np.ndarray) else np.array(labels, dtype=object)
        )
    except ValueError:
        raw = np.empty((0, 0))
    if raw.dtype == object and any(np.ndim(value) > 0 for value in raw.ravel()):
        raise InputError("labels are ragged; one label a record is needed.", code="labels-shape")
    if raw.shape != (size,):
        raise MismatchError(
            f"labels have shape {raw.shape} for {size} records; ({size},) is needed.",
            code="labels-shape",
        )
    if raw.dtype.kind == "f":
        missing = np.isnan(raw)
    elif raw.dtype.kind in "mM":
        missing = np.isnat(raw)
    elif raw.dtype.kind == "O":
        missing = np.array([value is None or value != value for value in raw])
    else:
        missing = np.zeros(size, dtype=bool)
    if missing.any():
        raise InputError(
            f"{int(missing.sum())} label(s) are missing, the first in row "
            f"{int(np.argmax(missing))}. Drop those records or give them a class of their own.",
            code="labels-missing",
        )
    # Classes of mixed types have no order; their texts do.
    return np.array([str(value) for value in raw]) if raw.dtype.kind == "O" else raw


def label_vectors(measure: Measure, *, covariance: Covariance = "diagonal") -> Array:
    r"""Records with their class's mean and covariance as further coordinates (OTDD vectors).

    .. math:: z_i = [x_i;\ m_{y_i};\ \mathrm{block}(\Sigma_{y_i})]

    so that Euclidean distances add a label term to ``|x - x'|``. With ``"full"`` the block is
    :math:`\mathrm{vec}(\Sigma^{1/2})` and the label term is the Wasserstein distance of the
    class Gaussians when their covariances commute. Two cheaper blocks are in circulation:
    ``"diagonal"`` takes :math:`\sqrt{\mathrm{diag}\, \Sigma}` (standard deviations, exact for
    uncorrelated features), ``"diagonal-of-root"`` takes :math:`\mathrm{diag}(\Sigma^{1/2})`.

    Parameters
    ----------
    measure
        Labelled records. Classes are the distinct labels, whatever their values; means and
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
    if measure.labels is None:
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
    codes = np.unique(measure.labels, return_inverse=True)[1].ravel()
    vectors = np.empty((n, 2 * d + width))
    vectors[:, :d] = points
    for code in range(int(codes.max()) + 1):
        members = codes == code
        mass = weights[members]
        # A class without mass moves nothing; its vectors only have to exist.
        share = mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1.0 / len(mass))
        mean, root = centred_root(points[members], share)
        vectors[members, d : 2 * d] = mean
        vectors[members, 2 * d :] = _covariance_block(root, covariance)
    return vectors


def _covariance_block(root: Array, covariance: Covariance) -> Array:
    if covariance == "diagonal":
        return np.sqrt(np.einsum("ij,ij->j", root, root))
    # From the singular values of the data: squaring them into a covariance costs half the digits.
    _, values, vectors = np.linalg.svd(thin_root(root), full_matrices=False)
    square_root = (vectors.T * values) @ vectors
    return (
        np.diagonal(square_root).copy()
        if covariance == "diagonal-of-root"
        else (square_root.ravel())
    )
