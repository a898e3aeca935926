"""Options declared once: checks, codes, docstrings, and the classes they make."""

from __future__ import annotations

import importlib
import inspect
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer

import silot
from silot.cli.app import app
from silot.distances import FedWaD, TriangleWad
from silot.distances.pooled import Pooled
from silot.distances.sketches.sketch import Sketching
from silot.distances.worth.contributions import Valuation
from silot.distances.worth.fedbary import FedBary
from silot.errors import InputError
from silot.options import (
    Options,
    count,
    declared,
    documented,
    none_or,
    number,
    option,
    order,
    seed,
    share,
    truth,
    word,
    word_or,
)
from silot.records.gradients import RecordGradients
from silot.records.suspects import CountBroken
from silot.records.validation import RecordScreening

from . import house, keywords
from .house import modules

pytestmark = pytest.mark.all_cases


class Few(Options):
    """A few options.

    Notes
    -----
    These come last.
    """

    name = "few"

    size: int | None = option(
        "How many. More cost more.",
        none_or(count(2, 9)),
        default=None,
    )
    weight: float = option(
        "What it counts for.",
        number(above=0),
        default=1.0,
        code="option-mass",
    )
    t: float | str = option(
        "Where.",
        word_or("all", share()),
        default="all",
    )
    kind: str = option(
        "Which.",
        word("plain", "fancy"),
        default="plain",
    )
    p: int = option(
        "Order.",
        order(),
        default=2,
    )
    seed: int = option(
        "Seed.",
        seed(),
        default=0,
    )
    quick: bool = option(
        "Whether to hurry.",
        truth(),
        default=False,
    )


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"size": 1}, "option-size"),
        ({"size": 10}, "option-size"),
        ({"size": True}, "option-size"),
        ({"size": 2.5}, "option-size"),
        ({"weight": 0}, "option-mass"),
        ({"weight": float("nan")}, "option-mass"),
        ({"weight": "1"}, "option-mass"),
        ({"t": 1.0}, "option-t"),
        ({"t": "some"}, "option-t"),
        ({"kind": "odd"}, "option-kind"),
        ({"kind": None}, "option-kind"),
        ({"p": 3}, "option-p"),
        ({"p": True}, "option-p"),
        ({"seed": -1}, "option-seed"),
        ({"quick": 1}, "option-quick"),
        ({"sise": 3}, "option-unknown"),
    ],
    ids=str,
)
def test_a_wrong_value_is_a_coded_error(options: dict[str, Any], code: str) -> None:
    with pytest.raises(InputError) as caught:
        Few(**options)
    assert caught.value.code == code
    assert next(iter(options)) in caught.value.message


def test_values_become_plain_and_numbers_of_numpy_count() -> None:
    made = Few(size=np.int64(3), weight=np.float32(0.5), quick=np.bool_(True))  # type: ignore[arg-type]
    assert (made.size, made.weight, made.quick) == (3, 0.5, True)
    assert type(made.size) is int and type(made.weight) is float and type(made.quick) is bool


def test_options_are_frozen_and_a_copy_is_checked_again() -> None:
    made = Few(size=3)
    with pytest.raises(FrozenInstanceError):
        made.size = 4  # type: ignore[misc]
    assert made.having(size=5).size == 5 and made.size == 3
    with pytest.raises(InputError, match="option-size"):
        made.having(size=99)
    assert made.chosen() == {"size": 3}


def test_the_docstring_has_every_option_before_the_notes() -> None:
    text = Few.__doc__ or ""
    assert text.startswith("A few options.\n")
    for item in declared(Few):
        assert (
            f"{item.name} : {item.check.words}, default {item.default!r}\n    {item.help}" in text
        )
    assert text.index("Parameters") < text.index("seed :") < text.index("Notes")


