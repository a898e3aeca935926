"""Health, readiness and numbers of a site, over HTTP on loopback."""

import http.client
import json
import math
import re
from pathlib import Path

import pytest
import yaml

from silot import Policy
from silot.errors import NATURES, FileError
from silot.sites.configuration import SiteConfiguration
from silot.sites.health import _HELP, serve_health
from silot.sites.kit import Kit
from tests.cli.project import joined, provisioned, quick, silot


@pytest.fixture
def kit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Kit:
    quick(monkeypatch)
    monkeypatch.setenv("SILOT_STATE", str(tmp_path / "state"))
    provisioned(tmp_path, 1)
    return Kit.load(joined(tmp_path))


def get(port: int, path: str, host: str = "127.0.0.1") -> tuple[int, str]:
    line = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    line.request("GET", path, headers={"Host": host})
    reply = line.getresponse()
    return reply.status, reply.read().decode()


def numbers(text: str) -> dict[str, float]:
    pairs = re.findall(r"^silot_(\w+)\{[^}]*\} (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in pairs}


def test_a_site_that_is_well_is_ready_and_tells_its_numbers(kit: Kit) -> None:
    port = serve_health(kit, 0, lambda: {"connected": 1.0})
    assert get(port, "/health") == (200, "ok\n")
    assert get(port, "/ready") == (200, "ready\n")
    status, text = get(port, "/metrics")
    values = numbers(text)
    assert status == 200 and values["up"] == values["ready"] == values["connected"] == 1.0
    assert 300 < values["certificate_days"] < 400
    assert values["disk_free_bytes"] > 0 and values["ledger_bytes"] > 0
    assert values["privacy_epsilon_left"] == 1.0 and values["privacy_epsilon_spent"] == 0.0
    assert values["waiting_questions"] == values["questions_total"] == 0.0
    assert values["privacy_mu_left"] > 0
    # As Prometheus reads it: a help and a type for each, and nothing else.
    for name in values:
        assert f"# HELP silot_{name} " in text and f"# TYPE silot_{name} " in text
    assert get(port, "/other")[0] == 404
    # A page of the web that gives its own name to this address reads nothing.
    assert get(port, "/metrics", "evil.example")[0] == 403
    with pytest.raises(FileError, match="port-taken"):
        serve_health(kit, port, dict)


@pytest.mark.parametrize(("epsilon", "left"), [(None, 0.0), (math.inf, math.inf)])
def test_a_policy_without_releases_leaves_nothing_and_one_without_a_limit_all(
    kit: Kit, monkeypatch: pytest.MonkeyPatch, epsilon: float | None, left: float
) -> None:
    rules = Policy(privacy_epsilon=epsilon)
    monkeypatch.setattr(SiteConfiguration, "read_policy", lambda _: rules)
    values = numbers(get(serve_health(kit, 0, dict), "/metrics")[1])
    assert values["privacy_epsilon_left"] == values["privacy_mu_left"] == left


def test_the_dashboard_and_the_alerts_ask_for_numbers_that_there_are() -> None:
    folder = Path(__file__).parents[2] / "deploy"
    board = json.loads((folder / "grafana.json").read_text())
    alerts = yaml.safe_load((folder / "alerts.yml").read_text())
    queries = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    queries += [rule["expr"] for rule in alerts["groups"][0]["rules"]]
    named = {name for query in queries for name in re.findall(r"silot_(\w+)", query)}
    assert named <= {*_HELP, "info", "fault"} and len(named) > 10
    # Each nature of a fault has its alert.
    assert {nature for query in queries for nature in re.findall(r'nature="(\w+)"', query)} == {
        *NATURES
    }
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_what_keeps_a_site_from_answering_is_told_by_its_code(kit: Kit) -> None:
    port = serve_health(kit, 0, lambda: {"connected": 0.0})
    assert get(port, "/ready") == (503, "server-unreachable\n")
    other = serve_health(kit, 0, lambda: {"connected": 1.0})
    silot("site", "pause", "--kit", kit.folder)
    assert get(other, "/ready") == (503, "holder-paused\n")
    assert re.search(
        r'silot_fault\{.*code="holder-paused",nature="person"\} 1', get(other, "/metrics")[1]
    )
    silot("site", "resume", "--kit", kit.folder)
    assert get(other, "/ready")[0] == 200
    facts = json.loads(silot("site", "status", "--kit", kit.folder, "--json"))
    assert Path(facts["name"]).name == kit.name
    policy = kit.folder / "silot" / "site.json"
    policy.unlink()
    status, text = get(other, "/ready")
    assert status == 503 and text == "kit-format\n"
    assert get(other, "/health")[0] == 200
