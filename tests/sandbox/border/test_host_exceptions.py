"""An unexpected exception ends the call with a typed error; only the traceback has its text."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from wasmrt.testing import MemorySecrets

from tests.sandbox.border.conftest import Start, only_tool
from tests.sandbox.border.relays import reporter, secret_asker
from wasmrt import Capabilities, ToolError, ToolErrorKind
from wasmrt.core.errors import CapabilityDeniedError, ConfigurationError, LeakError, SecretNotFoundError, WasmrtError

TEXT = "a text of the host, with /home/ann/keys in it"


class _BrokenStore(MemorySecrets):
    """A store whose backend fails in a way that no interface allows for."""

    def get(self, user: str, name: str) -> Any:
        raise LookupError(TEXT)

    def exists(self, user: str, name: str) -> bool:
        raise LookupError(TEXT)


def _break_store(start: Start, audit: Callable[[dict[str, Any]], None]) -> None:
    grant = Capabilities.none().with_secrets(["*"])
    runtime = start(secrets=_BrokenStore(), audit=audit)
    only_tool(runtime, secret_asker("wasmrt:tool/secrets@0.1.0", "exists").component(), grant).execute(
        {"name": "token"}
    )


def _break_progress(start: Start, audit: Callable[[dict[str, Any]], None]) -> None:
    def report(done: int, total: int | None, message: str | None) -> None:
        raise ZeroDivisionError(TEXT)

    only_tool(start(audit=audit), reporter()).execute({}, on_progress=report)


@pytest.mark.parametrize("break_host", [_break_store, _break_progress])
def test_an_unexpected_exception_of_the_host_is_a_typed_error_without_its_text(
    start: Start, break_host: Callable[[Start, Callable[[dict[str, Any]], None]], None]
) -> None:
    records: list[dict[str, Any]] = []
    with pytest.raises(ToolError) as caught:
        break_host(start, records.append)
    error = caught.value
    assert (error.code, error.kind, error.retryable) == ("internal", ToolErrorKind.SANDBOX, False)
    assert error.call_id and error.usage is not None
    told = (error.message, error.hint, str(error), repr(error), json.dumps(error.as_dict()), json.dumps(records))
    for words in (TEXT, "LookupError", "ZeroDivisionError"):
        assert not [text for text in told if text and words in text]
    assert [record["outcome"] for record in records] == ["internal"]
    # The traceback has the exception, for debugging the host.
    assert TEXT in "".join(traceback.format_exception(error))


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (CapabilityDeniedError("no", hint="ask"), ToolErrorKind.NOT_AUTHORIZED),
        (SecretNotFoundError("no", hint="ask"), ToolErrorKind.NOT_AUTHORIZED),
        (LeakError("no", hint="ask"), ToolErrorKind.SANDBOX),
        (ConfigurationError("no", hint="ask"), ToolErrorKind.EXECUTION_FAILED),
    ],
)
def test_a_wasmrt_error_keeps_its_message_and_becomes_a_tool_error(
    start: Start, raised: WasmrtError, kind: ToolErrorKind
) -> None:
    def report(done: int, total: int | None, message: str | None) -> None:
        raise raised

    with pytest.raises(ToolError) as caught:
        only_tool(start(), reporter()).execute({}, on_progress=report)
    error = caught.value
    assert (error.code, error.message, error.hint, error.kind) == (raised.code, "no", "ask", kind)
    assert error.__cause__ is raised


def test_the_guest_stops_when_a_host_function_fails(start: Start) -> None:
    def report(done: int, total: int | None, message: str | None) -> None:
        raise ZeroDivisionError(TEXT)

    with pytest.raises(ToolError) as caught:
        only_tool(start(), reporter(after="unreachable")).execute({}, on_progress=report)
    assert caught.value.code == "internal"


def test_an_interrupt_in_a_host_function_reaches_the_caller_unchanged(start: Start) -> None:
    def report(done: int, total: int | None, message: str | None) -> None:
        raise KeyboardInterrupt

    tool = only_tool(start(), reporter())
    with pytest.raises(KeyboardInterrupt):
        tool.execute({}, on_progress=report)
    assert tool.execute({}).result is True