def test_a_function_has_its_own_parameters_before_those_of_its_options() -> None:
    own = "Do it.\n\nParameters\n----------\nx\n    What.\n\nReturns\n-------\nint\n"
    text = documented(Few, own)
    assert text.count("Parameters") == 1
    places = [text.index(part) for part in ("What.", "size :", "seed :", "Returns")]
    assert places == sorted(places)


@pytest.mark.parametrize("kind", [FedWaD, TriangleWad])
def test_a_method_as_an_object_gives_what_its_name_gives(kind: type[Any]) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(12, 2)), rng.normal(size=(9, 2)) + 1.0
    options = {"support": 6, "t": 0.4, "seed": 3}
    named = silot.distance(x, y, method=kind.name, **options).to_dict()
    made = silot.distance(x, y, kind(**options)).to_dict()
    assert made | {"seconds": 0} == named | {"seconds": 0}
    pairs = silot.distance_matrix({"a": x, "b": y}, kind(**options))
    assert pairs["a", "b"].value == named["value"]


@pytest.mark.parametrize(
    "kind",
    [CountBroken, FedBary, Pooled, RecordGradients, RecordScreening, Sketching, Valuation],
)
def test_a_computation_over_holders_is_a_class_of_options(kind: type[Any]) -> None:
    with pytest.raises(InputError) as caught:
        kind(nope=1)
    assert caught.value.code == "option-unknown"
    text = kind.__doc__ or ""
    assert all(f"\n{name} : " in text for name in kind.options)
    assert text.index("Parameters") < text.index("Returns")


def test_a_part_is_from_zero_up_to_but_not_one() -> None:
    assert RecordScreening(fdr=0).fdr == 0 and FedBary(place=0.5).place == 0.5
    for build in (lambda: RecordScreening(fdr=1), lambda: FedBary(place=-0.1)):
        with pytest.raises(InputError, match="up to, not including, 1"):
            build()


def test_an_object_takes_no_options_beside_it() -> None:
    with pytest.raises(InputError) as caught:
        silot.distance([[0.0]], [[1.0]], FedWaD(), support=3)  # type: ignore[call-overload]
    assert caught.value.code == "option-method" and "FedWaD(...)" in caught.value.message


def test_unknown_options_of_every_call_are_coded_errors() -> None:
    x = np.random.default_rng(0).normal(size=(8, 2))
    calls = (
        lambda: silot.pooled_distance({"a": x}, x, nope=1),
        lambda: silot.value_holders({"a": x}, x, nope=1),
        lambda: silot.value_holders({"a": x}, x, embedding="full"),
        lambda: silot.barycenter({"a": x}, nope=1),
        lambda: silot.coreset({"a": x}, nope=1),
        lambda: silot.compare({"a": x}, x, nope=1),
        lambda: silot.value_records(x, x, nope=1),
        lambda: silot.value_records(x, x, method="published", fdr=0.1),
        lambda: silot.adapt({"a": x, "b": x}, nope=1),
        lambda: silot.api.sketches({"a": x, "b": x}, why=True),
    )
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code == "option-unknown" and "it takes" in caught.value.message


def test_a_class_without_a_name_of_its_own_does_not_pass_for_its_base() -> None:
    class Quiet(FedWaD):
        """Would be taken for FedWaD."""

    with pytest.raises(InputError) as caught:
        silot.distance([[0.0]], [[1.0]], Quiet())
    assert caught.value.code == "option-method" and "Quiet" in caught.value.message


def test_labels_and_not_the_method_decide_on_the_embedding() -> None:
    x = silot.Measure(np.eye(4), labels=["a", "a", "b", "b"])
    calls = (
        lambda: silot.distance(x, x, FedWaD(embedding="full")),
        lambda: silot.distance(x, x, method="direct", embedding="full"),
        lambda: silot.distance(x, x, method="sketch", public=x, embedding="full"),
        lambda: silot.value_holders({"a": x}, x, method="sketch", public=x, embedding="full"),
    )
    for call in calls:
        with pytest.raises(InputError) as caught:
            call()
        assert caught.value.code in ("option-method", "option-unknown")
        assert "labels=" in caught.value.message


