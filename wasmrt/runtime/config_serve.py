"""The section [serve] of the operator's configuration file: `wasmrt serve --http` as a protected resource of OAuth."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import MAX_USER_BYTES
from wasmrt.core.strict_toml import Mistake, ValueReader, keyed, one_of, texts, whole_number
from wasmrt.core.url import InvalidUrlError, parse_url

ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
"""Signatures by a key pair (RFC 7518, RFC 8037). SECURITY: `none` and shared secrets (HS256) are not to be had."""
ENDPOINT_PATH = "/mcp"
METADATA_PATH = "/.well-known/oauth-protected-resource"
"""RFC 9728, 3."""
MAX_CLAIM_CHARS = 256
_NEEDED = ("resource", "issuer", "jwks_url", "users")
_MAX_USERS = 1000
_MAX_URL_CHARS = 512
_SCOPE_CHARS = frozenset(map(chr, (0x21, *range(0x23, 0x5C), *range(0x5D, 0x7F))))


class ResourceSettings(NamedTuple):
    """The section [serve]: whose access tokens are taken, and whom they stand for."""

    resource: str
    """The address of the endpoint as clients know it, which is the audience of every token (RFC 8707)."""
    issuer: str
    """The authorization server, in its one spelling."""
    jwks_url: str
    """The address of its keys (RFC 7517)."""
    users: Mapping[str, str]
    """The user for each value of `user_claim`; a value that is not here is nobody's."""
    user_claim: str = "sub"
    scopes: tuple[str, ...] = ()
    """All of these are needed."""
    algorithms: tuple[str, ...] = ("RS256", "PS256", "ES256", "EdDSA")
    clock_skew_seconds: int = 60

    @property
    def origin(self) -> str:
        """The origin of the resource: another name that the server is reached by."""
        return self.resource.removesuffix(ENDPOINT_PATH)


def read_resource(section: Mapping[str, Any], mistakes: list[Mistake]) -> ResourceSettings | None:
    """Return the section as a whole; None where it is empty, or wrong, which is added to `mistakes`."""
    if not section or any(mistake.key.startswith("serve.") for mistake in mistakes):
        return None  # a key that was wrong is missing for that alone
    missing = [key for key in _NEEDED if key not in section]
    if missing:
        hint = "docs/serving.md has a section that is whole"
        mistakes.append(Mistake("serve", f"needs {', '.join(missing)} as well", hint))
        return None
    return ResourceSettings(**section)


def _https(value: Any, example: str) -> str:
    hint = f'write it like "{example}"'
    if not isinstance(value, str) or len(value) > _MAX_URL_CHARS:
        raise ConfigurationError("must be a URL", hint=hint)
    try:
        parsed = parse_url(value)
    except InvalidUrlError as error:
        raise ConfigurationError(f"is no URL that can be used: {error.message}", hint=hint) from None
    if parsed.scheme != "https" or "?" in value or "#" in value or '"' in value or "\\" in value:
        raise ConfigurationError("must be an https:// URL without a query", hint=hint)
    return value


def _resource(value: Any) -> str:
    example = f"https://tools.example.com{ENDPOINT_PATH}"
    found = _https(value, example)
    if not found.endswith(ENDPOINT_PATH) or found.count("/") != 3 or found != found.lower():
        raise ConfigurationError(
            f"must be https://HOST{ENDPOINT_PATH}, in small letters", hint=f'write it like "{example}"'
        )
    return found


def _users(value: Any) -> Mapping[str, str]:
    hint = 'write it like users = { "auth0|5f7c8ec7" = "alice" }'
    if not isinstance(value, dict) or not 0 < len(value) <= _MAX_USERS:
        raise ConfigurationError(
            f"must be a table of up to {_MAX_USERS:,} values of the claim, with a user each", hint=hint
        )
    for claim, user in value.items():
        if not 0 < len(claim) <= MAX_CLAIM_CHARS:
            raise ConfigurationError(f"a value of the claim has 1 to {MAX_CLAIM_CHARS} characters", hint=hint)
        if not isinstance(user, str) or not 0 < len(user) <= MAX_USER_BYTES or not user.isprintable():
            raise ConfigurationError(f"has no user for {claim!r:.80}", hint=hint)
    return MappingProxyType(dict(value))


def _claim(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_CLAIM_CHARS:
        raise ConfigurationError("must be the name of a claim", hint='write it like user_claim = "sub"')
    return value


def _scopes(value: Any) -> tuple[str, ...]:
    found = texts(value)
    if any(set(scope) - _SCOPE_CHARS for scope in found):  # RFC 6749, 3.3
        raise ConfigurationError("must be a list of scopes", hint='write it like scopes = ["tools:call"]')
    return found


def _algorithms(value: Any) -> tuple[str, ...]:
    if not (found := texts(value)):
        raise ConfigurationError("must name an algorithm", hint='write it like algorithms = ["RS256"]')
    known = one_of(str, ALGORITHMS)
    return tuple(known(each) for each in found)


SERVE_SECTIONS: dict[str, dict[str, ValueReader]] = {
    "serve": {
        "resource": keyed("resource", _resource),
        "issuer": keyed("issuer", lambda value: _https(value, "https://login.example.com")),
        "jwks_url": keyed("jwks_url", lambda value: _https(value, "https://login.example.com/keys")),
        "users": keyed("users", _users),
        "user_claim": keyed("user_claim", _claim),
        "scopes": keyed("scopes", _scopes),
        "algorithms": keyed("algorithms", _algorithms),
        "clock_skew_seconds": keyed("clock_skew_seconds", whole_number(0, 300)),
    }
}
