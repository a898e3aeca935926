"""Names of before the wings lead to where things live now."""

from __future__ import annotations

from importlib import import_module

import pytest

import silot
from silot._moved import _MODULES, _NAMES


@pytest.mark.parametrize("old", _MODULES)
def test_a_module_is_found_by_its_old_name(old: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"silot.{old} is now silot.{_MODULES[old]}"):
        # Whoever imported it before was warned.
        import_module("silot._moved")._Finder().exec_module(type(silot)(f"silot.{old}"))
    assert import_module(f"silot.{old}") is import_module(f"silot.{_MODULES[old]}")


@pytest.mark.parametrize(
    ("package", "name", "now"),
    [
        ("federation", "DistanceTo", "silot.distances.questions.distances"),
        ("federation", "Teacher", "silot.distillation.teacher"),
        ("protocols", "fedwad", ""),
        ("protocols", "METHODS", ""),
        ("results", "Billed", "silot.federation.result"),
        ("results", "Contributions", "silot.value.result"),
    ],
)
def test_a_name_is_found_in_its_old_package(package: str, name: str, now: str) -> None:
    assert package in _NAMES
    with pytest.warns(DeprecationWarning, match=f"silot.{package}.{name} is now silot"):
        value = getattr(import_module(f"silot.{package}"), name)
    assert not now or value.__module__ == now


def test_a_name_that_never_was_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        import_module("silot.protocols").nonsense  # noqa: B018
    with pytest.raises(ModuleNotFoundError):
        import_module("silot.nonsense")
