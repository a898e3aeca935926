"""The command as a user runs it: a process, its two streams, its exit status."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from silot import distance
from silot.api._methods import METHODS
from silot.cli import console
from silot.cli.app import _find_status, build
from silot.errors import ExtraError, HolderError
from silot.federation import Transcript
from silot.sites.secure import forecast
from tests.cli.running import silot
from tests.lazily import package

pl = package("polars")

RNG = np.random.default_rng(0)
X = RNG.normal(size=(30, 3))
Y = RNG.normal(size=(20, 3)) + 2.0
LABELS = np.array(["sick", "well"])[RNG.integers(2, size=50)]


_MAIN = "from silot.cli import main; main()"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("holders")
    np.savez(folder / "north.npz", X=X, y=LABELS[:30])
    np.savez(folder / "south.npz", X=Y, y=LABELS[30:])
    np.savez(folder / "flat.npz", X=X[:, :2])
    np.savez(folder / "nan.npz", X=np.where(X > 2.0, np.nan, X))
    np.savez(folder / "bare.npz", X=X)
    lines = ["a,b,c,state"] + [
        f"{row[0]!r},{row[1]!r},{row[2]!r},{label}"
        for row, label in zip(Y.tolist(), LABELS[30:], strict=True)
    ]
    (folder / "south.csv").write_text("\n".join(lines))
    (folder / "south2.csv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    table = pl.DataFrame({"a": Y[:, 0], "b": Y[:, 1], "c": Y[:, 2], "state": LABELS[30:]})
    table.write_parquet(folder / "south3.parquet")
    (folder / "empty.csv").write_text("")
    (folder / "header.csv").write_text("a,b,c\n")
    return folder


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"private", "sketch", "secure"}))
def test_distance_prints_json_and_nothing_else(files: Path, method: str) -> None:
    done = silot("distance", files / "north.npz", files / "south.npz", "--method", method, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    expected = distance(X, Y, method=method).body
    assert set(printed) == set(expected)
    assert printed["holders"] == ["north", "south"]
    for key in ("value", "lower", "upper"):
        assert printed[key] == pytest.approx(expected[key], rel=1e-12)


def test_distance_prints_value_bounds_cost_and_disclosure_within_80_columns(files: Path) -> None:
    done = silot("distance", files / "north.npz", files / "south.npz", "-m", "fedwad", "--seed", 1)
    assert done.returncode == 0
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    for word in ("W2", "bounds", "status", "cost", "disclosed", "can be reconstructed"):
        assert word in done.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["south.csv", "south2.csv.gz", "south3.parquet"])
def test_tables_give_the_same_distance_as_arrays(files: Path, name: str) -> None:
    arguments = ("--label-column", "state", "--labels", "--json")
    table = silot("distance", files / "north.npz", files / name, *arguments)
    arrays = silot("distance", files / "north.npz", files / "south.npz", "--labels", "--json")
    assert (table.returncode, arrays.returncode) == (0, 0), table.stderr + arrays.stderr
    assert json.loads(table.stdout)["value"] == pytest.approx(json.loads(arrays.stdout)["value"])


def test_matrix_draws_and_prints(files: Path, tmp_path: Path) -> None:
    picture = tmp_path / "matrix.png"
    holders = [files / name for name in ("north.npz", "south.npz", "bare.npz")]
    done = silot(
        "distance", "matrix", *holders, "--method", "trianglewad", "--plot", picture, "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    assert printed["names"] == ["north", "south", "bare"]
    assert np.array(printed["values"]).shape == (3, 3)
    assert picture.read_bytes().startswith(b"\x89PNG")
    again = silot("distance", "matrix", *holders[::-1], "--method", "trianglewad", "--json")
    values = np.array(json.loads(again.stdout)["values"])[::-1, ::-1]
    np.testing.assert_allclose(values, printed["values"], rtol=1e-12)


def test_matrix_prints_a_table_within_80_columns(files: Path) -> None:
    done = silot(
        "distance", "matrix", files / "north.npz", files / "south.npz", "--method", "direct"
    )
    assert done.returncode == 0
    assert "north south" in done.stdout and "disclosed  record: every record" in done.stdout
    assert "cost       1 round, " in done.stdout
    assert all(len(line) <= 80 for line in done.stdout.splitlines())


def test_what_a_secure_run_will_take_is_told_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "ERRORS", Console(stderr=True, width=80))
    console.tell_forecast(forecast(2000, 2000, 64))
    told = capsys.readouterr().err
    assert told.startswith("about to take ") and len(told) > 80
    assert all(len(line) <= 80 for line in told.splitlines())


def test_pooled_measures_a_union(files: Path) -> None:
    sellers = (files / "north.npz", files / "bare.npz")
    done = silot(
        "distance", "pooled", *sellers, "--buyer", files / "south.npz", "--hidden", "--json"
    )
    assert (done.returncode, done.stderr) == (0, "")
    printed = json.loads(done.stdout)
    exact = distance(np.concatenate([X, X]), Y).value
    assert printed["lower"] <= exact <= printed["upper"]


def test_a_transcript_is_saved(files: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.transcript"
    done = silot("distance", files / "north.npz", files / "south.npz", "-m", "trianglewad",
                 "--transcript", path, "--json")  # fmt: skip
    assert done.returncode == 0
    assert Transcript.load(path).bytes_sent == json.loads(done.stdout)["bytes_sent"]


def test_methods_says_what_each_discloses() -> None:
    done = silot("privacy", "methods", "--json")
    assert [method["name"] for method in json.loads(done.stdout)] == [*METHODS]
    text = silot("privacy", "methods").stdout
    assert "every record can be reconstructed" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (["distance", "north.npz", "nan.npz"], 3, "measure-nan"),
        (["distance", "north.npz", "absent.npz"], 4, "file-missing"),
        (["distance", "north.npz", "empty.csv"], 4, "file-empty"),
        (["distance", "north.npz", "header.csv"], 3, "measure-empty"),
        (["distance", "north.npz", "south.csv"], 3, "measure-dtype"),
        (["distance", "north.npz", "south.csv", "--label-column", "kind"], 4, "file-columns"),
        (["distance", "north.npz", "bare.npz", "--labels"], 3, "labels-absent"),
        (["distance", "north.npz", "flat.npz"], 5, "dimension-mismatch"),
        (["distance", "matrix", "north.npz", "south.npz", "flat.npz"], 5, "dimension-mismatch"),
        (["distance", "north.npz", "north.npz"], 3, "holder-names"),
        (["distance", "matrix", "north.npz"], 3, "holder-names"),
        (["distance", "north.npz", "south.npz", "--support", "9"], 3, "option-unknown"),
        (["distance", "north.npz", "south.npz", "-m", "trianglewad", "--t", "1"], 3, "option-t"),
        (
            ["distance", "matrix", "north.npz", "south.npz", "--plot", "no/folder.png"],
            4,
            "file-unwritable",
        ),
        (["distance", "matrix", "north.npz", "south.npz", "--plot", "matrix.doc"], 4, "file-kind"),
        (["distance", "north.npz", "south.npz", "--transcript", "no/x"], 4, "file-unwritable"),
        (["distance", "north.npz", "south.npz", "-m", "telepathy"], 2, None),
        (["distance", "north.npz"], 2, None),
        (["distance", "north.npz", "south.npz", "--p", "3"], 2, None),
    ],
)
def test_every_mistake_has_its_exit_status_and_leaves_nothing_behind(
    files: Path, arguments: list[str], status: int, code: str | None
) -> None:
    before = sorted(files.iterdir())
    done = silot(*arguments, "--json", cwd=files)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    if code is not None:
        assert f"[{code}]" in done.stderr
    assert sorted(files.iterdir()) == before


def test_an_error_does_not_quote_the_data(files: Path) -> None:
    done = silot("distance", files / "north.npz", files / "nan.npz")
    first = X[np.argwhere(X > 2.0)[0][0]]
    assert not any(f"{value:.3f}"[:5] in done.stderr for value in first)


@pytest.mark.heavy
def test_demo_prints_tables_and_writes_its_files(tmp_path: Path) -> None:
    done = silot("demo", "--out", tmp_path / "demo")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    # Paths may be longer.
    assert all(len(line) <= 80 for line in lines[:-4])
    assert "100 % of the records recovered exactly" in " ".join(lines)
    assert "records" in (tmp_path / "demo" / "audit.html").read_text()
    assert sum(re.search(r"\bdirect +\d", line) is not None for line in lines) == 10
    results = json.loads((tmp_path / "demo" / "distances.json").read_text())
    assert [result["method"] for result in results] == ["direct", "fedwad", "trianglewad"]
    assert (tmp_path / "demo" / "distances.png").read_bytes().startswith(b"\x89PNG")
    assert "Five holders of digits" in (tmp_path / "demo" / "report.html").read_text()


def test_version_is_printed() -> None:
    assert silot("--version").stdout.startswith("silot ")


# Writes a file when a module is imported: the run has come that far, however long it took.
_MILESTONE = """
import os, sys
from pathlib import Path

