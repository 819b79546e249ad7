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
    join_path,
    suggest_nearest,
)
from wasmrt.capabilities.kinds._capability import attempt
from wasmrt.capabilities.kinds._limits import RATE
from wasmrt.capabilities.model import (
    ANY_HOST,
    MAX_PATH_LENGTH,
    METHODS,
    CredentialLocation,
    CredentialMapping,
    EndpointPattern,
    LocationType,
    read_host_pattern,
    read_path_pattern,
    read_secret_name,
)
from wasmrt.core.errors import CapabilityFileError, ConfigurationError
from wasmrt.core.url import InvalidUrlError, parse_url

MAX_HTTP_TIMEOUT_SECONDS = 3600
_EXAMPLE = "write it like 'GET https://api.example.com/v1/' or api.example.com"

_HOST = Text(max_length=256, check=read_host_pattern, pattern=r"^(\*\.)?[^\s/@*?#]+$")
_PATH = Text(max_length=MAX_PATH_LENGTH, check=read_path_pattern, pattern=r"^(/(\*|[!-)+-.0-~]*))+$")
_SECRET = Text(max_length=128, check=read_secret_name, pattern=r"^[A-Za-z0-9_.-]+$")
_METHOD = Text(choices=METHODS, upper=True)
_SCHEME = Text(choices=("https", "http"))
_PORT = Number(maximum=65535)
_WORD = Text(max_length=256)


_LOCATIONS: dict[str, ObjectSchema] = {
    LocationType.BEARER: ObjectSchema({}),
    LocationType.BASIC: ObjectSchema({"username": Property(field=_WORD, about="User name.", required=True)}),
    LocationType.HEADER: ObjectSchema(
        {
            "name": Property(field=_WORD, about="Name of the header.", required=True, aliases=("header_name",)),
            "prefix": Property(field=_WORD, about="Text before the secret, such as 'Bearer '."),
        }
    ),
    LocationType.QUERY_PARAM: ObjectSchema(
        {"name": Property(field=_WORD, about="Name of the query parameter.", required=True)}
    ),
    LocationType.URL_PATH: ObjectSchema(
        {
            "placeholder": Property(
                field=_WORD,
                about="Name that the tool writes in braces in the path, in place of the secret.",
                required=True,
            )
        }
    ),
    LocationType.AWS_SIGV4: ObjectSchema(
        {
            "region": Property(field=_WORD, about="AWS region, such as eu-central-1.", required=True),
            "service": Property(
                field=_WORD,
                about="AWS service, such as s3.",
                required=True,
            ),
        }
    ),
    LocationType.HMAC_SHA256: ObjectSchema(
        {
            "name": Property(field=_WORD, about="Header for the signature of the body.", required=True),
            "prefix": Property(field=_WORD, about="Text before the signature, such as 'sha256='."),
            "encoding": Property(
                field=Text(choices=("hex", "base64")), about="Encoding of the signature; hex by default."
            ),
            "timestamp_name": Property(
                field=_WORD, about="A header for the Unix time; then the signed text is 'TIME.BODY'."
            ),
        }
    ),
}


