"""A component that follows every redirect reaches only its grant, and its credential stays in its place."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urljoin

import pytest
from wasmrt.testing import FakeResolver, ReceivedRequest, ServerConnection, http_response

from wasmrt.core.errors import ToolError

from .live import ANSWERS, API, OTHER, SECRET, Live, live_web

MAX_HOPS = 8
START = f"https://{API}:{{api}}/api/private/start"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live_web(tmp_path_factory.mktemp("live"), FakeResolver(ANSWERS)) as live:
        yield live


@pytest.fixture
def live(served: Live) -> Live:
    served.clear()
    return served


def redirect(live: Live, location: str, status: int = 302, **more: str) -> None:
    """Let the start page redirect, and every other page answer."""

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        if not request.target.startswith("/api/private/start"):
            return http_response(f"at {request.target}".encode())
        return http_response(status=status, headers=(("Location", live.url(location)), *more.items()))

    live.script = script


def follow(live: Live, method: str = "GET") -> str:
    """Follow redirects with one call of a component for each hop; return the end, or the reason of the denial."""
    url = live.url(START)
    for _ in range(MAX_HOPS):
        try:
            headers = live.ask(url, method=method)
        except ToolError as error:
            return str(next(each.reason for each in error.decisions if not each.allowed))
        if "location" not in (named := {name.lower(): value for name, value in headers.items()}):
            return "arrived"
        try:
            url = urljoin(url, named["location"])
        except ValueError:
            return "not a URL"
    return "too many"


def check_credential(live: Live) -> None:
    """Check that only requests below the credential's path had it, and that no request had a referrer."""
    for server in live.servers.values():
        for request in server.requests:
            in_its_place = server is live.api and request.target.startswith("/api/private/")
            assert (SECRET.encode() in request.head) is in_its_place, request.head
            assert request.header("Referer") is None and request.header("Origin") is None
    assert live.inside.connections == live.plain.connections == 0


# The end of following a redirect to each location.
LOCATIONS = {
    "another granted host": (f"https://{OTHER}:{{other}}/x", "arrived"),
    "another granted host, relative to the scheme": (f"//{OTHER}:{{other}}/x", "arrived"),
    "another granted host, with the credential's path": (f"https://{OTHER}:{{other}}/api/private/x", "arrived"),
    "a host that is not granted": ("https://ungranted.example.com:{other}/x", "host-not-allowed"),
    "a host that begins with the granted one": (f"https://{API}.evil.example/api/", "host-not-allowed"),
    "a host that ends with the granted one": (f"https://evil-{API}/api/", "host-not-allowed"),
    "another port": (f"https://{API}:{{other}}/api/private/x", "port-not-allowed"),
    "http on the same host": (f"http://{API}:{{plain}}/api/private/x", "credential-insecure"),
    "http on another host": (f"http://{OTHER}:{{plain}}/x", "insecure-scheme"),
    "a private address": ("https://127.0.0.2:{inside}/x", "address-not-allowed"),
    "a name of a private address": ("https://inside.example.com:{inside}/x", "address-not-allowed"),
    "a name with a public and a private address": ("https://both.example.com:{inside}/x", "address-not-allowed"),
    "a name of a mapped private address": ("https://mapped.example.com:{inside}/x", "address-not-allowed"),
    "a name without an address": ("https://none.example.com:{inside}/x", "no-address"),
    "the metadata service": ("https://169.254.169.254/latest/meta-data/", "host-not-allowed"),
    "a path outside of the prefix": (f"https://{API}:{{api}}/admin", "path-not-allowed"),
    "a path above the prefix": ("/api/../admin", "path-not-allowed"),
    "an encoded path above the prefix": (f"https://{API}:{{api}}/api/%2e%2e/admin", "invalid-url"),
    "an encoded slash": (f"https://{API}:{{api}}/api/..%2fadmin", "invalid-url"),
    "a path without the credential": ("/api/open", "arrived"),
    "a path that begins like the credential's": ("/api/privateer", "arrived"),
    "another path with the credential": ("/api/private/x", "arrived"),
    "a login before the host": (f"https://user:password@{API}:{{api}}/api/x", "invalid-url"),
    "the granted host as a login": (f"https://{API}@{OTHER}:{{other}}/x", "invalid-url"),
    "the granted host before a backslash": (f"https://{API}\\@{OTHER}:{{other}}/x", "invalid-url"),
    "an encoded line break": ("/api/x%0d%0aHost:%20evil.example", "arrived"),
    "a file": ("file:///etc/passwd", "invalid-url"),
    "itself": ("/api/private/start", "too many"),
    "itself with another query": ("/api/private/start?again", "too many"),
}  # fmt: skip


