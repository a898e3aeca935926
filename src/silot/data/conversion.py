"""From one unit of measurement to another."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from ..errors import InputError

# Names of UCUM that pint calls otherwise, or takes for something else.
_UCUM = {
    "mm[Hg]": "mmHg",
    "cm[H2O]": "cmH2O",
    "Cel": "degC",
    "[degF]": "degF",
    "[lb_av]": "pound",
    "[oz_av]": "ounce",
    "[in_i]": "inch",
    "[ft_i]": "foot",
    "a": "year",
    "mo": "month",
    "wk": "week",
    "%": "percent",
    "[IU]": "international_unit",
    "[iU]": "international_unit",
    "eq": "equivalent",
}
# Grams a mole, from the atomic weights of their formulas.
MOLAR_MASS = {
    "glucose": 180.156,
    "creatinine": 113.12,
    "cholesterol": 386.65,
    "triglycerides": 885.4,
    "bilirubin": 584.66,
    "urea": 60.056,
    "urea nitrogen": 28.014,
    "uric acid": 168.11,
    "calcium": 40.078,
    "magnesium": 24.305,
    "phosphate": 30.974,
    "iron": 55.845,
    "lactate": 90.08,
    "cortisol": 362.46,
    "testosterone": 288.42,
    "vitamin d": 400.64,
    "haemoglobin": 16114.5,
    "hemoglobin": 16114.5,
}


def conversion(source: str, target: str, substance: str = "") -> tuple[float, float]:
    """Factor and offset from one unit to another: ``target = factor * source + offset``.

    Units are by UCUM, or as pint has them. Between a mass and an amount the ``substance`` is
    needed: a name in ``MOLAR_MASS``, or grams a mole as a text.

    Examples
    --------
    >>> conversion("cm", "m")
    (0.01, 0.0)
    >>> round(conversion("mg/dL", "mmol/L", "glucose")[0] * 180.156, 9)
    10.0
    """
    if source == target:
        return 1.0, 0.0
    units = _registry()
    origin, goal = _unit(source), _unit(target)
    context: tuple[Any, ...] = ()
    options: dict[str, Any] = {}
    if mass := _molar_mass(substance):
        context, options = ("chemistry",), {"mw": units.Quantity(mass, "g/mol")}
    try:
        zero, one = (
            float(units.Quantity(value, origin).to(goal, *context, **options).magnitude)
            for value in (0.0, 1.0)
        )
    except Exception as error:
        if not type(error).__module__.startswith("pint"):
            raise
        cure = (
            "" if mass else " To convert between mass and amount, name the substance in the schema."
        )
        raise InputError(
            f"{source!r} and {target!r} measure different quantities.{cure}", code="unit-mismatch"
        ) from None
    if units.Unit(origin).dimensionality == units.Unit("kelvin").dimensionality:
        return one - zero, zero
    return one, 0.0


def _molar_mass(substance: str) -> float:
    try:
        return float(substance)
    except ValueError:
        return MOLAR_MASS.get(substance.strip().lower(), 0.0)


def _unit(name: str) -> str:
    """Return what pint calls a unit of UCUM."""
    tokens = re.split(r"([./*()]|\*\*|\^)", re.sub(r"\{[^}]*\}", "", name).strip())
    text = "".join(_UCUM.get(token.strip(), token) for token in tokens).replace(".", "*")
    # A count such as 10*9/L: powers of ten are numbers, which a unit of pint has not.
    text = re.sub(r"^/", "1/", text) or "dimensionless"
    try:
        _registry().Unit(text)
    except Exception:  # noqa: BLE001 - the parser of units raises of many kinds
        raise InputError(
            f"{name!r} is not a known unit. Write it in UCUM, such as mg/dL, mm[Hg], Cel, a.",
            code="unit-unknown",
        ) from None
    return text


@cache
def _registry() -> Any:
    # Slow to import, and few tables need another unit.
    import pint

    registry: Any = pint.UnitRegistry()
    registry.define("equivalent = mole = eq")
    registry.define("international_unit = [international_unit]")
    return registry
