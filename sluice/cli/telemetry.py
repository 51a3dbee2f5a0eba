"""`--otel`: spans go to an OpenTelemetry collector, over OTLP and HTTP, as the standard OTEL_* variables say."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from sluice.wire.tracing import Spans

__all__ = ["FLUSH_BUDGET", "exporting"]

FLUSH_BUDGET = 2.0
"""Seconds for the last spans at the end. A collector that does not answer must not hold up the end of the process,
and the exporter's own timeouts do not bound it."""


@contextmanager
def exporting(wanted: bool) -> Iterator[Spans | None]:
    """What makes spans while inside; None when it is not wanted.

    Raises:
        ValueError: the exporter is not installed, or the variables ask for one that there is not.
    """
    if not wanted:
        yield None
        return
    kind = os.environ.get("OTEL_TRACES_EXPORTER", "otlp").strip().lower() or "otlp"
    if kind not in ("otlp", "none"):
        raise ValueError(f"OTEL_TRACES_EXPORTER={kind}: with --otel there are otlp and none")
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "sluice"}
    provider = TracerProvider(resource=Resource.create(named), shutdown_on_exit=False)
    if kind == "otlp":
        _export(provider)
    try:
        yield Spans(provider.get_tracer("sluice"))
    finally:
        flush = threading.Thread(target=provider.shutdown, name="otel-flush", daemon=True)
        flush.start()
        flush.join(FLUSH_BUDGET)


def _export(provider: object) -> None:
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ValueError("--otel needs the exporter: pip install 'sluice-acp[otel]'") from error
    assert isinstance(provider, TracerProvider)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
