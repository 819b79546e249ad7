"""Requests that the host itself sends through the gateway, and downloads from URLs that a model wrote."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cache
from io import BytesIO
from urllib.parse import urljoin

from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.core.errors import ConfigurationError, SourceError
from wasmrt.core.lifetime import EndEvent
from wasmrt.core.limits import KIB
from wasmrt.core.model import Decision, Reason
from wasmrt.core.setting_commands import append_command
from wasmrt.core.url import parse_url
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._model import Face, HttpFailure, HttpRequest, HttpResponse, SecretsView
from wasmrt.egress.gateway._network import NetworkConfig
from wasmrt.egress.leaks import Action, Direction, LeakDetector, LeakScanner, WatchedSecrets

OnDecision = Callable[[Decision], object]
CheckUrl = Callable[[str], object]
"""Checks the URL of each request of a download, redirects included. Raises `SourceError` to refuse it."""


@dataclass(slots=True)
class HostCall:
    """An `EgressCall` that the host makes for itself.

    The call's HTTP capability applies completely (allowlist, credentials, limits). The budgets of a guest's call do not
    apply.
    """

    tool: str
    user: str
    grant: Capabilities
    secrets: SecretsView | None
    watched: WatchedSecrets
    on_decision: OnDecision | None = None
    cancelled: EndEvent = field(default_factory=EndEvent)
    deadline: float = float("inf")

    @property
    def scanner(self) -> LeakScanner:
        """The scanner that finds the watched secrets."""
        return self.watched.scanner

    def watch(self, name: str, value: str) -> None:
        """Make `scanner` find `value` from now on, in this response and in later responses."""
        self.watched.watch(name, value)

    def charge_http_request(self) -> bool:
        """Return True without counting: only the capability's rate limit limits the number of requests."""
        return True

    def charge_http_bytes(self, *, sent: int, received: int) -> None:
        """Do nothing: the capability limits the size of each request and each response."""

    def decide(self, decision: Decision) -> Decision:
        """Report a decision to `on_decision`, with its text redacted."""
        scanner = self.scanner.partial
        decision = decision.redacted(lambda text: scanner.redact(text, direction=Direction.OUTWARD))
        if self.on_decision is not None:
            self.on_decision(decision)
        return decision


class HostClient:
    """A client of the host: an HTTP capability with a gateway, which may be shared with other clients.

    Raises:
        ConfigurationError: both a gateway and a network are given, or the network's CA file cannot be used.
    """

    def __init__(
        self,
        http: HttpCapability,
        *,
        network: NetworkConfig | None,
        gateway: EgressGateway | None,
        secrets: SecretsView | None,
        user: str,
        name: str,
        on_decision: OnDecision | None,
    ) -> None:
        if gateway is not None and network is not None:
            raise ConfigurationError(
                "gateway and network were both given, but a gateway has its own network settings",
                hint="pass either gateway or network",
            )
        self.gateway = gateway or EgressGateway(network)
        self.http = http
        self._owns_gateway = gateway is None
        self._grant = Capabilities.none().with_http(http)
        self._secrets = secrets
        self._user = user
        self._name = name
        self._on_decision = on_decision
        self._watched = WatchedSecrets(_make_detector())

    def new_call(self) -> HostCall:
        """Return a new call for one request."""
        return HostCall(self._name, self._user, self._grant, self._secrets, self._watched, self._on_decision)

    def close(self) -> None:
        """Close the gateway, unless it is shared."""
        if self._owns_gateway:
            self.gateway.close()


@cache
def _make_detector() -> LeakDetector:
    """Return the detector for the host's requests. It allows token formats in responses, but no injected secret."""
    formats = {rule.id: {Direction.INWARD: Action.WARN} for rule in LeakDetector().rules}
    return LeakDetector(overrides=formats)


@cache
def _open_detector() -> LeakDetector:
    """Return the detector for downloads of a user, which have no secrets. It allows token formats everywhere."""
    return LeakDetector(overrides={rule.id: dict.fromkeys(Direction, Action.WARN) for rule in LeakDetector().rules})


