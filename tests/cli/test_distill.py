"""``silot train distill`` as real processes; what it refuses, in this one."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

from silot.cli.app import app
from silot.distillation import LabelSpace
from silot.distillation.configuration import Config, read
from silot.errors import SilotError
from silot.federation import Answer, Transcript
from tests.cli.running import within as silot
from tests.lazily import package

pl = package("polars")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed"
)

LABELS = {"names": ["low", "middle", "high"], "coordinates": [-1, 0, 1]}
FIT = {"epochs": 20, "rate": 0.02}
MODEL = {"kind": "vectors", "hidden": [8], "dropout": 0}


def records(
    rng: np.random.Generator, count: int, shares: tuple[float, ...] = (1, 1, 1)
) -> tuple[Any, Any]:
    """Points of three classes side by side; how many of each class is as one wishes."""
    codes = rng.choice(3, size=count, p=np.array(shares) / sum(shares))
    return rng.normal(size=(count, 2)) * (0.4, 1.0) + np.stack([codes - 1.0, 0 * codes], 1), codes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Teachers that know some classes each, as tables of numbers and of texts."""
    place = tmp_path_factory.mktemp("teachers")
    rng = np.random.default_rng(0)
    names = np.array(LABELS["names"])
    for name, shares in (("north", (6, 2, 1)), ("south", (1, 2, 6)), ("public", (1, 1, 1))):
        points, codes = records(rng, 20 if name == "public" else 200, shares)
        np.savez(place / f"{name}.npz", X=points, y=codes)
        table = pl.DataFrame(points, schema=["a", "b"])
        table.with_columns(pl.Series("level", names[codes])).write_csv(place / f"{name}.csv")
    points, codes = records(rng, 300)
    np.savez(place / "transfer.npz", X=points)
    np.savez(place / "labelled.npz", X=points, y=codes)
    pl.DataFrame(points, schema=["a", "b"]).write_csv(place / "transfer.csv")
    points, codes = records(rng, 200)
    np.savez(place / "test.npz", X=points, y=names[codes])
    table = pl.DataFrame(points, schema=["a", "b"]).with_columns(pl.Series("level", codes))
    # In another order than the other tables' columns.
    table.select("b", "level", "a").write_parquet(place / "test.parquet")
    return place


def config(folder: Path, name: str, **fields: Any) -> Path:
    body = {
        "labels": LABELS,
        "global": {"model": MODEL, "train": "public.npz", "fit": FIT},
        "teachers": {"north": "north.npz", "south": {"train": "south.npz"}},
        "transfer": "transfer.npz",
        "tests": {"all": "test.npz"},
        "epochs": 8,
        "rate": 0.02,
    }
    given = {key: value for key, value in {**body, **fields}.items() if value != ()}
    path = folder / name
    path.write_text(json.dumps(given) if name.endswith("json") else yaml.safe_dump(given))
    return path


