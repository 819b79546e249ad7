"""The steps of a request through the gateway, with one function for each step.

A step returns if the request passes, and otherwise records a denial and raises `HttpFailure`.
"""

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
    check_method_override,
    find_header_problem,
    header_bytes,
    is_sensitive,
    partial_header,
    remove_headers,
)
from wasmrt.egress.gateway._injector import Credential, CredentialInjector, Injected
from wasmrt.egress.gateway._model import EgressCall, Face, HttpFailure, HttpRequest, SecretValue
from wasmrt.egress.leaks import SECRET_RULE, Action, Direction, LeakMatch, LeakScanner
from wasmrt.sandbox.component.worlds import FailureKind

_SHORT_CHARS = 16


@dataclass(frozen=True, slots=True)
class PlannedRequest:
    """A request that the allowlist allows, with the values that later steps need."""

    call: EgressCall
    request: HttpRequest
    url: ParsedUrl
    http: HttpCapability
    allowlist: AllowlistValidator
    injector: CredentialInjector
    face: Face
    networks: Sequence[Network] = ()
    """Internal networks that are exempt from the address check for this request."""


def parse_request_url(call: EgressCall, request: HttpRequest) -> ParsedUrl:
    """Parse the URL. It is parsed only once, so that the URL that is checked is the URL that is sent."""
    try:
        return parse_url(request.url)
    except InvalidUrlError as error:
        # SECURITY: an unparsed URL may contain a secret anywhere.
        subject = describe_unread(request.url, request.method, lambda text: _redact(call.scanner, text))
        raise record_refusal(call, Reason.INVALID_URL, error.message, error.hint, subject=subject) from None


def check_allowlist(
    call: EgressCall, url: ParsedUrl, request: HttpRequest, networks: Sequence[Network], face: Face
) -> PlannedRequest:
    """Check the parsed URL against the allowlist, and return the values that later steps need."""
    http = call.grant.http
    if http is None:
        raise deny(call, call.grant.explain_http(request.method, request.url, unsafe_allowed_networks=networks))
    allowlist = AllowlistValidator(http.allowlist, networks, http.credentials)
    decision = allowlist.check(url, request.method)
    if not decision.allowed:
        raise deny(call, decision)
    call.decide(decision)
    injector = CredentialInjector(http, url)
    if face is Face.HOST:
        # A client library always sets its login header; the credential of the grant replaces it.
        request = replace(request, headers=remove_headers(request.headers, injector.owned_headers))
    exempt = allowlist.get_networks(url, request.method)
    return PlannedRequest(call, request, url, http, allowlist, injector, face, exempt)


def check_headers(plan: PlannedRequest) -> None:
    """Deny a request that is too large, or that sets headers or parameters which the host or the injector sets."""
    call, request, injector = plan.call, plan.request, plan.injector
    body_bytes = len(request.body or b"")
    problem = find_header_problem(request.headers, body_bytes, injector.owned_headers) or injector.query_problem()
    if problem is not None:
        raise record_refusal(call, Reason.HEADER_NOT_ALLOWED, problem, "leave it out; the host adds what is needed")
    # SECURITY: an echoing server could return a credential in partial responses, in pieces too short to be recognised.
    if (name := partial_header(request.headers)) is not None and injector.applies:
        rule = f"the header {name} requests a partial response, which is not allowed in a request with a credential"
        raise record_refusal(call, Reason.HEADER_NOT_ALLOWED, rule, "leave it out and request the complete response")
    size = len(request.url) + header_bytes(request.headers) + body_bytes
    if size > plan.http.max_request_bytes:
        rule = f"the request has {size} bytes, more than http.max_request_bytes"
        subject = describe_request(plan.url, request.method)
        hint = f"send less, or raise http.max_request_bytes, now {plan.http.max_request_bytes}"
        raise record_refusal(call, Reason.REQUEST_TOO_LARGE, rule, hint, FailureKind.INPUT, subject=subject)


def check_parameters(plan: PlannedRequest) -> None:
    """Deny a parameter that a server may treat as the request's method."""
    request = plan.request
    denial = check_method_override(plan.allowlist, plan.url, request.method, request.headers, request.body)
    if denial is not None:
        rule = "the parameter _method may select a method that http.allowlist does not allow here"
        raise deny(plan.call, denial._replace(rule=rule))


