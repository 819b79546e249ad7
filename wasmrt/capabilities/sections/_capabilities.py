"""The sections of a capability file that ask for something, declared once for the parser and the JSON Schema.

Our spelling and IronClaw's are read side by side; the first name of each key is the one written.
"""

from __future__ import annotations

from typing import Any

from wasmrt.capabilities.model import (
    MAX_CALL_TIMEOUT_SECONDS,
    MAX_HTTP_TIMEOUT_SECONDS,
    MAX_PREFIX_LENGTH,
    MAX_REQUESTS,
    METHODS,
    CredentialLocation,
    LocationType,
    read_alias,
    read_host_pattern,
    read_path_prefix,
    read_prefix,
    read_secret_glob,
    read_secret_name,
    read_tool_name,
)
from wasmrt.capabilities.sections._descriptive import ABOUT, SECTIONS
from wasmrt.capabilities.sections._fields import (
    INVALID,
    Field,
    Flag,
    ListOf,
    MapOf,
    Number,
    ObjectSchema,
    Property,
    Text,
    nearest,
)
from wasmrt.capabilities.sections._json import Problems, child
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_WRITE_BYTES, MAX_WRITE_FILES

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


_LOCATIONS: dict[str, ObjectSchema] = {
    LocationType.BEARER: ObjectSchema({}),
    LocationType.BASIC: ObjectSchema({"username": Property(field=_WORD, about="The user name.", required=True)}),
    LocationType.HEADER: ObjectSchema(
        {
            "name": Property(field=_WORD, about="The header.", required=True, aliases=("header_name",)),
            "prefix": Property(field=_WORD, about="Text before the secret, such as 'Bearer '."),
        }
    ),
    LocationType.QUERY_PARAM: ObjectSchema({"name": Property(field=_WORD, about="The parameter.", required=True)}),
    LocationType.URL_PATH: ObjectSchema(
        {"placeholder": Property(field=_WORD, about="The guest writes {placeholder} in the path.", required=True)}
    ),
    LocationType.AWS_SIGV4: ObjectSchema(
        {
            "region": Property(field=_WORD, about="The region, such as eu-central-1.", required=True),
            "service": Property(
                field=_WORD, about="The service, such as s3; the secret is ID:SECRET of an access key.", required=True
            ),
        }
    ),
    LocationType.HMAC_SHA256: ObjectSchema(
        {
            "name": Property(field=_WORD, about="The header of the signature of the body.", required=True),
            "prefix": Property(field=_WORD, about="Text before the signature, such as 'sha256='."),
            "encoding": Property(field=Text(choices=("hex", "base64")), about="hex where nothing is said."),
            "timestamp_name": Property(
                field=_WORD, about="A header for the Unix time, which is then signed too: 'TIME.BODY'."
            ),
        }
    ),
}


class _Location(Field):
    """The place of a credential: one object for each type."""

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
        for kind, parts in _LOCATIONS.items():
            schema = parts.schema()
            schema["properties"] = {"type": {"const": str(kind)}} | schema["properties"]
            kinds.append(schema | {"required": ["type"]})
        return {"oneOf": kinds}


def _read_listed_prefix(text: str) -> str:
    if not text:
        raise ConfigurationError("an empty prefix", hint="write true for the whole workspace")
    return read_prefix(text)


_LISTED_PREFIXES = ListOf(item=Text(check=_read_listed_prefix))