@pytest.mark.parametrize("case", LOCATIONS)
def test_following_a_redirect_is_decided_anew(live: Live, case: str) -> None:
    location, end = LOCATIONS[case]
    redirect(live, location)
    assert follow(live) == end
    check_credential(live)


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_status_carries_the_credential_to_another_host(live: Live, status: int, method: str) -> None:
    redirect(live, f"https://{OTHER}:{{other}}/api/private/x", status)
    assert follow(live, method) == "arrived"
    assert [request.target for request in live.other.requests] == ["/api/private/x"]
    check_credential(live)


# Locations that contain the credential, which the server learned from the request.
CARRIED = {
    "in the query": f"https://{OTHER}:{{other}}/x?t={SECRET}",
    "in the path": f"https://{OTHER}:{{other}}/{SECRET}/x",
    "in the host": f"https://{SECRET.lower()}.example.com/x",
    "encoded": f"https://{OTHER}:{{other}}/x?t={''.join(f'%{ord(char):02x}' for char in SECRET)}",
    "reversed": f"https://{OTHER}:{{other}}/x?t={SECRET[::-1]}",
}


@pytest.mark.parametrize("case", CARRIED)
def test_a_location_does_not_carry_the_credential_to_another_host(live: Live, case: str) -> None:
    redirect(live, CARRIED[case])
    follow(live)
    sent = b"".join(request.head for request in live.other.requests).lower()
    for form in (SECRET, SECRET[::-1], CARRIED["encoded"].partition("=")[2]):
        assert form.lower().encode() not in sent
    check_credential(live)


CHAINS = {
    "an allowed hop, then a private address": ["/api/open", "https://127.0.0.2:{inside}/x"],
    "two hosts, and back": [f"https://{OTHER}:{{other}}/x"],
    "five hops, then another path": [*(f"/api/private/start{n}" for n in range(5)), "/admin"],
    "more hops than are followed": [f"/api/private/start{n}" for n in range(9)],
}


@pytest.mark.parametrize("case", CHAINS)
def test_every_hop_of_a_chain_is_decided(live: Live, case: str) -> None:
    hops = iter(CHAINS[case])

    def script(request: ReceivedRequest, connection: ServerConnection) -> bytes:
        hop = next(hops, None)
        return (
            http_response(b"end") if hop is None else http_response(status=307, headers=(("Location", live.url(hop)),))
        )

    live.script = script
    assert follow(live) in ("address-not-allowed", "arrived", "path-not-allowed", "too many")
    assert not {"/admin"} & {request.target for request in live.api.requests}
    assert len(live.api.requests) <= MAX_HOPS
    check_credential(live)


# Ways to ask for another page that are not a status with a location.
OTHER_WAYS = {
    "a refresh header": (200, (("Refresh", f"0; url=https://{OTHER}:{{other}}/x"),), b""),
    "a refresh in the page": (200, (), f'<meta http-equiv="refresh" content="0;url=//{OTHER}/x">'.encode()),
    "a content location": (200, (("Content-Location", f"https://{OTHER}:{{other}}/x"),), b""),
    "a link to preload": (200, (("Link", f"<https://{OTHER}:{{other}}/x>; rel=preload"),), b""),
    "another service": (200, (("Alt-Svc", 'h2="other.example.com:{other}"; ma=3600'),), b""),
    "300 with a location": (300, (("Location", f"https://{OTHER}:{{other}}/x"),), b""),
    "305 with a proxy": (305, (("Location", f"https://{OTHER}:{{other}}/"),), b""),
    "201 with a location": (201, (("Location", f"https://{OTHER}:{{other}}/x"),), b""),
}  # fmt: skip


@pytest.mark.parametrize("case", OTHER_WAYS)
def test_the_gateway_follows_nothing_by_itself(live: Live, case: str) -> None:
    status, headers, body = OTHER_WAYS[case]
    named = tuple((name, live.url(value)) for name, value in headers)
    live.script = lambda request, connection: http_response(body, status=status, headers=named)
    for _ in range(2):  # a remembered service would be used by the second request
        live.ask(live.url(START))
    assert len(live.api.requests) == 2 and not live.other.requests
    check_credential(live)
