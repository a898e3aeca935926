"""Check what a call was given of holders."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import InputError
from ..federation.parties import Parties
from ..options import word


def check_side(side: object) -> str:
    """Return the name of a holder of a federation, or raise where it is none."""
    if not isinstance(side, str):
        raise InputError(
            f"a {type(side).__name__} is not a name of a holder. With federation= give two names.",
            code="holder-names",
        )
    return side


def read_shares(
    shares: Mapping[str, float] | str, sellers: Parties, method: str
) -> dict[str, Mapping[str, float]]:
    """Return the option of a pooled distance that says what sellers count for."""
    if isinstance(shares, str):
        word("records", "weights").of(shares, "shares", "option-shares")
    if shares == "records":
        return {}
    if method == "secure":
        raise InputError(
            "method 'secure' weights every seller by its number of records. Leave shares out.",
            code="option-shares",
        )
    if isinstance(shares, str):
        sellers.check_owned("shares='weights'", "option-shares")
        masses = {name: float(measure.masses.sum()) for name, measure in sellers.measures.items()}
        return {"shares": masses}
    return {"shares": shares}
