"""Metrics in the text format of Prometheus, by OpenTelemetry's SDK and exporter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wasmrt.core.errors import ConfigurationError, WasmrtError
from wasmrt.core.telemetry._telemetry import Telemetry
from wasmrt.core.telemetry.names import (
    ERROR_TYPE,
    EXECUTE_TOOL_DURATION,
    METHOD_NAME,
    SERVER_DURATION,
    TOOL_NAME,
    Name,
)
from wasmrt.core.version import VERSION

_LABELS = {EXECUTE_TOOL_DURATION: (TOOL_NAME, ERROR_TYPE), SERVER_DURATION: (METHOD_NAME, ERROR_TYPE)}
"""The labels of each histogram. Their values are registered names, known methods and error codes, so they are few."""


class PrometheusMetrics:
    """Durations of calls and requests, and gauges, for one server. Needs the extra `wasmrt[metrics]`.

    Raises:
        ConfigurationError: the extra is missing.
    """

    def __init__(self) -> None:
        try:
            import prometheus_client
            from opentelemetry.exporter.prometheus import PrometheusMetricReader
            from opentelemetry.sdk.metrics import MeterProvider
            from opentelemetry.sdk.metrics.view import DropAggregation, View
        except ImportError as error:
            hint = "pip install 'wasmrt[metrics]'"
            raise ConfigurationError(
                "metrics need a package that is not installed", code="missing-extra", hint=hint
            ) from error
        self._written = prometheus_client.generate_latest
        self._registry = prometheus_client.CollectorRegistry()
        views = [
            View(instrument_name=metric.name, attribute_keys={label.name for label in labels})
            for metric, labels in _LABELS.items()
        ]
        views += [View(instrument_name="mcp.client.*", aggregation=DropAggregation())]
        reader = PrometheusMetricReader(registry=self._registry, disable_target_info=True)
        self._provider = MeterProvider([reader], views=views)

    def telemetry(self, *, spans: bool) -> Telemetry:
        """Return telemetry that measures here; with `spans`, the program's tracer provider exports spans, too."""
        from opentelemetry.trace import NoOpTracerProvider

        return Telemetry(tracer_provider=None if spans else NoOpTracerProvider(), meter_provider=self._provider)

    def add_gauge(self, name: Name, read: Callable[[], int]) -> None:
        """Read a gauge each time the metrics are written. If reading fails, the gauge is absent."""
        from opentelemetry.metrics import Observation

        def observe(_: Any) -> list[Observation]:
            try:
                return [Observation(read())]
            except WasmrtError:
                return []

        meter = self._provider.get_meter("wasmrt", VERSION)
        meter.create_observable_gauge(name.name, [observe], description=name.meaning)

    def write(self) -> bytes:
        """Return all metrics in the text format, version 0.0.4."""
        return self._written(self._registry)

    def close(self) -> None:
        """End the measurement."""
        self._provider.shutdown()
