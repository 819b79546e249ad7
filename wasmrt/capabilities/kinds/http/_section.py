"""The section `http` of a capability file: its entries and credentials."""

from __future__ import annotations

import json
from typing import Any

from wasmrt.capabilities._fields import (
    INVALID,
    Field,
    Flag,
    ListOf,
    MapOf,
    Number,
    ObjectSchema,
    Problems,
    Property,
    Text,
    child,
    nearest,
)
from wasmrt.capabilities.kinds._capability import attempt
from wasmrt.capabilities.kinds._limits import RATE
from wasmrt.capabilities.model import (
    ANY_HOST,
    MAX_PREFIX_LENGTH,
    METHODS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    read_host_pattern,
    read_path_prefix,
    read_secret_name,
)
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.url import InvalidUrlError, parse_url

MAX_HTTP_TIMEOUT_SECONDS = 3600
_EXAMPLE = "write it like 'GET https://api.example.com/v1/' or api.example.com"

_HOST = Text(max_length=256, check=read_host_pattern, pattern=r"^(\*\.)?[^\s/@*?#]+$")
_PATH = Text(max_length=MAX_PREFIX_LENGTH, check=read_path_prefix, pattern=r"^/[!-~]*$")
_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_SCHEME = Text(choices=("https", "http"))
_PORT = Number(maximum=65535)
_WORD = Text(max_length=256)


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
        {
            "placeholder": Property(
                field=_WORD,
                about="The host replaces it, in braces, in the path.",
                required=True,
            )
        }
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
            "encoding": Property(field=Text(choices=("hex", "base64")), about="hex by default."),
            "timestamp_name": Property(field=_WORD, about="A header for the Unix time; 'TIME.BODY' is signed then."),
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


_ENDPOINT = ObjectSchema(
    {
        "host": Property(field=_HOST, about="A host, or '*.example.com' for every name below it. Required."),
        "any_public_host": Property(
            field=Flag(),
            about="Allow every public host; replaces host, and excludes credentials.",
        ),
        "public_only": Property(
            field=Flag(),
            about="Allow only public addresses, even if an operator exempts others; implied by any_public_host.",
        ),
        "port": Property(field=_PORT, about="443 for https by default."),
        "ports": Property(field=ListOf(item=_PORT, min_items=1), about="Several ports."),
        "scheme": Property(field=_SCHEME, about="https by default."),
        "schemes": Property(field=ListOf(item=_SCHEME, min_items=1), about="Several schemes."),
        "path_prefix": Property(field=_PATH, about="Whole segments: /v1/ covers paths below it; every path if absent."),
        "path": Property(field=_PATH, about="Only this path without its subpaths, instead of a prefix."),
        "methods": Property(field=ListOf(item=_METHOD), about="Every method by default."),
    },
    either=(("port", "ports"), ("scheme", "schemes"), ("path_prefix", "path")),
    needs_one=(("host", "any_public_host"),),
)
_CREDENTIAL = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="The stored secret.", required=True),
        "location": Property(field=_Location(), about="The part of the request that contains it.", required=True),
        "host_patterns": Property(field=ListOf(item=_HOST, min_items=1), about="The hosts that get it.", required=True),
        "path_patterns": Property(field=ListOf(item=_PATH), about="Only paths under these prefixes get it."),
        "ports": Property(
            field=ListOf(item=_PORT, min_items=1),
            about="The ports that get it; by default 443, or the only listed port.",
        ),
        "optional": Property(field=Flag(), about="Send the request without the secret if it is not set."),
    }
)
HTTP = Property(
    field=ObjectSchema(
        {
            "allowlist": Property(
                field=ListOf(item=_ENDPOINT), about="The requests that may be sent.", aliases=("allowed_endpoints",)
            ),
            "credentials": Property(field=MapOf(item=_CREDENTIAL), about="Secrets that the host adds to requests."),
            "rate_limit": RATE,
            "max_request_bytes": Property(field=Number(example="1048576 for 1 MiB"), about="1 MiB by default."),
            "max_response_bytes": Property(field=Number(example="10485760 for 10 MiB"), about="10 MiB by default."),
            "timeout_seconds": Property(
                field=Number(fraction=True, maximum=MAX_HTTP_TIMEOUT_SECONDS),
                about="30 by default.",
                aliases=("timeout", "timeout_secs"),
            ),
        }
    ),
    about="Requests that may be sent, and their credentials.",
)


def read_entry(value: Any, place: str, *, hint: str) -> EndpointPattern:
    """Read an allowlist entry from JSON data.

    Raises:
        ConfigurationError: the data is not a valid entry; the message begins with the JSON path below `place`.
    """
    problems = Problems()
    tree = _ENDPOINT.read(value, place, problems)
    if tree is INVALID:
        at, first = problems.found[0]
        raise ConfigurationError(f"{at}: {first}", hint=hint)
    try:
        return build_endpoint(tree)
    except ConfigurationError as error:
        raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from None


def build_endpoint(tree: dict[str, Any]) -> EndpointPattern:
    """Return the allowlist entry from its checked JSON data.

    Raises:
        ConfigurationError: its parts conflict.
    """
    ports = tree.get("ports", [tree["port"]] if "port" in tree else [])
    schemes = tree.get("schemes", [tree.get("scheme", "https")])
    is_any, public = tree.get("any_public_host", False), tree.get("public_only", False)
    if is_any == ("host" in tree):
        raise ConfigurationError("an entry has either a host or any_public_host: true", hint="keep one")
    return EndpointPattern(
        ANY_HOST if is_any else tree["host"],
        tree.get("path_prefix"),
        tuple(tree.get("methods", ())),
        ports,
        schemes,
        tree.get("path"),
        is_any or public,
    )


def build_credential(name: str, tree: dict[str, Any]) -> CredentialMapping:
    return CredentialMapping(
        secret_name=tree["secret_name"],
        location=tree["location"],
        host_patterns=tree["host_patterns"],
        path_patterns=tree.get("path_patterns", ()),
        optional=tree.get("optional", False),
        ports=tree.get("ports", ()),
        name=name,
    )


def read_endpoint(text: str) -> EndpointPattern:
    """Read an allowlist entry from text: `HOST`, `URL`, `GET,POST URL`, or the JSON of an entry.

    Raises:
        ConfigurationError: the text has none of these forms.
    """
    if text.startswith("{"):
        problems, place = Problems(), "http.allowlist[0]"
        try:
            tree = _ENDPOINT.read(json.loads(text), place, problems)
        except (ValueError, RecursionError):
            raise CapabilityFileError(f"the entry is not JSON: {text!r:.80}", hint=_EXAMPLE) from None
        entry = None if tree is INVALID else attempt(place, problems, lambda: build_endpoint(tree))
        if entry is None:
            found = "; ".join(f"{at}: {sentence}" for at, sentence in problems.found)
            raise CapabilityFileError(f"invalid entry: {found}", problems=tuple(problems.found), hint=_EXAMPLE)
        return entry
    methods, _, place = text.rpartition(" ")
    chosen = tuple(part for part in methods.replace(",", " ").split() if part)
    if "/" not in place:
        return EndpointPattern(place, methods=chosen)
    try:
        url = parse_url(place if "://" in place else f"https://{place}")
    except InvalidUrlError as error:
        raise ConfigurationError(f"{place!r:.80} is not a URL: {error.message}", hint=_EXAMPLE) from None
    usual = EndpointPattern(url.host, schemes=(url.scheme,)).ports_for(url.scheme)
    return EndpointPattern(url.host, url.path, chosen, () if (url.port,) == usual else (url.port,), (url.scheme,))
