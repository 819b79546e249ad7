"""A confined program as a transport: read bounded lines from its standard output, and end its process group."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
from mcp.shared.message import SessionMessage

from wasmrt.core.errors import ExternalServiceError, GuestOutputError, WasmrtError
from wasmrt.core.limits import MAX_MCP_MESSAGE_BYTES, MAX_MCP_NOISE_LINES, MAX_MCP_STDERR_BYTES, MCP_STOP_SECONDS
from wasmrt.core.model import Decision
from wasmrt.egress.outlet import EgressProxySession
from wasmrt.interop.mcp.client._guard import MessageGuard, Streams, make_protocol_error, read_line
from wasmrt.interop.mcp.client._program import Program
from wasmrt.sandbox.component import last_lines, printable_line
from wasmrt.sandbox.isolation.programs import end_group, is_over, not_started, signal_group, starting

_CHUNK = 64 * 1024
_POLL_SECONDS = 0.02
_TAIL_CHARS = 600
_WRONG_DEPENDENCY = re.compile(r"\b(?:AttributeError|ImportError|ModuleNotFoundError): ")


class StdioServer:
    """The program of one connection."""

    def __init__(
        self,
        program: Program,
        env: Mapping[str, str],
        guard: MessageGuard,
        redact: Callable[[str], str],
        outlet: Callable[[], EgressProxySession] | None = None,
    ) -> None:
        self._program = program
        self._env = env
        self._guard = guard
        self._redact = redact
        self._open_outlet = outlet
        self._outlet: EgressProxySession | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._stderr = bytearray()
        self._noise = 0

    @asynccontextmanager
    async def transport(self) -> AsyncIterator[Streams]:
        """Start the program, and end it with all its child processes; every message passes the guard.

        Raises:
            ToolError: the program cannot be started.
        """
        try:
            self._process = process = self._start_program()
        except BaseException:
            await self._shut_outlet()
            raise
        # Lines are bounded and parsed here, not by the SDK.
        inbound, session_read = anyio.create_memory_object_stream[Any](0)
        session_write, outbound = anyio.create_memory_object_stream[Any](0)
        loop = asyncio.get_running_loop()
        pipes: list[Any] = []
        try:
            stdout, stderr = asyncio.StreamReader(limit=_CHUNK), asyncio.StreamReader(limit=_CHUNK)
            for pipe, reader in ((process.stdout, stdout), (process.stderr, stderr)):
                pipes.append((await loop.connect_read_pipe(_make_protocol(reader), pipe))[0])
            stdin = await _make_writer(process, pipes)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._receive, stdout, inbound)
                tasks.start_soon(self._send, stdin, outbound)
                tasks.start_soon(self._keep_errors, stderr)
                try:
                    yield session_read, session_write
                finally:
                    with anyio.CancelScope(shield=True):
                        stdin.close()
                        await self._end()
                    tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._end()
                await self._shut_outlet()
            for pipe in pipes:
                pipe.close()
            for stream in (inbound, session_read, session_write, outbound):
                stream.close()
            await asyncio.sleep(0)  # let the loop close the pipes

    def _start_program(self) -> subprocess.Popen[bytes]:
        Path(self._program.home).mkdir(parents=True, exist_ok=True, mode=0o700)
        with starting("the MCP server"):
            if self._open_outlet is not None:
                self._outlet = self._open_outlet().begin()
            return self._program.command(self._env, self._outlet).start(self._program.cwd)

    async def _shut_outlet(self) -> None:
        if self._outlet is not None:
            await asyncio.to_thread(self._outlet.close)

    def decisions(self) -> tuple[Decision, ...]:
        """Return the decisions about connections of the program since this method was last called."""
        return () if self._outlet is None else self._outlet.decisions()

    async def _receive(self, stdout: asyncio.StreamReader, inbound: Any) -> None:
        async with inbound:
            try:
                async for line in self._lines(stdout):
                    message = read_line(line)
                    if message is None:
                        self._noise += bool(line.strip())
                        if self._noise > MAX_MCP_NOISE_LINES:
                            raise make_protocol_error("writes text that is not a message to its standard output")
                        continue
                    if self._guard.incoming(message, len(line)):
                        await inbound.send(SessionMessage(message))
            except GuestOutputError as error:
                self._guard.failure = self._guard.failure or error
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return

    async def _lines(self, stdout: asyncio.StreamReader) -> AsyncIterator[bytes]:
        """Yield lines. SECURITY: at most the limit of an unterminated line is held in memory."""
        kept = bytearray()
        while chunk := await stdout.read(_CHUNK):
            *whole, rest = chunk.split(b"\n")
            for line in whole:
                kept += line
                _check_length(kept)
                yield bytes(kept)
                kept.clear()
            kept += rest
            _check_length(kept)

    async def _send(self, stdin: asyncio.StreamWriter, outbound: Any) -> None:
        async with outbound:
            async for item in outbound:
                self._guard.outgoing(item.message)
                text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                with suppress(OSError):
                    stdin.write(text.encode() + b"\n")
                    await stdin.drain()

    async def _keep_errors(self, stderr: asyncio.StreamReader) -> None:
        while chunk := await stderr.read(_CHUNK):
            self._stderr += chunk
            del self._stderr[:-MAX_MCP_STDERR_BYTES]

    async def _end(self) -> None:
        """Wait for the program to exit, terminate it, then kill its process group. Idempotent."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        # A program that violated the protocol gets no time to exit.
        patience = MCP_STOP_SECONDS if self._guard.failure is None else 0.0
        for number in (signal.SIGTERM, signal.SIGKILL):
            if await _has_exited(process, patience):
                break
            signal_group(process, number)
        await asyncio.to_thread(end_group, process)  # its child processes may still run

    def ended(self) -> WasmrtError | None:
        """Return why the program exited, or None while it runs."""
        if (code := _exit_code(self._process)) is None:
            return None
        whole = self._redact(self._stderr.decode("utf-8", "replace"))
        if (problem := not_started("the MCP server", code, whole)) is not None:
            return problem
        said = printable_line(last_lines(whole, _TAIL_CHARS)).strip()
        how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
        return ExternalServiceError(
            f"the MCP server {how}{f'; its output: {said}' if said else ''}", code="mcp-server",
            hint=_suggest_fix(said),
        )  # fmt: skip


