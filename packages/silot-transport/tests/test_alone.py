"""The package is usable alone: its README prints what it says, and it needs numpy and scipy."""

from __future__ import annotations

import ast
import doctest
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import silot_transport

HOME = Path(__file__).parents[1]
README = HOME / "README.md"
TESTS = [*HOME.glob("tests/**/*.py"), *(HOME.parents[1] / "tests/problems").glob("*.py")]


def test_every_example_of_the_readme_prints_what_it_says() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert blocks and all(">>>" in block for block in blocks)
    names: dict[str, object] = {}
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for number, block in enumerate(blocks):
        if "torch" in block and importlib.util.find_spec("torch") is None:
            continue
        # Later blocks use names of earlier ones, as a reader would.
        test = doctest.DocTestParser().get_doctest(block, names, f"block {number}", str(README), 0)
        runner.run(test, clear_globs=False)
        names = test.globs
    assert runner.summarize(verbose=False).failed == 0


def test_the_readme_names_every_function_and_extra() -> None:
    text = README.read_text()
    functions = [name for name in silot_transport.__all__ if name.islower()]
    assert [name for name in functions if f"`{name}`" not in text] == []
    extras = tomllib.loads((HOME / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    assert [extra for extra in extras if f"`{extra}`" not in text] == []


ALONE = """
import sys

from importlib.machinery import PathFinder

find = PathFinder.find_spec

def find_allowed(name, path=None, target=None):
    package = name.partition(".")[0]
    allowed = {"numpy", "scipy", "silot_transport", *sys.stdlib_module_names}
    return find(name, path, target) if package in allowed or package[0] == "_" else None

PathFinder.find_spec = find_allowed
import silot_transport
assert "scipy" not in sys.modules, "importing the package imports no solver"
import numpy as np
rng = np.random.default_rng(0)
x, y = rng.normal(size=(1500, 5)), rng.normal(size=(1400, 5))
plan = silot_transport.exact_plan(x, y, rng.random(1500), rng.random(1400))
assert plan.optimal, plan
for name in silot_transport.__all__:
    getattr(silot_transport, name)
try:
    silot_transport.torch.wasserstein
except silot_transport.errors.ExtraError as error:
    print(error)
"""


@pytest.mark.heavy
@pytest.mark.skipif(silot_transport._native.kernels is None, reason="no compiled kernels")
def test_numpy_and_scipy_are_enough() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "pip install 'silot-transport[torch]'" in done.stdout


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_tests_of_the_package_import_nothing_of_silot(path: Path) -> None:
    for node in ast.walk(ast.parse(path.read_text())):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        assert not [name for name in names if name.partition(".")[0] == "silot"]


def test_no_text_of_the_package_asks_for_silot() -> None:
    # The package may be installed without silot, whose commands then do not exist.
    source = HOME / "src/silot_transport"
    words = re.compile(r"`silot |silot\.(distance|torch|transport)|silot doctor|'silot\[")
    assert [path.name for path in source.rglob("*.py") if words.search(path.read_text())] == []
