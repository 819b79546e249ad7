"""The capability file's shape, declared once for the parser and for the published JSON Schema.

The seed's and IronClaw's spellings are read side by side; the first name of each key is the one written.
"""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities._credential import CredentialLocation, LocationType, read_secret_name
from wasmrt.capabilities._endpoint import MAX_PREFIX_LENGTH, METHODS, read_host_pattern, read_path_prefix
from wasmrt.capabilities._json import Problems, child
from wasmrt.capabilities._model import MAX_CALL_TIMEOUT_SECONDS
from wasmrt.capabilities._powers import (
    MAX_HTTP_TIMEOUT_SECONDS,
    MAX_REQUESTS,
    read_alias,
    read_secret_glob,
    read_tool_name,
)
from wasmrt.capabilities._workspace_path import read_prefix
from wasmrt.capabilities.file._docs import ABOUT, SECTIONS
from wasmrt.capabilities.file._fields import (
    INVALID,
    Flag,
    ListOf,
    MapOf,
    Member,
    Number,
    Record,
    Shape,
    Text,
    nearest,
)
from wasmrt.errors import ConfigurationError

_HOST = Text(max_length=256, check=read_host_pattern, pattern=r"^(\*\.)?[^\s/@*?#]+$")
_PATH = Text(max_length=MAX_PREFIX_LENGTH, check=read_path_prefix, pattern=r"^/[!-~]*$")
_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_SCHEME = Text(choices=("https", "http"))
_PORT = Number(maximum=65535)
_ALIAS = Text(max_length=64, check=read_alias, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")
_TOOL = Text(max_length=256, check=read_tool_name, pattern=r"^[!-~]+$")
_WORD = Text(max_length=256)
_PROSE = Text(max_length=16384)


_LOCATIONS: dict[str, Record] = {
    LocationType.BEARER: Record({}),
    LocationType.BASIC: Record({"username": Member(shape=_WORD, about="The user name.", required=True)}),
    LocationType.HEADER: Record(
        {
            "name": Member(shape=_WORD, about="The header.", required=True, others=("header_name",)),
            "prefix": Member(shape=_WORD, about="What stands before the secret, such as 'Bearer '."),
        }
    ),
    LocationType.QUERY_PARAM: Record({"name": Member(shape=_WORD, about="The parameter.", required=True)}),
    LocationType.URL_PATH: Record(
        {"placeholder": Member(shape=_WORD, about="The guest writes {placeholder} in the path.", required=True)}
    ),
}


class _Location(Shape):
    """Where a credential goes: one record for each type."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            problems.add(path, 'must be an object with a "type"')
            return INVALID
        kind = value["type"]
        if kind not in _LOCATIONS:
            problems.add(child(path, "type"), f"must be one of {', '.join(_LOCATIONS)}{nearest(kind, (*_LOCATIONS,))}")
            return INVALID
        rest = {key: item for key, item in value.items() if key != "type"}
        parts = _LOCATIONS[kind].read(rest, path, problems)
        if parts is INVALID:
            return INVALID
        try:
            return CredentialLocation(LocationType(kind), **parts)
        except ConfigurationError as error:
            problems.add(path, error.message)
            return INVALID

    def schema(self) -> dict[str, Any]:
        kinds = []
        for kind, record in _LOCATIONS.items():
            schema = record.schema()
            schema["properties"] = {"type": {"const": str(kind)}} | schema["properties"]
            kinds.append(schema | {"required": ["type"]})
        return {"oneOf": kinds}


def _read_listed_prefix(text: str) -> str:
    if not text:
        raise ConfigurationError("an empty prefix", hint="write true for the whole workspace")
    return read_prefix(text)


class _Workspace(Shape):
    """`true` is the whole workspace, `false` none of it."""

    _record = Record(
        {
            "allowed_prefixes": Member(
                shape=ListOf(item=Text(check=_read_listed_prefix)),
                about="Folders or files, such as 'context/'. An empty list allows nothing.",
                required=True,
            )
        }
    )

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if isinstance(value, bool):
            return {"allowed_prefixes": [""]} if value else None
        return self._record.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, self._record.schema()]}


_RATE = Record(
    {
        "requests_per_minute": Member(shape=Number(maximum=MAX_REQUESTS), about="60 where nothing is said."),
        "requests_per_hour": Member(shape=Number(maximum=MAX_REQUESTS), about="1000 where nothing is said."),
    }
)
_ENDPOINT = Record(
    {
        "host": Member(shape=_HOST, about="A host, or '*.example.com' for every name below it.", required=True),
        "port": Member(shape=_PORT, about="443 for https where nothing is said."),
        "ports": Member(shape=ListOf(item=_PORT, least=1), about="Several ports."),
        "scheme": Member(shape=_SCHEME, about="https where nothing is said."),
        "schemes": Member(shape=ListOf(item=_SCHEME, least=1), about="Both schemes."),
        "path_prefix": Member(shape=_PATH, about="Whole segments: /v1/ covers all below it, every path if absent."),
        "methods": Member(shape=ListOf(item=_METHOD), about="Every method where nothing is said."),
    },
    either=(("port", "ports"), ("scheme", "schemes")),
)
_CREDENTIAL = Record(
    {
        "secret_name": Member(shape=_SECRET, about="The stored secret.", required=True),
        "location": Member(shape=_Location(), about="The place it is put.", required=True),
        "host_patterns": Member(shape=ListOf(item=_HOST, least=1), about="The hosts that get it.", required=True),
        "path_patterns": Member(shape=ListOf(item=_PATH), about="Only paths under these prefixes get it."),
        "optional": Member(shape=Flag(), about="Send the request without it where it is not set."),
    }
)
_HTTP = Record(
    {
        "allowlist": Member(
            shape=ListOf(item=_ENDPOINT), about="The requests that may leave.", others=("allowed_endpoints",)
        ),
        "credentials": Member(shape=MapOf(item=_CREDENTIAL), about="Secrets that the host adds to requests."),
        "rate_limit": Member(shape=_RATE, about="How often, for each user."),
        "max_request_bytes": Member(shape=Number(such_as="1048576 for 1 MiB"), about="1 MiB where nothing is said."),
        "max_response_bytes": Member(shape=Number(such_as="10485760 for 10 MiB"), about="10 MiB if nothing is said."),
        "timeout_seconds": Member(
            shape=Number(fraction=True, maximum=MAX_HTTP_TIMEOUT_SECONDS),
            about="30 where nothing is said.",
            others=("timeout", "timeout_secs"),
        ),
    }
)
_SECRETS = Record(
    {
        "allowed_names": Member(
            shape=ListOf(item=Text(max_length=128, check=read_secret_glob, pattern=r"^[A-Za-z0-9_.-]*\*?$")),
            about="Names whose existence the tool may ask about; '*' at the end for all that begin so.",
            required=True,
            others=("allowed",),
        )
    }
)
_TOOL_INVOKE = Record(
    {
        "aliases": Member(shape=MapOf(item=_TOOL, key=_ALIAS), about="Alias to the tool behind it.", required=True),
        "rate_limit": Member(shape=_RATE, about="How often, for each user."),
    }
)
_LIMITS = Record(
    {
        "memory_bytes": Member(
            shape=Number(such_as="67108864 for 64 MiB"), about="All linear memories together.", others=("memory",)
        ),
        "fuel": Member(shape=Number(such_as="500000000"), about="Instructions, roughly."),
        "timeout_seconds": Member(
            shape=Number(fraction=True, maximum=MAX_CALL_TIMEOUT_SECONDS, such_as="30 for half a minute"),
            about="One call, host calls included.",
            others=("timeout",),
        ),
        "output_bytes": Member(shape=Number(such_as="1048576 for 1 MiB"), about="The result.", others=("output",)),
        "table_elements": Member(shape=Number(), about="Per table."),
        "instances": Member(shape=Number(), about="Core instances."),
    }
)
POWERS = {
    "http": Member(shape=_HTTP, about="Requests that may leave, and credentials for them."),
    "workspace": Member(shape=_Workspace(), about="Files that may be read.", others=("workspace_read",)),
    "secrets": Member(shape=_SECRETS, about="Secrets whose existence may be asked about."),
    "tool_invoke": Member(shape=_TOOL_INVOKE, about="Tools that may be called, by alias."),
    "limits": Member(shape=_LIMITS, about="Limits that differ from the runtime's."),
}
NESTED = "capabilities"
ROOT = Record(
    POWERS
    | ABOUT
    | SECTIONS
    | {NESTED: Member(shape=Record(POWERS | ABOUT | SECTIONS), about="The same sections, one level down.")}
)


def capability_schema() -> dict[str, Any]:
    """The capability file's JSON Schema (2020-12). It accepts what `parse` accepts, bar what needs more than shape."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wasmrt capability file",
        "description": "What a tool asks for. An absent section asks for nothing.",
    } | ROOT.schema()
