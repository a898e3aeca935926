"""``silot privacy audit`` as a user runs it."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

import silot
from silot.cli.audit import named_files
from silot.data.loading import read_shape
from silot.errors import InputError

from .test_commands import silot as command

DIGITS = load_digits().data / 16.0
X, Y = DIGITS[:30], DIGITS[100:140]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    np.savez(folder / "x.npz", X=X)
    np.savez(folder / "other.npz", X=Y)
    np.savez(folder / "out.npz", X=DIGITS[200:230])
    words = "\n".join(f"w{k}" for k in range(140))
    np.savez(folder / "words.npz", words=np.array(words), vectors=DIGITS[:140])
    silot.distance(X, Y, method="trianglewad").transcript.save(folder / "run.transcript")
    split = silot.distance(X, Y, method="trianglewad", interpolation="barycentric")
    split.transcript.save(folder / "split.transcript")
    return folder


def test_audit_prints_json_and_nothing_else(files: Path) -> None:
    done = command(
        "privacy", "audit", files / "run.transcript", "--truth", files / "x.npz",
        "--truth", f"y={files / 'other.npz'}", "--json",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed["exact_rates"] == {"x": 1.0, "y": 1.0}
    assert printed["viewpoint"] == "coordinator"


def test_audit_prints_rates_and_a_verdict_within_80_columns(files: Path) -> None:
    done = command("privacy", "audit", files / "run.transcript", "--truth", files / "x.npz")
    assert done.returncode == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for word in ("direct-inversion", "100.0 %", "verdict", "proven by the messages"):
        assert word in " ".join(done.stdout.split())


def test_audit_says_what_a_time_limit_cut_off(files: Path) -> None:
    done = command("privacy", "audit", files / "split.transcript", "--time-limit", "1e-9")
    assert done.returncode == 0
    assert "not finished projection-inversion on x and y" in " ".join(done.stdout.split())


def test_audit_from_a_holder_without_truth_says_what_it_could_not_do(files: Path) -> None:
    done = command("privacy", "audit", files / "run.transcript", "--as", "x")
    assert done.returncode == 0
    assert "not recovered by these attacks" in " ".join(done.stdout.split())


def test_audit_takes_words_outsiders_and_writes_a_report(files: Path) -> None:
    done = command(
        "privacy", "audit", files / "run.transcript", "--truth", files / "x.npz", "--hide-t",
        "--vocabulary", files / "words.npz", "--outsiders", files / "out.npz",
        "--image-shape", "8x8", "--report", files / "audit.html", "--json",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    applied = [one for one in json.loads(done.stdout)["attacks"] if one["exact_rate"] is not None]
    assert applied[0]["name"] == "unknown-parameter"
    assert applied[0]["matching_rate"] == applied[0]["membership_auc"] == 1.0
    assert "reconstruction of record 0" in (files / "audit.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("run.transcript", "--as", "nobody"), 3, "audit-viewpoint"),
        (("run.transcript", "--truth", "other.npz"), 5, "audit-truth"),
        (("run.transcript", "--truth", "x.npz", "--truth", "x=x.npz"), 3, "audit-truth"),
        (("run.transcript", "--image-shape", "28"), 3, "option-image-shape"),
        (("run.transcript", "--time-limit", "0"), 3, "option-time-limit"),
        (("run.transcript", "--vocabulary", "x.npz"), 4, "file-unreadable"),
        (("run.transcript", "--report", "nowhere/a.html"), 4, "file-unwritable"),
        (("x.npz",), 4, "file-unreadable"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    files: Path, arguments: tuple[str, ...], status: int, code: str
) -> None:
    done = command("privacy", "audit", *arguments, cwd=files)
    assert done.returncode == status
    assert f"[{code}]" in done.stderr
    assert "Traceback" not in done.stderr


def test_files_are_named_by_the_holder_or_by_hand() -> None:
    found = named_files(["north.npz", "x=data/a=b.csv"])
    assert found == {"north": Path("north.npz"), "x": Path("data/a=b.csv")}


def test_shapes_are_two_or_three_numbers() -> None:
    assert read_shape("28x28") == (28, 28)
    assert read_shape("32X32x3") == (32, 32, 3)
    for text in ("28", "0x3", "axb", "1x2x3x4"):
        with pytest.raises(InputError):
            read_shape(text)