class _Prefixes(Field):
    """A list of prefixes, or `true` for the whole workspace."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        return [""] if value is True else _LISTED_PREFIXES.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"const": True}, _LISTED_PREFIXES.schema()]}


class _Workspace(Field):
    """`true` is the whole workspace, `false` none of it."""

    def __init__(self, listed: ObjectSchema) -> None:
        self._listed = listed

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if isinstance(value, bool):
            return {"allowed_prefixes": [""]} if value else None
        return self._listed.read(value, path, problems)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [{"type": "boolean"}, self._listed.schema()]}


_READING = ObjectSchema(
    {
        "allowed_prefixes": Property(
            field=_LISTED_PREFIXES,
            about="Folders or files, such as 'context/'. An empty list allows nothing.",
            required=True,
        )
    }
)
_WRITING = ObjectSchema(
    {
        "allowed_prefixes": Property(
            field=_Prefixes(), about="Folders or files, such as 'out/', or true for the whole workspace.", required=True
        ),
        "max_file_bytes": Property(
            field=Number(maximum=MAX_WRITE_BYTES, example="1048576 for 1 MiB"), about="One file; 4 MiB if absent."
        ),
        "max_bytes": Property(field=Number(maximum=MAX_WRITE_BYTES), about="All that a call writes; 16 MiB if absent."),
        "max_files": Property(
            field=Number(maximum=MAX_WRITE_FILES), about="Names that a call makes or changes; 100 if absent."
        ),
        "remove": Property(field=Flag(), about="True where it may remove what the call itself has not made."),
    }
)
_RATE = ObjectSchema(
    {
        "requests_per_minute": Property(field=Number(maximum=MAX_REQUESTS), about="60 where nothing is said."),
        "requests_per_hour": Property(field=Number(maximum=MAX_REQUESTS), about="1000 where nothing is said."),
    }
)
ENDPOINT = ObjectSchema(
    {
        "host": Property(field=_HOST, about="A host, or '*.example.com' for every name below it. Required."),
        "any_public_host": Property(
            field=Flag(), about="In place of a host: true for every public one. Never together with a credential."
        ),
        "public_only": Property(
            field=Flag(), about="Public addresses only, whatever networks an operator exempts; any_public_host has it."
        ),
        "port": Property(field=_PORT, about="443 for https where nothing is said."),
        "ports": Property(field=ListOf(item=_PORT, min_items=1), about="Several ports."),
        "scheme": Property(field=_SCHEME, about="https where nothing is said."),
        "schemes": Property(field=ListOf(item=_SCHEME, min_items=1), about="Both schemes."),
        "path_prefix": Property(field=_PATH, about="Whole segments: /v1/ covers all below it, every path if absent."),
        "path": Property(field=_PATH, about="This path exactly, and nothing below it, in place of a prefix."),
        "methods": Property(field=ListOf(item=_METHOD), about="Every method where nothing is said."),
    },
    either=(("port", "ports"), ("scheme", "schemes"), ("path_prefix", "path")),
    needs_one=(("host", "any_public_host"),),
)
_CREDENTIAL = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="The stored secret.", required=True),
        "location": Property(field=_Location(), about="The place it is put.", required=True),
        "host_patterns": Property(field=ListOf(item=_HOST, min_items=1), about="The hosts that get it.", required=True),
        "path_patterns": Property(field=ListOf(item=_PATH), about="Only paths under these prefixes get it."),
        "ports": Property(
            field=ListOf(item=_PORT, min_items=1), about="Only these get it; 443 or the only listed one if absent."
        ),
        "optional": Property(field=Flag(), about="Send the request without it where it is not set."),
    }
)
_HTTP = ObjectSchema(
    {
        "allowlist": Property(
            field=ListOf(item=ENDPOINT), about="The requests that may leave.", aliases=("allowed_endpoints",)
        ),
        "credentials": Property(field=MapOf(item=_CREDENTIAL), about="Secrets that the host adds to requests."),
        "rate_limit": Property(field=_RATE, about="How often, for each user."),
        "max_request_bytes": Property(field=Number(example="1048576 for 1 MiB"), about="1 MiB where nothing is said."),
        "max_response_bytes": Property(field=Number(example="10485760 for 10 MiB"), about="10 MiB if nothing is said."),
        "timeout_seconds": Property(
            field=Number(fraction=True, maximum=MAX_HTTP_TIMEOUT_SECONDS),
            about="30 where nothing is said.",
            aliases=("timeout", "timeout_secs"),
        ),
    }
)
_SECRETS = ObjectSchema(
    {
        "allowed_names": Property(
            field=ListOf(item=Text(max_length=128, check=read_secret_glob, pattern=r"^[A-Za-z0-9_.-]*\*?$")),
            about="Names whose existence the tool may ask about; '*' at the end for all that begin so.",
            required=True,
            aliases=("allowed",),
        )
    }
)
_TOOL_INVOKE = ObjectSchema(
    {
        "aliases": Property(field=MapOf(item=_TOOL, key=_ALIAS), about="Alias to the tool behind it.", required=True),
        "rate_limit": Property(field=_RATE, about="How often, for each user."),
    }
)
_LIMITS = ObjectSchema(
    {
        "memory_bytes": Property(
            field=Number(example="67108864 for 64 MiB"), about="All linear memories together.", aliases=("memory",)
        ),
        "fuel": Property(field=Number(example="500000000"), about="Instructions, roughly."),
        "timeout_seconds": Property(
            field=Number(fraction=True, maximum=MAX_CALL_TIMEOUT_SECONDS, example="30 for half a minute"),
            about="One call, host calls included.",
            aliases=("timeout",),
        ),
        "output_bytes": Property(field=Number(example="1048576 for 1 MiB"), about="The result.", aliases=("output",)),
        "table_elements": Property(field=Number(), about="Per table."),
        "instances": Property(field=Number(), about="Core instances."),
    }
)
CAPABILITIES = {
    "http": Property(field=_HTTP, about="Requests that may leave, and credentials for them."),
    "workspace": Property(field=_Workspace(_READING), about="Files that may be read.", aliases=("workspace_read",)),
    "workspace_write": Property(
        field=_Workspace(_WRITING), about="Files that may be written; reading is a section of its own."
    ),
    "secrets": Property(field=_SECRETS, about="Secrets whose existence may be asked about."),
    "tool_invoke": Property(field=_TOOL_INVOKE, about="Tools that may be called, by alias."),
    "limits": Property(field=_LIMITS, about="Limits that differ from the runtime's."),
}
_TOOL_SECTION = ObjectSchema(
    {name: CAPABILITIES[name] for name in ("http", "workspace", "workspace_write", "secrets", "tool_invoke")}
    | {
        "credentials": Property(
            field=ListOf(item=Text(max_length=128)), about="Names in http.credentials of the component: those it uses."
        ),
        "effects": Property(field=ListOf(item=Text(choices=tuple(Effect))), about="Kinds of things that it does."),
    }
)
CAPABILITIES["tools"] = Property(
    field=MapOf(item=_TOOL_SECTION, key=Text(max_length=128, pattern=r"^[!-~]+$", check=read_tool_name)),
    about="The part that each tool has of all this. With this section, a tool that is not named has nothing.",
)
NESTED = "capabilities"
ROOT = ObjectSchema(
    CAPABILITIES
    | ABOUT
    | SECTIONS
    | {
        NESTED: Property(
            field=ObjectSchema(CAPABILITIES | ABOUT | SECTIONS), about="The same sections, one level down."
        )
    }
)


def capability_schema() -> dict[str, Any]:
    """Return the capability file's JSON Schema (2020-12): it accepts all that `parse` does, and a little more."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "wasmrt capability file",
        "description": "What a tool asks for. An absent section asks for nothing.",
    } | ROOT.schema()