class Milestone:
    def find_spec(self, name, *others):
        if name == os.environ["MILESTONE"]:
            Path("milestone").touch()

sys.meta_path.insert(0, Milestone())
from silot.cli import main
main()
"""


def _interrupt(folder: Path, module: str) -> tuple[int, str, str]:
    """Interrupt a command when it imports a module: its status, and what it printed."""
    milestone = folder / "milestone"
    milestone.unlink(missing_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", _MILESTONE, "distance", "a.npz", "b.npz"],
        cwd=folder,
        env=os.environ | {"MILESTONE": module},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A test run in the background ignores it, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as running:
        while not milestone.exists():
            assert running.poll() is None
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate()
    return running.returncode, out, err


@pytest.mark.heavy
@pytest.mark.parametrize("module", ["silot.cli.app", "silot.distances.direct"])
def test_an_interruption_is_a_sentence_and_a_status(tmp_path: Path, module: str) -> None:
    rng = np.random.default_rng(0)
    for name in ("a", "b"):
        np.savez(tmp_path / f"{name}.npz", X=rng.normal(size=(12000, 30)))
    for _ in range(3):
        status, out, err = _interrupt(tmp_path, module)
        # Python itself drops an interruption that comes while it runs a callback of an import.
        if "Exception ignored" not in err:
            break
    assert (status, out) == (130, "")
    assert err == "interrupted; nothing was written\n"


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("words", "place", "expected"),
    [
        ("silot di", 1, ["distance"]),
        ("silot distance --meth", 2, ["--method"]),
        ("silot privacy ledger ver", 3, ["verify"]),
        ("silot distance --method fe", 3, ["fedwad"]),
    ],
)
def test_a_shell_completes_commands_options_and_values(
    words: str, place: int, expected: list[str]
) -> None:
    told = {
        "_SILOT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(place),
    }  # fmt: skip
    program = "import sys; sys.argv = ['silot']; " + _MAIN
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | told, capture_output=True, text=True
    )
    assert done.stdout.split() == expected


@pytest.mark.parametrize(
    "command",
    [
        "distance north.npz south.npz --report north.npz",
        "distance matrix north.npz south.npz --report ./south.npz",
        "distance matrix north.npz south.npz --plot south.npz",
        "distance pooled north.npz --buyer south.npz --report south.npz",
        "distance barycenter north.npz south.npz --report north.npz",
        "distance barycenter north.npz south.npz --out north.npz",
        "train coreset north.npz south.npz -o south.npz",
        "train coreset north.npz --labels --test south.npz --out south.npz",
        "value north.npz --validation south.npz --report south.npz",
        "privacy audit --data north.npz --report north.npz",
        "value north.npz south.npz --public public.npz --report public.npz",
    ],
)
def test_no_result_is_written_over_a_file_that_is_read(command: str, tmp_path: Path) -> None:
    for name in ("north", "south", "public"):
        np.savez(tmp_path / f"{name}.npz", X=X[:5])
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    done = silot(*command.split(), cwd=tmp_path)
    assert "[file-" in done.stderr and done.returncode == 4
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("words", ["", "distance", "train", "privacy", "privacy ledger", "project"])
def test_the_help_of_a_group_is_that_of_its_commands_and_imports_none_of_them(words: str) -> None:
    heavy = {"scipy", "matplotlib", "sklearn"}
    if not words:
        # Typer imports it to read the options of the top before a group is called.
        heavy.add("pydantic")
    code = (
        f"import sys; sys.argv = ['silot', *{words.split()}, '--help']\n"
        "from silot.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        f"print(*sorted({heavy} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    *listed, loaded = done.stdout.splitlines()
    assert loaded == "", done.stderr
    # Of all commands, whose files are imported.
    shown = CliRunner().invoke(build(), [*words.split(), "--help"], prog_name="silot").output
    lines = {line.split()[0]: line for line in shown.splitlines() if line.startswith("  ")}
    found = {line.split()[0]: line for line in listed if line.startswith("  ")}
    assert found == lines and len(found) > 3


def test_a_missing_extra_has_one_status_wherever_it_is_missing() -> None:
    # Of a holder, whose faults have another one.
    assert _find_status("extra-torch", HolderError.exit_status) == ExtraError.exit_status == 9
    assert _find_status("holder-data", HolderError.exit_status) == HolderError.exit_status
