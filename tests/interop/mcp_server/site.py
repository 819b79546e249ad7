"""A server over HTTP in a world, and a client of it for each user."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx

from tests.interop.mcp_server.world import META, VERSION, World
from wasmrt.interop.mcp.server.http import UserTokens

BOTH = "application/json, text/event-stream"


class Site:
    """A server over HTTP, and a client of it for each user."""

    def __init__(self, world: World, url: str, users: UserTokens) -> None:
        self.world, self.url, self.users = world, url, users
        self.tokens = {user: users.renew(user) for user in ("local", "eve")}
        self.client = httpx.Client(timeout=20, trust_env=False)
        self._number = 0

    def headers(self, user: str = "local", **more: str) -> dict[str, str]:
        named = {name.replace("_", "-"): value for name, value in more.items()}
        return {"authorization": f"Bearer {self.tokens[user]}", "accept": BOTH} | named

    def post(self, message: Any, *, user: str = "local", **headers: str) -> httpx.Response:
        """Send a message unchanged, with the headers of a modern request unless others are given."""
        mirrored: dict[str, str] = {}
        params = message.get("params") if isinstance(message, dict) else None
        version = params.get("_meta", {}).get(VERSION) if isinstance(params, dict) else None
        if isinstance(version, str):
            mirrored = {"mcp_protocol_version": version, "mcp_method": message["method"]}
            if message["method"] == "tools/call":
                mirrored["mcp_name"] = str(params.get("name"))
        sent = {key: value for key, value in (mirrored | headers).items() if value != ""}
        return self.client.post(self.url, json=message, headers=self.headers(user, **sent))

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        self._number += 1
        return {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params or {}}

    def ask(self, method: str, params: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
        """Return the result of a modern request."""
        found = self.post(self.message(method, {"_meta": META} | (params or {})), **more)
        assert found.status_code == 200, found.text
        return found.json()["result"]

    def call(self, name: str, arguments: Any = None, *, user: str = "local", **more: Any) -> dict[str, Any]:
        """Return the result of a call; `more` are further params of the request."""
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}} | more, user=user)

    def works(self) -> None:
        assert self.call("add", {"a": 1, "b": 2})["structuredContent"] == 3

    def raw(self, data: bytes) -> bytes:
        """Send bytes over a separate connection, and return the response."""
        host, port = self.url.removeprefix("http://").removesuffix("/mcp").split(":")
        with socket.create_connection((host, int(port)), timeout=20) as connection:
            connection.sendall(data)
            found = b""
            while piece := connection.recv(65536):
                found += piece
            return found


def events(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.iter_lines():
        if line.startswith("data: "):
            yield json.loads(line.removeprefix("data: "))
