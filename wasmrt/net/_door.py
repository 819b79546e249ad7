"""The guarded way out. `HttpDoor.fetch` is the order of the checks; each step may refuse."""

from __future__ import annotations

import threading
import time
from contextlib import closing
from types import TracebackType

from wasmrt.capabilities import (
    AllowlistValidator,
    HttpCapability,
    InvalidUrlError,
    ParsedUrl,
    parse_url,
)
from wasmrt.errors import ExternalServiceError, RateLimitedError
from wasmrt.leaks import Direction
from wasmrt.limits import MAX_HTTP_REQUESTS, MAX_OWN_RESPONSE_BYTES
from wasmrt.model import Decision, Reason
from wasmrt.net._answer import Answer
from wasmrt.net._exchange import Exchange
from wasmrt.net._headers import Headers, header_bytes, partial_header, request_problem, wire_headers
from wasmrt.net._incoming import Account, Incoming
from wasmrt.net._injector import CredentialInjector, Injected
from wasmrt.net._judging import judged_addresses
from wasmrt.net._model import (
    DoorCall,
    FailureKind,
    HttpFailure,
    HttpRequest,
    HttpResponse,
    NetworkConfig,
    SecretValue,
)
from wasmrt.net._parameters import overridden_method
from wasmrt.net._rates import RateLimiter
from wasmrt.net._resolver import SystemResolver
from wasmrt.net._wire import Transport, WireRequest, wire_budget

_SHORT_CHARS = 16


class HttpDoor:
    """One for a runtime, shared by all its calls and threads; `close` it when no call is left.

    Raises:
        ConfigurationError: the CA file cannot be used.
    """

    def __init__(self, config: NetworkConfig | None = None, *, rates: RateLimiter | None = None) -> None:
        config = config or NetworkConfig()
        self._networks = config.networks
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
        url = _parse(call, request)
        http = _allow(call, url, request)
        self._charge(call, http)
        injector = CredentialInjector(http)
        _check_headers(call, http, injector, url, request)
        _check_parameters(call, http, url, request)
        _scan(call, url, request)
        ends_at = _ends_at(call, http, request)
        addresses = self._judge(call, url, ends_at)
        injected = _inject(call, injector, url, request)
        incoming = self._exchange(call, http, request, injected, addresses, ends_at)
        if incoming.status == 401 and (renewed := _renew(call, injected)) and self._may_retry(call, http):
            incoming.close()
            injected = _inject(call, injector, url, request, renewed)
            incoming = self._exchange(call, http, request, injected, addresses, ends_at)
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
                from wasmrt.net._client import Client

                self._client = Client(self._config)
            return self._client

    def _charge(self, call: DoorCall, http: HttpCapability) -> None:
        if not call.charge_http_request():
            rule = f"a call may send {MAX_HTTP_REQUESTS} requests"
            raise _refuse(call, Reason.REQUEST_BUDGET, rule, "ask for more in one request", FailureKind.EXECUTOR)
        try:
            self._rates.check_and_record(call.user, call.tool, http.rate_limit)
        except RateLimitedError as error:
            failure = _refuse(call, Reason.RATE_LIMITED, error.message, error.hint, FailureKind.EXECUTOR)
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
        addresses, decision = judged_addresses(url, self._networks, self._resolver, ends_at)
        if decision.allowed:
            return addresses
        if decision.reason is not Reason.NO_ADDRESS:
            raise _denied(call, decision)
        if time.monotonic() >= call.deadline:
            raise HttpFailure(FailureKind.EXECUTOR, "deadline-exceeded", "the call's time is over")
        raise _denied(call, decision, FailureKind.OPERATION_FAILED)

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
        addresses, decision = judged_addresses(parsed, self._networks, self._resolver, ends_at)
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
            ends_at=ends_at,
            call_deadline=ends_at,
            max_received_bytes=wire_budget(MAX_OWN_RESPONSE_BYTES),
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
        http: HttpCapability,
        request: HttpRequest,
        injected: Injected,
        addresses: tuple[str, ...],
        ends_at: float,
    ) -> Incoming:
        url, method = injected.url, request.method.upper()
        headers = wire_headers(injected.headers, authority=url.authority, method=method, body=request.body)
        wire = WireRequest(method, url.scheme, url.host, url.port, url.target, headers, request.body)
        exchange = Exchange(
            ends_at=ends_at,
            call_deadline=call.deadline,
            max_received_bytes=wire_budget(http.max_response_bytes),
            cancelled=call.cancelled,
        )
        account = Account(call, exchange, url.origin, http.max_response_bytes)
        try:
            return Incoming(account, self._opened().send(wire, addresses, exchange, http.max_response_bytes))
        except HttpFailure as failure:
            account.note(failure)
            raise
        finally:
            account.charge()


def _parse(call: DoorCall, request: HttpRequest) -> ParsedUrl:
    try:
        return parse_url(request.url)
    except InvalidUrlError as error:
        raise _refuse(call, Reason.INVALID_URL, error.message, error.hint) from None


