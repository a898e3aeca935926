"""Groups of holders: as many as tests distinguish, or a number that a user chose."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

import numpy as np
import numpy.typing as npt

from silot_transport import GroupsResult

from ...distances.result import DistanceMatrix, fields_by_name
from ...distances.shared_options import seed_option
from ...distances.verdict import describe_groups
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.result import Array, Cost, Preflighted, Run, RunResult, in_doubt
from ...options import Options, count, option, share, word, word_or

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...data.preflight import Preflight


Codes = npt.NDArray[np.int64]
Affinity = Literal["rescaled", "neighbours"]


class Grouping(Options):
    """How holders are grouped."""

    name = "cluster"

    k: int | Literal["auto"] = option(
        "Number of groups, found by spectral clustering of the distances; or "
        "``auto``: as many as the tests between holders distinguish.",
        word_or("auto", count()),
        default="auto",
        code="option-clusters",
    )
    level: float = option(
        "With ``auto``: false-alarm rate of the test of groups.",
        share(),
        default=0.05,
    )
    affinity: Affinity = option(
        "Similarities that spectral clustering uses. ``rescaled``: distances turned into "
        "similarities from 0 to 1; ``neighbours``: a graph of the nearest holders.",
        word("rescaled", "neighbours"),
        default="rescaled",
    )
    neighbours: int = option(
        "Number of nearest holders in the graph, the holder itself included.", count(2), default=3
    )
    seed: int = seed_option("Seed of everything random.")

    def check_size(self, holders: int) -> None:
        """Raise where more groups are requested than there are holders."""
        if self.k != "auto" and self.k > holders:
            raise InputError(
                f"k is {self.k} for {holders} holders. Give a number from 1 to {holders}, or "
                "'auto'.",
                code="option-clusters",
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class Clustering(Preflighted):
    """Holders in groups.

    Attributes
    ----------
    names
        Holders, in the order they were given.
    assignment
        By holder, the number of its group: 0 is that of the first holder by name, and so on.
    k
        How many groups.
    requested
        How many were requested, or ``"auto"``.
    test
        The test between all holders, in the order of their names: which are one group, which pairs
        differ, by what, and what would have been detected; ``None`` where a number of groups was
        requested of a method that keeps the records apart.
    status
        In words: what decided.
    matrix
        The distances.
    """

    view: ClassVar = "view:clustering"

    names: tuple[str, ...]
    assignment: Mapping[str, int]
    k: int
    requested: int | Literal["auto"]
    affinity: str
    test: GroupsResult | None
    status: str
    seed: int
    matrix: DistanceMatrix = field(repr=False)

    @property
    def groups(self) -> tuple[tuple[str, ...], ...]:
        """Members of every group, in the order of their names."""
        return tuple(
            tuple(sorted(name for name in self.names if self.assignment[name] == group))
            for group in range(self.k)
        )

    @property
    def method(self) -> str:
        """Of the distances."""
        return self.matrix.method

    @property
    def cost(self) -> Cost:
        """That of the distances: the test is of the same answers."""
        return self.matrix.cost

    @property
    def disclosure(self) -> str:
        """Most detailed thing disclosed."""
        return finest(self.matrix)

    @property
    def preflight(self) -> Preflight | None:
        """Checks of the tables of all holders."""
        return self.matrix.preflight

    @property
    def converged(self) -> bool:
        """Whether every distance converged."""
        return self.matrix.converged

    @property
    def value(self) -> int:
        """How many groups there are."""
        return self.k

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        names = (
            "names", "assignment", "groups", "k", "requested", "affinity", "test", "status",
            "converged", "seed", "disclosure", "preflight", "matrix",
        )  # fmt: skip
        return {**fields_by_name(self, *names), **vars(self.cost)}

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distances as a heat map, in the order of the groups."""
        return self.in_order.plot(ax)

    @property
    def in_order(self) -> DistanceMatrix:
        """The distances, members of one group beside one another."""
        return replace(self.matrix, names=tuple(name for group in self.groups for name in group))


def finest(*runs: Clustering | RunResult | DistanceMatrix | Run) -> str:
    """Name the most detailed level that any of some runs disclosed; empty where none did."""
    levels = [Disclosure[run.disclosure.upper()] for run in runs if run.disclosure]
    return str(max(levels)) if levels else ""


