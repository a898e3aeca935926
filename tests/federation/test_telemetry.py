"""Traces of runs: a span for the run and each question, and nothing of the data."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

import silot
from silot import Measure, Policy
from silot.errors import RefusedError
from silot.federation import Holder, LocalFederation, telemetry

export = pytest.importorskip(
    "opentelemetry.sdk.trace.export", reason="the extra telemetry is not installed"
)
memory = pytest.importorskip("opentelemetry.sdk.trace.export.in_memory_span_exporter")
sdk = pytest.importorskip("opentelemetry.sdk.trace")

RUN = """
import sys, numpy as np, silot
rng = np.random.default_rng(0)
silot.distance(rng.normal(size=(9, 2)), rng.normal(size=(8, 2)))
print("imported", "opentelemetry" in sys.modules)
"""


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """What ends up at an exporter of this process."""
    exporter = memory.InMemorySpanExporter()
    provider = sdk.TracerProvider()
    provider.add_span_processor(export.SimpleSpanProcessor(exporter))
    monkeypatch.setattr(telemetry, "_find_tracer", lambda: provider.get_tracer("silot"))
    yield exporter.get_finished_spans
    provider.shutdown()


def points(k: int) -> np.ndarray:
    return np.random.default_rng(k).normal(size=(30 + k, 3))


def in_process(**settings: str) -> subprocess.CompletedProcess[str]:
    plain = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-c", RUN], capture_output=True, text=True, check=True, timeout=300,
        env=plain | settings,
    )  # fmt: skip


def test_a_run_has_a_span_and_so_has_each_question(spans: Any) -> None:
    """Counts are those of the cost, times lie within the run, and children have its trace."""
    result = silot.distance(points(1), points(2), method="fedwad", support=10, rounds=3)
    *questions, run = spans()
    assert run.name == "run fedwad" and run.parent is None and run.status.is_unset
    assert run.attributes["silot.rounds"] == result.cost.rounds > 1
    entries = result.transcript.entries
    sent = [entry for entry in entries if entry.direction == "sent"]
    assert len(questions) == len(sent)
    for name in ("bytes_sent", "bytes_received"):
        parts = sum(span.attributes[f"silot.{name}"] for span in questions)
        assert parts == run.attributes[f"silot.{name}"] == getattr(result.cost, name)
    places = {(span.attributes["silot.round"], span.attributes["silot.holder"])
              for span in questions}  # fmt: skip
    assert places == {(entry.round, entry.holder) for entry in sent}
    for span in questions:
        assert span.parent.span_id == run.context.span_id
        assert span.attributes["silot.status"] == "answered"
        assert span.attributes["silot.level"] in ("record", "statistics")
        assert run.start_time <= span.start_time <= span.end_time


def test_a_refusal_has_its_code_and_ends_the_run(spans: Any) -> None:
    holders = {
        "north": Holder(Measure(points(1)), Policy(level="record")),
        "south": Holder(Measure(points(2)), Policy(level="private")),
    }
    with pytest.raises(RefusedError) as error:
        silot.distance("north", "south", federation=LocalFederation(holders))
    *questions, run = spans()
    statuses = {span.attributes["silot.holder"]: span.attributes["silot.status"]
                for span in questions}  # fmt: skip
    assert statuses == {"north": "answered", "south": error.value.code}
    assert not run.status.is_ok and run.attributes["error.type"] == error.value.code
    assert run.attributes["silot.rounds"] == 1


def test_a_run_that_is_interrupted_ends_its_span(
    spans: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt("SECRET")

    names = {"north": 1, "south": 2}
    federation = LocalFederation({name: Holder(Measure(points(k))) for name, k in names.items()})
    monkeypatch.setattr(federation, "exchange", interrupted)
    with pytest.raises(KeyboardInterrupt):
        silot.distance("north", "south", federation=federation)
    (run,) = spans()
    assert run.attributes["error.type"] == "KeyboardInterrupt" and "SECRET" not in run.to_json()


def test_nothing_of_the_data_is_in_a_trace(spans: Any) -> None:
    """Two data sets of one shape differ in nothing but times."""

    def described(shift: float) -> list[Any]:
        before = len(spans())
        silot.distance(points(1) + shift, points(2))
        return [
            {key: span.attributes[key] for key in span.attributes if not key.endswith("seconds")}
            for span in spans()[before:]
        ]

    assert described(0.0) == described(3.0)


def test_nothing_is_imported_unless_traces_are_wanted() -> None:
    assert "imported False" in in_process().stdout
    for settings in (
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_TRACES_EXPORTER": "console"},
    ):
        assert "imported False" in in_process(**settings).stdout


def test_without_the_extra_the_variables_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    monkeypatch.setattr(telemetry, "find_spec", lambda name: None)
    assert telemetry._find_tracer() is None


def test_the_standard_variables_say_where_traces_go() -> None:
    done = in_process(OTEL_TRACES_EXPORTER="console", OTEL_SERVICE_NAME="wards")
    text = done.stdout.replace("imported True", "")
    decoder, bodies = json.JSONDecoder(), []
    while text := text.strip():
        body, end = decoder.raw_decode(text)
        bodies.append(body)
        text = text[end:]
    names = [body["name"] for body in bodies]
    assert names[-1] == "run direct" and len(names) == 3
    assert bodies[0]["resource"]["attributes"]["service.name"] == "wards"


def test_a_collector_receives_spans() -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            del format, args

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            place = f"http://127.0.0.1:{server.server_port}"
            in_process(OTEL_EXPORTER_OTLP_ENDPOINT=place, OTEL_EXPORTER_OTLP_COMPRESSION="none")
        finally:
            server.shutdown()
            thread.join()
    ((path, body),) = received
    assert path == "/v1/traces" and b"run direct" in body and b"silot.bytes_received" in body
