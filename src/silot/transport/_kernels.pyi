import numpy as np
import numpy.typing as npt

_Double = npt.NDArray[np.float64]
_Single = npt.NDArray[np.float32]
_Int = npt.NDArray[np.int32]
_Mass = npt.NDArray[np.int64]

def sets() -> list[str]: ...
def use(name: str) -> str: ...
def used() -> str: ...
def assign(
    cost: _Double | _Single, u: _Double | _Single, v: _Double | _Single, column: _Int
) -> tuple[int, int]: ...
def assign_mixed(cost: _Double, u: _Double, v: _Double, column: _Int) -> tuple[int, int]: ...
def settle(cost: _Double, u: _Double, v: _Double, column: _Int) -> bool: ...
def ship(
    cost: _Double,
    a: _Mass,
    b: _Mass,
    u: _Double,
    v: _Double,
    rows: _Int,
    columns: _Int,
    masses: _Mass,
) -> int: ...
