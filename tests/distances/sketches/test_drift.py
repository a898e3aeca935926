"""Drift between releases of one site: silent where nothing changed, loud where much did."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import silot
from silot.api import report
from silot.api.combine import watch
from silot.api.release import release
from silot.distances.sketches import Drift
from silot.errors import SilotError

PUBLIC = np.random.default_rng(3).normal(size=(400, 3))


@pytest.fixture(autouse=True, scope="module")
def _same_noise() -> Iterator[None]:
    """Noise of a seed, as wide as the real one: an alarm of chance would fail one run of twenty."""
    rng = np.random.default_rng(11)

    def seeded(sensitivity: float, mu: float) -> Any:
        def noisy(values: Any) -> Any:
            noise = rng.normal(scale=sensitivity / mu, size=len(values))
            return values + np.rint(noise).astype(np.int64)

        return noisy

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("silot.federation.party.noise_for", seeded)
        yield


def months(folder: Path, shifts: dict[str, list[float]], **options: Any) -> list[Path]:
    rng, files = np.random.default_rng(4), []
    told = {"name": "north", "public": PUBLIC, "budget_epsilon": 9.0, **options}
    for month, shift in shifts.items():
        files.append(folder / f"{month}.release")
        x = rng.normal(size=(2000, 3)) + shift
        release(x, files[-1], ledger=folder / "north.ledger", period=month, **told)
    return files


def code_of(call: Any) -> str:
    with pytest.raises(SilotError) as caught:
        call()
    return caught.value.code


@pytest.fixture(scope="module")
def drifted(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Path], Drift]:
    still, moved = [0.0, 0.0, 0.0], [0.0, 0.6, 0.0]
    folder = tmp_path_factory.mktemp("year")
    files = months(folder, {"2026-08": still, "2026-09": still, "2026-10": moved})
    return files, watch(files, PUBLIC)


@pytest.mark.heavy
def test_a_column_that_moved_is_named(drifted: tuple[list[Path], Drift]) -> None:
    _, found = drifted
    assert found.drifted and [each.drifted for each in found.since] == [True, True]
    for each in found.since:
        assert each.test.drivers == ("column 1",)
        change = each.test["column 1"]
        assert change.shift == pytest.approx(0.6, abs=0.25) and change.shift_interval[0] > 0
    assert "column 1" in found.status and found.period == "2026-10"


@pytest.mark.heavy
def test_nothing_is_said_where_nothing_moved(drifted: tuple[list[Path], Drift]) -> None:
    files, _ = drifted
    found = watch(files[:2], PUBLIC)
    assert not found.drifted and found.status.startswith("no drift")
    assert "would have been detected" in found.status
    assert not any(each.test.drivers for each in found.since)


@pytest.mark.heavy
def test_the_order_of_drift_turns_with_the_files(drifted: tuple[list[Path], Drift]) -> None:
    files, found = drifted
    back = watch([files[2], files[0]], PUBLIC)
    there = found.since[0]
    # Sizes that differ little are taken for one, of all that are given.
    assert back.since[0].distance.value == pytest.approx(there.distance.value, rel=0.1)
    shifts = [item.test["column 1"].shift for item in (back.since[0], there)]
    assert shifts[0] == pytest.approx(-shifts[1])


def test_it_is_shown(drifted: tuple[list[Path], Drift]) -> None:
    _, found = drifted
    page = report.render(found)
    assert "2026-08" in page and "column 1" in page and "no schema" in page
    body = found.to_dict()
    assert body["drifted"] and len(body["since"][0]["test"]["columns"]) == 3


def test_releases_of_two_sites_or_of_one_period_are_refused(
    drifted: tuple[list[Path], Drift], tmp_path: Path
) -> None:
    files, _ = drifted
    other = months(tmp_path, {"2026-08": [0.0] * 3})
    assert code_of(lambda: watch([files[0], *other], PUBLIC)) == "release-site"
    assert code_of(lambda: watch([files[0], files[0]], PUBLIC)) == "release-twice"
    assert code_of(lambda: watch(files[:1], PUBLIC)) == "release-few"
    assert code_of(lambda: watch(files[:2])) == "public-absent"
    assert code_of(lambda: watch(files[:2], PUBLIC[:-1])) == "public-mismatch"


@pytest.mark.slow
def test_few_alarms_where_nothing_moved_and_many_where_much_did() -> None:
    from silot import Measure, Policy
    from silot.distances.sketches.drift import compare_two
    from silot.distances.sketches.sketch import Sketching
    from silot.federation import Holder, LocalFederation
    from silot.privacy import Ledger

    rng = np.random.default_rng(9)
    data = {f"still{k}": rng.normal(size=(1500, 3)) for k in range(24)}
    data |= {f"moved{k}": rng.normal([0.4, 0.0, 0.0], size=(1500, 3)) for k in range(8)}
    rules = Policy(privacy_epsilon=1.0)
    holders = {name: Holder(Measure(x), rules, Ledger()) for name, x in data.items()}
    found = LocalFederation(holders).run(Sketching(public=PUBLIC, cells=45).among(list(data)))

    def alarm(a: str, b: str) -> bool:
        return compare_two(found, a, b, 0.05).verdict == "different"

    # One in twenty is expected: more than 4 of 12 happen once in 5,000 times.
    assert sum(alarm(f"still{2 * k}", f"still{2 * k + 1}") for k in range(12)) <= 4
    assert sum(alarm(f"still{k}", f"moved{k}") for k in range(8)) >= 6


def test_releases_by_a_quadtree_are_not_called_alike_or_different() -> None:
    """They have no counts in cells that a test could compare."""
    x = np.random.default_rng(5).normal(size=(3, 400, 2))
    law = {"public_mean": [0.0, 0.0], "public_scale": [1.0, 1.0]}
    result = silot.compare({"a": x[0], "b": x[1]}, x[2], privacy_epsilon=2.0, **law)
    assert {item.verb for item in result.decisions} == {"apart"}
    assert all("quadtree" in item.reason for item in result.decisions)
