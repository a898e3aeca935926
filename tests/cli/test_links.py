"""``silot train links`` as real processes."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.running import within as silot

EXAMPLE = Path(__file__).parents[2] / "examples" / "network.yml"


def found(folder: Path, *arguments: object) -> dict[str, Any]:
    done = silot(folder, "train", "links", *arguments, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def network() -> dict[str, Any]:
    return yaml.safe_load(EXAMPLE.read_text())


def test_the_example_of_the_paper_has_its_sources_and_links(tmp_path: Path) -> None:
    plan = found(tmp_path, EXAMPLE)
    assert plan["sources"] == ["B", "C", "D"]
    teachers = {
        target: {link["source"] for link in plan["links"] if link["target"] == target}
        for target in plan["targets"]
    }
    assert teachers == {"A": {"C"}, "E": {"D"}}


def test_json_has_the_fields_of_the_plan_and_nothing_else_is_printed(tmp_path: Path) -> None:
    plan = found(tmp_path, EXAMPLE)
    assert {
        "names", "psi", "alpha", "sources", "targets", "links", "objective", "terms",
        "lower_bound", "gap", "status", "optimal", "seconds", "method", "energy",
        "unserved", "history", "details", "format", "kind", "verdict", "value", "interval", "cost",
        "disclosure",
    } == set(plan)  # fmt: skip
    assert plan["optimal"] and plan["gap"] == pytest.approx(0.0, abs=1e-6)
    assert sum(plan["terms"].values()) == pytest.approx(plan["objective"])
    for j, kind in enumerate(plan["psi"]):
        assert sum(row[j] for row in plan["alpha"]) == pytest.approx(kind, abs=1e-9)


def test_tables_fit_80_columns(tmp_path: Path) -> None:
    done = silot(tmp_path, "train", "links", EXAMPLE)
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert max(map(len, rows)) <= 80
    assert rows[0].split()[:2] == ["source", "target"]
    assert sum(row.split()[1:2] == ["source"] for row in rows) == 3
    for word in ("objective", "lower bound", "gap", "energy", "status"):
        assert any(row.startswith(word) for row in rows), word


def test_json_and_yaml_give_the_same_plan(tmp_path: Path, network: dict[str, Any]) -> None:
    (tmp_path / "network.json").write_text(json.dumps(network))
    assert _plan(found(tmp_path, "network.json")) == _plan(found(tmp_path, EXAMPLE))


def test_scales_change_what_is_best(tmp_path: Path) -> None:
    assert found(tmp_path, EXAMPLE)["sources"] == ["B", "C", "D"]
    assert found(tmp_path, EXAMPLE, "--phi", "1", "1", "1")["sources"] == ["A", "B", "C", "D"]
    assert len(found(tmp_path, EXAMPLE, "--phi", "1", "0", "0")["sources"]) == 1
    assert found(tmp_path, EXAMPLE, "--phi", "0", "0", "0")["objective"] == 0.0


def test_constants_enter_the_costs(tmp_path: Path) -> None:
    objectives = [
        found(tmp_path, EXAMPLE, "--constants", kind)["objective"]
        for kind in ("none", "log10", "natural")
    ]
    assert objectives == sorted(objectives) and objectives[0] < objectives[2] - 1


def test_targets_go_unserved_where_that_is_cheaper(tmp_path: Path) -> None:
    plan = found(tmp_path, EXAMPLE, "--allow-unserved", "0")
    assert plan["unserved"] == plan["names"] and plan["objective"] == 0.0
    done = silot(tmp_path, "train", "links", EXAMPLE, "--allow-unserved", "0")
    assert done.returncode == 0 and "unserved" in done.stdout


@pytest.mark.heavy
def test_the_report_is_written_whole_beside_the_json(tmp_path: Path) -> None:
    done = silot(tmp_path, "train", "links", EXAMPLE, "--report", "links.html")
    assert done.returncode == 0, done.stderr
    assert "report in links.html" in done.stdout
    text = (tmp_path / "links.html").read_text()
    assert "<h2>Who teaches whom</h2>" in text and "</html>" in text
    assert [item.name for item in tmp_path.iterdir()] == ["links.html"]


def _plan(plan: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plan.items() if name not in ("seconds", "details")}


def _changed(network: dict[str, Any], case: str) -> Any:
    other = deepcopy(network)
    match case:
        case "asymmetric":
            other["divergence"]["B"]["A"] = 1.2
        case "nan":
            other["divergence"]["A"]["B"] = float("nan")
        case "names":
            other["devices"][1]["name"] = "A"
        case "one":
            other = {"devices": other["devices"][:1], "divergence": [[0.0]]}
        case "unknown":
            other["devices"][0]["colour"] = "blue"
        case "negative":
            other["devices"][0]["labelled"] = -1
        case "unlabelled":
            for device in other["devices"]:
                device["labelled"] = 0
                device.pop("error", None)
        case "list":
            return other["devices"]
        case _:
            raise AssertionError(case)
    return other


@pytest.mark.parametrize(
    ("case", "status"),
    [
        ("asymmetric", 3),
        ("nan", 3),
        ("names", 5),
        ("one", 5),
        ("unknown", 3),
        ("negative", 3),
        ("unlabelled", 3),
        ("list", 4),
    ],
)
def test_a_bad_network_is_one_line_with_a_code_and_writes_nothing(
    tmp_path: Path, network: dict[str, Any], case: str, status: int
) -> None:
    (tmp_path / "network.yml").write_text(yaml.safe_dump(_changed(network, case)))
    done = silot(tmp_path, "train", "links", "network.yml", "--report", "links.html", "--json")
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("error: [")
    assert [item.name for item in tmp_path.iterdir()] == ["network.yml"]


@pytest.mark.parametrize(
    ("arguments", "status", "code"),
    [
        (("gone.yml",), 4, "file-missing"),
        (("network.toml",), 3, "holder-names"),
        (("broken.yml",), 4, "file-unreadable"),
        (("broken.json",), 4, "file-unreadable"),
        ((EXAMPLE, "--report", "no/links.html"), 4, "file-unwritable"),
        ((EXAMPLE, "--phi", "-1", "5", "1"), 3, "costs-negative"),
    ],
)
def test_what_cannot_be_done_is_refused_with_a_code(
    tmp_path: Path, arguments: tuple[object, ...], status: int, code: str | None
) -> None:
    (tmp_path / "network.toml").write_text("")
    (tmp_path / "broken.yml").write_text("devices: [")
    (tmp_path / "broken.json").write_text("{")
    done = silot(tmp_path, "train", "links", *arguments)
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert f"[{code}]" in done.stderr if code else done.stderr.startswith("error: [")


@pytest.mark.parametrize("option", ["--method=best", "--objective=all", "--constants=2", "--phi=1"])
def test_options_of_no_known_value_are_wrong_usage(tmp_path: Path, option: str) -> None:
    assert silot(tmp_path, "train", "links", EXAMPLE, option).returncode == 2


def test_links_with_noise_are_refused_with_the_commands_that_have_them(tmp_path: Path) -> None:
    """Sources are chosen by errors of models of their own, of which there is no release."""
    for words in (("a.npz", "b.npz"), ("network.json",)):
        done = silot(tmp_path, "train", "links", *words, "--epsilon", "1")
        assert (done.returncode, done.stdout) == (3, "")
        assert "[option-privacy]" in done.stderr
        assert "silot train adapt DEVICES --source FILE --epsilon E" in done.stderr
        assert (
            "silot distance matrix DEVICES --method sketch --public FILE --epsilon E" in done.stderr
        )
