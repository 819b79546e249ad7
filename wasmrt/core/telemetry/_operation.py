"""One running operation: its span, attributes and duration."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from wasmrt.core.telemetry._sdk import Sdk, Values, safely
from wasmrt.core.telemetry.names import ERROR_TYPE, Name

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
        """Record the duration of the operation, or of a part of it, with the named attributes."""
        values = {name: self._values[name] for name in names if name in self._values}
        self._sdk.record(metric, seconds, values | ({ERROR_TYPE: TOOL_ERROR} if failed else {}))

    def end(self, error: str | None = None) -> None:
        """End the operation, with an error code if it failed; further calls do nothing.

        SECURITY: a tool's code is replaced if it could carry data; messages and exceptions are never exported.
        """
        if self._ended:
            return
        self._ended = True
        if error is not None:
            self.note({ERROR_TYPE: error if _CODE.fullmatch(error) else TOOL_ERROR})
        self.measure(self._metric, time.monotonic() - self._started, (*self._measured, ERROR_TYPE))
        if self._owns_span:
            self._sdk.end(self.span, failed=ERROR_TYPE in self._values)
