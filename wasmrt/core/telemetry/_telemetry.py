"""Telemetry: exports the operations of a registry and of a server through the program's OpenTelemetry SDK.

The SDK is imported on first use. Its failures do not reach the caller.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.telemetry.names import (
    BUCKETS,
    CALL_ID,
    CLIENT_DURATION,
    CONVERSATION_ID,
    ERROR_TYPE,
    EXECUTE_TOOL_DURATION,
    METHOD_NAME,
    OPERATION_NAME,
    PROTOCOL_VERSION,
    SERVER_DURATION,
    TOOL_NAME,
    TOOL_SOURCE,
    TOOL_TYPE,
    TRANSPORT,
    Name,
)
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


TOOL_ERROR = "tool_error"
_CODE = re.compile(r"-?[a-z0-9][a-z0-9_-]{0,47}")
_current: ContextVar[Operation | None] = ContextVar("current_operation", default=None)


def current_operation() -> Operation | None:
    """Return the innermost running operation of this context, or None without telemetry."""
    return _current.get()


class Operation:
    """A call or request in telemetry.

    Args:
        metric: The metric for its duration.
        measured: The attributes that are recorded with the duration.
        owns_span: False if the span belongs to the surrounding request.
        takes_call: True for a request whose call has not started: that call uses the request's span.
    """

    def __init__(
        self, sdk: Sdk, metric: Name, span: Any, values: Values, measured: tuple[Name, ...], *,
        owns_span: bool = True, takes_call: bool = False,
    ) -> None:  # fmt: skip
        self.span = span
        self.takes_call = takes_call
        self._sdk = sdk
        self._metric = metric
        self._values: dict[Name, str | int] = {}
        self._measured = measured
        self._owns_span = owns_span
        self._started = time.monotonic()
        self._ended = False
        self.note(values)

    def note(self, values: Values) -> None:
        """Add attributes to the operation and its span."""
        self._values.update(values)
        safely(lambda: self.span.set_attributes({name.name: value for name, value in values.items()}))

    def rename(self, name: str) -> None:
        """Rename the span."""
        safely(lambda: self.span.update_name(name))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current operation, and its span the parent of new spans."""
        token, attached = _current.set(self), self._sdk.attach(self.span)
        try:
            yield
        finally:
            self._sdk.detach(attached)
            _current.reset(token)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Run the block in a context that has this span only, so that nothing else is propagated."""
        attached = self._sdk.attach(self.span, alone=True)
        try:
            yield
        finally:
            self._sdk.detach(attached)

    def measure(self, metric: Name, seconds: float, names: tuple[Name, ...], *, failed: bool = False) -> None:
        """Record how long the operation, or a part of it, took, with the named attributes."""
        values = {name: self._values[name] for name in names if name in self._values}
        self._sdk.record(metric, seconds, values | ({ERROR_TYPE: TOOL_ERROR} if failed else {}))

    def end(self, error: str | None = None) -> None:
        """End the operation, with an error code if it failed; further calls do nothing.

        SECURITY: a tool's error code is replaced if it could carry data; messages and exceptions are never exported.
        """
        if self._ended:
            return
        self._ended = True
        if error is not None:
            self.note({ERROR_TYPE: error if _CODE.fullmatch(error) else TOOL_ERROR})
        self.measure(self._metric, time.monotonic() - self._started, (*self._measured, ERROR_TYPE))
        if self._owns_span:
            self._sdk.end(self.span, failed=ERROR_TYPE in self._values)


_EXECUTE = "execute_tool"
_CALL = "tools/call"


class Telemetry:
    """Exports spans and metrics of calls and requests, through the given providers or the program's global ones.

    Without an OpenTelemetry SDK nothing is exported. Arguments, results, messages and user IDs are never exported.

    Args:
        tracer_provider: An OpenTelemetry `TracerProvider`.
        meter_provider: An OpenTelemetry `MeterProvider`.

    Raises:
        ConfigurationError: OpenTelemetry is not installed.

    Examples:
        >>> from wasmrt import Telemetry, ToolRegistry
        >>> registry = ToolRegistry(telemetry=Telemetry())
    """

    def __init__(self, *, tracer_provider: Any = None, meter_provider: Any = None) -> None:
        self._sdk = Sdk(tracer_provider, meter_provider)

    def begin_call(self, *, tool: str, call_id: str, trace: str, source: str) -> Operation:
        """Begin a call of a registered tool; `tool` and `source` are empty for an unknown tool.

        Within a request to `wasmrt serve`, the call uses the request's span, as the MCP conventions require.
        """
        values: dict[Name, str | int] = {OPERATION_NAME: _EXECUTE, TOOL_TYPE: "function", CALL_ID: call_id}
        known = {TOOL_NAME: tool, CONVERSATION_ID: trace, TOOL_SOURCE: source}
        values |= {name: value for name, value in known.items() if value}
        measured = (OPERATION_NAME, TOOL_NAME, TOOL_SOURCE)
        outer = current_operation()
        if outer is not None and outer.takes_call:
            outer.takes_call = False
            if tool:
                outer.note({TOOL_NAME: tool})
                outer.rename(f"{_CALL} {tool}")
            return Operation(self._sdk, EXECUTE_TOOL_DURATION, outer.span, values, measured, owns_span=False)
        span = self._sdk.start(f"{_EXECUTE} {tool}" if tool else _EXECUTE, "INTERNAL", values)
        return Operation(self._sdk, EXECUTE_TOOL_DURATION, span, values, measured)

    def begin_request(self, *, method: str, version: str, transport: str, meta: Mapping[str, Any]) -> Operation:
        """Begin a request to a wasmrt server, as a child of the span that its `_meta` identifies."""
        values: dict[Name, str | int] = {METHOD_NAME: method, TRANSPORT: transport}
        values |= {PROTOCOL_VERSION: version} if version else {}
        span = self._sdk.start(method, "SERVER", values, meta)
        measured = (METHOD_NAME, TOOL_NAME, PROTOCOL_VERSION, TRANSPORT)
        return Operation(self._sdk, SERVER_DURATION, span, values, measured, takes_call=method == _CALL)
