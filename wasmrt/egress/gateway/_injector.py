"""Inject secrets into requests just before they are sent. Only this code reads secret values for a tool's request."""

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
    """A secret's value and its place in a request. Its repr does not show the value."""

    mapping: CredentialMapping
    value: str
    hint_to_set: str
    """An instruction for the user to set the secret."""

    def iter_wire_forms(self) -> Iterator[tuple[str, str]]:
        """Yield a name and a value for every form of the secret that must be recognised in responses."""
        yield self.mapping.secret_name, self.value
        if self.mapping.location.type is LocationType.BASIC:
            yield f"{self.mapping.secret_name}.basic", self.get_basic_pair()
        if self.mapping.location.type is LocationType.AWS_SIGV4 and (key := AwsKey.read(self.value)) is not None:
            yield f"{self.mapping.secret_name}.key", key.secret
            if key.session:
                yield f"{self.mapping.secret_name}.session", key.session

    def get_basic_pair(self) -> str:
        """Return the credentials for basic authentication (RFC 7617 2)."""
        return base64.b64encode(f"{self.mapping.location.username}:{self.value}".encode()).decode()


@dataclass(frozen=True, slots=True, repr=False)
class Injected:
    """A request with its credentials. Its repr does not show them."""

    url: ParsedUrl
    headers: Headers
    secret_names: tuple[str, ...]


class CredentialInjector:
    """Injects the secrets of a grant into requests to one URL.

    If several mappings fill the same place in a request, the most specific one is used: the one with the longest path,
    then the one with the longest host, then the first by name. So the same grant always results in the same request.
    """

    def __init__(self, http: HttpCapability, url: ParsedUrl) -> None:
        self._url = url
        self._mappings = http.list_credentials(url)
        self._placed = tuple(mapping for mapping in self._mappings if mapping.has_place(url))

    @property
    def owned_headers(self) -> tuple[str, ...]:
        """The headers that the guest must not set."""
        return tuple(name for mapping in self._mappings for name in mapping.location.header_names)

    @property
    def applies(self) -> bool:
        """True if requests to the URL get a credential, once the credential's secret is set."""
        return bool(self._placed)

    def query_problem(self) -> str | None:
        """Return a problem if the guest has set a query parameter that is the place of a credential, else None."""
        if self._url.query is None:
            return None
        written = query_names(self._url.query)  # of two parameters with the same name, some servers use the first
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
        """Read every secret that the request needs; values in `renewed` replace stored values.

        Raises:
            HttpFailure: a secret is missing, expired or unreadable, or would be sent over plain http.
        """
        found = []
        for mapping in self._placed:
            # SECURITY: fail closed. Without its credential, the request would be sent as another user or as no user.
            if self._url.scheme != "https":
                rule = "would be sent over plain http"
                raise _credential_failure(mapping, Reason.CREDENTIAL_INSECURE, rule, "request the URL over https")
            secret = (renewed or {}).get(mapping.secret_name) or _fetch(mapping, secrets)
            if secret is not None:
                hint = secrets.hint_to_set(mapping.secret_name) if secrets is not None else ""
                found.append(Credential(mapping, secret.reveal(), hint))
        return tuple(found)

    def place(
        self, credentials: Sequence[Credential], headers: Headers, method: str = "GET", body: bytes | None = None
    ) -> Injected:
        """Return the request with `credentials` injected, and with the signatures that they require.

        Raises:
            HttpFailure: a value contains a character that is invalid in its place, or is not a valid key for signing.
        """
        url = self._url
        for credential in credentials:
            url, headers = _insert(credential, url, headers)
        if any(credential.mapping.location.signs for credential in credentials):
            signed = SignedRequest(method.upper(), url, headers, body or b"", datetime.now(UTC))
            for credential in credentials:
                headers = (*headers, *_sign(credential, signed))
        names = dict.fromkeys(credential.mapping.secret_name for credential in credentials)
        return Injected(url, headers, tuple(names))


def _fetch(mapping: CredentialMapping, secrets: SecretsView | None) -> SecretValue | None:
    if secrets is None:
        if mapping.optional:
            return None
        hint = "set a secrets store in WasmRuntimeConfig, or pass a store's UserSecrets to the transport"
        raise _credential_failure(mapping, Reason.CREDENTIAL_MISSING, "cannot be read: there is no secrets store", hint)
    try:
        return secrets.get(mapping.secret_name)
    except SecretNotFoundError as error:
        if mapping.optional:
            return None
        raise _credential_failure(mapping, Reason.CREDENTIAL_MISSING, "is not set", error.hint) from None
    except SecretExpiredError as error:
        raise _credential_failure(mapping, Reason.CREDENTIAL_EXPIRED, "has expired", error.hint) from None
    except SecretError as error:
        raise HttpFailure(
            FailureKind.EXECUTOR, error.code, f"the secret {mapping.secret_name} cannot be read", hint=error.hint
        ) from error


def _sign(credential: Credential, request: SignedRequest) -> Headers:
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
            f"the secret {credential.mapping.secret_name} is not an AWS access key",
            hint=f"set it as ID:SECRET; {credential.hint_to_set}",
        )
    return aws_headers(location, key, request)


def _insert(credential: Credential, url: ParsedUrl, headers: Headers) -> tuple[ParsedUrl, Headers]:
    location = credential.mapping.location
    match location.type:
        case LocationType.BEARER:
            return url, (*headers, ("Authorization", f"Bearer {_check_header_value(credential)}"))
        case LocationType.BASIC:
            # RFC 7617 2: a password can have any character except control characters.
            if any(ord(c) < 32 or ord(c) == 127 for c in credential.value):
                raise _unusable_error(credential)
            return url, (*headers, ("Authorization", f"Basic {credential.get_basic_pair()}"))
        case LocationType.HEADER:
            return url, (*headers, (location.name, location.prefix + _check_header_value(credential)))
        case LocationType.QUERY_PARAM:
            return url.with_query_param(location.name, credential.value), headers
        case LocationType.URL_PATH:
            try:
                return url.with_placeholder(location.placeholder, credential.value), headers
            except InvalidUrlError:
                raise _unusable_error(credential) from None
        case LocationType.AWS_SIGV4 | LocationType.HMAC_SHA256:
            return url, headers  # the signature is computed last, over the complete request
        case _:  # pragma: no cover
            assert_never(location.type)


def _check_header_value(credential: Credential) -> str:
    # SECURITY: a line break in a secret would end the header and start another header.
    if not _FIELD_VALUE.match(credential.value):
        raise _unusable_error(credential)
    return credential.value


def _unusable_error(credential: Credential) -> HttpFailure:
    return HttpFailure(
        FailureKind.AUTH_REQUIRED,
        "credential-unusable",
        f"the secret {credential.mapping.secret_name} contains a character that is invalid in its place in the request",
        hint=f"set it again; {credential.hint_to_set}",
    )


def _credential_failure(mapping: CredentialMapping, reason: Reason, problem: str, hint: str | None) -> HttpFailure:
    rule = f"http.credentials.{mapping.name}"
    decision = Decision(False, reason, rule, hint=hint, capability="http", subject=mapping.secret_name)
    return HttpFailure(
        FailureKind.AUTH_REQUIRED, str(reason), f"the secret {mapping.secret_name} {problem}", decision=decision
    )
