"""One operation while it goes on: its span, what it is about, and how long it takes."""

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
    """Return the innermost operation that goes on here; None where none is told of."""
    return _current.get()


class Operation:
    """A call or a request, as telemetry has it.

    Args:
        metric: Its duration.
        measured: Those of its values that go with the duration.
        owns_span: False where the span is that of the request around it.
        takes_call: True for a request whose call has not begun: it has no span of its own.
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
        """Say more of what it is about."""
        self._values.update(values)
        safely(lambda: self.span.set_attributes({name.name: value for name, value in values.items()}))

    def rename(self, name: str) -> None:
        """Give its span another name."""
        safely(lambda: self.span.update_name(name))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make it the one that goes on, and its span the parent of others."""
        token, attached = _current.set(self), self._sdk.attach(self.span)
        try:
            yield
        finally:
            self._sdk.detach(attached)
            _current.reset(token)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Have what is passed on within be its span, and nothing else of the context."""
        attached = self._sdk.attach(self.span, alone=True)
        try:
            yield
        finally:
            self._sdk.detach(attached)

    def measure(self, metric: Name, seconds: float, names: tuple[Name, ...], *, failed: bool = False) -> None:
        """Record how long it, or a part of it, took, with those of its values that are named."""
        kept = {name: self._values[name] for name in names if name in self._values}
        self._sdk.record(metric, seconds, kept | ({ERROR_TYPE: TOOL_ERROR} if failed else {}))

    def end(self, error: str | None = None) -> None:
        """End it, well or with the code of an error; what comes later is not told.

        SECURITY: a code that a tool chose could carry what it read; messages are never told, nor exceptions.
        """
        if self._ended:
            return
        self._ended = True
        if error is not None:
            self.note({ERROR_TYPE: error if _CODE.fullmatch(error) else TOOL_ERROR})
        self.measure(self._metric, time.monotonic() - self._started, (*self._measured, ERROR_TYPE))
        if self._owns_span:
            self._sdk.end(self.span, failed=ERROR_TYPE in self._values)
