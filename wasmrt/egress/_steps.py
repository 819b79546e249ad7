"""The steps of a request through the door, one function each: they pass, or refuse and put it on record."""

from __future__ import annotations

import time
from collections.abc import Sequence

from wasmrt.capabilities import AllowlistValidator, HttpCapability, describe_request, describe_unread
from wasmrt.egress._exchange import Bounds
from wasmrt.egress._headers import header_bytes, partial_header, request_problem
from wasmrt.egress._injector import CredentialInjector, Injected
from wasmrt.egress._model import DoorCall, FailureKind, HttpFailure, HttpRequest, SecretValue
from wasmrt.egress._parameters import overridden_method
from wasmrt.leaks import Direction
from wasmrt.model import Decision, Reason
from wasmrt.url import InvalidUrlError, Network, ParsedUrl, parse_url

_SHORT_CHARS = 16


def parse(call: DoorCall, request: HttpRequest) -> ParsedUrl:
    """Read the URL once: what is judged is what is sent."""
    try:
        return parse_url(request.url)
    except InvalidUrlError as error:
        # SECURITY: nothing could be read, so nothing is known of where a secret stands.
        subject = describe_unread(request.url, request.method, call.scanner.redact)
        raise refuse(call, Reason.INVALID_URL, error.message, error.hint, subject=subject) from None


def allow(call: DoorCall, url: ParsedUrl, request: HttpRequest, networks: Sequence[Network]) -> HttpCapability:
    """Ask the allowlist about the parsed URL: the very value that is sent later."""
    http = call.grant.http
    if http is None:
        raise denied(call, call.grant.explain_http(request.method, request.url, unsafe_allowed_networks=networks))
    decision = AllowlistValidator(http.allowlist, networks).check(url, request.method)
    if not decision.allowed:
        raise denied(call, decision)
    # What is on record is cut short, and so may be a secret in it.
    call.decide(decision._replace(subject=call.scanner.strict.redact(decision.subject)))
    return http


def check_headers(
    call: DoorCall, http: HttpCapability, injector: CredentialInjector, url: ParsedUrl, request: HttpRequest
) -> None:
    """Refuse headers that are the host's or the injector's, and what is too large."""
    body_bytes = len(request.body or b"")
    problem = request_problem(request.headers, body_bytes, injector.owned_headers(url)) or injector.query_problem(url)
    if problem is not None:
        raise refuse(call, Reason.HEADER_NOT_ALLOWED, problem, "leave it out; the host adds what is needed")
    # SECURITY: a server that echoes would hand a credential out in parts, each too short to be recognised.
    if (name := partial_header(request.headers)) is not None and injector.applies_to(url):
        rule = f"{name} asks for a part of an answer, and a request with a credential gets the whole or nothing"
        raise refuse(call, Reason.HEADER_NOT_ALLOWED, rule, "leave it out and ask for the whole")
    size = len(request.url) + header_bytes(request.headers) + body_bytes
    if size > http.max_request_bytes:
        rule = f"the request has {size} bytes, more than http.max_request_bytes"
        subject = describe_request(url, request.method)
        hint = f"send less, or raise http.max_request_bytes, now {http.max_request_bytes}"
        raise refuse(call, Reason.REQUEST_TOO_LARGE, rule, hint, FailureKind.INPUT, subject=subject)


def check_parameters(
    call: DoorCall, http: HttpCapability, url: ParsedUrl, request: HttpRequest, networks: Sequence[Network]
) -> None:
    """Refuse a parameter that would stand for the judged method."""
    validator = AllowlistValidator(http.allowlist, networks)
    denial = overridden_method(validator, url, request.method, request.headers, request.body)
    if denial is not None:
        rule = "the parameter _method may stand for a method that http.allowlist does not cover here"
        raise denied(call, denial._replace(rule=rule))


def scan(call: DoorCall, url: ParsedUrl, request: HttpRequest) -> None:
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


def bounds_of(call: DoorCall, http: HttpCapability, request: HttpRequest) -> Bounds:
    """Say until when the answer must be here, by the grant, the guest and the call, and how large it may be."""
    timeout = http.timeout_seconds
    if request.timeout_seconds is not None:
        timeout = min(timeout, max(0.0, request.timeout_seconds))
    return Bounds(min(call.deadline, time.monotonic() + timeout), timeout, http.max_response_bytes, http)


def inject(
    call: DoorCall,
    injector: CredentialInjector,
    url: ParsedUrl,
    request: HttpRequest,
    renewed: dict[str, SecretValue] | None = None,
) -> Injected:
    """Put the credentials in, each of them known to the call's scanner before."""

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


def renew(call: DoorCall, injected: Injected) -> dict[str, SecretValue]:
    """Ask for newer values of the credentials that the server has just refused."""
    if call.secrets is None:
        return {}
    newer = {name: call.secrets.renewed(name) for name in injected.secret_names}
    return {name: secret for name, secret in newer.items() if secret is not None}


def refuse(
    call: DoorCall,
    reason: Reason,
    rule: str,
    hint: str | None,
    kind: FailureKind = FailureKind.NETWORK_DENIED,
    *,
    subject: str = "",
) -> HttpFailure:
    """Record a refusal of the door's own and make the failure that tells it."""
    return denied(call, Decision(False, reason, rule, hint, "http", subject), kind)


def denied(call: DoorCall, decision: Decision, kind: FailureKind = FailureKind.NETWORK_DENIED) -> HttpFailure:
    """Record a refusal and make the failure that tells it."""
    # SECURITY: rule, hint and subject may quote the guest's URL, and a URL may hold a secret.
    clean = call.scanner.strict.redact  # they are cut short, and so may be the secret
    decision = decision.redacted(clean)
    call.decide(decision)
    return HttpFailure(kind, str(decision.reason), decision.rule, decision=decision)
