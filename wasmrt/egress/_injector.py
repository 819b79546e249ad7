"""The one place where a secret's value is read: into the request, just before the wire."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from dataclasses import dataclass

from wasmrt.capabilities import CredentialMapping, HttpCapability, LocationType
from wasmrt.egress._headers import Headers
from wasmrt.egress._model import FailureKind, HttpFailure, SecretsView, SecretValue
from wasmrt.egress._parameters import may_be_read_as, query_names
from wasmrt.errors import SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.model import Decision, Reason
from wasmrt.url import InvalidUrlError, ParsedUrl

_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


@dataclass(frozen=True, slots=True, repr=False)
class Injected:
    """A request with its credentials in it. Has no repr: it is never to be shown."""

    url: ParsedUrl
    headers: Headers
    secret_names: tuple[str, ...]


class CredentialInjector:
    """Puts secrets where a grant says they belong.

    For each place the most specific mapping wins (longest path, then longest host, then by name), so that the same
    grant always makes the same request.
    """

    def __init__(self, http: HttpCapability) -> None:
        self._http = http

    def owned_headers(self, url: ParsedUrl) -> tuple[str, ...]:
        """Return the headers of a request to `url` that the guest may not set itself."""
        names = (mapping.location.header_name for mapping in self._http.credentials_for(url))
        return tuple(name for name in names if name is not None)

    def applies_to(self, url: ParsedUrl) -> bool:
        """Whether a request to `url` is one that gets a credential, where the secret is set."""
        return any(_has_place(mapping, url) for mapping in self._http.credentials_for(url))

    def query_problem(self, url: ParsedUrl) -> str | None:
        """Say which credential's query parameter the guest has set itself; None where it has set none."""
        if url.query is None:
            return None
        written = query_names(url.query)  # servers disagree on which of two parameters counts
        for mapping in self._http.credentials_for(url):
            location = mapping.location
            if location.type is not LocationType.QUERY_PARAM:
                continue
            if any(may_be_read_as(name, location.name) for name in written):
                return f"the query parameter {location.name} is set from a secret and cannot be set by the tool"
        return None

    def inject(
        self,
        url: ParsedUrl,
        headers: Headers,
        secrets: SecretsView | None,
        prime: Callable[[str, str], None],
        *,
        renewed: dict[str, SecretValue] | None = None,
    ) -> Injected:
        """Return the request with every credential that belongs to `url`.

        `prime(name, value)` is told every value before the request that holds it exists. `renewed` replaces what the
        store has.

        Raises:
            HttpFailure: a credential is missing, expired or unusable, or would go over plain http.
        """
        names = []
        for mapping in self._http.credentials_for(url):
            if not _has_place(mapping, url):
                continue
            # SECURITY: fail closed. A request without its credential would go out as somebody else's, or nobody's.
            if url.scheme != "https":
                raise _refused(
                    mapping, Reason.CREDENTIAL_INSECURE, "would go over plain http", "ask for the URL over https"
                )
            secret = (renewed or {}).get(mapping.secret_name) or _fetch(mapping, secrets)
            if secret is None:
                continue
            url, headers = _put(mapping, secret.reveal(), url, headers, prime)
            names.append(mapping.secret_name)
        return Injected(url, headers, tuple(dict.fromkeys(names)))


def _has_place(mapping: CredentialMapping, url: ParsedUrl) -> bool:
    return mapping.location.type is not LocationType.URL_PATH or f"{{{mapping.location.placeholder}}}" in url.path


def _fetch(mapping: CredentialMapping, secrets: SecretsView | None) -> SecretValue | None:
    if secrets is None:
        if mapping.optional:
            return None
        hint = "give WasmRuntimeConfig a secrets store"
        raise _refused(mapping, Reason.CREDENTIAL_MISSING, "cannot be read: this runtime holds no secrets", hint)
    try:
        return secrets.get(mapping.secret_name)
    except SecretNotFoundError as error:
        if mapping.optional:
            return None
        raise _refused(mapping, Reason.CREDENTIAL_MISSING, "is not set", error.hint) from None
    except SecretExpiredError as error:
        raise _refused(mapping, Reason.CREDENTIAL_EXPIRED, "has expired", error.hint) from None
    except SecretError as error:
        raise HttpFailure(
            FailureKind.EXECUTOR, error.code, f"the secret {mapping.secret_name} cannot be read", hint=error.hint
        ) from error


def _put(
    mapping: CredentialMapping, value: str, url: ParsedUrl, headers: Headers, prime: Callable[[str, str], None]
) -> tuple[ParsedUrl, Headers]:
    location = mapping.location
    prime(mapping.secret_name, value)
    match location.type:
        case LocationType.BEARER:
            return url, (*headers, ("Authorization", f"Bearer {_field(mapping, value)}"))
        case LocationType.BASIC:
            # RFC 7617: UTF-8, and any character but a control in the password.
            if any(ord(c) < 32 or ord(c) == 127 for c in value):
                raise _unusable(mapping)
            pair = base64.b64encode(f"{location.username}:{value}".encode()).decode()
            prime(f"{mapping.secret_name}.basic", pair)
            return url, (*headers, ("Authorization", f"Basic {pair}"))
        case LocationType.HEADER:
            return url, (*headers, (location.name, location.prefix + _field(mapping, value)))
        case LocationType.QUERY_PARAM:
            return url.with_query_param(location.name, value), headers
        case LocationType.URL_PATH:
            try:
                return url.with_placeholder(location.placeholder, value), headers
            except InvalidUrlError:
                raise _unusable(mapping) from None


def _field(mapping: CredentialMapping, value: str) -> str:
    # SECURITY: a line break in a secret would end the header and begin another.
    if not _FIELD_VALUE.match(value):
        raise _unusable(mapping)
    return value


def _unusable(mapping: CredentialMapping) -> HttpFailure:
    return HttpFailure(
        FailureKind.AUTH_REQUIRED,
        "credential-unusable",
        f"the secret {mapping.secret_name} holds a character that its place in the request cannot have",
        hint=f"set it again: wasmrt secret set {mapping.secret_name}",
    )


def _refused(mapping: CredentialMapping, reason: Reason, what: str, hint: str | None) -> HttpFailure:
    decision = Decision(
        False,
        reason,
        f"http.credentials.{mapping.name}",
        hint=hint,
        capability="http",
        subject=mapping.secret_name,
    )
    return HttpFailure(
        FailureKind.AUTH_REQUIRED, str(reason), f"the secret {mapping.secret_name} {what}", decision=decision
    )
