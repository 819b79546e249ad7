"""The one place where a secret's value is read: into the request, just before the wire."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import assert_never

from wasmrt.capabilities import CredentialMapping, HttpCapability, LocationType
from wasmrt.core.errors import SecretError, SecretExpiredError, SecretNotFoundError
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import InvalidUrlError, ParsedUrl
from wasmrt.egress.gateway._headers import Headers, may_be_read_as, query_names
from wasmrt.egress.gateway._model import HttpFailure, SecretsView, SecretValue
from wasmrt.egress.gateway._signing import AwsKey, SignedRequest, aws_headers, hmac_headers
from wasmrt.sandbox.component.worlds import FailureKind

_FIELD_VALUE = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?\Z")


@dataclass(frozen=True, slots=True, repr=False)
class Credential:
    """A secret's value and its place in a request. Has no repr: it is never to be shown."""

    mapping: CredentialMapping
    value: str

    def wire_forms(self) -> Iterator[tuple[str, str]]:
        """Yield a name and the value for every form that is sent and that a response may echo."""
        yield self.mapping.secret_name, self.value
        if self.mapping.location.type is LocationType.BASIC:
            yield f"{self.mapping.secret_name}.basic", self.basic_pair()
        if self.mapping.location.type is LocationType.AWS_SIGV4 and (key := AwsKey.read(self.value)) is not None:
            yield f"{self.mapping.secret_name}.key", key.secret
            if key.session:
                yield f"{self.mapping.secret_name}.session", key.session

    def basic_pair(self) -> str:
        """Return the credentials of a basic login. RFC 7617 2."""
        return base64.b64encode(f"{self.mapping.location.username}:{self.value}".encode()).decode()


@dataclass(frozen=True, slots=True, repr=False)
class Injected:
    """A request with its credentials in it. Has no repr: it is never to be shown."""

    url: ParsedUrl
    headers: Headers
    secret_names: tuple[str, ...]


class CredentialInjector:
    """Puts the secrets of a grant into requests to one URL.

    For each place the most specific mapping wins (longest path, then longest host, then by name), so that the same
    grant always makes the same request.
    """

    def __init__(self, http: HttpCapability, url: ParsedUrl) -> None:
        self._url = url
        self._mappings = http.credentials_for(url)
        self._placed = tuple(mapping for mapping in self._mappings if mapping.has_place(url))

    @property
    def owned_headers(self) -> tuple[str, ...]:
        """The headers that the guest may not set itself."""
        return tuple(name for mapping in self._mappings for name in mapping.location.header_names)

    @property
    def applies(self) -> bool:
        """True for a request that gets a credential, where the secret is set."""
        return bool(self._placed)

    def query_problem(self) -> str | None:
        """Return the problem of a credential's query parameter that the guest set itself, or None."""
        if self._url.query is None:
            return None
        written = query_names(self._url.query)  # servers disagree on which of two parameters counts
        for mapping in self._mappings:
            location = mapping.location
            if location.type is not LocationType.QUERY_PARAM:
                continue
            if any(may_be_read_as(name, location.name) for name in written):
                return f"the query parameter {location.name} is set from a secret and cannot be set by the tool"
        return None

    def fetch(
        self, secrets: SecretsView | None, *, renewed: Mapping[str, SecretValue] | None = None
    ) -> tuple[Credential, ...]:
        """Read every secret that the request needs; `renewed` replaces the stored values.

        Raises:
            HttpFailure: a secret is missing, expired or unreadable, or would go over plain http.
        """
        found = []
        for mapping in self._placed:
            # SECURITY: fail closed. A request without its credential would be sent as a different user or as none.
            if self._url.scheme != "https":
                rule = "would go over plain http"
                raise _refused(mapping, Reason.CREDENTIAL_INSECURE, rule, "ask for the URL over https")
            secret = (renewed or {}).get(mapping.secret_name) or _fetch(mapping, secrets)
            if secret is not None:
                found.append(Credential(mapping, secret.reveal()))
        return tuple(found)

    def place(
        self, credentials: Sequence[Credential], headers: Headers, method: str = "GET", body: bytes | None = None
    ) -> Injected:
        """Return the request with `credentials` injected, and signed if one of them signs.

        Raises:
            HttpFailure: a value holds a character that its place cannot have, or is no key.
        """
        url = self._url
        for credential in credentials:
            url, headers = _put(credential, url, headers)
        if any(credential.mapping.location.signs for credential in credentials):
            signed = SignedRequest(method.upper(), url, headers, body or b"", datetime.now(UTC))
            for credential in credentials:
                headers = (*headers, *_signature(credential, signed))
        names = dict.fromkeys(credential.mapping.secret_name for credential in credentials)
        return Injected(url, headers, tuple(names))


