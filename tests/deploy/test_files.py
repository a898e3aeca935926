"""The files of deployment, by the tools that know their formats: `make charts` installs those."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from silot.sites.process_lock import PLACE
from silot.sites.project import Project

DEPLOY = Path(__file__).parents[2] / "deploy"
SITE = {"role": "site", "records.claim": "records", "records.file": "north.csv"}
# By name: what is set beside the secret. Each is a chart that somebody may want.
CHARTS = {
    "server": {"role": "server"},
    "open server": {"role": "server", "server.serviceType": "LoadBalancer", "server.port": "8443"},
    "site": SITE,
    "site by a schema": SITE | {"records.schema": "true", "records.site": "true"},
    "site by a digest": SITE | {"image.digest": f"sha256:{'0' * 64}"},
    "site beside its server": SITE | {"networkPolicy.to[0].ipBlock.cidr": "192.0.2.7/32"},
    "site on a named disk": SITE | {"ledger.storageClass": "ssd", "state.storageClass": "other"},
}


def find(tool: str) -> str:
    path = shutil.which(tool)
    if path is None:
        pytest.skip(f"{tool} is not installed: make charts")
    return path


def run(*words: str) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def settings(values: dict[str, str]) -> list[str]:
    return [word for pair in values.items() for word in ("--set", "=".join(pair))]


def render(values: dict[str, str]) -> list[dict[str, Any]]:
    text = run(
        find("helm"), "template", "north", str(DEPLOY / "chart"), "--namespace", "wards",
        *settings({"kit.secret": "north-kit"} | values),
    )  # fmt: skip
    return [body for body in yaml.safe_load_all(text) if body]


@pytest.mark.parametrize("name", CHARTS)
def test_a_chart_is_what_kubernetes_reads(name: str, tmp_path: Path) -> None:
    helm, validate = find("helm"), find("kubernetes-validate")
    values = settings({"kit.secret": "north-kit"} | CHARTS[name])
    run(helm, "lint", "--strict", str(DEPLOY / "chart"), *values)
    file = tmp_path / "rendered.yaml"
    file.write_text(yaml.safe_dump_all(render(CHARTS[name])))
    run(validate, "--strict", str(file))


@pytest.mark.parametrize(
    "values", [{"role": "asker"}, {"user": "0"}, {"repplicas": "2"}, {"image.digest": "latest"}]
)
def test_a_value_that_cannot_be_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match="values"):
        render(SITE | values)


@pytest.mark.parametrize("values", [{"kit.secret": ""}, {"records.file": ""}])
def test_a_value_that_lacks_is_named(values: dict[str, str]) -> None:
    with pytest.raises(AssertionError, match=next(iter(values))):
        render(SITE | values)


@pytest.mark.parametrize("name", CHARTS)
def test_a_pod_has_no_rights_and_keeps_its_memory(name: str) -> None:
    bodies = {body["kind"]: body["spec"] for body in render(CHARTS[name])}
    pod = bodies["StatefulSet"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] and not pod["automountServiceAccountToken"]
    for container in (*pod["initContainers"], *pod["containers"]):
        rights = container["securityContext"]
        assert rights["readOnlyRootFilesystem"] and not rights["allowPrivilegeEscalation"]
        assert rights["capabilities"] == {"drop": ["ALL"]}
        assert {"name": PLACE, "value": "wards/north"} in container["env"]
        mounts = {mount["mountPath"]: mount for mount in container["volumeMounts"]}
        assert all(mount.get("readOnly") for path, mount in mounts.items()
                   if path in ("/srv/records", "/srv/secret"))  # fmt: skip
    # Two processes with one ledger would hinder each other; without its claims it would forget.
    assert bodies["StatefulSet"]["replicas"] == 1
    kept = {claim["metadata"]["name"] for claim in bodies["StatefulSet"]["volumeClaimTemplates"]}
    assert kept == {"ledger", "state"}
    policy = bodies["StatefulSet"]["persistentVolumeClaimRetentionPolicy"]
    assert set(policy.values()) == {"Retain"}
    ways = bodies["NetworkPolicy"]
    if CHARTS[name]["role"] == "site":
        assert ways["ingress"] == [] and bodies["Service"]["clusterIP"] == "None"
    else:
        (ingress,) = ways["ingress"]
        assert [port["port"] for port in ingress["ports"]] == [
            port["port"] for port in bodies["Service"]["ports"]
        ]
        assert ways["egress"] == []


def test_the_image_is_built_as_its_linter_wants() -> None:
    run(find("hadolint"), "--failure-threshold", "style", str(DEPLOY / "Containerfile"))


def test_services_of_the_compose_file_have_no_rights_and_places_of_their_own() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert set(services) == {"server", "north", "south", "west", "analyst"}
    for name, service in services.items():
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        assert service["environment"][PLACE] == name
        assert all(f"/{name}/" in volume for volume in service["volumes"])
    # The page has a project's file for it.
    (alias,) = services["server"]["networks"]["silot"]["aliases"]
    Project(name="wards", host=alias, sites=("north", "south", "west"))


def test_the_compose_file_is_one_to_its_tool() -> None:
    if shutil.which("podman") is None:
        pytest.skip("podman is not installed, which podman-compose asks: deploy/build")
    run(find("podman-compose"), "--file", str(DEPLOY / "compose.yaml"), "config")
