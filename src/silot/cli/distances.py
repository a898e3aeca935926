"""``silot distance``: of a pair, of all pairs, and of a union."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, cast

from ..api._methods import DISTANCES, PAIRWISE, Comparison, find_method
from ..api.distances import distance_matrix, pooled_distance
from ..data.measure import Measure
from ..distances.pooled import Pooled
from ..federation.parties import Parties
from ..federation.protocol import COORDINATOR
from .console import FIGURES, counting, save_plot, steps, tell_forecast
from .generate import argument, command, flag
from .options import HoldersArgument, LabelledTables, Outputs, Results, Spending
from .sites import Where


@command(DISTANCES, choose="direct")
def pair_command(
    a: Path = argument(
        "A table (.csv, .xlsx, ...) or .npz of a holder, or a site. With --method private, give "
        "your own data here; the other holder receives them."
    ),
    b: Path = argument("Another holder."),
    *,
    method: str,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between two sites, with bounds, cost and disclosure."""
    has_own = not find_method(method).compares_holders
    holders, own = where.load(tables, [b] if has_own else [a, b], a if has_own else None)
    options |= spending.read(tables)
    with steps(method) as progress:
        parties = Parties.of(holders, tables.labels, own)
        compared = Comparison.of(method, parties, tables.covariance, options)
        tell = None if outputs.json else tell_forecast
        first, second = (*parties.names, *([COORDINATOR] if has_own else []))
        result = compared.between(first, second, progress, tell)
    outputs.finish(result)


@command(PAIRWISE, choose="direct")
def matrix_command(
    holders: HoldersArgument = None,
    *,
    method: str,
    where: Where,
    tables: LabelledTables,
    spending: Spending,
    plot: Path | None = flag("Draw a heat map to this file.", endings=FIGURES),
    outputs: Results,
    **options: Any,
) -> None:
    """Distances between all pairs of holders."""
    loaded, _ = where.load(tables, holders)
    options |= spending.read(tables) | tables.comparison
    with counting(method, "pairs") as progress:
        result = distance_matrix(loaded, method, progress=progress, **options)
    save_plot(result, plot)
    outputs.finish(result, first={"heat map": plot})


@command([Pooled])
def pooled_command(
    sellers: HoldersArgument = None,
    *,
    buyer: Path = flag("The coordinator's own data.", default=...),
    where: Where,
    tables: LabelledTables,
    shares: Literal["records", "weights"] = flag(
        "Weight of each seller: its number of records, or the sum of their weights.",
        default="records",
    ),
    outputs: Outputs,
    **options: Any,
) -> None:
    """Distance between the union of sellers and a buyer (TriangleWad)."""
    loaded, own = where.load(tables, sellers, buyer)
    options |= {"shares": shares, **tables.comparison}
    with steps("pooled") as progress:
        buyer_measure = cast("Measure", own)
        result = pooled_distance(loaded, buyer_measure, progress=progress, **options)
    outputs.finish(result)