def scan_request(plan: PlannedRequest) -> None:
    """Search the request for secrets. This happens before injection, which adds the tool's credentials."""
    call, request = plan.call, plan.request
    report = call.scanner.scan_http_request(request.url, request.headers, request.body, direction=Direction.OUTWARD)
    blocking = (match for match in report.matches if match.action is Action.BLOCK and not _is_own_login(plan, match))
    if (found := next(blocking, None)) is not None:
        rule = f"{found.rule} in the request's {found.where.partition(':')[0]}"
        subject = f"{request.method} {plan.url.origin}"
        hint = "credentials are injected from http.credentials, and tools never handle them"
        decision = Decision(False, Reason.LEAK, rule, hint, "http", subject)
        call.decide(decision)
        raise HttpFailure(
            FailureKind.NETWORK_DENIED, "leak", f"the request contains a secret: {rule}", decision=decision
        )


def _is_own_login(plan: PlannedRequest, match: LeakMatch) -> bool:
    """Return whether a match is a credential that the host's own client has put into a login header.

    SECURITY: this is never the case for secrets that the gateway injects, which are only sent where the grant allows.
    """
    name = match.where.removeprefix("header:")
    in_login_header = plan.face is Face.HOST and name != match.where and is_sensitive(name)
    return in_login_header and not match.rule.startswith(SECRET_RULE)


def create_budget(plan: PlannedRequest) -> ExchangeBudget:
    """Create the budget: the grant's size limit, and the shortest of the timeouts of grant, guest and call."""
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


def inject_credentials(plan: PlannedRequest, renewed: Mapping[str, SecretValue] | None = None) -> Injected:
    """Make the call's scanner watch for each credential, then inject the credentials into the request."""
    try:
        credentials = plan.injector.fetch(plan.call.secrets, renewed=renewed)
    except HttpFailure as failure:
        if failure.decision is not None:
            plan.call.decide(failure.decision)
        raise
    for credential in credentials:
        for name, value in credential.iter_wire_forms():
            _watch(plan.call, credential, name, value)
    return plan.injector.place(credentials, plan.request.headers, plan.request.method, plan.request.body)


def _watch(call: EgressCall, credential: Credential, form: str, value: str) -> None:
    """Make the call's scanner watch for `value`, one form of a secret, under the name `form`."""
    call.watch(form, value)
    # SECURITY: a value that is too short to be recognised in a response is not sent.
    if len(value) < _SHORT_CHARS and not call.scanner.scan(value):
        raise HttpFailure(
            FailureKind.AUTH_REQUIRED,
            "credential-unusable",
            f"the secret {credential.mapping.secret_name} is too short to be recognised in a response",
            hint=f"set a longer one; {credential.hint_to_set}",
        )


def renew_credentials(call: EgressCall, injected: Injected) -> dict[str, SecretValue]:
    """Renew the credentials that the server refused, and return the renewed secrets by name."""
    if call.secrets is None:
        return {}
    newer = {}
    for name in injected.secret_names:
        with suppress(SecretError):
            if (secret := call.secrets.renewed(name)) is not None:
                newer[name] = secret
    return newer


def record_refusal(
    call: EgressCall,
    reason: Reason,
    rule: str,
    hint: str | None,
    kind: FailureKind = FailureKind.NETWORK_DENIED,
    *,
    subject: str = "",
) -> HttpFailure:
    """Record that the gateway denies the request, and return the failure to raise."""
    return deny(call, Decision(False, reason, rule, hint, "http", subject), kind)


def deny(call: EgressCall, decision: Decision, kind: FailureKind = FailureKind.NETWORK_DENIED) -> HttpFailure:
    """Record a denial and return the failure to raise."""
    decision = call.decide(decision)
    return HttpFailure(kind, str(decision.reason), decision.rule, decision=decision)


def _redact(scanner: LeakScanner, text: str) -> str:
    """Redact a text that quotes a request, with the rules for outgoing text."""
    return scanner.redact(text, direction=Direction.OUTWARD)