def found(folder: Path, *arguments: object) -> dict[str, Any]:
    done = silot(folder, "train", "distill", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def here(*arguments: object) -> dict[str, Any]:
    """The same in this process, which has torch already."""
    done = CliRunner().invoke(app, ["train", "distill", *map(str, arguments), "--json"])
    if isinstance(done.exception, SilotError):
        raise done.exception
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def without_time(told: dict[str, Any]) -> dict[str, Any]:
    return {
        name: value
        for name, value in told.items()
        if name not in ("seconds", "cost", "resumed", "preflight")
    }


@pytest.mark.heavy
def test_one_model_learns_from_many_and_everything_asked_for_is_written(folder: Path) -> None:
    done = silot(
        folder, "train", "distill", config(folder, "a.yml", transfer="labelled.npz"),
        "--report", "a.html", "--save", "a.npz", "--transcript", "a.silot",
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    (start,) = (k for k, row in enumerate(rows) if row.startswith("teacher "))
    assert rows[start].split() == ["teacher", "records", "weight", "least", "most"]
    assert [(row.split()[0], row.split()[-4]) for row in rows[start + 1 : start + 4]] == [
        ("north", "200"), ("south", "200"), ("global", "-"),
    ]  # fmt: skip
    assert "Sinkhorn-E: exact transport, weights by confidence" in done.stdout
    assert "those in the file of the transfer set were not used" in done.stdout
    changes = (re.search(r"(\d\.\d+) -> (\d\.\d+)\s*$", row) for row in rows)
    before, after = map(float, next(filter(None, changes)).groups())
    assert after < before
    assert (folder / "a.npz").stat().st_mode & 0o077 == 0
    assert "Before and after" in (folder / "a.html").read_text()
    answers = [entry.open() for entry in Transcript.load(folder / "a.silot").entries
               if entry.direction == "received"]  # fmt: skip
    left = {name for each in answers if isinstance(each, Answer) for name in each.arrays}
    assert left == {"probabilities"}


def test_the_saved_model_is_the_one_that_was_scored(folder: Path, tmp_path: Path) -> None:
    from silot.distillation import scores
    from silot.distillation.fitting import module_predict
    from silot.distillation.recipes import load_model

    told = here(config(folder, "b.yml"), "--save", tmp_path / "m.npz", "--seed", 3)
    module, recipe = load_model(tmp_path / "m.npz")
    with np.load(folder / "test.npz") as file:
        codes = [recipe.labels.names.index(name) for name in file["y"]]
        after = scores(module_predict(module, file["X"]), codes, recipe.labels)
    assert after.to_dict() == told["after"]["all"]
    # A model that was saved can learn on, and can teach.
    student = {"parameters": str(tmp_path / "m.npz")}
    teachers = {"north": "north.npz", "old": {"parameters": str(tmp_path / "m.npz"), "size": 7}}
    again = here(config(folder, "c.yml", **{"global": student}, teachers=teachers))
    assert again["before"]["all"] == told["after"]["all"]
    assert again["sizes"]["old"] == 7


@pytest.mark.heavy
def test_tables_and_arrays_say_the_same(folder: Path) -> None:
    same = here(config(folder, "d.yml"))
    tables = here(
        config(
            folder,
            "d.json",
            label_column="level",
            feature_columns=["a", "b"],
            transfer="transfer.csv",
            teachers={"north": "north.csv", "south": "south.csv"},
            tests={"all": "test.parquet"},
        )
    )
    assert without_time(tables) == without_time(same)
    by_name = here(
        config(
            folder,
            "e.json",
            label_column="level",
            transfer="transfer.csv",
            teachers={"north": "north.csv", "south": "south.csv"},
            tests={"all": "test.parquet"},
            **{"global": {"model": MODEL, "train": "public.csv", "fit": FIT}},
        )
    )
    assert without_time(by_name) == without_time(same)


def test_texts_and_pairs_of_texts_are_learnt_by_models_of_different_kinds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = {"no": "bad poor", "so": "fair plain", "yes": "good fine"}

    def table(name: str, count: int, label: bool = True) -> None:
        codes = rng.choice(list(words), size=count)
        said = [str(rng.choice(words[code].split())) for code in codes]
        columns = {
            "first": [f"the {word} one" for word in said],
            "second": [f"it is {word}" for word in rng.permutation(said)],
        }
        if label:
            columns["verdict"] = list(map(str, codes))
        pl.DataFrame(columns).write_csv(tmp_path / name)

    for name in ("a.csv", "b.csv", "test.csv"):
        table(name, 90)
    table("transfer.csv", 60, label=False)
    fields: dict[str, Any] = {
        "labels": {"names": list(words), "coordinates": [[0, 0], [1, 0], [1, 1]]},
        "global": {"model": {"kind": "bag", "width": 8}, "fit": {"epochs": 10, "rate": 0.03}},
        "memory": False,
        "teachers": {
            "a": "a.csv",
            "b": {
                "train": "b.csv",
                "model": {"kind": "bag", "width": 16},
            },
        },
        "transfer": "transfer.csv",
        "tests": {"test": "test.csv"},
        "label_column": "verdict",
        "noise": 50,
        "epochs": 60,
    }
    single = here(config(tmp_path, "single.yml", text_column="first", **fields))
    assert single["after"]["test"]["accuracy"] > 0.9
    assert single["after"]["test"]["semantic_distance"] < 0.5
    pairs = {"premise_column": "first", "hypothesis_column": "second"}
    both = here(config(tmp_path, "pairs.yml", **pairs, **fields))
    assert both["options"]["noise"] == 50 and "global" not in both["teachers"]


@pytest.mark.heavy
def test_a_pretrained_model_of_a_folder_can_teach(tmp_path: Path) -> None:
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    place = tmp_path / "bert"
    place.mkdir()
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad"]
    (place / "vocab.txt").write_text("\n".join(words))
    library.BertTokenizer.from_pretrained(str(place)).save_pretrained(place)
    shape = library.BertConfig(
        vocab_size=len(words), hidden_size=8, num_hidden_layers=1, num_attention_heads=2,
        intermediate_size=8, max_position_embeddings=24, num_labels=2,
    )  # fmt: skip
    library.BertForSequenceClassification(shape).save_pretrained(place)
    texts = ["good", "bad"] * 10
    np.savez(tmp_path / "a.npz", X=texts, y=[1, 0] * 10)
    np.savez(tmp_path / "t.npz", X=texts)
    told = here(
        config(
            tmp_path,
            "p.yml",
            labels={"names": ["no", "yes"], "one_hot": True},
            **{"global": {"model": {"kind": "pretrained", "name": "bert"}}},
            teachers={"a": {"train": "a.npz", "model": "bag"}, "b": "a.npz"},
            transfer="t.npz",
            tests={"t": {"file": "a.npz"}},
            epochs=2,
            noise=5,
        ),
        "--save",
        tmp_path / "m.npz",
    )
    assert told["after"]["t"]["records"] == 20 and told["teachers"] == ["a", "b", "global"]
    again = here(
        config(
            tmp_path,
            "q.yml",
            labels={"names": ["no", "yes"], "coordinates": [0, 2]},
            **{"global": {"parameters": "m.npz"}},
            teachers={"a": {"train": "a.npz", "model": "bag"}, "b": {"parameters": "m.npz"}},
            transfer="t.npz",
            tests={"t": {"file": "a.npz"}},
            epochs=1,
            noise=5,
        )
    )
    assert again["before"]["t"]["confusion"] == told["after"]["t"]["confusion"]


@pytest.mark.heavy
def test_noisy_predictions_are_charged_and_told_again_for_nothing(folder: Path) -> None:
    pytest.importorskip("opendp", reason="silot[privacy] is not installed")
    budget = {"level": "private", "privacy_epsilon": 100}
    teachers = {
        name: {"train": f"{name}.npz", "parts": 4, "policy": budget, "ledger": f"{name}.ledger"}
        for name in ("north", "south")
    }
    path = config(folder, "f.yml", teachers=teachers, privacy_epsilon=50, noise=100)
    first = here(path)
    assert first["disclosure"] == "private" and first["privacy_mu"] > 0
    assert set(first["noise"]) == {"north", "south"} and (folder / "north.ledger").exists()
    again = here(path)
    assert again["privacy_mu"] == 0
    assert again["losses"] == first["losses"]
    # The default budget is too small for epsilon 49 more: both teachers refuse, and nobody is left.
    strict = {name: {**each, "policy": {"level": "private"}} for name, each in teachers.items()}
    with pytest.raises(SilotError, match="teachers-few"):
        here(config(folder, "g.yml", teachers=strict, privacy_epsilon=49, noise=100))


def test_a_teacher_that_refuses_is_named_and_the_others_go_on(folder: Path) -> None:
    shy = {"train": "south.npz", "policy": {"level": "private"}}
    path = config(folder, "h.yml", teachers={"north": "north.npz", "shy": shy})
    done = CliRunner().invoke(app, ["train", "distill", str(path)])
    assert done.exit_code == 0, done.output
    assert re.search(r"^excluded +shy \(policy-level\)", done.stdout, re.MULTILINE)


# Goes no further than five epochs, and waits to be killed.
WAITING = """
import time
from silot.data import checkpoint
save = checkpoint.save
def patient(folder, name, mark, told, arrays):
    save(folder, name, mark, told, arrays)
    if told.get("epoch") == 5:
        time.sleep(3600)
checkpoint.save = patient
from silot.cli import main
main()
"""


@pytest.mark.slow
def test_a_killed_run_goes_on_where_it_was(folder: Path, tmp_path: Path) -> None:
    path = config(folder, "i.yml", epochs=30, batch=8)
    whole = here(path)
    ahead = [sys.executable, "-c", WAITING, "train", "distill", str(path)]
    process = subprocess.Popen(
        [*ahead, "--checkpoint", str(tmp_path)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
    )
    try:
        while not (tmp_path / "training.npz").exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    kept = {each: each.stat().st_mtime_ns for each in tmp_path.glob("*.npz")
            if each.name != "training.npz"}  # fmt: skip
    assert len(kept) == 4
    resumed = found(folder, path, "--checkpoint", tmp_path)
    assert 0 < resumed["resumed"] <= 5
    assert without_time(resumed) == without_time(whole)
    # No model was trained and no teacher asked again.
    assert {each: each.stat().st_mtime_ns for each in kept} == kept
    options = ["--checkpoint", str(tmp_path), "--transcript", str(tmp_path / "no.silot")]
    done = CliRunner().invoke(app, ["train", "distill", str(path), *options])
    assert "30 of 30 epochs come from the checkpoint" in done.output
    assert "no transcript" in done.output and not (tmp_path / "no.silot").exists()
    for fields in ({"rate": 0.01}, {"decimals": 2}, {"seed": 1}, {"transfer": "test.npz"}):
        with pytest.raises(SilotError, match="checkpoint-mismatch"):
            here(config(folder, "j.yml", **{"epochs": 30, "batch": 8, **fields}),
                 "--checkpoint", tmp_path)  # fmt: skip


TEACHERS = {"north": "north.npz", "south": "south.npz"}


@pytest.mark.parametrize(
    ("fields", "status", "code", "place"),
    [
        ({"epoch": 3}, 3, "distill-unknown-field", "epoch"),
        ({"transfer": ()}, 3, "distill-missing-field", "transfer"),
        ({"loss": "square"}, 3, "distill-field", "loss"),
        ({"rate": -1.0}, 3, "option-rate", "options"),
        ({"temperature": 0}, 3, "option-temperature", "options"),
        ({"epochs": "many"}, 3, "distill-field", "epochs"),
        ({"global": {"model": {"kind": "forest"}}}, 3, "distill-field", "global.model"),
        ({"global": {"model": {**MODEL, "heads": 2}, "train": "public.npz"}}, 3,
         "distill-unknown-field", "global.model.heads"),
        ({"global": {"train": "public.npz"}}, 3, "distill-field", "global"),
        ({"global": {"model": MODEL}}, 3, "distill-field", "global"),
        ({"global": {"model": "bag", "train": "public.npz"}}, 5, "inputs-kind", "global"),
        ({"global": {"parameters": "test.npz"}}, 3, "model-recipe", "global"),
        ({"global": {"parameters": "gone.npz"}}, 4, "file-missing", "global"),
        ({"teachers": {"north": "north.npz"}}, 3, "holder-names", "teachers"),
        ({"teachers": {**TEACHERS, "global": "north.npz"}}, 3, "holder-names", "teachers"),
        ({"teachers": {**TEACHERS, "idle": {"model": MODEL}}}, 3, "distill-teacher",
         "teachers.idle"),
        ({"teachers": {**TEACHERS, "far": "gone.npz"}}, 4, "file-missing", "teachers.far.train"),
        ({"teachers": {**TEACHERS, "odd": "odd.npz"}}, 5, "labels-unknown", "teachers.odd.train"),
        ({"teachers": {**TEACHERS, "bare": "transfer.npz"}}, 3, "labels-absent",
         "teachers.bare.train"),
        ({"teachers": {**TEACHERS, "wide": "wide.npz"}}, 5, "input-dimension",
         "teachers.wide.train"),
        ({"teachers": {**TEACHERS, "nan": "nan.npz"}}, 3, "measure-nan", "teachers.nan.train"),
        ({"teachers": {**TEACHERS, "x": {"train": "north.npz", "policy": {"level": "none"}}}}, 3,
         "distill-field", "teachers.x.policy: level"),
        ({"teachers": {**TEACHERS, "x": {"train": "north.npz", "parts": 150}}}, 3,
         "distill-parts", "teachers.x"),
        ({"transfer": "gone.csv"}, 4, "file-missing", "transfer"),
        ({"transfer": "a.txt"}, 4, "file-kind", "transfer"),
        ({"transfer": "bare.csv"}, 3, "measure-empty", "transfer"),
        ({"transfer": {"file": "north.csv"}}, 3, "measure-dtype", "transfer"),
        ({"transfer": {"file": "north.csv", "text_column": "words"}}, 4, "file-columns",
         "transfer"),
        ({"transfer": {"file": "north.csv", "premise_column": "a"}}, 3, "option-columns",
         "transfer"),
        ({"tests": {"t": "odd.npz"}}, 5, "labels-unknown", "tests.t"),
        ({"labels": {"names": ["a", "b"], "coordinates": [0, 1, 2]}}, 5, "label-names", "labels"),
        ({"labels": {"names": ["a", "b"], "coordinates": [[0, 1], [2]]}}, 3,
         "label-coordinates", "labels"),
        ({"labels": {"names": ["a", "b"], "coordinates": [1, 1]}}, 3, "label-coincident",
         "labels"),
        ({"labels": "colours"}, 3, "label-preset", "labels"),
        ({"labels": {"names": ["a", "b"]}}, 3, "distill-field", "labels"),
        ({"weights": "uniform", "noise": 10}, 3, "option-noise", "noise"),
        ({"loss": "entropy", "epsilon": 0.1}, 3, "option-epsilon", "options"),
        ({"epsilon": 1e-5}, 3, "option-epsilon", "options"),
        ({"weight_cap": 0.5}, 3, "option-cap", "options"),
        ({"memory": False, "memory_size": 3}, 3, "option-size", "options"),
        ({"memory_size": 0}, 3, "distill-field", "memory_size"),
        ({"min_teachers": 3}, 3, "option-teachers", "options"),
        ({"timeout": -1}, 3, "option-timeout", "options"),
        ({"asker": "me"}, 3, "distill-unknown-field", "asker"),
        ({"global": {"model": MODEL, "train": "public.npz", "fit": {"epochs": 0}}}, 3,
         "distill-field", "global.fit.epochs"),
        ({"global": {"model": MODEL, "train": "public.npz", "fit": {"seed": 1}}}, 3,
         "distill-unknown-field", "global.fit.seed"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_is_refused_with_a_code_and_the_field(
    folder: Path, fields: dict[str, Any], status: int, code: str, place: str
) -> None:
    np.savez(folder / "odd.npz", X=np.zeros((3, 2)), y=[0, 1, 3])
    np.savez(folder / "wide.npz", X=np.zeros((3, 5)), y=[0, 1, 2])
    np.savez(folder / "nan.npz", X=np.full((3, 2), np.nan), y=[0, 1, 2])
    (folder / "a.txt").write_bytes(b"%PDF-1.7")
    (folder / "bare.csv").write_text("a")
    with pytest.raises(SilotError) as caught:
        here(config(folder, "bad.yml", **fields))
    assert (caught.value.code, caught.value.exit_status) == (code, status)
    assert caught.value.message.startswith(f"bad.yml, {place}: ")


def test_a_file_may_give_every_option(folder: Path) -> None:
    given = {
        "loss": "sinkhorn", "epsilon": "1e-1", "epochs": 3, "rate": "1e-2", "batch": 9, "seed": 4,
        "weights": "size", "weight_cap": None, "robust": True, "memory": True, "memory_size": 8,
        "temperature": 2, "decimals": 3, "privacy_epsilon": None, "privacy_delta": 1e-6,
        "shared": True, "question_batch": 99, "min_teachers": 2, "timeout": 60,
    }  # fmt: skip
    how = Config.load(config(folder, "all.yml", **given)).options()
    # YAML takes 1e-1 for a text.
    wanted = given | {"epsilon": 0.1, "rate": 0.01, "noise": None, "asker": "coordinator"}
    assert how.values() == wanted


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("gone.yml",), 4, "file-missing"),
        (("north.csv",), 4, "file-kind"),
        (("twice.yml",), 4, "file-unreadable"),
        (("list.yml",), 4, "file-unreadable"),
        (("torn.yml",), 4, "file-unreadable"),
        (("k.yml", "--save", "model.txt"), 4, "file-kind"),
        (("k.yml", "--report", "no/a.html"), 4, "file-unwritable"),
        (("k.yml", "--report", "a.npz", "--save", "a.npz"), 4, "file-twice"),
        (("k.yml", "--checkpoint", "north.csv"), 4, "file-unwritable"),
    ],
)
def test_files_that_cannot_be_read_or_written_are_refused(
    folder: Path, arguments: tuple[str, ...], status: int, code: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(folder)
    config(folder, "k.yml")
    (folder / "list.yml").write_text("- 1")
    (folder / "torn.yml").write_text("labels: {")
    (folder / "twice.yml").write_text("teachers: {a: a.csv, a: b.csv}")
    with pytest.raises(SilotError) as caught:
        here(*arguments)
    assert (caught.value.code, caught.value.exit_status) == (code, status)


def test_without_torch_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    # As in a process that has not trained before.
    monkeypatch.delitem(vars(sys.modules["silot.distillation"]), "train", raising=False)
    monkeypatch.delitem(sys.modules, "silot.distillation.trainer", raising=False)
    with pytest.raises(SilotError, match=r"pip install 'silot\[torch\]'") as caught:
        here(config(folder, "m.yml"))
    assert (caught.value.code, caught.value.exit_status) == ("extra-torch", 9)


def test_an_error_is_one_line_on_stderr(folder: Path) -> None:
    done = silot(folder, "train", "distill", config(folder, "l.yml", epoch=3))
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: [distill-unknown-field] l.yml, epoch: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.heavy
def test_the_example_can_be_read_and_its_transfer_set_has_no_labels(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "examples.distill_data", str(tmp_path)],
        cwd=Path(__file__).parents[2],
        check=True,
        capture_output=True,
    )
    assert made.stderr == b""
    told = Config.load(tmp_path / "distill.yml")
    space = told.labels.space()
    transfer = read(tmp_path, told.transfer, told)
    assert not transfer.labelled and len(transfer.inputs) == 1000
    for source in [told.student.train, *(each.train for each in told.teachers.values())]:
        assert source is not None
        assert set(read(tmp_path, source, told, space, transfer).truth.values) == set(range(5))
    assert {len(read(tmp_path, each, told, space).inputs) for each in told.tests.values()} == {
        300,
        600,
    }


@pytest.mark.parametrize(
    ("names", "labels", "codes"),
    [
        (["no", "yes"], ["yes", "no"], [1, 0]),
        (["no", "yes"], [1, 0], [1, 0]),
        (["no", "yes"], ["1", "0.0"], [1, 0]),
        (["no", "yes"], ["no", "1"], None),
        (["no", "yes"], [2, 0], None),
        (["no", "yes"], [0.5, 0], None),
        (["1", "2"], [1, 2.0], [0, 1]),
        (["1", "2"], [0, 1], None),
        (["True", "False"], [False, True], [1, 0]),
    ],
)
def test_labels_are_names_or_numbers_and_never_a_guess(
    names: list[str], labels: list[Any], codes: list[int] | None
) -> None:
    space = LabelSpace.one_hot(names)
    if codes is not None:
        assert space.codes(labels).values.tolist() == codes
        assert space.codes(space.codes(labels)) == space.coded(codes)
        return
    with pytest.raises(SilotError, match="labels-unknown"):
        space.codes(labels)
