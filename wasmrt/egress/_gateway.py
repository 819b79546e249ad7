"""The guarded way out. `HttpDoor.open` is the order of the checks; each step may refuse."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from types import TracebackType

from wasmrt.capabilities import HttpCapability
from wasmrt.egress._addresses import judged_addresses
from wasmrt.egress._answer import Answer
from wasmrt.egress._exchange import Bounds, Exchange
from wasmrt.egress._headers import Headers, wire_headers
from wasmrt.egress._incoming import Account, Incoming
from wasmrt.egress._injector import CredentialInjector, Injected
from wasmrt.egress._model import DoorCall, FailureKind, HttpFailure, HttpRequest, HttpResponse, NetworkConfig
from wasmrt.egress._resolver import SystemResolver
from wasmrt.egress._steps import (
    allow,
    bounds_of,
    check_headers,
    check_parameters,
    denied,
    inject,
    parse,
    refuse,
    renew,
    scan,
)
from wasmrt.egress._wire import Transport, WireRequest
from wasmrt.errors import ExternalServiceError, RateLimitedError
from wasmrt.limits import MAX_HTTP_REQUESTS, MAX_OWN_RESPONSE_BYTES
from wasmrt.model import Reason
from wasmrt.rates import RateLimiter
from wasmrt.url import InvalidUrlError, ParsedUrl, parse_url


class HttpDoor:
    """One for a runtime, shared by all its calls and threads; `close` it when no call is left.

    Raises:
        ConfigurationError: the CA file cannot be used.
    """

    def __init__(self, config: NetworkConfig | None = None, *, rates: RateLimiter | None = None) -> None:
        config = config or NetworkConfig()
        self.networks = config.networks
        """Those that the operator exempts."""
        self._resolver = config.resolver or SystemResolver()
        self._config = config
        self._rates = rates or RateLimiter()
        self._lock = threading.Lock()
        self._client: Transport | None = config.transport
        if config.ca_file is not None:
            self._opened()  # a wrong file is the operator's mistake, told at once

    def fetch(self, call: DoorCall, request: HttpRequest) -> HttpResponse:
        """Send a guest's request through every check and return what the guest may see of the whole answer.

        Raises:
            HttpFailure: why there is no response; nothing else.
        """
        with self.open(call, request) as answer:
            return answer.whole()

    def open(self, call: DoorCall, request: HttpRequest) -> Answer:
        """Send a guest's request through every check and return the answer as soon as its head is here.

        A redirect is an answer like any other: no hop is ever taken without passing here again.

        Raises:
            HttpFailure: why there is no response; nothing else.
        """
        url = parse(call, request)
        http = allow(call, url, request, self.networks)
        self._charge(call, http)
        injector = CredentialInjector(http)
        check_headers(call, http, injector, url, request)
        check_parameters(call, http, url, request, self.networks)
        scan(call, url, request)
        bounds = bounds_of(call, http, request)
        addresses = self._judge(call, url, bounds.ends_at)
        injected = inject(call, injector, url, request)
        incoming = self._exchange(call, bounds, request, injected, addresses)
        if incoming.status == 401 and (renewed := renew(call, injected)) and self._may_retry(call, http):
            incoming.close()
            injected = inject(call, injector, url, request, renewed)
            incoming = self._exchange(call, bounds, request, injected, addresses)
        return Answer(call, incoming, injected.secret_names, bodyless=request.method.upper() == "HEAD")

    def close(self) -> None:
        """Close the connections. Those in use are closed when their call gives them back."""
        with self._lock:
            if self._client is not None:
                self._client.close()

    def __enter__(self) -> HttpDoor:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _opened(self) -> Transport:
        """Return the client, made at its first use: a run without HTTP does not import h11 and ssl."""
        with self._lock:
            if self._client is None:
                from wasmrt.egress._client import Client

                self._client = Client(self._config)
            return self._client

    def _charge(self, call: DoorCall, http: HttpCapability) -> None:
        if not call.charge_http_request():
            rule = f"a call may send {MAX_HTTP_REQUESTS} requests"
            raise refuse(call, Reason.REQUEST_BUDGET, rule, "ask for more in one request", FailureKind.EXECUTOR)
        try:
            self._rates.check_and_record(call.user, call.tool, http.rate_limit)
        except RateLimitedError as error:
            failure = refuse(call, Reason.RATE_LIMITED, error.message, error.hint, FailureKind.EXECUTOR)
            failure.retry_after_seconds = error.retry_after_seconds
            raise failure from None
        except ExternalServiceError as error:
            raise HttpFailure(FailureKind.EXECUTOR, error.code, error.message, hint=error.hint) from error

    def _may_retry(self, call: DoorCall, http: HttpCapability) -> bool:
        try:
            self._charge(call, http)
        except HttpFailure:
            return False
        return True

    def _judge(self, call: DoorCall, url: ParsedUrl, ends_at: float) -> tuple[str, ...]:
        addresses, decision = judged_addresses(url, self.networks, self._resolver, ends_at)
        if decision.allowed:
            return addresses
        if decision.reason is not Reason.NO_ADDRESS:
            raise denied(call, decision)
        if time.monotonic() >= call.deadline:
            raise HttpFailure(FailureKind.EXECUTOR, "deadline-exceeded", "the call's time is over")
        raise denied(call, decision, FailureKind.OPERATION_FAILED)

    def send_own(
        self, method: str, url: str, headers: Headers, body: bytes | None, *, timeout_seconds: float
    ) -> HttpResponse:
        """Send a request of the host's own, such as for a token: no guest wrote it and none sees the answer.

        The same parser, addresses, TLS and bounds apply; https only. Nothing is scanned, because credentials are
        what such requests are about.

        Raises:
            HttpFailure: why there is no answer.
        """
        try:
            parsed = parse_url(url)
        except InvalidUrlError as error:
            raise HttpFailure(FailureKind.INPUT, error.code, error.message, hint=error.hint) from None
        if parsed.scheme != "https":
            raise HttpFailure(FailureKind.INPUT, "insecure-scheme", "a credential travels over https only")
        ends_at = time.monotonic() + timeout_seconds
        addresses, decision = judged_addresses(parsed, self.networks, self._resolver, ends_at)
        if not decision.allowed:
            raise HttpFailure(FailureKind.NETWORK_DENIED, str(decision.reason), decision.rule, decision=decision)
        wire = WireRequest(
            method,
            parsed.scheme,
            parsed.host,
            parsed.port,
            parsed.target,
            wire_headers(headers, authority=parsed.authority, method=method, body=body),
            body,
        )
        exchange = Exchange(
            Bounds(ends_at, timeout_seconds, MAX_OWN_RESPONSE_BYTES),
            origin=parsed.origin,
            redact=str,  # an operator's URL, and its origin holds no secret
            call_deadline=float("inf"),
            cancelled=threading.Event(),
        )
        raw = self._opened().send(wire, addresses, exchange, MAX_OWN_RESPONSE_BYTES)
        with closing(raw.body) as pieces:
            whole = b"".join(pieces)
        own = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in raw.headers)
        return HttpResponse(raw.status, own, whole)

    def _exchange(
        self,
        call: DoorCall,
        bounds: Bounds,
        request: HttpRequest,
        injected: Injected,
        addresses: tuple[str, ...],
    ) -> Incoming:
        url, method = injected.url, request.method.upper()
        headers = wire_headers(injected.headers, authority=url.authority, method=method, body=request.body)
        wire = WireRequest(method, url.scheme, url.host, url.port, url.target, headers, request.body)
        exchange = Exchange(
            bounds,
            origin=url.origin,
            redact=call.scanner.redact,
            call_deadline=call.deadline,
            cancelled=call.cancelled,
        )
        account = Account(call, exchange)
        try:
            return Incoming(account, self._opened().send(wire, addresses, exchange, bounds.max_response_bytes))
        except HttpFailure as failure:
            account.note(failure)
            raise
        finally:
            account.charge()
