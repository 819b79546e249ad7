"""A server over pipes with a registry of functions, and a client that records every line."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from wasmrt import ToolContext, ToolRegistry, tool
from wasmrt.agent.approvals import Approvals, ApprovalStore, ParkedRequests
from wasmrt.agent.policy import ApproverKind, ToolPolicy
from wasmrt.agent.registry import ToolView
from wasmrt.core.postgres import Postgres
from wasmrt.core.telemetry import Telemetry
from wasmrt.interop.mcp.server.http import PATH, Access, Entrance, UserTokens, serve_http
from wasmrt.interop.mcp.server.protocol import Server, serve_stdio
from wasmrt.interop.mcp.server.tools import ServedApprover, ServedTools
from wasmrt.runtime.audit import Receipt

SECONDS = 20.0
VERSION, CAPABILITIES = "io.modelcontextprotocol/protocolVersion", "io.modelcontextprotocol/clientCapabilities"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
META = {
    VERSION: "2026-07-28",
    CAPABILITIES: {},
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
}
URLS = META | {CAPABILITIES: {"elicitation": {"url": {}}}}
FORMS = META | {CAPABILITIES: {"elicitation": {}}}


@tool(effects=["write-filesystem"])
def jot(name: str) -> str:
    """Write a note; this tool has a stable digest of its code."""
    return f"jotted {name}"


class Line:
    """A client at the other ends of two descriptors."""

    def __init__(self, source: int, sink: int) -> None:
        self.source, self.sink = source, sink
        self._buffer = b""
        self._number = 0

    def raw(self, data: bytes) -> None:
        while data:
            data = data[os.write(self.sink, data) :]

    def send(self, message: Any) -> None:
        self.raw(json.dumps(message).encode() + b"\n")

    def request(self, method: str, params: dict[str, Any] | None = None, *, number: Any = None) -> Any:
        self._number += 1
        number = self._number if number is None else number
        self.send({"jsonrpc": "2.0", "id": number, "method": method} | ({} if params is None else {"params": params}))
        return number

    def read(self, seconds: float = SECONDS) -> dict[str, Any]:
        """Return the next message of the server."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.source], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self.source, 1 << 20) if ready else b""
            if not data:
                raise EOFError("the server said nothing more")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def until(self, number: Any, seen: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        """Return the response to a request; earlier messages are added to `seen`."""
        while True:
            message = self.read()
            if message.get("id") == number and "method" not in message:
                return message
            if seen is not None:
                seen.append(message)

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a modern request."""
        answer = self.until(self.request(method, {"_meta": META} | (params or {})))
        assert "result" in answer, answer
        return answer["result"]

    def error(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the error of a request."""
        answer = self.until(self.request(method, params))
        assert "error" in answer, answer
        return answer["error"]

    def call(self, name: str, arguments: Any = None, *, meta: dict[str, Any] = META, **more: Any) -> dict[str, Any]:
        """Return the result of a call of a tool."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, "_meta": meta} | more)

    def initialize(self, version: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        """Start a session of the older revisions, and return the server's result."""
        number = self.request(
            "initialize",
            {"protocolVersion": version, "capabilities": capabilities, "clientInfo": {"name": "old", "version": "2"}},
        )
        found = self.until(number)["result"]
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return found

    def legacy(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the result of a request without the modern metadata."""
        answer = self.until(self.request(method, params or {}))
        assert "result" in answer, answer
        return answer["result"]

    def works(self) -> None:
        """Check that the server answers a tool call in both eras."""
        assert self.call("add", {"a": 1, "b": 2})["structuredContent"] == 3

    def end_input(self) -> None:
        """Close the server's input, once."""
        if self.sink >= 0:
            os.close(self.sink)
        self.sink = -1

    def wait_for_end(self) -> None:
        """Read until the server has ended."""
        while os.read(self.source, 1 << 20):
            pass

    def close(self) -> None:
        self.end_input()
        os.close(self.source)


class World:
    """Tools, their actions, and their receipts."""

    def __init__(
        self,
        home: Path,
        kind: ApproverKind = ApproverKind.AUTO,
        policy: ToolPolicy | None = None,
        telemetry: Telemetry | None = None,
        place: Postgres | None = None,
        state_key: bytes | None = None,
    ) -> None:
        self._state_key = state_key
        self.done: list[str] = []
        self.reports: list[str] = []
        self.receipts: list[Receipt] = []
        self.written: queue.Queue[Receipt] = queue.Queue()
        self.started, self.go = threading.Event(), threading.Event()
        self.ended = threading.Event()
        self.store = ApprovalStore(place or home / "approvals.sqlite3")
        self.pages: dict[str, str] = {}
        """The address of each user's pages."""
        self.parked = ParkedRequests(self.store)
        approver = ServedApprover(self.parked, kind, self.pages.get)
        self.registry = ToolRegistry(
            policy=policy,
            approvals=Approvals(approver, store=self.store),
            receipts=self._write,
            telemetry=telemetry,
        )
        for each in (*self._tools(), *self._slow_tools()):
            self.registry.register(each)

    def _write(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self.written.put(receipt)

    def _tools(self) -> Iterator[Any]:
        @tool(effects=[])
        def add(a: int, b: int) -> int:
            """Add two numbers."""
            return a + b

        @tool(effects=["read-filesystem"])
        def tell(text: str) -> Any:
            """Return a text as data."""
            return {"text": text}

        @tool(effects=["write-filesystem"])
        def write_note(name: str) -> str:
            """Write a note."""
            self.done.append(name)
            return f"wrote {name}"

        @tool(effects=[])
        def steps(count: int, context: ToolContext) -> str:
            """Report progress."""
            for done in (*range(1, count + 1), count):
                if context.on_progress is not None:
                    context.on_progress(done, count, f"step {done}")
            return "done"

        @tool(effects=[])
        def media() -> Any:
            """Return an image and a link."""
            return {
                "content": [
                    {"type": "text", "text": "look"},
                    {"type": "image", "data": "aGk=", "mimeType": "image/png"},
                    {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
                    {"type": "resource_link", "uri": "https://example.com/a", "name": "a\u200b"},
                    {"type": "resource", "resource": {"uri": "note:1", "mimeType": "text/plain", "text": "hi"}},
                ]
            }

        @tool(effects=[])
        def broken() -> str:
            """Fail."""
            raise ValueError("it is broken")

        yield from (add, tell, write_note, steps, media, broken, jot)

    def _slow_tools(self) -> Iterator[Any]:
        @tool(effects=[])
        async def wait() -> str:
            """Wait until released by the test."""
            self.started.set()
            try:
                while not self.go.is_set():
                    await asyncio.sleep(0.005)
            except asyncio.CancelledError:
                self.ended.set()
                raise
            return "waited"

        @tool(effects=[])
        async def begin(context: ToolContext) -> str:
            """Report the start, and wait."""
            if context.on_progress is not None:
                context.on_progress(1, None, "begun")
            return await wait()

        yield from (wait, begin)

    @contextlib.contextmanager
    def serve(self, view: Callable[[ToolRegistry], ToolView] = lambda registry: registry) -> Iterator[Line]:
        """Serve one client from a separate thread."""
        (to_server, from_client), (to_client, from_server) = os.pipe(), os.pipe()
        self.server_ended, running = threading.Event(), threading.Event()

        async def run() -> None:
            self.loop = asyncio.get_running_loop()
            self.server = Server(version="1")
            self.served = ServedTools(view(self.registry), self.parked)
            self.server.open(self.served, self.registry.telemetry)
            running.set()
            await serve_stdio(self.server, user="local", report=self.reports.append, source=to_server, sink=from_server)

        def thread() -> None:
            asyncio.run(run())
            os.close(from_server)
            self.server_ended.set()

        serving = threading.Thread(target=thread, daemon=True)
        serving.start()
        assert running.wait(SECONDS)
        line = Line(to_client, from_client)
        try:
            yield line
        finally:
            self.go.set()
            line.close()
            serving.join(SECONDS)
            os.close(to_server)
            assert not serving.is_alive()

    @contextlib.contextmanager
    def serve_http(
        self, users: UserTokens, access: Callable[[], Access] | None = None, origin: str | None = None
    ) -> Iterator[str]:
        """Serve over HTTP on a free port from a separate thread; yield the endpoint's address."""
        running, urls = threading.Event(), list[str]()

        def started(url: str) -> None:
            urls.append(f"{url}{PATH}")
            running.set()

        async def run() -> None:
            self.loop, self.stop = asyncio.get_running_loop(), asyncio.Event()
            self.task = asyncio.current_task()
            self.server = Server(version="1")
            self.served = ServedTools(self.registry, self.parked, self._state_key)
            self.server.open(self.served, self.registry.telemetry)
            entrance = Entrance(users, access and access())
            await serve_http(
                self.server, entrance, host="127.0.0.1", port=0, ended=self.stop, started=started, origin=origin
            )

        def thread() -> None:
            with contextlib.suppress(asyncio.CancelledError):  # cancelled as by a signal
                asyncio.run(run())

        serving = threading.Thread(target=thread, daemon=True)
        serving.start()
        assert running.wait(SECONDS)
        try:
            yield urls[0]
        finally:
            self.go.set()
            with contextlib.suppress(RuntimeError):  # already ended
                self.loop.call_soon_threadsafe(self.stop.set)
            serving.join(SECONDS)
            assert not serving.is_alive()

    def refresh(self) -> None:
        """Refresh the server's tools, as after a change of the catalog."""

        def look() -> None:
            if self.served.refresh():
                self.server.tools_changed()

        self.loop.call_soon_threadsafe(look)

    def pending(self) -> list[str]:
        return [request.id for request in self.store.pending()]


def ask_old(line: Line) -> tuple[int, dict[str, Any]]:
    """Make a call that needs approval, as a legacy client; return its number and the form request."""
    number = line.request("tools/call", {"name": "write_note", "arguments": {"name": "a"}})
    asked = line.read()
    assert asked["method"] == "elicitation/create"
    return number, asked
