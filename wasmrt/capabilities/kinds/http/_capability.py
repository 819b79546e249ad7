"""The capability to send HTTP requests: an allowlist, credentials for it, and limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

from wasmrt.capabilities._fields import Problems, drop_zero_fraction, join_path
from wasmrt.capabilities._phrases import format_bytes, format_seconds
from wasmrt.capabilities.kinds._capability import (
    WIDER,
    Change,
    FileWarning,
    Flow,
    ListedCapability,
    attempt,
)
from wasmrt.capabilities.kinds._limits import RATE_NAMES, RateLimitConfig
from wasmrt.capabilities.kinds.http._allowlist import (
    ALLOWLIST,
    AllowlistValidator,
    check_addresses,
    check_host,
    describe_request,
    describe_unread,
    suggest_entry,
)
from wasmrt.capabilities.kinds.http._reach import describe_meanings, iter_reach
from wasmrt.capabilities.kinds.http._revoke import remove_requests
from wasmrt.capabilities.kinds.http._section import (
    HTTP,
    MAX_HTTP_TIMEOUT_SECONDS,
    build_credential,
    build_endpoint,
    read_endpoint,
)
from wasmrt.capabilities.kinds.http._sentences import (
    credential_warnings,
    endpoint_warnings,
    format_credential,
    format_endpoint,
    format_host,
    http_sentences,
)
from wasmrt.capabilities.model import (
    ANY_HOST,
    READ_METHODS,
    CredentialMapping,
    EndpointPattern,
    check_numbers,
    credential_within,
    endpoint_within,
    exposed_credential,
    intersect_credentials,
    intersect_endpoints,
    matching_credentials,
    remove_covered,
    set_checked_tuple,
    usual_ports,
    with_ports,
)
from wasmrt.capabilities.services import Service
from wasmrt.core.effects import Effect
from wasmrt.core.errors import ConfigurationError
from wasmrt.core.limits import (
    DEFAULT_HTTP_TIMEOUT_SECONDS,
    DEFAULT_MAX_REQUEST_BYTES,
    DEFAULT_MAX_RESPONSE_BYTES,
    MAX_CAPABILITY_ENTRIES,
)
from wasmrt.core.model import Addition, Decision, Reason
from wasmrt.core.url import InvalidUrlError, Network, ParsedUrl, parse_networks, parse_url

_MAX_CREDENTIAL_PLACES = 4 * MAX_CAPABILITY_ENTRIES


@dataclass(frozen=True, slots=True)
class HttpCapability(ListedCapability[EndpointPattern]):
    """The requests that may be sent, their credentials, and their limits.

    Examples:
        >>> from wasmrt import Capabilities, EndpointPattern, HttpCapability
        >>> http = HttpCapability(allowlist=(EndpointPattern.host("api.example.com"),), timeout_seconds=5.0)
        >>> Capabilities.none().with_http(http).http.timeout_seconds
        5.0
    """

    allowlist: tuple[EndpointPattern, ...] = ()
    credentials: tuple[CredentialMapping, ...] = ()
    """The constructor also accepts a mapping of names to credentials. Credentials without ports get default ports."""
    rate_limit: RateLimitConfig = field(default_factory=RateLimitConfig)
    max_request_bytes: int = DEFAULT_MAX_REQUEST_BYTES
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    timeout_seconds: float = DEFAULT_HTTP_TIMEOUT_SECONDS

    section: ClassVar = "http"
    attribute: ClassVar = "http"
    grant_list: ClassVar = ALLOWLIST
    number_names: ClassVar = RATE_NAMES | {
        "max_request_bytes": "a request's size",
        "max_response_bytes": "a response's size",
        "timeout_seconds": "time",
    }
    amendments: ClassVar = ("http", "credentials")
    example: ClassVar = {"host": "...", "methods": ["GET"]}
    use: ClassVar = ("url", "a request to this URL")
    act: ClassVar = ("send", "anything over the network")
    imports: ClassVar = ("wasmrt:tool/http", "wasi:http/outgoing-handler", "near:agent/host#http-request")
    file_section: ClassVar = HTTP

    def __post_init__(self) -> None:
        if isinstance(self.credentials, Mapping):
            if not all(isinstance(mapping, CredentialMapping) for mapping in self.credentials.values()):
                raise ConfigurationError("credentials must contain only CredentialMapping values")
            named = tuple(replace(mapping, name=name) for name, mapping in self.credentials.items())
            object.__setattr__(self, "credentials", named)
        set_checked_tuple(self, "allowlist", EndpointPattern)
        set_checked_tuple(self, "credentials", CredentialMapping)
        check_numbers(self, "max_request_bytes", "max_response_bytes")
        check_numbers(self, "timeout_seconds", maximum=MAX_HTTP_TIMEOUT_SECONDS)
        places = sum(len(mapping.host_patterns) + len(mapping.path_patterns) for mapping in self.credentials)
        if places > _MAX_CREDENTIAL_PLACES:
            raise ConfigurationError(f"the credentials have more than {_MAX_CREDENTIAL_PLACES} hosts and paths")
        if self.credentials and any(entry.host_pattern == ANY_HOST for entry in self.allowlist):
            # SECURITY: with both, an untrusted page could make the tool send private responses to any host.
            raise ConfigurationError(
                '"any_public_host" cannot be combined with credentials',
                hint='list the hosts instead of "any_public_host", or remove the credentials',
            )
        names = [mapping.name for mapping in self.credentials]
        if len(set(names)) < len(names):
            raise ConfigurationError("two credentials have the same name", hint="use a different name for each")
        # SECURITY: the ports are fixed now, so that a narrower allowlist cannot move a secret to another port.
        object.__setattr__(self, "credentials", tuple(with_ports(each, self.allowlist) for each in self.credentials))

    def list_credentials(self, url: ParsedUrl) -> tuple[CredentialMapping, ...]:
        """Return the credentials that a request to `url` carries.

        If several credentials have the same location (such as the same header), only the most specific one is returned.
        """
        return matching_credentials(self.credentials, url)

    @classmethod
    def build(cls, tree: Any, outer: Self | None, place: str, problems: Problems) -> Self | None:
        before = len(problems)
        at = join_path(place, "allowlist")
        entries = [
            attempt(join_path(at, index), problems, partial(build_endpoint, entry))
            for index, entry in enumerate(tree.get("allowlist", ()))
        ]
        at = join_path(place, "credentials")
        credentials = [
            attempt(join_path(at, name), problems, partial(build_credential, name, item))
            for name, item in tree.get("credentials", {}).items()
        ]
        if len(problems) > before:
            return None
        usual = cls() if outer is None else outer
        allowlist = tuple(entry for entry in entries if entry is not None)
        known = tuple(mapping for mapping in credentials if mapping is not None)
        if outer is not None:  # the component's allowlist determines the usual ports
            known = tuple(with_ports(mapping, outer.allowlist) for mapping in known)
        rate = replace(usual.rate_limit, **tree.get("rate_limit", {}))
        numbers = {name: tree.get(name, value) for name, value in usual._request_limits().items()}
        return attempt(place, problems, lambda: cls(allowlist, known, rate, **numbers))

    def as_json(self, outer: Self | None) -> Any:
        tree: dict[str, Any] = {"allowlist": [entry.as_dict() for entry in self.allowlist]}
        theirs, allowlist = ((), self.allowlist) if outer is None else (outer.credentials, outer.allowlist)
        credentials = {mapping.name: mapping.as_dict() for mapping in self.credentials if mapping not in theirs}
        for each in credentials.values():
            if each["ports"] == list(usual_ports(each["host_patterns"], allowlist)):
                del each["ports"]
        usual = outer or HttpCapability()
        own, most = self._request_limits(), usual._request_limits()
        return (
            tree
            | ({"credentials": credentials} if credentials else {})
            | self.rate_limit.as_json(usual.rate_limit)
            | {name: drop_zero_fraction(number) for name, number in own.items() if number != most[name]}
        )

    def with_known_credentials(self, names: Iterable[str], component: Self) -> Self:
        """Append those credentials of the component whose names are in `names`."""
        mine = {mapping.name for mapping in self.credentials}
        known = {mapping.name: mapping for mapping in component.credentials}
        more = tuple(known[name] for name in dict.fromkeys(names) if name in known and name not in mine)
        return replace(self, credentials=(*self.credentials, *more))

    @property
    def entries(self) -> tuple[EndpointPattern, ...]:
        return self.allowlist

    def with_entries(self, entries: Iterable[EndpointPattern]) -> Self:
        return replace(self, allowlist=tuple(entries))

    @staticmethod
    def within(inner: EndpointPattern, outer: EndpointPattern) -> bool:
        return endpoint_within(inner, outer)

    def _request_limits(self) -> dict[str, float]:
        return {
            "max_request_bytes": self.max_request_bytes,
            "max_response_bytes": self.max_response_bytes,
            "timeout_seconds": self.timeout_seconds,
        }

    def numbers(self) -> dict[str, float]:
        return self.rate_limit.numbers() | self._request_limits()

    def beyond(self, outer: Self | None) -> Iterator[tuple[str, str]]:
        yield from ListedCapability.beyond(self, outer)
        known = () if outer is None else outer.credentials
        for mapping in self.credentials:
            if not any(credential_within(mapping, other) for other in known):
                yield join_path("http.credentials", mapping.name), WIDER

    def intersect(self, other: Self) -> Self:
        allowlist: Sequence[EndpointPattern] = self.allowlist
        if self.allowlist != other.allowlist:
            pairs = product(self.allowlist, other.allowlist)
            allowlist = remove_covered(
                (entry for a, b in pairs for entry in intersect_endpoints(a, b)), endpoint_within
            )
        return type(self)(
            tuple(allowlist),
            intersect_credentials(self.credentials, other.credentials),
            self.rate_limit.intersect(other.rate_limit),
            max_request_bytes=min(self.max_request_bytes, other.max_request_bytes),
            max_response_bytes=min(self.max_response_bytes, other.max_response_bytes),
            timeout_seconds=min(self.timeout_seconds, other.timeout_seconds),
        )

    def replace_entries(self, other: Self) -> Self:
        return replace(self, allowlist=other.allowlist, credentials=())

    def unite(self, other: Self) -> Self:
        entries = remove_covered((*self.allowlist, *other.allowlist), endpoint_within)
        known = {mapping.name: mapping for mapping in (*other.credentials, *self.credentials)}
        return replace(self, allowlist=tuple(entries), credentials=tuple(known.values()))

    @classmethod
    def condense(cls, parts: Sequence[Self]) -> Self:
        """Return the capability with one entry for all entries that differ only in their methods."""
        methods: dict[EndpointPattern, list[str]] = {}
        for entry in (entry for part in parts for entry in part.allowlist):
            methods.setdefault(entry.with_methods(), []).extend(entry.methods)
        entries = (place.with_methods(*used) for place, used in methods.items())
        return parts[0].with_entries(remove_covered(entries, endpoint_within))

    @classmethod
    def read_entry(cls, text: str, asked: str) -> str:
        return read_endpoint(text).as_line()

    @classmethod
    def decide(cls, granted: Self | None, use: str) -> Decision:
        return decide_http(granted, "GET", use, None, ())

    @classmethod
    def amendment_value(cls, entry: str) -> str:
        return entry

    def additions(self) -> Iterator[Addition]:
        return (Addition(self.grant_list, entry.as_line()) for entry in self.allowlist)

    def covers_value(self, name: str, value: str) -> bool:
        return name != "http" or any(endpoint_within(read_endpoint(value), entry) for entry in self.allowlist)

    def part(self, name: str, value: str | None) -> Self | None:
        if name == "credentials":
            named = tuple(m for m in self.credentials if value in (None, m.name, m.secret_name))
            return replace(self, allowlist=(), credentials=named) if named else None
        if value is None:
            return replace(self, credentials=())
        wanted = read_endpoint(value)
        entries = remove_covered(
            (e for entry in self.allowlist for e in intersect_endpoints(wanted, entry)), endpoint_within
        )
        return replace(self, allowlist=tuple(entries), credentials=()) if entries else None

    def without(self, name: str, value: str | None) -> Self | None:
        if name == "credentials":
            left = tuple(m for m in self.credentials if value not in (None, m.name, m.secret_name))
            return replace(self, credentials=left)
        if value is None:
            return None
        gone = read_endpoint(value)
        kept = remove_covered(
            (part for entry in self.allowlist for part in remove_requests(entry, gone)), endpoint_within
        )
        return self.with_entries(kept) if kept else None

    def effects(self) -> frozenset[Effect]:
        if not self.allowlist:
            return frozenset()
        found = {Effect.NETWORK}
        if not all(entry.methods and set(entry.methods) <= set(READ_METHODS) for entry in self.allowlist):
            found.add(Effect.EXTERNAL_WRITE)
        return frozenset(found | ({Effect.USE_SECRET} if self.credentials else set()))

    def within_effects(self, effects: frozenset[Effect]) -> Self | None:
        # SECURITY: a write is a request, too, so without the network effect no request is allowed.
        if Effect.NETWORK not in effects:
            return None
        http = self if Effect.USE_SECRET in effects else replace(self, credentials=())
        return http if Effect.EXTERNAL_WRITE in effects else http.with_entries(http._iter_reading_entries())

    def _iter_reading_entries(self) -> Iterator[EndpointPattern]:
        for entry in self.allowlist:
            methods = tuple(method for method in READ_METHODS if not entry.methods or method in entry.methods)
            if methods:
                yield replace(entry, methods=methods)

    def describe(self, entry: EndpointPattern) -> str:
        return f"may {format_endpoint(entry)}"

    def sentences(self, services: Sequence[Service], networks: Sequence[Network]) -> Iterator[str]:
        found = list(iter_reach(self.allowlist, self.credentials, networks))
        yield from describe_meanings([reach for reach in found if not reach.refused], services)
        bounds = (
            f"{self.rate_limit.describe()}, each with at most {format_bytes(self.max_request_bytes)} out, "
            f"{format_bytes(self.max_response_bytes)} back and {format_seconds(self.timeout_seconds)}"
        )
        yield from http_sentences(found, self.credentials, bounds)

    def flow(self, networks: Sequence[Network]) -> Flow:
        allowed = [reach for reach in iter_reach(self.allowlist, self.credentials, networks) if not reach.refused]
        hosts = [format_host(reach.entry.host_pattern) for reach in allowed]
        private = [format_host(reach.entry.host_pattern) for reach in allowed if reach.credentials]
        return Flow(private=tuple(dict.fromkeys(private)), out=tuple(dict.fromkeys(hosts)))

    def added_settings(self, before: Self | None) -> Iterator[Change]:
        known = () if before is None else before.credentials
        for mapping in self.credentials:
            if not any(credential_within(mapping, other) for other in known):
                yield Change("http.credentials", f"sends requests {format_credential(mapping)}")

    def warnings(self) -> Iterator[FileWarning]:
        yield from endpoint_warnings(self.allowlist)
        yield from credential_warnings(self.credentials, self.allowlist)


def decide_http(
    granted: HttpCapability | None,
    method: str,
    url: str,
    resolves_to: Iterable[str] | None,
    unsafe_allowed_networks: Iterable[Network | str],
) -> Decision:
    """Decide about a request by the URL and, if `resolves_to` is given, also by these addresses of the host."""
    networks = parse_networks(unsafe_allowed_networks)
    try:
        parsed = parse_url(url)
    except InvalidUrlError as problem:
        shown = describe_unread(url, method)
        return Decision(False, Reason.INVALID_URL, problem.message, problem.hint, "http", shown)
    subject = describe_request(parsed, method)
    if granted is None:
        suggestion = suggest_entry(parsed, method, networks, new_section=True)
        return Decision(False, Reason.NOT_GRANTED, "no http section", suggestion, "http", subject)
    allowlist = AllowlistValidator(granted.allowlist, networks, granted.credentials)
    decision = allowlist.check(parsed, method)
    if not decision.allowed:
        return decision
    networks = tuple(allowlist.get_networks(parsed, method))
    refused = check_host(parsed, networks)
    if refused is None and resolves_to is not None:
        answers = check_addresses(resolves_to, networks, subject)
        refused = None if answers.allowed else answers
    if refused is not None:
        return allowlist.with_step(refused, parsed, method)
    exposed = exposed_credential(granted.credentials, parsed)
    if exposed is not None:  # the injector refuses it after the address check
        rule = f"http.credentials.{exposed.name}: credentials are only sent over https"
        hint = "request the URL over https"
        return Decision(False, Reason.CREDENTIAL_INSECURE, rule, hint, "http", subject)
    return decision
