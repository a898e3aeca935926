"""Run the same suite at three depths: for a commit, for a merge and every night.

A tier says how many parameter sets of one test function run, which share of the functions that
take seconds, which share of hypothesis's examples, and which marks it leaves out. Nothing is lost:
what one commit deselects runs within the next few commits, and ``--tier nightly`` runs all of it.
"""

from __future__ import annotations

import gc
import hashlib
import math
import os
import subprocess
from collections import defaultdict
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Hypothesis's own default is 100: 40 examples keep a property that solves problems within seconds.
_DEFAULT_EXAMPLES = 40
# Fewer examples than this would only be hypothesis's simplest ones, such as zero and an empty list.
_FEWEST_EXAMPLES = 5


@dataclass(frozen=True)
class Tier:
    """How deep a run of the suite goes."""

    # A function with more parameter sets than this is thinned, so far that all sets of it run
    # within this number of commits.
    parameter_sets: float
    commits: int
    # A function that is marked ``heavy`` runs once in so many commits.
    heavy_commits: int
    share_of_examples: float
    # The marks that run, as pytest's option -m writes them.
    marks: str
    # The same examples every time: a change, not chance, makes a commit fail.
    is_repeatable: bool


TIERS = {
    "commit": Tier(4, 8, 4, 0.25, "not slow and not real and not nightly", True),
    "merge": Tier(16, 4, 1, 1.0, "not real and not nightly", True),
    "nightly": Tier(math.inf, 1, 1, 5.0, "", False),
}

_tier = TIERS["merge"]


def examples(number: int) -> int:
    """Scale a number of hypothesis examples, which is meant for a merge, to the tier that runs."""
    return max(min(number, _FEWEST_EXAMPLES), round(number * _tier.share_of_examples))


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("silot")
    group.addoption("--tier", choices=[*TIERS], default="merge", help="how deep the suite goes")
    group.addoption(
        "--turn", type=int, help="which parameter sets have their turn (default: number of commits)"
    )


def pytest_configure(config: pytest.Config) -> None:
    global _tier
    _tier = TIERS[config.getoption("--tier")]
    # Workers of xdist receive the options of the main process, so all of them select the same.
    if config.option.turn is None:
        config.option.turn = count_commits(config.rootpath)
    config.option.markexpr = config.option.markexpr or _tier.marks
    # A busy machine must fail no test, so no example has a deadline.
    settings.register_profile(
        "tier",
        deadline=None,
        derandomize=_tier.is_repeatable,
        max_examples=examples(_DEFAULT_EXAMPLES),
    )
    settings.load_profile("tier")


def count_commits(folder: Path) -> int:
    """Count the commits before this one. A clone without its history has the time of the commit."""
    for command in ("rev-list --count HEAD", "log -1 --format=%ct"):
        run = subprocess.run(
            ["git", *command.split()], cwd=folder, capture_output=True, text=True, check=False
        )
        if run.returncode == 0 and int(run.stdout) > 1:
            return int(run.stdout)
    return 0


def take_turn(names: Sequence[str], tier: Tier, turn: int) -> set[str]:
    """Choose some of the names: the first and the last always, the others in turns."""
    if len(names) <= tier.parameter_sets:
        return set(names)
    # In the order of parametrization neighbours differ in one value; a hash mixes them.
    inner = sorted(names[1:-1], key=lambda name: hashlib.sha256(name.encode()).digest())
    share = max(int(tier.parameter_sets) - 2, math.ceil(len(inner) / tier.commits))
    start = turn * share % len(inner)
    return {names[0], names[-1], *(inner + inner)[start : start + share]}


def has_turn(name: str, tier: Tier, turn: int) -> bool:
    """Return whether a heavy function runs for this commit."""
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8])
    return (place + turn) % tier.heavy_commits == 0


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return one worker more than cores: some tests wait for processes that they started."""
    return (os.cpu_count() or 1) + 1


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Generator[None, list[Any], list[Any]]:
    """Look for doctests where a file of a package has examples: looking imports the file."""
    collectors = yield
    is_source = file_path.suffix == ".py" and "tests" not in file_path.parts
    if is_source and ">>>" in file_path.read_text(encoding="utf-8"):
        return collectors
    return [one for one in collectors if type(one) is pytest.Module]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    selected: set[str] = set()
    for function, cases in functions.items():
        is_heavy = any(item.get_closest_marker("heavy") for item in cases)
        if is_heavy and not has_turn(function, _tier, config.option.turn):
            continue
        is_exempt = any(item.get_closest_marker("all_cases") for item in cases)
        names = [item.nodeid for item in cases]
        selected |= set(names) if is_exempt else take_turn(names, _tier, config.option.turn)
    deselected = [item for item in items if item.nodeid not in selected]
    if deselected:
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item.nodeid in selected]


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives to the end of the run anyhow.

    Tests that end a ledger collect garbage, and walking all modules and tests takes half a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _share_what_is_slow() -> None:
    """Compute the calibration of sketches once, and check each private key of a test once."""
    from cryptography.hazmat.primitives import serialization

    from tests.calibrations import share_calibrations

    share_calibrations()
    # Reading an RSA key proves its primes again, which takes a tenth of a second.
    serialization.load_pem_private_key = lru_cache(maxsize=256)(serialization.load_pem_private_key)


def pytest_report_header(config: pytest.Config) -> str:
    return f"tier: {config.getoption('--tier')}, turn: {config.option.turn}"
