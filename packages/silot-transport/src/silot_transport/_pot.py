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
from types import ModuleType
from typing import Any, cast

import numpy as np
from scipy import sparse

from ._check import Array

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
    # Of several threads one loads the solver, and the others wait for it.
    with _LOADING:
        return _load()


@cache
def _load() -> Simplex:
    start = time.perf_counter()
    one = np.ones(1)
    try:
        simplex = _wrap(sys.modules.get(_COMPILED) or _import_compiled())
        # Another version of POT may have another signature, which these calls would show.
        for cost in (one[:, None], sparse.eye_array(1)):
            simplex(one, one, cost, 1)
    except (ImportError, AttributeError, TypeError, ValueError):
        simplex = _solve_by_all_of_pot if is_installed() else _solve_by_highs
    importing.append(time.perf_counter() - start)
    return simplex


@cache
def is_installed() -> bool:
    """Return whether POT can be imported."""
    return find_spec("ot") is not None


def _import_compiled() -> Any:
    package = find_spec("ot")
    places = None if package is None else package.submodule_search_locations
    file = None if not places else PathFinder.find_spec(_COMPILED, [str(Path(places[0]) / "lp")])
    if file is None:
        raise ImportError
    # Under a name of this module, because the compiled one imports from its own package: from
    # there it gets ``dist`` of the module below, and nothing of POT is loaded.
    utils: Any = ModuleType(f"{__name__}.utils", "What POT's solver imports from its package.")
    utils.dist = _dist
    sys.modules[utils.__name__] = utils
    spec = spec_from_file_location(f"{__name__}.lp.emd_wrap", file.origin)
    if spec is None or spec.loader is None:
        raise ImportError
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    # It enters itself under its own name, although nothing of its package is loaded.
    sys.modules.pop(_COMPILED, None)
    return module


def _dist(*args: Any, **options: Any) -> Any:
    """Call POT's own ``dist``.

    A process has one copy of the compiled solver, and its user may call POT as well.
    """
    import ot  # pyright: ignore[reportMissingTypeStubs]

    return getattr(ot, "dist")(*args, **options)  # noqa: B009 - no type stubs


def _wrap(compiled: Any) -> Simplex:
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
        return plan, *_centre(f, g, a, b), int(code)

    return solve


def _centre(f: Array, g: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """Shift the potentials so that ``sum(a f) = sum(b g)``, as ``ot.emd`` returns them."""
    shift = (np.sum(b * g) - np.sum(a * f)) / (a.sum() + b.sum())
    return f + shift, g - shift


def _solve_by_all_of_pot(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
    import ot  # pyright: ignore[reportMissingTypeStubs]

    with warnings.catch_warnings():
        # The result code is read; the warning would say the same on stderr.
        warnings.simplefilter("ignore")
        solve = getattr(ot, "emd")  # noqa: B009 - no type stubs
        plan, log = solve(a, b, cost, numItermax=pivots, log=True, check_marginals=False)
    return plan, np.asarray(log["u"]), np.asarray(log["v"]), int(log["result_code"])


def _solve_by_highs(a: Array, b: Array, cost: Any, pivots: int) -> Flows:
    """Solve the same linear program by HiGHS, which scipy brings; it is far slower than POT."""
    # Slow to import, and needed only where neither POT nor the compiled kernels are installed.
    from scipy import optimize

    linprog: Any = optimize.linprog  # its stubs know no sparse arrays
    n, m = int(cost.shape[0]), int(cost.shape[1])
    is_dense = isinstance(cost, np.ndarray)
    cells = None if is_dense else cost.tocoo()
    rows, cols = np.indices((n, m)).reshape(2, -1) if cells is None else (cells.row, cells.col)
    prices = np.ravel(cost) if cells is None else cells.data
    columns = np.arange(len(prices))
    entries = (np.concatenate([rows, n + cols]), np.concatenate([columns, columns]))
    sums = sparse.csr_array((np.ones(2 * len(prices)), entries), shape=(n + m, len(prices)))
    masses = np.concatenate([a, b * a.sum() / b.sum()])
    # Tolerances of HiGHS are absolute, and 1e-10 is the least that it takes: in this unit it
    # resolves masses to 1e-15, and the rounding of their sums is still below the tolerance.
    unit = 2.0**16
    limits = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    # The last sum follows from the others, and its rounding would make the problem infeasible.
    result = linprog(
        prices, A_eq=sums[:-1], b_eq=masses[:-1] * unit, method="highs",
        options={"maxiter": pivots, **limits},
    )  # fmt: skip
    if result.status != 0:
        nothing = np.zeros((n, m))
        return nothing if is_dense else sparse.coo_array(nothing), np.zeros(n), np.zeros(m), 0
    flow: Array = np.maximum(result.x / unit, 0.0)
    plan = flow.reshape(n, m) if is_dense else sparse.coo_array((flow, (rows, cols)), shape=(n, m))
    duals: Array = np.append(result.eqlin.marginals, 0.0)
    return plan, *_centre(duals[:n], duals[n:], a, b), OPTIMAL
