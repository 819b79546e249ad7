"""McpTool: one tool of a server, as a registry holds it."""

from __future__ import annotations

import time
from typing import Any

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import GuestOutputError, InvalidParametersError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_PROGRESS_REPORTS
from wasmrt.core.model import ToolOutput
from wasmrt.core.names import offered_name
from wasmrt.core.strict_json import JsonError, parse_json, write_json
from wasmrt.core.tool_defaults import ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.interop.mcp.client._client import McpClient
from wasmrt.interop.mcp.client._definition import Definition, cleaned
from wasmrt.interop.mcp.client._effects import asks_always, assigned_traits
from wasmrt.interop.mcp.client._known_secrets import KnownSecrets
from wasmrt.interop.mcp.client._result import read_result
from wasmrt.runtime.context import ToolContext


def tool_name(server: str, tool: str) -> str:
    """Return the name that a server's tool has here, `SERVER_TOOL`, in characters that every provider takes."""
    return offered_name(f"{server}_{tool}")


class McpTool(ToolDefaults):
    """A tool of a server, defined as a person agreed to it. Any thread may call it, several at once."""

    ends_at_deadline = True
    """Its wait ends at the deadline of the call, or when that is cancelled."""

    def __init__(self, client: McpClient, definition: Definition) -> None:
        server = client.server
        self._client = client
        self.definition = definition
        self.name = tool_name(server.name, definition.name)
        self.description: str = cleaned(definition.description or definition.title)
        self.schema: dict[str, Any] = cleaned({"type": "object", "properties": {}} | definition.input_schema)
        self.timeout_seconds = server.timeout_seconds
        self.digest = definition.digest
        """BLAKE3 of its definition, in hex: a changed one is another tool."""
        self.grant_digest = digest_of(f"{server.consent_digest}\0{server.trust}".encode())
        """BLAKE3 of its server's command or address, of what it was given, and of the trust in it."""
        self._traits = assigned_traits(server, definition)

    @property
    def traits(self) -> Traits:
        """Its effects, by the trust in its server, and what follows from them."""
        return self._traits

    def requires_approval(self, params: Any) -> bool:
        """Tell whether a person has to approve the call, whatever its effects say."""
        return asks_always(self._client.server, self.definition)

    def __repr__(self) -> str:
        return f"<McpTool {self.name!r}, {self.digest[:12]}>"

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        """Call the tool at its server.

        Raises:
            ToolError: the server cannot be reached, has changed the tool, breaks a bound, or the tool failed.
        """
        started = time.monotonic()
        context = context or ToolContext()
        lifetime = Lifetime(self.timeout_seconds, within=context.lifetime)
        if not isinstance(params, dict):
            raise InvalidParametersError("params are a JSON object", hint="pass a JSON object")
        client, told = self._client, _progress(context, self._client.secrets)
        try:
            result = client.call(self.definition, params, lifetime, user=context.user, on_progress=told)
            value = self._without_secrets(
                read_result(result, self.definition, client.server.name, client.secrets.redact)
            )
        except ToolError as error:
            error.decisions = (*error.decisions, *client.decisions(context.user))
            client.secrets.clean(error)
            raise error from None
        decisions = tuple(each.redacted(client.secrets.redact_part) for each in client.decisions(context.user))
        return ToolOutput(result=value, duration=round(time.monotonic() - started, 6), decisions=decisions)

    def _without_secrets(self, value: Any) -> Any:
        """Cut out the secrets that the server was given, however it sends them back."""
        if self._client.secrets.is_empty:
            return value
        try:
            text = write_json(value)
            clean = self._client.secrets.redact(text)
            return value if clean == text else parse_json(clean)
        except JsonError as error:
            raise GuestOutputError("the MCP server's answer holds a secret, and was withheld", code="leak") from error


def _progress(context: ToolContext, secrets: KnownSecrets) -> Any:
    if context.on_progress is None:
        return None
    report, left = context.on_progress, MAX_PROGRESS_REPORTS

    async def told(done: float, total: float | None, message: str | None) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            said = None if message is None else secrets.redact_part(cleaned(secrets.redact(message)))
            report(int(done), None if total is None else int(total), said)

    return told
