"""The section [serve] of the operator's configuration file: `wasmrt serve --http` as an OAuth protected resource."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.strict_toml import (
    Mistake,
    ValueReader,
    make_choice_reader,
    make_keyed_reader,
    make_number_reader,
    read_texts,
)
from wasmrt.core.url import InvalidUrlError, parse_url

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Asymmetric signatures (RFC 7518, RFC 8037). SECURITY: `none` and shared secrets (HS256) are not supported."""
ENDPOINT_PATH = "/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
"""Path of the document that describes the protected resource (RFC 9728, section 3)."""
MAX_CLAIM_CHARS = 256
_NEEDED = ("resource", "issuer", "jwks_url", "users")
_MAX_USERS = 1000
_MAX_URL_CHARS = 512
_SCOPE_CHARS = frozenset(map(chr, (0x21, *range(0x23, 0x5C), *range(0x5D, 0x7F))))


class ResourceSettings(NamedTuple):
    """The section [serve]: the access tokens that are accepted, and the users to whom they belong."""

    resource: str
    """The endpoint's URL as clients use it; every token must have it as its audience (RFC 8707)."""
    issuer: str
    """The URL of the authorization server, exactly as its tokens state it."""
    jwks_url: str
    """The URL of the authorization server's keys (RFC 7517)."""
    users: Mapping[str, str]
    """Maps values of the claim `user_claim` to users; tokens with other values are rejected."""
    user_claim: str = "sub"
    scopes: tuple[str, ...] = ()
    """Scopes that a token must have."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    clock_skew_seconds: int = 60

    @property
    def origin(self) -> str:
        """The origin of `resource`, which the server accepts in addition to the origin of its own address."""
        return self.resource.removesuffix(ENDPOINT_PATH)


def read_resource(section: Mapping[str, Any], mistakes: list[Mistake]) -> ResourceSettings | None:
    """Return the section's settings, or None if it is empty or invalid; errors are appended to `mistakes`."""
    if not section or any(mistake.key.startswith("serve.") for mistake in mistakes):
        return None  # an invalid key is already reported; it must not be reported as missing
    missing = [key for key in _NEEDED if key not in section]
    if missing:
        hint = "docs/serving.md has a complete example"
        mistakes.append(Mistake("serve", f"also requires {', '.join(missing)}", hint))
        return None
    return ResourceSettings(**section)


def _read_https_url(value: Any, example: str) -> str:
    hint = f'write it like "{example}"'
    if not isinstance(value, str) or len(value) > _MAX_URL_CHARS:
        raise ConfigurationError("must be a URL", hint=hint)
    try:
        parsed = parse_url(value)
    except InvalidUrlError as error:
        raise ConfigurationError(f"is not a valid URL: {error.message}", hint=hint) from None
    if parsed.scheme != "https" or "?" in value or "#" in value or '"' in value or "\\" in value:
        raise ConfigurationError("must be an https:// URL without a query", hint=hint)
    return value


def _read_resource_url(value: Any) -> str:
    example = f"https://tools.example.com{ENDPOINT_PATH}"
    found = _read_https_url(value, example)
    if not found.endswith(ENDPOINT_PATH) or found.count("/") != 3 or found != found.lower():
        raise ConfigurationError(
            f"must be https://HOST{ENDPOINT_PATH}, in lowercase", hint=f'write it like "{example}"'
        )
    return found


def _read_users(value: Any) -> Mapping[str, str]:
    hint = 'write it like users = { "auth0|5f7c8ec7" = "alice" }'
    if not isinstance(value, dict) or not 0 < len(value) <= _MAX_USERS:
        raise ConfigurationError(f"must be a table that maps up to {_MAX_USERS:,} claim values to users", hint=hint)
    for claim, user in value.items():
        if not 0 < len(claim) <= MAX_CLAIM_CHARS:
            raise ConfigurationError(f"a claim value must have 1 to {MAX_CLAIM_CHARS} characters", hint=hint)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
            raise ConfigurationError(f"the setting users must map {claim!r:.80} to a user name", hint=hint)
    return MappingProxyType(dict(value))


def _read_claim(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CLAIM_CHARS:
        raise ConfigurationError("must be the name of a claim", hint='write it like user_claim = "sub"')
    return value


def _read_scopes(value: Any) -> tuple[str, ...]:
    found = read_texts(value)
    if any(set(scope) - _SCOPE_CHARS for scope in found):  # RFC 6749, 3.3
        raise ConfigurationError("must be a list of scopes", hint='write it like scopes = ["tools:call"]')
    return found


def _read_algorithms(value: Any) -> tuple[str, ...]:
    if not (found := read_texts(value)):
        raise ConfigurationError("must list at least one algorithm", hint='write it like algorithms = ["RS256"]')
    known = make_choice_reader(str, ALGORITHMS)
    return tuple(known(each) for each in found)


SERVE_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "serve": {
        "resource": make_keyed_reader("resource", _read_resource_url),
        "issuer": make_keyed_reader("issuer", lambda value: _read_https_url(value, "https://login.example.com")),
        "jwks_url": make_keyed_reader(
            "jwks_url", lambda value: _read_https_url(value, "https://login.example.com/keys")
        ),
        "users": make_keyed_reader("users", _read_users),
        "user_claim": make_keyed_reader("user_claim", _read_claim),
        "scopes": make_keyed_reader("scopes", _read_scopes),
        "algorithms": make_keyed_reader("algorithms", _read_algorithms),
        "clock_skew_seconds": make_keyed_reader("clock_skew_seconds", make_number_reader(0, 300)),
    }
}
