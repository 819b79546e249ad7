"""Elicitation requests of a server, answered by the registry's approver."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import mcp_types as types

from wasmrt.agent.approvals import ApprovalAnswer, ApprovalRequest, Approvals, new_request_id
from wasmrt.core.effects import Effect
from wasmrt.core.errors import WasmrtError
from wasmrt.core.limits import MAX_MCP_QUESTION_CHARS
from wasmrt.core.model import Decision, Reason
from wasmrt.interop.mcp.client._definition import remove_invisible
from wasmrt.interop.mcp.client._errors import to_safe_line
from wasmrt.interop.mcp.client._settings import LOOPBACK
from wasmrt.sandbox.schema import Validator, schema_problem

_TYPES = ("string", "number", "integer", "boolean", "array")
_EMPTY: dict[str, Any] = {"string": "", "number": 0, "integer": 0, "boolean": False, "array": []}


class Asker:
    """Shows a server's elicitation requests to the approver; unanswered requests are cancelled."""

    def __init__(self, server: str, approvals: Approvals | None, user: str) -> None:
        self._server = server
        self._approvals = approvals
        self._user = user

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult | types.ErrorData:
        """Answer one elicitation request (client/elicitation, 2026-07-28)."""
        if self._approvals is None:
            return types.ElicitResult(action="cancel")
        if isinstance(params, types.ElicitRequestURLParams):
            return await self._url(str(params.url), params.message)
        return await self._form(params.message, params.requested_schema)

    async def _url(self, url: str, message: str) -> types.ElicitResult | types.ErrorData:
        parts = urlsplit(url)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in LOOPBACK):
            return types.ErrorData(code=types.INVALID_PARAMS, message="elicitation addresses must begin with https://")
        # SECURITY: show the whole address, and do not open it.
        answer = await self._ask(message, {"url": url}, "open the address yourself, and approve once you are done")
        return types.ElicitResult(action=_get_action(answer))

    async def _form(self, message: str, schema: Mapping[str, Any]) -> types.ElicitResult | types.ErrorData:
        fields = schema.get("properties")
        if schema_problem(dict(schema)) is not None or not isinstance(fields, dict) or not _is_flat(fields):
            return types.ErrorData(code=types.INVALID_PARAMS, message="the form is not a flat object schema")
        required = schema.get("required")
        needed = [name for name in required if name in fields] if isinstance(required, list) else []
        usual = {name: field["default"] for name, field in fields.items() if "default" in field}
        shown = {name: _get_first(fields[name]) for name in needed if name not in usual} | usual
        words = "; ".join(_describe_field(name, field, name in needed) for name, field in fields.items())
        answer = await self._ask(message, shown, f"edit the parameters to fill in the form: {words}")
        if not answer.approved:
            return types.ElicitResult(action=_get_action(answer))
        content = dict(answer.params if answer.params is not None else shown)
        try:
            Validator(dict(schema)).check(content)
        except WasmrtError:
            return types.ElicitResult(action="cancel")
        return types.ElicitResult(action="accept", content=content)

    async def _ask(self, message: str, params: dict[str, Any], hint: str) -> ApprovalAnswer:
        assert self._approvals is not None
        question = to_safe_line(message[:MAX_MCP_QUESTION_CHARS])
        rule = f"the MCP server {self._server} asks you: {question}; it receives what you approve; {hint}"
        now = time.time_ns() // 1_000_000
        request = ApprovalRequest(
            id=new_request_id(),
            tool=self._server,
            digest="",  # SECURITY: answers to elicitation requests are not remembered
            grant="",
            params=remove_invisible(params),
            effects=(Effect.EXTERNAL_WRITE,),
            risk="high",
            why=Decision(False, Reason.APPROVAL_REQUIRED, rule, "a user answers it", "tool.approval", self._server),
            user=self._user,
            trace="",
            call="",
            created_ms=now,
            expires_ms=now + round(self._approvals.timeout_seconds * 1000),
        )
        return await self._approvals.decide(request)


def _get_action(answer: ApprovalAnswer) -> Any:
    return "accept" if answer.approved else "decline" if answer.by else "cancel"


def _is_flat(fields: Mapping[str, Any]) -> bool:
    return all(
        isinstance(field, dict) and (field.get("type") in _TYPES or "enum" in field or "oneOf" in field)
        for field in fields.values()
    )


def _get_first(field: Mapping[str, Any]) -> Any:
    listed = field.get("enum")
    return listed[0] if isinstance(listed, list) and listed else _EMPTY.get(str(field.get("type")), "")


def _describe_field(name: str, field: Mapping[str, Any], needed: bool) -> str:
    words = to_safe_line(str(field.get("description") or field.get("title") or ""))[:120]
    choices = field.get("enum")
    among = f", one of {', '.join(map(str, choices[:20]))}" if isinstance(choices, list) else ""
    kind = f"{field.get('type', 'choice')}{among}{'' if needed else ', optional'}"
    return to_safe_line(f"{name} ({kind}){': ' + words if words else ''}")
