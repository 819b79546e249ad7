"""`wasmrt serve --check`: a small client that starts the server as other clients do, and speaks to it in both eras."""

from __future__ import annotations

import json
import select
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from wasmrt.cli.serve.clients import serve_command
from wasmrt.cli.shared.output import print_message, show, show_columns, show_json, status
from wasmrt.core.errors import WasmrtError
from wasmrt.interop.mcp.server.protocol import LEGACY, MODERN

_SECONDS = 60.0
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN[0],
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "wasmrt-check", "version": "1"},
}


class _Client:
    """Speaks to a server that it starts."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - ours
        assert self._process.stdin is not None and self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._buffer = b""
        self._number = 0

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of a request.

        Raises:
            WasmrtError: the server answers with an error, with something else, or not at all.
        """
        self._number += 1
        self.tell({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        while True:
            answer = json.loads(self._line(method))
            if answer.get("id") == self._number and "result" in answer:
                result: dict[str, Any] = answer["result"]
                return result
            if answer.get("id") == self._number:
                raise _failed(f"{method} was answered with an error: {answer.get('error')}")

    def tell(self, message: dict[str, Any]) -> None:
        """Send a message."""
        with suppress(BrokenPipeError):  # it has ended; reading says so
            self._input.write(json.dumps(message).encode() + b"\n")
            self._input.flush()

    def end(self) -> float:
        """End the server as a client does, by closing its input; return the seconds that it took to go."""
        started = time.monotonic()
        self._input.close()
        try:
            self._process.wait(_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise _failed("the server did not end with its input") from None
        finally:
            self._output.close()
        return time.monotonic() - started

    def _line(self, method: str) -> bytes:
        deadline = time.monotonic() + _SECONDS
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self._output], [], [], max(0.0, deadline - time.monotonic()))
            data = self._output.read1(65536) if ready else b""  # type: ignore[attr-defined]  # a buffered reader
            if not data:
                raise _failed(f"the server did not answer {method}" if not ready else f"the server ended at {method}")
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line


def check_server(options: Sequence[str], *, as_json: bool) -> int:
    """Start the server, list its tools in both eras, end it, and say what was found.

    Raises:
        WasmrtError: it does not do what clients need.
    """
    program, before = serve_command()
    started = time.monotonic()
    client = _Client([program, *before, "serve", *options])
    try:
        with status("starting the server, which prepares its tools"):
            found = client.ask("server/discover", _meta=_META)
            start_seconds = time.monotonic() - started
            modern = _listed(client, _meta=_META)
        opened = client.ask("initialize", protocolVersion=LEGACY[0], capabilities={}, clientInfo={"name": "check"})
        client.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})
        legacy = _listed(client)
    finally:
        end_seconds = client.end()
    names = [tool["name"] for tool in modern]
    if names != [tool["name"] for tool in legacy]:
        raise _failed("the two eras of the protocol do not list the same tools")
    if as_json:
        eras = {"modern": MODERN[0], "legacy": opened["protocolVersion"], "supported": found["supportedVersions"]}
        show_json({"tools": modern, "start_seconds": start_seconds, "end_seconds": end_seconds} | eras)
        return 0
    if modern:
        show_columns(("TOOL", "TITLE", "CHANGES"), [(t["name"], t["title"], _changes(t)) for t in modern])
    else:
        print_message("no tool is offered; wasmrt policy explain NAME says why")
    show(
        f"answers in {MODERN[0]} and {opened['protocolVersion']}; "
        f"started in {start_seconds:.2f} s, ended in {end_seconds:.2f} s"
    )
    return 0


def _listed(client: _Client, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, Any] = {}
    while True:
        page = client.ask("tools/list", **cursor, **params)
        found += page["tools"]
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}


def _changes(tool: dict[str, Any]) -> str:
    return "nothing" if tool["annotations"]["readOnlyHint"] else "something"


def _failed(said: str) -> WasmrtError:
    return WasmrtError(said, code="mcp-server", hint="wasmrt doctor looks at what the server needs")
