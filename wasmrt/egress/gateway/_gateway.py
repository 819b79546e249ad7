"""The egress gateway: `EgressGateway.open` performs the checks of a request in order; each one may deny it."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from types import TracebackType

from wasmrt.core.errors import ExternalServiceError, RateLimitedError
from wasmrt.core.limits import MAX_HTTP_REQUESTS, MAX_OWN_RESPONSE_BYTES
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import InvalidUrlError, Network, ParsedUrl, parse_url
from wasmrt.egress.gateway._exchange import ExchangeBudget, Transport, Wait, WireRequest, WireResponse
from wasmrt.egress.gateway._headers import Headers, wire_headers
from wasmrt.egress.gateway._injector import Injected
from wasmrt.egress.gateway._model import EgressCall, Face, HttpFailure, HttpRequest, HttpResponse
from wasmrt.egress.gateway._network import NetworkConfig, ResolverForUsers, SystemResolver, checked_addresses
from wasmrt.egress.gateway._response import Response
from wasmrt.egress.gateway._steps import (
    PlannedRequest,
    check_allowlist,
    check_headers,
    check_parameters,
    create_budget,
    deny,
    inject_credentials,
    parse_request_url,
    record_refusal,
    renew_credentials,
    scan_request,
)
from wasmrt.egress.gateway._unscanned import find_content_type, read_unscanned_responses
from wasmrt.egress.rates import RateLimiter
from wasmrt.sandbox.component.worlds import FailureKind


class EgressGateway:
    """Guarded HTTP for a runtime, shared by all its calls and threads; `close` it after the last call.

    Raises:
        ConfigurationError: the CA file cannot be used.
    """

    def __init__(self, config: NetworkConfig | None = None, *, rates: RateLimiter | None = None) -> None:
        config = config or NetworkConfig()
        self.networks = config.networks
        """Internal networks to which the operator allows requests."""
        self._resolver = config.resolver or SystemResolver()
        # `isinstance` with a protocol is slow.
        self._resolver_for_users = self._resolver if isinstance(self._resolver, ResolverForUsers) else None
        self._config = config
        self._unscanned = read_unscanned_responses(config.unsafe_unscanned_responses)
        self._rates = rates or RateLimiter()
        self._lock = threading.Lock()
        self._transport: Transport | None = config.transport
        if config.ca_file is not None:
            self._open_transport()  # report an invalid file at once

    def fetch(self, call: EgressCall, request: HttpRequest) -> HttpResponse:
        """Check and send a guest's request, and return the complete response, redacted for the guest.

        Raises:
            HttpFailure: the request was denied or failed. No other error is raised.
        """
        with self.open(call, request) as response:
            return HttpResponse(response.status, response.headers, response.read_all())

    def open(self, call: EgressCall, request: HttpRequest, *, face: Face = Face.GUEST) -> Response:
        """Check and send a request, and return the response once its headers have arrived.

        Redirects are not followed: the caller must request each hop separately, and each request is checked.

        Raises:
            HttpFailure: the request was denied or failed. No other error is raised.
        """
        url = parse_request_url(call, request)
        plan = check_allowlist(call, url, request, self.networks, face)
        self._charge(plan)
        check_headers(plan)
        check_parameters(plan)
        scan_request(plan)
        budget = create_budget(plan)
        addresses = self._check_addresses(plan, budget)
        injected = inject_credentials(plan)
        response = self._send(plan, injected, addresses, budget)
        if response.status == 401:
            try:
                renewed = renew_credentials(call, injected)
                if renewed and self._may_retry(plan):
                    response.body.close()
                    injected = inject_credentials(plan, renewed)
                    response = self._send(plan, injected, addresses, budget)
            except BaseException:
                response.body.close()  # otherwise its connection would never be released
                raise
        bodyless, setting = request.method.upper() == "HEAD", self._find_exception(url, response)
        return Response(call, response, injected.secret_names, bodyless=bodyless, face=face, pass_unopened=setting)

    def close(self) -> None:
        """Close the connections; a connection in use is closed when its call releases it."""
        with self._lock:
            if self._transport is not None:
                self._transport.close()

    def __enter__(self) -> EgressGateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _open_transport(self) -> Transport:
        """Return the client. It is created on first use, so that a run without HTTP does not import h11 and ssl."""
        with self._lock:
            if self._transport is None:
                from wasmrt.egress.gateway._client import Client

                self._transport = Client(self._config)
            return self._transport

    def _find_exception(self, url: ParsedUrl, response: WireResponse) -> str | None:
        """Return the operator's setting that allows this response although it cannot be scanned, or None."""
        if url.host in self._config.unsafe_unscanned_hosts:
            return "network.unsafe_unscanned_hosts"
        kind = find_content_type(response.headers)
        entry = next((entry for entry in self._unscanned if entry.matches(url, kind)), None)
        return f"network.unsafe_unscanned_responses: {entry.text}" if entry else None

    def _charge(self, plan: PlannedRequest) -> None:
        call = plan.call
        if not call.charge_http_request():
            rule = f"a call may send at most {MAX_HTTP_REQUESTS} requests"
            hint = "no setting raises this limit; request more data at a time"
            raise record_refusal(call, Reason.REQUEST_BUDGET, rule, hint, FailureKind.EXECUTOR)
        try:
            self._rates.check_and_record(call.user, call.tool, plan.http.rate_limit)
        except RateLimitedError as error:
            failure = record_refusal(call, Reason.RATE_LIMITED, error.message, error.hint, FailureKind.EXECUTOR)
            failure.retry_after_seconds = error.retry_after_seconds
            raise failure from None
        except ExternalServiceError as error:
            raise HttpFailure(FailureKind.EXECUTOR, error.code, error.message, hint=error.hint) from error

    def _may_retry(self, plan: PlannedRequest) -> bool:
        try:
            self._charge(plan)
        except HttpFailure:
            return False
        return True

    def _check_addresses(self, plan: PlannedRequest, budget: ExchangeBudget) -> tuple[str, ...]:
        budget.begin(Wait.CONNECT)
        addresses, decision = self.look_up(plan.url, plan.networks, plan.call.user, budget.wait_ends_at)
        if decision.allowed:
            return addresses
        if decision.reason is not Reason.NO_ADDRESS:
            raise deny(plan.call, plan.allowlist.with_step(decision, plan.url, plan.request.method))
        now = time.monotonic()
        if now >= plan.call.deadline:
            raise HttpFailure(FailureKind.EXECUTOR, "deadline-exceeded", "the call passed its deadline")
        budget.check_wait(now)
        raise deny(plan.call, decision, FailureKind.OPERATION_FAILED)

    def look_up(
        self, url: ParsedUrl, networks: Sequence[Network], user: str, ends_at: float
    ) -> tuple[tuple[str, ...], Decision]:
        """Resolve the host of `url` for a user, and return the allowed addresses and the decision.

        For a denial, there are no addresses. The lookup stops at `ends_at`, in seconds of `time.monotonic`.
        """
        shared = self._resolver_for_users
        resolver = self._resolver if shared is None else shared.for_user(user)
        return checked_addresses(url, networks, resolver, ends_at)

    def _send(
        self, plan: PlannedRequest, injected: Injected, addresses: tuple[str, ...], budget: ExchangeBudget
    ) -> WireResponse:
        request = plan.request
        wire = _make_wire_request(
            injected.url, request.method.upper(), injected.headers, request.body, identity=request.identity
        )
        return self._open_transport().send(wire, addresses, budget)

    def send_own(
        self, method: str, url: str, headers: Headers, body: bytes | None, *, timeout_seconds: float
    ) -> HttpResponse:
        """Send a request of the host, for example for a token. No guest writes the request or reads the response.

        Only https is allowed. The parser, the address checks and the TLS settings are those of guests' requests, and
        the response's size is limited. Nothing is scanned, because such requests contain credentials on purpose.

        Raises:
            HttpFailure: the URL is not allowed, or the request failed.
        """
        try:
            parsed = parse_url(url)
        except InvalidUrlError as error:
            raise HttpFailure(FailureKind.INPUT, error.code, error.message, hint=error.hint) from None
        if parsed.scheme != "https":
            raise HttpFailure(FailureKind.INPUT, "insecure-scheme", "credentials are sent over https only")
        budget = ExchangeBudget(parsed.origin, seconds=timeout_seconds, max_response_bytes=MAX_OWN_RESPONSE_BYTES)
        addresses, decision = checked_addresses(parsed, self.networks, self._resolver, budget.ends_at)
        if not decision.allowed:
            raise HttpFailure(FailureKind.NETWORK_DENIED, str(decision.reason), decision.rule, decision=decision)
        response = self._open_transport().send(_make_wire_request(parsed, method, headers, body), addresses, budget)
        try:
            whole = b"".join(response.body)
        finally:
            response.body.close()
        return HttpResponse(
            response.status,
            tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in response.headers),
            whole,
        )


def _make_wire_request(
    url: ParsedUrl, method: str, headers: Headers, body: bytes | None, *, identity: bool = False
) -> WireRequest:
    lines = wire_headers(headers, authority=url.authority, method=method, body=body, identity=identity)
    return WireRequest(method, url.scheme, url.host, url.port, url.target, lines, body, identity)
