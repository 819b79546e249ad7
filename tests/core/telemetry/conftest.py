"""A registry that exports its calls to a real SDK, whose exporters keep everything in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.compiled import Installation
from wasmrt.core.telemetry import NAMES, Telemetry


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, sharing_code: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WASMRT_HOME", str(sharing_code(tmp_path / "home")))


class Collected:
    """Everything that telemetry exported."""

    def __init__(self) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.traces = TracerProvider()
        self.traces.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])
        self.telemetry = Telemetry(tracer_provider=self.traces, meter_provider=self.meters)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The ended spans, in order."""
        return list(self.exporter.get_finished_spans())

    def points(self) -> list[tuple[str, dict[str, Any]]]:
        """The metrics with their attributes."""
        data = self.reader.get_metrics_data()
        return [
            (metric.name, dict(point.attributes))
            for resource in (data.resource_metrics if data else ())
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
        ]

    def text(self) -> str:
        """Everything that was exported, as text."""
        metrics = self.reader.get_metrics_data()
        return "\n".join([*(span.to_json() for span in self.spans), metrics.to_json() if metrics else ""])

    def names(self) -> set[str]:
        """Every attribute and metric that was used."""
        used = {name for span in self.spans for name in span.attributes or {}}
        for metric, attributes in self.points():
            used |= {metric, *attributes}
        return used

    def check_names(self) -> None:
        """Check that every exported name is in the table."""
        assert self.names() <= {each.name for each in NAMES}


@pytest.fixture
def collected() -> Collected:
    return Collected()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(json.dumps(dict(span.attributes or {})))
    return found