def _allow(call: DoorCall, url: ParsedUrl, request: HttpRequest) -> HttpCapability:
    """Ask the allowlist about the parsed URL: the very value that is sent later."""
    http = call.grant.http
    if http is None:
        raise _denied(call, call.grant.explain_http(request.method, request.url))
    decision = AllowlistValidator(http.allowlist).check(url, request.method)
    if not decision.allowed:
        raise _denied(call, decision)
    call.decide(decision._replace(subject=call.scanner.redact(decision.subject)))
    return http


def _check_headers(
    call: DoorCall, http: HttpCapability, injector: CredentialInjector, url: ParsedUrl, request: HttpRequest
) -> None:
    body_bytes = len(request.body or b"")
    problem = request_problem(request.headers, body_bytes, injector.owned_headers(url)) or injector.query_problem(url)
    if problem is not None:
        raise _refuse(call, Reason.HEADER_NOT_ALLOWED, problem, "leave it out; the host adds what is needed")
    # SECURITY: a server that echoes would hand a credential out in parts, each too short to be recognised.
    if (name := partial_header(request.headers)) is not None and injector.applies_to(url):
        rule = f"{name} asks for a part of an answer, and a request with a credential gets the whole or nothing"
        raise _refuse(call, Reason.HEADER_NOT_ALLOWED, rule, "leave it out and ask for the whole")
    size = len(request.url) + header_bytes(request.headers) + body_bytes
    if size > http.max_request_bytes:
        rule = f"the request has {size} bytes and http.max_request_bytes is {http.max_request_bytes}"
        raise _refuse(call, Reason.REQUEST_TOO_LARGE, rule, "send less, or raise it", FailureKind.INPUT)


def _check_parameters(call: DoorCall, http: HttpCapability, url: ParsedUrl, request: HttpRequest) -> None:
    validator = AllowlistValidator(http.allowlist)
    denial = overridden_method(validator, url, request.method, request.headers, request.body)
    if denial is not None:
        rule = "the parameter _method may stand for a method that http.allowlist does not cover here"
        raise _denied(call, denial._replace(rule=rule))


def _scan(call: DoorCall, url: ParsedUrl, request: HttpRequest) -> None:
    """Search what the guest wrote. It comes before injection, or the tool's own credential would be a find."""
    report = call.scanner.scan_http_request(request.url, request.headers, request.body, direction=Direction.OUTWARD)
    if report.should_block:
        found = next(match for match in report.matches if str(match.action) == "block")
        rule = f"{found.rule} in the request's {found.where.partition(':')[0]}"
        decision = Decision(
            False,
            Reason.LEAK,
            rule,
            "a tool gets its credentials from http.credentials and never handles them",
            "http",
            f"{request.method} {url.origin}",
        )
        call.decide(decision)
        raise HttpFailure(FailureKind.NETWORK_DENIED, "leak", f"the request holds a secret: {rule}", decision=decision)


def _ends_at(call: DoorCall, http: HttpCapability, request: HttpRequest) -> float:
    timeout = http.timeout_seconds
    if request.timeout_seconds is not None:
        timeout = min(timeout, max(0.0, request.timeout_seconds))
    return min(call.deadline, time.monotonic() + timeout)


def _inject(
    call: DoorCall,
    injector: CredentialInjector,
    url: ParsedUrl,
    request: HttpRequest,
    renewed: dict[str, SecretValue] | None = None,
) -> Injected:
    def watch(name: str, value: str) -> None:
        call.prime(name, value)
        # SECURITY: a value too short to be told from a word would come back unrecognised, so it does not leave.
        if len(value) < _SHORT_CHARS and not call.scanner.scan(value):
            raise HttpFailure(
                FailureKind.AUTH_REQUIRED,
                "credential-unusable",
                f"the secret {name} is too short to be recognised in an answer",
                hint=f"set a longer one: wasmrt secret set {name}",
            )

    try:
        return injector.inject(url, request.headers, call.secrets, watch, renewed=renewed)
    except HttpFailure as failure:
        if failure.decision is not None:
            call.decide(failure.decision)
        raise


def _renew(call: DoorCall, injected: Injected) -> dict[str, SecretValue]:
    """Ask for newer values of the credentials that the server has just refused."""
    if call.secrets is None:
        return {}
    newer = {name: call.secrets.renewed(name) for name in injected.secret_names}
    return {name: secret for name, secret in newer.items() if secret is not None}


def _refuse(
    call: DoorCall, reason: Reason, rule: str, hint: str | None, kind: FailureKind = FailureKind.NETWORK_DENIED
) -> HttpFailure:
    return _denied(call, Decision(False, reason, rule, hint=hint, capability="http"), kind)


def _denied(call: DoorCall, decision: Decision, kind: FailureKind = FailureKind.NETWORK_DENIED) -> HttpFailure:
    """Record a refusal and make the failure that tells it."""
    # SECURITY: rule, hint and subject may quote the guest's URL, and a URL may hold a secret.
    clean = call.scanner.redact
    decision = decision._replace(
        rule=clean(decision.rule),
        hint=None if decision.hint is None else clean(decision.hint),
        subject=clean(decision.subject),
    )
    call.decide(decision)
    return HttpFailure(kind, str(decision.reason), decision.rule, decision=decision)
