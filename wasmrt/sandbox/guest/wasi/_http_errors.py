"""The host's refusals in the words of `wasi:http@0.2`."""

from __future__ import annotations

from wasmrt.core.model import Reason
from wasmrt.sandbox.component import Case
from wasmrt.sandbox.guest.requests import HostFailure

DENIED = Case("HTTP-request-denied")
NO_URL = Case("HTTP-request-URI-invalid")
_OF_CODE = {
    str(Reason.ADDRESS_NOT_ALLOWED): Case("destination-IP-prohibited"),
    str(Reason.NO_ADDRESS): Case("DNS-error", {"rcode": None, "info-code": None}),
    str(Reason.INVALID_URL): NO_URL,
    str(Reason.REQUEST_BUDGET): Case("connection-limit-reached"),
    str(Reason.RATE_LIMITED): Case("connection-limit-reached"),
    "connect": Case("destination-unavailable"),
    "connection": Case("connection-terminated"),
    "tls": Case("TLS-protocol-error"),
    "tls-certificate": Case("TLS-certificate-error"),
    "protocol": Case("HTTP-protocol-error"),
    "invalid-request": Case("HTTP-protocol-error"),
    "content-coding": Case("HTTP-response-content-coding"),
}


def error_code(failure: HostFailure) -> Case:
    """Return the closest word of the package's own; a text where there is none."""
    code = failure.code
    if code == "timeout":
        return Case("HTTP-response-timeout" if failure.request_sent else "connection-timeout")
    if code == str(Reason.REQUEST_TOO_LARGE):
        return Case("HTTP-request-body-size", failure.limit_bytes)
    if code == str(Reason.RESPONSE_TOO_LARGE):
        return Case("HTTP-response-body-size", failure.limit_bytes)
    known = _OF_CODE.get(code)
    if known is not None:
        return known
    if failure.kind in ("network-denied", "auth-required") and failure.denied:
        return DENIED
    return Case("internal-error", f"{code}: {failure.message}")
