"""Groups of holders: as many as tests tell apart, or a number that a user chose."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeGuard

import numpy as np

from silot_transport import GroupsResult

from ...distances.direct import read_cloud, read_labels
from ...distances.methods import Comparing, Joint
from ...distances.questions import Records
from ...distances.result import DistanceMatrix
from ...distances.verdict import compare_several, describe_groups
from ...errors import InputError
from ...federation.disclosure import Disclosure
from ...federation.protocol import Protocol, Steps, required
from ...federation.question import Answerer
from ...federation.result import Bill, Billed, Preflighted, in_doubt
from ...options import option, share
from .groups import Codes, Grouping, numbered, spectral

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ...data.preflight import Preflight


@dataclass(frozen=True, kw_only=True)
class GroupTest(Billed):
    """The test between all holders, and its bill."""

    result: GroupsResult
    status: str

    def to_dict(self) -> dict[str, Any]:
        return {"status": self.status, **self._bill_dict(), **self.result.to_dict()}


class TestGroups(Comparing, Joint[GroupTest]):
    """Test which holders' records differ in distribution, from the records of all.

    Returns
    -------
    Protocol[GroupTest]
        Discloses every record.

    Examples
    --------
    >>> from silot import LocalFederation
    >>> draw = np.random.default_rng(0).normal
    >>> fed = LocalFederation({"a": draw(size=(60, 2)), "b": draw(size=(60, 2)) + 2.0})
    >>> fed.run(TestGroups().among(["a", "b"])).result.groups
    (0, 1)
    """

    # pytest takes a class of this name for tests.
    __test__ = False
    name = "test-groups"
    disclosure: ClassVar[Disclosure] = Disclosure.RECORD

    level: float = option(
        "How often holders of one distribution are told apart.", share(), default=0.05
    )

    def among(self, holders: Sequence[str], own: Answerer | None = None) -> Protocol[GroupTest]:
        names = tuple(holders)
        return Protocol(
            self.name, names, self.disclosure, lambda: self._steps(names),
            self.values("level", "seed", "embedding"),
        )  # fmt: skip

    def _steps(self, names: tuple[str, ...]) -> Steps[GroupTest]:
        answers = yield dict.fromkeys(names, Records(embedding=self.embedding))
        replies = [required(answers, name) for name in names]
        result = compare_several(
            [read_cloud(reply) for reply in replies],
            [read_labels(reply) for reply in replies],
            self.embedding,
            level=self.level,
            seed=self.seed,
        )
        return GroupTest(result=result, status=describe_groups(result, names))


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
    verdict
        The test between all holders, in the order of their names: which are one group, which pairs
        differ, by what, and what would have been detected; ``None`` where a number of groups was
        requested of a method that keeps the records apart.
    status
        In words: what decided.
    matrix
        The distances.
    test
        The run that asked for the records to test; ``None`` where nobody was asked.
    """

    view: ClassVar = "view:clustering"

    names: tuple[str, ...]
    assignment: Mapping[str, int]
    k: int
    requested: int | Literal["auto"]
    affinity: str
    verdict: GroupsResult | None
    status: str
    seed: int
    matrix: DistanceMatrix = field(repr=False)
    test: GroupTest | None = field(default=None, repr=False)

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
    def bill(self) -> Bill:
        """That of the distances, and of the test."""
        return self.matrix.bill if self.test is None else self.matrix.bill + self.test.bill

    @property
    def disclosure(self) -> str:
        """Finest thing disclosed."""
        return finest(self.matrix, *([] if self.test is None else [self.test]))

    @property
    def preflight(self) -> Preflight | None:
        """What was seen of the tables of all holders."""
        return self.matrix.preflight

    @property
    def converged(self) -> bool:
        """Whether every distance converged."""
        return self.matrix.converged

    def to_dict(self) -> dict[str, Any]:
        """Fields by name, ready for JSON."""
        return {
            "names": list(self.names),
            "assignment": dict(self.assignment),
            "groups": [list(group) for group in self.groups],
            "k": self.k,
            "requested": self.requested,
            "affinity": self.affinity,
            "verdict": None if self.verdict is None else self.verdict.to_dict(),
            "status": self.status,
            "converged": self.converged,
            "seed": self.seed,
            **vars(self.bill),
            "disclosure": self.disclosure,
            "preflight": None if self.preflight is None else self.preflight.to_dict(),
            "matrix": self.matrix.to_dict(),
        }

    def to_json(self) -> str:
        """``to_dict`` as JSON text."""
        return json.dumps(self.to_dict(), allow_nan=False)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the distances as a heat map, in the order of the groups."""
        return self.in_order.plot(ax)

    @property
    def in_order(self) -> DistanceMatrix:
        """The distances, members of one group beside one another."""
        return replace(self.matrix, names=tuple(name for group in self.groups for name in group))


def finest(*runs: Clustering | Billed | DistanceMatrix) -> str:
    """Name the most detailed level that any of some runs disclosed; empty where none did."""
    levels = [Disclosure[run.disclosure.upper()] for run in runs if run.disclosure]
    return str(max(levels)) if levels else ""


def clustering_of(
    matrix: DistanceMatrix,
    options: Grouping,
    verdict: GroupsResult | None = None,
    test: GroupTest | None = None,
) -> Clustering:
    """Group the holders of a matrix of distances.

    ``verdict`` is the test between them, in the order of their names, and ``test`` the run that
    asked for it.

    Raises
    ------
    InputError
        ``option-clusters``: more groups than holders, or ``auto`` without a test.
        ``distances-absent``: a pair without a distance, or with one that is no number.
    """
    # In one order, whatever order holders were given in.
    names = sorted(matrix.names)
    options.check_size(len(names))
    _check_complete(matrix)
    ordered = replace(matrix, names=tuple(names))
    codes = _choose(ordered, options, verdict)
    by_name = dict(zip(names, codes.tolist(), strict=True))
    k = int(codes.max()) + 1
    return Clustering(
        names=matrix.names,
        assignment={name: by_name[name] for name in matrix.names},
        k=k,
        requested=options.k,
        affinity=options.affinity,
        verdict=verdict,
        status=in_doubt(_status(k, names, options, verdict, matrix), matrix.preflight),
        seed=options.seed,
        matrix=matrix,
        test=test,
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
        "how many groups there are takes a test of records or of releases, and distances by "
        f"method {method!r} have neither. Give a number of groups, or method 'direct' or "
        "'sketch'.",
        code="option-clusters",
    )


def _check_complete(matrix: DistanceMatrix) -> None:
    for a, b in combinations(matrix.names, 2):
        is_measured = (a, b) in matrix.pairs or (b, a) in matrix.pairs
        if not is_measured or not 0 <= matrix[a, b].value < math.inf:
            raise InputError(
                f"there is no distance of {a!r} and {b!r}, or it is no number. Measure all pairs, "
                "or leave one of the two out.",
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
            way = "the coarsest that tests tell apart"
        kind = f"{k} group(s), the number that was requested, {way}"
        if k < options.k:
            kind += f" ({options.k} were requested: the others are empty)"
        text = f"{kind}; tested: {text}" if text else f"{kind}; whether they differ was not tested"
    return text if matrix.converged else f"{text}; {matrix.status}"
