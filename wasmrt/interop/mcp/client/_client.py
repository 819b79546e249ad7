"""McpClient: one configured server, connected at first use and reconnected when the connection has ended."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from wasmrt.agent.approvals import Approvals
from wasmrt.core.errors import NotAuthorizedError, ToolError, WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MCP_CONNECT_SECONDS, MCP_IDLE_SECONDS, MCP_LIST_SECONDS
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.outlet import EgressProxySessions
from wasmrt.egress.secrets import DEFAULT_USER, SecretsStore
from wasmrt.interop.mcp.client._asking import Asker
from wasmrt.interop.mcp.client._connection import Connection, OnProgress
from wasmrt.interop.mcp.client._definition import Definition
from wasmrt.interop.mcp.client._errors import NO_STORE_HINT, KnownSecrets, as_tool_error, make_late_error
from wasmrt.interop.mcp.client._files import NOTHING, Trusted
from wasmrt.interop.mcp.client._guard import MessageGuard
from wasmrt.interop.mcp.client._login import make_login
from wasmrt.interop.mcp.client._loop import LoopThread
from wasmrt.interop.mcp.client._program import find_program
from wasmrt.interop.mcp.client._settings import McpServerConfig
from wasmrt.interop.mcp.client._stdio import StdioServer
from wasmrt.interop.mcp.client._transport import Way, make_network, open_client

_MAX_LIST_AGE_SECONDS = 300.0
_MAX_USERS = 64
_LOOK_SECONDS = 30.0


@dataclass(frozen=True, kw_only=True)
class ClientParts:
    """The parts that the clients of one registry share."""

    network: NetworkConfig = field(default_factory=NetworkConfig)
    secrets: SecretsStore | None = None
    approvals: Approvals | None = None
    """Answers elicitation requests of servers; without approvals, these are cancelled."""
    sampling: Any = None
    """Answers sampling requests: an `SamplingFnT` of the SDK. Without it, sampling is not offered."""
    idle_seconds: float = MCP_IDLE_SECONDS
    loop: LoopThread = field(default_factory=LoopThread)


class ServerFacts(NamedTuple):
    """Facts reported by a connected server."""

    version: str
    """The protocol version."""
    name: str
    server_version: str
    tools: list[Definition]


class McpClient:
    """The client of one server. Any thread may use it; each user has a separate connection.

    No server is started without consent: `trusted` must cover the server's current configuration.
    """

    def __init__(self, server: McpServerConfig, trusted: Trusted = NOTHING, parts: ClientParts | None = None) -> None:
        self.server = server
        self.trusted = trusted
        self._parts = parts or ClientParts()
        self._owns_loop = parts is None
        self._open: dict[str, _UserConnection] = {}
        self.secrets = KnownSecrets()
        self._programs: dict[str, StdioServer] = {}
        self._outlets = EgressProxySessions(server.hosts, name=f"mcp:{server.name}", network=self._parts.network)

    def __enter__(self) -> McpClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def look(self, *, user: str = DEFAULT_USER, seconds: float = MCP_CONNECT_SECONDS) -> ServerFacts:
        """Connect, and return the server's facts and tools.

        Raises:
            WasmrtError: the server is not allowed to start, cannot be reached, or exceeds a limit.
        """
        return self._parts.loop.run(self._look(user), Lifetime(seconds + MCP_LIST_SECONDS))

    def call(
        self,
        tool: Definition,
        arguments: dict[str, Any],
        lifetime: Lifetime,
        *,
        user: str = DEFAULT_USER,
        on_progress: OnProgress | None = None,
    ) -> Any:
        """Call a tool, and return the SDK's result. The server's definition of the tool must equal `tool`.

        Raises:
            ToolError: the server is not allowed to start, cannot be reached or failed, or its tool has changed.
        """
        try:
            return self._parts.loop.run(self._call(tool, arguments, lifetime, user, on_progress), lifetime)
        except WasmrtError as error:
            raise as_tool_error(error) from error

    def close(self) -> None:
        """Close all connections, and end their programs."""
        with suppress(WasmrtError):
            self._parts.loop.run(self._close_all(), Lifetime(30.0))
        self._outlets.close()
        if self._owns_loop:
            self._parts.loop.close()

    def decisions(self, user: str) -> tuple[Decision, ...]:
        """Return the decisions about connections of the program of `user` since this was last called, denials first."""
        program = self._programs.get(user)
        return () if program is None else program.decisions()

    # -- in the loop -----------------------------------------------------------------------------------------------

    async def _look(self, user: str) -> ServerFacts:
        held = await self._get_connection(user)
        tools = await self._list_tools(held, MCP_LIST_SECONDS)
        info = held.connection.client.server_info
        return ServerFacts(held.connection.version, info.name if info else "", info.version if info else "", tools)

    async def _call(
        self, tool: Definition, arguments: dict[str, Any], lifetime: Lifetime, user: str, on_progress: OnProgress | None
    ) -> Any:
        if on_progress is not None and user not in self._open:
            await on_progress(0, None, f"{'reaching' if self.server.url else 'starting'} the server {self.server.name}")
        for attempt in range(2):
            held = await self._get_connection(user)
            connection = held.connection
            if connection.changed or time.monotonic() - connection.listed_at > _MAX_LIST_AGE_SECONDS:
                await self._list_tools(held, lifetime.remaining())
            self._check(tool, held.tools)
            try:
                return await connection.call(tool.name, arguments, lifetime.remaining(), on_progress)
            except TimeoutError:
                raise make_late_error(self.server.name, lifetime.deadline - lifetime.started) from None
            except WasmrtError as error:
                # The server dropped the session, and has not run the call (basic/transports, 2025-11-25).
                if attempt or "Session terminated" not in error.message:
                    raise
                connection.is_draining = True
            finally:
                await self._retire(user, held)
        raise AssertionError("the second attempt raises or returns")

    def _check(self, tool: Definition, live: Mapping[str, Definition]) -> None:
        """Refuse a tool whose definition differs from the approved one.

        Raises:
            NotAuthorizedError: the definition changed, or the tool was removed.
        """
        now = live.get(tool.name)
        if now is not None and now.digest == tool.digest:
            return
        how = "no longer offers this tool" if now is None else "has changed the definition of this tool"
        hint = f"review the change and approve it: wasmrt mcp trust {self.server.name}"
        rule = f"the MCP server {self.server.name} {how}"
        decision = Decision(False, Reason.DEFINITION_CHANGED, rule, hint, "tool.definition", tool.name)
        raise NotAuthorizedError.of(decision)

    async def _get_connection(self, user: str) -> _UserConnection:
        """Return the user's connection, and open one if necessary."""
        held = self._open.get(user)
        if held is None:
            if len(self._open) >= _MAX_USERS:
                await self._close_oldest()
            held = self._open[user] = _UserConnection()
        async with held.lock:
            if held.opened is None or not held.opened.is_open:
                if held.opened is not None:
                    await held.end()
                await self._connect(held, user)
        return held

    async def _connect(self, held: _UserConnection, user: str) -> None:
        self._check_consent()
        guard = MessageGuard()
        way = self._way(user, guard)
        held.http = way.http
        connection = Connection(self.server.name, way, guard, self._callbacks(user), self.secrets.redact)
        held.opened = connection
        try:
            await connection.open()
            held.tools = {tool.name: tool for tool in await connection.tools(MCP_LIST_SECONDS)}
        except TimeoutError:
            await held.end()
            raise make_late_error(self.server.name, MCP_LIST_SECONDS, starting=True) from None
        except BaseException:
            await held.end()
            raise
        if way.stdio is None and not connection.is_modern:
            held.watch = asyncio.create_task(self._end_when_idle(held))

    def _way(self, user: str, guard: MessageGuard) -> Way:
        server, secrets = self.server, self._parts.secrets
        if not server.url:
            env = dict(server.env)
            for name, secret in server.secret_env.items():
                env[name] = self._read_secret(user, secret)
            outlet = partial(self._outlets.open, user) if server.hosts else None
            program = self._programs[user] = StdioServer(
                find_program(server, user), env, guard, self.secrets.redact, outlet
            )
            return Way(stdio=program)
        if server.bearer:
            self._read_secret(user, server.bearer)
        way = Way(url=server.url, transport=server.transport)
        auth = make_login(
            server, secrets, user, make_network(server, self._parts.network), partial(self.secrets.add, user)
        )
        way.http = open_client(
            server, self._parts.network, secrets=secrets, user=user, auth=auth,
            auth_origins=self.trusted.auth_hosts, on_decision=way.on_decision,
        )  # fmt: skip
        return way

    def _read_secret(self, user: str, name: str) -> str:
        if self._parts.secrets is None:
            raise ToolError(f"the secret {name} is not set", code="secret-not-found", hint=NO_STORE_HINT)
        value = self._parts.secrets.get(user, name).reveal()
        self.secrets.add(user, name, value)
        return value

    def _callbacks(self, user: str) -> dict[str, Any]:
        callbacks: dict[str, Any] = {"elicitation_callback": Asker(self.server.name, self._parts.approvals, user)}
        if self._parts.sampling is not None:
            callbacks["sampling_callback"] = self._parts.sampling
        return callbacks

    def _check_consent(self) -> None:
        if self.trusted.covers(self.server):
            return
        what = "address" if self.server.url else "command"
        rule = f"the current {what} of the MCP server {self.server.name} has not been approved"
        hint = f"review and approve it: wasmrt mcp trust {self.server.name}"
        decision = Decision(False, Reason.DEFINITION_CHANGED, rule, hint, "tool.definition", self.server.name)
        raise NotAuthorizedError.of(decision)

    async def _list_tools(self, held: _UserConnection, seconds: float) -> list[Definition]:
        try:
            tools = await held.connection.tools(seconds)
        except TimeoutError:
            raise make_late_error(self.server.name, seconds) from None
        held.tools = {tool.name: tool for tool in tools}
        return tools

    async def _retire(self, user: str, held: _UserConnection) -> None:
        if held.opened is not None and held.opened.is_draining and not held.opened.open_calls:
            if self._open.get(user) is held:
                del self._open[user]
            await held.end()

    async def _end_when_idle(self, held: _UserConnection) -> None:
        """Close an idle session of an older protocol version, since the server keeps such sessions in memory."""
        idle = self._parts.idle_seconds
        while held.opened is not None:
            left = held.opened.used_at + idle - time.monotonic()
            if left <= 0 and not held.opened.open_calls:
                await held.end()
                return
            await asyncio.sleep(min(max(left, 0.05), _LOOK_SECONDS))

    async def _close_oldest(self) -> None:
        idle = [(held.opened.used_at if held.opened else 0.0, user) for user, held in self._open.items()]
        _, user = min(idle)
        self._programs.pop(user, None)
        await self._open.pop(user).end()

    async def _close_all(self) -> None:
        held, self._open = list(self._open.values()), {}
        await asyncio.gather(*(each.end() for each in held))


class _UserConnection:
    """The connection of one user."""

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.opened: Connection | None = None
        self.http: Any = None
        self.watch: asyncio.Task[None] | None = None
        self.tools: dict[str, Definition] = {}

    @property
    def connection(self) -> Connection:
        """The open connection."""
        assert self.opened is not None
        return self.opened

    async def end(self) -> None:
        """Close the connection and its HTTP client."""
        opened, http, watch = self.opened, self.http, self.watch
        self.opened = self.http = self.watch = None
        if watch is not None and watch is not asyncio.current_task():
            watch.cancel()
        try:
            if opened is not None:
                await opened.close()
        finally:  # even if this task is cancelled
            if http is not None:
                await http.aclose()