def _suggest_fix(said: str) -> str:
    """Return the suggested fix for a program that exited with this output."""
    if _WRONG_DEPENDENCY.search(said):
        return "it may need older dependencies, such as the MCP SDK before version 2: uvx --with 'mcp<2' PACKAGE"
    if "ERR_UNKNOWN_BUILTIN_MODULE" in said:
        return "it requires a newer Node.js: install the current version, and add the server again"
    if ": No module named " in said:
        return "install its package for this Python, or add it by its package: -- uvx PACKAGE"
    return "check whether it needs a folder (--read, --write), a variable, or the network"


def _check_length(line: bytearray) -> None:
    if len(line) > MAX_MCP_MESSAGE_BYTES:
        raise make_protocol_error(f"sent a line of over {MAX_MCP_MESSAGE_BYTES // 1024 // 1024} MiB")


def _make_protocol(reader: asyncio.StreamReader) -> Any:
    return lambda: asyncio.StreamReaderProtocol(reader)


async def _make_writer(process: subprocess.Popen[bytes], pipes: list[Any]) -> asyncio.StreamWriter:
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, process.stdin)
    pipes.append(transport)
    return asyncio.StreamWriter(transport, protocol, None, loop)


def _exit_code(process: subprocess.Popen[bytes] | None) -> int | None:
    """Return the exit code, negative for a signal, without reaping the process; None while it runs."""
    if process is None or process.returncode is not None:
        return None if process is None else process.returncode
    status = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if status is None:
        return None
    return status.si_status if status.si_code == os.CLD_EXITED else -status.si_status


async def _has_exited(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Return whether the program exited in time, without reaping it."""
    ends = asyncio.get_running_loop().time() + seconds
    while not is_over(process):
        if asyncio.get_running_loop().time() >= ends:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True
