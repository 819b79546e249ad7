"""Errors of the SDK and its transports as wasmrt errors, and redaction of the secrets that a server was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from threading import Lock

import httpx2
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, INVALID_PARAMS, REQUEST_TIMEOUT
from pydantic import ValidationError

from wasmrt.core.errors import (
    ConfigurationError,
    DeadlineExceededError,
    ExternalServiceError,
    GuestError,
    GuestOutputError,
    ToolError,
    WasmrtError,
)
from wasmrt.egress.leaks import LeakDetector, LeakScanner
from wasmrt.interop.mcp.client._definition import cleaned
from wasmrt.sandbox.component import printable_line

_DETECTOR = LeakDetector()
_MAX_SAID_BYTES = 500
_NO_VERSION = "Unsupported protocol version"
"""The SDK has no error of its own for it."""


def said(text: str, redact: Callable[[str], str] = _DETECTOR.redact) -> str:
    """Return a server's text as a single line, without secrets and invisible characters.

    SECURITY: `redact` gets the whole text: a secret may not be found in a shortened one.
    """
    words: str = cleaned(redact(text))
    return printable_line(words, _MAX_SAID_BYTES)


def as_wasmrt_error(error: BaseException, name: str, redact: Callable[[str], str] = _DETECTOR.redact) -> WasmrtError:
    """Return an error of a connection to the server `name` as a wasmrt error, its message without secrets."""
    leaves = list(_leaves(error))
    own = next((leaf for leaf in leaves if isinstance(leaf, WasmrtError)), None)
    if own is not None:
        return own
    leaf = next((leaf for leaf in leaves if not isinstance(leaf, GeneratorExit)), error)
    if isinstance(leaf, MCPError):
        return _of_protocol(leaf, name, redact)
    if isinstance(leaf, httpx2.HTTPStatusError):
        return ExternalServiceError(f"{name} answered with the status {leaf.response.status_code}", code="mcp-server")
    if isinstance(leaf, httpx2.TimeoutException | TimeoutError):
        return ExternalServiceError(f"{name} did not answer in time", code="mcp-server")
    if isinstance(leaf, httpx2.HTTPError):
        return ExternalServiceError(f"{name} cannot be reached: {said(str(leaf), redact)}", code="mcp-server")
    if isinstance(leaf, ValidationError | ValueError):
        return GuestOutputError(f"{name} answered with what the protocol does not know", code="mcp-protocol")
    if isinstance(leaf, RuntimeError) and str(leaf).startswith(_NO_VERSION):
        hint = "update the server, or wasmrt, so that both know one"
        return GuestOutputError(f"{name} speaks no version of MCP that is known here", code="mcp-protocol", hint=hint)
    if isinstance(leaf, OSError):
        return ExternalServiceError(f"{name} cannot be reached ({leaf.strerror})", code="mcp-server")
    return ExternalServiceError(f"the connection to {name} broke with {type(leaf).__name__}", code="mcp-server")


def as_tool_error(error: WasmrtError) -> ToolError:
    """Return an error as one that a call ends with."""
    if isinstance(error, ToolError):
        return error
    failure = ToolError(error.message, code=error.code, hint=error.hint)
    if not isinstance(error, ConfigurationError):
        failure.retryable = error.retryable
    return failure


def late(name: str, seconds: float) -> DeadlineExceededError:
    """Return the error of a server that did not answer in time."""
    return DeadlineExceededError(
        f"{name} took longer than {seconds:g} s", limit=seconds, used=None, setting="timeout_seconds",
        hint="raise timeout_seconds of the server if it really needs more",
    )  # fmt: skip


def _of_protocol(error: MCPError, name: str, redact: Callable[[str], str]) -> WasmrtError:
    if error.code == REQUEST_TIMEOUT:
        return ExternalServiceError(f"{name} did not answer in time", code="mcp-server")
    if error.code == CONNECTION_CLOSED:
        return ExternalServiceError(f"the connection to {name} ended", code="mcp-server")
    if error.code == INVALID_PARAMS:
        return GuestError(f"{name} refused the call: {said(error.message, redact)}", code="mcp-error")
    return GuestError(f"{name} answered with an error: {said(error.message, redact)}", code="mcp-error")


def _leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _leaves(inner)
    else:
        yield error


_KEPT = 8
"""Values of one secret: the last ones, because a renewed token may come back later."""


class KnownSecrets:
    """The secrets of one server. Any thread may use it."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, str], tuple[str, ...]] = {}
        self._scanner = LeakDetector().scanner()

    def add(self, user: str, name: str, value: str) -> None:
        """Look for a user's secret from now on, before it is sent."""
        with self._lock:
            before = self._values.get((user, name), ())
            if value in before:
                return
            self._values[user, name] = (*before[1 - _KEPT :], value)
            self._scanner = self._made()

    def _made(self) -> LeakScanner:
        # SECURITY: secrets of two users have one name, and so have the old and the new value of one.
        names = {value: name for (_, name), values in self._values.items() for value in values}
        secrets: dict[str, str] = {}
        counts = Counter[str]()
        for value, name in names.items():
            counts[name] += 1
            secrets[name if counts[name] == 1 else f"{name}#{counts[name]}"] = value
        return LeakDetector().scanner(secrets)

    @property
    def is_empty(self) -> bool:
        """True while there are none."""
        return not self._values

    def redact(self, text: str) -> str:
        """Return a text without the secrets, and without what looks like one."""
        return self._scanner.redact(text)

    def redact_part(self, text: str) -> str:
        """Return a text that may have been cut, also without larger pieces of the secrets."""
        return self._scanner.partial.redact(text)

    def clean(self, error: ToolError) -> None:
        """Redact all text of an error, and drop its causes, which contain the server's text."""
        error.message = self.redact_part(error.message)
        error.args = (error.message,)
        if error.hint is not None:
            error.hint = self.redact_part(error.hint)
        error.logs = tuple(entry._replace(message=self.redact_part(entry.message)) for entry in error.logs)
        error.decisions = tuple(decision.redacted(self.redact_part) for decision in error.decisions)
        error.__cause__ = error.__context__ = None
