"""The client that the official conformance suite starts: `python -m tests.interop.mcp_client.conformance_client URL`.

With `--serve SOCKET` it forks a process for each run that `forward.py` hands to it: its imports take over a second, and
the suite starts some sixty clients, forty of them at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import tempfile
import threading
import traceback
import urllib.request
from typing import Any

from wasmrt.testing import MemorySecrets

from wasmrt.agent.approvals import ApprovalAnswer, Approvals, CallbackApprover
from wasmrt.core.errors import WasmrtError
from wasmrt.core.lifetime import Lifetime
from wasmrt.egress.gateway import NetworkConfig
from wasmrt.egress.secrets import Secret
from wasmrt.interop.mcp.client import (
    ClientParts,
    KeptLogin,
    McpClient,
    McpServerConfig,
    OAuthConfig,
    Trusted,
    authorize,
    discover,
    trust_server,
)

_LOGINS = 4
_AT_ONCE = 4
_VALUES = {"string": "x", "number": 1, "integer": 1, "boolean": True}


def browse(url: str) -> None:
    """Follow an address as a browser would, while the login waits."""
    threading.Thread(target=lambda: urllib.request.urlopen(url, timeout=10).read(), daemon=True).start()


class Run:
    """Run one scenario: call every tool of the server, logging in as often as it requests."""

    def __init__(self, url: str) -> None:
        self.scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
        self.context: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
        known = self.context.get("client_id", "")
        if self.scenario == "auth/basic-cimd":
            known = "https://conformance-test.local/client-metadata.json"
        self.server = McpServerConfig(name="conf", url=url, oauth=OAuthConfig(client_id=known) if known else None)
        self.secrets = MemorySecrets()
        if secret := self.context.get("client_secret"):
            self.secrets.set("local", "mcp_conf_client_secret", Secret(secret))
        self.origins: tuple[str, ...] = ()

    def log_in(self, scope: str) -> None:
        login = KeptLogin(self.secrets, "local", self.server)
        issuer = asyncio.run(discover(self.server, NetworkConfig(), lambda _: None))
        self.origins = issuer.origins
        asyncio.run(authorize(self.server, NetworkConfig(), login, issuer, scope=scope, present=browse))

    def session(self) -> None:
        approvals = Approvals(CallbackApprover(lambda _: ApprovalAnswer(approved=True, by="suite")))
        parts = ClientParts(approvals=approvals, secrets=self.secrets)
        client = McpClient(self.server, trust_server(self.server, [], Trusted(auth_hosts=self.origins)), parts)
        try:
            for tool in client.look().tools:
                for arguments in self.calls(tool.name, tool.input_schema):
                    client.call(tool, arguments, Lifetime(20))
        finally:
            client.close()
            parts.loop.close()

    def calls(self, tool: str, schema: dict[str, Any]) -> list[dict[str, Any]]:
        asked = [call.get("arguments", {}) for call in self.context.get("toolCalls", []) if call["name"] == tool]
        if asked or self.scenario == "tools_call":
            return asked or [{"a": 5, "b": 3}]
        return [{name: _VALUES.get(part.get("type"), "x") for name, part in schema.get("properties", {}).items()}]


def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as home:
        os.environ["WASMRT_HOME"] = home
        run = Run(url)
        for attempt in range(_LOGINS):
            try:
                run.session()
            except WasmrtError as error:
                if error.code != "mcp-login" or attempt == _LOGINS - 1:
                    print(f"{error.code}: {error.message}", file=sys.stderr)
                    return 1
                run.log_in((error.hint or "").partition("--scope ")[2].strip("'"))
            else:
                return 0
    return 1


def serve(place: str) -> None:
    """Run each request in a separate process, and answer with its standard error and exit code."""
    running = 0
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(place)
        listener.listen(128)
        print("ready", flush=True)
        while True:
            connection, _ = listener.accept()
            if running == _AT_ONCE:
                os.wait()
                running -= 1
            with connection:
                if os.fork() == 0:
                    _answer(connection)
            running += 1


def _answer(connection: socket.socket) -> None:
    code = 1
    try:
        asked = json.loads(connection.makefile("rb").readline())
        os.environ.update(asked["environ"])
        os.dup2(connection.fileno(), 2)
        code = main(asked["url"])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        connection.sendall(b"\0%d" % code)
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    sys.exit(main(sys.argv[-1]))
