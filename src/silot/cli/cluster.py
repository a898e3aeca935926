"""``silot distance groups``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from ..api._methods import PAIRWISE
from ..api.cluster import cluster
from ..api.combine import combine
from ..errors import InputError
from ..teaching.federated.clustering import Affinity, Clustering
from .console import FIGURES, counting, save_plot, steps
from .generate import Flags, command, flag
from .options import HoldersArgument, LabelledTables, Results, Spending
from .release import Trust, read_files
from .sites import Where

_RELEASE = ".release"


class Groups(Flags):
    """How holders are grouped."""

    k: str = flag("How many groups.", "--groups", "-k", default="auto", metavar="N|auto")
    affinity: Affinity = flag(
        "Basis of the groups: similarities of all pairs, or a graph of the nearest holders.",
        default="rescaled",
    )
    neighbours: int = flag(
        "Number of nearest holders in the graph, the holder itself included.", default=3, min=2
    )
    level: float = flag("With auto: false-alarm rate of the test of groups.", default=0.05)

    def read(self) -> dict[str, Any]:
        """Return the options as ``cluster`` takes them."""
        if self.k != "auto" and not (self.k.isascii() and self.k.isdecimal()):
            raise InputError(
                f"--groups is {self.k[:40]!r}; give a number of groups, or auto.",
                code="option-clusters",
            )
        return self.values(k="auto" if self.k == "auto" else int(self.k))


@command(PAIRWISE, choose="direct")
def groups_command(
    holders: HoldersArgument = None,
    *,
    method: str,
    groups: Groups,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    trust: Trust,
    plot: Path | None = flag(
        "Draw a heat map in the order of the groups to this file.", endings=FIGURES
    ),
    outputs: Results,
    **options: Any,
) -> None:
    """Find groups of holders whose data are alike, also from releases."""
    grouping = groups.read()
    files = [] if where.sites is not None else list(holders or ())
    if any(path.suffix == _RELEASE for path in files):
        _check_releases(files, method, tables, options, spending)
        result = _of_releases(files, tables, spending, trust, grouping | options)
    else:
        if trust.keys is not None or trust.key is not None:
            raise InputError(
                "--keys and --key are for releases. Leave them out.", code="option-unknown"
            )
        loaded, _ = where.load(tables, holders)
        options |= spending.read(tables) | tables.comparison
        with counting("cluster", "pairs") as progress:
            result = cluster(loaded, method, progress=progress, **grouping, **options)
    save_plot(result, plot)
    outputs.finish(result, first={"heat map": plot})


def _check_releases(
    files: Sequence[Path],
    method: str,
    tables: LabelledTables,
    options: Collection[str],
    spending: Spending,
) -> None:
    """Raise where releases stand beside data, or options repeat what releases say."""
    others = [path.name for path in files if path.suffix != _RELEASE]
    if others:
        raise InputError(
            f"{others[0]} is not a release, and others are: distances are of one kind. Give a "
            "release of every holder.",
            code="release-beside",
        )
    if method not in ("direct", "sketch"):
        raise InputError(
            f"method is {method!r}, and releases are sketches. Leave --method out.",
            code="option-method",
        )
    charged = spending.values(public=None)
    repeated = [*(["labels"] if tables.labels else []), *charged, *sorted(set(options) - {"seed"})]
    if repeated:
        raise InputError(
            f"a release says how it was made. Leave --{repeated[0].replace('_', '-')} out.",
            code="option-unknown",
        )


def _of_releases(
    files: list[Path],
    tables: LabelledTables,
    spending: Spending,
    trust: Trust,
    options: dict[str, Any],
) -> Clustering:
    """Group the sites of releases, as one run between them would."""
    releases, public = read_files(files, trust, tables, spending.public)
    with steps("combine") as progress:
        sketches = combine(releases, public, progress=progress)
    return cluster(sketches, **options)
