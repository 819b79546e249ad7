"""Denied uses of capabilities, each with its capability file; and the denials that are tested elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from wasmrt.capabilities import Capabilities
from wasmrt.core.model import Decision, Reason

Use = Callable[[Capabilities], Decision]
HTTP = {"allowlist": [{"host": "api.example.com", "path_prefix": "/v1/", "methods": ["GET"]}]}
KEY = {"key": {"secret_name": "k", "location": {"type": "bearer"}, "host_patterns": ["api.example.com"]}}


class Case(NamedTuple):
    """A use that is denied for a reason under a capability file."""

    reason: Reason
    document: dict[str, Any]
    use: Use


def asks(url: str, method: str = "GET", **more: Any) -> Use:
    return lambda granted: granted.explain_http(method, url, **more)


def reads(path: str) -> Use:
    return lambda granted: granted.explain_workspace(path)


def writes(path: str) -> Use:
    return lambda granted: granted.explain_workspace_write(path)


ALLOWED_BY_A_LINE = {
    "http without a section": Case(Reason.NOT_GRANTED, {}, asks("https://api.example.com/v1/a")),
    "http with nothing allowed": Case(
        Reason.EMPTY_ALLOWLIST, {"http": {"allowlist": []}}, asks("https://api.example.com/")
    ),
    "another host": Case(Reason.HOST_NOT_ALLOWED, {"http": HTTP}, asks("https://other.example.com/v1/")),
    "another port": Case(Reason.PORT_NOT_ALLOWED, {"http": HTTP}, asks("https://api.example.com:8443/v1/")),
    "another path": Case(Reason.PATH_NOT_ALLOWED, {"http": HTTP}, asks("https://api.example.com/v2/a?b=c")),
    "another method": Case(Reason.METHOD_NOT_ALLOWED, {"http": HTTP}, asks("https://api.example.com/v1/", "POST")),
    "plain http": Case(Reason.INSECURE_SCHEME, {"http": HTTP}, asks("http://api.example.com/v1/")),
    "reading without a section": Case(Reason.NOT_GRANTED, {}, reads("notes/a.md")),
    "reading at the root without a section": Case(Reason.NOT_GRANTED, {}, reads("a.md")),
    "reading elsewhere": Case(
        Reason.PREFIX_NOT_ALLOWED, {"workspace": {"allowed_prefixes": ["notes/"]}}, reads("other/a.md")
    ),
    "writing without a section": Case(Reason.NOT_GRANTED, {"workspace": True}, writes("out/a.md")),
    "writing elsewhere": Case(
        Reason.PREFIX_NOT_ALLOWED, {"workspace_write": {"allowed_prefixes": ["out/"]}}, writes("b.md")
    ),
    "a secret without a section": Case(Reason.NOT_GRANTED, {}, lambda granted: granted.explain_secret("api_key")),
    "another secret": Case(
        Reason.SECRET_NOT_ALLOWED,
        {"secrets": {"allowed_names": ["other"]}},
        lambda granted: granted.explain_secret("api_key"),
    ),
    "a configuration value without a section": Case(
        Reason.NOT_GRANTED, {}, lambda granted: granted.explain_config("units")
    ),
    "another configuration value": Case(
        Reason.NOT_GRANTED,
        {"config_store": {"values": ["language=en"]}},
        lambda granted: granted.explain_config("units"),
    ),
    "a tool without a section": Case(Reason.NOT_GRANTED, {}, lambda granted: granted.explain_tool("search")),
    "another tool": Case(
        Reason.ALIAS_NOT_ALLOWED,
        {"tool_invoke": {"aliases": {"other": "other"}}},
        lambda granted: granted.explain_tool("search"),
    ),
}
SAID_TO_BE_NOT_ALLOWED = {
    "a URL with a password": Case(Reason.INVALID_URL, {"http": HTTP}, asks("https://a:b@api.example.com/")),
    "no method": Case(Reason.METHOD_NOT_ALLOWED, {"http": HTTP}, asks("https://api.example.com/v1/", "BREW")),
    "no address": Case(Reason.NO_ADDRESS, {"http": HTTP}, asks("https://api.example.com/v1/", resolves_to=())),
    "a credential over http": Case(
        Reason.CREDENTIAL_INSECURE,
        {"http": {"allowlist": [{"host": "api.example.com", "schemes": ["http"]}], "credentials": KEY}},
        asks("http://api.example.com/"),
    ),
    "a path that climbs": Case(Reason.INVALID_PATH, {"workspace": True}, reads("../a.md")),
    "an identity file": Case(
        Reason.PROTECTED_FILE, {"workspace_write": {"allowed_prefixes": True}}, writes("notes/SOUL.md")
    ),
    "no name of a secret": Case(Reason.SECRET_NOT_ALLOWED, {}, lambda granted: granted.explain_secret("a b")),
    "no key of a configuration value": Case(Reason.NOT_GRANTED, {}, lambda granted: granted.explain_config("a b")),
    "no alias": Case(Reason.ALIAS_NOT_ALLOWED, {}, lambda granted: granted.explain_tool("a b")),
}
ON_THE_WAY_OUT = {
    *(Reason.HEADER_NOT_ALLOWED, Reason.REQUEST_TOO_LARGE, Reason.REQUEST_BUDGET, Reason.LEAK),
    *(Reason.CREDENTIAL_MISSING, Reason.ADDRESS_NOT_ALLOWED, Reason.RATE_LIMITED),
}
IN_THE_WORKSPACE = {
    *(Reason.REMOVE_NOT_ALLOWED, Reason.FILE_TOO_LARGE, Reason.WRITE_BUDGET, Reason.NOT_FOUND),
    *(Reason.ALREADY_EXISTS, Reason.NOT_EMPTY, Reason.NOT_A_FILE),
}
BY_THE_POLICY = {
    *(Reason.EXTERNAL_TOOL, Reason.NOT_IN_PRESET, Reason.NOT_IN_VIEW, Reason.NETWORK_NOT_ALLOWED),
    *(Reason.DENIED_BY_RULE, Reason.EFFECT_NOT_ALLOWED, Reason.ACTION_NOT_ALLOWED, Reason.ACTION_MISSING),
    *(Reason.SUBAGENT_DENIED, Reason.APPROVAL_DENIED, Reason.APPROVAL_REQUIRED, Reason.UNTRUSTED_FLOW),
    Reason.COMMAND_NOT_ALLOWED,
}
TRIED = {
    *(case.reason for case in (*ALLOWED_BY_A_LINE.values(), *SAID_TO_BE_NOT_ALLOWED.values())),
    *(ON_THE_WAY_OUT | IN_THE_WORKSPACE | BY_THE_POLICY),
}
ELSEWHERE: dict[Reason, tuple[str, str]] = {
    Reason.RESPONSE_TOO_LARGE: ("tests/egress/gateway/test_exchange_budget.py", "response-too-large"),
    Reason.TOO_MANY_ENTRIES: ("tests/runtime/workspace/test_workspace_reader.py", "TOO_MANY_ENTRIES"),
    Reason.NOT_SCANNED: ("tests/egress/gateway/test_not_scanned.py", "not-scanned"),
    Reason.CREDENTIAL_EXPIRED: ("tests/egress/gateway/test_credentials.py", "credential-expired"),
    Reason.NO_SPACE: ("tests/runtime/workspace/test_workspace_writer.py", "NO_SPACE"),
    Reason.NOT_UNDOABLE: ("tests/runtime/workspace/test_undo.py", "NOT_UNDOABLE"),
    Reason.INVOKE_BUDGET: ("tests/runtime/call/test_invoke.py", "INVOKE_BUDGET"),
    Reason.INVOKE_DEPTH: ("tests/runtime/call/test_invoke.py", "INVOKE_DEPTH"),
    Reason.INVOKE_CYCLE: ("tests/runtime/call/test_invoke.py", "invoke-cycle"),
    Reason.INVALID_ARGUMENTS: ("tests/agent/code_mode/test_hostile.py", "the program is longer than"),
    Reason.UNKNOWN_TOOL: ("tests/interop/mcp_server/test_hostile_clients.py", "unknown-tool"),
    Reason.DEFINITION_CHANGED: ("tests/interop/mcp_client/test_hostile_programs.py", "mcp trust"),
    Reason.MESSAGE_REFUSED: ("tests/interop/mcp_server/test_refusals.py", "refused"),
    Reason.FILESYSTEM_DENIED: ("tests/sandbox/wasi/test_file_writing.py", "FILESYSTEM_DENIED"),
    Reason.SOCKETS_DENIED: ("tests/sandbox/escape/test_reach.py", "SOCKETS_DENIED"),
}
"""Refusals that need a server, a full disk, their own guest or a client, with the test of each."""
