"""Units: factors that textbooks give."""

import pytest

from silot.data.conversion import conversion
from silot.errors import InputError


@pytest.mark.parametrize(
    ("source", "target", "substance", "factor", "offset"),
    [
        ("mmol/L", "mg/dL", "glucose", 18.0156, 0),
        ("mg/dL", "umol/L", "creatinine", 88.402, 0),
        ("mmol/L", "mg/dL", "cholesterol", 38.665, 0),
        ("mmol/L", "mg/dL", "180.156", 18.0156, 0),
        ("kPa", "mm[Hg]", "", 7.500617, 0),
        ("[lb_av]", "kg", "", 0.45359237, 0),
        ("[in_i]", "cm", "", 2.54, 0),
        ("[degF]", "Cel", "", 5 / 9, -160 / 9),
        ("mo", "a", "", 1 / 12, 0),
        ("/uL", "/L", "", 1e6, 0),
        ("%", "", "", 0.01, 0),
        ("kg", "kg", "", 1, 0),
    ],
)
def test_factors(source: str, target: str, substance: str, factor: float, offset: float) -> None:
    found = conversion(source, target, substance)
    assert found == pytest.approx((factor, offset), rel=1e-5, abs=1e-9)


@pytest.mark.parametrize("source", ["mg", "furlongs per x", "", "1e9/L", "__import__('os')"])
def test_what_cannot_be_converted_is_said(source: str) -> None:
    with pytest.raises(InputError) as caught:
        conversion(source, "mm[Hg]")
    assert caught.value.code in ("unit-unknown", "unit-mismatch")
