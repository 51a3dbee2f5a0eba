"""What `--otel` sets up, and that a collector nobody runs holds nothing up."""

from __future__ import annotations

import pytest

from sluice.cli import telemetry
from sluice.cli.telemetry import exporting


def test_nothing_is_made_that_is_not_wanted() -> None:
    with exporting(False) as spans:
        assert spans is None


@pytest.mark.requirement("tracing.export.opt-in")
def test_the_standard_variables_are_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    with exporting(True) as spans:
        assert spans is not None
        with spans.span("one"):
            pass
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    with pytest.raises(ValueError, match="otlp and none"), exporting(True):
        pass


def test_a_missing_exporter_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTEL_TRACES_EXPORTER", raising=False)
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ValueError, match=r"sluice-acp\[otel\]"), exporting(True):
        pass
    assert telemetry.FLUSH_BUDGET < 5
