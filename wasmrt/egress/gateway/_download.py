"""A file from an address that a model chose: fetched through the gateway, from hosts that the operator allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urljoin

from wasmrt.capabilities import Capabilities, EndpointPattern, HttpCapability
from wasmrt.core.errors import SourceError
from wasmrt.core.model import Decision, Reason
from wasmrt.egress.gateway._failure import HttpFailure
from wasmrt.egress.gateway._gateway import EgressGateway
from wasmrt.egress.gateway._host import HostCall
from wasmrt.egress.gateway._model import Face, HttpRequest
from wasmrt.egress.leaks import LeakDetector, WatchedSecrets

_PORT = re.compile(r"([^:\[\]]+|\[[^\[\]]+\]):(\d{1,5})")
_MAX_REDIRECTS = 5
_SECONDS = 60.0
_REDIRECTS = (301, 302, 303, 307, 308)


def read_host(text: str) -> EndpointPattern:
    """Return the entry of an allowlist for a host, with a port behind it (`files.example.com:8443`) or without.

    Raises:
        ConfigurationError: it is none.
    """
    port = _PORT.fullmatch(text)
    ports = () if port is None else (int(port[2]),)
    return EndpointPattern(text if port is None else port[1], methods=("GET",), ports=ports)


def decide_download(url: str, hosts: Iterable[str], section: str) -> Decision | None:
    """Decide on an address that a model names; None where it is on a host that the operator allowed in `section`."""
    decision = Capabilities.none().with_http(_capability(hosts)).explain_http("GET", url)
    if decision.allowed:
        return None
    hint = f"the operator allows it: add the address's host to hosts in [{section}]"
    if decision.reason in (Reason.EMPTY_ALLOWLIST, Reason.HOST_NOT_ALLOWED):
        rule = "the operator allowed a model no address on this host"
        return Decision(False, Reason.HOST_NOT_ALLOWED, rule, hint, "tool.source", "url")
    if decision.reason is not Reason.PORT_NOT_ALLOWED:
        hint = "no setting allows it: name a public https:// address"
    return Decision(False, decision.reason, f"the address is refused: {decision.rule}", hint, "tool.source", "url")


def download(gateway: EgressGateway, url: str, hosts: Iterable[str], *, name: str, user: str, max_bytes: int) -> bytes:
    """Return the file at a URL: GET and https alone, without a credential. Every redirect passes every check again.

    `name` stands for the caller in rate limits.

    Raises:
        SourceError: its host is not allowed, its address is not a public one, or it cannot be had.
    """
    grant = Capabilities.none().with_http(_capability(hosts, max_bytes))
    call = HostCall(name, user, grant, None, WatchedSecrets(LeakDetector()))
    for _ in range(_MAX_REDIRECTS + 1):
        try:
            # SECURITY: the guest's face, whose every part is searched for secrets: a model wrote the URL.
            with gateway.open(call, HttpRequest("GET", url), face=Face.GUEST) as response:
                status, headers = response.status, dict(response.headers)
                body = response.read_all() if status == 200 else b""
        except HttpFailure as failure:
            raise SourceError(f"it was not fetched: {failure.message}", code=failure.code, hint=failure.hint) from None
        if status == 200:
            return body
        location = headers.get("location") or headers.get("Location")
        if status not in _REDIRECTS or not location:
            raise SourceError(f"it was not fetched: the server answered with status {status}", hint="check the address")
        url = urljoin(url, location)
    raise SourceError(f"it was not fetched: more than {_MAX_REDIRECTS} redirects", hint="name the last address")


def _capability(hosts: Iterable[str], max_bytes: int = 1) -> HttpCapability:
    allowed = tuple(map(read_host, hosts))
    return HttpCapability(allowlist=allowed, max_response_bytes=max_bytes, timeout_seconds=_SECONDS)
