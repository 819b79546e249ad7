"""`wasmrt serve --check`: start the server like an MCP client does, and test it with old and new protocol versions."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from wasmrt.cli.serve.options import serve_command
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json
from wasmrt.cli.shared.progress import status
from wasmrt.core.errors import WasmrtError
from wasmrt.interop.mcp.server.protocol import LEGACY, MODERN

_SECONDS = 60.0
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN[0],
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "wasmrt-check", "version": "1"},
}


class _Client:
    """An MCP client for a server that it starts."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._number = 0

    def request(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its result.

        Raises:
            WasmrtError: the server responds with an error or not at all.
        """
        self._number += 1
        self.send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(self._line(method))
            if answer.get("id") == self._number and "result" in answer:
                result: dict[str, Any] = answer["result"]
                return result
            if answer.get("id") == self._number:
                raise _make_error(f"the response to {method} is an error: {answer.get('error')}")

    def send(self, message: dict[str, Any]) -> None:
        with suppress(BrokenPipeError):  # the server has exited; the next read reports it
            self._input.write(json.dumps(message).encode() + b"\n")
            self._input.flush()

    def end(self) -> float:
        """End the server as clients do, by closing its input; return the seconds until it exited."""
        started = time.monotonic()
        self._input.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise _make_error("the server did not exit when its input was closed") from None
        finally:
            self._output.close()
        return time.monotonic() - started

    def _line(self, method: str) -> bytes:
        deadline = time.monotonic() + _SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
            data = self._output.read1(65536) if ready else b""  # type: ignore[attr-defined]  # a buffered reader
            if not data:
                what = "did not respond to" if not ready else "exited at"
                raise _make_error(f"the server {what} {method}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def check_server(options: Sequence[str], *, as_json: bool) -> int:
    """Start the server, list its tools with an old and a new protocol version, end it, and print the results.

    Raises:
        WasmrtError: the server does not behave as clients need.
    """
    program, before = serve_command()
    started = time.monotonic()
    client = _Client([program, *before, "serve", *options])
    try:
        with status("starting the server, which prepares its tools"):
            found = client.request("server/discover", _meta=_META)
            start_seconds = time.monotonic() - started
            modern = _list_tools(client, _meta=_META)
        opened = client.request("initialize", protocolVersion=LEGACY[0], capabilities={}, clientInfo={"name": "check"})
        client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        legacy = _list_tools(client)
    finally:
        end_seconds = client.end()
    names = [tool["name"] for tool in modern]
    if names != [tool["name"] for tool in legacy]:
        raise _make_error("the old and the new protocol version do not list the same tools")
    if as_json:
        eras = {"modern": MODERN[0], "legacy": opened["protocolVersion"], "supported": found["supportedVersions"]}
        show_json({"tools": modern, "start_seconds": start_seconds, "end_seconds": end_seconds} | eras)
        return 0
    if modern:
        show_columns(("TOOL", "TITLE", "CHANGES"), [(t["name"], t["title"], _describe_changes(t)) for t in modern])
    else:
        print_message("no tool is offered; for the reason: wasmrt policy explain NAME")
    show(
        f"supports protocol versions {MODERN[0]} and {opened['protocolVersion']}; "
        f"started in {start_seconds:.2f} s, ended in {end_seconds:.2f} s"
    )
    return 0


def _list_tools(client: _Client, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = client.request("tools/list", **cursor, **params)
        found += page["tools"]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


def _describe_changes(tool: dict[str, Any]) -> str:
    return "nothing" if tool["annotations"]["readOnlyHint"] else "something"


def _make_error(message: str) -> WasmrtError:
    return WasmrtError(message, code="mcp-server", hint="to check what the server needs, run: wasmrt doctor")
