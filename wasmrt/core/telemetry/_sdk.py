"""Access to the program's OpenTelemetry SDK, imported on first use. Its failures do not reach the caller."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.telemetry.names import BUCKETS, CLIENT_DURATION, EXECUTE_TOOL_DURATION, SERVER_DURATION, Name
from wasmrt.core.version import VERSION

Values = Mapping[Name, str | int]
_MAX_CONTEXT_CHARS = 512
_log = logging.getLogger("wasmrt.telemetry")


def safely(work: Callable[[], Any]) -> Any:
    """Return the result of `work`, or None if it fails in the program's exporter, sampler or processor."""
    try:
        return work()
    except Exception as error:
        _log.debug("telemetry failed with %s", type(error).__name__)
        return None


class Sdk:
    """Creates spans and records durations with the given providers, or with the program's global ones.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.
    """

    def __init__(self, tracer_provider: Any, meter_provider: Any) -> None:
        try:
            from opentelemetry import context, metrics, trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            hint = "pip install 'wasmrt[telemetry]'"
            raise ConfigurationError(
                "telemetry needs a package that is not installed", code="missing-extra", hint=hint
            ) from error
        self._context, self._trace = context, trace
        self._propagator = TraceContextTextMapPropagator()
        self._tracer = trace.get_tracer("wasmrt", VERSION, tracer_provider)
        meter = metrics.get_meter("wasmrt", VERSION, meter_provider)
        self._histograms = {
            name: meter.create_histogram(
                name.name, unit="s", description=name.meaning, explicit_bucket_boundaries_advisory=list(BUCKETS)
            )
            for name in (EXECUTE_TOOL_DURATION, CLIENT_DURATION, SERVER_DURATION)
        }

    def start(self, name: str, kind: str, values: Values, meta: Mapping[str, Any] | None = None) -> Any:
        """Start a span, and link it to the current span. Its parent is the current span, or the span in `meta`.

        SECURITY: `meta` is untrusted. Only its W3C trace context is read, never baggage.
        """
        return safely(lambda: self._start_span(name, kind, values, meta)) or self._trace.INVALID_SPAN

    def _start_span(self, name: str, kind: str, values: Values, meta: Mapping[str, Any] | None) -> Any:
        parent = None if meta is None else self._parent(meta)
        ambient = self._trace.get_current_span().get_span_context()
        links = [self._trace.Link(ambient)] if parent is not None and ambient.is_valid else None
        return self._tracer.start_span(
            name, parent, getattr(self._trace.SpanKind, kind), {each.name: value for each, value in values.items()},
            links=links, record_exception=False, set_status_on_exception=False,
        )  # fmt: skip

    def _parent(self, meta: Mapping[str, Any]) -> Any:
        """Return a context with the span that `meta` identifies, or None."""
        carrier = {name: meta[name] for name in ("traceparent", "tracestate") if _is_short(meta.get(name))}
        found = self._propagator.extract(carrier, self._context.Context())
        return found if self._trace.get_current_span(found).get_span_context().is_valid else None

    def end(self, span: Any, *, failed: bool) -> None:
        """End a span. A failed span has no description: error messages can contain request data."""
        if failed:
            safely(lambda: span.set_status(self._trace.StatusCode.ERROR))
        safely(span.end)

    def record(self, metric: Name, seconds: float, values: Values) -> None:
        """Record a duration."""
        safely(lambda: self._histograms[metric].record(seconds, {each.name: value for each, value in values.items()}))

    def attach(self, span: Any, *, alone: bool = False) -> Any:
        """Make a span the current one; return the token for `detach`.

        With `alone`, the rest of the context is dropped, so that the program's baggage is not propagated.
        """
        around = self._context.Context() if alone else None
        return safely(lambda: self._context.attach(self._trace.set_span_in_context(span, around)))

    def detach(self, attached: Any) -> None:
        """Make the previous span the current one again."""
        if attached is not None:
            safely(lambda: self._context.detach(attached))


def _is_short(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _MAX_CONTEXT_CHARS