class _Location(Field):
    """The location of a credential: an object whose other keys depend on its `type`."""

    def read(self, value: Any, path: str, problems: Problems) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("type"), str):
            problems.add(path, 'must be an object with a "type"')
            return INVALID
        kind = value["type"]
        if kind not in _LOCATIONS:
            problems.add(
                join_path(path, "type"),
                f"must be one of {', '.join(_LOCATIONS)}{suggest_nearest(kind, (*_LOCATIONS,))}",
            )
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
        "host": Property(field=_HOST, about="Host name or address, or '*.example.com' for every subdomain."),
        "any_public_host": Property(
            field=Flag(),
            about="True, instead of `host`, to allow every public host, without credentials.",
        ),
        "public_only": Property(
            field=Flag(),
            about="True to allow only public addresses, even if the operator exempts internal networks. "
            "`any_public_host` implies it.",
        ),
        "port": Property(field=_PORT, about="Allowed port; by default 443 for https and 80 for http."),
        "ports": Property(field=ListOf(item=_PORT, min_items=1), about="Allowed ports, instead of `port`."),
        "scheme": Property(field=_SCHEME, about="Allowed scheme; https by default."),
        "schemes": Property(field=ListOf(item=_SCHEME, min_items=1), about="Allowed schemes, instead of `scheme`."),
        "path_prefix": Property(
            field=_PATH,
            about="Allow only paths that begin with these complete segments, such as /v1/ or /repos/*/*/issues/; "
            "by default every path.",
        ),
        "path": Property(field=_PATH, about="Allow only this path, without its subpaths, instead of `path_prefix`."),
        "methods": Property(field=ListOf(item=_METHOD), about="Allowed methods; by default every method."),
    },
    either=(("port", "ports"), ("scheme", "schemes"), ("path_prefix", "path")),
    needs_one=(("host", "any_public_host"),),
)
_CREDENTIAL = ObjectSchema(
    {
        "secret_name": Property(field=_SECRET, about="Name of the stored secret.", required=True),
        "location": Property(field=_Location(), about="Part of a request that contains the secret.", required=True),
        "host_patterns": Property(
            field=ListOf(item=_HOST, min_items=1), about="Hosts to which the secret is sent.", required=True
        ),
        "path_patterns": Property(
            field=ListOf(item=_PATH),
            about="Prefixes of paths to which the secret is sent, with *; by default every path.",
        ),
        "ports": Property(
            field=ListOf(item=_PORT, min_items=1),
            about="Ports to which the secret is sent. Default: the port of the allowlist if it has only one, "
            "otherwise 443.",
        ),
        "optional": Property(
            field=Flag(), about="True to send requests without the secret while it is not set. Default: they fail."
        ),
    }
)
HTTP = Property(
    field=ObjectSchema(
        {
            "allowlist": Property(
                field=ListOf(item=_ENDPOINT), about="Requests that may be sent.", aliases=("allowed_endpoints",)
            ),
            "credentials": Property(field=MapOf(item=_CREDENTIAL), about="Secrets that the host adds to requests."),
            "rate_limit": RATE,
            "max_request_bytes": Property(
                field=Number(example="1048576 for 1 MiB"), about="Maximum size of a request; 1 MiB by default."
            ),
            "max_response_bytes": Property(
                field=Number(example="10485760 for 10 MiB"), about="Maximum size of a response; 10 MiB by default."
            ),
            "timeout_seconds": Property(
                field=Number(fraction=True, maximum=MAX_HTTP_TIMEOUT_SECONDS),
                about="Maximum duration of a request; 30 by default.",
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
    """Build an allowlist entry from its validated JSON data.

    Raises:
        ConfigurationError: the entry has both `host` and `any_public_host`, or neither, or has an invalid part.
    """
    ports = tree.get("ports", [tree["port"]] if "port" in tree else [])
    schemes = tree.get("schemes", [tree.get("scheme", "https")])
    is_any, public = tree.get("any_public_host", False), tree.get("public_only", False)
    if is_any == ("host" in tree):
        raise ConfigurationError(
            'an entry must have either "host" or "any_public_host": true', hint="keep one of these keys"
        )
    return EndpointPattern(
        ANY_HOST if is_any else tree["host"],
        tree.get("path_prefix"),
        tuple(tree.get("methods", ())),
        ports,
        schemes,
        tree.get("path"),
        is_any or public,
    )


def entry_text(entry: EndpointPattern) -> str:
    """Return the text that `read_endpoint` reads as the host, methods and path of an entry, and its ports if set."""
    if entry.path is not None or "*" in entry.host_pattern or len(entry.ports) > 1 or len(entry.schemes) > 1:
        return entry.as_line()
    host = f"[{entry.host_pattern}]" if ":" in entry.host_pattern else entry.host_pattern
    port = f":{entry.ports[0]}" if entry.ports else ""
    return f"{','.join(entry.methods)} {entry.schemes[0]}://{host}{port}{entry.path_prefix or '/'}".strip()


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
            raise CapabilityFileError(f"the entry is not valid JSON: {text!r:.80}", hint=_EXAMPLE) from None
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
    usual = EndpointPattern(url.host, schemes=(url.scheme,)).get_ports(url.scheme)
    return EndpointPattern(url.host, url.path, chosen, () if (url.port,) == usual else (url.port,), (url.scheme,))