def clustering_of(
    matrix: DistanceMatrix, options: Grouping, test: GroupsResult | None = None
) -> Clustering:
    """Group the holders of a matrix; the ``test`` is of them in the order of their names."""
    # In one order, whatever order holders were given in.
    names = sorted(matrix.names)
    options.check_size(len(names))
    _check_complete(matrix)
    ordered = replace(matrix, names=tuple(names))
    codes = _choose(ordered, options, test)
    by_name = dict(zip(names, codes.tolist(), strict=True))
    k = int(codes.max()) + 1
    return Clustering(
        names=matrix.names,
        assignment={name: by_name[name] for name in matrix.names},
        k=k,
        requested=options.k,
        affinity=options.affinity,
        test=test,
        status=in_doubt(_status(k, names, options, test, matrix), matrix.preflight),
        seed=options.seed,
        matrix=matrix,
    )


def _choose(matrix: DistanceMatrix, options: Grouping, verdict: GroupsResult | None) -> Codes:
    if options.k != "auto":
        if not _tells_apart(verdict, options.k):
            return spectral(matrix.values, options.k, options)
        # Distances do not see renamed classes; the coarsest of what tests tell apart does.
        codes = np.zeros(len(matrix.names), dtype=np.int64)
        for group, split in enumerate(verdict.splits[: options.k - 1], 1):
            codes[list(split.second)] = group
        return numbered(codes)
    if verdict is None:
        raise untested(matrix.method)
    return numbered(np.array(verdict.groups, dtype=np.int64))


def _tells_apart(verdict: GroupsResult | None, k: int) -> TypeGuard[GroupsResult]:
    """Return whether tests tell at least as many groups apart."""
    return verdict is not None and 1 < k <= verdict.k


def untested(method: str) -> InputError:
    """Build the error of a method whose distances alone do not say how many groups there are."""
    return InputError(
        "choosing the number of groups needs a test of records or releases, but distances by "
        f"method {method!r} have neither. Give a number of groups, or method 'direct' or 'sketch'.",
        code="option-clusters",
    )


def _check_complete(matrix: DistanceMatrix) -> None:
    for a, b in combinations(matrix.names, 2):
        is_measured = (a, b) in matrix.pairs or (b, a) in matrix.pairs
        if not is_measured or not 0 <= matrix[a, b].value < math.inf:
            raise InputError(
                f"there is no distance of {a!r} and {b!r}, or it is not a number. Compute all "
                "pairs, or exclude one of the two.",
                code="distances-absent",
            )


def _status(
    k: int,
    names: Sequence[str],
    options: Grouping,
    verdict: GroupsResult | None,
    matrix: DistanceMatrix,
) -> str:
    text = "" if verdict is None else describe_groups(verdict, names)
    if options.k != "auto":
        way = "by spectral clustering of distances"
        if _tells_apart(verdict, options.k):
            way = "the coarsest that the tests distinguish"
        kind = f"{k} group(s), the number that was requested, {way}"
        if k < options.k:
            kind += f" ({options.k} were requested: the others are empty)"
        text = f"{kind}; tested: {text}" if text else f"{kind}; whether they differ was not tested"
    return text if matrix.converged else f"{text}; {matrix.status}"


def spectral(distances: Array, k: int, options: Grouping) -> Codes:
    """Spectral clustering into at most ``k`` groups, numbered by their first members.

    ``rescaled`` takes ``1 - distances / max(distances)`` for the affinity, ``neighbours`` the
    binary graph of nearest holders.
    """
    size = len(distances)
    if k == 1:
        return np.zeros(size, dtype=np.int64)
    if k == size:
        return np.arange(size)
    # Slow to import.
    from sklearn.cluster import SpectralClustering

    if options.affinity == "rescaled":
        largest = float(distances.max())
        kind, matrix = "precomputed", 1.0 - distances / (largest if largest > 0 else 1.0)
    else:
        kind, matrix = "precomputed_nearest_neighbors", distances
    with warnings.catch_warnings():
        # Groups that nothing joins are what is looked for.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        codes = SpectralClustering(
            k, affinity=kind, n_neighbors=min(options.neighbours, size), assign_labels="cluster_qr",
            random_state=0,
        ).fit_predict(matrix)  # fmt: skip
    return numbered(np.asarray(codes, dtype=np.int64))


def numbered(codes: Codes) -> Codes:
    """Groups by other numbers: 0 is that of the first holder, and so on."""
    order = {int(code): k for k, code in enumerate(dict.fromkeys(codes.tolist()))}
    return np.array([order[int(code)] for code in codes], dtype=np.int64)
