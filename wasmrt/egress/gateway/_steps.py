"""The steps of a request through the gateway, one function each: they pass, or refuse and record it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from wasmrt.capabilities import AllowlistValidator, HttpCapability, describe_request, describe_unread
from wasmrt.core.errors import SecretError
from wasmrt.core.model import Decision, Reason
from wasmrt.core.url import InvalidUrlError, Network, ParsedUrl, parse_url
from wasmrt.egress.gateway._exchange import ExchangeBudget
from wasmrt.egress.gateway._headers import (
    header_bytes,
    is_sensitive,
    overridden_method,
    partial_header,
    request_problem,
    without,
)
from wasmrt.egress.gateway._injector import CredentialInjector, Injected
from wasmrt.egress.gateway._model import EgressCall, Face, HttpFailure, HttpRequest, SecretValue
from wasmrt.egress.leaks import SECRET_RULE, Action, Direction, LeakMatch, LeakScanner
from wasmrt.sandbox.component.worlds import FailureKind

_SHORT_CHARS = 16


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that the allowlist covers, with the values that later steps need."""

    call: EgressCall
    request: HttpRequest
    url: ParsedUrl
    http: HttpCapability
    allowlist: AllowlistValidator
    injector: CredentialInjector
    face: Face
    networks: Sequence[Network] = ()
    """Exempted internal networks that count for this request."""


def parse(call: EgressCall, request: HttpRequest) -> ParsedUrl:
    """Parse the URL once: the value that is checked is the value that is sent."""
    try:
        return parse_url(request.url)
    except InvalidUrlError as error:
        # SECURITY: nothing could be read, so nothing is known of where a secret stands.
        subject = describe_unread(request.url, request.method, lambda text: _redact(call.scanner, text))
        raise refuse(call, Reason.INVALID_URL, error.message, error.hint, subject=subject) from None


def allow(
    call: EgressCall, url: ParsedUrl, request: HttpRequest, networks: Sequence[Network], face: Face
) -> PlannedRequest:
    """Check the parsed URL, the very value that is sent later, against the allowlist."""
    http = call.grant.http
    if http is None:
        raise denied(call, call.grant.explain_http(request.method, request.url, unsafe_allowed_networks=networks))
    allowlist = AllowlistValidator(http.allowlist, networks, http.credentials)
    decision = allowlist.check(url, request.method)
    if not decision.allowed:
        raise denied(call, decision)
    call.decide(decision.redacted(lambda text: _redact(call.scanner.partial, text)))
    injector = CredentialInjector(http, url)
    if face is Face.HOST:
        # A client library sets its login whether it has one or not; the grant's takes its place.
        request = replace(request, headers=without(request.headers, injector.owned_headers))
    exempt = allowlist.networks_for(url, request.method)
    return PlannedRequest(call, request, url, http, allowlist, injector, face, exempt)


def check_headers(plan: PlannedRequest) -> None:
    """Refuse headers that the host or the injector sets, and requests over the size limit."""
    call, request, injector = plan.call, plan.request, plan.injector
    body_bytes = len(request.body or b"")
    problem = request_problem(request.headers, body_bytes, injector.owned_headers) or injector.query_problem()
    if problem is not None:
        raise refuse(call, Reason.HEADER_NOT_ALLOWED, problem, "leave it out; the host adds what is needed")
    # SECURITY: a server that echoes would hand a credential out in parts, each too short to be recognised.
    if (name := partial_header(request.headers)) is not None and injector.applies:
        rule = f"{name} asks for a part of an answer, and a request with a credential gets the whole or nothing"
        raise refuse(call, Reason.HEADER_NOT_ALLOWED, rule, "leave it out and ask for the whole")
    size = len(request.url) + header_bytes(request.headers) + body_bytes
    if size > plan.http.max_request_bytes:
        rule = f"the request has {size} bytes, more than http.max_request_bytes"
        subject = describe_request(plan.url, request.method)
        hint = f"send less, or raise http.max_request_bytes, now {plan.http.max_request_bytes}"
        raise refuse(call, Reason.REQUEST_TOO_LARGE, rule, hint, FailureKind.INPUT, subject=subject)


def check_parameters(plan: PlannedRequest) -> None:
    """Deny a parameter that a server may read as the request's method."""
    request = plan.request
    denial = overridden_method(plan.allowlist, plan.url, request.method, request.headers, request.body)
    if denial is not None:
        rule = "the parameter _method may stand for a method that http.allowlist does not cover here"
        raise denied(plan.call, denial._replace(rule=rule))


