"""Traces of runs by OpenTelemetry: who was asked what, when, with how many bytes, and how it ended.

Nothing of the data is in a trace, and no text of an error. Nothing of OpenTelemetry is imported
unless the application did, or its standard variables say where traces go.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from .answer import Answer, Failure
from .result import Cost

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

    from .question import Question

# Any of them says that traces are wanted, and where.
_VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT",
              "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")  # fmt: skip


class RunTrace:
    """The spans of one run: one of its own, and one of each question to each holder."""

    def __init__(self, tracer: Tracer, protocol: str, holders: Collection[str], run: str) -> None:
        facts = {"silot.protocol": protocol, "silot.holders": [*holders], "silot.run": run}
        self._tracer = tracer
        self._span = tracer.start_span(f"run {protocol}", attributes=facts)
        self._began = time.time_ns()

    def note(
        self,
        question: Question,
        holder: str,
        answer: Answer | Failure,
        *,
        round_: int,
        sizes: tuple[int, int],
        times: tuple[float, float],
    ) -> None:
        """Record a question: bytes sent and received, and the seconds of the run at both."""
        from opentelemetry.trace import set_span_in_context

        facts = {
            "silot.holder": holder, "silot.question": question.kind,
            "silot.level": str(question.level), "silot.round": round_,
            "silot.bytes_sent": sizes[0], "silot.bytes_received": sizes[1],
            "silot.seconds": times[1] - times[0],
            "silot.status": answer.code if isinstance(answer, Failure) else "answered",
        }  # fmt: skip
        start, end = (self._began + int(1e9 * seconds) for seconds in times)
        span = self._tracer.start_span(
            f"question {question.kind}", set_span_in_context(self._span), start_time=start,
            attributes=facts,
        )  # fmt: skip
        if isinstance(answer, Failure):
            _fail(span, answer.code)
        span.end(end)

    def end(self, cost: Cost | None, code: str = "") -> None:
        """End the run with its cost, and the code of its error if it ended in one."""
        if cost is not None:
            self._span.set_attributes({
                f"silot.{name}": getattr(cost, name)
                for name in ("rounds", "bytes_sent", "bytes_received", "seconds", "privacy_mu")
            })  # fmt: skip
        if code:
            _fail(self._span, code)
        self._span.end()


def begin_trace(protocol: Any, parties: object) -> RunTrace | None:
    """Begin the trace of a run, if anybody wants traces."""
    tracer = _find_tracer()
    if tracer is None:
        return None
    return RunTrace(tracer, protocol.name, protocol.holders, getattr(parties, "run_name", ""))


def _fail(span: Span, code: str) -> None:
    from opentelemetry.trace import StatusCode

    span.set_attribute("error.type", code)
    span.set_status(StatusCode.ERROR, code)


def _find_tracer() -> Tracer | None:
    """Return the tracer of the application, or of the variables; ``None`` where there is none."""
    if "opentelemetry.trace" not in sys.modules and not _is_wanted(os.environ):
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        return None
    _provide()
    from opentelemetry.trace import get_tracer

    return get_tracer("silot")


def _is_wanted(settings: Mapping[str, str]) -> bool:
    is_off = settings.get("OTEL_SDK_DISABLED", "").lower() == "true"
    names = settings.get("OTEL_TRACES_EXPORTER", "")
    return not is_off and names != "none" and any(settings.get(name) for name in _VARIABLES)


@cache
def _provide() -> None:
    """Send spans where the variables say, unless the application has a provider of its own."""
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    has_provider = not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    if has_provider or not _is_wanted(os.environ):
        return
    # It reads the name of the service and the share of traces that are kept, and sends what is
    # left when the process ends.
    provider = TracerProvider()
    for name in (os.environ.get("OTEL_TRACES_EXPORTER") or "otlp").split(","):
        kind = "otlp_proto_http" if name.strip() == "otlp" else name.strip()
        for entry in entry_points(group="opentelemetry_traces_exporter", name=kind):
            provider.add_span_processor(BatchSpanProcessor(entry.load()()))
    trace.set_tracer_provider(provider)
