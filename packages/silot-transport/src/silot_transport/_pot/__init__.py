"""The network simplex of POT where it is installed, and scipy's linear programming elsewhere.

POT is optional: the extra ``pot``. Its compiled function is loaded without the rest of POT, which
would load torch wherever torch is installed, and that takes seconds.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from threading import Lock
from typing import Any, cast

import numpy as np
from scipy import sparse

from .._check import Array

Flows = tuple[Any, Array, Array, int]
Simplex = Callable[[Array, Array, Any, int], Flows]

OPTIMAL = 1
"""The code of a result that is optimal."""

importing: list[float] = []
"""Seconds that imports took while something was solved: no part of what solving takes."""

_COMPILED = "ot.lp.emd_wrap"
_LOADING = Lock()


def network_simplex(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
    """Solve transport between positive masses of one sum.

    Parameters
    ----------
    a, b
        Masses (n,) and (m,).
    cost
        Shape (n, m): an array, or the cells that may be used as a sparse matrix.
    pivots
        Most pivots.

    Returns
    -------
    tuple
        The plan (sparse where the cost is), both potentials with ``sum(a f) = sum(b g)``, and
        the code of the result.
    """
    return _simplex()(a, b, cost, pivots)


def _simplex() -> Simplex:
    # Of several threads one loads it, and the others wait.
    with _LOADING:
        return _loaded()


@cache
def _loaded() -> Simplex:
    began = time.perf_counter()
    one = np.ones(1)
    try:
        found = _alone(sys.modules.get(_COMPILED) or _compiled())
        # Another version of POT may call it otherwise.
        for cost in (one[:, None], sparse.eye_array(1)):
            found(one, one, cost, 1)
    except (ImportError, AttributeError, TypeError, ValueError):
        found = _whole if installed() else _highs
    importing.append(time.perf_counter() - began)
    return found


@cache
def installed() -> bool:
    """Return whether POT can be imported."""
    return find_spec("ot") is not None


def _compiled() -> Any:
    package = find_spec("ot")
    places = None if package is None else package.submodule_search_locations
    file = None if not places else PathFinder.find_spec(_COMPILED, [str(Path(places[0]) / "lp")])
    if file is None:
        raise ImportError
    # Under a name of silot, for what it imports from its package is looked for there.
    spec = spec_from_file_location(f"{__name__}.lp.emd_wrap", file.origin)
    if spec is None or spec.loader is None:
        raise ImportError
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # It enters itself under its own name, of whose package nothing is loaded.
    sys.modules.pop(_COMPILED, None)
    return module


def _alone(compiled: Any) -> Simplex:
    def solve(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
        b = b * a.sum() / b.sum()
        if isinstance(cost, np.ndarray):
            dense = np.ascontiguousarray(cast("Array", cost))
            plan, _, f, g, code = compiled.emd_c(a, b, dense, pivots, 1, None, None)
        else:
            cells = cost.tocoo()
            ends = cells.row.astype(np.uint64), cells.col.astype(np.uint64)
            rows, cols, mass, _, f, g, code = compiled.emd_c_sparse(a, b, *ends, cells.data, pivots)
            places = rows.astype(np.intp), cols.astype(np.intp)
            plan = sparse.coo_array((mass, places), shape=cells.shape)
        shift = (np.sum(b * g) - np.sum(a * f)) / (a.sum() + b.sum())
        return plan, f + shift, g - shift, int(code)

    return solve


def _whole(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
    import ot  # pyright: ignore[reportMissingTypeStubs]

    with warnings.catch_warnings():
        # The result code is read; the warning would say the same on stderr.
        warnings.simplefilter("ignore")
        solve = getattr(ot, "emd")  # noqa: B009 - no type stubs
        plan, log = solve(a, b, cost, numItermax=pivots, log=True, check_marginals=False)
    return plan, np.asarray(log["u"]), np.asarray(log["v"]), int(log["result_code"])


def _highs(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
    """Solve the same linear program by HiGHS, which scipy brings; it is far slower than POT."""
    # Slow to import, and needed only where neither POT nor the compiled kernels are there.
    from scipy import optimize

    linprog: Any = optimize.linprog  # its stubs know no sparse arrays
    n, m = int(cost.shape[0]), int(cost.shape[1])
    dense = isinstance(cost, np.ndarray)
    cells = None if dense else cost.tocoo()
    rows, cols = np.indices((n, m)).reshape(2, -1) if cells is None else (cells.row, cells.col)
    prices = np.ravel(cost) if cells is None else cells.data
    columns = np.arange(len(prices))
    entries = (np.concatenate([rows, n + cols]), np.concatenate([columns, columns]))
    sums = sparse.csr_array((np.ones(2 * len(prices)), entries), shape=(n + m, len(prices)))
    masses = np.concatenate([a, b * a.sum() / b.sum()])
    # Tolerances of HiGHS are absolute, and masses are far below 1.
    result = linprog(
        prices, A_eq=sums, b_eq=masses * n, method="highs", options={"maxiter": pivots}
    )
    if result.status != 0:
        return np.zeros((n, m)), np.zeros(n), np.zeros(m), 0
    flow: Array = np.maximum(result.x / n, 0.0)
    plan = flow.reshape(n, m) if dense else sparse.coo_array((flow, (rows, cols)), shape=(n, m))
    prices_of_masses: Array = result.eqlin.marginals
    f, g = prices_of_masses[:n], prices_of_masses[n:]
    shift = (np.sum(b * g) - np.sum(a * f)) / (a.sum() + b.sum())
    return plan, f + shift, g - shift, OPTIMAL
