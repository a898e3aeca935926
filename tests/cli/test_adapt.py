"""``silot train adapt``, and ``silot train links`` on data files, as real processes."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from silot import Measure
from silot.teaching.federated import Model, Rule
from tests.cli.running import within as silot
from tests.lazily import package

pl = package("polars")

DEVICES = tuple(f"d{k}.npz" for k in range(5))
# Integer labels have no other way to say that there is none.
DATA = (*DEVICES, "--unlabelled=-1")
QUICK = ("--divergence", "none", "--budget", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Devices that know some digits each, two without labels, all with evaluation records."""
    place = tmp_path_factory.mktemp("devices")
    (place / "truth").mkdir()
    images, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    images, digits = images[order], digits[order].astype(int)
    for k, name in enumerate(DEVICES):
        rows, test = slice(300 * k, 300 * k + 250), slice(300 * k + 250, 300 * k + 300)
        known = np.isin(digits[rows], (np.arange(6) + 3 * k) % 10) & (k < 3)
        np.savez(place / name, X=images[rows], y=np.where(known, digits[rows], -1))
        np.savez(place / f"d{k}.test.npz", X=images[test], y=digits[test])
        np.savez(place / "truth" / name, X=images[test], y=digits[test])
    return place


def found(folder: Path, *arguments: object) -> dict[str, Any]:
    done = silot(folder, *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.mark.heavy
def test_adapt_finds_evaluation_records_beside_the_devices(folder: Path) -> None:
    told = found(folder, "train", "adapt", *DATA, *QUICK)
    assert set(told["plan"]["targets"]) >= {"d3", "d4"}
    assert told["plan"]["sources"] == ["d0", "d1", "d2"]
    assert told["labelled"]["d3"] == 0 and told["unlabelled"]["d3"] == 250
    assert told["labelled"]["d0"] + told["unlabelled"]["d0"] == 250
    assert set(told["accuracies"]) == {f"d{k}" for k in range(5)} and told["accuracy"] > 0.6
    assert told["disclosure"] == "record"
    assert 0 < told["energy_share"] <= 1


@pytest.mark.heavy
def test_a_pattern_that_matches_evaluation_files_names_no_more_devices(folder: Path) -> None:
    every = sorted(path.name for path in folder.glob("*.npz"))
    assert _result(found(folder, "train", "adapt", *every, *DATA[-1:], *QUICK)) == _result(
        found(folder, "train", "adapt", *DATA, "--test", "truth", *QUICK)
    )


@pytest.mark.heavy
def test_tables_fit_80_columns_and_outputs_are_written(folder: Path, tmp_path: Path) -> None:
    done = silot(
        folder, "train", "adapt", *DATA, *QUICK, "--report", tmp_path / "a.html",
        "--save", tmp_path / "a.npz", "--transcript", tmp_path / "a.silot",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = [row for row in done.stdout.splitlines() if str(tmp_path) not in row]
    assert max(map(len, rows)) <= 80
    # After the chart.
    assert [
        "device", "role", "labelled", "unlabelled", "error", "S", "links",
    ] in [row.split() for row in rows]  # fmt: skip
    assert "parameters of models" in done.stdout
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "a.npz", "a.silot"]
    text = (tmp_path / "a.html").read_text()
    assert {"Who teaches whom", "Accuracy at the targets", "The cost", "What was disclosed"} <= {
        line.split(">")[1].split("<")[0] for line in text.splitlines() if "<h2" in line
    }
    assert (tmp_path / "a.npz").stat().st_mode & 0o077 == 0


@pytest.mark.heavy
@pytest.mark.parametrize("rule", ["output", "parameter"])
def test_saved_models_predict_what_targets_were_told(
    folder: Path, tmp_path: Path, rule: Rule
) -> None:
    how = ("--objective", "bound", "--rule", rule) if rule == "parameter" else QUICK
    options = (*how, "--save", tmp_path / "models.npz")
    told = found(folder, "train", "adapt", *DATA, *options)
    for target in ("d3", "d4"):
        model = Model.load(tmp_path / "models.npz", target)
        with np.load(folder / "truth" / f"{target}.npz") as truth:
            records = Measure(truth["X"].astype(np.float64), labels=truth["y"].astype(str))
        assert model.rule == rule
        assert model.accuracy(records) == pytest.approx(told["accuracies"][target])


@pytest.mark.slow
def test_links_on_data_files_tells_the_plan_and_what_was_measured(folder: Path) -> None:
    adapted = found(folder, "train", "adapt", *DATA)["plan"]
    plan = found(folder, "train", "links", *DATA)
    measured = plan["measured"]
    assert plan["links"] == adapted["links"] and measured["divergences"] is None
    plan = found(folder, "train", "links", *DATA, "--objective", "bound", "--phi", "1", "5", "0.01")
    assert plan["targets"] == ["d3", "d4"] and plan["optimal"]
    measured = plan["measured"]
    assert measured["divergences"]["method"] == "mmd" and measured["labelled"]["d4"] == 0
    assert "accuracies" not in measured and measured["bytes_received"] > 0
    done = silot(folder, "train", "links", *DATA, "--report", "links.html")
    assert done.returncode == 0, done.stderr
    assert "parameters of models" in done.stdout
    text = (folder / "links.html").read_text()
    assert "<h1>Who can teach whom</h1>" in text


@pytest.mark.heavy
def test_divergences_that_give_records_away_say_so(folder: Path) -> None:
    done = silot(folder, "train", "adapt", *DATA, "--divergence", "direct")
    assert done.returncode == 0, done.stderr
    assert "every record can be reconstructed" in " ".join(done.stdout.split())


def test_energy_numbers_come_from_a_file(folder: Path) -> None:
    rates = {f"d{i}": {f"d{j}": 50 + i + j for j in range(5) if j > i} for i in range(5)}
    powers = {f"d{k}": 20 + k for k in range(5)}
    body = {"rates_mbit": rates, "power_dbm": powers, "model_bits": 2e9}
    (folder / "energy.json").write_text(json.dumps(body))
    told = found(folder, "train", "links", *DATA, "--network", "energy.json")
    energy = told["measured"]["link_energy"]
    assert energy[1][2] == pytest.approx(2e9 / 53e6 * 10 ** (21 / 10) / 1000)


@pytest.mark.heavy
def test_empty_labels_of_a_table_stand_for_none(folder: Path, tmp_path: Path) -> None:
    for name in DEVICES:
        with np.load(folder / name) as file:
            labels = [None if label < 0 else float(label) for label in file["y"]]
            table = pl.DataFrame(file["X"], schema=[f"p{k}" for k in range(64)])
        table = table.with_columns(pl.Series("digit", labels, dtype=pl.Float64))
        table.write_csv(tmp_path / name.replace("npz", "csv"))
    files = [name.replace("npz", "csv") for name in DEVICES]
    told = found(tmp_path, "train", "adapt", *files, "--label-column", "digit", *QUICK)
    assert told["classes"] == [str(k) for k in range(10)]
    assert _result(told)["plan"] == _result(found(folder, "train", "adapt", *DATA, *QUICK))["plan"]
    assert told["accuracy"] is None


@pytest.mark.heavy
def test_a_release_of_each_device_is_all_that_a_private_adaptation_sends(folder: Path) -> None:
    images, digits = load_digits(return_X_y=True)
    np.savez(folder / "mine.npz", X=images[-297:], y=digits[-297:])
    devices = ("d3.npz", "d4.npz", "--unlabelled=-1")
    private = ("--source", "mine.npz", "--epsilon", "4")
    told = found(
        folder, "train", "adapt", *devices, *private, "--ledgers", "L", "--budget-epsilon", "4"
    )
    assert told["disclosure"] == "private" and told["plan"]["sources"] == ["coordinator"]
    assert 0 < told["accuracy"] <= 1 and abs(told["unlabelled"]["d3"] - 250) < 30
    assert told["accuracy"] > 0.85 and told["rounds"] == 1
    done = silot(folder, "train", "adapt", *devices, *private)
    assert "charged" in done.stdout and "precise" in done.stdout
    shown = silot(folder, "privacy", "ledger", "show", "L/d3.ledger").stdout
    assert "0.92" in shown
    done = silot(folder, "train", "adapt", *devices, *private[2:])
    assert done.returncode == 3 and "option-privacy" in done.stderr and "--source" in done.stderr


def _result(told: dict[str, Any]) -> dict[str, Any]:
    kept = {name: value for name, value in told.items() if name != "seconds"}
    for part in ("plan", "cost"):
        kept[part] = {name: value for name, value in kept[part].items() if name != "seconds"}
    return kept


def test_a_label_that_reads_as_a_number_is_a_text(folder: Path) -> None:
    told = found(folder, "train", "links", *DATA)["measured"]
    assert "-1" not in told["classes"] and "-1.0" not in told["classes"]
    assert told["unlabelled"]["d4"] == 250


@pytest.mark.heavy
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_images_are_learnt_by_a_cnn(folder: Path, tmp_path: Path) -> None:
    for name in (*DEVICES, "d3.test.npz"):
        with np.load(folder / name) as file:
            wide = np.kron(file["X"].reshape(-1, 8, 8), np.ones((1, 2, 2)))
            np.savez(tmp_path / name, X=wide, y=file["y"])
    told = found(tmp_path, "train", "adapt", *DATA, *QUICK, "--model", "cnn", "--shape", "16x16")
    assert told["model"] == "cnn" and told["accuracies"]["d3"] > 0.4
    assert told["unevaluated"] == {"d4": "evaluation-absent"}


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("train", "adapt", "d0.npz"), 3, "holder-names"),
        (("train", "adapt", "d0.npz", "d0.npz"), 3, "holder-names"),
        (("train", "adapt", "d0.npz", "gone.npz"), 4, "file-missing"),
        (("train", "adapt", "d3.npz", "d4.npz", "--unlabelled=-1"), 3, "no-eligible-source"),
        (("train", "adapt", *DATA, "--test", "empty"), 4, "file-missing"),
        (("train", "adapt", *DATA, "--save", "models.txt"), 4, "file-kind"),
        (("train", "adapt", *DATA, "--report", "no/a.html"), 4, "file-unwritable"),
        (("train", "adapt", *DATA, "--report", "a.x", "--transcript", "a.x"), 4, "file-twice"),
        (("train", "adapt", *DATA, "--model", "cnn"), 3, "model-kind"),
        (("train", "adapt", *DATA, "--model", "cnn", "--shape", "28x28"), 5, "model-mismatch"),
        (("train", "adapt", *DATA, "--budget", "0"), 3, "option-budget"),
        (("train", "adapt", *DATA, "--budget", "1", "--objective", "bound"), 3, "option-objective"),
        (("train", "adapt", *DATA, "--method", "gp"), 3, "option-objective"),
        (("train", "adapt", *DATA, "--constants", "natural"), 3, "option-objective"),
        (("train", "adapt", *DEVICES, "mixed.npz"), 3, "option-unlabelled"),
        (("train", "adapt", *DATA, "flat.npz"), 5, "dimension-mismatch"),
        (("train", "adapt", *DATA, "--network", "bad.yml"), 3, "network-unknown-field"),
        (("train", "adapt", *DATA, "--network", "text.yml"), 3, "network-field"),
        (("train", "adapt", *DATA, "--network", "null.yml"), 3, "network-field"),
        (("train", "adapt", *DATA, "--network", "long.json"), 3, "network-field"),
        (("train", "adapt", *DATA, "--network", "gone.yml"), 4, "file-missing"),
        (("train", "links", "d0.npz"), 3, "holder-names"),
        (("train", "links", "d0.npz", "bad.yml"), 3, "option-network"),
        (("train", "links", "bad.yml", "--unlabelled", "-1"), 3, "option-network"),
        (
            ("train", "links", *DATA, "--objective", "bound", "--divergence", "none"),
            3,
            "option-divergence",
        ),
        (("train", "links", "bad.yml", "--model", "cnn"), 3, "option-network"),
        (("train", "links", "bad.yml", "--divergence", "mmd"), 3, "option-network"),
        (("train", "links", "bad.yml", "--objective", "transfer"), 3, "option-network"),
        (("train", "adapt", *DATA, "--shape", "8x8"), 3, "model-kind"),
        (("train", "adapt", *DATA, "--shape", "8"), 3, "option-image-shape"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(
    folder: Path, arguments: tuple[str, ...], status: int, code: str
) -> None:
    (folder / "empty").mkdir(exist_ok=True)
    (folder / "bad.yml").write_text("rates: 3")
    (folder / "text.yml").write_text("rates_mbit: fast")
    (folder / "null.yml").write_text("rates_mbit: null")
    (folder / "long.json").write_text(f'{{"model_bits": 1{"0" * 400}}}')
    np.savez(folder / "mixed.npz", X=np.zeros((3, 64)), y=["", "1", "2"])
    np.savez(folder / "flat.npz", X=np.zeros((3, 5)))
    done = silot(folder, *arguments)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert f"[{code}]" in done.stderr and len(done.stderr.splitlines()) == 1


def _tables(folder: Path, place: Path) -> list[str]:
    """The devices' records as tables of four columns and labels."""
    for k in range(3):
        with np.load(folder / f"d{k}.npz") as file:
            x, y = file["X"][:, [20, 28, 36, 44]], file["y"]
        table = pl.DataFrame(x, schema=["a", "b", "c", "d"])
        labels = ["" if code < 0 else str(code) for code in y]
        table.with_columns(pl.Series("digit", labels)).write_csv(place / f"d{k}.csv")
    return [f"d{k}.csv" for k in range(3)]


@pytest.mark.heavy
def test_columns_are_matched_by_name(folder: Path, tmp_path: Path) -> None:
    files = _tables(folder, tmp_path)
    arguments = ("train", "adapt", *files, "--label-column", "digit", *QUICK)
    before = found(tmp_path, *arguments)
    table = pl.read_csv(tmp_path / "d1.csv", schema_overrides={"digit": pl.String})
    table.select("digit", "d", "b", "c", "a").write_csv(tmp_path / "d1.csv")
    after = found(tmp_path, *arguments)
    assert after["plan"]["links"] == before["plan"]["links"]
    assert after["errors"] == before["errors"]
    table.rename({"c": "tint"}).write_csv(tmp_path / "d1.csv")
    done = silot(tmp_path, *arguments)
    assert (
        done.returncode == 5
        and "[columns-mismatch] 'd0' and 'd1' have different columns" in done.stderr
    )


def test_a_table_without_the_label_column_has_no_labels(folder: Path, tmp_path: Path) -> None:
    files = _tables(folder, tmp_path)
    done = silot(tmp_path, "train", "adapt", *files, "--label-column", "number", *QUICK)
    assert done.returncode == 4 and "[file-columns]" in done.stderr
    pl.read_csv(tmp_path / "d2.csv").drop("digit").write_csv(tmp_path / "d2.csv")
    told = found(tmp_path, "train", "adapt", *files, "--label-column", "digit", *QUICK)
    assert told["labelled"]["d2"] == 0 and "d2" in told["plan"]["targets"]


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="torch is not installed")
def test_trusted_records_may_be_those_of_a_holder_that_trains(tmp_path: Path) -> None:
    """As `silot compare` prints it for a site whose records are to be cleaned."""
    rng = np.random.default_rng(0)
    for name in ("mine", "south"):
        classes = rng.integers(0, 2, 120)
        np.savez(tmp_path / f"{name}.npz", X=rng.normal(size=(120, 3)) + classes[:, None],
                 y=classes)  # fmt: skip
    train = ("train", "mine.npz", "south.npz", "--model", "logistic", "--rounds", "1")
    body = found(tmp_path, *train, "--drop-flagged", "--validation", "mine.npz")
    assert set(body["accuracies"]) == {"mine", "south"}
    done = silot(tmp_path, "distance", "mine.npz", "mine.npz")
    assert "[holder-names]" in done.stderr
