"""The engine: real secret shares, all parties in this process."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import silot
from silot.data.measure import Measure
from silot.errors import InputError, SolverError
from silot.sites.secure import SecureOptions
from silot.sites.secure.charging import mu_of_laplace
from silot_transport import exact_plan

from .needs import needs_noise, needs_spu

pytestmark = [needs_spu, pytest.mark.slow, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3)) * [1.0, 2.0, 0.5]
Y = RNG.normal(size=(30, 3)) + 0.7


def test_weighted_distance_is_certified_and_nothing_but_the_number_is_told(tmp_path: Path) -> None:
    a, b = RNG.random(40) + 0.01, RNG.random(30) + 0.01
    result = silot.distance(Measure(X, a), Measure(Y, b), method="secure")
    exact = exact_plan(X, Y, a / a.sum(), b / b.sum()).upper
    assert abs(result.value / exact - 1.0) < 0.01
    assert result.lower <= exact <= result.upper
    assert result.status.startswith("simulation")
    assert result.disclosure == "statistics"
    assert result.bytes_sent > 0
    assert len(result.history) == 3
    assert json.loads(result.to_json())["method"] == "secure"
    transcript = result.transcript
    assert transcript is not None
    transcript.save(tmp_path / "run.transcript")
    data = (tmp_path / "run.transcript").read_bytes()
    for cloud in (X, Y, X - (a / a.sum()) @ X, Y - (b / b.sum()) @ Y):
        for value in cloud.ravel():
            assert np.float64(value).tobytes() not in data
            assert np.float32(value).tobytes() not in data
    assert [len(entry.payload) < 400 for entry in transcript.entries] == [True] * 5


def test_a_pooled_distance_is_that_of_the_union() -> None:
    z = RNG.normal(size=(20, 3)) - 2.0
    result = silot.pooled_distance({"s": X, "t": z}, Y, method="secure")
    exact = exact_plan(np.concatenate([X, z]), Y).upper
    assert abs(result.value / exact - 1.0) < 0.01
    assert result.holders == ("s+t", "coordinator")


def test_labels_are_compared_through_their_vectors() -> None:
    x = Measure(X, labels=RNG.integers(2, size=40))
    y = Measure(Y, labels=RNG.integers(2, size=30))
    result = silot.distance(x, y, method="secure", labels=True)
    assert abs(result.value / silot.distance(x, y, labels=True).value - 1.0) < 0.01


@pytest.mark.parametrize("offset", [0.0, 1e9])
def test_one_record_each_whatever_the_offset(offset: float) -> None:
    result = silot.distance([[offset, 0.0]], [[offset + 3.0, 4.0]], method="secure")
    assert result.value == pytest.approx(5.0, rel=1e-4)


def test_numbers_out_of_range_are_an_error_and_never_a_distance() -> None:
    with pytest.raises(SolverError) as caught:
        silot.distance(X, Y + 1e6, method="secure")
    assert caught.value.code == "secure-range"


def test_two_parties_out_of_range_are_an_error_too() -> None:
    with pytest.raises(SolverError) as caught:
        silot.distance(X[:2], Y[:2] + 2000.0, method="secure", two_party=True)
    assert caught.value.code == "secure-range"


@needs_noise
def test_noise_is_added_inside() -> None:
    options = {"method": "secure", "privacy_epsilon": 20.0, "diameter": 8.0}
    one, two = (silot.distance(X, Y, **options) for _ in range(2))
    assert one.value != two.value
    assert (one.lower, one.upper) == (0.0, np.inf)
    assert one.interval is not None
    assert one.privacy_mu == pytest.approx(mu_of_laplace(20.0))


def test_two_parties_need_no_third() -> None:
    result = silot.distance(X[:12], Y[:10], method="secure", two_party=True)
    exact = exact_plan(X[:12], Y[:10]).upper
    assert abs(result.value / exact - 1.0) < 0.02
    assert len(result.history) == 2


@pytest.mark.parametrize("kind", ["SEMI2K", "REF2K", "SECURENN"])
def test_a_configuration_one_party_could_open_is_refused(kind: str) -> None:
    from silot.sites.secure import _engine as engine

    lib = engine.import_spu().libspu
    config = lib.RuntimeConfig(
        protocol=getattr(lib.ProtocolKind, kind), field=lib.FieldType.FM64, fxp_fraction_bits=18
    )
    for parties in (1, 2, 3):
        with pytest.raises(InputError) as caught:
            engine.check_trust(config, parties)
        assert caught.value.code == "secure-trust"
    with pytest.raises(InputError) as caught:
        engine.check_trust(engine.configure(SecureOptions().program((3, 3), 1, 2)), 2)
    assert caught.value.code == "secure-trust"


def test_the_command_prints_json_and_nothing_else(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X[:10])
    np.savez(tmp_path / "b.npz", X=Y[:8])
    arguments = ["distance", "a.npz", "b.npz", "--method", "secure", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", "from silot.cli import main; main()", *arguments],
        capture_output=True, text=True, cwd=tmp_path, timeout=1200, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["disclosure"] == "statistics"


def test_the_command_tells_what_it_will_take(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", X=X[:10])
    np.savez(tmp_path / "b.npz", X=Y[:8])
    arguments = ["distance", "a.npz", "b.npz", "--method", "secure", "--accuracy", "fast"]
    done = subprocess.run(
        [sys.executable, "-c", "from silot.cli import main; main()", *arguments],
        capture_output=True, text=True, cwd=tmp_path, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stderr.startswith("about to take ")
    assert "messages sent" in " ".join(done.stderr.split())
    assert all(len(line) <= 80 for line in done.stderr.splitlines())
    assert "W2" in done.stdout


@pytest.mark.parametrize("accuracy", ["fast", "normal"])
@pytest.mark.parametrize("kind", ["near", "heavy tails", "clusters", "nearly equal", "weighted"])
def test_bounds_hold_on_shares(kind: str, accuracy: str) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(30, 3)), rng.normal(size=(25, 3))
    a, b = np.ones(30), np.ones(25)
    if kind == "heavy tails":
        x, y = rng.standard_t(1.5, (30, 3)), rng.standard_t(1.5, (25, 3)) + 1.0
    elif kind == "clusters":
        x[:10] += 40.0
        y[:3] += 40.0
    elif kind == "nearly equal":
        x = np.concatenate([y, y[:5]]) + 1e-3 * rng.normal(size=(30, 3))
        x, y = x[:25], y
        a = np.ones(25)
    elif kind == "weighted":
        a, b = rng.lognormal(0.0, 1.0, 30), rng.lognormal(0.0, 1.0, 25)
    scale = float(np.sqrt(x.var(0).sum() + y.var(0).sum()))
    result = silot.distance(
        Measure(x, a), Measure(y, b), method="secure", scale=scale, accuracy=accuracy
    )
    exact = exact_plan(x, y, a / a.sum(), b / b.sum()).upper
    # Fixed point of the fast setting tells squares apart to 3e-4 of the independent cost.
    assert result.lower <= exact + (1e-6 if accuracy == "normal" else 1e-3) * scale
    assert exact <= result.upper * (1.0 + 1e-9)
    if kind != "nearly equal" or accuracy == "normal":
        assert result.value == pytest.approx(exact, rel=0.05)