def test_a_reference_is_what_was_checked() -> None:
    reference = np.zeros((3, 2))
    method = FedWaD(reference=reference)
    reference[:] = np.nan
    assert np.isfinite(method.public.points).all()


def test_an_error_repeats_no_data_of_a_method() -> None:
    x = np.full((5, 2), 8675309.25)
    with pytest.raises(InputError) as caught:
        silot.value_holders({"a": x}, x, method=FedWaD(reference=x))  # type: ignore[arg-type]
    assert caught.value.code == "option-method" and "8675309" not in caught.value.message


def test_every_flag_of_a_command_is_named_on_a_page_or_given_in_a_test() -> None:
    """A flag that nobody shows is one that nobody needs: show it, or take it away."""
    root = Path(__file__).parents[1]
    files = [root / "README.md", *(root / "docs").glob("*.md"), *(root / "tests").rglob("*.py")]
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(map(Path.read_text, files))))
    missing = [
        f"{name} {option.opts[0]}"
        for name, command in leaves(typer.main.get_command(app), "silot")
        for option in command.params
        if option.opts[0].startswith("--") and not {*option.opts, *option.secondary_opts} & shown
    ]
    assert missing == []


def leaves(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Commands that have no commands of their own, by what one types."""
    inner = getattr(command, "commands", {})
    for typed, child in inner.items():
        yield from leaves(child, f"{name} {typed}")
    if not inner:
        yield name, command


def public_functions() -> Iterator[tuple[str, Any]]:
    """List every function that silot or one of its packages has in its ``__all__``."""
    for name, module in modules().items():
        if module.path.name == "__init__.py" and name.startswith("silot"):
            package = importlib.import_module(name)
            names = getattr(package, "__all__", ())
            yield from ((f"{name}.{word}", getattr(package, word)) for word in names)


def test_an_editor_knows_the_options_of_every_public_function() -> None:
    untyped = {
        name
        for name, item in public_functions()
        if inspect.isfunction(item)
        for kind in [inspect.getfullargspec(inspect.unwrap(item)).varkw]
        if kind and item.__annotations__.get(kind) in ("Any", "object", Any, object, None)
    }
    # Columns of a table of results: whatever a column shows.
    assert {name for name in untyped if not name.startswith("silot.render.")} == set()


def test_what_an_editor_knows_is_what_classes_declare() -> None:
    assert keywords.PATH.read_text(encoding="utf-8") == keywords.written(), (
        "run python -m tests.keywords"
    )


def test_every_distance_method_has_its_options_where_a_distance_is_computed() -> None:
    kinds, without = silot.distance.takes  # type: ignore[attr-defined]
    assert without >= {"embedding"}
    assert {kind.name for kind in kinds if kind.name} >= silot.api.METHODS.keys() & {
        kind.name for kind in silot.api.METHODS.values() if kind.__module__.startswith("silot.")
    }


def test_a_misspelt_option_is_an_error_in_an_editor(tmp_path: Path) -> None:
    """Every function that takes options is called with one that nothing has."""
    takers = list(keywords.functions())
    assert len(takers) >= 18
    lines = [
        f"from {item.__module__} import {item.__name__} as f{k}; f{k}(*a, misspelt=1)"
        for k, item in enumerate(takers)
    ]
    (tmp_path / "calls.py").write_text("\n".join(["from typing import Any", "a: Any = ()", *lines]))
    paths = [str(path.parent) for path in house.PACKAGES]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"extraPaths": paths}))
    run = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "-p", str(tmp_path)],
        capture_output=True,
        text=True,
    )
    refused = {
        item["range"]["start"]["line"]
        for item in json.loads(run.stdout)["generalDiagnostics"]
        if 'No parameter named "misspelt"' in item["message"]
    }
    assert refused == {k + 2 for k in range(len(takers))}