def _fetch(mapping: CredentialMapping, secrets: SecretsView | None) -> SecretValue | None:
    if secrets is None:
        if mapping.optional:
            return None
        hint = "give WasmRuntimeConfig a secrets store, or the transport a view of one"
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


def _signature(credential: Credential, request: SignedRequest) -> Headers:
    location = credential.mapping.location
    if location.type is LocationType.HMAC_SHA256:
        return hmac_headers(location, credential.value, request)
    if location.type is not LocationType.AWS_SIGV4:
        return ()
    key = AwsKey.read(credential.value)
    if key is None:
        raise HttpFailure(
            FailureKind.AUTH_REQUIRED,
            "credential-unusable",
            f"the secret {credential.mapping.secret_name} is not an access key of AWS",
            hint=f"set it as ID:SECRET: wasmrt secret set {credential.mapping.secret_name}",
        )
    return aws_headers(location, key, request)


def _put(credential: Credential, url: ParsedUrl, headers: Headers) -> tuple[ParsedUrl, Headers]:
    location = credential.mapping.location
    match location.type:
        case LocationType.BEARER:
            return url, (*headers, ("Authorization", f"Bearer {_field(credential)}"))
        case LocationType.BASIC:
            # RFC 7617 2: any character but a control in the password.
            if any(ord(c) < 32 or ord(c) == 127 for c in credential.value):
                raise _unusable(credential.mapping)
            return url, (*headers, ("Authorization", f"Basic {credential.basic_pair()}"))
        case LocationType.HEADER:
            return url, (*headers, (location.name, location.prefix + _field(credential)))
        case LocationType.QUERY_PARAM:
            return url.with_query_param(location.name, credential.value), headers
        case LocationType.URL_PATH:
            try:
                return url.with_placeholder(location.placeholder, credential.value), headers
            except InvalidUrlError:
                raise _unusable(credential.mapping) from None
        case LocationType.AWS_SIGV4 | LocationType.HMAC_SHA256:
            return url, headers  # the whole is signed once everything else is in it
        case _:  # pragma: no cover
            assert_never(location.type)


def _field(credential: Credential) -> str:
    # SECURITY: a line break in a secret would end the header and begin another.
    if not _FIELD_VALUE.match(credential.value):
        raise _unusable(credential.mapping)
    return credential.value


def _unusable(mapping: CredentialMapping) -> HttpFailure:
    return HttpFailure(
        FailureKind.AUTH_REQUIRED,
        "credential-unusable",
        f"the secret {mapping.secret_name} holds a character that its place in the request cannot have",
        hint=f"set it again: wasmrt secret set {mapping.secret_name}",
    )


def _refused(mapping: CredentialMapping, reason: Reason, problem: str, hint: str | None) -> HttpFailure:
    decision = Decision(
        False,
        reason,
        f"http.credentials.{mapping.name}",
        hint=hint,
        capability="http",
        subject=mapping.secret_name,
    )
    return HttpFailure(
        FailureKind.AUTH_REQUIRED, str(reason), f"the secret {mapping.secret_name} {problem}", decision=decision
    )
