"""What ``silot doctor`` tells of an installation."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from silot.cli.app import build
from silot.errors import InputError
from silot.render.sections import Facts, Paragraph
from silot.sites import installation
from silot.sites.installation import checkup
from silot_transport import _native, forecast
from silot_transport._native import kernels


def words(found: installation.Checkup) -> str:
    return " ".join(
        f"{name} {text}"
        for block in found.sections()
        if isinstance(block, Facts)
        for name, text in block.rows
    )


def test_the_kernels_in_use_are_named() -> None:
    found = checkup()
    assert found.kernels == ("none" if kernels is None else kernels.used())
    assert found.sets == (() if kernels is None else tuple(kernels.sets()))
    assert f"kernels {found.kernels}" in words(found)
    assert found.expected is None
    assert found.versions["numpy"] == np.__version__


@pytest.mark.skipif(kernels is None, reason="no compiled kernels here")
def test_a_narrower_set_is_told() -> None:
    assert kernels is not None
    before = kernels.used()
    kernels.use("portable")
    found = checkup()
    kernels.use(before)
    assert found.kernels == "portable"
    assert found.sets == ("portable",) or f"{found.sets[0]} too" in found.reason


def test_a_missing_extension_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "silot_transport._kernels", None)
    kernels, missing = _native._load()
    monkeypatch.setattr(_native, "kernels", kernels)
    monkeypatch.setattr(_native, "missing", missing)
    found = checkup()
    assert (found.kernels, found.sets) == ("none", ())
    assert "pure Python" in found.reason and "compiler" in found.reason


def test_the_gpu_is_named_or_why_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "find_spec", lambda name: None)
    assert "gpu none: torch is not installed" in words(checkup())
    monkeypatch.setattr(installation, "find_spec", lambda name: object())
    # A build for the host alone is not imported.
    monkeypatch.setattr(installation.metadata, "version", lambda name: "2.9.0+cpu")
    monkeypatch.setitem(sys.modules, "torch", None)
    assert checkup().gpu == "none: torch 2.9.0+cpu is built without"
    found = SimpleNamespace(
        is_available=lambda: True, device_count=lambda: 2, get_device_name=lambda k: f"card {k}"
    )
    monkeypatch.setattr(installation.metadata, "version", lambda name: "2.9.0")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=found))
    assert checkup().gpu == "card 0, card 1"
    found.is_available = lambda: False
    assert checkup().gpu == "none: torch 2.9.0 finds no CUDA device"


def test_what_extras_lack_is_named_with_the_line_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [
        "numpy>=1.26",
        "no-such-library>=2; extra == 'torch'",
        'numpy; extra == "torch"',
        "scipy; extra == 'gp'",
    ]
    monkeypatch.setattr(installation.metadata, "requires", lambda name: lines)
    found = checkup()
    assert found.extras == {"gp": (), "torch": ("no-such-library",)}
    assert "gp found" in words(found)
    assert "missing no-such-library: pip install 'silot[torch]'" in words(found)


def test_a_problem_is_forecast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_TRIAL", 20)
    found = checkup(30_000, dim=8)
    expected = found.expected
    assert expected is not None and (expected.n, expected.m) == (30_000, 30_000)
    assert expected.memory.peak_bytes == forecast(30_000, 30_000, 8).peak_bytes
    assert expected.seconds > 0
    fits = [block for block in found.sections() if isinstance(block, Paragraph)]
    assert bool(fits) != expected.memory.fits


@pytest.mark.parametrize("sizes", [(0, None), (-1, 5), (5, 0)])
def test_sizes_that_are_no_counts_are_refused(sizes: tuple[int, int | None]) -> None:
    with pytest.raises(InputError) as refused:
        checkup(*sizes)
    assert refused.value.code == "option-size"


def test_the_command_prints_json_of_the_same_fields(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installation, "_TRIAL", 20)
    done = CliRunner().invoke(build("doctor"), ["doctor", "--n", "100", "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["kernels"] == checkup().kernels
    assert told["expected"]["memory"]["cost_bytes"] == 80_000
    assert "kernels" in CliRunner().invoke(build("doctor"), ["doctor"]).stdout
