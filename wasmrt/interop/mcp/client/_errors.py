"""Convert errors of the SDK and its transports to wasmrt errors, and redact the secrets that a server received."""

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
from wasmrt.interop.mcp.client._definition import remove_invisible
from wasmrt.sandbox.component import printable_line

NO_STORE_HINT = "pass a store of secrets: WasmRuntimeConfig(secrets=...)"
_DETECTOR = LeakDetector()
_MAX_SAID_BYTES = 500
_NO_VERSION = "Unsupported protocol version"
"""The SDK defines no error for this code."""


def to_safe_line(text: str, redact: Callable[[str], str] = _DETECTOR.redact) -> str:
    """Return a server's text as a single line, without secrets and invisible characters.

    SECURITY: redact the whole text before it is shortened, since a cut secret may not be found.
    """
    words: str = remove_invisible(redact(text))
    return printable_line(words, _MAX_SAID_BYTES)


def as_wasmrt_error(error: BaseException, name: str, redact: Callable[[str], str] = _DETECTOR.redact) -> WasmrtError:
    """Return an error of the connection to server `name` as a wasmrt error without secrets."""
    leaves = list(_iter_leaves(error))
    own = next((leaf for leaf in leaves if isinstance(leaf, WasmrtError)), None)
    if own is not None:
        return own
    leaf = next((leaf for leaf in leaves if not isinstance(leaf, GeneratorExit)), error)
    if isinstance(leaf, MCPError):
        return _convert_protocol_error(leaf, name, redact)
    if isinstance(leaf, httpx2.HTTPStatusError):
        return ExternalServiceError(f"{name} answered with status {leaf.response.status_code}", code="mcp-server")
    if isinstance(leaf, httpx2.TimeoutException | TimeoutError):
        return ExternalServiceError(f"{name} did not answer in time", code="mcp-server")
    if isinstance(leaf, httpx2.HTTPError):
        return ExternalServiceError(f"{name} cannot be reached: {to_safe_line(str(leaf), redact)}", code="mcp-server")
    if isinstance(leaf, ValidationError | ValueError):
        return GuestOutputError(f"{name} sent a response that is not valid MCP", code="mcp-protocol")
    if isinstance(leaf, RuntimeError) and str(leaf).startswith(_NO_VERSION):
        hint = "update the server or wasmrt"
        return GuestOutputError(f"{name} supports no MCP version that wasmrt supports", code="mcp-protocol", hint=hint)
    if isinstance(leaf, OSError):
        return ExternalServiceError(f"{name} cannot be reached ({leaf.strerror})", code="mcp-server")
    return ExternalServiceError(f"the connection to {name} failed with {type(leaf).__name__}", code="mcp-server")


def as_tool_error(error: WasmrtError) -> ToolError:
    """Return the ToolError that a call raises for an error."""
    if isinstance(error, ToolError):
        return error
    failure = ToolError(error.message, code=error.code, hint=error.hint)
    if not isinstance(error, ConfigurationError):
        failure.retryable = error.retryable
    return failure


def make_late_error(name: str, seconds: float, *, starting: bool = False) -> DeadlineExceededError:
    """Return the error for a server that did not answer in time; `timeout_seconds` does not apply to its start."""
    if starting:
        hint = f"check that its command or URL is an MCP server: wasmrt mcp check {name}"
        message = f"{name} did not answer as an MCP server within {seconds:g} s of its start"
        return DeadlineExceededError(message, limit=seconds, used=None, setting="", hint=hint)
    return DeadlineExceededError(
        f"{name} took longer than {seconds:g} s", limit=seconds, used=None, setting="timeout_seconds",
        hint="raise the server's timeout_seconds if it needs more time",
    )  # fmt: skip


def _convert_protocol_error(error: MCPError, name: str, redact: Callable[[str], str]) -> WasmrtError:
    if error.code == REQUEST_TIMEOUT:
        return ExternalServiceError(f"{name} did not answer in time", code="mcp-server")
    if error.code == CONNECTION_CLOSED:
        return ExternalServiceError(f"the connection to {name} ended", code="mcp-server")
    if error.code == INVALID_PARAMS:
        return GuestError(f"{name} refused the call: {to_safe_line(error.message, redact)}", code="mcp-error")
    return GuestError(f"{name} answered with an error: {to_safe_line(error.message, redact)}", code="mcp-error")


def _iter_leaves(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _iter_leaves(inner)
    else:
        yield error


_KEPT = 8
"""The number of values kept for one secret, since a server may send back an old token after a renewal."""


class KnownSecrets:
    """The secrets sent to one server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._values: dict[tuple[str, str], tuple[str, ...]] = {}
        self._scanner = LeakDetector().scanner()

    def add(self, user: str, name: str, value: str) -> None:
        """Redact a user's secret from now on. Call it before the secret is sent."""
        with self._lock:
            before = self._values.get((user, name), ())
            if value in before:
                return
            self._values[user, name] = (*before[1 - _KEPT :], value)
            self._scanner = self._build_scanner()

    def _build_scanner(self) -> LeakScanner:
        # SECURITY: secrets of several users, and old and new values of one secret, share a name.
        names = {value: name for (_, name), values in self._values.items() for value in values}
        secrets: dict[str, str] = {}
        counts = Counter[str]()
        for value, name in names.items():
            counts[name] += 1
            secrets[name if counts[name] == 1 else f"{name}#{counts[name]}"] = value
        return LeakDetector().scanner(secrets)

    @property
    def is_empty(self) -> bool:
        """True if no secrets were added."""
        return not self._values

    def redact(self, text: str) -> str:
        """Return text without the secrets, and without other text that looks like a secret."""
        return self._scanner.redact(text)

    def redact_part(self, text: str) -> str:
        """Return text that may have been cut, also without larger pieces of the secrets."""
        return self._scanner.partial.redact(text)

    def clean(self, error: ToolError) -> None:
        """Redact all text of an error, and remove its causes, which contain the server's text."""
        error.message = self.redact_part(error.message)
        error.args = (error.message,)
        if error.hint is not None:
            error.hint = self.redact_part(error.hint)
        error.logs = tuple(entry._replace(message=self.redact_part(entry.message)) for entry in error.logs)
        error.decisions = tuple(decision.redacted(self.redact_part) for decision in error.decisions)
        error.__cause__ = error.__context__ = None