_PORT = re.compile(r"([^:\[\]]+|\[[^\[\]]+\]):(\d{1,5})")
_MAX_REDIRECTS = 3
_SECONDS = 60.0
_MIN_RESPONSE_BYTES = 64 * KIB
"""The gateway's limit for a response is never smaller. So redirects and errors with a body are recognised even if the
caller's own limit is smaller."""
_REGISTRY_HINT = "check the registry's address and your connection, or ask its operator"
_REDIRECTS = (301, 302, 303, 307, 308)


def read_host(text: str) -> EndpointPattern:
    """Return the allowlist entry for a host, with or without a port (`files.example.com:8443`).

    Raises:
        ConfigurationError: the text is not a host.
    """
    port = _PORT.fullmatch(text)
    ports = () if port is None else (int(port[2]),)
    return EndpointPattern(text if port is None else port[1], methods=("GET",), ports=ports)


def decide_download(url: str, hosts: Iterable[str], section: str) -> Decision | None:
    """Return the denial of a URL that a model wrote, or None if the URL is allowed.

    `hosts` are the hosts that the operator allowed in the configuration section `section`.
    """
    decision = Capabilities.none().with_http(_make_capability(hosts)).explain_http("GET", url)
    if decision.allowed:
        return None
    hint = f"an operator can allow its host: {append_command(f'{section}.hosts', 'HOST')}"
    if decision.reason in (Reason.EMPTY_ALLOWLIST, Reason.HOST_NOT_ALLOWED):
        rule = "the operator has not allowed models to use addresses on this host"
        return Decision(False, Reason.HOST_NOT_ALLOWED, rule, hint, "tool.source", "url")
    if decision.reason is not Reason.PORT_NOT_ALLOWED:
        hint = "no setting allows it: use a public https:// address"
    return Decision(False, decision.reason, f"the address is denied: {decision.rule}", hint, "tool.source", "url")


def download(
    gateway: EgressGateway,
    url: str,
    hosts: Iterable[str],
    *,
    name: str,
    user: str,
    max_bytes: int,
    check: CheckUrl | None = None,
) -> bytes:
    """Download the file at a URL with GET over https, without credentials. The target of every redirect is checked.

    `name` identifies the caller in rate limits.

    Raises:
        SourceError: the host is not allowed, its address is not public, or the download failed.
    """
    grant = Capabilities.none().with_http(_make_capability(hosts, max_bytes))
    # SECURITY: a model wrote the URL, so check it like a guest's request, which is searched for secrets.
    return _get(gateway, HostCall(name, user, grant, None, WatchedSecrets(LeakDetector())), url, Face.GUEST, check)


def download_for_user(
    gateway: EgressGateway,
    url: str,
    *,
    name: str,
    user: str,
    max_bytes: int,
    check: CheckUrl | None = None,
    timeout_seconds: float = _SECONDS,
) -> bytes:
    """Download the file at a URL that a user typed, with GET over https, without credentials.

    The URL's own host follows the operator's network settings. Redirects to other hosts, such as the storage of a
    release, must lead to public addresses. `timeout_seconds` applies to each request.

    Raises:
        InvalidUrlError: the URL is ambiguous or malformed.
        SourceError: an address is not public, or the download failed.
    """
    call = _make_user_call(url, ("GET",), name=name, user=user, max_bytes=max_bytes, timeout_seconds=timeout_seconds)
    return _get(gateway, call, url, Face.HOST, check)


def send_for_user(
    gateway: EgressGateway,
    origin: str,
    request: HttpRequest,
    *,
    name: str,
    user: str,
    max_bytes: int,
    on_read: Callable[[int], object] | None = None,
) -> HttpResponse:
    """Send a request to the registry at `origin`, which a user named. Redirects are not followed.

    Other hosts must be public, and only GET is allowed for them. The body has no content coding, and is read only if
    the status is 200; `on_read` gets the number of bytes read so far.

    Raises:
        SourceError: the request was denied or failed, or the body has more than `max_bytes`.
    """
    most = max(max_bytes, _MIN_RESPONSE_BYTES)
    call = _make_user_call(origin, ("GET", "HEAD"), name=name, user=user, max_bytes=most)
    is_own = parse_url(request.url).origin == origin
    try:
        if is_own and request.method in ("POST", "PUT"):
            # The user publishes the body, so it is not scanned, which takes half a second per MB of an archive.
            return gateway.send_own(
                request.method, request.url, request.headers, request.body, timeout_seconds=_SECONDS
            )
        return _read_response(gateway, call, request, max_bytes, on_read)
    except HttpFailure as failure:
        # Only hints about addresses and certificates fit: others name settings of grants, or the target of a redirect.
        fits = is_own and (failure.decision is not None or failure.code == "tls-certificate")
        hint = (failure.hint if fits else None) or _REGISTRY_HINT
        raise SourceError(f"the request failed: {failure.message}", code=failure.code, hint=hint) from None


