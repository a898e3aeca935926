"""``silot value``, ``silot records`` and ``silot distance barycenter`` as real processes."""

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tests.cli.running import within as silot


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clean holders, one with wrong labels, and validation data; images of 8 x 8."""
    place = tmp_path_factory.mktemp("holders")
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng([11, 0]).permutation(len(images))
    images, labels = images[order].reshape(-1, 8, 8), labels[order]
    wrong = labels.copy()
    wrong[200:240] = (wrong[200:240] + 3) % 10
    for name, start in (("north", 0), ("south", 100), ("wrong", 200), ("mine", 300)):
        rows = slice(start, start + (500 if name == "mine" else 100))
        np.savez(place / f"{name}.npz", X=images[rows], y=wrong[rows])
    np.savez(place / "few.npz", X=images[800:830], y=wrong[800:830])
    return place


HOLDERS = ("north.npz", "south.npz", "wrong.npz")


def test_value_ranks_holders_and_prints_within_80_columns(folder: Path) -> None:
    done = silot(folder, "value", *HOLDERS, "--validation", "mine.npz", "--labels")
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    assert ["3", "wrong"] in [row.split()[:2] for row in rows]
    assert "every holder saw the validation records" in " ".join(done.stdout.split())


@pytest.mark.heavy
def test_value_prints_json_only_with_the_fields_of_the_result(folder: Path) -> None:
    done = silot(
        folder, "value", *HOLDERS, "--validation", "mine.npz", "--labels", "--records", "--json"
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == "validation"
    assert sum(item["share"] for item in found["holders"]) == pytest.approx(1.0)
    for item in found["holders"]:
        assert item["distance"]["lower"] <= item["distance"]["value"] <= item["distance"]["upper"]
    assert [item["holder"] for item in found["records"]] == ["north", "south", "wrong"]


def test_value_without_validation_uses_the_barycenter(folder: Path) -> None:
    done = silot(folder, "value", *HOLDERS, "--labels", "--support", "30", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["target"] == "barycenter"
    assert len(found["barycenter"]["points"]) == 30


@pytest.mark.heavy
def test_records_finds_wrong_labels_and_writes_a_report(folder: Path) -> None:
    done = silot(
        folder, "records", "wrong.npz", "--validation", "mine.npz", "--labels",
        "--report", "records.html", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    flagged = set(json.loads(done.stdout)["flagged"])
    assert len(flagged & set(range(40))) >= 34
    assert len(flagged - set(range(40))) <= 8
    text = (folder / "records.html").read_text()
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "raw records" in text


@pytest.mark.heavy
def test_the_report_of_value_has_ranking_map_and_records(folder: Path) -> None:
    done = silot(
        folder, "value", *HOLDERS, "--validation", "mine.npz", "--labels", "--records",
        "--map", "direct", "--report", "value.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = (folder / "value.html").read_text()
    assert {"Ranking of the holders", "Map of the holders", "Suspect records"} <= {
        line.split(">")[1].split("<")[0] for line in text.splitlines() if "<h2" in line
    }


@pytest.mark.heavy
def test_value_shows_shapley_shares_on_the_terminal_in_json_and_in_the_report(folder: Path) -> None:
    arguments = ("value", *HOLDERS, "--validation", "mine.npz", "--shapley")
    done = silot(folder, *arguments, "--report", "shapley.html")
    assert done.returncode == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= 80
    assert "Shapley value" in done.stdout and "Shapley share" in done.stdout
    assert "Shapley share" in (folder / "shapley.html").read_text()
    found = json.loads(silot(folder, *arguments, "--json").stdout)
    assert sum(item["shapley_share"] for item in found["holders"]) == pytest.approx(1.0)


def test_value_shows_the_distances_of_a_map_and_says_what_they_disclosed(folder: Path) -> None:
    done = silot(folder, "value", *HOLDERS, "--validation", "mine.npz", "--map", "direct")
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines()]
    assert max(map(len, done.stdout.splitlines())) <= 80
    pairs = {tuple(row[:2]): row for row in rows if row[-1:] == ["converged"]}
    assert {("north", "south"), ("north", "wrong"), ("south", "wrong")} <= set(pairs)
    assert sum(row[1:3] == ["the", "target"] for row in rows) == 3
    words = " ".join(done.stdout.split())
    assert "for the map of holders all sent their records" in words
    assert "disclosed record: every record can be reconstructed" in words


def test_barycenter_saves_its_labelled_atoms(folder: Path) -> None:
    done = silot(
        folder, "distance", "barycenter", *HOLDERS, "--labels", "--support", "20",
        "--weights", "2,1,1", "--out", "q.npz", "--plot", "q.png", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shares"] == {"north": 0.5, "south": 0.25, "wrong": 0.25}
    objectives = [entry["objective"] for entry in found["history"]]
    assert objectives == sorted(objectives, reverse=True)
    with np.load(folder / "q.npz") as stored:
        assert stored["X"].shape == (20, 64)
        assert set(stored["y"]) == set("0123456789")
    assert (folder / "q.png").stat().st_size > 1000


def test_coreset_saves_its_labelled_points_and_tests_them(folder: Path) -> None:
    done = silot(
        folder, "train", "coreset", *HOLDERS, "--labels", "--size", "30", "--active", "1",
        "-o", "c.npz", "--test", "mine.npz", "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["disclosure"] == "record" and found["tests"] > 0
    assert found["accuracy"] > 0.5 and found["size"] == 30 == sum(found["sizes"].values())
    with np.load(folder / "c.npz") as stored:
        assert stored["X"].shape == (30, 64) and stored["w"].sum() == pytest.approx(1.0)
        assert set(stored["y"]) == set("0123456789")
    shown = silot(folder, "train", "coreset", *HOLDERS, "--size", "4")
    assert "a point for a single record is that record" in " ".join(shown.stdout.split())


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("value", "north.npz", "--records"), 3, "option-records"),
        (("value", "north.npz", "south.npz", "-m", "sketch", "--map", "direct"), 3, "option-map"),
        (("value", "north.npz", "south.npz", "--public", "mine.npz"), 3, "option-map"),
        (("value", "north.npz", "south.npz", "--map", "direct", "--scale", "2"), 3, "option-map"),
        (("value", "north.npz", "south.npz", "--map", "sketch"), 3, "public-absent"),
        (
            ("value", "north.npz", "south.npz", "--map", "sketch", "--public", "mine.npz",
             "--transcript", "t.silot"),
            3,
            "option-transcript",
        ),
        (("value", "north.npz", "--report", "no/r.html"), 4, "file-unwritable"),
        (("value", "north.npz", "--sheet", "f.csv"), 3, "option-records"),
        (("value", "north.npz", "--fdr", "0.2"), 3, "option-records"),
        (("value", *HOLDERS, "--validation", "few.npz", "--records"), 3, "validation-few"),
        (
            ("value", *HOLDERS, "--validation", "mine.npz", "--records", "--fdr", "1"),
            3,
            "option-fdr",
        ),
        (("value", "north.npz", "gone.npz"), 4, "file-missing"),
        (("distance", "barycenter", *HOLDERS, "--weights", "1"), 3, "option-weights"),
        (("distance", "barycenter", "north.npz", "--out", "q.csv"), 4, "file-kind"),
        (("distance", "barycenter", *HOLDERS, "--labels", "--support", "3"), 3, "option-support"),
        (("train", "coreset", "north.npz", "--labels", "--size", "3"), 3, "option-support"),
        (("train", "coreset", "north.npz", "--test", "mine.npz"), 3, "labels-absent"),
        (("train", "coreset", "north.npz", "--out", "q.csv"), 4, "file-kind"),
        (("train", "coreset", *HOLDERS, "--active", "1", "--rounds", "2"), 3, "option-rounds"),
        (("train", "coreset", *HOLDERS, "-m", "sketch"), 3, "public-absent"),
        (
            ("records", "north.npz", "--validation", "mine.npz", "--report", "r.html",
             "--image-shape", "7x7"),
            3,
            "report-images",
        ),
        (
            ("value", "north.npz", "--validation", "mine.npz", "--labels", "--method", "fedbary"),
            3,
            "option-labels",
        ),
    ],
)  # fmt: skip
def test_wrong_use_is_one_line_with_a_code(
    folder: Path, arguments: tuple[str, ...], status: int, code: str
) -> None:
    done = silot(folder, *arguments)
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith(f"error: [{code}] ")
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""
    assert not (folder / "q.csv").exists()


@pytest.mark.heavy
def test_why_prints_a_short_table_and_json_has_all_of_it(folder: Path) -> None:
    command = ("value", *HOLDERS, "--validation", "mine.npz", "--labels", "--why")
    done = silot(folder, *command)
    assert done.returncode == 0, done.stderr
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    (start,) = (k for k, row in enumerate(rows) if row.startswith("why: "))
    # Of holders that cannot be told from the target, that is said in the same sentence.
    start += 0 if rows[start + 1].startswith("holder") else 1
    assert rows[start + 1].split() == ["holder", "column", "or", "class", "share", "records"]
    assert list(dict.fromkeys(row.split()[0] for row in rows[start + 2 :])) == [
        item.split(".")[0] for item in HOLDERS
    ]
    assert sum(" class " in row for row in rows[start + 2 :]) == 3 * 9
    assert len(rows) - start <= 2 + 3 * 20
    plain, told = (json.loads(silot(folder, *command[:-1], *more, "--json").stdout)
                   for more in ((), ("--why",)))  # fmt: skip
    for before, after in zip(plain["holders"], told["holders"], strict=True):
        assert before["distance"]["parts"] is None
        parts = after["distance"].pop("parts")
        assert before["distance"]["value"] == after["distance"]["value"]
        assert len(parts["columns"]) == 64 and len(parts["classes"]) == 10
        assert sum(parts["columns"].values()) + parts["labels"] == pytest.approx(1.0)


@pytest.mark.heavy
def test_neither_report_nor_json_changes_what_why_asks(folder: Path, tmp_path: Path) -> None:
    command = ("value", *HOLDERS, "--validation", "mine.npz", "--why", "--json")
    told = [json.loads(silot(folder, *command, *more).stdout)
            for more in ((), ("--report", str(tmp_path / "r.html")))]  # fmt: skip
    for each in told:
        each["seconds"] = each["cost"]["seconds"] = 0.0
    assert told[0] == told[1]
    assert 'id="what-the-distances-are-made-of"' in (tmp_path / "r.html").read_text()


@pytest.mark.heavy
def test_a_column_in_other_units_is_the_first_row_of_why(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for name, unit in (("north", 1.0), ("south", 18.0)):
        rows = rng.normal(5.0, 1.0, (80, 3)) * [1.0, unit, 1.0]
        text = "age,glucose of a very long name that no table has room for,bmi\n"
        text += "\n".join(",".join(f"{value:.6f}" for value in row) for row in rows)
        (tmp_path / f"{name}.csv").write_text(text)
    done = silot(tmp_path, "distance", "north.csv", "south.csv", "--why")
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    first = rows[rows.index("why: shares of the squared distance") + 2]
    assert first.startswith("glucose of") and float(first.split()[-2]) > 90
    refused = silot(tmp_path, "distance", "north.csv", "south.csv", "--why", "--p", "1")
    assert refused.returncode == 3 and "[option-why]" in refused.stderr
    refused = silot(tmp_path, "distance", "north.csv", "south.csv", "--why", "-m", "fedwad")
    assert refused.returncode == 3 and "direct, sketch" in refused.stderr
