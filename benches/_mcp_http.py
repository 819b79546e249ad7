"""The two MCP servers of `bench_serve` over HTTP: one client, and many concurrent clients."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any, NamedTuple

from benches._mcp import META, SDK_SERVER

CLIENTS = 100
CALLS_EACH = 10
_SDK = f"""{SDK_SERVER}
import socket, uvicorn
listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # TCP: asyncio sends without delay
listening.bind(("127.0.0.1", 0))
listening.listen(512)
app = server.streamable_http_app(json_response=True, stateless_http=True)
print(f"http://127.0.0.1:{{listening.getsockname()[1]}}/mcp", file=sys.stderr, flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="critical", access_log=False)).run([listening])
registry.close()
runtime.close()
"""
_SERVERS = {"wasmrt": [sys.executable, "-m", "wasmrt", "serve", "--http", "0"], "SDK": [sys.executable, "-c", _SDK]}


class Site(NamedTuple):
    """A listening server, and the token of its client."""

    port: int
    path: str
    token: str


def new_token(environ: dict[str, str]) -> str:
    """Return a token for `wasmrt serve`; the SDK's server requires none."""
    command = [sys.executable, "-m", "wasmrt", "serve", "--new-token", "local"]
    return subprocess.run(command, env=environ, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def listening(name: str, environ: dict[str, str], token: str) -> Iterator[Site]:
    """Run a server over HTTP until the end."""
    process = subprocess.Popen(
        _SERVERS[name], env=environ, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        address = line[line.index("http://") :].split()[0].rstrip(";")
        place, _, path = address.removeprefix("http://").partition("/")
        yield Site(int(place.rpartition(":")[2]), f"/{path}", token)
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)


class Client:
    """A minimal client with one persistent connection."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._number = 0

    async def __aenter__(self) -> Client:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._site.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()
        await self._writer.wait_closed()

    async def echo(self, text: str) -> float:
        """Call the tool, check its result, and return the duration in seconds."""
        start = time.perf_counter()
        result = await self._asked("tools/call", {"name": "echo", "arguments": {"message": text}})
        taken = time.perf_counter() - start
        assert result["content"][0]["text"] == text, result
        return taken

    async def _asked(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params | {"_meta": META}}
        body = json.dumps(message).encode()
        head = (
            f"POST {self._site.path} HTTP/1.1\r\nHost: 127.0.0.1:{self._site.port}\r\n"
            f"Authorization: Bearer {self._site.token}\r\nContent-Type: application/json\r\n"
            f"Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n"
            f"Mcp-Method: {method}\r\nMcp-Name: {params['name']}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        status, *lines = (await self._reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        fields = dict(line.lower().split(": ", 1) for line in lines if line)
        answer = json.loads(await self._reader.readexactly(int(fields["content-length"])))
        assert status.split()[1] == "200", (status, answer)
        result: dict[str, Any] = answer["result"]
        return result


async def one_client(site: Site, calls: int) -> float:
    """Return the median duration of a call, in seconds, with one client."""
    async with Client(site) as client:
        for _ in range(20):
            await client.echo("warm")
        return median([await client.echo(f"call {number}") for number in range(calls)])


async def many_clients(site: Site) -> tuple[float, float]:
    """Run concurrent clients; return the mean seconds per call, and the seconds of the slowest call."""
    async with asyncio.TaskGroup() as group:
        start = time.perf_counter()
        tasks = [group.create_task(_calls(site, number)) for number in range(CLIENTS)]
    total = time.perf_counter() - start
    return total / (CLIENTS * CALLS_EACH), max(max(task.result()) for task in tasks)


async def _calls(site: Site, number: int) -> list[float]:
    async with Client(site) as client:
        return [await client.echo(f"client {number}, call {call}") for call in range(CALLS_EACH)]
