"""A registry with one server and its receipts, and a search for the server's remaining processes."""

from __future__ import annotations

import os
import select
import sys
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.interop.mcp_client import hostile
from wasmrt.agent.approvals import ApprovalRequest, Approvals, CallbackApprover
from wasmrt.agent.policy import ExternalFilter, ToolPolicy
from wasmrt.agent.registry import ToolRegistry
from wasmrt.interop.mcp.client import ClientParts, McpClient, McpServerConfig, Trust, add_servers, trust_server
from wasmrt.interop.mcp.client._definition import Definition, read_definition
from wasmrt.runtime.audit import Receipt

HOSTILE = Path(hostile.__file__).resolve()
THING = read_definition(
    hostile.TOOL["name"], "", hostile.TOOL["description"], (hostile.TOOL["inputSchema"], None), None
)

_ENDS_SECONDS = 10.0
"""Seconds that a killed process may wait for a core; hostile servers run longer than that."""


class World:
    """One server in a registry whose approver approves every request."""

    def __init__(
        self,
        server: McpServerConfig,
        tools: list[Definition] | None = None,
        *,
        answer: Callable[[ApprovalRequest], Any] | None = None,
        **parts: Any,
    ) -> None:
        self.receipts: list[Receipt] = []
        self.asked: list[ApprovalRequest] = []
        self._answer = answer or (lambda _: True)
        approvals = Approvals(CallbackApprover(self._decide))
        policy = ToolPolicy(filter=ExternalFilter(allow_external=True))
        self.registry = ToolRegistry(policy=policy, approvals=approvals, receipts=self.receipts.append)
        self.parts = ClientParts(approvals=approvals, **parts)
        entry = trust_server(server, [THING] if tools is None else tools)
        self.clients = add_servers(self.registry, {server.name: server}, {server.name: entry}, self.parts)
        self.server = server

    def _decide(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        return self._answer(request)

    @property
    def client(self) -> McpClient:
        return self.clients[self.server.name]

    def call(self, tool: str = "get_thing", **params: Any) -> Any:
        before = len(self.receipts)
        try:
            return self.registry.execute(f"{self.server.name}_{tool}", params).result
        finally:
            assert len(self.receipts) == before + 1, "every call of a hostile server leaves a receipt"

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.registry.close()


def hostile_server(case: str, *more: str, **settings: Any) -> McpServerConfig:
    """A hostile program. Its last argument identifies its processes."""
    command = (sys.executable, str(HOSTILE), case, f"marker-{uuid.uuid4().hex}", *more)
    return McpServerConfig(
        **{"name": "bad", "command": command, "timeout_seconds": 20.0, "trust": Trust.LOCAL} | settings
    )


def processes_of(server: McpServerConfig) -> list[str]:
    """The processes with the server's marker on their command line, except exiting ones."""
    marker = next(part for part in server.command if part.startswith("marker-")).encode()
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                line = Path(entry.path, "cmdline").read_bytes()
            except OSError:
                continue
            if marker in line and not _ends(int(entry.name)):
                found.append(f"{entry.name}: {line!r}")
    return found


def _ends(process: int) -> bool:
    """Return whether a process exits; a killed one does when it is scheduled."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], _ENDS_SECONDS)[0])
    finally:
        os.close(handle)
