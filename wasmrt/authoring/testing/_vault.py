"""A fake of Vault's key-value engine, version 2, on loopback."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

from wasmrt.authoring.testing._server import ReceivedRequest, ScriptedServer, ServerConnection, http_response


@dataclass(slots=True)
class FakeVault:
    """A server with the documented HTTP API of Vault for reading secrets. Use it as a context manager.

    Args:
        secrets: The fields of each secret, by the path in the engine, such as `{"wasmrt/token": {"value": "..."}}`.
        token: The only token that may read.
        tls: The server's certificate.
        mount: The path of the engine.
        sealed: If True, every request gets status 503.

    Example:
        >>> from wasmrt.testing import FakeVault
        >>> FakeVault({"wasmrt/token": {"value": "not-a-real-token"}}, token="t", tls=None).mount
        'secret'
    """

    secrets: Mapping[str, Mapping[str, Any]]
    token: str
    tls: ssl.SSLContext | None
    mount: str = "secret"
    sealed: bool = False
    _server: ScriptedServer = field(init=False)

    def __post_init__(self) -> None:
        self._server = ScriptedServer(self._respond, tls=self.tls)

    @property
    def address(self) -> str:
        """The URL of the server, with the name `localhost`."""
        return f"https://localhost:{self._server.port}"

    @property
    def requests(self) -> list[ReceivedRequest]:
        """The received requests."""
        return self._server.requests

    def __enter__(self) -> FakeVault:
        self._server.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.__exit__(kind, error, trace)

    def _respond(self, request: ReceivedRequest, _: ServerConnection) -> bytes:
        if self.sealed:
            return _json(503, {"errors": ["Vault is sealed"]})
        if request.header("X-Vault-Token") != self.token:
            return _json(403, {"errors": ["permission denied"]})
        found = self.secrets.get(request.target.removeprefix(f"/v1/{self.mount}/data/"))
        if found is None:
            return _json(404, {"errors": []})
        metadata = {"created_time": "2026-01-01T00:00:00Z", "deletion_time": "", "destroyed": False, "version": 1}
        return _json(200, {"data": {"data": dict(found), "metadata": metadata}})


def _json(status: int, value: object) -> bytes:
    body = json.dumps(value).encode()
    return http_response(body, status=status, headers=(("Content-Type", "application/json"),))
