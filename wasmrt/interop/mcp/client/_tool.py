"""McpTool: one tool of a server in a registry."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from wasmrt.core.component_bytes import digest_of
from wasmrt.core.errors import GuestError, GuestOutputError, InvalidComponentError, InvalidParametersError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.limits import MAX_PROGRESS_REPORTS
from wasmrt.core.model import ToolOutput
from wasmrt.core.names import offered_name
from wasmrt.core.strict_json import JsonError, parse_json, write_json
from wasmrt.core.tool_defaults import Offer, ToolDefaults
from wasmrt.core.traits import Traits
from wasmrt.interop.mcp.client._client import McpClient
from wasmrt.interop.mcp.client._definition import (
    Definition,
    asks_always,
    assigned_traits,
    describe_claim,
    find_flow_declaration,
    remove_invisible,
    wrapped_output,
)
from wasmrt.interop.mcp.client._errors import KnownSecrets, to_safe_line
from wasmrt.interop.mcp.client._files import Trusted
from wasmrt.interop.mcp.client._settings import McpServerConfig, Trust
from wasmrt.runtime.context import ToolContext
from wasmrt.sandbox.schema import Validator


def read_result(result: Any, tool: Definition, server: str, redact: Callable[[str], str]) -> Any:
    """Return a tool's structured content, its text, or its content blocks: the first that is present.

    Raises:
        GuestError: the tool reported a failure.
        GuestOutputError: the structured content does not match the tool's own schema.
    """
    blocks = [_convert_block(each) for each in result.content]
    words = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    if result.is_error:
        told = to_safe_line(words, redact).strip()
        raise GuestError(told or f"{tool.name} of {server} failed without a message")
    structured = result.structured_content
    others = [block for block in blocks if block["type"] != "text"]
    if tool.output_schema is not None:
        _check(structured, tool, server)
    if structured is not None or tool.output_schema is not None:
        # Text repeats the structured content (server/tools, 2026-07-28), an image does not.
        return remove_invisible({"structured": structured, "content": others} if others else structured)
    return remove_invisible(blocks if others else words)


def _check(structured: Any, tool: Definition, server: str) -> None:
    assert tool.output_schema is not None
    try:
        Validator(wrapped_output(tool.output_schema)).check({"value": structured})
    except (InvalidParametersError, InvalidComponentError) as error:
        raise GuestOutputError(
            f"{server} sent a result of {tool.name} that does not match its own schema", code="mcp-result",
            hint="report it to the server's author",
        ) from error  # fmt: skip


def _convert_block(block: Any) -> dict[str, Any]:
    """Return a content block in its protocol form, without annotations."""
    data: dict[str, Any] = block.model_dump(by_alias=True, mode="json", exclude_none=True)
    return {key: value for key, value in data.items() if key not in ("annotations", "_meta")}


def tool_name(server: str, tool: str) -> str:
    """Return the registry's name for a server's tool, `SERVER_TOOL`, in characters that every provider accepts."""
    return offered_name(f"{server}_{tool}")


def offer_of(server: McpServerConfig, trusted: Trusted) -> Offer:
    """Return the user's decision whether to offer a server's tools to agents."""
    return Offer(trusted.for_agents, f"wasmrt mcp trust {server.name}")


class McpTool(ToolDefaults):
    """A server's tool, with its approved definition. Thread-safe; calls may run concurrently."""

    ends_at_deadline = True
    """The call stops waiting at its deadline, or when it is cancelled."""

    def __init__(self, client: McpClient, definition: Definition) -> None:
        server = client.server
        self._client = client
        self.definition = definition
        self.name = tool_name(server.name, definition.name)
        self.description: str = remove_invisible(definition.description or definition.title)
        self.schema: dict[str, Any] = remove_invisible({"type": "object", "properties": {}} | definition.input_schema)
        self.timeout_seconds = server.timeout_seconds
        self.digest = definition.digest
        """BLAKE3 of its definition, in hex: a changed definition is a different tool."""
        self.grant_digest = digest_of(f"{server.consent_digest}\0{server.trust}".encode())
        """BLAKE3 of its server's command or address, grants and trust level."""
        self.offer = offer_of(server, client.trusted)
        self.declaration = find_flow_declaration(server, definition)
        self._traits = assigned_traits(server, definition, self.declaration)
        # SECURITY: a claim is shown, never believed: a server that is not local decides nothing about approvals.
        required = "the tool" if server.trust is Trust.LOCAL else f"every call of the MCP server {server.name}"
        self.approval_reason = "; ".join(filter(None, (f"{required} requires it", describe_claim(definition))))

    @property
    def traits(self) -> Traits:
        """The tool's effects, derived from the trust in its server, and the resulting traits."""
        return self._traits

    def requires_approval(self, params: Any) -> bool:
        """Return whether the call requires approval, whatever its effects are."""
        return asks_always(self._client.server, self.definition)

    def __repr__(self) -> str:
        return f"<McpTool {self.name!r}, {self.digest[:12]}>"

    def execute(self, params: Any, context: ToolContext | None = None) -> ToolOutput:
        """Call the tool on its server.

        Raises:
            ToolError: the server cannot be reached or exceeds a limit, its tool has changed, or the tool failed.
        """
        started = time.monotonic()
        context = context or ToolContext()
        lifetime = Lifetime(self.timeout_seconds, within=context.lifetime)
        if not isinstance(params, dict):
            raise InvalidParametersError("params must be a JSON object", hint="pass a JSON object")
        client, told = self._client, _make_progress(context, self._client.secrets)
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
        """Redact the secrets that the server received, in any encoding."""
        if self._client.secrets.is_empty:
            return value
        try:
            text = write_json(value)
            clean = self._client.secrets.redact(text)
            return value if clean == text else parse_json(clean)
        except JsonError as error:
            raise GuestOutputError(
                "the MCP server's response contains a secret and was withheld", code="leak"
            ) from error


def _make_progress(context: ToolContext, secrets: KnownSecrets) -> Any:
    if context.on_progress is None:
        return None
    report, left = context.on_progress, MAX_PROGRESS_REPORTS

    async def report_progress(done: float, total: float | None, message: str | None) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            said = None if message is None else secrets.redact_part(remove_invisible(secrets.redact(message)))
            report(int(done), None if total is None else int(total), said)

    return report_progress