def scan(plan: PlannedRequest) -> None:
    """Search the request for secrets. Before injection, or the tool's own credential would be found."""
    call, request = plan.call, plan.request
    report = call.scanner.scan_http_request(request.url, request.headers, request.body, direction=Direction.OUTWARD)
    blocking = (match for match in report.matches if match.action is Action.BLOCK and not _is_own_login(plan, match))
    if (found := next(blocking, None)) is not None:
        rule = f"{found.rule} in the request's {found.where.partition(':')[0]}"
        decision = Decision(
            False,
            Reason.LEAK,
            rule,
            "a tool gets its credentials from http.credentials and never handles them",
            "http",
            f"{request.method} {plan.url.origin}",
        )
        call.decide(decision)
        raise HttpFailure(FailureKind.NETWORK_DENIED, "leak", f"the request holds a secret: {rule}", decision=decision)


def _is_own_login(plan: PlannedRequest, match: LeakMatch) -> bool:
    """Return whether a finding is the login of the host's own client, in a header for logins.

    SECURITY: never a secret that the gateway has injected itself: that goes where the grant says, and nowhere else.
    """
    name = match.where.removeprefix("header:")
    in_login_header = plan.face is Face.HOST and name != match.where and is_sensitive(name)
    return in_login_header and not match.rule.startswith(SECRET_RULE)


def budget_of(plan: PlannedRequest) -> ExchangeBudget:
    """Start the request's budget: the shortest of the grant's time, the guest's and the call's, and the grant's cap."""
    http, timeout = plan.http, plan.http.timeout_seconds
    if plan.request.timeout_seconds is not None:
        timeout = min(timeout, max(0.0, plan.request.timeout_seconds))
    return ExchangeBudget(
        plan.url.origin,
        seconds=timeout,
        max_response_bytes=http.max_response_bytes,
        call=plan.call,
        http=http,
        wait_timeouts=plan.request.wait_timeouts,
    )


def inject(plan: PlannedRequest, renewed: Mapping[str, SecretValue] | None = None) -> Injected:
    """Put the credentials in, each of them watched by the call's scanner before."""
    try:
        credentials = plan.injector.fetch(plan.call.secrets, renewed=renewed)
    except HttpFailure as failure:
        if failure.decision is not None:
            plan.call.decide(failure.decision)
        raise
    for credential in credentials:
        for name, value in credential.wire_forms():
            _watch(plan.call, name, value)
    return plan.injector.place(credentials, plan.request.headers, plan.request.method, plan.request.body)


def _watch(call: EgressCall, name: str, value: str) -> None:
    call.watch(name, value)
    # SECURITY: a value too short to distinguish from a word would return unrecognised, so it is not sent.
    if len(value) < _SHORT_CHARS and not call.scanner.scan(value):
        raise HttpFailure(
            FailureKind.AUTH_REQUIRED,
            "credential-unusable",
            f"the secret {name} is too short to be recognised in an answer",
            hint=f"set a longer one: wasmrt secret set {name}",
        )


def renew(call: EgressCall, injected: Injected) -> dict[str, SecretValue]:
    """Ask for newer values of the credentials that the server has just refused; a store that fails has none."""
    if call.secrets is None:
        return {}
    newer = {}
    for name in injected.secret_names:
        with suppress(SecretError):
            if (secret := call.secrets.renewed(name)) is not None:
                newer[name] = secret
    return newer


def refuse(
    call: EgressCall,
    reason: Reason,
    rule: str,
    hint: str | None,
    kind: FailureKind = FailureKind.NETWORK_DENIED,
    *,
    subject: str = "",
) -> HttpFailure:
    """Record a refusal of the gateway's own and make the failure that reports it."""
    return denied(call, Decision(False, reason, rule, hint, "http", subject), kind)


def denied(call: EgressCall, decision: Decision, kind: FailureKind = FailureKind.NETWORK_DENIED) -> HttpFailure:
    """Record a refusal and make the failure that reports it."""
    # SECURITY: rule, hint and subject may quote the guest's URL, and a URL may hold a secret.
    scanner = call.scanner.partial
    # Use the recorded decision: a call with fewer effects than its grant gets that reason, not a hint to widen it.
    decision = decision.redacted(lambda text: _redact(scanner, text))
    recorded = call.decide(decision)
    decision = decision if recorded is None else recorded
    return HttpFailure(kind, str(decision.reason), decision.rule, decision=decision)


def _redact(scanner: LeakScanner, text: str) -> str:
    """Redact a text that quotes a request: by the rules for what a request may hold."""
    return scanner.redact(text, direction=Direction.OUTWARD)
