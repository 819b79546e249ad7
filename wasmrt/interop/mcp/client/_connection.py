"""One open connection to a server: an SDK session that runs in a separate task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import mcp_types as types
from mcp.client import Client
from mcp.client.session import ClientRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import TypeAdapter

from wasmrt.core.errors import ExternalServiceError, GuestOutputError, ToolError, WasmrtError
from wasmrt.core.limits import (
    MAX_MCP_LIST_BYTES,
    MAX_MCP_OPEN_REQUESTS,
    MAX_MCP_PAGES,
    MAX_MCP_ROUNDS,
    MAX_MCP_TOOLS,
    MCP_CONNECT_SECONDS,
    MCP_STOP_SECONDS,
)
from wasmrt.interop.mcp.client._definition import Definition, read_definition
from wasmrt.interop.mcp.client._errors import as_wasmrt_error, make_late_error
from wasmrt.interop.mcp.client._guard import MessageGuard, make_protocol_error
from wasmrt.interop.mcp.client._loop import call_with_telemetry
from wasmrt.interop.mcp.client._settings import Transport
from wasmrt.interop.mcp.client._transport import Way

_RESULT: TypeAdapter[Any] = TypeAdapter(types.CallToolResult | types.InputRequiredResult)
_CLOSE_SECONDS = 4 * MCP_STOP_SECONDS
_LISTEN_SECONDS = 2.0
_NAME, _VERSION = "wasmrt", "1"
OnProgress = Any
"""A `ProgressFnT` of the SDK."""


class Connection:
    """A connection, for one event loop.

    Attributes:
        changed: The server has announced a change of its tools.
        used_at: Monotonic seconds of the end of the last call.
        listed_at: Monotonic seconds of the last list of tools.
        is_draining: The connection accepts no more calls, and is closed after its last call.
        open_calls: The number of running calls.
    """

    def __init__(
        self, name: str, way: Way, guard: MessageGuard, callbacks: Mapping[str, Any], redact: Callable[[str], str]
    ) -> None:
        self.name = name
        self.changed = False
        self.used_at = self.listed_at = time.monotonic()
        self.open_calls = 0
        self.is_draining = False
        self._way = way
        self._guard = guard
        self._callbacks = callbacks
        self._redact = redact
        self._client: Client | None = None
        self._failure: WasmrtError | None = None
        self._ready = asyncio.Event()
        self._closing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._listening: asyncio.Task[None] | None = None

    # -- life ------------------------------------------------------------------------------------------------------

    async def open(self, seconds: float = MCP_CONNECT_SECONDS) -> None:
        """Connect and negotiate the protocol version.

        Raises:
            WasmrtError: the server cannot be reached, is not an MCP server, or took too long.
        """
        self._task = asyncio.create_task(self._serve())
        try:
            async with asyncio.timeout(seconds):
                await self._ready.wait()
        except TimeoutError:
            await self.close()
            raise make_late_error(self.name, seconds, starting=True) from None
        except BaseException:
            await self.close()
            raise
        if self._client is None:
            await self.close()
            raise self.find_failure() or ExternalServiceError(f"the connection to {self.name} ended", code="mcp-server")

    async def close(self) -> None:
        """Close the session, and end its program. Idempotent."""
        self._closing.set()
        task = self._task
        if task is None or task.done():
            return
        if self._client is not None:  # otherwise the task still waits for the server
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)
        if not task.done():
            task.cancel()
            await asyncio.wait({task}, timeout=_CLOSE_SECONDS)

    @property
    def is_open(self) -> bool:
        """True if calls can be made."""
        return self._client is not None and not self.is_draining and self._task is not None and not self._task.done()

    def find_failure(self) -> WasmrtError | None:
        """Return the reason closest to the cause of the connection's end, or None while it is open."""
        if self._guard.failure is not None:
            return self._guard.failure
        if (denied := self._find_last_denial()) is not None:
            return denied
        if self._failure is not None and self._failure.code != "mcp-server":
            return self._failure  # the program exited afterwards, because its input was closed
        ended = None if self._way.stdio is None else self._way.stdio.ended()
        return ended or self._failure

    async def _serve(self) -> None:
        kinds: tuple[Transport, ...]
        kinds = (Transport.SSE,) if self._way.transport is Transport.SSE else (Transport.STREAMABLE_HTTP,)
        if self._way.transport is Transport.AUTO and self._way.stdio is None:
            kinds = (Transport.STREAMABLE_HTTP, Transport.SSE)
        try:
            for kind in kinds:
                try:
                    async with self._open_session(kind) as client:
                        self._client = client
                        self._failure = None
                        self._ready.set()
                        await self._wait_until_ended(client)
                        return
                except Exception as error:
                    # Report the failure of the first transport, which most servers use.
                    self._failure = self._failure or as_wasmrt_error(error, self.name, self._redact)
                    if self._client is not None or self._guard.failure is not None or self._way.denials:
                        return
        finally:
            self._client = None
            self._ready.set()

    @asynccontextmanager
    async def _open_session(self, kind: Transport) -> AsyncIterator[Client]:
        client = Client(
            self._way.streams(kind, self._guard),
            mode="auto" if kind is not Transport.SSE else "legacy",
            cache=None,
            client_info=types.Implementation(name=_NAME, version=_VERSION),
            message_handler=self._note_changed_tools,
            read_timeout_seconds=MCP_CONNECT_SECONDS,
            **self._callbacks,
        )
        async with client:
            yield client

    async def _wait_until_ended(self, client: Client) -> None:
        """Wait until the connection is closed or ends."""
        closing = asyncio.create_task(self._closing.wait())
        try:
            while not closing.done():
                await asyncio.wait({closing}, timeout=0.25)
                if self._guard.failure is not None or (self._way.stdio is not None and self._way.stdio.ended()):
                    return
        finally:
            closing.cancel()
            if self._listening is not None:
                self._listening.cancel()
                await asyncio.wait({self._listening}, timeout=1.0)

    async def _note_changed_tools(self, message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self.changed = True

    def _find_last_denial(self) -> ToolError | None:
        if not self._way.denials:
            return None
        decision = self._way.denials[-1]
        error = ToolError(decision.sentence, code=str(decision.reason), hint=decision.hint)
        error.decisions = (decision,)
        return error

    # -- facts -----------------------------------------------------------------------------------------------------

    @property
    def client(self) -> Client:
        """The SDK's client.

        Raises:
            WasmrtError: the connection has ended.
        """
        if self._client is None:
            raise self.find_failure() or ExternalServiceError(f"the connection to {self.name} ended", code="mcp-server")
        return self._client

    @property
    def version(self) -> str:
        """The negotiated protocol version."""
        return self.client.protocol_version

    @property
    def is_modern(self) -> bool:
        """True if the protocol version has no sessions."""
        return self.version in MODERN_PROTOCOL_VERSIONS

    # -- requests --------------------------------------------------------------------------------------------------

    async def tools(self, seconds: float) -> list[Definition]:
        """Return the tools from all pages of the server's list.

        Raises:
            WasmrtError: the list exceeds a limit.
        """
        self._forget_denials()
        await self._listen()  # first, so that no change is missed
        self.changed = False
        found = await self._wait_for(self._list_all_tools(), seconds)
        self.listed_at = time.monotonic()
        return list(found)

    def _forget_denials(self) -> None:
        if not self.open_calls:
            self._way.denials.clear()

    async def _listen(self) -> None:
        """Subscribe to changes of the tools: servers of newer protocol versions notify subscribers only."""
        listed = self.client.server_capabilities.tools
        if self._listening is not None or not self.is_modern or listed is None or not listed.list_changed:
            return
        agreed = asyncio.Event()
        self._listening = asyncio.create_task(self._watch_changes(self.client, agreed))
        with suppress(TimeoutError):  # without a subscription, the list is requested again when it expires
            await asyncio.wait_for(agreed.wait(), _LISTEN_SECONDS)

    async def _watch_changes(self, client: Client, agreed: asyncio.Event) -> None:
        try:
            async with client.listen(tools_list_changed=True) as subscription:
                agreed.set()
                async for _ in subscription:
                    self.changed = True
        except Exception:
            self.changed = True  # a change may have been missed
        finally:
            agreed.set()

    async def _list_all_tools(self) -> list[Definition]:
        found: list[Definition] = []
        seen: set[str] = set()
        cursor: str | None = None
        size = 0
        for _ in range(MAX_MCP_PAGES):
            params = types.PaginatedRequestParams(cursor=cursor) if cursor is not None else None
            page = await self.client.session.list_tools(params=params)
            for tool in page.tools:
                data = tool.model_dump(by_alias=True, exclude_none=True)
                schemas = (data.get("inputSchema"), data.get("outputSchema"))
                found.append(
                    read_definition(
                        tool.name, data.get("title"), data.get("description"), schemas, data.get("annotations")
                    )
                )
            size += len(page.model_dump_json())
            if len(found) > MAX_MCP_TOOLS or size > MAX_MCP_LIST_BYTES:
                raise make_protocol_error(f"lists over {MAX_MCP_TOOLS} tools, or their definitions are too large")
            cursor = page.next_cursor
            if cursor is None:
                return found
            if cursor in seen:
                raise make_protocol_error("lists its tools in a circle")
            seen.add(cursor)
        raise make_protocol_error(f"lists its tools on over {MAX_MCP_PAGES} pages")

    async def call(
        self, tool: str, arguments: dict[str, Any], seconds: float, on_progress: OnProgress | None = None
    ) -> types.CallToolResult:
        """Call a tool, and answer its requests for input.

        Raises:
            WasmrtError: the call failed, or took too long.
        """
        self._forget_denials()
        self.open_calls += 1
        try:
            result: types.CallToolResult = await self._wait_for(
                self._call(tool, arguments, seconds, on_progress), seconds
            )
            return result
        except (TimeoutError, asyncio.CancelledError):
            # In older protocol versions over HTTP, only ending the session cancels a request.
            self.is_draining |= self._way.stdio is None and self._client is not None and not self.is_modern
            raise
        finally:
            self.open_calls -= 1
            self.used_at = time.monotonic()

    async def _call(
        self, tool: str, arguments: dict[str, Any], seconds: float, on_progress: OnProgress | None
    ) -> types.CallToolResult:
        responses: dict[str, Any] | None = None
        state: str | None = None
        for _ in range(MAX_MCP_ROUNDS + 1):
            params = types.CallToolRequestParams(
                name=tool, arguments=arguments, input_responses=responses, request_state=state
            )
            # Not `call_tool`: it would match the server's patterns against the result with a backtracking engine.
            request = types.CallToolRequest(params=params)
            send = partial(self.client.session.send_request, request, _RESULT, seconds, progress_callback=on_progress)
            result = await call_with_telemetry(send, version=self.version, address=self._way.address)
            if isinstance(result, types.CallToolResult):
                return result
            responses, state = await self._answer_requests(result), result.request_state
        raise GuestOutputError(
            f"{self.name} asked for input over {MAX_MCP_ROUNDS} times in a call", code="mcp-protocol"
        )

    async def _answer_requests(self, asked: types.InputRequiredResult) -> dict[str, Any] | None:
        requests = asked.input_requests or {}
        if len(requests) > MAX_MCP_OPEN_REQUESTS:
            raise GuestOutputError(f"{self.name} asked for too many inputs at once", code="mcp-protocol")
        if not requests:
            await asyncio.sleep(0.25)
            return None
        answers = {}
        for key, request in requests.items():
            session = self.client.session
            context = ClientRequestContext(session=session, request_id=key, meta=None)
            answer = await session.dispatch_input_request(context, request)
            if isinstance(answer, types.ErrorData):
                raise MCPError(code=answer.code, message=answer.message)
            answers[key] = answer
        return answers

    async def _wait_for(self, work: Any, seconds: float) -> Any:
        """Wait for work for at most `seconds`, or until the connection ends."""
        task = asyncio.ensure_future(work)
        waits = {task, self._task} if self._task is not None else {task}
        try:
            async with asyncio.timeout(seconds):
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if not task.done():  # the connection ended first
                    await asyncio.wait({task}, timeout=1.0)
                if not task.done():
                    raise self.find_failure() or ExternalServiceError(
                        f"the connection to {self.name} ended", code="mcp-server"
                    )
                return task.result()
        except (TimeoutError, asyncio.CancelledError, WasmrtError):
            raise
        except Exception as error:
            failure = as_wasmrt_error(error, self.name, self._redact)
            if not isinstance(error, MCPError) or failure.code == "mcp-server" or self._way.denials:
                raise await self._find_cause(failure) from error
            raise failure from error
        finally:
            if not task.done():
                task.cancel()
            elif not task.cancelled():
                task.exception()  # already reported

    async def _find_cause(self, failure: WasmrtError) -> WasmrtError:
        """Return the cause of a broken connection, which becomes known shortly after its streams close."""
        for _ in range(20):
            if (ended := self.find_failure()) is not None:
                return ended
            if self._task is None or self._task.done():
                break
            await asyncio.wait({self._task}, timeout=0.05)
        return self.find_failure() or failure
