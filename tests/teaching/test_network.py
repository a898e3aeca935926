"""Network files: costs by hand, and every kind of bad input with its code."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from silot.errors import FileError, InputError, MismatchError, SilotError
from silot.teaching.exact import links, solve_exact
from silot.teaching.network import Device, Network
from tests.problems import SECRET, SECRET_TEXT

DEVICES: list[dict[str, Any]] = [
    {"name": "a", "labelled": 300, "unlabelled": 100, "error": 0.2, "power_dbm": 23},
    {"name": "b", "labelled": 0, "unlabelled": 500},
    {"name": "c", "labelled": 50, "error": 0.5},
]
PAIRS = [[0, 1.0, 0.4], [1.0, 0, 2.0], [0.4, 2.0, 0]]


def fields(**changes: Any) -> dict[str, Any]:
    return {"devices": DEVICES, "divergence": PAIRS, **changes}


def device(**changes: Any) -> dict[str, Any]:
    return fields(devices=[{**DEVICES[0], **changes}, *DEVICES[1:]])


def test_costs_are_those_of_the_equations() -> None:
    costs = Network(**fields(constants="natural", delta=0.05, rates_mbit=50)).costs()
    sample = [math.sqrt(math.log(40) / (2 * n)) for n in (400, 500, 50)]
    constant = math.sqrt(2 * math.log(2))
    error = (300 * 0.2 + 100) / 400
    assert costs.source[0] == pytest.approx(error + 2 * constant + 3 * sample[0])
    assert costs.transfer[0, 1] == pytest.approx(
        error + 10 * constant + 0.5 + 6 * (sample[0] + sample[1])
    )
    assert costs.transfer[2, 0] == pytest.approx(
        0.5 + 10 * constant + 0.2 + 6 * (sample[2] + sample[0])
    )
    assert costs.energy[0, 2] == pytest.approx(1e9 / 50e6 * 10 ** (2.3 - 3))
    assert costs.eligible.tolist() == [True, False, True]
    assert costs.names == ("a", "b", "c")


def test_constants_and_unlabelled_records_are_options() -> None:
    plain = Network(**fields()).costs()
    natural = Network(**fields(constants="natural")).costs()
    ten = Network(**fields(constants="log10")).costs()
    assert natural.source - plain.source == pytest.approx(2 * math.sqrt(2 * math.log(2)))
    apart = (natural.transfer - plain.transfer)[~np.eye(3, dtype=bool)]
    assert apart == pytest.approx(10 * math.sqrt(2 * math.log(2)))
    sample = math.sqrt(math.log10(20) / 100)
    assert ten.source[2] == pytest.approx(0.5 + 2 * math.sqrt(2 * math.log10(2)) + 3 * sample)
    alone = Network(**fields(unlabelled_error=None)).costs()
    assert alone.source[0] == pytest.approx(0.2 + 3 * math.sqrt(math.log(20) / 600))
    assert Network(**fields(minimum_labelled=100)).costs().eligible.tolist() == [
        True, False, False,
    ]  # fmt: skip


def test_disagreement_is_part_of_the_transfer() -> None:
    noise = [[0, 0.1, 0.2], [0.3, 0, 0.4], [0.5, 0.6, 0]]
    costs = Network(**fields(disagreement=noise)).costs()
    added = costs.transfer - Network(**fields()).costs().transfer
    assert added[0, 1] == pytest.approx(0.1)
    assert added[2, 1] == pytest.approx(0.6)
    assert solve_exact(costs).optimal


def test_a_rate_of_zero_bars_a_link() -> None:
    rates = np.full((3, 3), 74.0)
    rates[0, 1] = 0.0
    plan = links(Network(**fields(rates_mbit=rates)))
    assert ("c", "b", 1.0) in plan.links


@pytest.mark.parametrize("kind", ["json", "yml", "yaml"])
def test_files_and_mappings_mean_the_same(tmp_path: Path, kind: str) -> None:
    file = tmp_path / f"network.{kind}"
    body = fields(
        divergence={"a": {"b": 1.0, "c": 0.4}, "c": {"b": 2.0}}, rates_mbit=74, model_bits="1e9"
    )
    file.write_text(json.dumps(body) if kind == "json" else yaml.safe_dump(body))
    found, direct = Network.load(file).costs(), Network(**fields()).costs()
    assert (found.transfer == direct.transfer).all()
    assert (found.energy == direct.energy).all()


@given(st.permutations(range(3)))
def test_the_order_of_devices_does_not_matter(order: list[int]) -> None:
    other = Network(
        devices=[DEVICES[i] for i in order], divergence=np.array(PAIRS)[np.ix_(order, order)]
    )
    first, second = links(Network(**fields())), links(other)
    assert set(first.links) == set(second.links)
    assert first.objective == pytest.approx(second.objective, rel=1e-12)


nan, inf = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (fields(divergence=[[0, 1, 0.4], [0.9, 0, 2], [0.4, 2, 0]]), InputError, "pair-asymmetric"),
        (fields(divergence=[[0, nan, 0], [nan, 0, 2], [0, 2, 0]]), InputError, "pair-nan"),
        (fields(divergence=[[0, inf, 0], [inf, 0, 2], [0, 2, 0]]), InputError, "pair-nan"),
        (fields(divergence=[[0, 3, 0], [3, 0, 2], [0, 2, 0]]), InputError, "pair-range"),
        (fields(divergence=[[0, -1, 0], [-1, 0, 2], [0, 2, 0]]), InputError, "pair-range"),
        (fields(divergence=[[0, 1], [1, 0]]), MismatchError, "network-shape"),
        (fields(divergence=[[0, 1, 1], [1, 0], [1, 1, 0]]), MismatchError, "network-shape"),
        (fields(divergence=7), InputError, "network-field"),
        (fields(divergence={"a": {"b": 1}}), MismatchError, "pair-missing"),
        (fields(divergence={"a": {"z": 1}}), MismatchError, "device-unknown"),
        (fields(divergence={"a": 3}), InputError, "network-field"),
        (
            fields(divergence={"a": {"b": 1, "c": 1}, "b": {"a": 0.5, "c": 1}}),
            InputError,
            "pair-asymmetric",
        ),
        (fields(devices=DEVICES[:1], divergence=[[0]]), MismatchError, "network-size"),
        (fields(devices=[], divergence=[]), MismatchError, "network-size"),
        (fields(devices=[DEVICES[0]] * 3), MismatchError, "device-names"),
        (fields(devices="abc"), InputError, "network-field"),
        (fields(devices=[1, 2, 3]), InputError, "network-field"),
        ({"divergence": PAIRS}, InputError, "network-missing-field"),
        ({"devices": DEVICES}, InputError, "network-missing-field"),
        (fields(colour="red"), InputError, "network-unknown-field"),
        (device(colour="red"), InputError, "network-unknown-field"),
        (fields(devices=[{"name": "a", "labeled": 3}]), InputError, "network-unknown-field"),
        (fields(rates_mbit="fast"), InputError, "network-field"),
        (device(labelled=-1), InputError, "network-field"),
        (device(unlabelled=-5), InputError, "network-field"),
        (device(labelled=3.5), InputError, "network-field"),
        (device(labelled=True), InputError, "network-field"),
        (device(labelled="many"), InputError, "network-field"),
        (device(labelled=None), InputError, "network-field"),
        (device(name=""), InputError, "network-field"),
        (device(self=1), InputError, "network-unknown-field"),
        (fields(self=1), InputError, "network-unknown-field"),
        (fields(model_bits=10**400), InputError, "network-field"),
        (device(error=1.5), InputError, "error-range"),
        (device(error=-0.1), InputError, "error-range"),
        (device(error=nan), InputError, "error-range"),
        (device(error=None), InputError, "error-missing"),
        (device(labelled=0), InputError, "labels-absent"),
        (device(labelled=0, unlabelled=0, error=None), InputError, "device-records"),
        (device(power_dbm=nan), InputError, "network-field"),
        (device(power_dbm=1e9), InputError, "network-field"),
        (fields(rates_mbit=0), InputError, "pair-range"),
        (fields(rates_mbit=nan), InputError, "pair-range"),
        (fields(rates_mbit=[[0, -1, 1], [1, 0, 1], [1, 1, 0]]), InputError, "pair-range"),
        (fields(model_bits=0), InputError, "network-field"),
        (fields(model_bits=inf), InputError, "network-field"),
        (fields(delta=0), InputError, "network-field"),
        (fields(delta=1), InputError, "network-field"),
        (fields(constants="log2"), InputError, "network-field"),
        (fields(phi=[1, 5]), InputError, "network-field"),
        (fields(unlabelled_error=2), InputError, "network-field"),
        (fields(minimum_labelled=0), InputError, "network-field"),
        (fields(disagreement=[[0, 2, 0]] * 3), InputError, "pair-range"),
    ],
)
def test_bad_networks_have_a_code(body: dict[str, Any], kind: type[SilotError], code: str) -> None:
    with pytest.raises(kind) as caught:
        Network(**body)
    assert caught.value.code == code
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("phi", "code"), [([-1, 5, 1], "costs-negative"), ([1, nan, 1], "costs-type")]
)
def test_scales_are_checked_with_the_costs(phi: list[float], code: str) -> None:
    with pytest.raises(InputError) as caught:
        Network(**fields(phi=phi)).costs()
    assert caught.value.code == code


def test_messages_name_field_and_device_and_no_value() -> None:
    with pytest.raises(InputError, match=r"device 'a', labelled") as caught:
        Network(**device(labelled=-SECRET))
    assert SECRET_TEXT not in caught.value.message
    with pytest.raises(InputError, match="'a' and 'b'") as caught:
        Network(**fields(divergence=[[0, SECRET, 0], [0, 0, 2], [0, 2, 0]]))
    assert SECRET_TEXT not in caught.value.message


def test_a_device_is_checked_alone_too() -> None:
    assert Device(name="a", labelled=np.int64(3), error=np.float32(0.5)).records == 3
    with pytest.raises(InputError):
        Device(name="a", labelled=3)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("none.json", None, "file-missing"),
        ("network.txt", "{}", "file-kind"),
        ("network.json", "{", "file-unreadable"),
        ("network.json", "[1]", "file-unreadable"),
        ("network.json", "[" * 100_000, "file-unreadable"),
        ("network.yml", "a: [", "file-unreadable"),
        ("network.yml", "!!python/object:os.system {}", "file-unreadable"),
        ("network.yml", "1: 2", "file-unreadable"),
        ("network.yml", "", "file-unreadable"),
    ],
)
def test_bad_files_have_a_code(tmp_path: Path, name: str, text: str | None, code: str) -> None:
    file = tmp_path / name
    if text is not None:
        file.write_text(text)
    with pytest.raises(FileError) as caught:
        Network.load(file)
    assert caught.value.code == code


def test_bytes_that_are_no_text_have_a_code(tmp_path: Path) -> None:
    file = tmp_path / "network.json"
    file.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(FileError) as caught:
        Network.load(file)
    assert caught.value.code == "file-unreadable"


def test_an_error_in_a_file_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "network.json"
    file.write_text(json.dumps(device(error=7)))
    with pytest.raises(InputError, match=r"network\.json: device 'a'") as caught:
        Network.load(file)
    assert caught.value.code == "error-range"