def send_for_model(
    gateway: EgressGateway, request: HttpRequest, hosts: Iterable[str], *, name: str, user: str, max_bytes: int
) -> HttpResponse:
    """Send a GET request to a registry that a model named. Redirects are not followed.

    Only the operator's `hosts` are allowed. The body is read as in `send_for_user`.

    Raises:
        SourceError: the request was denied or failed, or the body has more than `max_bytes`.
    """
    if (denial := decide_download(request.url, hosts, "extensions")) is not None:
        raise SourceError(f"the download failed: {denial.rule}", code=str(denial.reason), hint=denial.hint)
    grant = Capabilities.none().with_http(_make_capability(hosts, max(max_bytes, _MIN_RESPONSE_BYTES)))
    # SECURITY: a model wrote the registry's name, so the request is searched for secrets. A login header is not.
    call = HostCall(name, user, grant, None, WatchedSecrets(_make_detector()))
    try:
        return _read_response(gateway, call, request, max_bytes)
    except HttpFailure as failure:
        raise SourceError(f"the download failed: {failure.message}", code=failure.code, hint=failure.hint) from None


def _read_response(
    gateway: EgressGateway,
    call: HostCall,
    request: HttpRequest,
    max_bytes: int,
    on_read: Callable[[int], object] | None = None,
) -> HttpResponse:
    body = BytesIO()
    with gateway.open(call, replace(request, identity=True), face=Face.HOST) as response:
        while response.status == 200 and (piece := response.read()):
            if body.tell() + len(piece) > max_bytes:
                message = f"the response of {parse_url(request.url).origin} has more than {max_bytes} bytes"
                raise SourceError(message, code="response-too-large", hint=_REGISTRY_HINT)
            body.write(piece)
            if on_read is not None:
                on_read(body.tell())
        return HttpResponse(response.status, response.headers, body.getvalue())


def _make_user_call(
    origin: str, methods: tuple[str, ...], *, name: str, user: str, max_bytes: int, timeout_seconds: float = _SECONDS
) -> HostCall:
    """Create a call that allows requests to the host and port of `origin`, and GET requests to public hosts."""
    parsed = parse_url(origin)
    own = EndpointPattern(parsed.host, methods=methods, ports=(parsed.port,))
    public = EndpointPattern.any_public_host().with_methods("GET")
    http = HttpCapability(
        allowlist=(own, public),
        max_response_bytes=max_bytes,
        timeout_seconds=timeout_seconds,
    )
    # The user's requests contain no secrets of tools, and addresses of storage hosts contain signatures, so token
    # formats are allowed.
    return HostCall(name, user, Capabilities.none().with_http(http), None, WatchedSecrets(_open_detector()))


def _get(gateway: EgressGateway, call: HostCall, url: str, face: Face, check: CheckUrl | None) -> bytes:
    for _ in range(_MAX_REDIRECTS + 1):
        if check is not None:
            check(url)
        try:
            with gateway.open(call, HttpRequest("GET", url), face=face) as response:
                status, headers = response.status, dict(response.headers)
                body = response.read_all() if status == 200 else b""
        except HttpFailure as failure:
            raise SourceError(f"the download failed: {failure.message}", code=failure.code, hint=failure.hint) from None
        if status == 200:
            return body
        location = headers.get("location") or headers.get("Location")
        if status not in _REDIRECTS or not location:
            raise SourceError(f"the download failed: the server returned status {status}", hint="check the address")
        url = urljoin(url, location)
    raise SourceError(f"the download failed: more than {_MAX_REDIRECTS} redirects", hint="use the final address")


def _make_capability(hosts: Iterable[str], max_bytes: int = 1) -> HttpCapability:
    allowed = tuple(map(read_host, hosts))
    return HttpCapability(allowlist=allowed, max_response_bytes=max_bytes, timeout_seconds=_SECONDS)
